//! Datagrams that have come, and the sessions that they belong to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use freerun_proto::{ProxyHeader, proxy_protocol};
use freerun_runtime::log::Level;
use freerun_runtime::net::udp::ReceivedDatagrams;
use freerun_serve::Address;
use freerun_serve::accept::datagrams::DatagramListener;
use freerun_serve::accept::loop_listeners::services_of_this_loop;

use super::StreamService;
use crate::client::ClientSide;
use crate::client::datagrams::{DatagramSession, Forwarder, Sessions, number_of};
use crate::session::SessionParts;
use crate::session::generation::{LoopGeneration, SessionServers};
use crate::settings::core::CoreSettings;

/// The sessions at each listening socket of a loop; as many as the configuration has sockets for datagrams.
#[derive(Default)]
pub(super) struct Sockets(RefCell<HashMap<*const DatagramListener, Rc<AtSocket>>>);

/// A listening socket, and the sessions at its addresses.
struct AtSocket {
    listener: Rc<DatagramListener>,
    /// Sessions at the address that the socket is bound to.
    sessions: Rc<Sessions>,
    /// Sessions at more specific addresses that the configuration names and that share the socket of a wildcard. An
    /// address that is no longer named stays while it has sessions.
    specific: RefCell<HashMap<IpAddr, Rc<Sessions>>>,
}

impl AtSocket {
    /// The sessions at the address that a datagram was sent to.
    fn sessions(&self, to: Option<IpAddr>) -> Rc<Sessions> {
        let specific = self.specific.borrow();
        let at = to.filter(|_| !specific.is_empty()).and_then(|to| specific.get(&to.to_canonical()));
        at.unwrap_or(&self.sessions).clone()
    }

    fn all(&self) -> Vec<Rc<Sessions>> {
        [&self.sessions].into_iter().chain(self.specific.borrow().values()).cloned().collect()
    }

    /// The session that a datagram belongs to. It is one of `sessions` or, if the configuration has begun to name its
    /// address since, a session of the wildcard.
    fn find(
        &self,
        sessions: &Rc<Sessions>,
        received: &ReceivedDatagrams<'_>,
        behind: Option<SocketAddr>,
    ) -> Option<Rc<DatagramSession>> {
        let earlier = || if Rc::ptr_eq(sessions, &self.sessions) { None } else { Some(&self.sessions) };
        let listener = &self.listener;
        sessions.find(listener, received, behind).or_else(|| earlier()?.find(listener, received, behind))
    }
}

impl Sockets {
    fn get(&self, listener: &Rc<DatagramListener>) -> Option<Rc<AtSocket>> {
        self.0.borrow().get(&Rc::as_ptr(listener)).cloned()
    }

    /// Ends the sessions at a socket that have all answers, and the others as soon as they have them.
    pub(super) fn drain(&self, listener: &Rc<DatagramListener>) {
        if let Some(socket) = self.get(listener) {
            socket.all().iter().for_each(|sessions| sessions.drain());
        }
    }

    /// Ends the sessions at a socket that is no longer listened on.
    pub(super) fn remove(&self, listener: &Rc<DatagramListener>) {
        let removed = self.0.borrow_mut().remove(&Rc::as_ptr(listener));
        if let Some(socket) = removed {
            socket.all().iter().for_each(|sessions| sessions.end_all());
        }
    }
}

impl StreamService {
    /// The sessions at a socket.
    fn at_socket(&self, listener: &Rc<DatagramListener>) -> Rc<AtSocket> {
        let mut sockets = self.datagrams.0.borrow_mut();
        let socket = sockets.entry(Rc::as_ptr(listener)).or_insert_with(|| {
            let sessions = Sessions::new(1, listener.shared().cloned());
            let socket = Rc::new(AtSocket { listener: listener.clone(), sessions, specific: RefCell::default() });
            self.configure(&socket, &self.generation());
            socket
        });
        socket.clone()
    }

    /// Has the sessions at a socket follow the configuration: their limit at each address on this loop
    /// (`udp_sessions`), and whether datagrams have headers (`listen … proxy_protocol`).
    fn configure(&self, socket: &AtSocket, generation: &LoopGeneration) {
        let spec = socket.listener.spec();
        let Some(listen) = generation.stream.listen(&spec) else { return };
        let shared = socket.listener.shared();
        let parts = shared.map_or(1, |shared| shared.directory.sockets()).max(1);
        let configure = |sessions: &Sessions, servers: &SessionServers| {
            let all = servers.default.settings.get::<CoreSettings>().udp_sessions as usize;
            sessions.configure(all.div_ceil(parts).max(1), servers.proxy_protocol);
        };
        configure(&socket.sessions, &listen.servers);
        let mut specific = socket.specific.borrow_mut();
        specific.retain(|address, sessions| listen.specific.contains_key(address) || sessions.count() > 0);
        for address in listen.specific.keys() {
            specific.entry(*address).or_insert_with(|| Sessions::new(1, shared.cloned()));
        }
        for (address, sessions) in specific.iter() {
            configure(sessions, listen.specific.get(address).unwrap_or(&listen.servers));
        }
    }

    /// Has the sessions at all addresses follow another configuration.
    pub(super) fn configure_all(&self) {
        let generation = self.generation();
        for socket in self.datagrams.0.borrow().values() {
            self.configure(socket, &generation);
        }
    }

    /// Gives each datagram to its session, which begins with it if there is none.
    pub(super) fn take_datagrams<'r>(
        &self,
        listener: &Rc<DatagramListener>,
        received: &mut dyn Iterator<Item = ReceivedDatagrams<'r>>,
    ) {
        let socket = self.at_socket(listener);
        let mut forwarding = Forwarder::default();
        for one in received {
            let sessions = socket.sessions(one.to);
            if sessions.has_headers() {
                self.take_headed(&socket, &sessions, one, &mut forwarding);
                continue;
            }
            let mut left = Some(one);
            while let Some(one) = left {
                left = match socket.find(&sessions, &one, None) {
                    Some(session) => session.take(one, &mut forwarding),
                    None => {
                        // What other sessions are to pass on goes first: a new one may end them.
                        forwarding.flush();
                        self.begin_session(listener, &sessions, one, None)
                    }
                };
            }
        }
        forwarding.flush();
    }

    /// Gives datagrams that begin with a header of the PROXY protocol to their sessions: there is one for each client that
    /// headers name. One without a header is lost, which is logged.
    fn take_headed<'a>(
        &self,
        socket: &AtSocket,
        sessions: &Rc<Sessions>,
        received: ReceivedDatagrams<'a>,
        forwarding: &mut Forwarder<'a>,
    ) {
        let size = received.segment.unwrap_or(received.bytes.len()).max(1);
        for bytes in received.bytes.chunks(size) {
            let (header, len) = match proxy_protocol::parse_datagram(bytes) {
                Ok(read) => read,
                Err(error) => {
                    let (log, from) = (&self.loop_state.generation().error_log, received.from);
                    if let Some(from) = from {
                        let message = format_args!("{error} of the PROXY protocol in a datagram, udp client: {from}");
                        log.write(Level::Info, None, message);
                    }
                    socket.listener.lose_from_clients(1);
                    continue;
                }
            };
            let ends = header.ends.as_ref();
            let behind = ends.and_then(|ends| Some(SocketAddr::new(ends.client.parse().ok()?, ends.client_port)));
            let one = ReceivedDatagrams { bytes: &bytes[len..], segment: None, ..received };
            match socket.find(sessions, &one, behind) {
                Some(session) => drop(session.take(one, forwarding)),
                None => {
                    forwarding.flush();
                    self.begin_session(&socket.listener, sessions, one, Some((header, behind)));
                }
            }
        }
    }

    /// Begins a session with a datagram, whose header was read. Returns the part of it that belongs to another one. A datagram
    /// for whose session there is no room is lost.
    fn begin_session<'a>(
        &self,
        listener: &Rc<DatagramListener>,
        sessions: &Rc<Sessions>,
        received: ReceivedDatagrams<'a>,
        header: Option<(ProxyHeader, Option<SocketAddr>)>,
    ) -> Option<ReceivedDatagrams<'a>> {
        let admission = &self.loop_state.admission;
        if admission.is_full() {
            if sessions.end_oldest() {
                admission.log_full(&self.loop_state.generation().error_log, true);
            } else {
                // Connections of another kind may leave instead, for those that come later.
                if let Some(services) = services_of_this_loop() {
                    services.make_room();
                }
                listener.lose_from_clients(number_of(received.bytes.len(), received.segment));
                return None;
            }
        }
        let (proxied, behind) = header.map_or((None, None), |(header, behind)| (Some(header), behind));
        let Some(datagrams) = sessions.begin(listener, &received, behind) else {
            listener.lose_from_clients(number_of(received.bytes.len(), received.segment));
            return None;
        };
        let client = datagrams.client_address();
        let mut waiting = Forwarder::default();
        let left = datagrams.take_one(received, &mut waiting);
        let number = self.loop_state.shared.next_connection();
        admission.begin();
        let beginning = SessionParts {
            number,
            client: ClientSide::Datagrams(datagrams.clone()),
            peer: Address::Ip((client.ip().to_canonical(), client.port()).into()),
            listen: listener.spec(),
            received: Vec::new(),
            tls: None,
            passes: 0,
            proxied,
        };
        if !self.begin(beginning, true) {
            datagrams.leave();
            return None;
        }
        let left = left?;
        // The session knows now how many datagrams it consists of.
        if !datagrams.is_bound() {
            return Some(left);
        }
        let rest = datagrams.take(left, &mut waiting);
        waiting.flush();
        rest
    }
}
