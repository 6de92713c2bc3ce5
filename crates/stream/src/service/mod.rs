//! The service `stream`, to which a loop hands the connections of the `listen` directives of servers in `stream`.

mod datagrams;
mod serve;

use std::cell::RefCell;
use std::rc::Rc;

use freerun_runtime::loops;
use freerun_runtime::net::udp::ReceivedDatagrams;
use freerun_runtime::tasks::Tasks;
use freerun_serve::accept::datagrams::DatagramListener;
use freerun_serve::accept::service::{AcceptedConnection, CloseAnswer, Service};
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::state::LoopState;

use self::serve::SessionFuture;
use crate::client::ClientSide;
use crate::session::generation::LoopGeneration;
use crate::session::{Session, SessionParts};
use crate::settings::listen::SERVICE;

/// The service `stream` on one loop.
pub struct StreamService {
    loop_state: Rc<LoopState>,
    generation: RefCell<Rc<LoopGeneration>>,
    tasks: Tasks<SessionFuture>,
    /// The sessions of datagrams.
    datagrams: datagrams::Sockets,
}

impl StreamService {
    /// Makes the service of this loop: a [`MakeService`](freerun_serve::accept::service::MakeService).
    pub fn make(loop_state: &Rc<LoopState>) -> Rc<dyn Service> {
        let generation = RefCell::new(LoopGeneration::new(loop_state.generation()));
        let tasks = Tasks::new("session");
        Rc::new(StreamService { loop_state: loop_state.clone(), generation, tasks, datagrams: Default::default() })
    }

    /// The generation that a new session begins with.
    pub fn generation(&self) -> Rc<LoopGeneration> {
        self.generation.borrow().clone()
    }

    /// Begins a session, which is counted in the loop's [`Admission`](freerun_serve::loops::state::admission::Admission)
    /// already; at its end it is taken out there. With `now`, its first step is done at once, as the last step of a task's poll.
    /// If the configuration has no servers for the listening socket, the client's side is closed, and there is no session:
    /// `false`.
    pub fn begin(&self, beginning: SessionParts, now: bool) -> bool {
        let number = beginning.number;
        let Some(session) = Session::new(beginning, self.generation(), self.loop_state.clone()) else {
            self.loop_state.admission.end();
            return false;
        };
        let serve = SessionFuture::new(session);
        if now {
            self.tasks.start_now(number, serve);
        } else {
            self.tasks.start(number, serve);
        }
        true
    }
}

impl Service for StreamService {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn accept(self: Rc<Self>, accepted: AcceptedConnection) {
        let AcceptedConnection { number, mut transport, received, tls, peer, listen, now, passes } = accepted;
        if self.generation().stream.listens.has_tls(&listen) {
            transport = transport.into_tls();
        }
        let client = ClientSide::Stream(transport);
        self.begin(SessionParts { number, client, peer, listen, received, tls, passes, proxied: None }, now);
    }

    fn datagrams<'r>(
        self: Rc<Self>,
        listener: &Rc<DatagramListener>,
        received: &mut dyn Iterator<Item = ReceivedDatagrams<'r>>,
    ) {
        self.take_datagrams(listener, received);
    }

    fn drain_datagrams(self: Rc<Self>, listener: &Rc<DatagramListener>) {
        self.datagrams.drain(listener);
    }

    fn end_datagrams(self: Rc<Self>, listener: &Rc<DatagramListener>) {
        self.datagrams.remove(listener);
    }

    fn is_busy(&self, listen: &ListenSpec) -> bool {
        let generation = self.generation();
        generation.pools.handshakes().is_full() && generation.stream.listens.has_tls(listen)
    }

    fn renew(self: Rc<Self>) {
        // Sessions that are there keep the generation that they began with.
        self.generation.replace(LoopGeneration::new(self.loop_state.generation()));
        self.configure_all();
    }

    fn drain(self: Rc<Self>) {
        // Sessions end by themselves: nobody can say to a protocol that is not known that it is to end.
    }

    fn end_tunnels(self: Rc<Self>, generation: u64) {
        loops::spawn(0, "ending old sessions", async move {
            self.tasks.end_where(|serve| serve.generation() == Some(generation), loops::after_events).await;
        });
    }

    fn oldest_idle(&self) -> Option<u64> {
        None
    }

    fn close_oldest(&self) -> CloseAnswer {
        // As in nginx, no session is closed to make room for another one.
        CloseAnswer::NoneIdle
    }

    fn give_back(&self) {}
}
