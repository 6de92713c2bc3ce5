//! The thread: one session with the engine after the other, and what it answers in between.
//!
//! | module | holds |
//! |---|---|
//! | `node` | what this node knows over sessions, and its reports |
//! | `pairs` | a shared zone of pairs: joining, changes of others, changes of this node |
//! | `purges` | a cache whose purges are shared |
//! | `session` | a session: from a connection to its end |

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
use session::{EngineSession, SessionEnd};

/// The shortest and the longest pause before the engine is tried again. The real one is between half of it and all, so that many
/// nodes do not come back in one instant.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3));

/// The time that the end of a thread may take beyond the patience of whoever waits for it.
const GRACE: Duration = Duration::from_secs(1);

/// A running thread, as its owner sees it. Dropping this ends it.
pub(crate) struct ClusterThread {
    stop: watch::Sender<()>,
    ended: mpsc::Receiver<()>,
}

impl ClusterThread {
    /// Starts the thread, which takes these orders.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn start(state: Arc<ClusterState>, orders: orders::Receiver<ClusterOrder>) -> io::Result<ClusterThread> {
        let (stop, stopped) = watch::channel(());
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

    /// Ends the thread, and waits for that.
    pub(crate) fn stop(self, patience: Duration) {
        drop(self.stop);
        // A thread that is later than that ends with the process.
        let _ = self.ended.recv_timeout(patience + GRACE);
    }
}

/// Waits until the owner wants the thread to end.
async fn wait_for_stop(stop: &mut watch::Receiver<()>) {
    // The sender is dropped, and never sends.
    let _ = stop.changed().await;
}

async fn run(state: Arc<ClusterState>, mut orders: orders::Receiver<ClusterOrder>, mut stop: watch::Receiver<()>) {
    let node = Rc::new(Node::new(state.clone()));
    let mut pause = PAUSES.0;
    // The connections of a session that a new plan has ended, with the settings that they were made by.
    let mut kept: Option<(EngineSettings, EngineLink)> = None;
    loop {
        let Some(plan) = state.plan.load_full() else { return };
        node.follow(&plan);
        let connected = match kept.take() {
            Some((settings, link)) if settings == plan.engine => Ok(link),
            left => tokio::select! {
                biased;
                () = wait_for_stop(&mut stop) => break,
                () = state.bell.notified() => continue,
                connected = async {
                    if let Some((settings, link)) = left {
                        node.leave(&settings, link).await;
                    }
                    connect(&plan.engine).await
                } => connected,
                () = node.answer_alone(&mut orders) => break,
            },
        };
        let ended = match connected {
            Err(error) => SessionEnd::Away(error),
            Ok(link) => {
                let mut session = EngineSession::new(node.clone(), plan.clone(), link.clone());
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
                    kept = Some((plan.engine.clone(), link));
                }
                ended
            }
        };
        let SessionEnd::Away(error) = ended else { continue };
        if node.is_connected() {
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
    node.save();
    // Whoever still waits for an answer gets one.
    orders.close();
    let _ = timeout(GRACE, node.answer_alone(&mut orders)).await;
}
