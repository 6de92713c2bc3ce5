//! The counters of TLS, and the certificates, in both forms.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::tls::handshake::figures::{CIPHERS, FAILURES, KEYS, RESUMED, TlsFigures};
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::sessions::ServedTls;
use freerun_tls::session::{SessionCache, TicketCounts};

use super::samples::{Label, MetricRow, Text};
use crate::content::described::described;
use crate::content::described::histogram::Histogram;

described! {
    /// The counters of TLS.
    pub struct Tls {
        pub clients: Side,
        pub upstreams: Side,
        /// Session tickets of all servers.
        #[metric(inside)]
        pub tickets: Tickets,
        pub session_caches: Vec<Store>,
        pub certificates: Vec<LoadedCertificate>,
    }

    /// The counters of one side.
    pub struct Side {
        /// Completed handshakes.
        pub handshakes: u64,
        /// Full handshakes of clients, by the kind of the server's key.
        #[metric(counter "freerun_tls_full_total" by "key")]
        pub keys: BTreeMap<&'static str, u64>,
        /// Of these, handshakes that resumed a session.
        #[metric(counter "freerun_tls_resumed_total", "Completed handshakes that resumed a session.")]
        pub resumed: u64,
        /// Handshakes of clients that resumed a session, by where it came from.
        #[metric(counter "freerun_tls_resumed_by_total" by "by")]
        pub resumed_by: BTreeMap<&'static str, u64>,
        /// Completed handshakes, by version.
        #[metric(counter "freerun_tls_handshakes_total" by "version")]
        pub versions: BTreeMap<&'static str, u64>,
        /// Completed handshakes, by cipher suite.
        #[metric(counter "freerun_tls_ciphers_total" by "cipher")]
        pub ciphers: BTreeMap<&'static str, u64>,
        /// Handshakes that failed, by reason.
        #[metric(counter "freerun_tls_failed_total" by "reason")]
        pub failed: BTreeMap<&'static str, u64>,
        /// Certificates of peers that were not trusted.
        #[metric(counter "freerun_tls_untrusted_total")]
        pub untrusted: u64,
        /// Steps of handshakes that the pool (tls) did.
        #[metric(counter "freerun_tls_pooled_steps_total")]
        pub pooled: u64,
        /// Steps of handshakes that loops did.
        #[metric(histogram "freerun_tls_step_seconds")]
        pub steps: Histogram,
    }

    /// The counters of tickets.
    #[derive(Default)]
    pub struct Tickets {
        /// Tickets given to clients.
        #[metric(counter "freerun_tls_tickets_total" by "fate" is "issued",
            "Session tickets that clients were given (issued) and have shown (the others).")]
        pub issued: u64,
        /// Tickets that clients have shown, and that were good.
        #[metric(counter "freerun_tls_tickets_total" by "fate" is "accepted")]
        pub accepted: u64,
        /// Tickets whose key is not there.
        #[metric(counter "freerun_tls_tickets_total" by "fate" is "unknown_key")]
        pub unknown_key: u64,
        /// Tickets shown too late.
        #[metric(counter "freerun_tls_tickets_total" by "fate" is "expired")]
        pub expired: u64,
        /// Tickets that were changed, or of another server with the same keys.
        #[metric(counter "freerun_tls_tickets_total" by "fate" is "damaged")]
        pub damaged: u64,
    }

    /// A store of sessions (`ssl_session_cache`).
    pub struct Store {
        pub name: String,
        /// Sessions in the cache.
        #[metric(gauge "freerun_tls_session_cache_sessions")]
        pub sessions: usize,
        /// Bytes that the sessions in the cache take.
        #[metric(gauge "freerun_tls_session_cache_bytes")]
        pub bytes: u64,
        /// Bytes that the sessions in the cache may take.
        #[metric(gauge "freerun_tls_session_cache_max_bytes")]
        pub max_bytes: u64,
        /// Sessions that made room for others in the cache.
        #[metric(counter "freerun_tls_session_cache_evicted_total")]
        pub evicted: u64,
    }

    /// A certificate of the current configuration.
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub struct LoadedCertificate {
        pub file: String,
        pub subject: String,
        pub names: Vec<String>,
        pub key: &'static str,
        pub issuer: String,
        /// End of the certificate, in seconds since 1970.
        #[metric(gauge "freerun_tls_certificate_expires_timestamp_seconds",
            "When a certificate of the configuration expires, in seconds since 1970.")]
        pub expires: i64,
    }
}

impl From<TicketCounts> for Tickets {
    fn from(counts: TicketCounts) -> Tickets {
        let TicketCounts { issued, accepted, unknown_key, expired, damaged } = counts;
        Tickets { issued, accepted, unknown_key, expired, damaged }
    }
}

fn counts(
    names: impl IntoIterator<Item = &'static str>,
    counters: &[freerun_runtime::stats::Counter],
) -> BTreeMap<&'static str, u64> {
    names.into_iter().zip(counters).map(|(name, counter)| (name, counter.get())).collect()
}

impl Side {
    /// The counters as they are now.
    pub(super) fn of(figures: &TlsFigures) -> Side {
        Side {
            handshakes: figures.by_version.iter().map(|counter| counter.get()).sum(),
            keys: counts(KEYS, &figures.by_key),
            resumed: figures.resumed.get(),
            resumed_by: counts(RESUMED, &figures.resumed_by),
            versions: counts(["TLSv1.2", "TLSv1.3"], &figures.by_version),
            ciphers: counts(CIPHERS, &figures.by_cipher),
            failed: counts(FAILURES, &figures.failed),
            untrusted: figures.untrusted.iter().map(|counter| counter.get()).sum(),
            pooled: figures.pooled.get(),
            steps: figures.steps.snapshot().into(),
        }
    }
}

/// Adds the store of a server's sessions, unless another server has added it.
fn add_store(stores: &mut Vec<Store>, tls: &ServerTls) {
    let SessionCache::Kept(store) = &tls.sessions().cache else { return };
    if stores.iter().any(|known| known.name == tls.store_name()) {
        return;
    }
    let counts = store.counts();
    stores.push(Store {
        name: tls.store_name().to_owned(),
        sessions: counts.sessions,
        bytes: counts.bytes,
        max_bytes: counts.max_bytes,
        evicted: counts.evicted,
    });
}

/// Collects the counters, and the certificates and the stores of sessions of a generation, each once.
pub fn collect(shared: &SharedState, generation: &Generation) -> Tls {
    let served = generation.parts.get::<ServedTls>().unwrap_or_default();
    let mut certificates = Vec::new();
    let mut stores = Vec::new();
    let mut tickets = Tickets::default();
    for tls in &served.0 {
        add_store(&mut stores, tls);
        // All servers have the same counters.
        tickets = tls.sessions().figures.counts().into();
        certificates.extend(tls.facts().into_iter().map(|facts| LoadedCertificate {
            file: facts.file,
            subject: facts.subject,
            names: facts.names,
            key: facts.key,
            issuer: facts.issuer,
            expires: facts.expires,
        }));
    }
    certificates.sort();
    certificates.dedup();
    let (clients, upstreams) = (Side::of(&shared.client_tls), Side::of(&shared.upstream_tls));
    Tls { clients, upstreams, tickets, session_caches: stores, certificates }
}

/// The metrics that only the side of clients has.
const OF_CLIENTS: [&str; 2] = ["freerun_tls_full_total", "freerun_tls_resumed_by_total"];

/// Writes the counters for Prometheus.
pub(super) fn text(tls: &Tls, out: &mut Text) {
    let sides =
        [MetricRow::new("side", &"clients", &tls.clients), MetricRow::new("side", &"upstreams", &tls.upstreams)];
    out.chosen(&sides, &[], |metric| !OF_CLIENTS.contains(&metric.name));
    let clients = [MetricRow { labels: Vec::new(), object: &tls.clients }];
    out.chosen(&clients, &[], |metric| OF_CLIENTS.contains(&metric.name));
    out.objects(&[MetricRow { labels: Vec::new(), object: tls }]);
    let stores = tls.session_caches.iter().map(|store| MetricRow::new("cache", &store.name, store));
    out.objects(&stores.collect::<Vec<_>>());
    certificates(&tls.certificates, out);
}

/// Writes the certificates. Those that are equal in all labels are numbered.
fn certificates(certificates: &[LoadedCertificate], out: &mut Text) {
    let names: Vec<String> = certificates.iter().map(|one| one.names.join(" ")).collect();
    let mut seen: HashMap<[&str; 5], usize> = HashMap::new();
    let all: Vec<([(&str, &str); 5], usize)> = certificates
        .iter()
        .zip(&names)
        .map(|(one, names)| {
            let labels: [(&str, &str); 5] = [
                ("file", &one.file),
                ("subject", &one.subject),
                ("names", names),
                ("key", one.key),
                ("issuer", &one.issuer),
            ];
            let nth = seen.entry(labels.map(|(_, value)| value)).or_default();
            *nth += 1;
            (labels, *nth)
        })
        .collect();
    let rows = certificates.iter().zip(&all).map(|(object, (labels, nth))| {
        let mut labels: Vec<Label<'_>> = labels.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
        if *nth > 1 {
            labels.push(("nth", nth));
        }
        MetricRow { labels, object }
    });
    out.objects(&rows.collect::<Vec<_>>());
}
