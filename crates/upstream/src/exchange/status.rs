//! State of a shared connection that all threads see.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::Waker;

/// State of a connection that all threads see.
#[derive(Debug)]
pub(crate) struct ConnectionStatus {
    /// Number of streams that it carries at a time; 0: it takes no further ones.
    pub(crate) streams: AtomicUsize,
    /// Nobody will begin a stream any more.
    pub(crate) is_left: AtomicBool,
    /// The connection's task.
    pub(crate) task: OnceLock<Waker>,
}

impl ConnectionStatus {
    /// The state of a new connection that carries this number of streams at a time.
    pub(crate) fn new(streams: usize) -> ConnectionStatus {
        let (is_left, task) = Default::default();
        ConnectionStatus { streams: AtomicUsize::new(streams), is_left, task }
    }

    /// Notes that nobody will begin a stream any more.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Relaxed);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}
