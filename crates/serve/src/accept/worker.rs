//! The worker: its loops, and the state that they share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use freerun_runtime::loops::{self, LoopHandle, LoopStats};
use freerun_runtime::spare_memory;
use freerun_runtime::stats::Counter;

use crate::accept::datagrams::client_key::ClientKind;
use crate::accept::datagrams::directory::{AnswersBy, Directory};
use crate::accept::datagrams::{SharedPart, SocketPlace};
use crate::accept::loop_listeners::{self, LoopListeners, WantedListener};
use crate::accept::loop_services::LoopServices;
use crate::accept::rescue::{self, AllWatched, TakenBy, WatchedSocket};
use crate::accept::service::MakeService;
use crate::accept::{Between, BoundAddress, other_processes};
use crate::configuration::generation::Generation;
use crate::listen::{ListenKey, ListenSpec, Protocol};
use crate::loops::background::Background;
use crate::loops::figures::http2::Http2Figures;
use crate::loops::figures::quic::{Http3Figures, QuicFigures};
use crate::loops::figures::sessions::SessionFigures;
use crate::loops::message_boxes::MessageBoxes;
use crate::loops::shared::{Loops, SharedState};
use crate::loops::state::LoopState;
use crate::tls::files::Secret;
use crate::tls::handshake::figures::TlsFigures;

/// The least time for which a loop stays that takes no connections any more: another thread may just have sent it one.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// The settings of a worker at the main and `events` levels.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The number of loops (`worker_processes`).
    pub loops: usize,
    /// Number of workers that have died before this one.
    pub respawned: u32,
    /// The most connections that each loop has (`worker_connections`).
    pub connections: usize,
    /// Whether loops take turns to accept (`accept_mutex`).
    pub accept_mutex: bool,
    /// Whether several connections are accepted at a time (`multi_accept`).
    pub multi_accept: bool,
    /// The processors of each loop, used in turn; with an empty list no loop is bound (`worker_cpu_affinity`).
    pub cpus: Vec<Vec<usize>>,
    /// The secret of [`SharedState::quic_secret`].
    pub quic_secret: Secret,
}

impl WorkerOptions {
    /// A single loop with the other settings of nginx's defaults.
    pub fn one_loop(connections: usize) -> WorkerOptions {
        WorkerOptions {
            loops: 1,
            respawned: 0,
            connections,
            accept_mutex: false,
            multi_accept: false,
            cpus: Vec::new(),
            quic_secret: Secret::default(),
        }
    }
}

/// The loops, as the process that owns them sees them.
pub struct Worker {
    shared: Arc<SharedState>,
    services: &'static [MakeService],
    /// The loops that run, those that take no connections any more included.
    handles: RefCell<Vec<LoopHandle>>,
    /// The last moment at which loops were told to take no connections any more.
    fewer_since: Instant,
    listeners: Vec<BoundAddress>,
    /// Addresses of QUIC that are not listened at any more, until their connections have ended.
    retiring: Vec<RetiringAddress>,
    /// The sockets that are watched, from the first time that there are any on.
    watched: Option<Arc<AllWatched>>,
    /// Number of loops that have not run since the last question whether they live.
    asked: Arc<AtomicUsize>,
}

/// An address of QUIC that is not listened at any more.
struct RetiringAddress {
    spec: Arc<ListenSpec>,
    /// Its sockets, as long as loops read them.
    sockets: Vec<Weak<OwnedFd>>,
    between: Arc<Between>,
}

/// Calls a function when it is dropped.
struct AtEnd<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl Worker {
    /// Starts the loops with their first generation and these services. No connection is accepted before
    /// [`Worker::install`].
    ///
    /// # Errors
    /// A thread or an epoll instance could not be made.
    pub fn start(
        options: &WorkerOptions,
        generation: Arc<Generation>,
        services: &'static [MakeService],
    ) -> io::Result<Worker> {
        let shared = Arc::new(SharedState {
            client_tls: TlsFigures::default(),
            http2: Http2Figures::default(),
            http3: Http3Figures::default(),
            quic: QuicFigures::default(),
            quic_secret: options.quic_secret.clone(),
            boxes: Default::default(),
            sessions: SessionFigures::default(),
            upstream_tls: TlsFigures::default(),
            respawned: options.respawned,
            connections: options.connections.max(1),
            accept_mutex: options.accept_mutex,
            multi_accept: options.multi_accept,
            generation: ArcSwap::new(generation),
            loops: ArcSwap::default(),
            drained: Default::default(),
            client_levels: Default::default(),
            started: Instant::now(),
            reloads: Counter::default(),
            last_connection: AtomicU64::new(0),
            background: Default::default(),
        });
        let (handles, asked) = Default::default();
        let mut worker = Worker {
            shared,
            services,
            handles,
            fewer_since: Instant::now(),
            listeners: Vec::new(),
            retiring: Vec::new(),
            watched: None,
            asked,
        };
        worker.set_loops(options)?;
        Ok(worker)
    }

    /// Has as many loops as these options say. New ones take connections from the next [`Worker::install`] on; those that are
    /// too many take none from then on, and end when theirs have ended ([`Worker::sweep`]).
    ///
    /// # Errors
    /// A thread or an epoll instance could not be made. Nothing has changed then.
    pub fn set_loops(&mut self, options: &WorkerOptions) -> io::Result<()> {
        let mut loops = Loops::clone(&self.shared.loops.load());
        let wanted = options.loops.max(1);
        let mut new = Vec::new();
        if loops.serving.len() > wanted {
            loops.serving.truncate(wanted);
            self.fewer_since = Instant::now();
        }
        while loops.serving.len() < wanted {
            let handles = self.handles.get_mut();
            let runs = |index: &usize| handles.iter().chain(&new).any(|handle| handle.index == *index);
            let index = (0..).find(|index| !runs(index)).unwrap_or_default();
            match start_loop(index, loops.serving.len(), options, loops.stats.get(index).cloned()) {
                Ok(handle) => new.push(handle),
                Err(error) => {
                    new.into_iter().for_each(LoopHandle::stop);
                    return Err(error);
                }
            }
            let (stats, remote) = new.last().map(|handle| (handle.stats.clone(), handle.remote())).unzip();
            put(&mut loops.stats, index, stats);
            put(&mut loops.remotes, index, remote);
            put(&mut loops.shedding, index, Some(Arc::default()));
            put(&mut loops.silent, index, Some(Arc::default()));
            put(&mut loops.passed, index, Some(Arc::default()));
            loops.serving.push(index);
            loops.running.push(index);
        }
        loops.fewest = if self.handles.get_mut().is_empty() { wanted } else { loops.fewest.min(wanted) };
        loops.check_invariants();
        self.shared.loops.store(Arc::new(loops));
        for handle in new {
            let (index, stats) = (handle.index, handle.stats.clone());
            let (shared, services) = (self.shared.clone(), self.services);
            handle.tell(move || {
                loops::spawn(0, "giving back memory", spare_memory::give_back_at_rest(stats.clone()));
                let loop_state = LoopState::new(index, stats, shared);
                LoopListeners::begin(LoopServices::new(&loop_state, services));
            });
            self.handles.get_mut().push(handle);
        }
        Ok(())
    }

    /// Ends the loops that take no connections any more and have none left. Returns whether there are others that still have
    /// some.
    pub fn sweep(&self) -> bool {
        let loops = self.shared.loops.load_full();
        // What goes on without a client may be on any loop.
        let rests = self.shared.background.count() == 0 && self.fewer_since.elapsed() >= ON_ITS_WAY;
        let is_over =
            |handle: &mut LoopHandle| !loops.serving.contains(&handle.index) && rests && handle.stats.active.get() == 0;
        let over: Vec<_> = self.handles.borrow_mut().extract_if(.., is_over).collect();
        if !over.is_empty() {
            let mut fewer = Loops::clone(&loops);
            fewer.running.retain(|index| over.iter().all(|handle| handle.index != *index));
            fewer.check_invariants();
            self.shared.loops.store(Arc::new(fewer));
        }
        for handle in over {
            handle.tell(|| {
                loop_listeners::of_this_loop(LoopListeners::hand_over);
                freerun_upstream::pool::leave();
            });
            handle.stop();
        }
        self.handles.borrow().iter().any(|handle| !loops.serving.contains(&handle.index))
    }

    /// The state that the loops share, for the status handler.
    pub fn shared(&self) -> &Arc<SharedState> {
        &self.shared
    }

    /// Uses these message boxes. They stay the same as long as the process lives.
    pub fn set_boxes(&self, boxes: MessageBoxes) {
        let boxes = Arc::new(boxes);
        if self.shared.boxes.set(boxes.clone()).is_ok() {
            other_processes::begin(&self.shared, &boxes);
        }
    }

    /// Reads the sockets of QUIC again that another process has read.
    pub fn claim_sockets(&self) {
        if let Some(boxes) = self.shared.boxes.get() {
            other_processes::claim_all(&self.shared, boxes);
        }
    }

    /// Has new requests begin with this generation, and makes the loops accept from exactly these sockets: one for each address, or one for each loop with `reuseport`. Sockets of an address that stays are left alone.
    ///
    /// The loops hand over the data that they have gathered, such as buffered lines of logs; `then` is called as by
    /// [`Worker::hand_over`].
    pub fn install(
        &mut self,
        generation: Arc<Generation>,
        listeners: Vec<(ListenSpec, Vec<OwnedFd>)>,
        then: impl FnOnce() + Send + Sync + 'static,
    ) {
        self.shared.generation.store(generation.clone());
        self.shared.reloads.add();
        // A new configuration begins as it is written.
        self.shared.drained.clear();
        self.shared.client_levels.clear();
        let mut before: HashMap<ListenKey, BoundAddress> =
            std::mem::take(&mut self.listeners).into_iter().map(|bound| (bound.0.key(), bound)).collect();
        if let Some(boxes) = self.shared.boxes.get() {
            // What another process reads stays with it.
            let names = other_processes::quic_addresses(listeners.iter().map(|(spec, _)| spec));
            let names: Vec<String> = names.filter(|name| !boxes.is_read_elsewhere(name)).collect();
            other_processes::claim(&self.shared, boxes, &names);
        }
        // QUIC knows nothing of sessions, and they know nothing of it.
        let other_use: Vec<BoundAddress> =
            listeners.iter().filter_map(|(spec, _)| take_if_other_use(&mut before, spec)).collect();
        for (spec, fds) in listeners {
            let known = before.remove(&spec.key()).or_else(|| self.take_retiring(&spec));
            let (spec, fds, between) = match known {
                // The new descriptors refer to the same sockets, and are closed, except the sockets of further loops.
                Some((old, mut known, between)) if *old == spec && !known.is_empty() => {
                    known.extend(fds.into_iter().skip(known.len()).map(Arc::new));
                    (old, known, between)
                }
                known => {
                    let between = Arc::new(between(&spec, known.map(|(.., between)| between)));
                    (Arc::new(spec), fds.into_iter().map(Arc::new).collect(), between)
                }
            };
            if let Some(directory) = between.directory() {
                directory.extend(fds.len());
            }
            self.listeners.push((spec, fds, between));
        }
        self.share_sockets(before.values().chain(&other_use));
        let gone = before.into_values().filter(|(spec, ..)| spec.quic);
        self.retiring.extend(gone.map(|(spec, sockets, between)| {
            let sockets = sockets.iter().map(Arc::downgrade).collect();
            RetiringAddress { spec, sockets, between }
        }));
        drop(other_use);
        self.watch();
        let loops = self.shared.loops.load_full();
        let last = Arc::new(AtEnd(Some(then)));
        for handle in &*self.handles.borrow() {
            let last = last.clone();
            let place = loops.serving.iter().position(|index| *index == handle.index);
            let wanted = place.map(|place| self.wanted(place, &loops)).unwrap_or_default();
            let generation = generation.clone();
            handle.tell(move || {
                loop_listeners::of_this_loop(|listeners| {
                    listeners.install(generation, wanted);
                    if place.is_none() {
                        listeners.retire();
                    }
                });
                drop(last);
            });
        }
    }

    /// The state of an address of QUIC that is listened at again before its last connection has ended, without its sockets:
    /// the master has them, too.
    fn take_retiring(&mut self, spec: &ListenSpec) -> Option<BoundAddress> {
        let place = self.retiring.iter().position(|retiring| retiring.spec.key() == spec.key())?;
        let RetiringAddress { spec: old, between, .. } = self.retiring.swap_remove(place);
        if old.quic != spec.quic {
            return None;
        }
        Some((old, Vec::new(), between))
    }

    /// The removed addresses whose last connections have ended since this was asked before, and whether there are others.
    pub fn take_closed(&mut self) -> (Vec<ListenKey>, bool) {
        let is_closed = |retiring: &mut RetiringAddress| {
            let connections = retiring.between.directory().map_or(0, |directory| directory.connections().load(Relaxed));
            connections == 0 && retiring.sockets.iter().all(|socket| socket.strong_count() == 0)
        };
        let closed: Vec<ListenKey> =
            self.retiring.extract_if(.., is_closed).map(|retiring| retiring.spec.key()).collect();
        (closed, !self.retiring.is_empty())
    }

    /// The sockets that the loop at this place takes connections and datagrams from.
    fn wanted(&self, place: usize, loops: &Loops) -> Vec<WantedListener> {
        let mut wanted = Vec::new();
        for (spec, fds, between) in &self.listeners {
            for number in spec.sockets_of(place, loops.number(), fds.len()) {
                let only_loop = only_loop(spec, number, fds.len(), loops);
                let (spec, fd, between) = (spec.clone(), fds[number].clone(), between.clone());
                let place = SocketPlace { number, sockets: fds.len() };
                wanted.push(WantedListener { spec, place, fd, between, only_loop });
            }
        }
        wanted
    }

    /// Has all loops answer by the sockets of addresses for datagrams that have only one each, and nobody by the sockets of
    /// addresses that are `gone`. Loops hear of it afterwards: they find here whether an address is still listened on.
    fn share_sockets<'b>(&self, gone: impl Iterator<Item = &'b BoundAddress>) {
        let is_helped = self.shared.loops.load().number() > 1;
        for (spec, fds, between) in self.listeners.iter().filter(|(spec, ..)| !spec.quic) {
            let Some(directory) = between.directory() else { continue };
            let socket = match &fds[..] {
                [only] => Some(AnswersBy { spec: spec.clone(), fd: only.clone() }),
                _ => None,
            };
            directory.set_answers_by(socket, is_helped);
        }
        gone.filter_map(|(.., between)| between.directory())
            .for_each(|directory| directory.set_answers_by(None, false));
    }

    /// Gives the rescue the sockets that loops accept from, and starts it the first time that there are any. Tells the loops
    /// whether to enter the connections that have sent nothing. A single loop has nobody who could help.
    fn watch(&mut self) {
        let loops = self.shared.loops.load_full();
        loops.silent.iter().for_each(|silent| silent.set_watched(loops.number() > 1 && !self.listeners.is_empty()));
        let mut watched = Vec::new();
        for (spec, fds, between) in self.listeners.iter().filter(|_| loops.number() > 1) {
            let socket =
                |number: usize, taken_by| WatchedSocket { spec: spec.clone(), fd: fds[number].clone(), taken_by };
            match between.directory() {
                Some(directory) => watched.extend((0..fds.len()).filter_map(|number| {
                    let at = SharedPart { directory: directory.clone(), part: directory.part(number)? };
                    Some(socket(number, TakenBy::Part(at)))
                })),
                None => watched.extend((0..fds.len()).map(|number| {
                    let only = only_loop(spec, number, fds.len(), &loops);
                    socket(number, only.map_or_else(|| TakenBy::All(between.clone()), TakenBy::Loop))
                })),
            }
        }
        match &self.watched {
            Some(known) => known.store(Arc::new(watched)),
            None if watched.is_empty() => {}
            None => {
                let watched = Arc::new(AllWatched::from_pointee(watched));
                // Without the thread a late loop's connections wait for it, as they do in nginx.
                if rescue::start(&self.shared, &watched).is_ok() {
                    self.watched = Some(watched);
                }
            }
        }
    }

    /// Stops accepting, and closes idle connections that were kept for another request. Requests that are running, or are the
    /// first ones of their connections, end; these connections close after them.
    pub fn drain(&mut self) {
        if let Some(boxes) = self.shared.boxes.get() {
            other_processes::send_to_others(&self.shared, boxes, boxes.offer());
        }
        // Sessions of datagrams go on by the sockets that they have.
        let accepting = self.listeners.iter().filter(|(spec, ..)| spec.protocol == Protocol::Stream);
        let sockets: Arc<[_]> = accepting.flat_map(|(_, fds, _)| fds).map(Arc::downgrade).collect();
        let gone = std::mem::take(&mut self.listeners);
        self.share_sockets(gone.iter());
        drop(gone);
        self.watch();
        // Connections go nowhere any more.
        self.shared.loops.load().shedding.iter().for_each(|shedding| shedding.end());
        for handle in &*self.handles.borrow() {
            // Until a loop has received this, the number of its connections is not known.
            let heard = Background::new(&self.shared.background);
            let sockets = sockets.clone();
            handle.tell(move || {
                loop_listeners::of_this_loop(|listeners| listeners.drain(sockets, heard));
            });
        }
    }

    /// Ends the tunnels of requests that began with this generation, soon.
    pub fn end_tunnels(&self, generation: u64) {
        for handle in &*self.handles.borrow() {
            handle.tell(move || loop_listeners::of_this_loop(|listeners| listeners.end_tunnels(generation)));
        }
    }

    /// The number of open connections.
    pub fn active(&self) -> u64 {
        self.handles.borrow().iter().map(|handle| handle.stats.active.get()).sum()
    }

    /// The number of pieces of work that go on although no client waits for them. A finished piece may have left a
    /// connection: a caller that asks for both numbers asks for this one first.
    pub fn background(&self) -> usize {
        self.shared.background.count()
    }

    /// Cuts off the requests that go on, with their lines in the log. `then` is called as by [`Worker::hand_over`].
    pub fn cut(&self, then: impl FnOnce() + Send + Sync + 'static) {
        let last = Arc::new(AtEnd(Some(then)));
        for handle in &*self.handles.borrow() {
            let last = last.clone();
            handle.tell(move || loop_listeners::of_this_loop(|listeners| listeners.cut(last)));
        }
    }

    /// Makes the loops hand over the data that they have gathered, such as buffered lines of logs that are about to be
    /// reopened. `then` is called when all of them have done so, by the last one; it must not wait.
    pub fn hand_over(&self, then: impl FnOnce() + Send + Sync + 'static) {
        let last = Arc::new(AtEnd(Some(then)));
        for handle in &*self.handles.borrow() {
            let last = last.clone();
            handle.tell(move || {
                loop_listeners::of_this_loop(LoopListeners::hand_over);
                drop(last);
            });
        }
    }

    /// Whether every loop has run since this was asked before. The first answer is yes. There is one job for each loop at
    /// most that it has not run yet.
    pub fn loops_live(&self) -> bool {
        if self.asked.load(Acquire) > 0 {
            return false;
        }
        for handle in &*self.handles.borrow() {
            self.asked.fetch_add(1, Relaxed);
            let asked = self.asked.clone();
            handle.tell(move || {
                let before = asked.fetch_sub(1, Release);
                debug_assert!(before > 0, "a loop answers that was not asked");
            });
        }
        true
    }

    /// Ends all loops; running requests are cut off. The listening sockets are closed then, though the process may live on
    /// while a thread of a pool waits for a disk. Clients are refused, and another process may listen there.
    pub fn stop(mut self) {
        self.hand_over(|| ());
        let gone = std::mem::take(&mut self.listeners);
        self.share_sockets(gone.iter());
        drop(gone);
        self.watch();
        for handle in self.handles.take() {
            handle.stop();
        }
    }
}

/// Takes the address out of these if it was used for QUIC and is not any more, or the other way round.
fn take_if_other_use(before: &mut HashMap<ListenKey, BoundAddress>, spec: &ListenSpec) -> Option<BoundAddress> {
    let key = spec.key();
    let is_other = before.get(&key).is_some_and(|(old, ..)| old.quic != spec.quic);
    if is_other { before.remove(&key) } else { None }
}

/// The state that the loops share about an address. If only the options of a socket for datagrams have changed (`before`), the
/// loops of its sessions are still known.
fn between(spec: &ListenSpec, before: Option<Arc<Between>>) -> Between {
    if spec.protocol != Protocol::Datagram {
        return Between::default();
    }
    let kind = if spec.quic { ClientKind::Connections } else { ClientKind::Sessions };
    let new = || Arc::new(Directory::new(kind));
    Between::of(before.and_then(|between| between.directory().cloned()).unwrap_or_else(new))
}

/// The loop that alone takes what comes to this socket of an address with so many; `None`: several loops accept from it.
fn only_loop(spec: &ListenSpec, number: usize, sockets: usize, loops: &Loops) -> Option<usize> {
    if !spec.is_sharded() || sockets < 2 {
        return None;
    }
    let places = 0..loops.number();
    let mut those = places.filter(|place| spec.sockets_of(*place, loops.number(), sockets).any(|own| own == number));
    let first = those.next()?;
    if those.next().is_some() { None } else { loops.serving.get(first).copied() }
}

/// Starts a loop that is to be at this place among those that take connections. It goes on with the figures of the one before
/// with its index.
fn start_loop(
    index: usize,
    place: usize,
    options: &WorkerOptions,
    stats: Option<Arc<LoopStats>>,
) -> io::Result<LoopHandle> {
    let cpus = (!options.cpus.is_empty()).then(|| {
        let mut set = rustix::thread::CpuSet::new();
        for cpu in &options.cpus[place % options.cpus.len()] {
            if *cpu < rustix::thread::CpuSet::MAX_CPU {
                set.set(*cpu);
            }
        }
        set
    });
    LoopHandle::start_with(index, cpus, stats.unwrap_or_default())
}

/// Puts a value at this place of a list, or behind its end.
fn put<T>(list: &mut Vec<T>, place: usize, value: Option<T>) {
    let Some(value) = value else { return };
    match list.get_mut(place) {
        Some(known) => *known = value,
        None => list.push(value),
    }
}
