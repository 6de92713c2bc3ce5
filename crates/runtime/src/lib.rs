//! Event loops, sockets, thread pools, probing file operations, logs, stall accounting.

pub mod stats;
