//! The file operations: with a kernel whose answers the tests decide, and with the one that runs.

mod ahead;
mod atime;
mod fake;
mod ladder;
mod naming;
mod opening;
mod real;
mod sending;
