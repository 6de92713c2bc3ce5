//! The state of http on one loop, for all protocols.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use freerun_serve::loops::state::LoopState;

use crate::connection::idle::IdleConnections;
use crate::request::generation::{AnsweringServers, LoopGeneration, ServedBy};
use crate::request::{Address, ClientConnection, ConnectionFacts};
use freerun_serve::tls::client_facts::TlsFacts;

/// The state of http on one loop.
pub struct HttpLoop {
    /// The state of the loop that does not depend on what it serves.
    pub loop_state: Rc<LoopState>,
    /// The connections without a request.
    pub idle: Rc<IdleConnections<ServedBy>>,
    generation: RefCell<Rc<LoopGeneration>>,
}

/// The place where a module finds the loop's [`HttpLoop`].
#[derive(Default)]
struct LoopPlace(RefCell<Weak<HttpLoop>>);

impl HttpLoop {
    /// Makes the state of http on this loop.
    pub fn begin(loop_state: &Rc<LoopState>) -> Rc<HttpLoop> {
        let generation = LoopGeneration::new(loop_state.generation(), loop_state.shared.loops.load().number());
        let http = Rc::new(HttpLoop {
            loop_state: loop_state.clone(),
            idle: IdleConnections::new(loop_state.stats.clone()),
            generation: RefCell::new(generation),
        });
        *loop_state.modules.get::<LoopPlace>().0.borrow_mut() = Rc::downgrade(&http);
        http
    }

    /// The state of http on this loop, if http is served there.
    pub fn of(loop_state: &LoopState) -> Option<Rc<HttpLoop>> {
        loop_state.modules.get::<LoopPlace>().0.borrow().upgrade()
    }

    /// The generation that a new request begins with.
    pub fn generation(&self) -> Rc<LoopGeneration> {
        self.generation.borrow().clone()
    }

    /// Makes new requests begin with the loop's current generation.
    pub fn renew(self: &Rc<Self>) {
        let generation =
            LoopGeneration::new(self.loop_state.generation(), self.loop_state.shared.loops.load().number());
        let old = self.generation.replace(generation);
        old.forget_hot();
        let http = self.clone();
        self.idle.close_where("renewing idle connections", move |connection| {
            !http.renew_connection_of(connection.facts(), || connection.local())
        });
    }

    /// Returns the generation for a new request, the servers that answer on this connection in it, and whether the
    /// newest generation still listens at its address. If it does not, the generation is the last one to listen there.
    pub fn servers(&self, connection: &ClientConnection) -> Option<(Rc<LoopGeneration>, Rc<AnsweringServers>, bool)> {
        self.servers_of(connection, || connection.local())
    }

    /// Returns the same as [`HttpLoop::servers`] for any connection. `local` tells the address that the client connected to.
    #[inline]
    pub fn servers_of(
        &self,
        facts: &ConnectionFacts,
        local: impl FnOnce() -> Address,
    ) -> Option<(Rc<LoopGeneration>, Rc<AnsweringServers>, bool)> {
        let generation = self.generation();
        let mut known = facts.served_by.borrow_mut();
        if let Some(ServedBy { generation: of, servers }) = &*known
            && of.number == generation.number
        {
            return Some((generation, servers.clone(), true));
        }
        match generation.http.listens.find(&facts.listen) {
            Some(listen) => {
                // Only where servers differ by the local address, the kernel has to find it.
                let is_alike = listen.specific.is_empty();
                let local = if is_alike { facts.listen.address() } else { local() };
                let servers = listen.servers_for(&local);
                let named = facts.tls().and_then(TlsFacts::server_name);
                let default = servers.in_handshake(named.as_deref());
                let servers = generation.servers(servers, default);
                *known = Some(ServedBy { generation: generation.clone(), servers: servers.clone() });
                Some((generation, servers, true))
            }
            // The settings of the old servers name the logs and pools of their own generation.
            None => known.as_ref().map(|ServedBy { generation, servers }| (generation.clone(), servers.clone(), false)),
        }
    }

    /// Replaces the configuration of the last request, if there is a newer one and it listens here as well. Without a
    /// request, the connection has no reason to keep the old one. Returns whether the newest one listens here.
    pub fn renew_connection(&self, connection: &ClientConnection) -> bool {
        self.renew_connection_of(connection, || connection.local())
    }

    /// Does the same as [`HttpLoop::renew_connection`] for any connection. `local` tells the address that the client connected
    /// to.
    #[inline]
    pub fn renew_connection_of(&self, facts: &ConnectionFacts, local: impl FnOnce() -> Address) -> bool {
        let is_old = |of: &ServedBy| of.generation.number != self.loop_state.generation_number();
        if facts.served_by.borrow().as_ref().is_some_and(is_old) {
            return self.servers_of(facts, local).is_some_and(|(.., still_listens)| still_listens);
        }
        true
    }
}
