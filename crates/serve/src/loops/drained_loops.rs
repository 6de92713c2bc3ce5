//! Which loops take no new connections, because an administrator wants it so.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;

/// The loops that take no new connections, by their numbers. Any thread may change or read it, without waiting.
#[derive(Debug, Default)]
pub struct DrainedLoops(ArcSwap<BTreeSet<usize>>);

/// Nothing has changed: no loop would be left that takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no other loop takes connections")]
pub struct LastLoop;

impl DrainedLoops {
    /// Whether a loop takes no new connections.
    pub fn has(&self, index: usize) -> bool {
        self.0.load().contains(&index)
    }

    /// Has one of the loops that `serving` gives take no new connections, or take them again. A reload may remove loops at
    /// the same moment: it does so before it has all take connections again, and `serving` is asked again after that.
    ///
    /// # Errors
    /// It is the last loop that takes connections.
    pub fn set(&self, index: usize, drained: bool, serving: impl Fn() -> Vec<usize>) -> Result<(), LastLoop> {
        let mut refused = false;
        self.0.rcu(|all| {
            let mut next = BTreeSet::clone(all);
            let _ = if drained { next.insert(index) } else { next.remove(&index) };
            refused = drained && serving().iter().all(|loop_index| next.contains(loop_index));
            if refused { all.clone() } else { Arc::new(next) }
        });
        if refused { Err(LastLoop) } else { Ok(()) }
    }

    /// Has all loops take connections again.
    pub fn clear(&self) {
        self.0.store(Arc::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loop_is_always_left() {
        let drained = DrainedLoops::default();
        let two = || vec![0, 1];
        assert_eq!(drained.set(0, true, || vec![0]), Err(LastLoop));
        assert_eq!((drained.set(0, true, two), drained.set(0, true, two)), (Ok(()), Ok(())));
        assert_eq!(drained.set(1, true, two), Err(LastLoop));
        assert!(drained.has(0) && !drained.has(1));
        assert_eq!((drained.set(0, false, two), drained.set(1, true, two)), (Ok(()), Ok(())));
        assert!(!drained.has(0) && drained.has(1));
        // One that is drained and gone is none that is left.
        assert_eq!((drained.set(2, true, || vec![0, 2]), drained.set(0, true, || vec![0, 3])), (Ok(()), Ok(())));
        assert_eq!(drained.set(3, true, || vec![0, 3]), Err(LastLoop));
        drained.clear();
        assert!(!drained.has(1));
    }

    #[test]
    fn a_reload_that_removes_loops_meanwhile_is_noticed() {
        let drained = DrainedLoops::default();
        let asked = std::cell::Cell::new(0);
        let refused = drained.set(0, true, || {
            asked.set(asked.get() + 1);
            if asked.get() > 1 {
                return vec![0];
            }
            // It has removed the other loop when this is done.
            drained.clear();
            vec![0, 1]
        });
        assert_eq!((refused, drained.has(0)), (Err(LastLoop), false));
    }

    #[test]
    fn several_at_a_time_leave_one() {
        for _ in 0..100 {
            let drained = DrainedLoops::default();
            let drain = |index| drained.set(index, true, || vec![0, 1]).is_ok();
            let both = std::thread::scope(|scope| {
                let [one, other] = [0, 1].map(|index| scope.spawn(move || drain(index)));
                [one.join().unwrap(), other.join().unwrap()]
            });
            assert_eq!(both.iter().filter(|done| **done).count(), 1);
            assert_eq!([drained.has(0), drained.has(1)], both);
        }
    }
}
