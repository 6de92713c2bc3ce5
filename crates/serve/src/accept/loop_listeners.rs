//! The listening sockets of one loop.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use freerun_runtime::{loops, timer};

use crate::accept::receive::{Receiving, Socket};
use crate::accept::{self, Accepting, Between, Listener};
use crate::background::Background;
use crate::datagrams::SharedPart;
use crate::datagrams::directory::Part;
use crate::generation::Generation;
use crate::listen::{ListenSpec, Protocol};
use crate::loop_local::LoopLocal;
use crate::loop_services::LoopServices;
use crate::loop_state::LoopState;
use crate::service::Moving;
use crate::shared::{Loops, Shared};

/// How often, and how many times, it is looked whether all sockets of the worker are closed. A loop may be late.
const CLOSING_STEP: Duration = Duration::from_millis(1);
const CLOSING: usize = 1000;

/// How many connections go to other loops before other tasks get their turn.
const MOVED_AT_ONCE: usize = 64;

thread_local! {
    static LOOP_LISTENERS: RefCell<Option<Rc<LoopListeners>>> = const { RefCell::new(None) };
}

/// Calls `job` with the listeners of this thread's loop, if the thread has one.
pub(crate) fn of_this_loop(job: impl FnOnce(&LoopListeners)) {
    if let Some(listeners) = LOOP_LISTENERS.with_borrow(Clone::clone) {
        job(&listeners);
    }
}

/// Sends a job to the services of a loop; `false` if that loop does not exist, or has ended.
pub fn tell(shared: &Shared, index: usize, job: impl FnOnce(&LoopServices) + Send + 'static) -> bool {
    tell_listeners(shared, index, |listeners| job(&listeners.services))
}

/// Sends a job to the listeners of a loop; `false` if that loop does not exist, or has ended.
pub(super) fn tell_listeners(shared: &Shared, index: usize, job: impl FnOnce(&LoopListeners) + Send + 'static) -> bool {
    let loops = shared.loops.load();
    loops.remotes.get(index).is_some_and(|remote| remote.tell(move || of_this_loop(job)))
}

/// Gives a connection without a request from this loop to another one.
pub fn move_to(loop_state: &LoopState, to: usize, moving: Moving) {
    let told = tell(&loop_state.shared, to, move |services| {
        if let Some(service) = services.of(&moving.listen) {
            services.loop_state.admission.adopt();
            service.adopt(moving);
        }
    });
    // A loop that has just ended: the connection is closed, as one may be at any time that has no request.
    if told {
        loop_state.stats.moved.add_alone();
    }
}

/// The services of this thread's loop, if the thread has one.
pub fn services_of_this_loop() -> Option<Rc<LoopServices>> {
    LOOP_LISTENERS.with_borrow(|listeners| listeners.as_ref().map(|listeners| listeners.services.clone()))
}

/// Gives up to so many connections without a request to other loops, of the next few of all. Returns whether the last of all was
/// looked at.
pub(super) fn give_idle(services: &LoopServices, most: usize, to: impl Fn(&Shared) -> Option<usize>) -> bool {
    let loop_state = &services.loop_state;
    let (mut given, mut is_round) = (0, true);
    for service in services.all() {
        let some = service.give_idle(most - given);
        is_round &= some.is_round;
        for moving in some.moving {
            given += 1;
            // Without another loop it is closed.
            if let Some(to) = to(&loop_state.shared) {
                move_to(loop_state, to, moving);
            }
        }
    }
    is_round
}

/// The loop that a connection without a request is to go to, if it is to go: one that takes connections.
pub fn destination(loop_state: &LoopState) -> Option<usize> {
    let to = loop_state.shedding.to()?;
    let loops = loop_state.shared.loops.load();
    if loops.serving.contains(&to) {
        return Some(to);
    }
    // A reload has let that loop go. One that stays keeps its connections until it is told again; one that goes has to choose.
    if loops.serving.contains(&loop_state.index) { None } else { with_fewest(&loops) }
}

/// The loop with fewest connections, of those that take new ones.
fn with_fewest(loops: &Loops) -> Option<usize> {
    loops.taking().min_by_key(|(_, stats)| stats.active.get()).map(|(index, _)| index)
}

/// A socket that a loop is to take connections or datagrams from.
pub(crate) struct Wanted {
    /// The specification of the socket.
    pub(crate) spec: Arc<ListenSpec>,
    /// The number of the socket among those of its address.
    pub(crate) number: usize,
    /// The socket.
    pub(crate) fd: Arc<OwnedFd>,
    /// The state that the loops share about the address.
    pub(crate) between: Arc<Between>,
    /// Set if this loop alone takes what comes there.
    pub(crate) only_loop: Option<usize>,
}

impl Wanted {
    /// Whether the loop accepts from this socket already, and in this way.
    fn is_accepted_by(&self, accepting: &Accepting) -> bool {
        let Listener { spec, fd, only_loop, .. } = &accepting.listener;
        spec.is(&self.spec) && Arc::ptr_eq(fd, &self.fd) && *only_loop == self.only_loop
    }
}

/// The listening sockets that one loop accepts from.
pub(crate) struct LoopListeners {
    services: Rc<LoopServices>,
    accepting: RefCell<Vec<Rc<Accepting>>>,
    receiving: RefCell<Vec<Rc<Receiving>>>,
}

impl LoopListeners {
    /// Makes the listeners of this thread's loop, without any socket yet.
    pub(crate) fn begin(services: Rc<LoopServices>) {
        LOOP_LISTENERS.set(Some(Rc::new(LoopListeners {
            services,
            accepting: RefCell::default(),
            receiving: RefCell::default(),
        })));
    }

    /// Makes a generation the one that new requests begin with, and takes connections and datagrams from exactly these sockets.
    pub(crate) fn install(&self, generation: Arc<Generation>, wanted: Vec<Wanted>) {
        let (services, loop_state) = (&self.services, &self.services.loop_state);
        self.look_whether_drained();
        let mut accepting = self.accepting.borrow_mut();
        // Before the configuration changes: connections that wait at a removed address are served by the old one.
        accepting.retain(|accepting| {
            let keep = wanted.iter().any(|wanted| wanted.is_accepted_by(accepting));
            if !keep {
                accepting.end(services);
            }
            keep
        });
        // Sockets are replaced and not closed if only their options have changed: sessions go on.
        let mut receiving = self.receiving.borrow_mut();
        receiving.retain(|receiving| {
            let mut same = wanted.iter().filter(|wanted| receiving.listener.is_at(&wanted.spec)).peekable();
            if same.peek().is_none() {
                receiving.end();
                return false;
            }
            let keep = same.any(|wanted| wanted.number == receiving.number);
            if !keep {
                receiving.leave();
            }
            keep
        });
        loop_state.set_generation(generation);
        services.all().for_each(|service| service.renew());
        loop_state.modules.hand_over();
        for wanted in wanted {
            if wanted.spec.protocol == Protocol::Datagram {
                self.receive(&mut receiving, wanted);
                continue;
            }
            if accepting.iter().any(|known| wanted.is_accepted_by(known)) {
                continue;
            }
            let Wanted { spec, fd, between, only_loop, .. } = wanted;
            let Some(service) = services.of(&spec) else {
                debug_assert!(false, "{} names a service that the worker does not have", spec.name);
                continue;
            };
            let listener = Listener { spec: LoopLocal::new(spec), fd, between, only_loop, service };
            match Accepting::start(services, listener) {
                Ok(started) => accepting.push(started),
                Err(error) => accept::log_failure(loop_state, &error),
            }
        }
    }

    /// Looks whether this loop takes new connections, and has the tasks that accept them know.
    pub(crate) fn look_whether_drained(&self) {
        if self.services.loop_state.look_whether_drained() {
            self.accepting.borrow().iter().for_each(|accepting| accepting.listener.between.look.notify_waiters());
        }
    }

    /// The state that the loops share.
    pub(super) fn shared(&self) -> &Shared {
        &self.services.loop_state.shared
    }

    /// This loop's part in receiving from the socket of this part, if it has one.
    pub(super) fn receiving_from(&self, part: &Arc<Part>) -> Option<Rc<Receiving>> {
        self.receiving.borrow().iter().find(|receiving| receiving.is_of(part)).cloned()
    }

    /// Receives datagrams from a socket.
    fn receive(&self, receiving: &mut Vec<Rc<Receiving>>, wanted: Wanted) {
        let Wanted { spec, number, fd, between, .. } = wanted;
        let same = |known: &&Rc<Receiving>| known.number == number && known.listener.is_at(&spec);
        if let Some(known) = receiving.iter().find(same) {
            if !known.listener.spec().is(&spec) {
                known.replace(LoopLocal::new(spec), fd);
            }
            return;
        }
        let Some(service) = self.services.of(&spec) else {
            debug_assert!(false, "{} names a service that the worker does not have", spec.name);
            return;
        };
        let directory = between.directory().cloned();
        let shared = directory.and_then(|directory| Some(SharedPart { part: directory.part(number)?, directory }));
        let socket = Socket { spec: LoopLocal::new(spec), number, fd, shared };
        receiving.push(Receiving::start(&self.services.loop_state, socket, service));
    }

    /// Takes no connections any more: other loops do. Those without a request go to them, and others end with their requests.
    pub(crate) fn retire(&self) {
        let services = self.services.clone();
        loops::spawn(0, "giving away idle connections", async move {
            let loop_state = &services.loop_state;
            // Those that have a request go when they have its answer.
            if let Some(fewest) = with_fewest(&loop_state.shared.loops.load()) {
                loop_state.shedding.order(fewest);
            }
            loop_state.set_draining();
            services.all().for_each(|service| service.drain());
        });
    }

    /// Stops accepting, and drains the services as soon as all sockets of the worker are closed, those that only other loops
    /// accept from as well: a client that is told to go connects anew at once, and what waits in a socket that is closed is
    /// reset. `heard` is dropped after that.
    pub(crate) fn drain(&self, sockets: Arc<[Weak<OwnedFd>]>, heard: Background) {
        self.services.loop_state.set_draining();
        self.accepting.take().iter().for_each(|accepting| accepting.end(&self.services));
        self.receiving.take().iter().for_each(|receiving| receiving.drain());
        let services = self.services.clone();
        loops::spawn(0, "draining", async move {
            for _ in 0..CLOSING {
                if sockets.iter().all(|socket| socket.strong_count() == 0) {
                    break;
                }
                timer::sleep(CLOSING_STEP).await;
            }
            services.all().for_each(|service| service.drain());
            drop(heard);
        });
    }

    /// Ends the tunnels of requests that began with this generation.
    pub(crate) fn end_tunnels(&self, generation: u64) {
        self.services.all().for_each(|service| service.end_tunnels(generation));
    }

    /// Has the modules hand over the data that they have gathered, such as buffered lines of logs.
    pub(crate) fn hand_over(&self) {
        self.services.loop_state.modules.hand_over();
    }
}
            // The first round may begin in the middle.
            for _ in 0..2 {
                while !give_idle(&services, MOVED_AT_ONCE, |shared| with_fewest(&shared.loops.load())) {
                    loops::yield_now().await;
                }
            }
            // What cannot go is closed.
