//! The certificates from CAs, in both forms.

use std::time::{SystemTime, UNIX_EPOCH};

use freerun_acme::{CertificateState, CertificateStatus, Identifier};
use freerun_serve::configuration::generation::Generation;

use super::samples::{MetricRow, Text};
use crate::acme::client::Client;
use crate::content::described::described;
use crate::content::described::metric::Figure;

/// The words for the states, in the order of the metric.
const STATES: [&str; 5] = ["waiting", "ordering", "valid", "expired", "failed"];

described! {
    /// State of a certificate by ACME. Times are in seconds since 1970.
    pub struct AcmeCertificate {
        pub issuer: String,
        pub names: Vec<String>,
        pub key: &'static str,
        #[metric(gauge "freerun_acme_certificate_state" state of STATES,
            "1 for the state that a certificate by ACME is in, 0 for others.")]
        pub state: &'static str,
        #[metric(gauge "freerun_acme_certificate_expires_timestamp_seconds", "When it ends, in seconds since 1970.")]
        pub not_after: Option<u64>,
        #[metric(gauge "freerun_acme_certificate_next_attempt_timestamp_seconds",
            "When it is ordered next, in seconds since 1970.")]
        pub next_attempt: Option<u64>,
        pub last_error: Option<String>,
        #[metric(gauge "freerun_acme_certificate_window_begin_timestamp_seconds" from AcmeCertificate::window_begin,
            "From when on the CA would like it to be renewed.")]
        #[metric(gauge "freerun_acme_certificate_window_end_timestamp_seconds" from AcmeCertificate::window_end,
            "Until when the CA would like it to be renewed.")]
        pub renewal_window: Option<[u64; 2]>,
    }
}

impl AcmeCertificate {
    fn window_begin(&self) -> Figure<'_> {
        self.renewal_window.map_or(Figure::Missing, |[begin, _]| Figure::Number(begin))
    }

    fn window_end(&self) -> Figure<'_> {
        self.renewal_window.map_or(Figure::Missing, |[_, end]| Figure::Number(end))
    }
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
    let rows = certificates.iter().zip(&names).map(|(object, names)| MetricRow {
        labels: vec![("issuer", &object.issuer), ("names", names), ("key", &object.key)],
        object,
    });
    out.objects(&rows.collect::<Vec<_>>());
}
