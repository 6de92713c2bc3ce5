//! The counters of upstream servers, in both forms.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use freerun_serve::configuration::generation::Generation;
use freerun_serve::upstream::{AnyGroups, GroupsByProtocol};
use freerun_upstream::udp::UdpReachability;
use freerun_upstream::{AttemptFailure, Group, Millis, Peer};

use super::samples::{Label, MetricRow, Text};
use crate::content::described::described;
use crate::content::described::histogram::Histogram;
use crate::content::described::metric::{Figure, HISTOGRAM};

/// The classes of statuses.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The states that a server can have, for the samples that count them.
const STATES: [&str; 6] = ["up", "down", "unavail", "checking", "unhealthy", "draining"];

/// The most servers of computed groups that are shown: names chosen by clients must not make an answer so long that it
/// delays its loop.
const MAX_COMPUTED: usize = 256;

described! {
    /// The counters of a group of servers.
    pub struct Upstream {
        pub name: String,
        pub declared: bool,
        pub computed: bool,
        /// Requests in the group's queue.
        #[metric(gauge "freerun_upstream_waiting")]
        pub waiting: u32,
        /// Servers whose names have no address.
        #[metric(gauge "freerun_upstream_unresolved")]
        pub unresolved: Vec<String>,
        pub servers: Vec<UpstreamServer>,
    }

    /// The counters of a server of a group.
    pub struct UpstreamServer {
        /// The server as the configuration names it.
        #[api = "name"]
        pub server: String,
        /// The address of the server.
        #[api = "server"]
        pub address: String,
        #[metric(gauge "freerun_upstream_server_state" state of STATES,
            "1 for the state that the server is in, 0 for others.")]
        pub state: &'static str,
        #[api]
        pub weight: u32,
        #[api]
        pub backup: bool,
        /// Connections in use, or being made.
        #[metric(gauge "freerun_upstream_active")]
        #[api]
        pub active: u32,
        /// Connections kept for further requests.
        #[metric(gauge "freerun_upstream_idle")]
        pub idle: usize,
        /// Attempts to have a request answered.
        #[metric(counter "freerun_upstream_requests_total")]
        pub requests: u64,
        /// Responses, by class.
        #[metric(counter "freerun_upstream_responses_total" by "class")]
        pub responses: BTreeMap<&'static str, u64>,
        /// Failures, by kind.
        #[metric(counter "freerun_upstream_failures_total" by "kind")]
        pub failures: BTreeMap<&'static str, u64>,
        pub last_failure: Option<LastFailure>,
        /// Times that failures made it unavailable.
        #[metric(counter "freerun_upstream_unavailable_total")]
        #[api = "unavail"]
        pub unavailable: u64,
        /// Times that it was left out as an outlier.
        #[metric(counter "freerun_upstream_ejected_total")]
        pub ejected: u64,
        #[metric(inside)]
        pub checks: HealthChecks,
        /// Requests over a new connection.
        #[metric(counter "freerun_upstream_connects_total")]
        pub connects: u64,
        /// Requests over a connection that was there.
        #[metric(counter "freerun_upstream_reused_total")]
        pub reused: u64,
        pub reuse_ratio: f64,
        #[metric(inside)]
        pub http3: UpstreamHttp3,
        /// Bytes sent to it.
        #[metric(counter "freerun_upstream_sent_bytes_total")]
        #[api]
        pub sent: u64,
        /// Bytes received from it.
        #[metric(counter "freerun_upstream_received_bytes_total")]
        #[api]
        pub received: u64,
        #[metric(histogram "freerun_upstream_connect_seconds", "Making a connection.")]
        pub connect: Histogram,
        #[metric(histogram "freerun_upstream_header_seconds",
            "From the beginning of an attempt to the response's head.")]
        pub header: Histogram,
        #[metric(histogram "freerun_upstream_response_seconds",
            "From the beginning of an attempt to the response's end.")]
        pub response: Histogram,
    }

    /// The connections to a server that is asked over HTTP/3 (`proxy_http_version 3`).
    pub struct UpstreamHttp3 {
        /// Connections of HTTP/3 that were made.
        #[metric(counter "freerun_upstream_http3_connects_total" from UpstreamHttp3::connects)]
        pub connects: u64,
        /// Connections over TCP that were made instead.
        #[metric(counter "freerun_upstream_http3_fallbacks_total" from UpstreamHttp3::fallbacks)]
        pub fallbacks: u64,
        /// Seconds for which it is asked by TCP alone from now on, because it did not answer by UDP.
        #[metric(gauge "freerun_upstream_http3_closed_seconds" from UpstreamHttp3::closed_seconds)]
        pub closed_seconds: f64,
    }

    /// The last failure of a server that counts against it.
    pub struct LastFailure {
        pub kind: &'static str,
        pub seconds_ago: f64,
    }

    /// The results of health checks.
    pub struct HealthChecks {
        /// Health checks.
        #[metric(counter "freerun_upstream_checks_total")]
        #[api = "checks"]
        pub done: u64,
        /// Health checks that failed.
        #[metric(counter "freerun_upstream_checks_failed_total")]
        #[api = "fails"]
        pub failed: u64,
        /// Times that checks made it unhealthy.
        #[api]
        pub unhealthy: u64,
    }
}

/// Collects the counters of a protocol's groups in a generation.
pub fn collect(generation: &Generation, protocol: &'static str, now: Millis) -> Vec<Upstream> {
    let all = generation.parts.get::<GroupsByProtocol>();
    let Some(groups) = all.as_ref().and_then(|all| all.of(protocol)) else { return Vec::new() };
    let mut all: Vec<Upstream> = Vec::new();
    for one in groups.all() {
        let shown = Upstream::new(one.group(), one.is_declared(), now);
        all.push(Upstream { unresolved: one.unresolved(), ..shown });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all.extend(computed(groups, now));
    all
}

/// The counters of groups that requests have computed, sorted by name. Groups to which several resolvers gave the same
/// name are merged.
fn computed(groups: &dyn AnyGroups, now: Millis) -> Vec<Upstream> {
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
                all.push(Upstream { name, declared: false, computed: true, waiting, unresolved, servers });
            }
        }
    });
    all
}

impl Upstream {
    /// The counters of a group.
    pub fn new(group: &Group, declared: bool, now: Millis) -> Upstream {
        Upstream {
            name: group.name.to_string(),
            declared,
            computed: false,
            waiting: group.waiting(),
            unresolved: Vec::new(),
            servers: group.peers().peers().map(|peer| UpstreamServer::new(peer, now)).collect(),
        }
    }
}

impl UpstreamHttp3 {
    fn new(udp: &UdpReachability, now: Millis) -> UpstreamHttp3 {
        let (connects, fallbacks) = udp.connections();
        UpstreamHttp3 { connects, fallbacks, closed_seconds: udp.closed_for(now) as f64 / 1000.0 }
    }

    /// A figure, unless the server was never asked over HTTP/3: most servers need no samples.
    fn figure(&self, figure: Figure<'static>) -> Figure<'static> {
        if self.connects + self.fallbacks > 0 { figure } else { Figure::Missing }
    }

    fn connects(&self) -> Figure<'_> {
        self.figure(Figure::Number(self.connects))
    }

    fn fallbacks(&self) -> Figure<'_> {
        self.figure(Figure::Number(self.fallbacks))
    }

    fn closed_seconds(&self) -> Figure<'_> {
        self.figure(Figure::Decimal(self.closed_seconds))
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

impl UpstreamServer {
    /// The counters of a server.
    pub fn new(peer: &Peer, now: Millis) -> UpstreamServer {
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
            responses: CLASSES.into_iter().zip(figures.responses()).collect(),
            failures: AttemptFailure::ALL
                .into_iter()
                .map(AttemptFailure::word)
                .zip(figures.failures.iter().map(get))
                .collect(),
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
            http3: UpstreamHttp3::new(&peer.udp, now),
            sent: figures.sent(),
            received: figures.received(),
            connect: figures.connect_times().into(),
            header: figures.header_times().into(),
            response: figures.response_times().into(),
        }
    }
}

/// Writes the counters of groups for Prometheus. Groups of `http` have no label for their protocol.
pub(super) fn text(http: &[Upstream], stream: &[Upstream], out: &mut Text) {
    let groups: Vec<(&Upstream, Vec<Label<'_>>)> = [(http, None), (stream, Some(&"stream"))]
        .into_iter()
        .flat_map(|(groups, protocol)| groups.iter().map(move |group| (group, protocol)))
        .map(|(group, protocol)| {
            let name: Label<'_> = ("upstream", &group.name);
            let protocol = protocol.map(|protocol| -> Label<'_> { ("protocol", protocol) });
            (group, std::iter::once(name).chain(protocol).collect())
        })
        .collect();
    // Computed groups have no queue, and no servers without addresses.
    let configured = groups.iter().filter(|(group, _)| !group.computed);
    let rows = configured.map(|(object, labels)| MetricRow { labels: labels.clone(), object: *object });
    out.objects(&rows.collect::<Vec<_>>());
    let all: Vec<NumberedServer<'_>> = groups.iter().flat_map(|(group, labels)| numbered(group, labels)).collect();
    let rows = |with_computed: bool| -> Vec<MetricRow<'_, UpstreamServer>> {
        let chosen = all.iter().filter(|one| with_computed || !one.group.computed);
        chosen.map(|one| MetricRow { labels: one.labels(), object: one.server }).collect()
    };
    out.chosen(&rows(true), &[], |metric| metric.kind != HISTOGRAM);
    // The buckets of computed groups would take many times the room of all others.
    out.chosen(&rows(false), &[], |metric| metric.kind == HISTOGRAM);
}

/// A server with the names in its samples.
struct NumberedServer<'a> {
    group: &'a Upstream,
    group_labels: &'a [Label<'a>],
    server: &'a UpstreamServer,
    /// The number of the server among the servers of its address in the group, from 1.
    nth: usize,
}

impl NumberedServer<'_> {
    /// The labels of the server. The first server of an address has no number. In nearly all groups each address has
    /// one server, whose samples then have the same names at any place in the group.
    fn labels(&self) -> Vec<Label<'_>> {
        let mut labels = self.group_labels.to_vec();
        labels.push(("server", &self.server.address));
        if self.group.computed {
            labels.push(("computed", &true));
        }
        if self.nth > 1 {
            labels.push(("nth", &self.nth));
        }
        labels
    }
}

/// The servers of a group. Servers with the same address are numbered.
fn numbered<'a>(group: &'a Upstream, group_labels: &'a [Label<'a>]) -> Vec<NumberedServer<'a>> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let servers = group.servers.iter().map(|server| {
        let nth = seen.entry(&server.address).or_default();
        *nth += 1;
        NumberedServer { group, group_labels, server, nth: *nth }
    });
    servers.collect()
}
