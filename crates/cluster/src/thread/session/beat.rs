//! The work that a session does again and again: telling that the node lives, and telling what the engine does not have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::host;
use freerun_runtime::log::Level;
use tokio::time::sleep;

use super::context::SessionContext;
use crate::engine::EngineError;
use crate::figures::{EngineState, purges_fact};
use crate::log_entry::EntryId;

/// The interval in which a node tells that it lives.
const BEAT: Duration = Duration::from_secs(5);

/// The time after which a silent node is gone.
const GONE: Duration = Duration::from_secs(30);

/// The interval in which what has gathered is written down and told.
const STEP: Duration = Duration::from_secs(1);

/// The interval in which a node removes pairs from the engine that have ended.
const SWEEP: Duration = Duration::from_secs(3600);

impl SessionContext {
    /// Tells that this node lives, and which purges it has applied.
    pub(super) async fn beat(&mut self) -> EngineError {
        let mut due = Instant::now() + BEAT;
        loop {
            sleep(STEP).await;
            let told = if Instant::now() >= due {
                due = Instant::now() + BEAT;
                let beaten = self.beat_once().await;
                if beaten.is_ok() && self.refused_at.get().is_none_or(|at| at.elapsed() > BEAT) {
                    self.node.set_state(EngineState::Connected, "", Level::Notice);
                }
                beaten
            } else {
                self.acknowledge().await
            };
            match told {
                Err(error) if error.ends_session() => return error,
                Err(error) => self.note_error(error),
                Ok(()) => {}
            }
            self.node.save();
            self.node.report();
        }
    }

    pub(super) async fn beat_once(&mut self) -> Result<(), EngineError> {
        let applied: Vec<(Arc<str>, EntryId)> =
            self.node.caches.borrow().iter().map(|(name, cache)| (name.clone(), cache.applied())).collect();
        let mut about = vec![
            ("host".to_owned(), freerun_conf::text_of(host::name()).into_owned()),
            ("pid".to_owned(), std::process::id().to_string()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("generation".to_owned(), self.plan.generation.to_string()),
        ];
        about.extend(applied.iter().map(|(cache, applied)| (purges_fact(cache), applied.to_string())));
        let begun = Instant::now();
        let (now, nodes) = self.link.beat(&self.names, &self.node.id, GONE, &about).await?;
        self.node.note_round_trip(begun);
        self.note_clock(now);
        self.node.nodes.set(nodes);
        for (cache, applied) in applied {
            self.note_acknowledged(&cache, applied);
        }
        // A replica may have come or gone.
        let (_, has_replicas) = self.link.replication().await?;
        self.note_replicas(has_replicas)?;
        Ok(())
    }

    /// Tells other nodes which purges this one has applied, where they do not know it yet.
    async fn acknowledge(&mut self) -> Result<(), EngineError> {
        let news: Vec<(Arc<str>, EntryId)> = {
            let caches = self.node.caches.borrow();
            let all = caches.iter().filter(|(_, cache)| cache.acknowledged != Some(cache.applied()));
            all.map(|(name, cache)| (name.clone(), cache.applied())).collect()
        };
        for (cache, applied) in news {
            self.link.note(&self.names.node(&self.node.id), &purges_fact(&cache), &applied.to_string()).await?;
            self.note_acknowledged(&cache, applied);
        }
        Ok(())
    }

    fn note_acknowledged(&self, cache: &Arc<str>, applied: EntryId) {
        if let Some(shared) = self.node.caches.borrow_mut().get_mut(cache) {
            shared.acknowledged = Some(applied);
        }
    }

    /// Tells the engine what it does not have, and removes pairs from it that have ended.
    pub(super) async fn tell(&mut self) -> EngineError {
        let mut sweep_due = Instant::now();
        loop {
            let zones: Vec<Arc<str>> = self.node.zones.borrow().keys().cloned().collect();
            let caches: Vec<Arc<str>> = self.node.caches.borrow().keys().cloned().collect();
            let mut told = Vec::new();
            for zone in &zones {
                told.push(self.tell_waiting(zone).await);
            }
            for cache in &caches {
                told.push(self.tell_untold(cache).await);
            }
            if Instant::now() >= sweep_due {
                sweep_due = Instant::now() + SWEEP / 2;
                told.push(self.sweep(&zones).await);
            }
            for error in told.into_iter().filter_map(Result::err) {
                if error.ends_session() {
                    return error;
                }
                self.note_error(error);
            }
            sleep(STEP).await;
        }
    }

    /// Tells other nodes of the purges of a cache that nobody tells them.
    async fn tell_untold(&mut self, cache: &Arc<str>) -> Result<(), EngineError> {
        loop {
            let next = self.node.caches.borrow_mut().get_mut(cache).and_then(|shared| shared.claim_untold());
            let Some((number, what)) = next else { return Ok(()) };
            self.tell_purge(cache, number, &what).await?;
        }
    }

    /// Removes pairs from the engine whose time is over, unless another node does that.
    async fn sweep(&mut self, zones: &[Arc<str>]) -> Result<(), EngineError> {
        for zone in zones {
            if !self.link.acquire_sweep(&self.names.sweep(zone), &self.node.id, SWEEP).await? {
                continue;
            }
            let (table, mut cursor) = (self.names.pairs(zone), 0);
            loop {
                cursor = self.link.sweep_page(&table, cursor).await?;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}
