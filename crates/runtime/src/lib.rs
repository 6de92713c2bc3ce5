//! Event loops, sockets, thread pools, probing file operations, logs, stall accounting.

pub mod arrival_era;
pub mod budget;
pub mod buffers;
mod clock;
pub mod deadline;
pub mod events;
pub mod files;
pub mod host;
pub mod log;
mod loop_stats;
pub mod loops;
mod mailbox;
pub mod mounts;
pub mod net;
pub mod per_loop;
pub mod pieces;
pub mod pool;
pub mod spare_memory;
mod stalls;
pub mod stats;
pub mod tasks;
mod thread_times;
pub mod timer;
mod turn;
pub mod waiter;
pub mod watch;
mod woken_task;
