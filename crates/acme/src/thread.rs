//! All certificates, on the client's own thread.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use crate::host::{Host, Level};
use crate::order::Issuer;
use crate::settings::{CertificateSettings, IssuerSettings};
use crate::status_board::Board;
use crate::turns::Turns;
use crate::upkeep::Upkeep;

/// Orders for the thread: the last configuration.
#[derive(Default)]
pub(crate) struct ThreadOrders {
    pub(crate) issuers: Vec<IssuerSettings>,
    pub(crate) certificates: Vec<CertificateSettings>,
}

/// The thread, and what it is told. It ends when this is dropped.
pub(crate) struct ClientThread {
    /// `None` when it was told to end.
    wanted: Option<watch::Sender<Arc<ThreadOrders>>>,
    thread: JoinHandle<()>,
}

impl ClientThread {
    /// Starts the thread.
    pub(crate) fn start(host: Arc<dyn Host>, board: Arc<Board>) -> io::Result<ClientThread> {
        let (wanted, changes) = watch::channel(Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = Builder::new().name("acme".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, keep_all(host, board, changes));
        })?;
        Ok(ClientThread { wanted: Some(wanted), thread })
    }

    /// Tells the thread what it has to do from now on. A thread that was told to end does not take it.
    pub(crate) fn update(&self, wanted: ThreadOrders) {
        if let Some(sender) = &self.wanted {
            sender.send_replace(Arc::new(wanted));
        }
    }

    /// Tells the thread to end, and does not wait for it.
    pub(crate) fn end(&mut self) {
        self.wanted = None;
    }

    /// Whether the thread was told to end.
    pub(crate) fn has_to_end(&self) -> bool {
        self.wanted.is_none()
    }

    /// Ends the thread, and waits for it, unless the thread itself calls this.
    pub(crate) fn stop(self) {
        let ClientThread { wanted, thread } = self;
        drop(wanted);
        if thread.thread().id() != std::thread::current().id() {
            // A panic was reported where it was.
            let _ = thread.join();
        }
    }
}

/// A certificate that is kept.
struct CertificateTask {
    issuer: Rc<Issuer>,
    nudge: Rc<Notify>,
    /// Whether the host has a certificate of this issuer.
    has_come: Rc<Cell<bool>>,
    task: AbortHandle,
}

async fn keep_all(host: Arc<dyn Host>, board: Arc<Board>, mut changes: watch::Receiver<Arc<ThreadOrders>>) {
    let turns = Turns::default();
    let mut issuers: HashMap<String, Rc<Issuer>> = HashMap::new();
    let mut kept: HashMap<CertificateSettings, CertificateTask> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    // Nobody has a handle any more. The tasks end with the set, and take their answers back.
                    return;
                }
            }
            Some(ended) = tasks.join_next_with_id() => {
                if let Err(error) = ended {
                    if error.is_panic() {
                        host.log(Level::Error, "acme: a certificate is not kept any more until the next reload: panic");
                    }
                    kept.retain(|_, kept| kept.task.id() != error.id());
                }
                continue;
            }
        }
        let wanted = changes.borrow_and_update().clone();
        issuers = wanted
            .issuers
            .iter()
            .map(|settings| {
                let same = issuers.remove(&settings.name).filter(|issuer| **issuer.settings() == *settings);
                (settings.name.clone(), same.unwrap_or_else(|| Rc::new(Issuer::new(host.clone(), settings.clone()))))
            })
            .collect();
        let mut old = std::mem::take(&mut kept);
        for certificate in &wanted.certificates {
            let Some(issuer) = issuers.get(&certificate.issuer) else {
                let line = format!("acme issuer \"{}\" is not found", certificate.issuer);
                host.log(Level::Error, &line);
                continue;
            };
            if kept.contains_key(certificate) {
                continue;
            }
            let mut has_come = false;
            if let Some(same) = old.remove(certificate) {
                if Rc::ptr_eq(&same.issuer, issuer) {
                    same.nudge.notify_one();
                    kept.insert(certificate.clone(), same);
                    continue;
                }
                same.task.abort();
                // One of another CA, which a name may stand for by now, is not what is wanted.
                has_come = same.has_come.get() && same.issuer.settings().uri == issuer.settings().uri;
            }
            let has_come = Rc::new(Cell::new(has_come));
            let nudge = Rc::new(Notify::new());
            let upkeep = Upkeep {
                host: host.clone(),
                board: board.clone(),
                turns: turns.clone(),
                issuer: issuer.clone(),
                certificate: certificate.clone(),
                nudge: nudge.clone(),
                has_come: has_come.clone(),
            };
            let task = tasks.spawn_local(upkeep.run());
            kept.insert(certificate.clone(), CertificateTask { issuer: issuer.clone(), nudge, has_come, task });
        }
        for gone in old.values() {
            gone.task.abort();
        }
    }
}
