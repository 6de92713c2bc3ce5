//! Which object is evicted: S3-FIFO ("FIFO queues are all you need for cache eviction", SOSP 2023), by bytes.
//!
//! A new object goes into a *small* queue, which has a tenth of all bytes. An object that was requested more than once
//! before it comes out moves on to the *main* queue. The others are evicted, and their names stay in a *ghost* list for
//! a while: an object that comes back meanwhile goes to the main queue at once. In the main queue, an object that was
//! asked for gets another round. So a scan, however long, passes through the small queue only, and a hit moves nothing:
//! it adds one to a count that ends at three.
//!
//! This is pure code, used by one thread; `index/simulate.rs` runs the same code over traces.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// The highest count of hits.
pub(crate) const MAX_FREQUENCY: u8 = 3;

/// The share of all bytes that the small queue may have: one byte in this many.
const SMALL_SHARE: u64 = 10;

/// Gone items are removed from a queue when they are more than this and more than half of it.
const MAX_GONE: usize = 1024;

const _: () =
    assert!(SMALL_SHARE > 2, "new objects must not have more of the room than those that were asked for again");

/// Which queue an item is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Place {
    /// The item is in no queue.
    None,
    /// The queue of new objects.
    Small,
    /// The queue of objects that were asked for repeatedly.
    Main,
}

impl Place {
    pub(crate) fn of(byte: u8) -> Place {
        match byte {
            1 => Place::Small,
            2 => Place::Main,
            _ => Place::None,
        }
    }
}

/// Something that can be evicted; a handle to it that is cheap to clone.
pub(crate) trait Item: Clone {
    /// The item's name in the ghost list.
    fn fingerprint(&self) -> u64;
    /// The bytes that the item takes up.
    fn bytes(&self) -> u64;
    /// Hits since the item was last looked at, up to [`MAX_FREQUENCY`].
    fn frequency(&self) -> u8;
    fn set_frequency(&self, frequency: u8);
    /// Whether the item was removed by another thread, which does the rest.
    fn is_gone(&self) -> bool;
    fn place(&self) -> Place;
    fn set_place(&self, place: Place);
}

/// A queue, the oldest item first.
///
/// Invariants: `bytes` is the sum over the items that have not left, `gone` is the number of those that have. An item that
/// has left stays in its place until the queue is cleaned out, and is in no other queue.
#[derive(Debug)]
struct Queue<I> {
    items: VecDeque<I>,
    bytes: u64,
    /// The number of items in the queue that have already left.
    gone: usize,
}

impl<I: Item> Queue<I> {
    fn new() -> Queue<I> {
        Queue { items: VecDeque::new(), bytes: 0, gone: 0 }
    }

    fn push(&mut self, item: I, place: Place) {
        debug_assert!(place != Place::None && item.place() == Place::None, "an item is in one queue at a time");
        item.set_place(place);
        self.bytes += item.bytes();
        self.items.push_back(item);
    }

    /// Takes out the oldest item that has not left.
    fn pop(&mut self) -> Option<I> {
        while let Some(item) = self.items.pop_front() {
            if item.place() == Place::None {
                debug_assert!(self.gone > 0, "an item has left without being counted");
                self.gone = self.gone.saturating_sub(1);
                continue;
            }
            debug_assert!(self.bytes >= item.bytes(), "the queue has fewer bytes than its oldest item");
            self.bytes = self.bytes.saturating_sub(item.bytes());
            item.set_place(Place::None);
            return Some(item);
        }
        debug_assert!(self.bytes == 0 && self.gone == 0, "an empty queue has an account");
        None
    }

    fn forget(&mut self, item: &I) {
        debug_assert!(self.bytes >= item.bytes() && self.gone < self.items.len(), "the item is in another queue");
        item.set_place(Place::None);
        self.bytes = self.bytes.saturating_sub(item.bytes());
        self.gone += 1;
        if self.gone > MAX_GONE && self.gone > self.items.len() / 2 {
            self.items.retain(|item| item.place() != Place::None);
            self.gone = 0;
        }
    }

    fn len(&self) -> usize {
        debug_assert!(self.gone <= self.items.len(), "more items have left than were in the queue");
        self.items.len() - self.gone
    }

    /// Compares the accounts with all items.
    #[cfg(test)]
    fn check_invariants(&self, own: Place) {
        let (gone, here): (Vec<&I>, Vec<&I>) = self.items.iter().partition(|item| item.place() == Place::None);
        assert_eq!((gone.len(), here.iter().map(|item| item.bytes()).sum::<u64>()), (self.gone, self.bytes));
        assert!(here.iter().all(|item| item.place() == own), "an item says that it is in another queue");
    }
}

/// The names of items that were evicted without having been asked for again, up to as many bytes of items as the main
/// queue has.
///
/// Invariants: each name in `names` is in `order` with the same time, and `bytes` is the sum over `order`.
#[derive(Debug, Default)]
struct Ghosts {
    /// The name, its bytes, and how many times the name has come into the list.
    order: VecDeque<(u64, u64, u32)>,
    names: FxHashMap<u64, u32>,
    bytes: u64,
    time: u32,
}

impl Ghosts {
    fn remember(&mut self, name: u64, bytes: u64) {
        self.time = self.time.wrapping_add(1);
        self.names.insert(name, self.time);
        self.order.push_back((name, bytes, self.time));
        self.bytes += bytes;
        debug_assert!(self.names.len() <= self.order.len(), "a name could never leave the list");
    }

    fn take(&mut self, name: u64) -> bool {
        self.names.remove(&name).is_some()
    }

    fn shrink(&mut self, bytes: u64, count: usize) {
        while self.bytes > bytes || self.order.len() > count {
            let Some((name, size, time)) = self.order.pop_front() else { break };
            debug_assert!(self.bytes >= size, "the list has fewer bytes than its oldest name");
            self.bytes = self.bytes.saturating_sub(size);
            if self.names.get(&name) == Some(&time) {
                self.names.remove(&name);
            }
        }
        debug_assert!(self.names.len() <= self.order.len(), "a name has stayed without its place in the order");
        debug_assert!(!self.order.is_empty() || self.bytes == 0, "an empty list has an account");
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        assert_eq!(self.order.iter().map(|(_, bytes, _)| bytes).sum::<u64>(), self.bytes);
        let has_place = |(name, time)| self.order.iter().any(|(other, _, then)| (other, then) == (name, time));
        assert!(self.names.iter().all(has_place), "a name has no place in the order");
    }
}

/// The queues.
#[derive(Debug)]
pub(crate) struct Policy<I> {
    small: Queue<I>,
    main: Queue<I>,
    ghosts: Ghosts,
    /// The limit of the names of evicted items that are kept.
    max_ghosts: usize,
    /// Place at which the last [`survey`](Policy::survey) ended.
    cursor: usize,
}

impl<I: Item> Policy<I> {
    /// Queues for at most `max_items`; the caller keeps to this limit.
    pub(crate) fn new(max_items: usize) -> Policy<I> {
        Policy { small: Queue::new(), main: Queue::new(), ghosts: Ghosts::default(), max_ghosts: max_items, cursor: 0 }
    }

    /// Takes in a new item.
    pub(crate) fn insert(&mut self, item: I) {
        if self.ghosts.take(item.fingerprint()) {
            self.main.push(item, Place::Main);
        } else {
            self.small.push(item, Place::Small);
        }
    }

    /// Takes in an item for the main queue: it was there before a restart, or replaces an item there.
    pub(crate) fn insert_main(&mut self, item: I) {
        self.main.push(item, Place::Main);
    }

    /// Lets an item go that was removed elsewhere. True if it was in a queue.
    pub(crate) fn forget(&mut self, item: &I) -> bool {
        match item.place() {
            Place::None => return false,
            Place::Small => self.small.forget(item),
            Place::Main => self.main.forget(item),
        }
        true
    }

    /// Chooses the next item to evict and lets it go. Of the items that it has to move on its way, none is moved more
    /// often than it was asked for, three times at most.
    pub(crate) fn evict(&mut self) -> Option<I> {
        loop {
            let small_is_full = self.small.bytes.saturating_mul(SMALL_SHARE) >= self.small.bytes + self.main.bytes;
            if self.small.len() > 0 && (small_is_full || self.main.len() == 0) {
                let Some(item) = self.small.pop() else { continue };
                self.cursor = self.cursor.saturating_sub(1);
                if item.is_gone() {
                    continue;
                }
                if item.frequency() > 1 {
                    item.set_frequency(0);
                    self.main.push(item, Place::Main);
                    continue;
                }
                self.ghosts.remember(item.fingerprint(), item.bytes());
                self.ghosts.shrink(self.main.bytes.max(self.small.bytes), self.max_ghosts);
                debug_assert!(self.ghosts.order.len() <= self.max_ghosts, "the list of names has outgrown its limit");
                return Some(item);
            }
            let item = self.main.pop()?;
            if item.is_gone() {
                continue;
            }
            let frequency = item.frequency();
            // Otherwise an item could be moved around for ever.
            debug_assert!(frequency <= MAX_FREQUENCY, "an item counts {frequency} hits");
            if frequency > 0 {
                item.set_frequency(frequency - 1);
                self.main.push(item, Place::Main);
                continue;
            }
            return Some(item);
        }
    }

    /// Looks at the next `count` items, in a circle over all of them, as long as `look` returns true.
    pub(crate) fn survey(&mut self, count: usize, mut look: impl FnMut(&I) -> bool) {
        let total = self.small.items.len() + self.main.items.len();
        for _ in 0..count.min(total) {
            if self.cursor >= total {
                self.cursor = 0;
            }
            let small = self.small.items.len();
            let item = match self.cursor.checked_sub(small) {
                None => self.small.items.get(self.cursor),
                Some(index) => self.main.items.get(index),
            };
            self.cursor += 1;
            if let Some(item) = item
                && item.place() != Place::None
                && !look(item)
            {
                return;
            }
        }
    }

    /// All items, in the order in which they would have to be inserted to make the same queues.
    pub(crate) fn items(&self) -> impl Iterator<Item = &I> {
        self.main.items.iter().chain(&self.small.items).filter(|item| item.place() != Place::None)
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Compares all accounts with all items: for tests.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.small.check_invariants(Place::Small);
        self.main.check_invariants(Place::Main);
        self.ghosts.check_invariants();
        assert_eq!(self.items().count(), self.len());
    }
}
