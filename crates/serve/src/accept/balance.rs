//! Moves connections from loops that have more than their share: of connections, for the day when all of them wake up, or of
//! work.
//!
//! What a connection costs is not known. But the connections that have just answered a request are those that cause the
//! work, and some of them, as they come, carry a part of it like any other.

use std::time::{Duration, Instant};

use super::loop_listeners;
use crate::loops::shared::{Loops, SharedState};

/// Time between two comparisons of the numbers of connections.
const PERIOD: Duration = Duration::from_millis(200);

/// Time between two comparisons of the work of the loops, each of the work since the last one.
const WORK_PERIOD: Duration = Duration::from_secs(1);

/// A loop has too much if it has more than 13 tenths of the mean.
const TENTHS: u64 = 13;

const _: () = assert!(TENTHS > 10, "a loop that has as much as the others gives nothing away");
const _: () = assert!(PERIOD.as_millis() < WORK_PERIOD.as_millis(), "work is compared at one of several looks");

/// The most connections that a loop gives away at a time.
const MOST: u64 = 64;

/// Number of connections that a loop may have more than the others in any case.
const FEW: u64 = 64;

/// A loop that works for less than this part of the time has no need of help.
const PART: u32 = 5;

/// The connections of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    index: usize,
    /// All of them.
    open: u64,
    /// Connections without a request.
    idle: u64,
}

/// The work of a loop in some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoopWork {
    index: usize,
    /// For how long it was in polls of tasks, in microseconds.
    busy: u64,
    /// Number of requests that have begun.
    requests: u64,
    /// Number of its connections.
    open: u64,
}

/// An order that connections go from one loop to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    from: usize,
    to: usize,
    count: u64,
}

/// Compares the loops.
pub(super) struct Balance {
    looked: Instant,
    worked: Instant,
    /// Time that each loop had been in polls, and number of requests that it had begun, when their work was compared last.
    before: Vec<(u64, u64)>,
    /// The loop that had too much work last, and how many connections it was to give away.
    last: Option<(usize, u64)>,
}

impl Balance {
    pub(super) fn new() -> Balance {
        let now = Instant::now();
        Balance { looked: now, worked: now, before: Vec::new(), last: None }
    }

    /// Has connections moved, if it is time to look and a loop has too many, or too much work.
    pub(super) fn look(&mut self, shared: &SharedState) {
        let now = Instant::now();
        if now.saturating_duration_since(self.looked) < PERIOD {
            return;
        }
        self.looked = now;
        let loops = shared.loops.load();
        let loads: Vec<Load> = loops
            .taking()
            .filter(|(index, _)| !shared.drained.has(*index))
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
            debug_assert!(from != to, "connections go to the loop that they are on");
            loop_listeners::tell(shared, from, move |services| {
                loop_listeners::give_idle(services, count as usize, to);
            });
        }
        let time = now.saturating_duration_since(self.worked);
        if time >= WORK_PERIOD {
            self.worked = now;
            self.compare_work(shared, &loops, time);
        }
    }

    fn compare_work(&mut self, shared: &SharedState, loops: &Loops, time: Duration) {
        let now: Vec<(u64, u64)> =
            loops.stats.iter().map(|stats| (stats.polls.sum_us(), stats.requests.get())).collect();
        let taking = || loops.taking().filter(|(index, _)| !shared.drained.has(*index));
        let all: Vec<LoopWork> = taking()
            .filter_map(|(index, stats)| {
                // What a new loop has done so far was done in less time.
                let (before, now) = (self.before.get(index)?, now.get(index)?);
                let (busy, requests) = (now.0.wrapping_sub(before.0), now.1.wrapping_sub(before.1));
                Some(LoopWork { index, busy, requests, open: stats.active.get() })
            })
            .collect();
        self.before = now;
        let order = if all.len() == taking().count() { work(&all, time) } else { None };
        // A few at first: some connections may cause most of the work.
        let order = order.map(|order| match self.last {
            Some((from, count)) if from == order.from => Order { count: order.count.min(2 * count), ..order },
            _ => Order { count: 1, ..order },
        });
        self.last = order.map(|order| (order.from, order.count));
        for index in &loops.serving {
            let Some(shedding) = loops.shedding.get(*index) else { continue };
            match order {
                Some(Order { from, to, count }) if from == *index => shedding.order_some(to, count as u32),
                _ => shedding.rest(),
            }
        }
    }
}

/// Whether a number is too far above the mean of all.
fn is_too_much(one: u64, all: impl Iterator<Item = u64>, count: usize) -> bool {
    let sum: u64 = all.sum();
    one.saturating_mul(10 * count as u64) > sum.saturating_mul(TENTHS)
}

/// Number of idle connections that go from the loop with most connections to the loop with fewest.
fn idle(loads: &[Load]) -> Option<Order> {
    let most = loads.iter().max_by_key(|load| load.open)?;
    let fewest = loads.iter().min_by_key(|load| load.open)?;
    let is_more = most.open > fewest.open + FEW;
    if !is_more || !is_too_much(most.open, loads.iter().map(|load| load.open), loads.len()) {
        return None;
    }
    let count = ((most.open - fewest.open) / 2).min(most.idle).min(MOST);
    (count > 0).then_some(Order { from: most.index, to: fewest.index, count })
}

/// The most connections that cause work and go from the loop that has worked longest of this time to the loop that has worked
/// least.
fn work(all: &[LoopWork], time: Duration) -> Option<Order> {
    let most = all.iter().max_by_key(|work| work.busy)?;
    let least = all.iter().min_by_key(|work| work.busy)?;
    let is_busy = u128::from(most.busy) > (time / PART).as_micros();
    if !is_busy || !is_too_much(most.busy, all.iter().map(|work| work.busy), all.len()) {
        return None;
    }
    let mean = all.iter().map(|work| work.busy).sum::<u64>() / all.len() as u64;
    // Connections that have had a request, as far as is known.
    let active = most.open.min(most.requests);
    // If one of them went, the other loop would have as much as this one has now.
    if active < 2 || least.busy + most.busy / active >= most.busy {
        return None;
    }
    let too_much = (most.busy - mean).min(mean - least.busy);
    let count = (active * too_much).div_ceil(most.busy).min(MOST);
    (count > 0).then_some(Order { from: most.index, to: least.index, count })
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
        assert_eq!(order(&[load(0, 1000, 900), load(1, 100, 100)]), Some((0, 1, MOST)));
        assert_eq!(order(&[load(0, 1000, 3), load(1, 100, 100)]), Some((0, 1, 3)));
        assert_eq!(order(&[load(0, 1000, 0), load(1, 100, 100)]), None);
        assert_eq!(order(&[load(0, 60, 60), load(1, 0, 0)]), None, "a few");
        assert_eq!(order(&[load(0, 1000, 900), load(1, 800, 800)]), None);
    }

    #[test]
    fn connections_that_cause_work_go_where_there_is_less() {
        let of = |busy: &[(u64, u64, u64)]| {
            let all = busy.iter().enumerate();
            let all = all.map(|(index, (percent, requests, open))| LoopWork {
                index,
                busy: percent * 10_000,
                requests: *requests,
                open: *open,
            });
            work(&all.collect::<Vec<_>>(), WORK_PERIOD).map(|Order { from, to, count }| (from, to, count))
        };
        assert_eq!(of(&[(10, 900, 40), (90, 900, 40)]), Some((1, 0, 18)));
        assert_eq!(of(&[(100, 900, 10), (0, 0, 0), (0, 0, 0), (0, 0, 0)]), Some((0, 1, 3)));
        assert_eq!(of(&[(90, 100_000, 4000), (10, 900, 40)]), Some((0, 1, MOST)));
        assert_eq!(of(&[(60, 900, 40), (50, 900, 40)]), None, "less than 1.3 times the mean");
        assert_eq!(of(&[(19, 900, 40), (0, 0, 0)]), None, "both have time");
        assert_eq!(of(&[(100, 50, 1), (0, 0, 0)]), None, "one connection alone causes the work of one loop");
        assert_eq!(of(&[(100, 1, 9), (0, 0, 0)]), None, "or one request does");
        assert_eq!(of(&[(40, 50, 2), (20, 50, 1)]), None, "the other loop would have what this one has");
        assert_eq!(of(&[(100, 50, 2), (0, 0, 0)]), Some((0, 1, 1)));
        assert_eq!(of(&[]), None);
    }
}
