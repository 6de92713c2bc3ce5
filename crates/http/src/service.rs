//! The service `http`, to which a loop hands the connections of the `listen` directives of `server` blocks.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use freerun_runtime::loops;
use freerun_runtime::net::udp::ReceivedDatagrams;
use freerun_runtime::tasks::Tasks;
use freerun_serve::accept::datagrams::DatagramListener;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::service::{AcceptedConnection, CloseAnswer, GivenConnections, MovingConnection, Service};
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::message_boxes::PassedPacket;
use freerun_serve::loops::state::LoopState;

use crate::connection::idle::Keep;
use crate::http_loop::HttpLoop;
use crate::protocol::connection_task::{ConnectionTask, Driver};
use crate::protocol::h2;
use crate::protocol::h3::{H3Driver, H3Task};
use crate::protocol::multiplexed::{RequestRunners, RequestTask};
use crate::request::ClientConnection;
use crate::settings::listen::SERVICE;

/// The service `http` on one loop.
pub struct HttpService {
    http: Rc<HttpLoop>,
    driver: Rc<Driver>,
    h2: Rc<h2::H2Driver>,
    h3: Rc<H3Driver>,
    tasks: Tasks<Task>,
    /// The index at which the search for connections to give away goes on.
    gives_from: Cell<usize>,
}

/// The tasks of http.
enum Task {
    /// A connection.
    Connection(ConnectionTask),
    /// A connection of datagrams. In a box: connections of byte streams, which are the most, take no room for it.
    Quic(Box<H3Task>),
    /// A request of a connection that carries several at once.
    Request(RequestTask),
}

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.get_mut() {
            Task::Connection(serve) => Pin::new(serve).poll(context),
            Task::Quic(serve) => Pin::new(serve).poll(context),
            Task::Request(request) => Pin::new(request).poll(context),
        }
    }
}

impl HttpService {
    /// Makes the service of this loop: a [`MakeService`](freerun_serve::accept::service::MakeService).
    pub fn make(loop_state: &Rc<LoopState>) -> Rc<dyn Service> {
        let http = HttpLoop::begin(loop_state);
        let tasks = Tasks::new("connection");
        let starter = tasks.clone();
        let start = move |number, request| starter.start_now(number, Task::Request(request));
        let runners = RequestRunners::new(Rc::new(start));
        let h2 = h2::H2Driver::new(http.clone(), runners.clone());
        let driver = Driver::new(http.clone(), h2.clone());
        let starter = tasks.clone();
        let start = move |number, connection| starter.start(number, Task::Quic(Box::new(connection)));
        let h3 = H3Driver::new(http.clone(), runners, Rc::new(start));
        Rc::new(HttpService { http, driver, h2, h3, tasks, gives_from: Cell::new(0) })
    }
}

impl Service for HttpService {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn accept(self: Rc<Self>, accepted: AcceptedConnection) {
        let AcceptedConnection { number, mut transport, received, tls, peer, listen, now, passes } = accepted;
        if self.http.generation().http.listens.has_tls(&listen) {
            transport = transport.into_tls();
        }
        let loop_state = self.http.loop_state.clone();
        let connection = Rc::new(ClientConnection::new(number, transport, peer, listen, loop_state));
        if passes > 0 {
            connection.passed_on(received, tls);
        }
        // A reload may remove the address before the first request comes: that is then served by the configuration which is
        // current now.
        let _ = self.http.servers(&connection);
        if !now {
            // The loop may become late before the task runs.
            connection.offer();
        }
        let task = Task::Connection(ConnectionTask::new(&self.driver, connection));
        if now {
            self.tasks.start_now(number, task);
        } else {
            self.tasks.start(number, task);
        }
    }

    fn is_busy(&self, listen: &ListenSpec) -> bool {
        let generation = self.http.generation();
        generation.pools.handshakes().is_full() && generation.http.listens.has_tls(listen)
    }

    fn datagrams<'r>(
        self: Rc<Self>,
        listener: &Rc<DatagramListener>,
        received: &mut dyn Iterator<Item = ReceivedDatagrams<'r>>,
    ) {
        self.h3.take_datagrams(listener, received);
    }

    fn passed_packet(self: Rc<Self>, packet: &PassedPacket<'_>) {
        self.h3.take_packet(packet);
    }

    fn end_datagrams(self: Rc<Self>, listener: &Rc<DatagramListener>) {
        self.h3.end_datagrams(listener);
    }

    fn drain_datagrams(self: Rc<Self>, _: &Rc<DatagramListener>) {
        // The connections of QUIC go on, and are asked to end with all others.
    }

    fn renew(self: Rc<Self>) {
        self.http.renew();
        self.h3.renew();
    }

    fn drain(self: Rc<Self>) {
        self.http.idle.close_kept();
        self.h2.drain();
        self.h3.drain();
    }

    fn cut(self: Rc<Self>) {
        self.h2.finish();
        self.h3.finish();
        self.tasks.wake_all();
    }

    fn end_tunnels(self: Rc<Self>, generation: u64) {
        loops::spawn(0, "ending old tunnels", async move {
            let is_old = |task: &Task| match task {
                Task::Connection(serve) => serve.is_tunnel_of(generation),
                Task::Quic(_) => false,
                Task::Request(request) => {
                    request.end_tunnel(generation);
                    false
                }
            };
            self.tasks.end_where(is_old, loops::after_events).await;
        });
    }

    fn oldest_idle(&self) -> Option<u64> {
        self.http.idle.oldest_since()
    }

    fn close_oldest(&self) -> CloseAnswer {
        self.http.idle.close_oldest()
    }

    fn give_idle(self: Rc<Self>, most: usize) -> GivenConnections {
        let may_move = |task: &Task| matches!(task, Task::Connection(serve) if serve.may_move());
        let (taken, next) = self.tasks.take_some(self.gives_from.get(), most, may_move);
        self.gives_from.set(next.unwrap_or(0));
        let moving = taken.into_iter().filter_map(|task| match task {
            Task::Connection(serve) => serve.into_moving(),
            Task::Quic(_) | Task::Request(_) => None,
        });
        GivenConnections { moving: moving.collect(), is_round: next.is_none() }
    }

    fn adopt(self: Rc<Self>, moving: MovingConnection) {
        let loop_state = &self.http.loop_state;
        if loop_state.is_draining() {
            // This loop has begun to give its own away meanwhile. Otherwise the worker ends, and the connection does too.
            if let Some(to) = loop_listeners::destination(loop_state) {
                loop_listeners::move_to(loop_state, to, moving);
            }
            return loop_state.admission.end();
        }
        let (number, keep) = (moving.number, Keep { most: moving.keep, least: moving.least });
        let connection = Rc::new(ClientConnection::moved_here(moving, self.http.loop_state.clone()));
        let _ = self.http.servers(&connection);
        self.tasks.start(number, Task::Connection(ConnectionTask::adopted(&self.driver, connection, keep)));
    }

    fn release(self: Rc<Self>) {
        loops::spawn(0, "letting connections go", async move {
            let is_taken = |task: &Task| matches!(task, Task::Connection(serve) if serve.is_taken());
            self.tasks.end_where(is_taken, loops::after_events).await;
        });
    }

    fn give_back(&self) {
        self.http.generation().hot.borrow_mut().close_files();
    }
}
