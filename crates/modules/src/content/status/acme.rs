//! The certificates from CAs, in both forms.

use std::time::{SystemTime, UNIX_EPOCH};

use freerun_acme::{CertificateState, CertificateStatus, Identifier};
use freerun_serve::configuration::generation::Generation;
use serde::Serialize;

use super::samples::Text;
use crate::acme::client::Client;

/// The words for the states, in the order of the metric.
const STATES: [&str; 5] = ["waiting", "ordering", "valid", "expired", "failed"];

/// State of a certificate by ACME. Times are in seconds since 1970.
#[derive(Debug, Serialize)]
pub struct AcmeCertificate {
    pub issuer: String,
    pub names: Vec<String>,
    pub key: &'static str,
    pub state: &'static str,
    pub not_after: Option<u64>,
    pub next_attempt: Option<u64>,
    pub last_error: Option<String>,
    pub renewal_window: Option<[u64; 2]>,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl From<CertificateStatus> for AcmeCertificate {
    fn from(status: CertificateStatus) -> AcmeCertificate {
        let state = status.state_at(SystemTime::now());
        let of = status.certificate;
        AcmeCertificate {
            issuer: of.issuer,
            names: of.identifiers.iter().map(Identifier::to_string).collect(),
            key: of.key.name(),
            state: match state {
                CertificateState::Waiting => "waiting",
                CertificateState::Ordering => "ordering",
                CertificateState::Valid => "valid",
                CertificateState::Expired => "expired",
                CertificateState::Failed => "failed",
            },
            not_after: status.not_after.map(seconds),
            next_attempt: status.next_attempt.map(seconds),
            last_error: status.last_error,
            renewal_window: status.renewal_window.map(|(from, to)| [seconds(from), seconds(to)]),
        }
    }
}

/// Collects the certificates of a generation.
pub fn collect(generation: &Generation) -> Vec<AcmeCertificate> {
    Client::status(generation).into_iter().map(AcmeCertificate::from).collect()
}

/// Writes them for Prometheus.
pub(super) fn text(certificates: &[AcmeCertificate], out: &mut Text) {
    let names: Vec<String> = certificates.iter().map(|one| one.names.join(" ")).collect();
    let all = || certificates.iter().zip(&names);
    let name = "freerun_acme_certificate_state";
    out.head(name, "gauge", "1 for the state that a certificate by ACME is in, 0 for others.");
    for (one, names) in all() {
        for state in STATES {
            let labels: [(&str, &dyn std::fmt::Display); 4] =
                [("issuer", &one.issuer), ("names", names), ("key", &one.key), ("state", &state)];
            out.sample(name, &labels, u8::from(state == one.state));
        }
    }
    let mut of = |name, help, value: fn(&AcmeCertificate) -> Option<u64>| {
        out.head(name, "gauge", help);
        for (one, names) in all() {
            if let Some(value) = value(one) {
                out.sample(name, &[("issuer", &one.issuer), ("names", names), ("key", &one.key)], value);
            }
        }
    };
    of("freerun_acme_certificate_expires_seconds", "When it ends, in seconds since 1970.", |one| one.not_after);
    of("freerun_acme_certificate_next_attempt_seconds", "When it is ordered next, in seconds since 1970.", |one| {
        one.next_attempt
    });
    of("freerun_acme_certificate_window_begin_seconds", "From when on the CA would like it to be renewed.", |one| {
        Some(one.renewal_window?[0])
    });
    of("freerun_acme_certificate_window_end_seconds", "Until when the CA would like it to be renewed.", |one| {
        Some(one.renewal_window?[1])
    });
}
