//! The order in which streams send: the most urgent first, incremental ones of one urgency in turns (RFC 9218 section 10).

use std::collections::VecDeque;

use super::stream::Slot;
use crate::priority::{Priority, URGENCIES};

/// The streams by urgency.
type Queues = [VecDeque<Slot>; URGENCIES];

const _: () = assert!(URGENCIES <= u8::BITS as usize, "each queue has a bit");

/// The streams that can send.
///
/// Invariants: a bit of `filled` is set exactly if its queue has a stream. No stream is in two places.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Made when they are needed first: few connections ever have streams that wait for each other.
    queues: Option<Box<Queues>>,
    /// A bit for each queue that is not empty.
    filled: u8,
}

impl Schedule {
    #[inline]
    fn queue(&mut self, urgency: usize) -> &mut VecDeque<Slot> {
        &mut self.queues.get_or_insert_default()[urgency]
    }

    /// Adds a stream.
    pub(super) fn push(&mut self, slot: Slot, priority: Priority) {
        let urgency = usize::from(priority.urgency).min(URGENCIES - 1);
        debug_assert!(self.queue(urgency).back() != Some(&slot), "a stream waits twice");
        self.queue(urgency).push_back(slot);
        self.filled |= 1 << urgency;
    }

    /// Puts the stream that was taken out last back in front of its queue: it is sent as a whole before the others.
    pub(super) fn put_back(&mut self, slot: Slot, priority: Priority) {
        let urgency = usize::from(priority.urgency).min(URGENCIES - 1);
        debug_assert!(self.queue(urgency).front() != Some(&slot), "a stream waits twice");
        self.queue(urgency).push_front(slot);
        self.filled |= 1 << urgency;
    }

    /// Takes out the stream that sends next.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Slot> {
        if self.filled == 0 {
            return None;
        }
        let urgency = self.filled.trailing_zeros() as usize;
        let queue = self.queue(urgency);
        let slot = queue.pop_front();
        debug_assert!(slot.is_some(), "an empty queue says that it has a stream");
        if queue.is_empty() {
            self.filled &= !(1 << urgency);
        }
        slot
    }

    /// Takes a stream out, wherever it stands.
    pub(super) fn remove(&mut self, slot: Slot) {
        for (urgency, queue) in self.queues.iter_mut().flat_map(|queues| queues.iter_mut()).enumerate() {
            queue.retain(|other| *other != slot);
            if queue.is_empty() {
                self.filled &= !(1 << urgency);
            }
        }
    }

    /// Whether no stream can send.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Compares the bits with the queues, and returns how often each stream is in them.
    pub(super) fn check_invariants(&self, slot: Slot) -> usize {
        let mut times = 0;
        for (urgency, queue) in self.queues.iter().flat_map(|queues| queues.iter()).enumerate() {
            let is_filled = self.filled & 1 << urgency != 0;
            debug_assert_eq!(is_filled, !queue.is_empty(), "the queue of urgency {urgency}");
            times += queue.iter().filter(|other| **other == slot).count();
        }
        times
    }

    /// Number of bytes of memory on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let of = |queues: &Queues| {
            let slots: usize = queues.iter().map(|queue| queue.capacity() * size_of::<Slot>()).sum();
            size_of::<Queues>() + slots
        };
        self.queues.as_deref().map_or(0, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_streams_come_first_and_each_queue_keeps_its_order() {
        let mut schedule = Schedule::default();
        let priority = |urgency, incremental| Priority { urgency, incremental };
        for (slot, urgency) in [(1, 3), (2, 3), (3, 0), (4, 7), (5, 0)] {
            schedule.push(Slot(slot), priority(urgency, true));
        }
        assert_eq!(schedule.pop(), Some(Slot(3)));
        schedule.push(Slot(3), priority(0, true));
        assert_eq!(schedule.pop(), Some(Slot(5)));
        schedule.put_back(Slot(5), priority(0, false));
        assert_eq!(schedule.pop(), Some(Slot(5)));
        schedule.remove(Slot(2));
        let rest: Vec<_> = std::iter::from_fn(|| schedule.pop()).map(|slot| slot.0).collect();
        assert_eq!(rest, [3, 1, 4]);
        assert!(schedule.is_empty());
    }
}
