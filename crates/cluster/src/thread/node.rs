//! The knowledge of this node that outlives a session with the engine, and its reports.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use freerun_runtime::log::Level;
use freerun_serve::values::keyvals::PairChange;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::pairs::SharedPairs;
use super::purges::SharedPurges;
use crate::engine::{EngineLink, EngineNames};
use crate::figures::{ClusterReport, EngineState};
use crate::seal::Sealer;
use crate::settings::{ClusterPlan, EngineSettings};
use crate::state::{ClusterOrder, ClusterState, PairWriteError};

/// The longest time for telling that a node is gone.
const LEAVE: Duration = Duration::from_millis(200);

/// The number of random bytes of a node's identifier.
const IDENTIFIER: usize = 8;

/// The marks of the engine that this node has followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KnownEngine {
    /// The address and the prefix that the configuration has.
    pub(super) name: String,
    /// The mark: another one when the engine has lost everything.
    pub(super) mark: Vec<u8>,
    /// The name of its history: another one when a replica has become the primary.
    pub(super) history: String,
}

/// The state of the thread. Its cells are never borrowed while something is waited for.
pub(super) struct Node {
    pub(super) shared: Arc<ClusterState>,
    /// The identifier of this node, as long as the process lives.
    pub(super) id: String,
    pub(super) plan: RefCell<Option<Arc<ClusterPlan>>>,
    pub(super) sealer: RefCell<Option<Arc<Sealer>>>,
    pub(super) zones: RefCell<HashMap<Arc<str>, SharedPairs>>,
    pub(super) caches: RefCell<HashMap<Arc<str>, SharedPurges>>,
    /// The engine that the logs were followed of.
    pub(super) known: RefCell<Option<KnownEngine>>,
    /// The engine's clock less this node's, in milliseconds.
    pub(super) clock_offset: Cell<i64>,
    pub(super) nodes: Cell<usize>,
    pub(super) round_trip: Cell<u64>,
    status: RefCell<EngineStatus>,
}

/// The state of the connection, for the report and the log.
#[derive(Debug, Clone, Default)]
struct EngineStatus {
    state: EngineState,
    since: u64,
    error: String,
    peer: String,
}

/// The present time in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Random bytes in hexadecimal digits.
pub(super) fn random_hex() -> String {
    let mut bytes = [0; IDENTIFIER];
    // Without random numbers there is no TLS either; the zeros are then one node's alone as long as it is alone.
    let _ = rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Node {
    /// A node that knows nothing.
    pub(super) fn new(shared: Arc<ClusterState>) -> Node {
        Node {
            shared,
            id: random_hex(),
            plan: RefCell::default(),
            sealer: RefCell::default(),
            zones: RefCell::default(),
            caches: RefCell::default(),
            known: RefCell::default(),
            clock_offset: Cell::new(0),
            nodes: Cell::new(0),
            round_trip: Cell::new(0),
            status: RefCell::new(EngineStatus { since: unix_ms(), ..EngineStatus::default() }),
        }
    }

    /// Follows a plan. Zones and caches that were there before go on where they are.
    pub(super) fn follow(&self, plan: &Arc<ClusterPlan>) {
        let before = self.plan.replace(Some(plan.clone()));
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, plan)) {
            return;
        }
        if before.as_ref().is_none_or(|before| before.engine.secret != plan.engine.secret) {
            let secret = plan.engine.secret.as_ref();
            let sealer = secret.and_then(|secret| Sealer::new(secret.bytes()).ok()).map(Arc::new);
            self.sealer.replace(sealer);
        }
        let sealer = self.sealer.borrow().clone();
        let mut zones = self.zones.borrow_mut();
        let mut kept = HashMap::new();
        for (name, zone) in &plan.pairs {
            let shared = zones.remove(name).filter(|known| known.has_pairs_of(zone));
            let mut shared = shared.unwrap_or_else(|| SharedPairs::new(name));
            shared.follow(zone, sealer.clone());
            kept.insert(name.clone(), shared);
        }
        *zones = kept;
        drop(zones);
        let mut caches = self.caches.borrow_mut();
        let mut kept = HashMap::new();
        for (name, target) in &plan.caches {
            let known = caches.remove(name).filter(|known| known.folder() == target.folder());
            let mut shared = known.unwrap_or_else(|| SharedPurges::new(name, target, &plan.log));
            shared.follow(target, sealer.clone());
            kept.insert(name.clone(), shared);
        }
        *caches = kept;
        drop(caches);
        self.report();
    }

    /// Writes a line to the log.
    pub(super) fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        if let Some(plan) = &*self.plan.borrow() {
            plan.log.write(level, None, format_args!("cluster: {text}"));
        }
    }

    /// Whether the last session has come to its end after it was connected.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.status.borrow().state, EngineState::Connected | EngineState::ReadOnly)
    }

    /// Notes the server that is the engine now.
    pub(super) fn set_peer(&self, peer: &str) {
        self.status.borrow_mut().peer = peer.to_owned();
    }

    /// Notes the state of the connection; a change of it is one line in the log.
    pub(super) fn set_state(&self, state: EngineState, error: &str, level: Level) {
        let before = self.status.borrow().state;
        {
            let mut status = self.status.borrow_mut();
            status.error = error.to_owned();
            if before != state {
                status.state = state;
                status.since = unix_ms();
            }
        }
        if before != state {
            let peer = self.status.borrow().peer.clone();
            let engine = self.plan.borrow().as_ref().map_or(String::new(), |plan| plan.engine.address.to_string());
            match state {
                EngineState::Connecting => {}
                EngineState::Connected => self.log(level, format_args!("connected to {engine}, server {peer}")),
                EngineState::ReadOnly => self.log(level, format_args!("{peer} stores nothing: {error}")),
                EngineState::Away => self.log(level, format_args!("{engine} is away: {error}")),
            }
        }
        if state == EngineState::Away {
            self.nodes.set(0);
        }
        self.report();
    }

    /// A number between one half and one, another one for each node and each time.
    pub(super) fn share_of_pause(&self) -> f64 {
        let mut byte = [0; 1];
        let _ = rand::fill(&mut byte);
        0.5 + f64::from(byte[0]) / 512.0
    }

    /// Answers orders as a node without its engine does, for as long as it is polled. It returns when no more orders can come.
    pub(super) async fn answer_alone(&self, orders: &mut mpsc::Receiver<ClusterOrder>) {
        while let Some(order) = orders.recv().await {
            self.answer_one_alone(order);
        }
    }

    /// Changes pairs as a node without its engine does.
    ///
    /// # Errors
    /// The zone is not changed without the engine, or the change is refused.
    pub(super) fn change_alone(&self, zone: &Arc<str>, change: &PairChange) -> Result<(), PairWriteError> {
        match self.zones.borrow_mut().get_mut(zone) {
            Some(zone) => zone.change_alone(change),
            None => Err(PairWriteError::Away),
        }
    }

    /// Answers an order as a node without its engine does.
    pub(super) fn answer_one_alone(&self, order: ClusterOrder) {
        // Whoever has asked may have given up.
        match order {
            ClusterOrder::Pairs { zone, change, answer } => {
                let _ = answer.send(self.change_alone(&zone, &change));
            }
            ClusterOrder::Purges { cache, purges, answer } => {
                if let Some(cache) = self.caches.borrow_mut().get_mut(&cache) {
                    cache.note_untold(purges, self);
                }
                let _ = answer.send(false);
            }
            ClusterOrder::Nodes { answer } => drop(answer.send(None)),
        }
    }

    /// Tells the other nodes that share this engine that this one is gone.
    pub(super) async fn leave(&self, settings: &EngineSettings, mut link: EngineLink) {
        // Without that, they find it out by its silence.
        let _ = timeout(LEAVE, link.leave(&EngineNames::new(&settings.prefix), &self.id)).await;
    }

    /// Writes down what has to outlive the process.
    pub(super) fn save(&self) {
        for cache in self.caches.borrow_mut().values_mut() {
            cache.save(self);
        }
        let plan = self.plan.borrow().clone();
        if let Some(plan) = plan {
            for zone in self.zones.borrow_mut().values_mut() {
                zone.save(&plan.log);
            }
        }
    }

    /// Makes the report anew.
    pub(super) fn report(&self) {
        let status = self.status.borrow().clone();
        let counts = &self.shared.counts;
        let mut zones: Vec<_> = self.zones.borrow().values().map(SharedPairs::report).collect();
        zones.sort_by(|one, other| one.name.cmp(&other.name));
        let mut caches: Vec<_> = self.caches.borrow().values().map(SharedPurges::report).collect();
        caches.sort_by(|one, other| one.name.cmp(&other.name));
        self.shared.report.store(Arc::new(ClusterReport {
            node: self.id.clone(),
            engine: self.plan.borrow().as_ref().map_or(String::new(), |plan| plan.engine.address.to_string()),
            peer: status.peer,
            state: status.state,
            since: status.since,
            error: status.error,
            nodes: self.nodes.get(),
            round_trip: self.round_trip.get(),
            clock_offset: self.clock_offset.get(),
            zones,
            caches,
            messages_out: counts.messages_out.load(Relaxed),
            messages_in: counts.messages_in.load(Relaxed),
            bytes_out: counts.bytes_out.load(Relaxed),
            bytes_in: counts.bytes_in.load(Relaxed),
        }));
    }

    /// Notes how long an exchange with the engine took.
    pub(super) fn note_round_trip(&self, begun: Instant) {
        self.round_trip.set(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
}
