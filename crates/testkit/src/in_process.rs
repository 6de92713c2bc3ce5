//! A worker in the test's own process, as a server under test.
//!
//! The harness knows no crate of the server: a test binary that has them starts the worker. Such a server has its own
//! folder, ports, logs and listening sockets, as every [`TestServer`](crate::TestServer), but no process. What a test does
//! with a process panics: signals, reloads, standard error, the file of the configuration.

use std::fmt::Debug;
use std::path::Path;

/// A worker in the test's own process. Dropping it ends it, after which its logs are complete.
pub trait InProcessWorker: Debug + Send {}

/// The configuration that a worker in the test's own process has to serve by.
#[derive(Debug)]
pub struct WorkerConfiguration<'a> {
    /// The text: an `error_log` and the block `http`.
    pub text: &'a str,
    /// The server's own folder, which relative paths begin at.
    pub folder: &'a Path,
}
