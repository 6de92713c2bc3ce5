//! Event loops, sockets, thread pools, probing file operations, logs, stall accounting.

pub mod buffers;
pub mod log;
pub mod loops;
pub mod net;
pub mod stats;
pub mod timer;
pub mod pool;
pub mod mounts;
pub mod files;
