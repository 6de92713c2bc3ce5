//! The counters of TLS, and the certificates, in both forms.

use std::collections::HashMap;
use std::fmt::Display;

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::tls::figures::{CIPHERS, FAILURES, KEYS, RESUMED, TlsFigures};
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::sessions::ServedTls;
use freerun_tls::session::{SessionCache, TicketCounts};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::histogram::Histogram;
use super::samples::{Label, Text};

/// The counters of TLS.
#[derive(Debug, Serialize)]
pub struct Tls {
    pub clients: Side,
    pub upstreams: Side,
    pub tickets: Tickets,
    pub session_caches: Vec<Store>,
    pub certificates: Vec<LoadedCertificate>,
}

/// The counters of one side.
#[derive(Debug, Serialize)]
pub struct Side {
    pub handshakes: u64,
    pub keys: Map<String, Value>,
    pub resumed: u64,
    pub resumed_by: Map<String, Value>,
    pub versions: Map<String, Value>,
    pub ciphers: Map<String, Value>,
    pub failed: Map<String, Value>,
    pub untrusted: u64,
    pub pooled: u64,
    pub steps: Histogram,
}

/// The counters of tickets.
#[derive(Debug, Default, Serialize)]
pub struct Tickets {
    pub issued: u64,
    pub accepted: u64,
    pub unknown_key: u64,
    pub expired: u64,
    pub damaged: u64,
}

impl From<TicketCounts> for Tickets {
    fn from(counts: TicketCounts) -> Tickets {
        let TicketCounts { issued, accepted, unknown_key, expired, damaged } = counts;
        Tickets { issued, accepted, unknown_key, expired, damaged }
    }
}

/// A store of sessions (`ssl_session_cache`).
#[derive(Debug, Serialize)]
pub struct Store {
    pub name: String,
    pub sessions: usize,
    pub bytes: u64,
    pub max_bytes: u64,
    pub evicted: u64,
}

/// A certificate of the current configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LoadedCertificate {
    pub file: String,
    pub subject: String,
    pub names: Vec<String>,
    pub key: &'static str,
    pub issuer: String,
    pub expires: i64,
}

fn counts<'n>(
    names: impl IntoIterator<Item = &'n str>,
    counters: &[freerun_runtime::stats::Counter],
) -> Map<String, Value> {
    names.into_iter().zip(counters).map(|(name, counter)| (name.to_owned(), json!(counter.get()))).collect()
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

/// Writes the counters for Prometheus.
pub(super) fn text(tls: &Tls, out: &mut Text) {
    let sides = [("clients", &tls.clients), ("upstreams", &tls.upstreams)];
    let name = "freerun_tls_handshakes_total";
    out.head(name, "counter", "Completed handshakes, by version.");
    for (side, figures) in sides {
        for (version, count) in &figures.versions {
            out.sample(name, &[("side", &side), ("version", version)], count);
        }
    }
    let name = "freerun_tls_ciphers_total";
    out.head(name, "counter", "Completed handshakes, by cipher suite.");
    for (side, figures) in sides {
        for (cipher, count) in &figures.ciphers {
            out.sample(name, &[("side", &side), ("cipher", cipher)], count);
        }
    }
    let name = "freerun_tls_resumed_total";
    out.head(name, "counter", "Of these, handshakes that resumed a session.");
    sides.iter().for_each(|(side, figures)| out.sample(name, &[("side", side)], figures.resumed));
    let name = "freerun_tls_full_total";
    out.head(name, "counter", "Full handshakes of clients, by the kind of the server's key.");
    for (key, count) in &tls.clients.keys {
        out.sample(name, &[("key", key)], count);
    }
    let name = "freerun_tls_resumed_by_total";
    out.head(name, "counter", "Handshakes of clients that resumed a session, by where it came from.");
    for (by, count) in &tls.clients.resumed_by {
        out.sample(name, &[("by", by)], count);
    }
    let name = "freerun_tls_failed_total";
    out.head(name, "counter", "Handshakes that failed, by reason.");
    for (side, figures) in sides {
        for (reason, count) in &figures.failed {
            out.sample(name, &[("side", &side), ("reason", reason)], count);
        }
    }
    let name = "freerun_tls_untrusted_total";
    out.head(name, "counter", "Certificates of peers that were not trusted.");
    sides.iter().for_each(|(side, figures)| out.sample(name, &[("side", side)], figures.untrusted));
    let name = "freerun_tls_pooled_steps_total";
    out.head(name, "counter", "Steps of handshakes that the pool (tls) did.");
    sides.iter().for_each(|(side, figures)| out.sample(name, &[("side", side)], figures.pooled));
    let name = "freerun_tls_step_seconds";
    out.histogram(name, "Steps of handshakes that loops did.", sides.iter(), |(side, figures)| {
        (vec![("side", side)], &figures.steps)
    });
    let tickets = &tls.tickets;
    let fates = [
        ("issued", tickets.issued),
        ("accepted", tickets.accepted),
        ("unknown_key", tickets.unknown_key),
        ("expired", tickets.expired),
        ("damaged", tickets.damaged),
    ];
    let name = "freerun_tls_tickets_total";
    out.head(name, "counter", "Session tickets that clients were given (issued) and have shown (the others).");
    fates.iter().for_each(|(fate, count)| out.sample(name, &[("fate", fate)], count));
    let stores = &tls.session_caches;
    let name = "freerun_tls_session_cache_sessions";
    out.head(name, "gauge", "Sessions in the cache.");
    stores.iter().for_each(|store| out.sample(name, &[("cache", &store.name)], store.sessions));
    let name = "freerun_tls_session_cache_bytes";
    out.head(name, "gauge", "Bytes that the sessions in the cache take.");
    stores.iter().for_each(|store| out.sample(name, &[("cache", &store.name)], store.bytes));
    let name = "freerun_tls_session_cache_max_bytes";
    out.head(name, "gauge", "Bytes that the sessions in the cache may take.");
    stores.iter().for_each(|store| out.sample(name, &[("cache", &store.name)], store.max_bytes));
    let name = "freerun_tls_session_cache_evicted_total";
    out.head(name, "counter", "Sessions that made room for others in the cache.");
    stores.iter().for_each(|store| out.sample(name, &[("cache", &store.name)], store.evicted));
    let name = "freerun_tls_certificate_expires_timestamp_seconds";
    out.head(name, "gauge", "When a certificate of the configuration expires, in seconds since 1970.");
    let names: Vec<String> = tls.certificates.iter().map(|one| one.names.join(" ")).collect();
    let mut seen: HashMap<[&str; 5], usize> = HashMap::new();
    for (one, names) in tls.certificates.iter().zip(&names) {
        let labels: [(&str, &str); 5] = [
            ("file", &one.file),
            ("subject", &one.subject),
            ("names", names),
            ("key", one.key),
            ("issuer", &one.issuer),
        ];
        let nth = seen.entry(labels.map(|(_, value)| value)).or_default();
        *nth += 1;
        let mut labels: Vec<Label<'_>> = labels.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
        if *nth > 1 {
            labels.push(("nth", nth));
        }
        out.sample(name, &labels, one.expires);
    }
}
