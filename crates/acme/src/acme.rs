//! The client as the server sees it, and its thread.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use crate::host::{Host, Pair};
use crate::settings::{CertificateSettings, IssuerSettings};

/// The ACME client of a server: a handle, which all who have one share. Its thread starts with the first
/// [`update`](Acme::update) that names a certificate, and ends with [`stop`](Acme::stop) or the last handle.
#[derive(Clone)]
pub struct Acme {
    host: Arc<dyn Host>,
}

/// How a certificate is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// Which certificate it is.
    pub certificate: CertificateSettings,
    /// What is being done about it.
    pub state: CertificateState,
    /// When the certificate that is in use ends; `None` while there is none.
    pub not_after: Option<SystemTime>,
    /// When it is ordered next; `None` while it is being ordered.
    pub next_attempt: Option<SystemTime>,
    /// Why the last attempt failed; `None` after one that succeeded.
    pub last_error: Option<String>,
    /// When the CA would like it to be renewed: from, to (RFC 9773).
    pub renewal_window: Option<(SystemTime, SystemTime)>,
}

/// What is being done about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// There is none, and none was tried for yet.
    Waiting,
    /// An order is in progress.
    Ordering,
    /// There is one, and it does not have to be renewed yet.
    Valid,
    /// The last attempt failed. There may be a certificate all the same: see [`CertificateStatus::not_after`].
    Failed,
}

impl Acme {
    /// A client without certificates. It has no thread yet.
    #[must_use]
    pub fn new(host: Arc<dyn Host>) -> Acme {
        Acme { host }
    }

    /// Reads the certificate that an earlier run left on disk, if there is one which fits its key; it may have ended. What
    /// is wrong with a file is said in the log. Waits for the disk, so no event loop calls it.
    #[must_use]
    pub fn load(&self, issuer: &IssuerSettings, certificate: &CertificateSettings) -> Option<Pair> {
        let _ = (&self.host, issuer, certificate);
        None
    }

    /// Takes a configuration: the CAs and the certificates that are wanted from now on. What is equal to one before is
    /// kept with all it has, an order in progress too; what is gone is dropped. Certificates whose issuer is not in the
    /// list are left out, with a line in the log.
    ///
    /// # Errors
    ///
    /// Where the thread cannot be started.
    pub fn update(&self, issuers: Vec<IssuerSettings>, certificates: Vec<CertificateSettings>) -> io::Result<()> {
        let _ = (issuers, certificates);
        Ok(())
    }

    /// How all certificates are doing, in the order of the last [`update`](Acme::update).
    #[must_use]
    pub fn status(&self) -> Vec<CertificateStatus> {
        Vec::new()
    }

    /// Ends the thread, and waits for its end: it takes back the answers to challenges, and leaves orders to a next start.
    pub fn stop(&self) {}
}

impl fmt::Debug for Acme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acme").finish_non_exhaustive()
    }
}
