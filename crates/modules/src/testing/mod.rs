//! A worker in the process of a test: what the program does between its command line and its first connection.
//!
//! The unit tests of this crate and `tests/requests` use it; no server does. A worker has one loop, and reads no files and
//! opens no sockets by itself: a test passes them.

mod configuration;
mod panics;
mod worker;

pub use configuration::{ConfigurationRefusal, ReadConfiguration, Surroundings, read};
pub use worker::{RunningWorker, WorkerStart};
