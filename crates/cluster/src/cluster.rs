//! The handle of a cluster, which the rest of the server has.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use freerun_cache::purge::Purge;
use freerun_runtime::timer;
use freerun_serve::values::keyvals::PairChange;
use tokio::sync::{mpsc, oneshot};

use crate::figures::{ClusterReport, NodeReport};
use crate::log_entry::EntryId;
use crate::settings::ClusterPlan;
use crate::state::{ClusterOrder, ClusterState, PATIENCE, PairWriteError, PurgeDelivery};
use crate::thread::ClusterThread;

/// The most orders that wait for the thread. One more waits for its place, or is refused.
const ORDERS: usize = 1024;

/// The time for which a node that leaves goes on. No request waits for longer.
const LEAVING: Duration = Duration::from_secs(2);
const _: () = assert!(LEAVING.as_millis() > PATIENCE.as_millis(), "a request that waits is answered before");

/// A cluster as a worker takes part in it: a handle, shared by all its clones. It is kept over reloads.
#[derive(Clone)]
pub struct Cluster(Arc<ClusterHandle>);

struct ClusterHandle {
    state: Arc<ClusterState>,
    /// The way to the thread that runs.
    orders: ArcSwapOption<mpsc::Sender<ClusterOrder>>,
    /// Taken by the control thread, to start and to end the thread.
    running: Mutex<Option<ClusterThread>>,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster(Arc::new(ClusterHandle {
            state: Arc::default(),
            orders: ArcSwapOption::empty(),
            running: Mutex::new(None),
        }))
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Cluster({:?})", self.0.state.report.load().state)
    }
}

impl Cluster {
    /// Follows this plan from now on, and starts the thread if it does not run.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn update(&self, plan: ClusterPlan) -> io::Result<()> {
        self.0.state.plan.store(Some(Arc::new(plan)));
        let mut running = self.running();
        if running.is_none() {
            let (sender, receiver) = mpsc::channel(ORDERS);
            *running = Some(ClusterThread::start(self.0.state.clone(), receiver)?);
            self.0.orders.store(Some(Arc::new(sender)));
        }
        drop(running);
        self.0.state.bell.notify_one();
        Ok(())
    }

    /// Leaves the cluster soon. Requests that are there, or come within a moment, are answered before. It does not wait.
    pub fn leave(&self) {
        if let Some(running) = &*self.running() {
            running.stop_after(LEAVING);
        }
    }

    /// Ends the thread; waits for that, for about this time at most.
    pub fn stop(&self, patience: Duration) {
        self.0.orders.store(None);
        let running = self.running().take();
        if let Some(running) = running {
            running.stop(patience);
        }
    }

    /// The state of the cluster as it was within the last second.
    pub fn report(&self) -> Arc<ClusterReport> {
        self.0.state.report.load_full()
    }

    /// Changes pairs of a zone for all nodes: when this returns, the engine has the change, and this node has read it back. It
    /// waits for a second at most.
    ///
    /// # Errors
    /// [`PairWriteError`]
    pub async fn change_pairs(&self, zone: &str, change: PairChange) -> Result<(), PairWriteError> {
        let (answer, answered) = oneshot::channel();
        let order = ClusterOrder::Pairs { zone: zone.into(), change, answer };
        self.ask(order, answered).await.unwrap_or(Err(PairWriteError::Away))
    }

    /// Tells other nodes of purges of a cache, which are in force on this node already. It waits for a second at most.
    pub async fn tell_purges(&self, cache: &str, purges: Vec<Purge>) -> PurgeDelivery {
        let Some(orders) = self.0.orders.load_full() else { return PurgeDelivery::Failed };
        let (answer, answered) = oneshot::channel();
        let order = ClusterOrder::Purges { cache: cache.into(), purges, answer };
        let told = async {
            orders.send(order).await.ok()?;
            answered.await.ok()
        };
        timer::timeout(PATIENCE, told).await.ok().flatten().unwrap_or(PurgeDelivery::Failed)
    }

    /// The nodes that live. `None`: the engine is away.
    pub async fn nodes(&self) -> Option<Vec<NodeReport>> {
        let (answer, answered) = oneshot::channel();
        self.ask(ClusterOrder::Nodes { answer }, answered).await
    }

    /// The newest entry of the log of a cache's purges, and the nodes that live, which say what they have applied. `None`: the
    /// engine is away, or the purges of the cache are not shared.
    pub async fn newest_purge(&self, cache: &str) -> Option<(EntryId, Vec<NodeReport>)> {
        let (answer, answered) = oneshot::channel();
        self.ask(ClusterOrder::NewestPurge { cache: cache.into(), answer }, answered).await
    }

    /// Gives the thread an order and waits for the answer. `None`: there is none in time.
    async fn ask<T>(&self, order: ClusterOrder, answered: oneshot::Receiver<T>) -> Option<T> {
        let orders = self.0.orders.load_full()?;
        orders.try_send(order).ok()?;
        timer::timeout(PATIENCE, answered).await.ok()?.ok()
    }

    fn running(&self) -> MutexGuard<'_, Option<ClusterThread>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
