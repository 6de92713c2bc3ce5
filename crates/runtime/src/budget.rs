//! Memory that many requests hold for long, bounded as a sum: what each may have is bounded elsewhere, and how many there are
//! is for the clients to say.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// So many bytes for all who ask. No lock, and nobody waits: who gets nothing says so to its client.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    taken: AtomicU64,
}

impl Budget {
    /// So many bytes together.
    pub const fn new(most: u64) -> Budget {
        Budget { most, taken: AtomicU64::new(0) }
    }

    /// A share of nothing, to grow.
    pub fn share(&'static self) -> Share {
        Share { budget: self, bytes: 0 }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }
}

/// There is not that much left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{taken} of {most} bytes for such answers are in use")]
pub struct Exhausted {
    /// Bytes that are taken.
    pub taken: u64,
    /// Bytes that there are.
    pub most: u64,
}

/// A part of a budget, given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: &'static Budget,
    bytes: u64,
}

impl Share {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// There are not so many left; it keeps what it has.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let Budget { most, taken } = self.budget;
        let grown = taken.fetch_update(Relaxed, Relaxed, |taken| taken.checked_add(bytes).filter(|sum| sum <= most));
        let _before = grown.map_err(|taken| Exhausted { taken, most: *most })?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_bounded_and_what_is_dropped_comes_back() {
        static BUDGET: Budget = Budget::new(100);
        let (mut one, mut two) = (BUDGET.share(), BUDGET.share());
        one.grow(60).unwrap();
        assert_eq!(two.grow(41), Err(Exhausted { taken: 60, most: 100 }));
        two.grow(40).unwrap();
        assert!(one.grow(1).is_err() && one.grow(u64::MAX).is_err());
        drop(one);
        two.grow(60).unwrap();
        assert_eq!(BUDGET.taken(), 100);
        drop(two);
        assert_eq!(BUDGET.taken(), 0);
    }
}
