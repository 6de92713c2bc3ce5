//! The duration of signing with a key, measured on this machine: it differs eightfold between processors.

use super::KeyKind;
use rustls::SignatureScheme;
use rustls::sign::SigningKey;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All schemes that a key may sign by, in the order of preference of TLS 1.3.
const SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// The number of measurements for a key of each kind. The shortest time counts: the others have been interrupted.
const TRIES: usize = 3;

/// The times of the kinds that were met already. There are few of them, since the number of bits is a part of the kind.
static KNOWN: Mutex<Vec<(KeyKind, Duration)>> = Mutex::new(Vec::new());

/// The most kinds that are remembered; keys of further kinds are measured each time.
const MAX_KNOWN: usize = 64;

/// The time that one signature takes. The first key of each kind is measured.
pub(super) fn of_signature(key: &dyn SigningKey, kind: KeyKind) -> Duration {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, time)) = known.iter().find(|(of, _)| *of == kind) {
        return *time;
    }
    let Some(signer) = key.choose_scheme(&SCHEMES) else { return Duration::ZERO };
    // The message that is signed in TLS 1.3 has about this length.
    let message = [0x20; 146];
    let try_once = || {
        let begin = Instant::now();
        let _ = std::hint::black_box(signer.sign(&message));
        begin.elapsed()
    };
    let time = (0..TRIES).map(|_| try_once()).min().unwrap_or_default();
    if known.len() < MAX_KNOWN {
        known.push((kind, time));
    }
    time
}
