//! Datagrams that have come, and the sessions that they belong to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use freerun_runtime::net::udp::{Received, Receiver};
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
pub(super) struct Addresses(RefCell<HashMap<*const DatagramListener, (Rc<DatagramListener>, Rc<Sessions>)>>);

impl Addresses {
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
            (listener.clone(), Sessions::new(self.limit(listener, &self.generation())))
        });
        sessions.clone()
    }

    /// How many sessions there may be at an address on this loop (`udp_sessions`).
    fn limit(&self, listener: &DatagramListener, generation: &LoopGeneration) -> usize {
        let spec = listener.spec();
        let all = generation.stream.listen(&spec).map_or(1, |listen| {
            let settings = &listen.servers.default.settings;
            settings.get::<CoreSettings>().udp_sessions as usize
        });
        let loops = self.loop_state.shared.loops.len();
        all.div_ceil(spec.sockets(loops).max(1)).max(1)
    }

    /// Notes that another configuration may have changed how many sessions there may be.
    pub(super) fn limit_sessions(&self) {
        let generation = self.generation();
        for (listener, sessions) in self.datagrams.0.borrow().values() {
            sessions.set_limit(self.limit(listener, &generation));
        }
    }

    /// Gives each datagram to its session, which begins with it if there is none.
    pub(super) fn take_datagrams(&self, listener: &Rc<DatagramListener>, received: &Receiver) {
        let sessions = self.sessions(listener);
        let mut forwarding = Forwarding::default();
        for one in received.iter() {
            let mut left = Some(one);
            while let Some(one) = left {
                left = match sessions.find(listener, &one) {
                    Some(session) => session.take(one, &mut forwarding),
                    None => {
                        // What other sessions are to pass on goes first: a new one may end them.
                        forwarding.flush();
                        self.begin_session(listener, &sessions, one)
                    }
                };
            }
        }
        forwarding.flush();
    }

    /// Begins a session with a datagram. Returns the part of it that belongs to another one. A datagram for whose session
    /// there is no room is lost.
    fn begin_session<'a>(
        &self,
        listener: &Rc<DatagramListener>,
        sessions: &Rc<Sessions>,
        received: Received<'a>,
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
        let datagrams = sessions.begin(listener, &received)?;
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
        };
        if !self.begin(beginning, true) {
            datagrams.leave();
            return None;
        }
        match left {
            // The session knows now how many datagrams it consists of.
            Some(left) => {
                let rest = if datagrams.is_bound() { datagrams.take(left, &mut waiting) } else { Some(left) };
                waiting.flush();
                rest
            }
            None => None,
        }
    }
}
