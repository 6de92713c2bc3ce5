//! Datagrams that have come, and the sessions that they belong to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use freerun_proto::{ProxyHeader, proxy_protocol};
use freerun_runtime::log::Level;
use freerun_runtime::net::udp::Received;
use freerun_serve::Address;
use freerun_serve::accept::loop_listeners::services_of_this_loop;
use freerun_serve::datagrams::DatagramListener;

use super::StreamService;
use crate::client::ClientSide;
use crate::client::datagrams::{Forwarding, Sessions};
use crate::session::Beginning;
use crate::session::generation::LoopGeneration;
use crate::settings::core::CoreSettings;

/// The sessions at each address of a loop; as many as the configuration has addresses for datagrams.
#[derive(Default)]
pub(super) struct Addresses(RefCell<HashMap<*const DatagramListener, AtAddress>>);

/// A listening socket, and the sessions there.
type AtAddress = (Rc<DatagramListener>, Rc<Sessions>);

impl Addresses {
    /// Ends the sessions at an address that have all answers, and the others as soon as they have them.
    pub(super) fn drain(&self, listener: &Rc<DatagramListener>) {
        if let Some((_, sessions)) = self.0.borrow().get(&Rc::as_ptr(listener)) {
            sessions.drain();
        }
    }

    /// Ends the sessions at an address that is no longer listened on.
    pub(super) fn remove(&self, listener: &Rc<DatagramListener>) {
        let removed = self.0.borrow_mut().remove(&Rc::as_ptr(listener));
        if let Some((_, sessions)) = removed {
            sessions.end_all();
        }
    }
}

impl StreamService {
    /// The sessions at an address.
    fn sessions(&self, listener: &Rc<DatagramListener>) -> Rc<Sessions> {
        let mut addresses = self.datagrams.0.borrow_mut();
        let (_, sessions) = addresses.entry(Rc::as_ptr(listener)).or_insert_with(|| {
            let sessions = Sessions::new(1, listener.shared().cloned());
            self.configure(&sessions, listener, &self.generation());
            (listener.clone(), sessions)
        });
        sessions.clone()
    }

    /// Has sessions follow the configuration: how many of them there may be at an address on this loop (`udp_sessions`), and
    /// whether datagrams have headers (`listen … proxy_protocol`).
    fn configure(&self, sessions: &Sessions, listener: &DatagramListener, generation: &LoopGeneration) {
        let spec = listener.spec();
        let Some(listen) = generation.stream.listen(&spec) else { return };
        let all = listen.servers.default.settings.get::<CoreSettings>().udp_sessions as usize;
        let sockets = listener.shared().map_or(1, |shared| shared.directory.sockets());
        sessions.configure(all.div_ceil(sockets.max(1)).max(1), listen.servers.proxy_protocol);
    }

    /// Has the sessions at all addresses follow another configuration.
    pub(super) fn configure_all(&self) {
        let generation = self.generation();
        for (listener, sessions) in self.datagrams.0.borrow().values() {
            self.configure(sessions, listener, &generation);
        }
    }

    /// Gives each datagram to its session, which begins with it if there is none.
    pub(super) fn take_datagrams<'r>(
        &self,
        listener: &Rc<DatagramListener>,
        received: &mut dyn Iterator<Item = Received<'r>>,
    ) {
        let sessions = self.sessions(listener);
        let mut forwarding = Forwarding::default();
        for one in received {
            if sessions.has_headers() {
                self.take_headed(listener, &sessions, one, &mut forwarding);
                continue;
            }
            let mut left = Some(one);
            while let Some(one) = left {
                left = match sessions.find(listener, &one, None) {
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
        listener: &Rc<DatagramListener>,
        sessions: &Rc<Sessions>,
        received: Received<'a>,
        forwarding: &mut Forwarding<'a>,
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
                    continue;
                }
            };
            let ends = header.ends.as_ref();
            let behind = ends.and_then(|ends| Some(SocketAddr::new(ends.client.parse().ok()?, ends.client_port)));
            let one = Received { bytes: &bytes[len..], segment: None, ..received };
            match sessions.find(listener, &one, behind) {
                Some(session) => drop(session.take(one, forwarding)),
                None => {
                    forwarding.flush();
                    self.begin_session(listener, sessions, one, Some((header, behind)));
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
        received: Received<'a>,
        header: Option<(ProxyHeader, Option<SocketAddr>)>,
    ) -> Option<Received<'a>> {
        let admission = &self.loop_state.admission;
        if admission.is_full() {
            if sessions.end_oldest() {
                admission.log_full(&self.loop_state.generation().error_log, true);
            } else {
                // Connections of another kind may leave instead, for those that come later.
                if let Some(services) = services_of_this_loop() {
                    services.has_room();
                }
                return None;
            }
        }
        let (proxied, behind) = header.map_or((None, None), |(header, behind)| (Some(header), behind));
        let datagrams = sessions.begin(listener, &received, behind)?;
        let client = datagrams.client_address();
        let mut waiting = Forwarding::default();
        let left = datagrams.take_one(received, &mut waiting);
        let number = self.loop_state.shared.next_connection();
        admission.begin();
        let beginning = Beginning {
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
