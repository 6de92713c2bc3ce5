//! A session of a client: its connection, the server that has it, and its counters.

pub mod generation;
pub mod handler;
mod log;
pub mod server;
mod subject;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use freerun_conf::SettingsSet;
use freerun_proto::{ProxyHeader, Status};
use freerun_runtime::loops;
use freerun_serve::Address;
use freerun_serve::limits::ConnPlaces;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::figures::zones::SubjectEnd;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::values::captures::Captures;
use freerun_serve::values::states::States;

use self::generation::{LoopGeneration, SessionServers};
pub use self::log::{Context, LogContext};
use self::server::SessionServer;
use crate::client::ClientSide;

/// The step of a session before its content, in the words of the error log.
pub const INITIALIZING: &str = "initializing session";

/// A session. It begins and ends with the same configuration. Whoever serves it shares it, so what changes is in cells.
pub struct Session {
    /// The serial number of the connection, `$connection`.
    pub number: u64,
    /// The loop that the session belongs to.
    pub loop_state: Rc<LoopState>,
    /// The configuration.
    pub generation: Rc<LoopGeneration>,
    /// The client's side.
    pub client: ClientSide,
    /// The specification of the listening socket.
    pub listen: LoopLocal<ListenSpec>,
    /// The servers of the address that the client sends to.
    pub servers: LoopLocal<SessionServers>,
    /// The number of bytes that have come from the client: `$bytes_received`. The content handler counts them.
    pub received: Cell<u64>,
    /// The number of bytes that were sent to the client: `$bytes_sent`. The content handler counts them.
    pub sent: Cell<u64>,
    /// The state that modules keep with the session.
    pub states: States,
    /// The address that the connection came from: the client, or a proxy in front of this server.
    origin: Address,
    /// The number of times that the connection was passed on, from one listening socket to another one.
    passes: u8,
    started: Instant,
    server: RefCell<LoopLocal<SessionServer>>,
    captures: Captures,
    status: Cell<u16>,
    is_logged: Cell<bool>,
    /// Whether it is counted in the zone of its server, which does not change any more then.
    is_counted: Cell<bool>,
    step: Cell<&'static str>,
    preread: RefCell<Vec<u8>>,
    extra: OnceCell<Box<Extra>>,
}

/// Data that few sessions have.
#[derive(Default)]
struct Extra {
    /// The client's address as a trusted proxy has told it.
    real_peer: OnceCell<Address>,
    /// The PROXY protocol header (`listen … proxy_protocol`).
    proxied: OnceCell<ProxyHeader>,
    /// Facts about the client's TLS (`listen … ssl`).
    tls: OnceCell<TlsFacts>,
    /// The places of the session in the counts of limits.
    places: RefCell<ConnPlaces>,
    /// The part of error log lines behind the client and the server.
    log_context: RefCell<Option<Rc<dyn LogContext>>>,
}

/// The parts that a session is made from.
pub struct SessionParts {
    /// The serial number of the connection.
    pub number: u64,
    /// The client's side.
    pub client: ClientSide,
    /// The address that it came from.
    pub peer: Address,
    /// The specification of the listening socket.
    pub listen: LoopLocal<ListenSpec>,
    /// The bytes that have been read already.
    pub received: Vec<u8>,
    /// Facts about the client's TLS, if another session has passed on its connection with it.
    pub tls: Option<TlsFacts>,
    /// The number of times that the connection was passed on.
    pub passes: u8,
    /// The header of the PROXY protocol, if a session's first datagram had it and it was read already.
    pub proxied: Option<ProxyHeader>,
}

/// The remains of a session whose connection is passed on.
pub struct Leftover {
    /// The client's side.
    pub client: ClientSide,
    /// The client's address.
    pub peer: Address,
    /// The bytes that have been read, and that nobody has used.
    pub received: Vec<u8>,
    /// Facts about the client's TLS.
    pub tls: Option<TlsFacts>,
    /// The number of times that the connection was passed on before.
    pub passes: u8,
}

impl Session {
    /// A session that has just begun, at the default server of its address. `None` if the configuration has no servers for the
    /// listening socket.
    pub fn new(
        beginning: SessionParts,
        generation: Rc<LoopGeneration>,
        loop_state: Rc<LoopState>,
    ) -> Option<Rc<Session>> {
        let SessionParts { number, client, peer, listen, received, tls, passes, proxied } = beginning;
        let servers = {
            let at_socket = generation.stream.listen(&listen)?;
            // The local address costs a call of the kernel, which is made only where servers differ by it.
            let is_alike = at_socket.specific.is_empty();
            let local = if is_alike { listen.address() } else { listen.local(|| client.local_address()) };
            generation.servers(at_socket.servers_for(&local))
        };
        let server = generation.server(&servers.default);
        let session = Session {
            number,
            loop_state,
            generation,
            client,
            listen,
            servers,
            received: Cell::new(0),
            sent: Cell::new(0),
            states: States::default(),
            origin: peer,
            passes,
            started: loops::now(),
            server: RefCell::new(server),
            captures: Captures::default(),
            status: Cell::new(0),
            is_logged: Cell::new(false),
            is_counted: Cell::new(false),
            step: Cell::new(INITIALIZING),
            preread: RefCell::new(received),
            extra: OnceCell::new(),
        };
        if let Some(tls) = tls {
            session.set_tls(tls);
        }
        if let Some(proxied) = proxied {
            session.set_proxied(proxied);
        }
        session.loop_state.shared.sessions.begin();
        Some(Rc::new(session))
    }

    fn extra(&self) -> &Extra {
        self.extra.get_or_init(Box::default)
    }

    /// The virtual server that has the session.
    pub fn server(&self) -> LoopLocal<SessionServer> {
        self.server.borrow().clone()
    }

    /// Gives the session to another server of its address, which the client names.
    pub fn set_server(&self, server: LoopLocal<SessionServer>) {
        debug_assert!(!self.is_counted.get(), "the session is counted in the zone of another server");
        self.server.replace(server);
    }

    /// The settings of the server. They stay the same from the phase `preread` on.
    pub fn settings(&self) -> SettingsSet {
        self.server.borrow().settings.clone()
    }

    /// The client's address, from the connection or from a trusted proxy.
    pub fn peer(&self) -> &Address {
        self.extra.get().and_then(|extra| extra.real_peer.get()).unwrap_or(&self.origin)
    }

    /// Sets the client's real address, for all later code; the first one counts.
    pub fn set_peer(&self, peer: Address) {
        let _ = self.extra().real_peer.set(peer);
    }

    /// The address that the connection came from: `$realip_remote_addr`.
    pub fn origin(&self) -> &Address {
        &self.origin
    }

    /// The address that the client sends to: the listening address, unless that is a wildcard.
    pub fn local(&self) -> Address {
        self.listen.local(|| self.client.local_address())
    }

    /// A number that stands for the client, for sharing a thread pool fairly. It is the same for all sessions of the client.
    pub fn client_key(&self) -> u64 {
        self.peer().key()
    }

    /// The age of the session: `$session_time`.
    pub fn time(&self) -> Duration {
        self.started.elapsed()
    }

    /// The status: 0 before there is one.
    pub fn status(&self) -> u16 {
        self.status.get()
    }

    /// Sets the status.
    pub fn set_status(&self, status: Status) {
        debug_assert!(!self.is_logged.get(), "the log has another status");
        self.status.set(status.code());
    }

    /// Notes that log lines are being written: nothing about the session changes any more.
    pub(crate) fn set_logged(&self) {
        self.is_logged.set(true);
    }

    /// Counts the session in the zone of its server (`status_zone`), unless it is counted already.
    pub(crate) fn count_begin(&self) {
        if !self.is_counted.replace(true)
            && let Some(zone) = &self.server.borrow().zone
        {
            zone.begin();
        }
    }

    /// Counts its end there, with its status.
    pub(crate) fn count_end(&self) {
        self.count_begin();
        if let Some(zone) = &self.server.borrow().zone {
            zone.end(&SubjectEnd {
                status: Some(self.status()),
                received: self.received.get(),
                sent: self.sent.get(),
                took: self.time(),
            });
        }
    }

    /// The current step, in the words of the error log (`while …`); empty for a step that the log does not name.
    pub fn step(&self) -> &'static str {
        self.step.get()
    }

    /// Notes what is being done from now on.
    pub fn set_step(&self, step: &'static str) {
        self.step.set(step);
    }

    /// The bytes that have been read before the content handler began, which come first of all that the client has sent. A
    /// second call gives none.
    pub fn take_preread(&self) -> Vec<u8> {
        self.preread.take()
    }

    /// Puts bytes back that have been read and not been used.
    pub fn put_preread(&self, bytes: Vec<u8>) {
        let before = self.preread.replace(bytes);
        debug_assert!(before.is_empty(), "{} bytes that were read are lost", before.len());
    }

    /// The number of times that the connection was passed on, from one listening socket to another one, before it came
    /// here.
    pub fn passes(&self) -> u8 {
        self.passes
    }

    /// The PROXY protocol header, if there was one.
    pub fn proxied(&self) -> Option<&ProxyHeader> {
        self.extra.get()?.proxied.get()
    }

    /// Stores the PROXY protocol header; the first one counts.
    pub fn set_proxied(&self, header: ProxyHeader) {
        let _ = self.extra().proxied.set(header);
    }

    /// Facts about the client's TLS, if a handshake was begun.
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.extra.get()?.tls.get()
    }

    /// Stores what is known of the client's TLS, once.
    pub fn set_tls(&self, facts: TlsFacts) {
        let _ = self.extra().tls.set(facts);
    }

    /// Keeps the places that the session has in the counts of limits until it ends.
    pub fn keep_places(&self, places: ConnPlaces) {
        let before = self.extra().places.replace(places);
        debug_assert!(before.zones() == 0, "places are given up that the session still has");
    }

    /// Gives the error log something to tell behind the client and the server, such as where the session is passed to.
    pub fn set_log_context(&self, context: Rc<dyn LogContext>) {
        self.extra().log_context.replace(Some(context));
    }

    /// Frees the places in the counts of limits, and all that the error log would tell.
    pub(crate) fn release(&self) {
        if let Some(extra) = self.extra.get() {
            drop(extra.places.take());
            drop(extra.log_context.take());
        }
    }

    /// Takes the session apart, to pass its connection on.
    pub(crate) fn into_leftover(mut self) -> Leftover {
        let peer = self.peer().clone();
        let tls = self.extra.take().and_then(|mut extra| extra.tls.take());
        Leftover { client: self.client, peer, received: self.preread.take(), tls, passes: self.passes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_session_is_small() {
        // An idle session costs this, its place in the table of tasks, and what its content handler keeps.
        assert!(size_of::<Session>() <= 432, "{} bytes", size_of::<Session>());
    }
}
