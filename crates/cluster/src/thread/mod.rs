//! The thread: one session with the engine after the other, and what it answers in between.
//!
//! | module | holds |
//! |---|---|
//! | `known_engine` | the marks of the engine, and how long they count |
//! | `node` | what this node knows over sessions, and its reports |
//! | `pairs` | a shared zone of pairs: joining, changes of others, changes of this node |
//! | `purges` | a cache whose purges are shared |
//! | `session` | a session: from a connection to its end |

mod known_engine;
mod node;
mod pairs;
mod purges;
mod session;

use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use freerun_runtime::log::Level;
use tokio::sync::{mpsc as orders, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::engine::{EngineLink, connect};
use crate::figures::EngineState;
use crate::settings::EngineSettings;
use crate::state::{ClusterOrder, ClusterState};
use node::Node;
use session::{EngineSession, JOINING, OrderTasks, SessionEnd, answer_later};

/// The shortest and the longest pause before the engine is tried again. The real one is between half of it and all, so that many
/// nodes do not come back in one instant.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3));

/// The time that the end of a thread may take beyond the patience of whoever waits for it.
const GRACE: Duration = Duration::from_secs(1);

/// A running thread, as its owner sees it. Dropping this ends it.
pub(crate) struct ClusterThread {
    /// The time of the end, once it is known.
    stop: watch::Sender<Option<Instant>>,
    ended: mpsc::Receiver<()>,
}

impl ClusterThread {
    /// Starts the thread, which takes these orders.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn start(state: Arc<ClusterState>, orders: orders::Receiver<ClusterOrder>) -> io::Result<ClusterThread> {
        let (stop, stopped) = watch::channel(None);
        let (end, ended) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, run(state, orders, stopped));
            // Names that are still being looked up must not hold up the end.
            runtime.shutdown_background();
            drop(end);
        })?;
        Ok(ClusterThread { stop, ended })
    }

    /// Has the thread end after this time, during which it goes on.
    pub(crate) fn stop_after(&self, time: Duration) {
        self.stop.send_replace(Some(Instant::now() + time));
    }

    /// Ends the thread, and waits for that.
    pub(crate) fn stop(self, patience: Duration) {
        self.stop_after(Duration::ZERO);
        // A thread that is later than that ends with the process.
        let _ = self.ended.recv_timeout(patience + GRACE);
    }
}

/// The connections of a session that a new plan has ended.
struct KeptLink {
    /// The settings that they were made by.
    settings: EngineSettings,
    link: EngineLink,
    /// The orders that are still being carried out.
    tasks: OrderTasks,
}

/// Waits until the owner wants the thread to end.
async fn wait_for_stop(stop: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let end = *stop.borrow_and_update();
        let reached = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = reached => return,
            changed = stop.changed() => match (changed, end) {
                (Ok(()), _) => {}
                // The owner is gone.
                (Err(_), Some(end)) => return sleep_until(end).await,
                (Err(_), None) => return,
            },
        }
    }
}

async fn run(
    state: Arc<ClusterState>,
    mut orders: orders::Receiver<ClusterOrder>,
    mut stop: watch::Receiver<Option<Instant>>,
) {
    let node = Rc::new(Node::new(state.clone()));
    let mut pause = PAUSES.0;
    let mut kept: Option<KeptLink> = None;
    loop {
        let Some(plan) = state.plan.load_full() else { return };
        node.follow(&plan);
        let mut begun = Instant::now();
        // An engine that was not there a moment ago is no reason to wait.
        let patience = if node.is_away() { Duration::ZERO } else { JOINING };
        let connected = match kept.take() {
            Some(kept) if kept.settings == plan.engine => Ok((kept.link, kept.tasks)),
            left => tokio::select! {
                biased;
                () = wait_for_stop(&mut stop) => break,
                () = state.bell.notified() => continue,
                connected = async {
                    if let Some(left) = left {
                        node.leave(&left.settings, left.link).await;
                    }
                    Ok((connect(&plan.engine).await?, OrderTasks::new()))
                } => connected,
                () = answer_later(&node, &mut orders, patience) => break,
            },
        };
        let ended = match connected {
            Err(error) => SessionEnd::Away(error),
            Ok((link, tasks)) => {
                begun = Instant::now();
                let mut session = EngineSession::new(node.clone(), plan.clone(), link.clone(), tasks);
                let ended = tokio::select! {
                    biased;
                    () = wait_for_stop(&mut stop) => None,
                    ended = session.run(&mut orders, &state.bell) => Some(ended),
                };
                let Some(ended) = ended else {
                    node.leave(&plan.engine, link).await;
                    break;
                };
                if matches!(ended, SessionEnd::Changed) {
                    kept = Some(KeptLink { settings: plan.engine.clone(), link, tasks: session.into_tasks() });
                }
                ended
            }
        };
        let SessionEnd::Away(error) = ended else { continue };
        // A session that ends as soon as it has begun is no success.
        if begun.elapsed() > PAUSES.1 {
            pause = PAUSES.0;
        }
        node.set_state(EngineState::Away, &error.to_string(), Level::Error);
        let again = Instant::now() + pause.mul_f64(node.share_of_pause());
        pause = (pause * 2).min(PAUSES.1);
        tokio::select! {
            biased;
            () = wait_for_stop(&mut stop) => break,
            () = state.bell.notified() => {}
            () = sleep_until(again) => {}
            () = node.answer_alone(&mut orders) => break,
        }
    }
    node.leave_limits();
    node.save();
    // Whoever still waits for an answer gets one.
    orders.close();
    let _ = timeout(GRACE, node.answer_alone(&mut orders)).await;
}
