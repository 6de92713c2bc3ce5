//! The configuration of stream: as it is read, and as one loop holds it while it serves.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use freerun_serve::build::names::VirtualServers;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::generation_sockets::{Listen, Listens};
use freerun_serve::loops::local::{LoopHandles, LoopLocal};

use super::server::SessionServer;

/// The servers of one address.
pub type SessionServers = VirtualServers<SessionServer>;

/// The contents of `stream {}`: the part of a [`Generation`] that belongs to stream.
#[derive(Default)]
pub struct StreamConfiguration {
    /// The listening addresses, in the order of the configuration.
    pub listens: Listens<SessionServers>,
    /// Whether the ClientHello of a TLS session is kept for variables that are made of it.
    pub keeps_hello: bool,
}

impl StreamConfiguration {
    /// The configuration for the socket with this specification.
    pub fn listen(&self, spec: &ListenSpec) -> Option<&Arc<Listen<SessionServers>>> {
        self.listens.find(spec)
    }
}

/// A generation, as one loop holds it, with the loop's handles of its parts.
pub struct LoopGeneration {
    // The fields are dropped in this order, the generation last: its memory may be freed elsewhere as soon as the last
    // loop has dropped it.
    servers: LoopHandles<SessionServer>,
    addresses: LoopHandles<SessionServers>,
    /// The contents of `stream {}`.
    pub stream: Arc<StreamConfiguration>,
    generation: Arc<Generation>,
}

impl LoopGeneration {
    /// The generation on one loop.
    pub fn new(generation: Arc<Generation>) -> Rc<LoopGeneration> {
        let stream = generation.parts.get::<StreamConfiguration>().unwrap_or_default();
        Rc::new(LoopGeneration {
            servers: LoopHandles::default(),
            addresses: LoopHandles::default(),
            stream,
            generation,
        })
    }

    /// The generation, in a form that other threads can share.
    pub fn shared(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// A virtual server of this generation.
    pub fn server(&self, server: &Arc<SessionServer>) -> LoopLocal<SessionServer> {
        self.servers.get(server)
    }

    /// The servers of one of the generation's addresses.
    pub fn servers(&self, servers: &Arc<SessionServers>) -> LoopLocal<SessionServers> {
        self.addresses.get(servers)
    }
}

impl Deref for LoopGeneration {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.generation
    }
}
