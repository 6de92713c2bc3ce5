//! A session: from a connection to the engine to its end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::log::Level;
use freerun_serve::values::keyvals::{PairChange, PairRefusal};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::node::{KnownEngine, Node, random_hex, unix_ms};
use super::pairs::JoinStep;
use crate::engine::{EngineError, EngineLink, EngineNames, LogPage, PairAnswer, PairCommand};
use crate::figures::{EngineState, NodeReport, purges_fact};
use crate::log_entry::EntryId;
use crate::settings::ClusterPlan;
use crate::state::{ClusterOrder, PATIENCE, PairWriteError};

/// The number of entries that a log keeps. A node that has missed more reads everything, or purges everything.
const LOG_LENGTH: usize = 100_000;

/// The pause after entries have come, so that many nodes do not wake for each entry alone.
const READ_PAUSE: Duration = Duration::from_millis(20);

/// The interval in which a node tells that it lives.
const BEAT: Duration = Duration::from_secs(5);

/// The time after which a silent node is gone.
const GONE: Duration = Duration::from_secs(30);

/// The interval in which what has gathered is written down and told.
const STEP: Duration = Duration::from_secs(1);

/// The interval in which a node removes pairs from the engine that have ended.
const SWEEP: Duration = Duration::from_secs(3600);

/// The most orders that wait for the engine at a time.
const ORDERS_AT_ONCE: usize = 64;

/// The most nodes that are shown.
const MOST_NODES: usize = 1024;

/// The check of a cluster without a secret.
const NO_SECRET: &[u8] = b"none";

/// The reason for the end of a session.
pub(super) enum SessionEnd {
    /// The plan is another one, or no more orders come.
    Changed,
    /// The engine is away.
    Away(EngineError),
}

/// A session.
pub(super) struct EngineSession {
    node: Rc<Node>,
    plan: Arc<ClusterPlan>,
    link: EngineLink,
    names: EngineNames,
    has_replicas: bool,
    orders: Arc<Semaphore>,
    failure: Rc<SessionFailure>,
}

/// The error that an order has met and that ends the session.
#[derive(Default)]
struct SessionFailure {
    error: RefCell<Option<EngineError>>,
    bell: Notify,
}

impl EngineSession {
    /// A session on these connections.
    pub(super) fn new(node: Rc<Node>, plan: Arc<ClusterPlan>, link: EngineLink) -> EngineSession {
        let names = EngineNames::new(&plan.engine.prefix);
        let orders = Arc::new(Semaphore::new(ORDERS_AT_ONCE));
        EngineSession { node, plan, link, names, has_replicas: false, orders, failure: Rc::default() }
    }

    /// Takes part until the end.
    pub(super) async fn run(&mut self, orders: &mut mpsc::Receiver<ClusterOrder>, bell: &Notify) -> SessionEnd {
        self.node.set_peer(&self.link.peer);
        let begun = tokio::select! {
            biased;
            () = bell.notified() => return SessionEnd::Changed,
            begun = self.begin() => begun,
        };
        match begun {
            Err(error) => return SessionEnd::Away(error),
            Ok(None) => self.node.set_state(EngineState::Connected, "", Level::Notice),
            Ok(Some(refusal)) => self.node.set_state(EngineState::ReadOnly, &refusal.to_string(), Level::Error),
        }
        tokio::select! {
            biased;
            () = bell.notified() => SessionEnd::Changed,
            error = self.failed() => SessionEnd::Away(error),
            error = self.read() => SessionEnd::Away(error),
            error = self.beat() => SessionEnd::Away(error),
            () = self.take(orders) => SessionEnd::Changed,
        }
    }

    /// Joins the cluster: finds the place in each log, and tells what others have not been told. The answer is why the engine
    /// stores nothing, if it refuses to.
    async fn begin(&mut self) -> Result<Option<EngineError>, EngineError> {
        let sealer = self.node.sealer.borrow().clone();
        let check = sealer.map_or_else(|| NO_SECRET.to_vec(), |sealer| hex(&sealer.hash("check", b"")));
        let begun = Instant::now();
        let identity = self.link.join(&self.names, random_hex().as_bytes(), &check).await?;
        self.node.note_round_trip(begun);
        self.note_clock(identity.now);
        self.has_replicas = identity.has_replicas;
        let name = format!("{} {}", self.plan.engine.address, self.plan.engine.prefix);
        let now = KnownEngine { name, mark: identity.mark, history: identity.history };
        let known = self.node.known.borrow().clone();
        let (is_same, was_lost) = match &known {
            // An engine that the configuration has not named before may belong to others: it has lost nothing.
            Some(known) => (*known == now, known.name == now.name && known.mark != now.mark),
            None => (false, false),
        };
        let zones: Vec<Arc<str>> = self.node.zones.borrow().keys().cloned().collect();
        for zone in &zones {
            self.join_zone(zone, is_same, was_lost).await?;
        }
        let caches: Vec<Arc<str>> = self.node.caches.borrow().keys().cloned().collect();
        for cache in &caches {
            let ends = self.link.log_ends(&self.names.purges_log(cache)).await?;
            if let Some(shared) = self.node.caches.borrow_mut().get_mut(cache) {
                shared.join(ends, known.as_ref(), &now, &self.node);
                if known.is_some() && !is_same {
                    shared.tell_again();
                }
            }
        }
        self.node.known.replace(Some(now));
        self.node.save();
        let told = [self.tell_purges().await, self.beat_once().await];
        let mut refusal = None;
        for error in told.into_iter().filter_map(Result::err) {
            if error.ends_session() {
                return Err(error);
            }
            refusal = Some(error);
        }
        Ok(refusal)
    }

    /// Has a zone follow its log.
    async fn join_zone(&mut self, zone: &Arc<str>, is_same: bool, was_lost: bool) -> Result<(), EngineError> {
        let (table, log) = (self.names.pairs(zone), self.names.pairs_log(zone));
        let offset = self.node.clock_offset.get();
        let ends = self.link.log_ends(&log).await?;
        let (step, merged) = {
            let mut zones = self.node.zones.borrow_mut();
            let Some(shared) = zones.get_mut(zone) else { return Ok(()) };
            let step = shared.join(ends, is_same, was_lost);
            let merged = match step {
                JoinStep::ReadAll { merges: true, .. } => shared.all(offset),
                _ => Vec::new(),
            };
            (step, merged)
        };
        for command in &merged {
            self.link.change_pairs((&table, &log), &self.node.id, LOG_LENGTH, command).await?;
            self.node.shared.counts.sent(size_of_command(command));
        }
        // The table of an engine that has not got them would undo them here.
        self.tell_waiting(zone).await?;
        let from = match step {
            JoinStep::GoOn(_) => return Ok(()),
            JoinStep::ReadAll { from, .. } => from,
        };
        let codec = self.node.zones.borrow().get(zone).map(|shared| shared.codec.clone());
        let Some(codec) = codec else { return Ok(()) };
        let (mut all, mut strange, mut cursor) = (HashMap::new(), 0, 0);
        loop {
            let (next, page) = self.link.pairs_page(&table, cursor).await?;
            for (field, stored) in &page {
                self.node.shared.counts.received(field.len() + stored.len());
                match codec.stored(field, stored) {
                    Some(pair) => drop(all.insert(pair.key.clone(), pair)),
                    None => strange += 1,
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        if strange > 0 {
            let text = format_args!("{strange} pairs of zone \"{zone}\" in the engine cannot be read");
            self.node.log(Level::Error, text);
        }
        if let Some(shared) = self.node.zones.borrow_mut().get_mut(zone) {
            shared.replace(&all, strange, from, offset);
        }
        Ok(())
    }

    /// Tells the engine of the changes of a zone that it does not have.
    async fn tell_waiting(&mut self, zone: &Arc<str>) -> Result<(), EngineError> {
        let (table, log) = (self.names.pairs(zone), self.names.pairs_log(zone));
        let waiting = self.node.zones.borrow().get(zone).map(|shared| shared.waiting(self.node.clock_offset.get()));
        for (key, command) in waiting.unwrap_or_default() {
            self.link.change_pairs((&table, &log), &self.node.id, LOG_LENGTH, &command).await?;
            self.node.shared.counts.sent(size_of_command(&command));
            if let Some(shared) = self.node.zones.borrow_mut().get_mut(zone) {
                shared.note_told(key.as_deref());
            }
        }
        Ok(())
    }

    fn note_clock(&self, engine: u64) {
        let difference = i128::from(engine) - i128::from(unix_ms());
        self.node.clock_offset.set(i64::try_from(difference).unwrap_or_default());
    }

    /// Follows the logs.
    async fn read(&self) -> EngineError {
        let mut link = self.link.clone();
        let zones: HashMap<String, Arc<str>> =
            self.node.zones.borrow().keys().map(|zone| (self.names.pairs_log(zone), zone.clone())).collect();
        let caches: HashMap<String, Arc<str>> =
            self.node.caches.borrow().keys().map(|cache| (self.names.purges_log(cache), cache.clone())).collect();
        if zones.is_empty() && caches.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let places: Vec<(String, EntryId)> = {
                let all_zones = self.node.zones.borrow();
                let all_caches = self.node.caches.borrow();
                let of_zones = zones
                    .iter()
                    .filter_map(|(log, zone)| Some((log.clone(), all_zones.get(zone)?.applied().unwrap_or_default())));
                let of_caches =
                    caches.iter().filter_map(|(log, cache)| Some((log.clone(), all_caches.get(cache)?.applied())));
                of_zones.chain(of_caches).collect()
            };
            let pages = match link.read_logs(&places).await {
                Ok(pages) => pages,
                Err(error) => return error,
            };
            let is_quiet = pages.is_empty();
            let is_behind = pages.iter().any(LogPage::is_full);
            for page in pages {
                self.apply(page, &zones, &caches);
            }
            for cache in self.node.caches.borrow_mut().values_mut().filter(|_| is_quiet) {
                cache.note_read();
            }
            if !is_quiet && !is_behind {
                sleep(READ_PAUSE).await;
            }
        }
    }

    /// Applies the entries of a log.
    fn apply(&self, page: LogPage, zones: &HashMap<String, Arc<str>>, caches: &HashMap<String, Arc<str>>) {
        let LogPage { log, entries } = page;
        let size = |fields: &crate::log_entry::EntryFields| -> usize {
            fields.iter().map(|(name, value)| name.len() + value.len()).sum()
        };
        let counts = &self.node.shared.counts;
        if let Some(zone) = zones.get(&log)
            && let Some(shared) = self.node.zones.borrow_mut().get_mut(zone)
        {
            for (id, fields) in &entries {
                counts.received(size(fields));
                let change = shared.codec.entry(fields);
                shared.apply(*id, change, self.node.clock_offset.get());
            }
            shared.wake();
        } else if let Some(cache) = caches.get(&log)
            && let Some(shared) = self.node.caches.borrow_mut().get_mut(cache)
        {
            for (id, fields) in &entries {
                counts.received(size(fields));
                let is_own = fields.iter().any(|(name, value)| name == b"n" && value == self.node.id.as_bytes());
                let what = if is_own { None } else { shared.codec.entry(fields) };
                shared.apply(*id, what);
            }
        }
    }

    /// Tells that this node lives, and does what has to be done from time to time.
    async fn beat(&self) -> EngineError {
        let mut session = self.copy();
        let mut beat_due = Instant::now() + BEAT;
        let mut sweep_due = Instant::now();
        loop {
            sleep(STEP).await;
            let stepped = session.step(&mut beat_due, &mut sweep_due).await;
            match stepped {
                Err(error) if error.ends_session() => return error,
                Err(error) => self.node.set_state(EngineState::ReadOnly, &error.to_string(), Level::Error),
                Ok(()) => {}
            }
            self.node.save();
            self.node.report();
        }
    }

    async fn step(&mut self, beat_due: &mut Instant, sweep_due: &mut Instant) -> Result<(), EngineError> {
        let waiting: Vec<Arc<str>> = {
            let zones = self.node.zones.borrow();
            zones.iter().filter(|(_, zone)| zone.has_waiting()).map(|(name, _)| name.clone()).collect()
        };
        for zone in &waiting {
            self.tell_waiting(zone).await?;
        }
        self.tell_purges().await?;
        self.acknowledge().await?;
        if Instant::now() >= *beat_due {
            *beat_due = Instant::now() + BEAT;
            self.beat_once().await?;
            self.node.set_state(EngineState::Connected, "", Level::Notice);
        }
        if Instant::now() >= *sweep_due {
            *sweep_due = Instant::now() + SWEEP / 2;
            self.sweep().await?;
        }
        Ok(())
    }

    async fn beat_once(&mut self) -> Result<(), EngineError> {
        let about = [
            ("host", host_name()),
            ("pid", std::process::id().to_string()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("generation", self.plan.generation.to_string()),
        ];
        let begun = Instant::now();
        let (now, nodes) = self.link.beat(&self.names, &self.node.id, GONE, &about).await?;
        self.node.note_round_trip(begun);
        self.note_clock(now);
        self.node.nodes.set(nodes);
        Ok(())
    }

    /// Tells other nodes of the purges that they have not been told.
    async fn tell_purges(&mut self) -> Result<(), EngineError> {
        let untold: Vec<_> =
            self.node.caches.borrow().iter().map(|(name, cache)| (name.clone(), cache.untold())).collect();
        for (cache, purges) in untold {
            for what in purges {
                self.tell_purge(&cache, &what).await?;
            }
        }
        Ok(())
    }

    async fn tell_purge(&mut self, cache: &Arc<str>, what: &freerun_cache::purge::Purge) -> Result<(), EngineError> {
        let codec = self.node.caches.borrow().get(cache).map(|shared| shared.codec.clone());
        let Some((kind, text)) = codec.and_then(|codec| codec.fields(what)) else { return Ok(()) };
        let fields: [(&str, &[u8]); 3] = [("w", kind.as_bytes()), ("t", &text), ("n", self.node.id.as_bytes())];
        self.link.append(&self.names.purges_log(cache), LOG_LENGTH, &fields).await?;
        self.node.shared.counts.sent(text.len());
        if self.has_replicas {
            self.link.wait_replica().await?;
        }
        if let Some(shared) = self.node.caches.borrow_mut().get_mut(cache) {
            shared.note_told(what);
        }
        Ok(())
    }

    /// Tells other nodes which purges this one has applied.
    async fn acknowledge(&mut self) -> Result<(), EngineError> {
        let news: Vec<(Arc<str>, EntryId)> = {
            let caches = self.node.caches.borrow();
            let all = caches.iter().map(|(name, cache)| (name.clone(), cache.applied(), cache.acknowledged));
            all.filter(|(_, applied, known)| Some(*applied) != *known)
                .map(|(name, applied, _)| (name, applied))
                .collect()
        };
        for (cache, applied) in news {
            self.link.note(&self.names.node(&self.node.id), &purges_fact(&cache), &applied.to_string()).await?;
            if let Some(shared) = self.node.caches.borrow_mut().get_mut(&cache) {
                shared.acknowledged = Some(applied);
            }
        }
        Ok(())
    }

    /// Removes pairs from the engine whose time is over, unless another node does that.
    async fn sweep(&mut self) -> Result<(), EngineError> {
        let zones: Vec<Arc<str>> = self.node.zones.borrow().keys().cloned().collect();
        for zone in zones {
            if !self.link.take_right(&self.names.sweep(&zone), &self.node.id, SWEEP).await? {
                continue;
            }
            let (table, mut cursor) = (self.names.pairs(&zone), 0);
            loop {
                cursor = self.link.sweep_page(&table, cursor).await?;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes orders. Each is carried out beside the others.
    async fn take(&self, orders: &mut mpsc::Receiver<ClusterOrder>) {
        while let Ok(permit) = self.orders.clone().acquire_owned().await {
            let Some(order) = orders.recv().await else { return };
            let mut session = self.copy();
            tokio::task::spawn_local(async move {
                if let Err(error) = session.carry_out(order).await {
                    if error.ends_session() {
                        session.failure.error.borrow_mut().get_or_insert(error);
                        session.failure.bell.notify_one();
                    } else {
                        session.node.set_state(EngineState::ReadOnly, &error.to_string(), Level::Error);
                    }
                }
                drop(permit);
            });
        }
    }

    /// Waits until an order has met an error that ends the session.
    async fn failed(&self) -> EngineError {
        loop {
            if let Some(error) = self.failure.error.borrow_mut().take() {
                return error;
            }
            self.failure.bell.notified().await;
        }
    }

    async fn carry_out(&mut self, order: ClusterOrder) -> Result<(), EngineError> {
        match order {
            ClusterOrder::Pairs { zone, change, answer } => {
                if answer.is_closed() {
                    return Ok(());
                }
                let (changed, error) = match self.change_pairs(&zone, &change).await {
                    Ok(changed) => (changed, None),
                    // The engine has not made the change, so the zone is changed as it is without an engine.
                    Err(error @ EngineError::Refused(_)) => (self.node.change_alone(&zone, &change), Some(error)),
                    Err(error) => (Err(PairWriteError::Away), Some(error)),
                };
                // Whoever has asked may have given up.
                let _ = answer.send(changed);
                error.map_or(Ok(()), Err)
            }
            ClusterOrder::Purges { cache, purges, answer } => {
                let mut failed = None;
                let mut left = purges.into_iter();
                while let Some(what) = left.next() {
                    if let Err(error) = self.tell_purge(&cache, &what).await {
                        failed = Some(error);
                        if let Some(shared) = self.node.caches.borrow_mut().get_mut(&cache) {
                            shared.note_untold(std::iter::once(what).chain(left).collect(), &self.node);
                        }
                        break;
                    }
                }
                let _ = answer.send(failed.is_none());
                failed.map_or(Ok(()), Err)
            }
            ClusterOrder::Nodes { answer } => {
                let nodes = self.nodes().await;
                let error = nodes.as_ref().err().cloned();
                let _ = answer.send(nodes.ok());
                error.map_or(Ok(()), Err)
            }
        }
    }

    /// Changes pairs in the engine, and waits until this node has read the change.
    async fn change_pairs(
        &mut self,
        zone: &Arc<str>,
        change: &PairChange,
    ) -> Result<Result<(), PairWriteError>, EngineError> {
        let command = match self.node.zones.borrow().get(zone).map(|shared| shared.command(change)) {
            None => return Ok(Err(PairWriteError::Away)),
            Some(Err(refused)) => return Ok(Err(refused)),
            Some(Ok(command)) => command,
        };
        let (table, log) = (self.names.pairs(zone), self.names.pairs_log(zone));
        let answer = self.link.change_pairs((&table, &log), &self.node.id, LOG_LENGTH, &command).await?;
        self.node.shared.counts.sent(size_of_command(&command));
        let id = match answer {
            PairAnswer::Done(id) => id,
            PairAnswer::Exists => return Ok(Err(PairRefusal::Exists.into())),
            PairAnswer::Missing => return Ok(Err(PairRefusal::NotFound.into())),
            PairAnswer::NotEmpty => return Ok(Err(PairRefusal::NotEmpty.into())),
        };
        if self.has_replicas {
            self.link.wait_replica().await?;
        }
        let Some(id) = id else { return Ok(Ok(())) };
        let (waiter, applied) = oneshot::channel();
        match self.node.zones.borrow_mut().get_mut(zone) {
            Some(shared) => shared.wait_for(id, waiter),
            None => return Ok(Err(PairWriteError::Away)),
        }
        match timeout(PATIENCE, applied).await {
            Ok(Ok(())) => Ok(Ok(())),
            _ => Ok(Err(PairWriteError::Away)),
        }
    }

    async fn nodes(&mut self) -> Result<Vec<NodeReport>, EngineError> {
        let now = unix_ms().saturating_add_signed(self.node.clock_offset.get());
        let mut all = Vec::new();
        for (node, at) in self.link.nodes(&self.names, MOST_NODES).await? {
            let about = self.link.table(&self.names.node(&node)).await?;
            let is_self = node == self.node.id;
            all.push(NodeReport { node, silent: now.saturating_sub(at), is_self, about });
        }
        Ok(all)
    }

    fn copy(&self) -> EngineSession {
        EngineSession {
            node: self.node.clone(),
            plan: self.plan.clone(),
            link: self.link.clone(),
            names: self.names.clone(),
            has_replicas: self.has_replicas,
            orders: self.orders.clone(),
            failure: self.failure.clone(),
        }
    }
}

/// The number of bytes of a command's names and texts.
fn size_of_command(command: &PairCommand) -> usize {
    match command {
        PairCommand::Add(pairs) => pairs.iter().map(|(field, payload, _)| field.len() + payload.len()).sum(),
        PairCommand::Set { field, payload, .. } => field.len() + payload.as_ref().map_or(0, Vec::len),
        PairCommand::Remove(field, payload, _) | PairCommand::Put(field, payload) => field.len() + payload.len(),
        PairCommand::Merge(pairs) => pairs.iter().map(|(field, stored)| field.len() + stored.len()).sum(),
        PairCommand::Clear => 0,
    }
}

/// Bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes()
}

/// The name of this machine.
fn host_name() -> String {
    freerun_conf::text_of(rustix::system::uname().nodename().to_bytes()).into_owned()
}
