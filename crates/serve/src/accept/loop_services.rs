//! The services of one loop, and the way that connections take to them.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::net::Socket;
use freerun_runtime::{loops, timer};
use freerun_transport::Transport;
use rustix::io::Errno;

use crate::accept::service::{AcceptedConnection, CloseAnswer, MakeService, Service};
use crate::listen::ListenSpec;
use crate::listen::address::Address;
use crate::loops::idle_since_accept::TakenOver;
use crate::loops::local::LoopLocal;
use crate::loops::state::LoopState;

/// Whether another connection may be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// There is room.
    Free,
    /// An idle connection was asked to close, and will be gone soon.
    Coming,
    /// No connection can be asked to close now.
    None,
}

/// The services of one loop: they share its state and its `worker_connections`.
pub struct LoopServices {
    /// The state of the loop.
    pub loop_state: Rc<LoopState>,
    all: Vec<Rc<dyn Service>>,
}

impl LoopServices {
    /// Makes the services of the loop.
    pub(crate) fn new(loop_state: &Rc<LoopState>, makers: &[MakeService]) -> Rc<LoopServices> {
        let all = makers.iter().map(|make| make(loop_state)).collect();
        Rc::new(LoopServices { loop_state: loop_state.clone(), all })
    }

    /// All services of the loop.
    pub fn all(&self) -> impl Iterator<Item = Rc<dyn Service>> + '_ {
        self.all.iter().cloned()
    }

    /// The service that a listening socket names.
    pub fn of(&self, listen: &ListenSpec) -> Option<Rc<dyn Service>> {
        self.all.iter().find(|service| service.name() == listen.service).cloned()
    }

    /// Hands a connection that was just accepted to a service: see [`AcceptedConnection`]. Returns whether the connection is
    /// still open.
    pub fn accepted(
        &self,
        service: Rc<dyn Service>,
        (fd, peer): (OwnedFd, Address),
        listen: &LoopLocal<ListenSpec>,
        now: bool,
    ) -> bool {
        let before = self.loop_state.admission.open();
        self.loop_state.admission.begin();
        let number = self.loop_state.shared.next_connection();
        let (transport, listen) = (Transport::plain(fd), listen.clone());
        let received = Vec::new();
        service.accept(AcceptedConnection { number, transport, received, tls: None, peer, listen, now, passes: 0 });
        self.loop_state.admission.open() > before
    }

    /// Hands a connection to its service that another loop has accepted, and has read nothing from.
    pub fn taken_over(&self, taken: TakenOver) {
        let TakenOver { number, fd, peer, listen } = taken;
        let Some(service) = self.of(&listen) else { return };
        self.loop_state.admission.adopt();
        let (transport, listen) = (Transport::from(Socket::taken_over(fd)), LoopLocal::new(listen));
        let received = Vec::new();
        service.accept(AcceptedConnection {
            number,
            transport,
            received,
            tls: None,
            peer,
            listen,
            now: false,
            passes: 0,
        });
    }

    /// Hands a connection, which stays counted, to the service of another listening socket than it was accepted from. False if there is no such service: the connection is closed.
    pub fn passed(&self, accepted: AcceptedConnection) -> bool {
        let Some(service) = self.of(&accepted.listen) else { return false };
        service.accept(accepted);
        true
    }

    /// Looks for room for another connection. At the limit, the connection that has been idle longest is closed to make
    /// room, as in nginx.
    pub fn make_room(&self) -> Room {
        let admission = &self.loop_state.admission;
        if !admission.is_full() {
            return Room::Free;
        }
        let closing = close_oldest(&self.all);
        admission.log_full(&self.loop_state.generation().error_log, closing == CloseAnswer::Asked);
        if let CloseAnswer::NotBefore(time) = closing
            && admission.may_look_later()
        {
            let loop_state = self.loop_state.clone();
            loops::spawn(0, "waiting for room", async move {
                timer::sleep_until(time).await;
                loop_state.admission.look();
            });
        }
        if closing == CloseAnswer::Asked { Room::Coming } else { Room::None }
    }

    /// Handles a lack of descriptors or memory, which is logged once for each pause. Memory and descriptors that are
    /// kept only for speed are freed, and the connection that has been idle longest is closed.
    pub fn accept_failed(&self, error: Errno) {
        let level = if matches!(error, Errno::MFILE | Errno::NFILE) { Level::Crit } else { Level::Alert };
        let shown = io::Error::from(error);
        let log = &self.loop_state.generation().error_log;
        log.write(level, None, format_args!("accept4() failed ({})", ShowErrno(&shown)));
        self.all.iter().for_each(|service| service.give_back());
        close_oldest(&self.all);
    }
}

/// Has the connection closed that has been idle longest of all services' connections, unless it may not be closed yet.
fn close_oldest<S: Service + ?Sized>(services: &[Rc<S>]) -> CloseAnswer {
    let mut services: Vec<&Rc<S>> = services.iter().collect();
    services.sort_by_key(|service| service.oldest_idle().unwrap_or(u64::MAX));
    let mut closing = CloseAnswer::NoneIdle;
    for service in services {
        closing = match (service.close_oldest(), closing) {
            (CloseAnswer::Asked, _) => return CloseAnswer::Asked,
            (CloseAnswer::NotBefore(one), CloseAnswer::NotBefore(other)) => CloseAnswer::NotBefore(one.min(other)),
            (CloseAnswer::NoneIdle, closing) => closing,
            (later, _) => later,
        };
    }
    closing
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;

    /// A service with one idle connection, or none.
    struct Idle {
        since: Option<u64>,
        not_before: Option<Instant>,
        closed: Cell<bool>,
    }

    impl Service for Idle {
        fn name(&self) -> &'static str {
            "idle"
        }

        fn accept(self: Rc<Self>, _: AcceptedConnection) {}

        fn renew(self: Rc<Self>) {}

        fn drain(self: Rc<Self>) {}

        fn oldest_idle(&self) -> Option<u64> {
            self.since
        }

        fn close_oldest(&self) -> CloseAnswer {
            match (self.since, self.not_before) {
                (None, _) => CloseAnswer::NoneIdle,
                (Some(_), Some(time)) => CloseAnswer::NotBefore(time),
                (Some(_), None) => {
                    self.closed.set(true);
                    CloseAnswer::Asked
                }
            }
        }

        fn give_back(&self) {}
    }

    fn service(since: Option<u64>, not_before: Option<Instant>) -> Rc<Idle> {
        Rc::new(Idle { since, not_before, closed: Cell::new(false) })
    }

    #[test]
    fn the_oldest_idle_connection_of_all_services_is_closed() {
        let (none, young, old) = (service(None, None), service(Some(2), None), service(Some(1), None));
        assert_eq!(close_oldest(&[none.clone(), young.clone(), old.clone()]), CloseAnswer::Asked);
        assert!(old.closed.get() && !young.closed.get());

        // One that may not be closed yet leaves the turn to the next; the time is known only if no service can.
        let (soon, late) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(1));
        let (kept, young) = (service(Some(1), Some(late)), service(Some(2), None));
        assert_eq!(close_oldest(&[young.clone(), kept.clone()]), CloseAnswer::Asked);
        assert!(young.closed.get());
        assert_eq!(close_oldest(&[kept, none.clone(), service(Some(3), Some(soon))]), CloseAnswer::NotBefore(soon));
        assert_eq!(close_oldest(&[none]), CloseAnswer::NoneIdle);
    }
}
