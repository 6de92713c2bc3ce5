//! Objects that all loops share, as one of them holds them.
//!
//! Each clone of an `Arc` writes to its reference count. A request clones the same few objects about a dozen times, whatever
//! the client asks for. When loops on several processors do so, the cache lines of the counts move between them all the
//! time. So each loop has one `Arc` of each object that it uses, and counts its references itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// An object that all loops share; cloning it does not touch memory of other loops.
// Each loop has one more allocation, so that the count is its own.
#[allow(clippy::redundant_allocation)]
pub struct LoopLocal<T>(Rc<Arc<T>>);

impl<T> LoopLocal<T> {
    /// A first reference; further references to the same object are better made by cloning it.
    pub fn new(shared: Arc<T>) -> LoopLocal<T> {
        LoopLocal(Rc::new(shared))
    }

    /// The object, for another loop.
    pub fn shared(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }

    /// Whether it refers to this object.
    pub fn is(&self, other: &Arc<T>) -> bool {
        Arc::ptr_eq(&self.0, other)
    }

    /// Whether both refer to the same object.
    pub fn is_same(&self, other: &LoopLocal<T>) -> bool {
        self.place() == other.place()
    }

    /// The address of the object in memory.
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

/// The references that a loop holds, one for each object of this type; at most as many as the generation has objects.
pub struct LoopHandles<T>(RefCell<HashMap<*const T, LoopLocal<T>, BuildHasherDefault<AddressHasher>>>);

impl<T> Default for LoopHandles<T> {
    fn default() -> Self {
        LoopHandles(RefCell::default())
    }
}

impl<T> LoopHandles<T> {
    /// The reference to this object, which is made at the first call.
    pub fn get(&self, of: &Arc<T>) -> LoopLocal<T> {
        // The reference keeps the object at its address, so that no other object gets the same one.
        let mut handles = self.0.borrow_mut();
        handles.entry(Arc::as_ptr(of)).or_insert_with(|| LoopLocal::new(of.clone())).clone()
    }
}

/// A hasher for memory addresses, which are multiples of 8 or more.
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
        // Multiplying by the golden ratio carries differences of low bits to the highest bits, and the rotation brings
        // them to both ends.
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
