//! The counters of TLS, and the certificates, in both forms.

use std::sync::Arc;

use freerun_http::request::generation::HttpConfiguration;
use freerun_serve::generation::Generation;
use freerun_serve::shared::Shared;
use freerun_serve::tls::figures::{CIPHERS, FAILURES, TlsFigures};
use freerun_serve::tls::server::ServerTls;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::histogram::Histogram;
use super::samples::Text;

/// The counters of TLS.
#[derive(Debug, Serialize)]
pub struct Tls {
    pub clients: Side,
    pub upstreams: Side,
    pub certificates: Vec<Certificate>,
}

/// The counters of one side.
#[derive(Debug, Serialize)]
pub struct Side {
    pub handshakes: u64,
    pub resumed: u64,
    pub versions: Map<String, Value>,
    pub ciphers: Map<String, Value>,
    pub failed: Map<String, Value>,
    pub untrusted: u64,
    pub pooled: u64,
    pub steps: Histogram,
}

/// A certificate of the current configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Certificate {
    pub file: String,
    pub subject: String,
    pub names: Vec<String>,
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
            resumed: figures.resumed.get(),
            versions: counts(["TLSv1.2", "TLSv1.3"], &figures.by_version),
            ciphers: counts(CIPHERS, &figures.by_cipher),
            failed: counts(FAILURES, &figures.failed),
            untrusted: figures.untrusted.get(),
            pooled: figures.pooled.get(),
            steps: figures.steps.snapshot().into(),
        }
    }
}

/// Collects the counters, and the certificates of a generation, each once.
pub fn collect(shared: &Shared, generation: &Generation) -> Tls {
    let http = generation.parts.get::<HttpConfiguration>();
    let servers = http.iter().flat_map(|http| &http.listens).flat_map(|listen| listen.all_servers());
    let mut known: Vec<*const ServerTls> = Vec::new();
    let mut certificates = Vec::new();
    for tls in servers.filter_map(|server| server.tls.as_ref()) {
        if !known.contains(&Arc::as_ptr(tls)) {
            known.push(Arc::as_ptr(tls));
            certificates.extend(tls.facts().into_iter().map(|facts| Certificate {
                file: facts.file,
                subject: facts.subject,
                names: facts.names,
                issuer: facts.issuer,
                expires: facts.expires,
            }));
        }
    }
    certificates.sort();
    certificates.dedup();
    Tls { clients: Side::of(&shared.client_tls), upstreams: Side::of(&shared.upstream_tls), certificates }
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
    let name = "freerun_tls_certificate_expires_seconds";
    out.head(name, "gauge", "When a certificate of the configuration expires, in seconds since 1970.");
    for one in &tls.certificates {
        let labels: [(&str, &dyn std::fmt::Display); 4] =
            [("file", &one.file), ("subject", &one.subject), ("names", &one.names.join(" ")), ("issuer", &one.issuer)];
        out.sample(name, &labels, one.expires);
    }
}
