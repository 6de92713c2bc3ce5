//! The state that all loops of the worker share.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use arc_swap::ArcSwap;
use freerun_runtime::loops::{LoopStats, Remote};
use freerun_runtime::stats::Counter;

use crate::configuration::generation::Generation;
use crate::loops::background::Backgrounds;
use crate::loops::client_levels::ClientLevels;
use crate::loops::drained_loops::DrainedLoops;
use crate::loops::figures::http2::Http2Figures;
use crate::loops::figures::quic::{Http3Figures, QuicFigures};
use crate::loops::figures::sessions::SessionFigures;
use crate::loops::idle_since_accept::SilentPlaces;
use crate::loops::message_boxes::MessageBoxes;
use crate::loops::passed_packets::PassedPackets;
use crate::loops::shed_order::ShedOrder;
use crate::tls::files::Secret;
use crate::tls::handshake::figures::TlsFigures;

/// The loops of a worker.
#[derive(Clone, Default)]
pub struct Loops {
    /// The statistics of the loops by their indices. The statistics of a loop that has ended stay, for another one
    /// with its index.
    pub stats: Vec<Arc<LoopStats>>,
    /// The indices of the loops that take connections, in their order. Others end when theirs have ended.
    pub serving: Vec<usize>,
    /// The indices of the loops that run: these, and those that end.
    pub running: Vec<usize>,
    /// The smallest number of loops that there was. The loops with smaller indices have always been there: work that had
    /// better stay where it is, as health checks, is theirs.
    pub fewest: usize,
    /// Orders to give connections away, by the indices of the loops.
    pub shedding: Vec<Arc<ShedOrder>>,
    /// The connections of the loops from which nothing has come yet, by their indices.
    pub silent: Vec<Arc<SilentPlaces>>,
    /// The packets of QUIC on their way to the loops, by their indices.
    pub passed: Vec<Arc<PassedPackets>>,
    /// The ways to the loops, by their indices.
    pub(crate) remotes: Vec<Remote>,
}

impl Loops {
    /// The statistics of the loops that take connections, with their indices.
    pub fn taking(&self) -> impl Iterator<Item = (usize, &Arc<LoopStats>)> {
        self.serving.iter().filter_map(|index| Some((*index, self.stats.get(*index)?)))
    }

    /// The statistics of the loops that run, with their indices.
    pub fn running(&self) -> impl Iterator<Item = (usize, &Arc<LoopStats>)> {
        let runs = |(index, _): &(usize, _)| self.running.contains(index);
        self.stats.iter().enumerate().filter(runs)
    }

    /// The number of loops that take connections.
    pub fn number(&self) -> usize {
        self.serving.len()
    }

    /// The way to the first loop, which is always there once there are loops. It is for work of other threads.
    pub fn first_remote(&self) -> Option<&Remote> {
        self.remotes.first()
    }

    /// Asserts what the loops that are published have to fulfil.
    pub(crate) fn check_invariants(&self) {
        let is_known = |index: &usize| *index < self.stats.len();
        debug_assert!(self.running.iter().all(is_known), "a loop runs without statistics: {:?}", self.running);
        debug_assert!(self.serving.iter().all(|index| self.running.contains(index)), "{:?} do not run", self.serving);
        let lengths = [self.shedding.len(), self.silent.len(), self.passed.len(), self.remotes.len()];
        debug_assert!(lengths == [self.stats.len(); 4], "some loop lacks a part of what belongs to its index");
        let has_stayed = |index| self.serving.contains(&index);
        debug_assert!((0..self.fewest).all(has_stayed), "loops have left that have always been there");
    }
}

/// The state that all loops share.
pub struct SharedState {
    /// Number of workers of this master that have died before this one.
    pub respawned: u32,
    /// The most connections that each loop has.
    pub connections: usize,
    /// Whether loops take turns to accept.
    pub accept_mutex: bool,
    /// Whether several connections are accepted at a time.
    pub multi_accept: bool,
    /// The generation that new requests begin with.
    pub generation: ArcSwap<Generation>,
    /// The loops; replaced when some are added or removed.
    pub loops: ArcSwap<Loops>,
    /// The loops that take no new connections, until the next configuration.
    pub drained: DrainedLoops,
    /// The levels of the error logs for single clients, until the next configuration.
    pub client_levels: ClientLevels,
    /// The time at which the worker started.
    pub started: Instant,
    /// The number of generations installed since then.
    pub reloads: Counter,
    /// Figures of the TLS handshakes of clients.
    pub client_tls: TlsFigures,
    /// Figures of the TLS handshakes with upstream servers.
    pub upstream_tls: TlsFigures,
    /// Figures of HTTP/2 with clients.
    pub http2: Http2Figures,
    /// Figures of HTTP/3 with clients.
    pub http3: Http3Figures,
    /// Figures of QUIC with clients.
    pub quic: QuicFigures,
    /// The secret for tokens and stateless resets of QUIC at addresses whose default server has no `quic_host_key`. It stays over
    /// reloads and upgrades.
    pub quic_secret: Secret,
    /// The message boxes of the processes that serve the same sockets of QUIC, if there may be several.
    pub boxes: OnceLock<Arc<MessageBoxes>>,
    /// Figures of the sessions of stream.
    pub sessions: SessionFigures,
    /// The work that no client waits for.
    pub background: Arc<Backgrounds>,
    pub(crate) last_connection: AtomicU64,
}

impl SharedState {
    /// Returns a serial number for a connection, `$connection`: from 1, for all loops.
    pub fn next_connection(&self) -> u64 {
        self.last_connection.fetch_add(1, Relaxed) + 1
    }
}
