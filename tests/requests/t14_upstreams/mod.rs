//! Servers behind: those that no group names.

pub mod unnamed_servers;
