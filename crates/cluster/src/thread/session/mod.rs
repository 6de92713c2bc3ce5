//! A session: from a connection to the engine to its end.
//!
//! | module | holds |
//! |---|---|
//! | `context` | the parts that its tasks share |
//! | `join` | the place in each log from which it goes on |
//! | `read` | the changes of other nodes |
//! | `beat` | signs of life, and what the engine does not have |
//! | `lend` | leases on the requests of shared limits |
//! | `tickets` | keys of session tickets |
//! | `orders` | the orders of requests |

mod beat;
mod context;
mod join;
mod lend;
mod orders;
mod read;
mod tickets;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::log::Level;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::node::Node;
use crate::engine::EngineLink;
use crate::figures::EngineState;
use crate::settings::ClusterPlan;
use crate::state::ClusterOrder;
use context::SessionContext;

pub(super) use context::SessionEnd;

/// The most orders that wait for the engine at a time.
const ORDERS_AT_ONCE: usize = 64;

/// The longest wait of an order for a node that connects and joins. A node that needs longer, because it has to read everything,
/// answers as one without its engine does.
pub(super) const JOINING: Duration = Duration::from_millis(500);

/// The orders that are being carried out. They end when this is dropped.
pub(super) type OrderTasks = JoinSet<()>;

/// A session.
pub(super) struct EngineSession {
    context: SessionContext,
    permits: Arc<Semaphore>,
    tasks: RefCell<OrderTasks>,
}

impl EngineSession {
    /// A session on these connections. `tasks` are orders of a session before on the same ones.
    pub(super) fn new(node: Rc<Node>, plan: Arc<ClusterPlan>, link: EngineLink, tasks: OrderTasks) -> EngineSession {
        let context = SessionContext::new(node, plan, link);
        EngineSession { context, permits: Arc::new(Semaphore::new(ORDERS_AT_ONCE)), tasks: RefCell::new(tasks) }
    }

    /// The orders that are still being carried out, for a next session on the same connections.
    pub(super) fn into_tasks(self) -> OrderTasks {
        self.tasks.into_inner()
    }

    /// Takes part until the end.
    pub(super) async fn run(&mut self, orders: &mut mpsc::Receiver<ClusterOrder>, bell: &Notify) -> SessionEnd {
        let node = self.context.node.clone();
        node.set_peer(&self.context.link.peer);
        let mut joining = self.context.clone();
        let begun = tokio::select! {
            biased;
            () = bell.notified() => return SessionEnd::Changed,
            begun = joining.begin() => begun,
            () = answer_later(&node, orders, JOINING) => return SessionEnd::Changed,
        };
        match begun {
            Err(error) => return SessionEnd::Away(error),
            Ok(None) => node.set_state(EngineState::Connected, "", Level::Notice),
            Ok(Some(refusal)) => node.set_state(EngineState::ReadOnly, &refusal.to_string(), Level::Error),
        }
        let [mut reading, mut beating, mut telling, mut lending, mut sharing] =
            std::array::from_fn(|_| self.context.clone());
        tokio::select! {
            biased;
            () = bell.notified() => SessionEnd::Changed,
            error = self.context.failed() => SessionEnd::Away(error),
            end = reading.read() => end,
            error = beating.beat() => SessionEnd::Away(error),
            error = telling.tell() => SessionEnd::Away(error),
            error = lending.lend() => SessionEnd::Away(error),
            error = sharing.share_tickets() => SessionEnd::Away(error),
            () = self.take(orders) => SessionEnd::Changed,
        }
    }

    /// Takes orders. Each is carried out beside the others.
    async fn take(&self, orders: &mut mpsc::Receiver<ClusterOrder>) {
        while let Ok(permit) = self.permits.clone().acquire_owned().await {
            let Some(order) = orders.recv().await else { return };
            let mut context = self.context.clone();
            let mut tasks = self.tasks.borrow_mut();
            while tasks.try_join_next().is_some() {}
            tasks.spawn_local(async move {
                if let Err(error) = context.carry_out(order).await {
                    context.note_error(error);
                }
                drop(permit);
            });
        }
    }
}

/// Answers orders as a node without its engine does, once they have waited for this time.
pub(super) async fn answer_later(node: &Node, orders: &mut mpsc::Receiver<ClusterOrder>, patience: Duration) {
    sleep(patience).await;
    node.answer_alone(orders).await;
}
