//! The counters of upstream servers, in both forms.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use freerun_serve::configuration::generation::Generation;
use freerun_serve::upstream::{AnyGroups, GroupsByProtocol};
use freerun_upstream::{AttemptFailure, Group, Millis, Peer};
use serde::Serialize;
use serde_json::{Map, Value};

use super::histogram::Histogram;
use super::samples::{Label, Text};

/// The protocol whose groups the text for Prometheus does not mark.
const HTTP: &str = "http";

/// The classes of statuses.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The states that a server can have, for the samples that count them.
const STATES: [&str; 6] = ["up", "down", "unavail", "checking", "unhealthy", "draining"];

/// The most servers of computed groups that are shown: names chosen by clients must not make an answer so long that it
/// delays its loop.
const MAX_COMPUTED: usize = 256;

/// The counters of a group of servers.
#[derive(Debug, Serialize)]
pub struct Upstream {
    /// The protocol of the group, which is not shown where it is known.
    #[serde(skip)]
    pub protocol: &'static str,
    pub name: String,
    pub declared: bool,
    pub computed: bool,
    pub waiting: u32,
    pub unresolved: Vec<String>,
    pub servers: Vec<UpstreamServer>,
}

/// The counters of a server of a group.
#[derive(Debug, Serialize)]
pub struct UpstreamServer {
    pub server: String,
    pub address: String,
    pub state: &'static str,
    pub weight: u32,
    pub backup: bool,
    pub active: u32,
    pub idle: usize,
    pub requests: u64,
    pub responses: Map<String, Value>,
    pub failures: Map<String, Value>,
    pub last_failure: Option<LastFailure>,
    pub unavailable: u64,
    pub ejected: u64,
    pub checks: HealthChecks,
    pub connects: u64,
    pub reused: u64,
    pub reuse_ratio: f64,
    pub sent: u64,
    pub received: u64,
    pub connect: Histogram,
    pub header: Histogram,
    pub response: Histogram,
}

/// The last failure of a server that counts against it.
#[derive(Debug, Serialize)]
pub struct LastFailure {
    pub kind: &'static str,
    pub seconds_ago: f64,
}

/// The results of health checks.
#[derive(Debug, Serialize)]
pub struct HealthChecks {
    pub done: u64,
    pub failed: u64,
    pub unhealthy: u64,
}

/// Collects the counters of a protocol's groups in a generation.
pub fn collect(generation: &Generation, protocol: &'static str, now: Millis) -> Vec<Upstream> {
    let all = generation.parts.get::<GroupsByProtocol>();
    let Some(groups) = all.as_ref().and_then(|all| all.of(protocol)) else { return Vec::new() };
    let mut all: Vec<Upstream> = Vec::new();
    for one in groups.all() {
        let shown = Upstream::new(one.group(), one.is_declared(), now);
        all.push(Upstream { protocol, unresolved: one.unresolved(), ..shown });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.extend(computed(groups, protocol, now));
    all
}

/// The counters of groups that requests have computed, sorted by name. Groups to which several resolvers gave the same
/// name are merged.
fn computed(groups: &dyn AnyGroups, protocol: &'static str, now: Millis) -> Vec<Upstream> {
    let mut all: Vec<Upstream> = Vec::new();
    let mut room = MAX_COMPUTED;
    groups.each_computed(&mut |group| {
        if room == 0 {
            return;
        }
        let peers = group.peers();
        let servers: Vec<UpstreamServer> =
            peers.peers().take(room).map(|peer| UpstreamServer::new(peer, now)).collect();
        room -= servers.len();
        match all.last_mut().filter(|last| last.name == *group.name) {
            Some(last) => last.servers.extend(servers),
            None => {
                let name = group.name.to_string();
                let (waiting, unresolved) = (0, Vec::new());
                all.push(Upstream { protocol, name, declared: false, computed: true, waiting, unresolved, servers });
            }
        }
    });
    all
}

impl Upstream {
    /// The counters of a group.
    pub fn new(group: &Group, declared: bool, now: Millis) -> Upstream {
        Upstream {
            protocol: HTTP,
            name: group.name.to_string(),
            declared,
            computed: false,
            waiting: group.waiting(),
            unresolved: Vec::new(),
            servers: group.peers().peers().map(|peer| UpstreamServer::new(peer, now)).collect(),
        }
    }
}

impl Upstream {
    /// The labels of the group.
    fn labels(&self) -> Vec<Label<'_>> {
        let mut labels: Vec<Label<'_>> = vec![("upstream", &self.name)];
        if self.protocol != HTTP {
            labels.push(("protocol", &self.protocol));
        }
        labels
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

fn named(counters: impl Iterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    counters.map(|(name, count)| (name.to_owned(), count.into())).collect()
}

impl UpstreamServer {
    fn new(peer: &Peer, now: Millis) -> UpstreamServer {
        let figures = &peer.figures;
        let (connects, reused) = (get(&figures.connects), figures.reused());
        let checks = &figures.checks;
        UpstreamServer {
            server: peer.server.to_string(),
            address: peer.name.to_string(),
            state: peer.state(now).word(),
            weight: peer.settings.weight,
            backup: peer.settings.backup,
            active: peer.connections(),
            idle: peer.pool.len(),
            requests: figures.requests(),
            responses: named(CLASSES.into_iter().zip(figures.responses())),
            failures: named(
                AttemptFailure::ALL.into_iter().map(AttemptFailure::word).zip(figures.failures.iter().map(get)),
            ),
            last_failure: figures.last_failure().map(|(failure, at)| LastFailure {
                kind: failure.word(),
                seconds_ago: now.saturating_sub(at) as f64 / 1000.0,
            }),
            unavailable: get(&figures.unavailable),
            ejected: get(&figures.ejected),
            checks: HealthChecks {
                done: get(&checks.done),
                failed: get(&checks.failed),
                unhealthy: get(&checks.unhealthy),
            },
            connects,
            reused,
            reuse_ratio: if reused == 0 { 0.0 } else { reused as f64 / (connects + reused) as f64 },
            sent: figures.sent(),
            received: figures.received(),
            connect: figures.connect_times.snapshot().into(),
            header: figures.header_times().into(),
            response: figures.response_times().into(),
        }
    }
}

/// Writes the counters for Prometheus.
pub(super) fn text(groups: &[&Upstream], out: &mut Text) {
    // Computed groups have no queue, and no servers without addresses.
    let configured = || groups.iter().filter(|group| !group.computed);
    let name = "freerun_upstream_waiting";
    out.head(name, "gauge", "Requests in the group's queue.");
    for group in configured() {
        out.sample(name, &group.labels(), group.waiting);
    }
    let name = "freerun_upstream_unresolved";
    out.head(name, "gauge", "Servers whose names have no address.");
    for group in configured() {
        out.sample(name, &group.labels(), group.unresolved.len());
    }
    let all: Vec<NumberedServer<'_>> = groups.iter().copied().flat_map(shown).collect();
    let name = "freerun_upstream_server_state";
    out.head(name, "gauge", "1 for the state that the server is in, 0 for others.");
    for one in &all {
        for state in STATES {
            out.sample(name, &one.labels(Some(("state", &state))), u8::from(state == one.server.state));
        }
    }
    let mut of = |name: &str, kind, help, value: fn(&UpstreamServer) -> u64| {
        out.head(name, kind, help);
        for one in &all {
            out.sample(name, &one.labels(None), value(one.server));
        }
    };
    of("freerun_upstream_active", "gauge", "Connections in use, or being made.", |s| s.active.into());
    of("freerun_upstream_idle", "gauge", "Connections kept for further requests.", |s| s.idle as u64);
    of("freerun_upstream_requests_total", "counter", "Attempts to have a request answered.", |s| s.requests);
    of("freerun_upstream_connects_total", "counter", "Requests over a new connection.", |s| s.connects);
    of("freerun_upstream_reused_total", "counter", "Requests over a connection that was there.", |s| s.reused);
    of("freerun_upstream_unavailable_total", "counter", "Times that failures made it unavailable.", |s| s.unavailable);
    of("freerun_upstream_ejected_total", "counter", "Times that it was left out as an outlier.", |s| s.ejected);
    of("freerun_upstream_checks_total", "counter", "Health checks.", |s| s.checks.done);
    of("freerun_upstream_checks_failed_total", "counter", "Health checks that failed.", |s| s.checks.failed);
    of("freerun_upstream_sent_bytes_total", "counter", "Bytes sent to it.", |s| s.sent);
    of("freerun_upstream_received_bytes_total", "counter", "Bytes received from it.", |s| s.received);
    let mut by = |name: &str, help, label, counted: fn(&UpstreamServer) -> &Map<String, Value>| {
        out.head(name, "counter", help);
        for one in &all {
            for (kind, count) in counted(one.server) {
                out.sample(name, &one.labels(Some((label, kind))), count);
            }
        }
    };
    by("freerun_upstream_responses_total", "Responses, by class.", "class", |s| &s.responses);
    by("freerun_upstream_failures_total", "Failures, by kind.", "kind", |s| &s.failures);
    type Of<'a> = fn(&'a UpstreamServer) -> &'a Histogram;
    let times: [(&str, &str, Of<'_>); 3] = [
        ("freerun_upstream_connect_seconds", "Making a connection.", |s| &s.connect),
        ("freerun_upstream_header_seconds", "From the beginning of an attempt to the response's head.", |s| &s.header),
        ("freerun_upstream_response_seconds", "From the beginning of an attempt to the response's end.", |s| {
            &s.response
        }),
    ];
    for (name, help, of) in times {
        // The buckets of computed groups would take many times the room of all others.
        let all = all.iter().filter(|one| !one.group.computed).map(|one| (one, of));
        out.histogram(name, help, all, |(one, of)| (one.labels(None), of(one.server)));
    }
}

/// A server with the names in its samples.
struct NumberedServer<'a> {
    group: &'a Upstream,
    server: &'a UpstreamServer,
    /// The number of the server among the servers of its address in the group, from 1.
    nth: usize,
}

impl<'a> NumberedServer<'a> {
    /// The labels of the server. The first server of an address has no number. In nearly all groups each address has
    /// one server, whose samples then have the same names at any place in the group.
    fn labels(&'a self, further: Option<Label<'a>>) -> Vec<Label<'a>> {
        let mut labels = self.group.labels();
        labels.push(("server", &self.server.address));
        if self.group.computed {
            labels.push(("computed", &true));
        }
        if self.nth > 1 {
            labels.push(("nth", &self.nth));
        }
        labels.extend(further);
        labels
    }
}

/// The servers of a group. Servers with the same address are numbered.
fn shown(group: &Upstream) -> Vec<NumberedServer<'_>> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let servers = group.servers.iter().map(|server| {
        let nth = seen.entry(&server.address).or_default();
        *nth += 1;
        NumberedServer { group, server, nth: *nth }
    });
    servers.collect()
}
