//! A bound on the memory that many requests together hold for long: the share of each request is bounded elsewhere, and
//! clients decide how many requests there are.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A number of bytes that all requests share. It takes no lock, and a request never waits: if it gets no bytes, it
/// reports that to its client.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    taken: AtomicU64,
}

impl Budget {
    /// A budget of this number of bytes.
    pub const fn new(most: u64) -> Budget {
        Budget { most, taken: AtomicU64::new(0) }
    }

    /// A share of zero bytes, which can grow.
    pub fn share(&'static self) -> Share {
        Share { budget: self, bytes: 0 }
    }

    /// The bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }
}

/// The budget has fewer bytes left than were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{taken} of {most} bytes for such answers are in use")]
pub struct BudgetExhausted {
    /// The bytes that are taken.
    pub taken: u64,
    /// The size of the budget in bytes.
    pub most: u64,
}

/// A part of a budget, given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: &'static Budget,
    bytes: u64,
}

impl Share {
    /// Takes more bytes.
    ///
    /// # Errors
    /// The budget has not this number of bytes left; the share keeps its bytes.
    pub fn grow(&mut self, bytes: u64) -> Result<(), BudgetExhausted> {
        let Budget { most, taken } = self.budget;
        let grown = taken.fetch_update(Relaxed, Relaxed, |taken| taken.checked_add(bytes).filter(|sum| sum <= most));
        let _before = grown.map_err(|taken| BudgetExhausted { taken, most: *most })?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let before = self.budget.taken.fetch_sub(self.bytes, Relaxed);
        debug_assert!(before >= self.bytes, "{} bytes are given back of {before} that are taken", self.bytes);
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
        assert_eq!(two.grow(41), Err(BudgetExhausted { taken: 60, most: 100 }));
        two.grow(40).unwrap();
        assert!(one.grow(1).is_err() && one.grow(u64::MAX).is_err());
        drop(one);
        two.grow(60).unwrap();
        assert_eq!(BUDGET.taken(), 100);
        drop(two);
        assert_eq!(BUDGET.taken(), 0);
    }
}
