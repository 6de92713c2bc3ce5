//! Where the connections of a loop go that takes none any more.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The loop that connections are to go to: another thread orders it, the loop follows when a connection has no request.
#[derive(Debug, Default)]
pub struct Shedding(AtomicUsize);

impl Shedding {
    /// Orders that all connections go to the loop with this index.
    pub fn order(&self, to: usize) {
        self.0.store(to + 1, Relaxed);
    }

    /// The loop that connections go to, if they are to go.
    #[inline]
    pub fn to(&self) -> Option<usize> {
        self.0.load(Relaxed).checked_sub(1)
    }
}
