//! The client as the server sees it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::host::{Host, Pair};
use crate::settings::{CertificateSettings, IssuerSettings};
use crate::status_board::{Board, CertificateStatus};
use crate::thread::{ClientThread, ThreadOrders};
use crate::upkeep;

/// The ACME client of a server: a handle, shared by all its clones. Its thread starts with the first
/// [`update`](Acme::update) that names a certificate. It ends with [`end`](Acme::end), [`stop`](Acme::stop) or the last
/// handle.
#[derive(Clone)]
pub struct Acme(Arc<ClientState>);

struct ClientState {
    host: Arc<dyn Host>,
    board: Arc<Board>,
    /// Taken by the control thread, to tell the client's thread something.
    running: Mutex<Option<ClientThread>>,
}

impl Acme {
    /// A client without certificates. It has no thread yet.
    #[must_use]
    pub fn new(host: Arc<dyn Host>) -> Acme {
        Acme(Arc::new(ClientState { host, board: Arc::default(), running: Mutex::default() }))
    }

    /// Reads the certificate that an earlier run left on disk, if there is one which fits its key; it may have ended. What
    /// is wrong with a file is said in the log. Waits for the disk, so no event loop calls it.
    #[must_use]
    pub fn load(&self, issuer: &IssuerSettings, certificate: &CertificateSettings) -> Option<Pair> {
        upkeep::load(&*self.0.host, issuer, certificate)
    }

    /// Takes a configuration: the CAs and the certificates that are wanted from now on. What is equal to one before is
    /// kept with all it has, an order in progress too; what is gone is dropped. Certificates whose issuer is not in the
    /// list are left out, with a line in the log.
    ///
    /// # Errors
    ///
    /// Where the thread cannot be started.
    pub fn update(&self, issuers: Vec<IssuerSettings>, certificates: Vec<CertificateSettings>) -> io::Result<()> {
        let mut running = self.running();
        if running.is_none() && certificates.is_empty() {
            return Ok(());
        }
        self.0.board.keep(&certificates);
        let thread = match running.take() {
            Some(thread) if !thread.has_to_end() => thread,
            _ => ClientThread::start(self.0.host.clone(), self.0.board.clone())?,
        };
        thread.update(ThreadOrders { issuers, certificates });
        *running = Some(thread);
        Ok(())
    }

    /// The state of all certificates, in the order of the last [`update`](Acme::update). Takes a lock that is only held
    /// to copy and to store; event loops have no reason to ask.
    #[must_use]
    pub fn status(&self) -> Vec<CertificateStatus> {
        self.0.board.all()
    }

    /// Has the thread end, and does not wait for that: it takes back the answers to challenges, and leaves orders to others.
    /// A later [`update`](Acme::update) starts another one.
    pub fn end(&self) {
        if let Some(running) = &mut *self.running() {
            running.end();
        }
    }

    /// Ends the thread, and waits for its end: it takes back the answers to challenges, and leaves orders to a next start.
    /// A later [`update`](Acme::update) starts it again.
    pub fn stop(&self) {
        let running = self.running().take();
        if let Some(running) = running {
            running.stop();
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<ClientThread>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Acme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acme").field("certificates", &self.0.board.all().len()).finish_non_exhaustive()
    }
}
