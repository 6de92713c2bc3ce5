//! Joining the cluster: the place in each log from which a session goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::log::Level;

use super::context::SessionContext;
use crate::engine::{EngineError, PairCommand};
use crate::log_entry::EntryId;
use crate::thread::known_engine::KnownEngine;
use crate::thread::node::{hex, random_hex};
use crate::thread::pairs::{EngineLoss, JoinStep, PairsGiven};
use crate::thread::purges::READ_AGAIN;

/// The time for which a primary without its replicas is not used, though sentinels name it. They need a second or two to notice
/// that a replica was promoted, and what the old primary takes meanwhile is lost.
const DOUBT: Duration = Duration::from_secs(5);

/// The check of a cluster without a secret.
const NO_SECRET: &[u8] = b"none";

impl SessionContext {
    /// Joins the cluster: finds the place in each log. The answer is why the engine stores nothing, if it refuses to.
    pub(super) async fn begin(&mut self) -> Result<Option<EngineError>, EngineError> {
        let sealer = self.node.sealer.borrow().clone();
        let check = sealer.map_or_else(|| NO_SECRET.to_vec(), |sealer| hex(&sealer.hash("check", b"")).into_bytes());
        let begun = Instant::now();
        let mut identity = self.link.join(&self.names, random_hex().as_bytes(), &check).await?;
        self.node.note_round_trip(begun);
        self.note_clock(identity.now);
        self.has_replicas.set(identity.has_replicas);
        let is_doubtful = self.node.deserted_at.get().is_some_and(|at| at.elapsed() < DOUBT);
        let is_known = self.node.known.borrow().as_ref().is_some_and(|known| known.history == identity.history);
        if is_doubtful && is_known && !identity.has_replicas {
            return Err(EngineError::Deserted);
        }
        let zones: Vec<Arc<str>> = self.node.zones.borrow().keys().cloned().collect();
        let caches: Vec<Arc<str>> = self.node.caches.borrow().keys().cloned().collect();
        let name = format!("{} {}", self.plan.engine.address, self.plan.engine.prefix);
        let known = self.node.known.borrow().clone().filter(|known| known.name == name);
        let mut refusal = None;
        let mut gives_all = false;
        if self.is_old(&zones, &caches, known.as_ref(), &identity.mark).await? {
            // All nodes see by the new mark that what they had is gone, and one of them brings it back.
            let mark = random_hex().into_bytes();
            match self.link.replace_mark(&self.names, &identity.mark, &mark).await {
                Ok(true) => (identity.mark, gives_all) = (mark, true),
                Ok(false) => identity = self.link.join(&self.names, &mark, &check).await?,
                Err(error) if error.ends_session() => return Err(error),
                Err(error) => refusal = Some(error),
            }
            let text = "the engine has come back with an old state, which is replaced by the present one";
            self.node.log(Level::Warn, format_args!("{text}"));
        }
        let now = KnownEngine { name, mark: identity.mark, history: identity.history };
        let loss = match &known {
            _ if gives_all => EngineLoss::Old,
            Some(known) if known.mark != now.mark => EngineLoss::Lost,
            _ => EngineLoss::None,
        };
        for zone in &zones {
            let refused = self.join_zone(zone, known.as_ref() == Some(&now), loss).await?;
            refusal = refusal.or(refused);
        }
        for cache in &caches {
            let ends = self.link.log_ends(&self.names.purges_log(cache)).await?;
            if let Some(shared) = self.node.caches.borrow_mut().get_mut(cache) {
                shared.join(ends, &now);
            }
        }
        self.node.known.replace(Some(now));
        self.node.save();
        match self.beat_once().await {
            Err(error) if error.ends_session() => Err(error),
            beaten => Ok(refusal.or(beaten.err())),
        }
    }

    /// Whether the engine has come back with an old state: its logs end long before what this node has applied of them, though
    /// its mark is the same.
    async fn is_old(
        &mut self,
        zones: &[Arc<str>],
        caches: &[Arc<str>],
        known: Option<&KnownEngine>,
        mark: &[u8],
    ) -> Result<bool, EngineError> {
        let mut places: Vec<(String, EntryId)> = Vec::new();
        if known.is_some_and(|known| known.mark == mark) {
            let all = self.node.zones.borrow();
            let applied = |zone: &Arc<str>| Some((self.names.pairs_log(zone), all.get(zone)?.applied()?));
            places.extend(zones.iter().filter_map(applied));
        }
        {
            let all = self.node.caches.borrow();
            let followed = |cache: &Arc<str>| {
                let shared = all.get(cache).filter(|shared| shared.has_followed(mark))?;
                Some((self.names.purges_log(cache), shared.applied()))
            };
            places.extend(caches.iter().filter_map(followed));
        }
        for (log, applied) in places {
            let newest = self.link.log_ends(&log).await?.unwrap_or_default().newest;
            if newest < applied.earlier(READ_AGAIN) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has a zone follow its log. The answer is why the engine did not take what it was given, if it refused that.
    async fn join_zone(
        &mut self,
        zone: &Arc<str>,
        is_same: bool,
        loss: EngineLoss,
    ) -> Result<Option<EngineError>, EngineError> {
        let (table, log) = (self.names.pairs(zone), self.names.pairs_log(zone));
        let offset = self.node.clock_offset.get();
        let ends = self.link.log_ends(&log).await?;
        let (step, codec, all) = {
            let zones = self.node.zones.borrow();
            let Some(shared) = zones.get(zone) else { return Ok(None) };
            let step = shared.join(ends, is_same, loss);
            let gives = matches!(step, JoinStep::ReadAll { given: PairsGiven::Missing | PairsGiven::All, .. });
            (step, shared.codec.clone(), if gives { shared.all(offset) } else { Vec::new() })
        };
        let first = matches!(step, JoinStep::ReadAll { given: PairsGiven::All, .. }).then_some(PairCommand::Clear);
        let mut refusal = None;
        for command in first.iter().chain(&all) {
            if let Err(error) = self.send_change((&table, &log), command).await {
                if error.ends_session() {
                    return Err(error);
                }
                refusal = Some(error);
                break;
            }
        }
        match self.tell_waiting(zone).await {
            Err(error) if error.ends_session() => return Err(error),
            told => refusal = refusal.or(told.err()),
        }
        let from = match step {
            JoinStep::GoOn(_) => return Ok(refusal),
            JoinStep::ReadAll { from, .. } => from,
        };
        if refusal.is_some() && !all.is_empty() {
            // A table that lacks pairs would remove them here.
            return Ok(refusal);
        }
        let (mut pairs, mut strange, mut cursor) = (Vec::new(), 0, 0);
        loop {
            let (next, page) = self.link.pairs_page(&table, cursor).await?;
            for (field, stored) in &page {
                self.node.shared.counts.received(field.len() + stored.len());
                match codec.stored(field, stored) {
                    Some(pair) => pairs.push(pair),
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
            shared.replace(pairs, strange, from, offset);
        }
        Ok(refusal)
    }
}
