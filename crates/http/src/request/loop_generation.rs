//! A generation as one loop holds it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use freerun_serve::loop_local::{AddressHasher, LoopHandles, LoopLocal};

use crate::generation::Generation;

use super::location::{Location, Server};
use crate::listen::Servers;

/// The servers of an address, as one loop holds them, with what each of their requests begins with.
pub struct Answering {
    servers: Arc<Servers>,
    /// The default server.
    pub server: LoopLocal<Server>,
    /// The default server's own level.
    pub entry: LoopLocal<Location>,
}

impl Deref for Answering {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

/// A generation, as one loop holds it, with its handles of what is in it.
pub struct LoopGeneration {
    // In this order: the generation's memory is given back elsewhere as soon as the last loop has let go of it.
    addresses: RefCell<HashMap<*const Servers, Rc<Answering>, BuildHasherDefault<AddressHasher>>>,
    locations: LoopHandles<Location>,
    servers: LoopHandles<Server>,
    texts: RefCell<HashMap<*const u8, Bytes, BuildHasherDefault<AddressHasher>>>,
    generation: Arc<Generation>,
}

impl LoopGeneration {
    /// The generation on this loop.
    pub fn new(generation: Arc<Generation>) -> Rc<LoopGeneration> {
        let (locations, servers, addresses, texts) = Default::default();
        Rc::new(LoopGeneration { locations, servers, addresses, texts, generation })
    }

    /// The generation, for other threads.
    pub fn shared(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// A location of this generation.
    pub fn location(&self, location: &Arc<Location>) -> LoopLocal<Location> {
        self.locations.get(location)
    }

    /// A virtual server of this generation.
    pub fn server(&self, server: &Arc<Server>) -> LoopLocal<Server> {
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

impl Deref for LoopGeneration {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.generation
    }
}
