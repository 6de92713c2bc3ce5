//! Moves connections from loops that have more than their share: idle ones, for the day when they all wake up.

use std::time::{Duration, Instant};

use super::loop_listeners;
use crate::shared::Shared;

/// How often the loops are compared.
const PERIOD: Duration = Duration::from_millis(200);

/// A loop has too much if it has more than 13 tenths of the mean.
const TENTHS: u64 = 13;

/// The most idle connections that a loop gives away in one period.
const MOST_IDLE: u64 = 64;

/// How many connections more than the others a loop may have in any case.
const FEW: u64 = 64;

/// The connections of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    index: usize,
    /// All of them.
    open: u64,
    /// Those without a request.
    idle: u64,
}

/// So many connections are to go from one loop to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    from: usize,
    to: usize,
    count: u64,
}

/// Compares the loops.
pub(super) struct Balance {
    looked: Instant,
}

impl Balance {
    pub(super) fn new() -> Balance {
        Balance { looked: Instant::now() }
    }

    /// Has connections moved, if it is time to look and a loop has too many.
    pub(super) fn look(&mut self, shared: &Shared) {
        let now = Instant::now();
        if now.saturating_duration_since(self.looked) < PERIOD {
            return;
        }
        self.looked = now;
        let loops = shared.loops.load();
        let loads: Vec<Load> = loops
            .taking()
            .map(|(index, stats)| {
                let (open, idle) = (stats.active.get(), stats.idle.get());
                Load { index, open, idle: idle.min(open) }
            })
            .collect();
        // A loop that takes no connections any more gives away all.
        if let Some(fewest) = loads.iter().min_by_key(|load| load.open) {
            let ending = loops.shedding.iter().enumerate().filter(|(index, _)| !loops.serving.contains(index));
            ending.for_each(|(_, shedding)| shedding.order(fewest.index));
        }
        if let Some(Order { from, to, count }) = idle(&loads) {
            loop_listeners::tell(shared, from, move |services| {
                loop_listeners::give_idle(services, count as usize, |_| Some(to));
            });
        }
    }
}

/// Whether a number is too far above the mean of all.
fn is_too_much(one: u64, all: impl Iterator<Item = u64>, count: usize) -> bool {
    let sum: u64 = all.sum();
    one.saturating_mul(10 * count as u64) > sum.saturating_mul(TENTHS)
}

/// How many idle connections are to go from the loop that has most connections to the one that has fewest.
fn idle(loads: &[Load]) -> Option<Order> {
    let most = loads.iter().max_by_key(|load| load.open)?;
    let fewest = loads.iter().min_by_key(|load| load.open)?;
    let is_more = most.open > fewest.open + FEW;
    if !is_more || !is_too_much(most.open, loads.iter().map(|load| load.open), loads.len()) {
        return None;
    }
    let count = ((most.open - fewest.open) / 2).min(most.idle).min(MOST_IDLE);
    (count > 0).then_some(Order { from: most.index, to: fewest.index, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(index: usize, open: u64, idle: u64) -> Load {
        Load { index, open, idle }
    }

    #[test]
    fn idle_connections_go_where_there_are_fewer() {
        let order = |loads: &[Load]| idle(loads).map(|Order { from, to, count }| (from, to, count));
        assert_eq!(order(&[load(0, 1000, 900), load(1, 100, 100)]), Some((0, 1, MOST_IDLE)));
        assert_eq!(order(&[load(0, 1000, 3), load(1, 100, 100)]), Some((0, 1, 3)));
        assert_eq!(order(&[load(0, 1000, 0), load(1, 100, 100)]), None);
        assert_eq!(order(&[load(0, 60, 60), load(1, 0, 0)]), None, "a few");
        assert_eq!(order(&[load(0, 1000, 900), load(1, 800, 800)]), None);
    }
}
