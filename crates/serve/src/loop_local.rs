//! What all loops share, as one of them holds it.
//!
//! Each clone of an `Arc` writes to its count. A request makes a dozen of them, of the same few things whatever the client
//! asks for, and when loops on several processors do so, the counts' memory moves between them all the time. So each loop
//! has one `Arc` of each thing that it uses, and counts for itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A thing that all loops share; cloning it concerns no other loop.
// An allocation more for each loop, so that its count is the loop's own.
#[allow(clippy::redundant_allocation)]
pub struct LoopLocal<T>(Rc<Arc<T>>);

impl<T> LoopLocal<T> {
    /// A first one; others of the same thing are better made by cloning it.
    pub fn new(shared: Arc<T>) -> LoopLocal<T> {
        LoopLocal(Rc::new(shared))
    }

    /// Whether it is this thing.
    pub fn is(&self, other: &Arc<T>) -> bool {
        Arc::ptr_eq(&self.0, other)
    }

    /// Whether both are the same thing.
    pub fn is_same(&self, other: &LoopLocal<T>) -> bool {
        self.place() == other.place()
    }

    /// Where it is in memory.
    pub fn place(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl<T> Clone for LoopLocal<T> {
    fn clone(&self) -> Self {
        LoopLocal(self.0.clone())
    }
}

impl<T> Deref for LoopLocal<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The handles that a loop has, one for each thing of this type; as many as the generation has of them at most.
pub struct LoopHandles<T>(RefCell<HashMap<*const T, LoopLocal<T>, BuildHasherDefault<AddressHasher>>>);

impl<T> Default for LoopHandles<T> {
    fn default() -> Self {
        LoopHandles(RefCell::default())
    }
}

impl<T> LoopHandles<T> {
    /// The handle of this thing; the first time that it is asked for, one is made.
    pub fn get(&self, of: &Arc<T>) -> LoopLocal<T> {
        // The handle keeps the thing where it is, so that no other one comes to its address.
        let mut handles = self.0.borrow_mut();
        handles.entry(Arc::as_ptr(of)).or_insert_with(|| LoopLocal::new(of.clone())).clone()
    }
}

/// Spreads addresses of memory, which are multiples of 8 or more.
#[derive(Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        self.write_u64(address as u64);
    }

    #[inline]
    fn write_u64(&mut self, address: u64) {
        // The golden ratio: what differs anywhere below differs in the highest bits, which are brought to both ends.
        self.0 = (self.0 ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_counted_once_for_all_its_handles() {
        let (one, other) = (Arc::new(1), Arc::new(1));
        let handles = LoopHandles::default();
        let held: Vec<_> = (0..10).map(|_| (handles.get(&one), handles.get(&other))).collect();
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (2, 2));
        assert!(held.iter().all(|(first, second)| first.is(&one) && second.is(&other) && **first == 1));
        drop((handles, held));
        assert_eq!(Arc::strong_count(&one), 1);
    }

    #[test]
    fn neighbours_are_spread() {
        let hash = |address: usize| {
            let mut hasher = AddressHasher::default();
            hasher.write_usize(address);
            hasher.finish()
        };
        for step in [8, 64, 4096] {
            let low: std::collections::HashSet<_> = (0..64).map(|n| hash(0x7f00_0000_0000 + n * step) & 127).collect();
            assert!(low.len() > 30, "{step}: {}", low.len());
        }
    }
}
