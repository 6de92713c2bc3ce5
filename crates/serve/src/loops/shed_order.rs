//! Orders to a loop to give connections to other loops.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of connections that stands for all.
const ALL: u32 = u32::MAX;

/// The loop that connections are to go to, and how many: another thread orders it, the loop follows when a connection has
/// answered a request. Zero, or one more than the index of the other loop with the number of connections above it.
#[derive(Debug, Default)]
pub struct ShedOrder(AtomicU64);

impl ShedOrder {
    /// Orders that all connections go to the loop with this index, from now on.
    pub fn order(&self, to: usize) {
        self.0.store(order(to, ALL), Relaxed);
    }

    /// Orders that the next `count` connections that have answered a request go to the loop with this index, unless all are
    /// to go.
    pub fn order_some(&self, to: usize, count: u32) {
        debug_assert!(0 < count && count < ALL, "{count} connections stand for none, or for all");
        self.unless_all(order(to, count));
    }

    /// Withdraws what was ordered, unless all connections are to go.
    pub fn rest(&self) {
        self.unless_all(0);
    }

    /// Withdraws what was ordered in any case.
    pub fn end(&self) {
        self.0.store(0, Relaxed);
    }

    fn unless_all(&self, order: u64) {
        // It fails when all are to go: whoever orders some may not know yet that the loop is to end.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |known| ((known >> 32) as u32 != ALL).then_some(order));
    }

    /// The loop that the next connection goes to, if one is to go.
    #[inline]
    pub fn to(&self) -> Option<usize> {
        // Half of it is the loop.
        (self.0.load(Relaxed) as u32).checked_sub(1).map(|index| index as usize)
    }

    /// Notes that a connection goes.
    pub fn spend(&self) {
        // It fails when nothing is ordered any more.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |order| {
            let count = (order >> 32) as u32;
            match count {
                0 => None,
                ALL => Some(order),
                1 => Some(0),
                _ => Some(order - (1 << 32)),
            }
        });
    }
}

/// The order that `count` connections go to this loop.
fn order(to: usize, count: u32) -> u64 {
    let to = u32::try_from(to).unwrap_or(ALL).saturating_add(1);
    u64::from(count) << 32 | u64::from(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_go_as_were_ordered() {
        let shedding = ShedOrder::default();
        assert_eq!(shedding.to(), None);
        shedding.spend();
        shedding.order_some(0, 2);
        for expected in [Some(0), Some(0), None, None] {
            assert_eq!(shedding.to(), expected);
            shedding.spend();
        }
        shedding.order(7);
        for _ in 0..10 {
            shedding.spend();
            assert_eq!(shedding.to(), Some(7));
        }
        shedding.order_some(1, 2);
        shedding.rest();
        assert_eq!(shedding.to(), Some(7), "all go");
        shedding.end();
        assert_eq!(shedding.to(), None);
        shedding.order_some(1, 2);
        shedding.rest();
        assert_eq!(shedding.to(), None);
    }
}
