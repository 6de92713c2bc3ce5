//! The worker: its loops, and the state that they share.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use arc_swap::ArcSwap;
use freerun_runtime::loops::{self, LoopHandle};
use freerun_runtime::spare_memory;
use freerun_runtime::stats::Counter;

use crate::accept::loop_listeners::{self, LoopListeners};
use crate::accept::rescue::{self, Shard, Shards};
use crate::accept::{Between, Bound};
use crate::background::Background;
use crate::generation::Generation;
use crate::http2_figures::Http2Figures;
use crate::listen::{ListenSpec, Protocol};
use crate::loop_services::LoopServices;
use crate::loop_state::LoopState;
use crate::service::MakeService;
use crate::session_figures::SessionFigures;
use crate::shared::Shared;
use crate::tls::figures::TlsFigures;

/// The settings of a worker at the main and `events` levels.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The number of loops (`worker_processes`).
    pub loops: usize,
    /// How many workers have died before this one.
    pub respawned: u32,
    /// How many connections each loop may have (`worker_connections`).
    pub connections: usize,
    /// Whether loops take turns to accept (`accept_mutex`).
    pub accept_mutex: bool,
    /// Whether several connections are accepted at a time (`multi_accept`).
    pub multi_accept: bool,
    /// The processors of each loop, used in turn; with an empty list no loop is bound (`worker_cpu_affinity`).
    pub cpus: Vec<Vec<usize>>,
}

/// The loops, as the process that owns them sees them.
pub struct Worker {
    shared: Arc<Shared>,
    handles: Vec<LoopHandle>,
    listeners: Vec<Bound>,
    /// The sockets of `reuseport`, which are watched from the first time that there are any.
    shards: Option<Arc<Shards>>,
    /// How many loops have not yet run since it was last asked whether they live.
    asked: Arc<AtomicUsize>,
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
            client_tls: TlsFigures::default(),
            http2: Http2Figures::default(),
            sessions: SessionFigures::default(),
            upstream_tls: TlsFigures::default(),
            respawned: options.respawned,
            connections: options.connections.max(1),
            accept_mutex: options.accept_mutex,
            multi_accept: options.multi_accept,
            generation: ArcSwap::new(generation),
            loops: handles.iter().map(|handle| handle.stats.clone()).collect(),
            drained: Default::default(),
            client_levels: Default::default(),
            started: Instant::now(),
            reloads: Counter::default(),
            remotes: handles.iter().map(LoopHandle::remote).collect(),
            last_connection: AtomicU64::new(0),
            background: Default::default(),
        });
        for handle in &handles {
            let shared = shared.clone();
            let stats = handle.stats.clone();
            let index = handle.index;
            handle.tell(move || {
                loops::spawn(0, "giving back memory", spare_memory::give_back_at_rest(stats.clone()));
                let loop_state = LoopState::new(index, stats, shared);
                LoopListeners::begin(LoopServices::new(&loop_state, services));
            });
        }
        Ok(Worker { shared, handles, listeners: Vec::new(), shards: None, asked: Arc::default() })
    }

    /// The state that the loops share, for the status handler.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Makes a generation the one that new requests begin with, and makes the loops accept from exactly these sockets:
    /// one for each address, or one for each loop with `reuseport`. Sockets of an address that stays are left alone.
    pub fn install(&mut self, generation: Arc<Generation>, listeners: Vec<(ListenSpec, Vec<OwnedFd>)>) {
        self.shared.generation.store(generation.clone());
        self.shared.reloads.add();
        // A new configuration begins as it is written.
        self.shared.drained.clear();
        self.shared.client_levels.clear();
        let mut next = Vec::new();
        for (spec, fds) in listeners {
            let known = self.listeners.iter().position(|(old, ..)| **old == spec);
            next.push(match known {
                // The new descriptors refer to the same sockets, and are closed.
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
                loop_listeners::of_this_loop(|listeners| listeners.install(generation, wanted));
            });
        }
    }

    /// Gives the rescue the sockets that belong to one loop alone, and starts it the first time that there are any.
    fn watch_shards(&mut self) {
        let loops = self.handles.len();
        let mut own = Vec::new();
        for (spec, fds, _) in self
            .listeners
            .iter()
            .filter(|(spec, fds, _)| spec.protocol == Protocol::Stream && spec.reuseport && fds.len() > 1)
        {
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

    /// Stops accepting, closes idle connections that were kept for another request, and lets requests end that are
    /// running, or that are the first ones of their connections; these connections close after them.
    pub fn drain(&mut self) {
        // Sessions of datagrams go on by the sockets that they have.
        let accepting = self.listeners.iter().filter(|(spec, ..)| spec.protocol == Protocol::Stream);
        let sockets: Arc<[_]> = accepting.flat_map(|(_, fds, _)| fds).map(Arc::downgrade).collect();
        self.listeners.clear();
        self.watch_shards();
        for handle in &self.handles {
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
        for handle in &self.handles {
            handle.tell(move || loop_listeners::of_this_loop(|listeners| listeners.end_tunnels(generation)));
        }
    }

    /// The number of open connections.
    pub fn active(&self) -> u64 {
        self.handles.iter().map(|handle| handle.stats.active.get()).sum()
    }

    /// The number of pieces of work that go on although no client waits for them. A finished piece may have left a
    /// connection: a caller that asks for both numbers asks for this one first.
    pub fn background(&self) -> usize {
        self.shared.background.count()
    }

    /// Makes the loops hand over the data that they have gathered, such as buffered lines of logs that are about to be
    /// reopened.
    pub fn hand_over(&self) {
        for handle in &self.handles {
            handle.tell(|| loop_listeners::of_this_loop(LoopListeners::hand_over));
        }
    }

    /// Whether every loop has run since this was asked before. The first answer is yes. There is one job for each loop at
    /// most that it has not run yet.
    pub fn loops_live(&self) -> bool {
        if self.asked.load(Acquire) > 0 {
            return false;
        }
        for handle in &self.handles {
            self.asked.fetch_add(1, Relaxed);
            let asked = self.asked.clone();
            handle.tell(move || {
                asked.fetch_sub(1, Release);
            });
        }
        true
    }

    /// Ends the loops; running requests are cut off.
    pub fn stop(self) {
        self.hand_over();
        for handle in self.handles {
            handle.stop();
        }
    }
}
