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

use bytes::Bytes;

use crate::generation::{Generation, Location, Server};
use crate::listen::Servers;

/// A thing that all loops share; cloning it concerns no other loop.
// An allocation more for each loop, so that its count is the loop's own.
#[allow(clippy::redundant_allocation)]
pub struct Here<T>(Rc<Arc<T>>);

impl<T> Here<T> {
    /// A first one; others of the same thing are better made by cloning it.
    pub fn new(shared: Arc<T>) -> Here<T> {
        Here(Rc::new(shared))
    }

    /// Whether it is this thing.
    pub fn is(&self, other: &Arc<T>) -> bool {
        Arc::ptr_eq(&self.0, other)
    }

    /// Whether both are the same thing.
    pub fn is_same(&self, other: &Here<T>) -> bool {
        self.place() == other.place()
    }

    /// Where it is in memory.
    pub fn place(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl<T> Clone for Here<T> {
    fn clone(&self) -> Self {
        Here(self.0.clone())
    }
}

impl<T> Deref for Here<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The one of each thing that this loop has; as many as the generation has of them at most.
struct Handles<T>(RefCell<HashMap<*const T, Here<T>, BuildHasherDefault<AddressHasher>>>);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles(RefCell::default())
    }
}

impl<T> Handles<T> {
    fn get(&self, of: &Arc<T>) -> Here<T> {
        // The handle keeps the thing where it is, so that no other one comes to its address.
        let mut handles = self.0.borrow_mut();
        handles.entry(Arc::as_ptr(of)).or_insert_with(|| Here::new(of.clone())).clone()
    }
}

/// Spreads addresses of memory, which are multiples of 8 or more.
#[derive(Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        self.write_u64(address as u64);
    }

    fn write_u64(&mut self, address: u64) {
        // The golden ratio: what differs anywhere below differs in the highest bits, which are brought to both ends.
        self.0 = (self.0 ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// The servers of an address, as one loop holds them, with what each of their requests begins with.
pub struct Answering {
    servers: Arc<Servers>,
    /// The default server.
    pub server: Here<Server>,
    /// The default server's own level.
    pub entry: Here<Location>,
}

impl Deref for Answering {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

/// A generation, as one loop holds it, with its handles of what is in it.
pub struct Current {
    // In this order: the generation's memory is given back elsewhere as soon as the last loop has let go of it.
    addresses: RefCell<HashMap<*const Servers, Rc<Answering>, BuildHasherDefault<AddressHasher>>>,
    locations: Handles<Location>,
    servers: Handles<Server>,
    texts: RefCell<HashMap<*const u8, Bytes, BuildHasherDefault<AddressHasher>>>,
    generation: Arc<Generation>,
}

impl Current {
    /// The generation on this loop.
    pub fn new(generation: Arc<Generation>) -> Rc<Current> {
        let (locations, servers, addresses, texts) = Default::default();
        Rc::new(Current { locations, servers, addresses, texts, generation })
    }

    /// The generation, for other threads.
    pub fn shared(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// A location of this generation.
    pub fn location(&self, location: &Arc<Location>) -> Here<Location> {
        self.locations.get(location)
    }

    /// A virtual server of this generation.
    pub fn server(&self, server: &Arc<Server>) -> Here<Server> {
        self.servers.get(server)
    }

    /// A text that stands in this generation, in memory that this loop counts for itself.
    pub fn text(&self, text: &[u8]) -> Bytes {
        if text.is_empty() {
            return Bytes::new();
        }
        let mut texts = self.texts.borrow_mut();
        let kept = texts.entry(text.as_ptr()).or_insert_with(|| Bytes::copy_from_slice(text));
        if *kept != *text {
            *kept = Bytes::copy_from_slice(text);
        }
        kept.clone()
    }

    /// The servers of one of its addresses.
    pub fn servers(&self, servers: &Arc<Servers>) -> Rc<Answering> {
        let mut addresses = self.addresses.borrow_mut();
        let known = addresses.entry(Arc::as_ptr(servers)).or_insert_with(|| {
            let (server, entry) = (self.server(&servers.default), self.location(&servers.default.entry));
            Rc::new(Answering { servers: servers.clone(), server, entry })
        });
        known.clone()
    }
}

impl Deref for Current {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_counted_once_for_all_its_handles() {
        let (one, other) = (Arc::new(1), Arc::new(1));
        let handles = Handles::default();
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
