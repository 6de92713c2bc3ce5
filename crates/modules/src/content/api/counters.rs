//! Counters of connections, requests, TLS, zones, limits and resolvers, in the API's shape.

use std::sync::Arc;

use freerun_cluster::ClusterReport;
use freerun_runtime::loops::LoopStats;
use freerun_runtime::stats::Counter;
use freerun_serve::loops::figures::limits::LimitFigures;
use freerun_serve::loops::figures::zones::ZoneFigures;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::tls::handshake::figures::{FAILURES, TlsFigures, UNTRUSTED};
use freerun_serve::upstream::resolver::ZonedResolvers;
use freerun_upstream::resolve::ResolverFigures;
use serde_json::{Map, Value, json};

use super::object::responses;
use crate::content::described::HasApiMembers;
use crate::content::status::limits::LimitZone;
use crate::content::status::zones::Zone;

/// A cluster, as NGINX Plus shows the zones that its machines tell each other of.
pub fn zone_sync(report: &ClusterReport) -> Value {
    let zones = report
        .zones
        .iter()
        .map(|zone| (zone.name.clone(), json!({ "records_pending": zone.pending, "records_total": zone.pairs })));
    json!({
        "status": {
            "bytes_in": report.bytes_in,
            "msgs_in": report.messages_in,
            "msgs_out": report.messages_out,
            "bytes_out": report.bytes_out,
            // The other machines: a cluster of two has one.
            "nodes_online": report.nodes.saturating_sub(1),
        },
        "zones": zones.collect::<Map<String, Value>>(),
    })
}

/// The connections and requests of loops, added up.
#[derive(Debug, Default)]
pub struct Sums {
    accepted: u64,
    dropped: u64,
    active: u64,
    idle: u64,
    requests: u64,
    current: u64,
}

impl Sums {
    /// The sums over these loops.
    pub fn of<'l>(loops: impl IntoIterator<Item = &'l Arc<LoopStats>>) -> Sums {
        let mut sums = Sums::default();
        for stats in loops {
            let (active, idle) = (stats.active.get(), stats.idle.get());
            let dropped = stats.dropped.get();
            sums.accepted += stats.accepted.get() + dropped;
            sums.dropped += dropped;
            // The counters are read one after the other, while they change.
            sums.active += active.saturating_sub(idle);
            sums.idle += idle;
            sums.requests += stats.requests.get();
            sums.current += active.saturating_sub(idle + stats.fresh.get() + stats.reading.get());
        }
        sums
    }

    /// The object of connections.
    pub fn connections(&self) -> Value {
        json!({ "accepted": self.accepted, "dropped": self.dropped, "active": self.active, "idle": self.idle })
    }

    /// The object of requests.
    pub fn requests(&self) -> Value {
        json!({ "total": self.requests, "current": self.current })
    }
}

/// The loop with this number, which stands for a worker process of nginx.
pub fn worker(index: usize, stats: &Arc<LoopStats>) -> Value {
    let sums = Sums::of([stats]);
    json!({
        "id": index,
        "pid": std::process::id(),
        "connections": sums.connections(),
        "http": { "requests": sums.requests() },
    })
}

/// Handshakes of both sides: with clients, and with upstream servers.
pub fn all_tls(shared: &SharedState) -> Value {
    tls(&[&shared.client_tls, &shared.upstream_tls], &UNTRUSTED)
}

/// Handshakes, and certificates that are not trusted for these reasons.
fn tls(sides: &[&TlsFigures], untrusted: &[&str]) -> Value {
    let sum = |of: &dyn Fn(&TlsFigures) -> u64| -> u64 { sides.iter().map(|side| of(side)).sum() };
    let all = |counters: &[Counter]| -> u64 { counters.iter().map(Counter::get).sum() };
    let named = |names: &[&str], name: &str, counters: &[Counter]| -> u64 {
        names.iter().zip(counters).filter(|(known, _)| **known == name).map(|(_, counter)| counter.get()).sum()
    };
    let failed = |name: &str| sum(&|side| named(&FAILURES, name, &side.failed));
    let untrusted: Map<String, Value> = untrusted
        .iter()
        .map(|name| ((*name).to_owned(), sum(&|side| named(&UNTRUSTED, name, &side.untrusted)).into()))
        .collect();
    json!({
        "handshakes": sum(&|side| all(&side.by_version)),
        "handshakes_failed": sum(&|side| all(&side.failed)),
        "session_reuses": sum(&|side| side.resumed.get()),
        "no_common_protocol": failed("no_common_protocol"),
        "no_common_cipher": failed("no_common_cipher"),
        "handshake_timeout": failed("timed_out"),
        "peer_rejected_cert": failed("peer_alert"),
        "verify_failures": untrusted,
    })
}

/// The handshakes of a zone's clients, whose certificates are for no name that was asked for.
fn zone_tls(figures: &TlsFigures) -> Value {
    let reasons: Vec<&str> = UNTRUSTED.into_iter().filter(|name| *name != "hostname_mismatch").collect();
    tls(&[figures], &reasons)
}

/// A zone of servers.
pub fn server_zone(figures: &ZoneFigures) -> Value {
    let zone = Zone::of("", figures);
    let mut members = zone.api_members();
    members.insert("responses".to_owned(), responses(&zone.responses, &zone.codes));
    add_tls(&mut members, figures);
    members.into()
}

/// A zone of locations.
pub fn location_zone(figures: &ZoneFigures) -> Value {
    let zone = Zone::of("", figures);
    let mut members = zone.api_members();
    members.remove("processing");
    members.insert("responses".to_owned(), responses(&zone.responses, &zone.codes));
    members.into()
}

/// A zone of servers of `stream`, whose requests are connections.
pub fn stream_zone(figures: &ZoneFigures) -> Value {
    let zone = Zone::of("", figures);
    let mut members = zone.api_members();
    let begun = members.remove("requests").unwrap_or_default();
    members.insert("connections".to_owned(), begun);
    let [done, refused, failed] = ["2xx", "4xx", "5xx"].map(|class| zone.responses.get(class).copied().unwrap_or(0));
    let sessions = json!({ "2xx": done, "4xx": refused, "5xx": failed, "total": done + refused + failed });
    members.insert("sessions".to_owned(), sessions);
    add_tls(&mut members, figures);
    members.into()
}

fn add_tls(members: &mut Map<String, Value>, figures: &ZoneFigures) {
    if let Some(tls) = figures.tls_if_any() {
        members.insert("ssl".to_owned(), zone_tls(tls));
    }
}

/// A zone of `limit_req`.
pub fn limit_req(figures: &LimitFigures) -> Value {
    LimitZone::of("", figures).api_members().into()
}

/// A zone of `limit_conn`, which makes nobody wait.
pub fn limit_conn(figures: &LimitFigures) -> Value {
    let mut members = LimitZone::of("", figures).api_members();
    members.retain(|name, _| !name.starts_with("delayed"));
    members.into()
}

/// The resolvers with a `status_zone`, by its name; those with the same one are added up.
pub fn resolvers(resolvers: &ZonedResolvers) -> Vec<(String, Value)> {
    let mut zones: Vec<(&str, Vec<&ResolverFigures>)> = Vec::new();
    for resolver in &resolvers.0 {
        let Some(name) = resolver.spec().status_zone.as_deref() else { continue };
        match zones.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.push(&resolver.figures),
            None => zones.push((name, vec![&resolver.figures])),
        }
    }
    let sum = |all: &[&ResolverFigures], of: fn(&ResolverFigures) -> &Counter| -> u64 {
        all.iter().map(|figures| of(figures).get()).sum()
    };
    let shown = |all: &[&ResolverFigures]| {
        json!({
            // Nobody asks for the names of addresses.
            "requests": { "name": sum(all, |f| &f.names), "srv": sum(all, |f| &f.services), "addr": 0 },
            "responses": {
                "noerror": sum(all, |f| &f.found),
                "formerr": sum(all, |f| &f.format),
                "servfail": sum(all, |f| &f.server_failure),
                "nxdomain": sum(all, |f| &f.not_found),
                "notimp": sum(all, |f| &f.not_implemented),
                "refused": sum(all, |f| &f.refused),
                "timedout": sum(all, |f| &f.timed_out),
                "unknown": sum(all, |f| &f.other),
            },
        })
    };
    zones.into_iter().map(|(name, all)| (name.to_owned(), shown(&all))).collect()
}
