//! State of all certificates: written by the client's thread, read by whoever asks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::settings::CertificateSettings;

/// State of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// Which certificate it is.
    pub certificate: CertificateSettings,
    /// The work on it.
    pub state: CertificateState,
    /// The end of the certificate that is in use; `None` while there is none.
    pub not_after: Option<SystemTime>,
    /// The moment of its next order; `None` while it is being ordered.
    pub next_attempt: Option<SystemTime>,
    /// The reason for which the last attempt failed; `None` after a success.
    pub last_error: Option<String>,
    /// The time in which the CA would like it to be renewed: from, to (RFC 9773).
    pub renewal_window: Option<(SystemTime, SystemTime)>,
}

/// Work on a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// There is none, and none was tried for yet.
    Waiting,
    /// An order is in progress.
    Ordering,
    /// There is one, and it does not have to be renewed yet.
    Valid,
    /// There was one, which has ended, and the next attempt is not due yet.
    Expired,
    /// The last attempt failed. There may be a certificate all the same: see [`CertificateStatus::not_after`].
    Failed,
}

impl CertificateStatus {
    /// The work on it at a moment: what was valid when its state was noted may have ended since.
    pub fn state_at(&self, now: SystemTime) -> CertificateState {
        match self.state {
            CertificateState::Valid if self.not_after.is_some_and(|end| end <= now) => CertificateState::Expired,
            state => state,
        }
    }

    /// The state of a certificate about which nothing is known.
    pub(crate) fn new(certificate: CertificateSettings) -> CertificateStatus {
        CertificateStatus {
            certificate,
            state: CertificateState::Waiting,
            not_after: None,
            next_attempt: None,
            last_error: None,
            renewal_window: None,
        }
    }
}

/// The states of all certificates. The lock is held to copy or to store, and for nothing else.
#[derive(Default)]
pub(crate) struct Board(Mutex<StatusTable>);

#[derive(Default)]
struct StatusTable {
    order: Vec<CertificateSettings>,
    states: HashMap<CertificateSettings, CertificateStatus>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, StatusTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the certificates there are from now on. What is known of those that were there stays.
    pub(crate) fn keep(&self, certificates: &[CertificateSettings]) {
        let mut shown = self.lock();
        shown.order = certificates.to_vec();
        let mut old = std::mem::take(&mut shown.states);
        for certificate in certificates {
            let status = old.remove(certificate).unwrap_or_else(|| CertificateStatus::new(certificate.clone()));
            shown.states.insert(certificate.clone(), status);
        }
    }

    /// Takes how a certificate is doing, unless it is not wanted any more.
    pub(crate) fn set(&self, status: CertificateStatus) {
        if let Some(place) = self.lock().states.get_mut(&status.certificate) {
            *place = status;
        }
    }

    /// The states of all certificates.
    pub(crate) fn all(&self) -> Vec<CertificateStatus> {
        let shown = self.lock();
        shown.order.iter().filter_map(|certificate| shown.states.get(certificate).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::KeyKind;
    use std::time::Duration;

    #[test]
    fn what_was_valid_expires() {
        let settings = CertificateSettings { issuer: "ca".into(), identifiers: Vec::new(), key: KeyKind::default() };
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let mut status = CertificateStatus { not_after: Some(end), ..CertificateStatus::new(settings) };
        for (state, before, after) in [
            (CertificateState::Valid, CertificateState::Valid, CertificateState::Expired),
            (CertificateState::Ordering, CertificateState::Ordering, CertificateState::Ordering),
            (CertificateState::Failed, CertificateState::Failed, CertificateState::Failed),
        ] {
            status.state = state;
            assert_eq!(status.state_at(end - Duration::from_secs(1)), before);
            assert_eq!(status.state_at(end), after);
        }
    }
}
