//! Leases: what the node has admitted on credit is charged, and requests are taken ahead of their use.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use freerun_serve::limits::leases::{LeaseDemand, LeaseRequest, Leases};
use tokio::time::sleep;

use super::context::SessionContext;
use crate::engine::{BUCKET_NAME, BUCKETS, BucketDemand, EngineError};
use crate::settings::PlannedLimit;

/// The pause between two calls of the engine for the leases of a node. In that time the keys gather that need one.
const LEND_PAUSE: Duration = Duration::from_millis(10);

/// The same where a zone is strict, whose requests wait for it.
const STRICT_PAUSE: Duration = Duration::from_millis(2);

/// Keys that have left those that wait, each with its demand. Dropping this lets those wait again that have no answer.
struct LeaseBatch<'l> {
    leases: &'l Leases,
    keys: Vec<(LeaseRequest, LeaseDemand)>,
}

impl Drop for LeaseBatch<'_> {
    fn drop(&mut self) {
        // Nobody knows whether these are charged; twice is better than never.
        self.keys.iter().for_each(|(request, demand)| self.leases.release(request.place, demand.used));
    }
}

impl SessionContext {
    /// Gets leases for the keys that need one.
    pub(super) async fn lend(&mut self) -> EngineError {
        let limits: HashMap<Arc<str>, PlannedLimit> = self.plan.limits.iter().cloned().collect();
        let is_strict = limits.values().any(|limit| limit.leases.is_strict());
        let pause = if is_strict { STRICT_PAUSE } else { LEND_PAUSE };
        loop {
            any_waits(&limits).await;
            let mut has_more = false;
            for (zone, limit) in &limits {
                match self.lend_some(zone, limit).await {
                    Ok(count) => has_more |= count == BUCKETS,
                    Err(error) if error.ends_session() => return error,
                    Err(error) => self.note_error(error),
                }
            }
            if !has_more {
                sleep(pause).await;
            }
        }
    }

    /// Gets leases for keys of a zone, in one call of the engine. The number of keys.
    async fn lend_some(&mut self, zone: &Arc<str>, limit: &PlannedLimit) -> Result<usize, EngineError> {
        let leases = &*limit.leases;
        let sealer = self.node.sealer.borrow().clone();
        let mut batch = LeaseBatch { leases, keys: Vec::new() };
        let mut demands = Vec::new();
        while demands.len() < BUCKETS {
            let Some(request) = leases.next_waiting() else { break };
            let Some(demand) = leases.demand(request.place, leases.now(), limit.bucket) else { continue };
            let hash = sealer.as_ref().map(|sealer| sealer.hash(zone, &request.digest));
            let hash = hash.as_deref().unwrap_or(&request.digest);
            let name: [u8; BUCKET_NAME] = std::array::from_fn(|at| hash[at]);
            demands.push(BucketDemand { name, demand });
            batch.keys.push((request, demand));
        }
        if demands.is_empty() {
            return Ok(0);
        }
        let grants = self.link.take_from_buckets(&self.names, zone, limit.bucket, &demands).await?;
        for ((request, _), grant) in std::mem::take(&mut batch.keys).into_iter().zip(grants) {
            leases.grant(request, leases.now(), limit.bucket, grant);
        }
        self.node.shared.counts.sent(demands.len() * BUCKET_NAME);
        Ok(demands.len())
    }
}

/// Waits until a key needs a lease.
async fn any_waits(limits: &HashMap<Arc<str>, PlannedLimit>) {
    let mut bells: Vec<_> = limits.values().map(|limit| Box::pin(limit.leases.bell.notified())).collect();
    poll_fn(|context| {
        let is_waiting = limits.values().any(|limit| limit.leases.pending() > 0);
        // All are polled, so that each of them wakes this.
        let rung = bells.iter_mut().filter_map(|bell| bell.as_mut().poll(context).is_ready().then_some(())).count();
        if is_waiting || rung > 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
