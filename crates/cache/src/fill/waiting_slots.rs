//! The followers of a fill: where each one is, and how it is woken.

use std::task::{Context, Waker};

use smallvec::SmallVec;

/// The tasks to wake when the lock is released.
pub(super) type Wakes = SmallVec<[Waker; 8]>;

/// The most followers of one fill besides its leader; requests beyond them ask the origin themselves.
pub(super) const MAX_SEATS: usize = 1 << 16;

#[derive(Debug, Default)]
struct Seat {
    taken: bool,
    /// The next byte that this follower wants.
    at: u64,
    waker: Option<Waker>,
}

/// The followers of a fill.
///
/// Invariants: `free` has exactly the seats that are not taken, each once. A follower only goes forward. A seat that is not
/// taken has no waker. Two followers in one seat would each get half of the bytes, so this is checked in every build.
#[derive(Debug, Default)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    free: Vec<usize>,
}

impl Seats {
    /// The number of followers.
    pub(super) fn len(&self) -> usize {
        debug_assert!(self.free.len() <= self.seats.len(), "a seat is free twice");
        self.seats.len() - self.free.len()
    }

    /// Adds a follower; `None` if there are [`MAX_SEATS`]. There is always one more seat for the leader.
    pub(super) fn take(&mut self, at: u64, leads: bool) -> Option<usize> {
        let seat = Seat { taken: true, at, waker: None };
        if let Some(index) = self.free.pop() {
            assert!(!self.seats[index].taken, "seat {index} is given to a second follower");
            self.seats[index] = seat;
            return Some(index);
        }
        if self.seats.len() >= MAX_SEATS && !leads {
            return None;
        }
        debug_assert!(self.seats.len() <= MAX_SEATS, "the one seat beyond the limit was the leader's");
        self.seats.push(seat);
        Some(self.seats.len() - 1)
    }

    pub(super) fn leave(&mut self, index: usize) {
        assert!(self.seats[index].taken, "a follower leaves seat {index} twice");
        self.seats[index] = Seat::default();
        self.free.push(index);
    }

    pub(super) fn at(&self, index: usize) -> u64 {
        self.seats[index].at
    }

    pub(super) fn go_to(&mut self, index: usize, at: u64) {
        let seat = &mut self.seats[index];
        debug_assert!(seat.taken && at >= seat.at, "a follower goes back from byte {} to {at}", seat.at);
        seat.at = at;
    }

    /// Has a follower woken with the next change.
    pub(super) fn wait(&mut self, index: usize, context: &Context<'_>) {
        debug_assert!(self.seats[index].taken, "nobody waits in seat {index}");
        let waker = &mut self.seats[index].waker;
        match waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }

    /// Collects the wakers of all waiting followers.
    pub(super) fn wake(&mut self, wakes: &mut Wakes) {
        wakes.extend(self.seats.iter_mut().filter_map(|seat| seat.waker.take()));
    }

    /// The follower that is furthest behind, and where it is.
    pub(super) fn slowest(&self) -> Option<(usize, u64)> {
        let taken = self.seats.iter().enumerate().filter(|(_, seat)| seat.taken);
        taken.map(|(index, seat)| (index, seat.at)).min_by_key(|(_, at)| *at)
    }
}
