//! Answers of OCSP responders about certificates (`ssl_ocsp_cache`).

use freerun_sys::x509::{OcspAnswer, OcspStatus};
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use rustc_hash::FxBuildHasher;
use std::sync::Arc;

use crate::digest::sha256;

/// The bytes that a status takes, with its key and its part of the tables.
const SIZE: usize = 128;

/// The most statuses of a cache, however large it is.
const MOST: usize = 1 << 22;

/// The most statuses with room from the beginning.
const EXPECTED: usize = 1 << 16;

/// The validity of an answer that does not give its own, in seconds; nginx has the same.
const WITHOUT_NEXT: i64 = 3600;

/// The hash of a certificate and of its issuer's.
type StatusKey = [u8; 32];

/// A cache of what OCSP responders have said about certificates, bounded in bytes. All loops and any number of servers use
/// it; it is cheap to clone, and all clones are the same.
#[derive(Clone)]
pub struct Statuses(Arc<Cache<StatusKey, (OcspStatus, i64), UnitWeighter, FxBuildHasher>>);

impl Statuses {
    /// A cache of this number of bytes. A full one forgets statuses that were not asked for.
    pub fn new(bytes: usize) -> Self {
        let most = (bytes / SIZE).clamp(1, MOST);
        Self(Arc::new(Cache::with(
            most.min(EXPECTED),
            most as u64,
            UnitWeighter,
            FxBuildHasher,
            DefaultLifecycle::default(),
        )))
    }

    /// The status of a certificate that has this issuer, both in DER, if it still holds. `now` is in seconds since
    /// 1970.
    pub fn get(&self, certificate: &[u8], issuer: &[u8], now: i64) -> Option<OcspStatus> {
        let (status, until) = self.0.get(&key(certificate, issuer))?;
        (now < until).then_some(status)
    }

    /// Keeps what is said about a certificate, until something else may be said.
    pub fn put(&self, certificate: &[u8], issuer: &[u8], answer: &OcspAnswer, now: i64) {
        let until = answer.next_update.unwrap_or(now.saturating_add(WITHOUT_NEXT));
        if now < until {
            self.0.insert(key(certificate, issuer), (answer.status, until));
        }
    }
}

fn key(certificate: &[u8], issuer: &[u8]) -> StatusKey {
    sha256(&[sha256(certificate), sha256(issuer)].concat())
}

impl std::fmt::Debug for Statuses {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Statuses").field("number", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_known_while_it_holds() {
        let statuses = Statuses::new(32 << 10);
        let answer = |status, next_update| OcspAnswer { status, this_update: 0, next_update };
        statuses.put(b"one", b"issuer", &answer(OcspStatus::Revoked, Some(20)), 10);
        statuses.put(b"two", b"issuer", &answer(OcspStatus::Good, None), 10);
        statuses.put(b"late", b"issuer", &answer(OcspStatus::Good, Some(5)), 10);
        let get = |certificate: &str, now| statuses.get(certificate.as_bytes(), b"issuer", now);
        assert_eq!((get("one", 19), get("one", 20)), (Some(OcspStatus::Revoked), None));
        assert_eq!((get("two", 3609), get("two", 3610)), (Some(OcspStatus::Good), None));
        assert_eq!((get("late", 4), get("none", 10)), (None, None));
        assert_eq!(statuses.get(b"one", b"other issuer", 11), None);
        statuses.put(b"one", b"issuer", &answer(OcspStatus::Good, Some(20)), 10);
        assert_eq!(get("one", 11), Some(OcspStatus::Good), "the last word counts");
    }

    #[test]
    fn a_full_cache_takes_no_more_room() {
        let statuses = Statuses::new(100 * SIZE);
        let answer = OcspAnswer { status: OcspStatus::Good, this_update: 0, next_update: None };
        for number in 0..10_000_u32 {
            statuses.put(&number.to_be_bytes(), b"", &answer, 0);
        }
        assert!(statuses.0.len() <= 100, "{statuses:?}");
        assert!((0..10_000_u32).any(|number| statuses.get(&number.to_be_bytes(), b"", 1).is_some()));
    }
}
