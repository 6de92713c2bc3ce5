//! The parts of a session that its tasks share, and what several of them do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use freerun_cache::purge::Purge;
use freerun_runtime::log::Level;
use tokio::sync::{Mutex, Notify};

use crate::engine::{EngineError, EngineLink, EngineNames, PairAnswer, PairCommand};
use crate::figures::EngineState;
use crate::settings::ClusterPlan;
use crate::thread::known_engine::unix_ms;
use crate::thread::node::Node;

/// The number of entries that a log keeps. A node that has missed more reads everything, or purges everything.
const LOG_LENGTH: usize = 100_000;

/// The reason for the end of a session.
pub(crate) enum SessionEnd {
    /// The plan is another one, no more orders come, or the logs have to be joined anew.
    Changed,
    /// The engine is away.
    Away(EngineError),
}

/// The parts of a session that its tasks share.
#[derive(Clone)]
pub(super) struct SessionContext {
    pub(super) node: Rc<Node>,
    pub(super) plan: Arc<ClusterPlan>,
    pub(super) link: EngineLink,
    pub(super) names: EngineNames,
    pub(super) has_replicas: Rc<Cell<bool>>,
    /// The last time at which the engine has refused to store something.
    pub(super) refused_at: Rc<Cell<Option<Instant>>>,
    replication: Rc<ReplicaWaits>,
    failure: Rc<SessionFailure>,
}

/// The error that an order has met and that ends the session.
#[derive(Default)]
struct SessionFailure {
    error: RefCell<Option<EngineError>>,
    bell: Notify,
}

/// Waits for replicas: one wait stands for all writes before it.
#[derive(Default)]
struct ReplicaWaits {
    /// The number of writes.
    writes: Cell<u64>,
    /// The writes that were waited for.
    waited: Mutex<WaitedWrites>,
}

/// The writes that were waited for, each kind as the number of the last one.
#[derive(Default)]
struct WaitedWrites {
    /// All of them.
    all: u64,
    /// The writes that a replica has.
    replicated: u64,
}

impl SessionContext {
    /// The context of a session on these connections.
    pub(super) fn new(node: Rc<Node>, plan: Arc<ClusterPlan>, link: EngineLink) -> SessionContext {
        let names = EngineNames::new(&plan.engine.prefix);
        let (has_replicas, refused_at, replication, failure) = Default::default();
        SessionContext { node, plan, link, names, has_replicas, refused_at, replication, failure }
    }

    /// Has the engine make a change of a zone.
    pub(super) async fn send_change(
        &mut self,
        places: (&str, &str),
        command: &PairCommand,
    ) -> Result<PairAnswer, EngineError> {
        let answer = self.link.change_pairs(places, &self.node.id, LOG_LENGTH, command).await?;
        self.node.shared.counts.sent(command.size());
        Ok(answer)
    }

    /// Tells the engine of the changes of a zone that it does not have.
    pub(super) async fn tell_waiting(&mut self, zone: &Arc<str>) -> Result<(), EngineError> {
        let (table, log) = (self.names.pairs(zone), self.names.pairs_log(zone));
        loop {
            let offset = self.node.clock_offset.get();
            let next = self.node.zones.borrow().get(zone).and_then(|shared| shared.next_waiting(offset));
            let Some((key, number, command)) = next else { return Ok(()) };
            self.send_change((&table, &log), &command).await?;
            if let Some(shared) = self.node.zones.borrow_mut().get_mut(zone) {
                shared.note_told(key.as_deref(), number);
            }
        }
    }

    /// Tells other nodes of a purge.
    pub(super) async fn tell_purge(&mut self, cache: &Arc<str>, number: u64, what: &Purge) -> Result<(), EngineError> {
        let told = self.append_purge(cache, what).await;
        if let Some(shared) = self.node.caches.borrow_mut().get_mut(cache) {
            match told {
                Ok(()) => shared.note_told(number),
                Err(_) => shared.release_untold(number),
            }
        }
        told
    }

    async fn append_purge(&mut self, cache: &Arc<str>, what: &Purge) -> Result<(), EngineError> {
        let codec = self.node.caches.borrow().get(cache).map(|shared| shared.codec.clone());
        let fields = codec.and_then(|codec| codec.fields(what));
        let (kind, text) = fields.ok_or_else(|| EngineError::Refused("there are no random numbers".to_owned()))?;
        let fields: [(&str, &[u8]); 3] = [("w", kind.as_bytes()), ("t", &text), ("n", self.node.id.as_bytes())];
        self.link.append(&self.names.purges_log(cache), LOG_LENGTH, &fields).await?;
        self.node.shared.counts.sent(text.len());
        self.wait_replica().await
    }

    /// Waits, for a short time at most, until a replica has what was written, if there are replicas. A replica that is late is no
    /// error.
    ///
    /// # Errors
    /// The engine is away, or deserted. What was written may be lost.
    pub(super) async fn wait_replica(&mut self) -> Result<(), EngineError> {
        if !self.has_replicas.get() {
            return Ok(());
        }
        let writes = &self.replication.writes;
        writes.set(writes.get() + 1);
        let own = writes.get();
        let replication = self.replication.clone();
        let mut waited = replication.waited.lock().await;
        if waited.all < own {
            let all = replication.writes.get();
            let is_replicated = self.link.wait_replica().await?;
            waited.all = all;
            if is_replicated {
                waited.replicated = all;
            }
        }
        if waited.replicated >= own {
            return Ok(());
        }
        drop(waited);
        let (_, has_replicas) = self.link.replication().await?;
        self.note_replicas(has_replicas)
    }

    /// Notes whether the engine has replicas.
    ///
    /// # Errors
    /// Sentinels have named the engine, and its replicas have left it.
    pub(super) fn note_replicas(&self, has_replicas: bool) -> Result<(), EngineError> {
        if self.has_replicas.get() && !has_replicas && self.plan.engine.address.has_sentinels() {
            self.node.deserted_at.set(Some(Instant::now()));
            return Err(EngineError::Deserted);
        }
        self.has_replicas.set(has_replicas);
        Ok(())
    }

    pub(super) fn note_clock(&self, engine: u64) {
        let difference = i128::from(engine) - i128::from(unix_ms());
        self.node.clock_offset.set(i64::try_from(difference).unwrap_or_default());
    }

    /// Notes an error, which ends the session, or is a refusal.
    pub(super) fn note_error(&self, error: EngineError) {
        if error.ends_session() {
            self.failure.error.borrow_mut().get_or_insert(error);
            self.failure.bell.notify_one();
        } else {
            self.refused_at.set(Some(Instant::now()));
            self.node.set_state(EngineState::ReadOnly, &error.to_string(), Level::Error);
        }
    }

    /// Waits until an order has met an error that ends the session.
    pub(super) async fn failed(&self) -> EngineError {
        loop {
            if let Some(error) = self.failure.error.borrow_mut().take() {
                return error;
            }
            self.failure.bell.notified().await;
        }
    }
}
