//! Work that no client waits for any more, but that a worker waits for when it ends gracefully.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The number of pieces of such work.
#[derive(Debug, Default)]
pub struct Backgrounds(AtomicUsize);

impl Backgrounds {
    /// The number of pieces. A caller that sees the end of one also sees its effects, such as one more connection.
    pub fn count(&self) -> usize {
        self.0.load(Acquire)
    }
}

/// A piece of work that no client waits for.
pub struct Background(Arc<Backgrounds>);

impl Background {
    /// Begins a piece of work, which ends when this value is dropped.
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
