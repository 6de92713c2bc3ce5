//! The listening sockets of one loop.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use freerun_runtime::{loops, timer};

use crate::accept::datagrams::directory::SocketPart;
use crate::accept::datagrams::{SharedPart, SocketPlace};
use crate::accept::loop_services::LoopServices;
use crate::accept::receive::{DatagramReceiver, Socket};
use crate::accept::service::{GivenConnections, MovingConnection, Service};
use crate::accept::{self, Acceptor, Between, Listener};
use crate::configuration::generation::Generation;
use crate::listen::{ListenSpec, Protocol};
use crate::loops::background::Background;
use crate::loops::local::{AddressHasher, LoopLocal};
use crate::loops::shared::{Loops, SharedState};
use crate::loops::state::LoopState;

/// Number of turns of a loop that its tasks have to end when they are cut off. Connections of HTTP/2 stay until their clients have
/// seen that they end.
const CUT_TURNS: usize = 200;

/// Time between two looks whether all sockets of the worker are closed, and their number. A loop may be late.
const CLOSING_STEP: Duration = Duration::from_millis(1);
const CLOSING: usize = 1000;

/// Time between two looks whether a removed address still has connections of QUIC.
const RETIRING_STEP: Duration = Duration::from_millis(20);

/// Number of connections that go to other loops before other tasks get their turn.
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
pub fn tell(shared: &SharedState, index: usize, job: impl FnOnce(&LoopServices) + Send + 'static) -> bool {
    tell_listeners(shared, index, |listeners| job(&listeners.services))
}

/// Sends a packet of QUIC to a loop, whose services `job` gives it to; `false` if that loop does not exist, or has ended. If too
/// many are on their way to it, the packet is lost.
pub fn pass_packet(shared: &SharedState, index: usize, job: impl FnOnce(&LoopServices) + Send + 'static) -> bool {
    let loops = shared.loops.load();
    let Some(passed) = loops.passed.get(index) else { return false };
    let Some(on_its_way) = passed.leave() else {
        shared.quic.lost_from_clients.add();
        return true;
    };
    tell(shared, index, move |services| {
        drop(on_its_way);
        job(services);
    })
}

/// Sends a job to the listeners of a loop; `false` if that loop does not exist, or has ended.
pub(super) fn tell_listeners(
    shared: &SharedState,
    index: usize,
    job: impl FnOnce(&LoopListeners) + Send + 'static,
) -> bool {
    let loops = shared.loops.load();
    loops.remotes.get(index).is_some_and(|remote| remote.tell(move || of_this_loop(job)))
}

/// Gives a connection without a request from this loop to another one.
pub fn move_to(loop_state: &LoopState, to: usize, moving: MovingConnection) {
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

/// Gives up to `most` connections without a request to the loop with this index, of the next few of all.
pub(super) fn give_idle(services: &LoopServices, most: usize, to: usize) {
    let mut left = most;
    for service in services.all() {
        left -= give_idle_of(service, &services.loop_state, left, |_| Some(to)).count;
    }
}

/// Connections of a service that were given away.
struct GivenAwayConnections {
    count: usize,
    /// Whether the last one of the service's was looked at.
    is_round: bool,
}

/// Gives up to `most` of a service's connections without a request to other loops, of the next few of all.
fn give_idle_of(
    service: Rc<dyn Service>,
    loop_state: &LoopState,
    most: usize,
    to: impl Fn(&SharedState) -> Option<usize>,
) -> GivenAwayConnections {
    let GivenConnections { moving, is_round } = service.give_idle(most);
    debug_assert!(moving.len() <= most, "more connections were given than asked for");
    let count = moving.len().min(most);
    for moving in moving {
        // Without another loop it is closed.
        if let Some(to) = to(&loop_state.shared) {
            move_to(loop_state, to, moving);
        }
    }
    GivenAwayConnections { count, is_round }
}

/// The loop that takes connections and that a connection without a request is to go to, if it is to go.
pub fn destination(loop_state: &LoopState) -> Option<usize> {
    let to = loop_state.shedding.to()?;
    let loops = loop_state.shared.loops.load();
    if loops.serving.contains(&to) {
        return Some(to);
    }
    // A reload has let that loop go. A loop that stays keeps its connections until the next order; a loop that goes chooses.
    if loops.serving.contains(&loop_state.index) { None } else { with_fewest(&loops) }
}

/// The loop with fewest connections, of those that take new ones.
fn with_fewest(loops: &Loops) -> Option<usize> {
    loops.taking().min_by_key(|(_, stats)| stats.active.get()).map(|(index, _)| index)
}

/// A socket that a loop is to take connections or datagrams from.
pub(crate) struct WantedListener {
    /// The specification of the socket.
    pub(crate) spec: Arc<ListenSpec>,
    /// The place of the socket among the sockets of its address.
    pub(crate) place: SocketPlace,
    /// The socket.
    pub(crate) fd: Arc<OwnedFd>,
    /// The state that the loops share about the address.
    pub(crate) between: Arc<Between>,
    /// Set if this loop alone takes what comes there.
    pub(crate) only_loop: Option<usize>,
}

impl WantedListener {
    /// Whether the loop, which accepts from this socket, does so in this way.
    fn is_accepted_by(&self, accepting: &Acceptor) -> bool {
        let Listener { spec, only_loop, .. } = &accepting.listener;
        spec.is(&self.spec) && *only_loop == self.only_loop
    }

    /// The part of the socket in what the loops share about the address, if it takes datagrams.
    fn shared(&self) -> Option<SharedPart> {
        let directory = self.between.directory()?;
        Some(SharedPart { part: directory.part(self.place.number)?, directory: directory.clone() })
    }
}

/// Values of a loop by the addresses in memory of objects that it keeps: with a port range there are thousands.
type ByPlace<T, V> = HashMap<*const T, Rc<V>, BuildHasherDefault<AddressHasher>>;

/// The listening sockets that one loop accepts from.
pub(crate) struct LoopListeners {
    services: Rc<LoopServices>,
    /// By the socket.
    accepting: RefCell<ByPlace<OwnedFd, Acceptor>>,
    /// By what is shared about the socket.
    receiving: RefCell<ByPlace<SocketPart, DatagramReceiver>>,
    /// The parts in sessions at sockets that other loops read, at most one for each port of a range of datagrams.
    helping: RefCell<ByPlace<SocketPart, DatagramReceiver>>,
    /// Whether the loop takes no connections and begins no sessions any more.
    is_over: Cell<bool>,
}

impl LoopListeners {
    /// Makes the listeners of this thread's loop, without any socket yet.
    pub(crate) fn begin(services: Rc<LoopServices>) {
        LOOP_LISTENERS.set(Some(Rc::new(LoopListeners {
            services,
            accepting: RefCell::default(),
            receiving: RefCell::default(),
            helping: RefCell::default(),
            is_over: Cell::new(false),
        })));
    }

    /// Has new requests begin with this generation, and takes connections and datagrams from exactly these sockets.
    pub(crate) fn install(&self, generation: Arc<Generation>, wanted: Vec<WantedListener>) {
        let (services, loop_state) = (&self.services, &self.services.loop_state);
        self.look_whether_drained();
        let (mut sockets, mut parts, mut addresses) = (HashMap::new(), HashSet::new(), HashSet::new());
        for one in &wanted {
            match one.shared() {
                None => {
                    sockets.insert(Arc::as_ptr(&one.fd), one);
                }
                Some(shared) => {
                    parts.insert(Arc::as_ptr(&shared.part));
                    addresses.insert((&*one.spec.name, one.spec.quic));
                }
            }
        }
        let mut accepting = self.accepting.borrow_mut();
        // Before the configuration changes: connections that wait at a removed address are served by the old one.
        accepting.retain(|socket, accepting| {
            let keep = sockets.get(socket).is_some_and(|wanted| wanted.is_accepted_by(accepting));
            if !keep {
                accepting.end(services);
            }
            keep
        });
        // Sockets are replaced and not closed if only their options have changed: sessions go on.
        let mut receiving = self.receiving.borrow_mut();
        let mut retiring = Vec::new();
        receiving.retain(|part, receiving| {
            let keep = parts.contains(part);
            let spec = receiving.listener.spec();
            let has_other_use = || generation.listeners.iter().any(|other| other.is_same_socket(&spec));
            let is_listened_on = || generation.listeners.iter().any(|other| other.quic && other.is_same_socket(&spec));
            if addresses.contains(&(&*spec.name, spec.quic)) {
                if !keep {
                    receiving.leave();
                }
            } else if spec.quic && is_listened_on() {
                // This loop takes no connections any more, and goes on with those that it has.
                receiving.stop_reading();
            } else if receiving.has_connections() && !has_other_use() {
                // Connections of QUIC need their clients' packets to end in order.
                retiring.push(receiving.clone());
                return true;
            } else {
                receiving.end();
            }
            keep
        });
        self.helping.borrow_mut().retain(|_, helping| helping.go_on());
        loop_state.set_generation(generation);
        services.all().for_each(|service| service.renew());
        loop_state.modules.hand_over();
        retiring.into_iter().for_each(|receiving| self.await_last_connection(receiving));
        for wanted in wanted {
            if wanted.spec.protocol == Protocol::Datagram {
                self.receive(&mut receiving, wanted);
                continue;
            }
            if accepting.contains_key(&Arc::as_ptr(&wanted.fd)) {
                continue;
            }
            let WantedListener { spec, fd, between, only_loop, .. } = wanted;
            let Some(service) = services.of(&spec) else {
                debug_assert!(false, "{} names a service that the worker does not have", spec.name);
                continue;
            };
            let listener = Listener { spec: LoopLocal::new(spec), fd, between, only_loop, service };
            match Acceptor::start(services, listener) {
                Ok(started) => drop(accepting.insert(Arc::as_ptr(&started.listener.fd), started)),
                Err(error) => accept::log_failure(loop_state, &error),
            }
        }
    }

    /// Reads a socket that is not listened at any more as long as there are connections at its address.
    fn await_last_connection(&self, receiving: Rc<DatagramReceiver>) {
        if receiving.is_retiring.replace(true) {
            return;
        }
        let services = self.services.clone();
        loops::spawn(0, "ending the connections of a removed address", async move {
            while receiving.has_connections() && !receiving.is_listened_at(&services.loop_state) {
                timer::sleep(RETIRING_STEP).await;
            }
            receiving.is_retiring.set(false);
            if receiving.is_listened_at(&services.loop_state) {
                return;
            }
            of_this_loop(|listeners| {
                listeners.receiving.borrow_mut().retain(|_, other| !Rc::ptr_eq(other, &receiving));
            });
            receiving.end();
        });
    }

    /// Looks whether this loop takes new connections, and has the tasks that accept them know.
    pub(crate) fn look_whether_drained(&self) {
        if self.services.loop_state.look_whether_drained() {
            self.accepting.borrow().values().for_each(|accepting| accepting.listener.between.look.notify_waiters());
        }
    }

    /// The state that the loops share.
    pub(super) fn shared(&self) -> &SharedState {
        &self.services.loop_state.shared
    }

    /// The index of this loop.
    pub(super) fn index(&self) -> usize {
        self.services.loop_state.index
    }

    /// The receiver of this loop that has this part of an address for datagrams. If the part is the loop's without having a
    /// socket, it is made at the first call.
    pub(super) fn receiving_for(&self, at: &SharedPart) -> Option<Rc<DatagramReceiver>> {
        let part = Arc::as_ptr(&at.part);
        if let Some(known) = self.receiving.borrow().get(&part).or(self.helping.borrow().get(&part)) {
            return Some(known.clone());
        }
        let is_own = at.part.reader() == self.index() && at.has_no_socket();
        let socket = at.directory.answers_by().filter(|_| is_own && !self.is_over.get())?;
        let service = self.services.of(&socket.spec)?;
        let (spec, fd) = (LoopLocal::new(socket.spec.clone()), socket.fd.clone());
        let socket = Socket { spec, fd, shared: Some(at.clone()), place: SocketPlace::ALONE };
        let receiving = DatagramReceiver::without_reading(&self.services.loop_state, socket, service);
        self.helping.borrow_mut().insert(part, receiving.clone());
        Some(receiving)
    }

    /// Receives datagrams from a socket.
    fn receive(&self, receiving: &mut ByPlace<SocketPart, DatagramReceiver>, wanted: WantedListener) {
        let Some(shared) = wanted.shared() else {
            debug_assert!(false, "{} has no part for socket {}", wanted.spec.name, wanted.place.number);
            return;
        };
        let WantedListener { spec, fd, place, .. } = wanted;
        let part = Arc::as_ptr(&shared.part);
        if let Some(known) = receiving.get(&part) {
            known.listener.set_place(place);
            if !known.listener.spec().is(&spec) {
                known.replace(LoopLocal::new(spec), fd);
            }
            return;
        }
        let Some(service) = self.services.of(&spec) else {
            debug_assert!(false, "{} names a service that the worker does not have", spec.name);
            return;
        };
        let connections = shared.directory.connections().clone();
        let socket = Socket { spec: LoopLocal::new(spec), fd, shared: Some(shared), place };
        let started = DatagramReceiver::start(&self.services.loop_state, socket, service);
        started.listener.count_connections(&connections);
        receiving.insert(part, started);
    }

    /// Takes no connections any more: other loops do. Those without a request go to them, and others end with their requests.
    pub(crate) fn retire(&self) {
        self.is_over.set(true);
        self.helping.take().values().for_each(|helping| helping.leave());
        let services = self.services.clone();
        loops::spawn(0, "giving away idle connections", async move {
            let loop_state = &services.loop_state;
            // Those that have a request go when they have its answer.
            if let Some(fewest) = with_fewest(&loop_state.shared.loops.load()) {
                loop_state.shedding.order(fewest);
            }
            loop_state.set_draining();
            let to = |shared: &SharedState| with_fewest(&shared.loops.load());
            for service in services.all() {
                // The first round may begin in the middle.
                for _ in 0..2 {
                    while !give_idle_of(service.clone(), loop_state, MOVED_AT_ONCE, to).is_round {
                        loops::yield_now().await;
                    }
                }
            }
            // What cannot go is closed.
            services.all().for_each(|service| service.drain());
        });
    }

    /// Stops accepting, and drains the services as soon as all sockets of the worker are closed, also sockets that only other
    /// loops accept from. A client that has to go connects anew at once, and the kernel resets connections that wait in a
    /// closed socket. `heard` is dropped after that.
    pub(crate) fn drain(&self, sockets: Arc<[Weak<OwnedFd>]>, heard: Background) {
        self.services.loop_state.set_draining();
        self.is_over.set(true);
        self.accepting.take().values().for_each(|accepting| accepting.end(&self.services));
        let receiving = [self.receiving.take(), self.helping.take()];
        receiving.iter().flat_map(HashMap::values).for_each(|receiving| receiving.drain());
        // Connections of QUIC need their clients' packets.
        let [receiving, _] = receiving;
        let is_quic = |(_, receiving): &(_, Rc<DatagramReceiver>)| receiving.listener.spec().quic;
        self.receiving.borrow_mut().extend(receiving.into_iter().filter(is_quic));
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

    /// Reads the sockets of QUIC that this process is to read, and no others.
    pub(super) fn look_who_reads(&self) {
        self.receiving.borrow().values().for_each(|receiving| receiving.look_who_reads(&self.services.loop_state));
    }

    /// Cuts off the requests that go on. `then` is dropped when they have ended.
    pub(crate) fn cut(&self, then: impl Sized + 'static) {
        let loop_state = self.services.loop_state.clone();
        loop_state.set_cut();
        self.services.all().for_each(|service| service.cut());
        loops::spawn(0, "cutting requests off", async move {
            for _ in 0..CUT_TURNS {
                if loop_state.stats.active.get() == 0 {
                    break;
                }
                loops::after_events().await;
            }
            drop(then);
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
