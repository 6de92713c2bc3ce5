//! Servers behind: groups and their balancing, kept connections, names, health, HTTP/2.

pub mod balancing;
