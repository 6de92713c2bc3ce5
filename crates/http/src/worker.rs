//! The worker: its loops, and what each loop keeps.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use freerun_proto::date;
use freerun_runtime::log::{Errno as ShowErrno, Level, clock};
use freerun_runtime::loops::{self, LoopHandle, LoopStats, Remote};
use freerun_runtime::stats::Counter;
use freerun_runtime::tasks::Tasks;
use freerun_serve::loop_local::{AddressHasher, LoopLocal};
use freerun_serve::predictor::Sampled;
use freerun_transport::Transport;
use rustix::io::Errno;
use tokio::sync::Notify;

use crate::background::{Background, Backgrounds};
use crate::connection::Connection;
use crate::connection::idle::{Asked, Idle};
use crate::content::error_page::server_name;
use crate::content::hot::{HotFile, HotFiles, VALID};
use crate::generation::Generation;
use crate::listen::ListenSpec;
use crate::listen::accept::{self, Accepting, Between, Listener};
use crate::listen::rescue::{self, Shard, Shards};
use crate::loop_generation::LoopGeneration;
use crate::protocol::h1;
use crate::request::Address;
use crate::settings::core::ServerTokens;

/// What the main and `events` levels say of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// `worker_processes`: how many loops.
    pub loops: usize,
    /// `worker_connections`: how many connections each loop may have.
    pub connections: usize,
    /// `accept_mutex`: loops take turns to accept.
    pub accept_mutex: bool,
    /// `multi_accept`: several connections are accepted at a time.
    pub multi_accept: bool,
    /// `worker_cpu_affinity`: processors of each loop, used in turn; empty binds nothing.
    pub cpus: Vec<Vec<usize>>,
}

/// What all loops share.
pub struct Shared {
    /// How many connections each loop may have.
    pub connections: usize,
    /// Loops take turns to accept.
    pub accept_mutex: bool,
    /// Several connections are accepted at a time.
    pub multi_accept: bool,
    /// The generation that new requests begin with.
    pub generation: ArcSwap<Generation>,
    /// Figures of the loops, in order.
    pub loops: Vec<Arc<LoopStats>>,
    /// When the worker started.
    pub started: Instant,
    /// Generations installed since then.
    pub reloads: Counter,
    remotes: Vec<Remote>,
    next_connection: AtomicU64,
    /// Work that no client waits for.
    pub background: Backgrounds,
}

/// An address with its sockets, and what the loops tell each other of them.
type Bound = (Arc<ListenSpec>, Vec<Arc<OwnedFd>>, Arc<Between>);

/// The loops, as the process that owns them sees them.
pub struct Worker {
    shared: Arc<Shared>,
    handles: Vec<LoopHandle>,
    listeners: Vec<Bound>,
    /// The sockets of `reuseport`; watched from the first time there are any.
    shards: Option<Arc<Shards>>,
}

thread_local! {
    static HOME: RefCell<Option<Rc<LoopState>>> = const { RefCell::new(None) };
}

fn home() -> Option<Rc<LoopState>> {
    HOME.with_borrow(Clone::clone)
}

impl Worker {
    /// Starts the loops with their first generation. Nothing is accepted before [`Worker::install`].
    ///
    /// # Errors
    /// A thread or an epoll instance could not be made.
    pub fn start(options: &WorkerOptions, generation: Arc<Generation>) -> io::Result<Worker> {
        let mut handles = Vec::new();
        for index in 0..options.loops.max(1) {
            let cpus = (!options.cpus.is_empty()).then(|| {
                let mut set = rustix::thread::CpuSet::new();
                for cpu in &options.cpus[index % options.cpus.len()] {
                    if *cpu < rustix::thread::CpuSet::MAX_CPU {
                        set.set(*cpu);
                    }
                }
                set
            });
            handles.push(LoopHandle::start(index, cpus)?);
        }
        let shared = Arc::new(Shared {
            connections: options.connections.max(1),
            accept_mutex: options.accept_mutex,
            multi_accept: options.multi_accept,
            generation: ArcSwap::new(generation),
            loops: handles.iter().map(|handle| handle.stats.clone()).collect(),
            started: Instant::now(),
            reloads: Counter::default(),
            remotes: handles.iter().map(LoopHandle::remote).collect(),
            next_connection: AtomicU64::new(1),
            background: Backgrounds::default(),
        });
        for handle in &handles {
            let shared = shared.clone();
            let stats = handle.stats.clone();
            let index = handle.index;
            handle.tell(move || LoopState::begin(index, stats, shared));
        }
        Ok(Worker { shared, handles, listeners: Vec::new(), shards: None })
    }

    /// What the loops share: for the status handler.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Makes a generation the one that new requests begin with, and has the loops accept from exactly these sockets: one
    /// for each address, or one for each loop with `reuseport`. Sockets of an address that stays are not disturbed.
    pub fn install(&mut self, generation: Arc<Generation>, listeners: Vec<(ListenSpec, Vec<OwnedFd>)>) {
        self.shared.generation.store(generation.clone());
        self.shared.reloads.add();
        let mut next = Vec::new();
        for (spec, fds) in listeners {
            let known = self.listeners.iter().position(|(old, ..)| **old == spec);
            next.push(match known {
                // The descriptors that came along are others for the same sockets.
                Some(index) => self.listeners.swap_remove(index),
                None => (Arc::new(spec), fds.into_iter().map(Arc::new).collect(), Arc::new(Between::default())),
            });
        }
        self.listeners = next;
        self.watch_shards();
        let wanted: Vec<_> = self.listeners.clone();
        for handle in &self.handles {
            let wanted = wanted.clone();
            let generation = generation.clone();
            handle.tell(move || {
                if let Some(home) = home() {
                    home.install(generation, wanted);
                }
            });
        }
    }

    /// Tells the rescue which sockets belong to one loop alone, and starts it when there are such for the first time.
    fn watch_shards(&mut self) {
        let loops = self.handles.len();
        let mut own = Vec::new();
        for (spec, fds, _) in self.listeners.iter().filter(|(spec, fds, _)| spec.reuseport && fds.len() > 1) {
            let each = (0..loops).map(|index| Shard { index, spec: spec.clone(), fd: fds[index % fds.len()].clone() });
            own.extend(each);
        }
        match &self.shards {
            Some(shards) => shards.store(Arc::new(own)),
            None if own.is_empty() => {}
            None => {
                let shards = Arc::new(Shards::from_pointee(own));
                // Without the thread a late loop's connections wait for it, as they do in nginx.
                if rescue::start(&self.shared, &shards).is_ok() {
                    self.shards = Some(shards);
                }
            }
        }
    }

    /// Stops accepting, closes connections that were kept for another request, and lets requests end that run, or are the
    /// first ones of their connections; these close after them.
    pub fn drain(&mut self) {
        self.listeners.clear();
        self.watch_shards();
        for handle in &self.handles {
            // Until a loop has heard it, nobody knows which connections there will be.
            let heard = Background::new(&self.shared);
            handle.tell(move || {
                if let Some(home) = home() {
                    home.drain();
                }
                drop(heard);
            });
        }
    }

    /// Connections open now.
    pub fn active(&self) -> u64 {
        self.handles.iter().map(|handle| handle.stats.active.get()).sum()
    }

    /// Pieces of work that go on although no client waits for them. One that is over may have left a connection: who asks
    /// for both asks for this first.
    pub fn background(&self) -> usize {
        self.shared.background.count()
    }

    /// Has the loops hand over what they have gathered, such as buffered lines of logs that are about to be reopened.
    pub fn hand_over(&self) {
        for handle in &self.handles {
            handle.tell(|| {
                if let Some(home) = home() {
                    home.hand_over();
                }
            });
        }
    }

    /// Ends the loops; what still runs is cut off.
    pub fn stop(self) {
        for handle in &self.handles {
            handle.tell(|| {
                if let Some(home) = home() {
                    home.hand_over();
                    // Connections hold on to the loop's state: without them it goes when its thread ends.
                    home.idle.forget();
                }
            });
        }
        for handle in self.handles {
            handle.stop();
        }
    }
}

/// How many times of files are kept as they are sent; more take each other's place.
const DATES: usize = 64;

/// What one loop keeps. Everything in it belongs to its thread.
pub struct LoopState {
    /// Number of the loop.
    pub index: usize,
    /// Its figures.
    pub stats: Arc<LoopStats>,
    /// What all loops share.
    pub shared: Arc<Shared>,
    /// Connections without a request.
    pub idle: Idle,
    /// Hot files.
    pub hot: RefCell<HotFiles>,
    /// Whether a connection's first bytes are there when it is accepted. Most clients send a request right behind the handshake. A loop
    /// that was busy finds it there, and reading it at once spares a registration, which costs three times as much as a read that
    /// finds nothing; a loop that was waiting for the connection comes too early.
    pub first_reads: Sampled,
    /// What serves requests, unused.
    pub runners: h1::RunnerPool,
    tasks: Tasks<h1::Serve>,
    generation: RefCell<Rc<LoopGeneration>>,
    draining: Cell<bool>,
    connections: Cell<usize>,
    room: Notify,
    /// A task will look for room when a connection may be asked to leave.
    asks_later: Cell<bool>,
    full_logged: Cell<Option<Instant>>,
    accepting: RefCell<Vec<Rc<Accepting>>>,
    /// The value of `Date`.
    date: Cell<[u8; 29]>,
    /// Until when it holds: nanoseconds since the process began.
    date_until: Cell<u64>,
    /// How heads begin while that holds: with the version in `Server`, and without.
    starts: RefCell<[Vec<u8>; 2]>,
    dates: RefCell<[(i64, [u8; 29]); DATES]>,
    /// Times that other servers have written lately.
    times: RefCell<[(i64, [u8; 29]); DATES]>,
    /// Types' numbers are as good as hashes; spreading them again costs nothing.
    modules: RefCell<HashMap<TypeId, Rc<dyn Any>, BuildHasherDefault<AddressHasher>>>,
    hand_over: RefCell<Vec<HandOver>>,
}

/// Called when what a module has gathered on a loop must not be kept any longer.
type HandOver = Box<dyn Fn()>;

impl LoopState {
    fn begin(index: usize, stats: Arc<LoopStats>, shared: Arc<Shared>) {
        let generation = shared.generation.load_full();
        let hot = HotFiles::new(shared.loops.len());
        let state = Rc::new(LoopState {
            index,
            stats,
            shared,
            hot: RefCell::new(hot),
            first_reads: Sampled::new(3, 1),
            runners: h1::RunnerPool::default(),
            tasks: Tasks::new("connection"),
            generation: RefCell::new(LoopGeneration::new(generation)),
            draining: Cell::new(false),
            connections: Cell::new(0),
            idle: Idle::default(),
            room: Notify::new(),
            asks_later: Cell::new(false),
            full_logged: Cell::new(None),
            accepting: RefCell::default(),
            date: Cell::new([0; 29]),
            date_until: Cell::new(0),
            starts: RefCell::default(),
            dates: RefCell::new([(i64::MIN, [0; 29]); DATES]),
            times: RefCell::new([(0, [0; 29]); DATES]),
            modules: RefCell::default(),
            hand_over: RefCell::default(),
        });
        let weak = Rc::downgrade(&state);
        loops::set_stall_report(Box::new(move |took, activity| {
            let Some(state) = weak.upgrade() else { return };
            let connection = (activity.connection > 0).then_some(activity.connection);
            let step = activity.step;
            state.generation().error_log.write(
                Level::Warn,
                connection,
                format_args!("event loop {index} stalled for {} ms in \"{step}\"", took.as_millis()),
            );
        }));
        HOME.set(Some(state));
    }

    /// The generation that a new request begins with.
    pub fn generation(&self) -> Rc<LoopGeneration> {
        self.generation.borrow().clone()
    }

    /// The number of that generation.
    pub fn generation_number(&self) -> u64 {
        self.generation.borrow().number
    }

    /// Whether the worker is ending.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// State of a module on this loop, made at first use.
    pub fn module<T: Default + 'static>(&self) -> Rc<T> {
        let mut modules = self.modules.borrow_mut();
        let state = match modules.get(&TypeId::of::<T>()) {
            Some(state) => state,
            None => modules.entry(TypeId::of::<T>()).or_insert_with(|| Rc::new(T::default())),
        };
        match state.clone().downcast() {
            Ok(state) => state,
            Err(_) => unreachable!("the key is the value's type"),
        }
    }

    /// Has `hook` called when what a module gathers on this loop must be handed over: when another generation takes
    /// over, when logs are reopened, and before the loop ends. The hook must not register another one.
    pub fn on_hand_over(&self, hook: impl Fn() + 'static) {
        self.hand_over.borrow_mut().push(Box::new(hook));
    }

    fn hand_over(&self) {
        for hook in &*self.hand_over.borrow() {
            hook();
        }
    }

    /// Keeps a file for the requests of the next second.
    pub fn keep_hot(self: &Rc<Self>, path: &[u8], file: &Rc<HotFile>) {
        let was_empty = self.hot.borrow().is_empty();
        self.hot.borrow_mut().put(path, file, loops::now());
        if was_empty {
            let state = self.clone();
            loops::spawn(0, "letting go of hot files", async move {
                while !state.hot.borrow().is_empty() {
                    freerun_runtime::timer::sleep(VALID).await;
                    state.hot.borrow_mut().purge(Instant::now());
                }
            });
        }
    }

    /// Hands a time, in unix seconds, to `use_it` as fields have it; what was asked for before is often kept.
    pub fn http_date(&self, secs: i64, use_it: impl FnOnce(&[u8; 29])) {
        let mut dates = self.dates.borrow_mut();
        let (known, text) = &mut dates[secs.rem_euclid(DATES as i64) as usize];
        if *known != secs {
            *text = date::imf_fixdate(secs);
            *known = secs;
        }
        use_it(text);
    }

    /// The time of a text, if that is written as [`LoopState::http_date`] writes it; what was asked for before is often known.
    pub fn time_of(&self, text: &[u8]) -> Option<i64> {
        let text: &[u8; 29] = text.try_into().ok()?;
        // Of "Sun, 06 Nov 1994 08:49:37 GMT" the last digits of day, minute and second.
        let place = text[6].wrapping_mul(29) ^ text[21].wrapping_mul(5) ^ text[24];
        let mut times = self.times.borrow_mut();
        let (time, known) = &mut times[usize::from(place) % DATES];
        if known != text {
            let parsed = date::parse_http_date(text).filter(|parsed| date::imf_fixdate(*parsed) == *text)?;
            (*time, *known) = (parsed, *text);
        }
        Some(*time)
    }

    /// Hands the value of `Date` to `use_it`; it is made once a second.
    pub fn date(&self, use_it: impl FnOnce(&[u8; 29])) {
        self.see_to_date();
        use_it(&self.date.get());
    }

    fn see_to_date(&self) {
        let now = loops::nanos();
        if now >= self.date_until.get() {
            let time = clock::now();
            self.date.set(date::imf_fixdate(time.secs));
            self.date_until.set(now + u64::from(1000 - time.millis.min(999)) * 1_000_000);
            self.starts.take();
        }
    }

    /// Hands the beginning of the head of a response with status 200 to `use_it`: the status line, `Server` and `Date`.
    pub fn head_start(&self, tokens: ServerTokens, use_it: impl FnOnce(&[u8])) {
        self.see_to_date();
        let start = &mut self.starts.borrow_mut()[usize::from(tokens == ServerTokens::Off)];
        if start.is_empty() {
            let (name, date) = (server_name(tokens).as_bytes(), &self.date.get());
            start.extend_from_slice(&[b"HTTP/1.1 200 OK\r\nServer: ", name, b"\r\nDate: ", date, b"\r\n"].concat());
        }
        use_it(start);
    }

    fn install(self: &Rc<Self>, generation: Arc<Generation>, wanted: Vec<Bound>) {
        let mut accepting = self.accepting.borrow_mut();
        // Before the configuration changes: who waits at an address that goes is served as it was.
        accepting.retain(|accepting| {
            let keep = wanted.iter().any(|(wanted, ..)| accepting.listener.spec.is(wanted));
            if !keep {
                accepting.end(self);
            }
            keep
        });
        *self.generation.borrow_mut() = LoopGeneration::new(generation);
        Idle::renew(self);
        self.hand_over();
        // Settings may have changed what a path means or whether it may be kept.
        self.hot.borrow_mut().purge(Instant::now() + VALID);
        for (spec, fds, between) in wanted {
            if accepting.iter().any(|known| known.listener.spec.is(&spec)) || fds.is_empty() {
                continue;
            }
            let shard = spec.reuseport && fds.len() > 1;
            let fd = fds[if shard { self.index % fds.len() } else { 0 }].clone();
            let only_loop = shard.then_some(self.index);
            let listener = Listener { spec: LoopLocal::new(spec), fd, between, only_loop };
            match Accepting::start(self, listener) {
                Ok(started) => accepting.push(started),
                Err(error) => accept::log_failure(self, &error),
            }
        }
    }

    fn drain(self: &Rc<Self>) {
        self.draining.set(true);
        for accepting in self.accepting.borrow_mut().drain(..) {
            accepting.end(self);
        }
        Idle::close_kept(self);
    }

    /// How many connections there are.
    pub fn open(&self) -> usize {
        self.connections.get()
    }

    /// Whether there are as many connections as there may be.
    pub fn is_full(&self) -> bool {
        self.connections.get() >= self.shared.connections
    }

    /// Whether another connection may be accepted. At the limit, the connection that has been idle longest is closed to
    /// make room, as nginx does.
    pub fn has_room(self: &Rc<Self>) -> bool {
        if !self.is_full() {
            return true;
        }
        let asked = self.idle.close_oldest();
        self.log_full(asked == Asked::One);
        if let Asked::Later(time) = asked
            && !self.asks_later.replace(true)
        {
            let home = self.clone();
            loops::spawn(0, "waiting for room", async move {
                freerun_runtime::timer::sleep_until(time).await;
                home.asks_later.set(false);
                home.room.notify_waiters();
            });
        }
        false
    }

    fn log_full(&self, made_room: bool) {
        let now = loops::now();
        if self.full_logged.get().is_none_or(|last| now.saturating_duration_since(last) >= Duration::from_secs(1)) {
            self.full_logged.set(Some(now));
            let limit = self.shared.connections;
            let log = &self.generation().error_log;
            if made_room {
                let message = format_args!("{limit} worker_connections are not enough, reusing connections");
                log.write(Level::Warn, None, message);
            } else {
                log.write(Level::Alert, None, format_args!("{limit} worker_connections are not enough"));
            }
        }
    }

    /// Resolves when a connection has ended, or has become one that can be asked to leave.
    pub async fn wait_for_room(&self) {
        self.room.notified().await;
    }

    /// A connection has no request any more: it can be asked to leave, if others wait.
    pub fn became_idle(&self) {
        if self.is_full() {
            self.room.notify_waiters();
        }
    }

    /// Takes a connection over, and serves it as far as what it has sent goes if `now` says so: as the last step of a
    /// task's poll, or several times there. It has its turn soon otherwise. Says whether it is still there.
    pub fn accepted(self: &Rc<Self>, fd: OwnedFd, peer: Address, spec: &LoopLocal<ListenSpec>, now: bool) -> bool {
        let before = self.connections.get();
        self.connections.set(before + 1);
        self.stats.accepted.add_alone();
        self.stats.active.add_alone();
        let number = self.shared.next_connection.fetch_add(1, Relaxed);
        let connection = Rc::new(Connection::new(number, Transport::plain(fd), peer, spec.clone(), self.clone()));
        // A reload may take the address away before the first request comes: that is then served as it would be now.
        let _ = connection.servers();
        let serve = h1::Serve::new(connection);
        if now {
            self.tasks.start_now(number, serve);
        } else {
            self.tasks.start(number, serve);
        }
        self.connections.get() > before
    }

    /// A connection has ended.
    pub fn ended(&self) {
        let was_full = self.is_full();
        self.connections.set(self.connections.get() - 1);
        self.stats.active.sub_alone();
        if was_full {
            // Each listening socket's task may wait here, and the one that is told first may have nobody to let in.
            self.room.notify_waiters();
        }
    }

    /// Out of descriptors or memory: said once a rest. Hot files and the connection idle for longest give theirs back.
    pub fn accept_failed(&self, error: Errno) {
        let level = if matches!(error, Errno::MFILE | Errno::NFILE) { Level::Crit } else { Level::Alert };
        let shown = io::Error::from(error);
        let log = &self.generation().error_log;
        log.write(level, None, format_args!("accept4() failed ({})", ShowErrno(&shown)));
        self.hot.borrow_mut().close_files();
        self.idle.close_oldest();
    }
}

impl Shared {
    /// Sends a job to a loop's state.
    pub fn tell(&self, index: usize, job: impl FnOnce(&Rc<LoopState>) + Send + 'static) -> bool {
        self.remotes.get(index).is_some_and(|remote| {
            remote.tell(move || {
                if let Some(home) = home() {
                    job(&home);
                }
            })
        })
    }
}
