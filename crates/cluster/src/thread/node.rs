//! The knowledge of this node that outlives a session with the engine, and its reports.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use freerun_runtime::log::Level;
use freerun_serve::values::keyvals::PairChange;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::known_engine::{KnownEngine, unix_ms};
use super::pairs::SharedPairs;
use super::purges::SharedPurges;
use crate::engine::{EngineLink, EngineNames};
use crate::figures::{ClusterReport, EngineState, LOG_WORD, LimitReport};
use crate::seal::Sealer;
use crate::settings::{ClusterPlan, EngineSettings, PlannedLimit};
use crate::state::{ClusterOrder, ClusterState, PairWriteError, PurgeDelivery};

/// The time between two lines of the log about an engine that is away for different reasons.
const QUIET: Duration = Duration::from_secs(60);

/// The longest time for telling that a node is gone.
const LEAVE: Duration = Duration::from_millis(200);

/// The number of random bytes of a node's identifier.
const IDENTIFIER: usize = 8;

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
    /// The last time at which a primary was found without the replicas that it had.
    pub(super) deserted_at: Cell<Option<Instant>>,
    status: RefCell<EngineStatus>,
}

/// The state of the connection, for the report and the log.
#[derive(Debug, Clone, Default)]
struct EngineStatus {
    state: EngineState,
    since: u64,
    /// The time of the last line in the log.
    told_at: Option<Instant>,
    error: String,
    peer: String,
}

/// Random bytes in hexadecimal digits.
pub(super) fn random_hex() -> String {
    let mut bytes = [0; IDENTIFIER];
    // Without random numbers there is no TLS either; the zeros are then one node's alone as long as it is alone.
    let _ = rand::fill(&mut bytes);
    hex(&bytes)
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
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
            deserted_at: Cell::new(None),
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
            shared.follow(target, sealer.clone(), &plan.log);
            kept.insert(name.clone(), shared);
        }
        *caches = kept;
        drop(caches);
        if let Some(before) = before {
            let is_left =
                |limit: &PlannedLimit| !plan.limits.iter().any(|(_, kept)| Arc::ptr_eq(&kept.leases, &limit.leases));
            before.limits.iter().filter(|(_, limit)| is_left(limit)).for_each(|(_, limit)| limit.leases.set_nodes(0));
        }
        self.report();
    }

    /// Writes a line to the log.
    pub(super) fn log(&self, level: Level, text: std::fmt::Arguments<'_>) {
        if let Some(plan) = &*self.plan.borrow() {
            plan.log.write(level, None, format_args!("{LOG_WORD} {text}"));
        }
    }

    /// Notes the server that is the engine now.
    pub(super) fn set_peer(&self, peer: &str) {
        self.status.borrow_mut().peer = peer.to_owned();
    }

    /// Whether the engine was away when this node has tried it last.
    pub(super) fn is_away(&self) -> bool {
        self.status.borrow().state == EngineState::Away
    }

    /// Notes the state of the connection. A change of it is one line in the log, and so is another reason after a while.
    pub(super) fn set_state(&self, state: EngineState, error: &str, level: Level) {
        let (is_told, peer) = {
            let mut status = self.status.borrow_mut();
            let is_other = status.state != state;
            let is_old = status.told_at.is_none_or(|at| at.elapsed() >= QUIET);
            let is_told = is_other || status.error != error && is_old;
            error.clone_into(&mut status.error);
            if is_other {
                status.state = state;
                status.since = unix_ms();
            }
            if is_told {
                status.told_at = Some(Instant::now());
            }
            (is_told, status.peer.clone())
        };
        if is_told {
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
        let mut zones = self.zones.borrow_mut();
        let zone = zones.get_mut(zone).ok_or(PairWriteError::Away)?;
        zone.change_alone(change)?;
        if let Some(plan) = &*self.plan.borrow() {
            zone.save(&plan.log);
        }
        Ok(())
    }

    /// Answers an order as a node without its engine does.
    pub(super) fn answer_one_alone(&self, order: ClusterOrder) {
        // Whoever has asked may have given up.
        match order {
            ClusterOrder::Pairs { zone, change, answer } => {
                let _ = answer.send(self.change_alone(&zone, &change));
            }
            ClusterOrder::Purges { cache, purges, answer } => {
                let stored = self.caches.borrow_mut().get_mut(&cache).is_some_and(|cache| {
                    for what in purges {
                        cache.add_untold(what, false);
                    }
                    cache.save()
                });
                let _ = answer.send(if stored { PurgeDelivery::Stored } else { PurgeDelivery::Failed });
            }
            // Without an answer the engine is away.
            ClusterOrder::Nodes { .. } | ClusterOrder::NewestPurge { .. } => {}
        }
    }

    /// Tells the other nodes that share this engine that this one is gone.
    pub(super) async fn leave(&self, settings: &EngineSettings, mut link: EngineLink) {
        // Without that, they find it out by its silence.
        let _ = timeout(LEAVE, link.leave(&EngineNames::new(&settings.prefix), &self.id)).await;
    }

    /// Has all limits go on without the engine.
    pub(super) fn leave_limits(&self) {
        let plan = self.plan.borrow();
        plan.iter().flat_map(|plan| &plan.limits).for_each(|(_, limit)| limit.leases.set_nodes(0));
    }

    /// Writes down what has to outlive the process.
    pub(super) fn save(&self) {
        for cache in self.caches.borrow_mut().values_mut() {
            cache.save();
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
        let plan = self.plan.borrow().clone();
        let limits = plan.iter().flat_map(|plan| &plan.limits);
        let nodes = if status.state == EngineState::Connected { self.nodes.get().max(1) } else { 0 };
        let report = |(name, limit): &(Arc<str>, PlannedLimit)| {
            limit.leases.set_nodes(nodes);
            LimitReport {
                name: name.to_string(),
                pending: limit.leases.pending(),
                is_alone: limit.leases.is_alone(),
                left_out: limit.leases.left_out(),
            }
        };
        let limits = limits.map(report).collect();
        let mut zones: Vec<_> = self.zones.borrow().values().map(SharedPairs::report).collect();
        zones.sort_by(|one, other| one.name.cmp(&other.name));
        let mut caches: Vec<_> = self.caches.borrow().values().map(SharedPurges::report).collect();
        caches.sort_by(|one, other| one.name.cmp(&other.name));
        self.shared.report.store(Arc::new(ClusterReport {
            node: self.id.clone(),
            engine: plan.map_or(String::new(), |plan| plan.engine.address.to_string()),
            peer: status.peer,
            state: status.state,
            since: status.since,
            error: status.error,
            nodes: self.nodes.get(),
            round_trip: self.round_trip.get(),
            clock_offset: self.clock_offset.get(),
            zones,
            limits,
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
