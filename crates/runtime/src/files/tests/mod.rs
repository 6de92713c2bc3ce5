//! Tests of the file operations: with a kernel whose answers the tests decide, and with the running one.

mod ahead;
mod atime;
mod fake;
mod features;
mod ladder;
mod naming;
mod opening;
mod real;
mod sending;
