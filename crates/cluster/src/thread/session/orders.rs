//! The orders of requests: changes of pairs, purges, questions for the nodes.

use std::sync::Arc;
use std::time::Duration;

use freerun_cache::purge::Purge;
use freerun_serve::values::keyvals::{PairChange, PairRefusal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::context::SessionContext;
use crate::engine::{EngineError, EngineNode, PairAnswer};
use crate::figures::NodeReport;
use crate::state::{ClusterOrder, PATIENCE, PairWriteError, PurgeDelivery};
use crate::thread::known_engine::unix_ms;

/// The longest time for telling purges before they are stored instead.
const TELL: Duration = Duration::from_millis(500);

/// The most nodes that are shown.
const MOST_NODES: usize = 1024;

impl SessionContext {
    pub(super) async fn carry_out(&mut self, order: ClusterOrder) -> Result<(), EngineError> {
        // Whoever has asked may have given up.
        match order {
            ClusterOrder::Pairs { answer, .. } if answer.is_closed() => Ok(()),
            ClusterOrder::Pairs { zone, change, answer } => {
                let (changed, error) = match self.change_pairs(&zone, &change).await {
                    Ok(changed) => (changed, None),
                    // The engine has not made the change, so the zone is changed as it is without an engine.
                    Err(error @ EngineError::Refused(_)) => (self.node.change_alone(&zone, &change), Some(error)),
                    Err(error) => (Err(PairWriteError::Away), Some(error)),
                };
                let _ = answer.send(changed);
                error.map_or(Ok(()), Err)
            }
            ClusterOrder::Purges { cache, purges, answer } => {
                let (delivery, error) = self.deliver_purges(&cache, purges).await;
                let _ = answer.send(delivery);
                error.map_or(Ok(()), Err)
            }
            ClusterOrder::Nodes { answer } => {
                if !answer.is_closed() {
                    let _ = answer.send(self.nodes().await?);
                }
                Ok(())
            }
            ClusterOrder::NewestPurge { cache, answer } => {
                let is_shared = self.node.caches.borrow().contains_key(&cache);
                if is_shared && !answer.is_closed() {
                    let ends = self.link.log_ends(&self.names.purges_log(&cache)).await?;
                    let _ = answer.send((ends.unwrap_or_default().newest, self.nodes().await?));
                }
                Ok(())
            }
        }
    }

    /// Tells other nodes of purges, or stores them to be told later.
    async fn deliver_purges(&mut self, cache: &Arc<str>, purges: Vec<Purge>) -> (PurgeDelivery, Option<EngineError>) {
        // They are kept before anything may fail.
        let numbers: Vec<(u64, Purge)> = match self.node.caches.borrow_mut().get_mut(cache) {
            None => return (PurgeDelivery::Failed, None),
            Some(shared) => purges.into_iter().map(|what| (shared.add_untold(what.clone(), true), what)).collect(),
        };
        let told = async {
            for (number, what) in &numbers {
                self.tell_purge(cache, *number, what).await?;
            }
            Ok(())
        };
        let told = timeout(TELL, told).await;
        if matches!(told, Ok(Ok(()))) {
            return (PurgeDelivery::Delivered, None);
        }
        let mut caches = self.node.caches.borrow_mut();
        let Some(shared) = caches.get_mut(cache) else { return (PurgeDelivery::Failed, None) };
        numbers.iter().for_each(|(number, _)| shared.release_untold(*number));
        let is_stored = shared.save();
        (if is_stored { PurgeDelivery::Stored } else { PurgeDelivery::Failed }, told.ok().and_then(Result::err))
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
        let id = match self.send_change((&table, &log), &command).await? {
            PairAnswer::Done(id) => id,
            PairAnswer::Exists => return Ok(Err(PairRefusal::Exists.into())),
            PairAnswer::Missing => return Ok(Err(PairRefusal::NotFound.into())),
            PairAnswer::NotEmpty => return Ok(Err(PairRefusal::NotEmpty.into())),
        };
        self.wait_replica().await?;
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
        let nodes = self.link.nodes(&self.names, MOST_NODES).await?.into_iter();
        let each = |node: EngineNode| NodeReport {
            silent: now.saturating_sub(node.heard_of),
            is_self: node.node == self.node.id,
            node: node.node,
            about: node.facts,
        };
        Ok(nodes.map(each).collect())
    }
}
