//! Work that no client waits for any more, and that a worker that ends gracefully waits for all the same.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many pieces of such work there are.
#[derive(Debug, Default)]
pub struct Backgrounds(AtomicUsize);

impl Backgrounds {
    /// As many as that. Who sees the end of one sees also what it left, such as a connection more.
    pub fn count(&self) -> usize {
        self.0.load(Acquire)
    }
}

/// A piece of work that no client waits for.
pub struct Background(Arc<Backgrounds>);

impl Background {
    /// It begins; it is over when this is dropped.
    pub fn new(all: &Arc<Backgrounds>) -> Background {
        all.0.fetch_add(1, Relaxed);
        Background(all.clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Release);
    }
}
