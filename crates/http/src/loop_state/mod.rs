//! What one loop keeps. Everything in it belongs to its thread; [`Worker`](crate::worker::Worker) has one for each loop.

pub mod admission;
pub mod clock;
pub mod module_states;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::loops::{self, LoopStats};
use freerun_runtime::tasks::Tasks;
use freerun_transport::Transport;
use rustix::io::Errno;

use self::admission::Admission;
use self::clock::Clock;
use self::module_states::ModuleStates;
use crate::connection::Connection;
use crate::connection::idle::{Asked, Idle};
use crate::files::hot::{HotFile, HotFiles, VALID};
use crate::generation::Generation;
use crate::listen::ListenSpec;
use crate::listen::accept::{self, Accepting, Bound, Listener};
use crate::protocol::h1;
use crate::request::Address;
use crate::request::loop_generation::LoopGeneration;
use crate::shared::Shared;
use freerun_serve::loop_local::LoopLocal;
use freerun_serve::predictor::Sampled;

thread_local! {
    static LOOP_STATE: RefCell<Option<Rc<LoopState>>> = const { RefCell::new(None) };
}

/// The state of this thread's loop, if it is one.
pub(crate) fn of_this_loop() -> Option<Rc<LoopState>> {
    LOOP_STATE.with_borrow(Clone::clone)
}

/// Sends a job to the state of a loop; `false` if there is no such loop, or no longer.
pub fn tell(shared: &Shared, index: usize, job: impl FnOnce(&Rc<LoopState>) + Send + 'static) -> bool {
    shared.remotes.get(index).is_some_and(|remote| {
        remote.tell(move || {
            if let Some(state) = of_this_loop() {
                job(&state);
            }
        })
    })
}

/// What one loop keeps. Everything in it belongs to its thread.
pub struct LoopState {
    /// Number of the loop.
    pub index: usize,
    /// Its figures.
    pub stats: Arc<LoopStats>,
    /// What all loops share.
    pub shared: Arc<Shared>,
    /// How many connections there may be.
    pub admission: Admission,
    /// Times as fields have them.
    pub clock: Clock,
    /// What modules keep here.
    pub modules: ModuleStates,
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
    accepting: RefCell<Vec<Rc<Accepting>>>,
}

impl LoopState {
    pub(crate) fn begin(index: usize, stats: Arc<LoopStats>, shared: Arc<Shared>) {
        let generation = shared.generation.load_full();
        let hot = HotFiles::new(shared.loops.len());
        let state = Rc::new(LoopState {
            index,
            admission: Admission::new(shared.connections, stats.clone()),
            clock: Clock::default(),
            modules: ModuleStates::default(),
            stats,
            shared,
            hot: RefCell::new(hot),
            first_reads: Sampled::new(3, 1),
            runners: h1::RunnerPool::default(),
            tasks: Tasks::new("connection"),
            generation: RefCell::new(LoopGeneration::new(generation)),
            draining: Cell::new(false),
            idle: Idle::default(),
            accepting: RefCell::default(),
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
        LOOP_STATE.set(Some(state));
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

    pub(crate) fn install(self: &Rc<Self>, generation: Arc<Generation>, wanted: Vec<Bound>) {
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
        self.modules.hand_over();
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

    pub(crate) fn drain(self: &Rc<Self>) {
        self.draining.set(true);
        for accepting in self.accepting.borrow_mut().drain(..) {
            accepting.end(self);
        }
        Idle::close_kept(self);
    }

    /// Whether another connection may be accepted. At the limit, the connection that has been idle longest is closed to
    /// make room, as nginx does.
    pub fn has_room(self: &Rc<Self>) -> bool {
        if !self.admission.is_full() {
            return true;
        }
        let asked = self.idle.close_oldest();
        self.admission.log_full(&self.generation().error_log, asked == Asked::One);
        if let Asked::Later(time) = asked
            && self.admission.may_look_later()
        {
            let state = self.clone();
            loops::spawn(0, "waiting for room", async move {
                freerun_runtime::timer::sleep_until(time).await;
                state.admission.look();
            });
        }
        false
    }

    /// Takes a connection over, and serves it as far as what it has sent goes if `now` says so: as the last step of a
    /// task's poll, or several times there. It has its turn soon otherwise. Says whether it is still there.
    pub fn accepted(self: &Rc<Self>, fd: OwnedFd, peer: Address, spec: &LoopLocal<ListenSpec>, now: bool) -> bool {
        let before = self.admission.open();
        self.admission.begin();
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
        self.admission.open() > before
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
