//! Queues whose entries can leave from any position: entering and leaving take the same short time however many there
//! are.

/// The place of an entry, valid from when it enters until it leaves. Whoever has entered it keeps the number of its queue,
/// so that the entry does not: there are thousands of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    index: u32,
    queue: u32,
}

/// The index that stands for no entry.
const NONE: u32 = u32::MAX;

/// Several queues of `T`, each for one kind `K`. There are as many queues as kinds were in use at the same time.
pub struct Queues<K, T> {
    entries: Vec<QueueEntry<T>>,
    /// The first of the unused places; each of them holds the index of the next one.
    free: u32,
    queues: Vec<Queue<K>>,
}

/// An entry, or a free place for one.
pub(super) struct QueueEntry<T> {
    what: Option<T>,
    before: u32,
    after: u32,
}

struct Queue<K> {
    kind: K,
    first: u32,
    last: u32,
}

impl<K, T> Default for Queues<K, T> {
    fn default() -> Self {
        Queues { entries: Vec::new(), free: NONE, queues: Vec::new() }
    }
}

impl<K: Copy + PartialEq, T> Queues<K, T> {
    /// Enters `what` as the last entry of its kind.
    // Each request ends here, and the compiler would leave it a call of its own, now that two kinds of connections use it.
    #[inline(always)]
    pub fn enter(&mut self, kind: K, what: T) -> Place {
        let queue = self.queue(kind);
        let before = std::mem::replace(&mut self.queues[queue].last, NONE);
        let entry = QueueEntry { what: Some(what), before, after: NONE };
        let index = match self.entries.get_mut(self.free as usize) {
            Some(free) => {
                debug_assert!(free.what.is_none(), "an entry in use is replaced");
                std::mem::replace(&mut self.free, std::mem::replace(free, entry).after)
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.queues[queue].last = index;
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = index,
            None => self.queues[queue].first = index,
        }
        Place { index, queue: queue as u32 }
    }

    /// The queue of a kind; an empty queue is used for a new kind.
    fn queue(&mut self, kind: K) -> usize {
        if let Some(known) = self.queues.iter().position(|queue| queue.kind == kind) {
            return known;
        }
        let queue = Queue { kind, first: NONE, last: NONE };
        match self.queues.iter().position(|queue| queue.first == NONE) {
            Some(empty) => {
                self.queues[empty] = queue;
                empty
            }
            None => {
                self.queues.push(queue);
                self.queues.len() - 1
            }
        }
    }

    /// Takes an entry out, with its kind; `None` if all entries were taken out meanwhile.
    #[inline]
    pub fn leave(&mut self, place: Place) -> Option<(K, T)> {
        let entry = self.entries.get_mut(place.index as usize)?;
        let what = entry.what.take()?;
        let (before, after) = (entry.before, std::mem::replace(&mut entry.after, self.free));
        let queue = &mut self.queues[place.queue as usize];
        debug_assert!((before == NONE) == (queue.first == place.index), "the queue begins with another entry");
        debug_assert!((after == NONE) == (queue.last == place.index), "the queue ends with another entry");
        self.free = place.index;
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = after,
            None => queue.first = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(entry) => entry.before = before,
            None => queue.last = before,
        }
        Some((queue.kind, what))
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.first == NONE)
    }

    /// The queues, each with its kind and its entries, the first entry first.
    pub fn iter(&self) -> impl Iterator<Item = (K, impl Iterator<Item = &T>)> {
        self.queues.iter().map(move |queue| {
            let mut next = queue.first;
            let entries = std::iter::from_fn(move || {
                let entry = self.entries.get(next as usize)?;
                next = entry.after;
                entry.what.as_ref()
            });
            (queue.kind, entries)
        })
    }

    /// Returns the entries in `size` places from `from` on, in no particular order, and where the next part begins;
    /// `None` behind the last place.
    pub fn part(&self, from: usize, size: usize) -> Option<(impl Iterator<Item = &T>, usize)> {
        let rest = self.entries.get(from..).filter(|rest| !rest.is_empty())?;
        Some((rest.iter().take(size).filter_map(|entry| entry.what.as_ref()), from + size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn shown(queues: &Queues<u8, u32>) -> Vec<(u8, Vec<u32>)> {
        let mut all: Vec<_> = queues.iter().map(|(kind, entries)| (kind, entries.copied().collect())).collect();
        all.retain(|(_, entries): &(u8, Vec<u32>)| !entries.is_empty());
        all.sort();
        all
    }

    #[test]
    fn each_queue_keeps_its_order_whoever_leaves() {
        let mut queues = Queues::default();
        let mut model: Vec<(u8, VecDeque<u32>)> = (0..3).map(|kind| (kind, VecDeque::new())).collect();
        let mut places = Vec::new();
        let mut random = 7_u64;
        for number in 0..5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let choice = (random >> 33) as usize;
            if choice % 100 < 55 || places.is_empty() {
                let kind = (choice / 100 % 3) as u8;
                places.push((queues.enter(kind, number), kind, number));
                model[usize::from(kind)].1.push_back(number);
            } else {
                let (place, kind, number) = places.swap_remove(choice / 100 % places.len());
                assert_eq!(queues.leave(place), Some((kind, number)));
                model[usize::from(kind)].1.retain(|other| *other != number);
            }
            let expected = model.iter().filter(|(_, entries)| !entries.is_empty());
            let expected: Vec<_> = expected.map(|(kind, entries)| (*kind, Vec::from(entries.clone()))).collect();
            if number % 50 == 0 {
                assert_eq!(shown(&queues), expected);
            }
        }
        let (mut from, mut seen) = (0, Vec::new());
        while let Some((part, next)) = queues.part(from, 16) {
            seen.extend(part.copied());
            from = next;
        }
        seen.sort_unstable();
        let mut there: Vec<_> = places.iter().map(|(.., number)| *number).collect();
        there.sort_unstable();
        assert_eq!(seen, there);
        for (place, ..) in places {
            assert!(queues.leave(place).is_some());
        }
        assert!(queues.is_empty());
        assert_eq!(queues.leave(Place { index: 0, queue: 0 }), None);
    }

    #[test]
    fn places_and_queues_are_used_again() {
        let mut queues = Queues::default();
        for kind in 0..100_u8 {
            let places: Vec<_> = (0..10).map(|number| queues.enter(kind, number)).collect();
            for place in places {
                assert!(queues.leave(place).is_some());
            }
        }
        queues.enter(1, 1);
        assert_eq!((queues.entries.len(), queues.queues.len()), (10, 1));
    }
}
