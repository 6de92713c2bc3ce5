//! Groups of upstream servers in the API's shape.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::loops;
use freerun_runtime::stats::HistogramSnapshot;
use freerun_serve::upstream::{AnyGroup, ServerEntry};
use freerun_upstream::place::ServerPlace;
use freerun_upstream::{AttemptFailure, Millis, Peer};
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::object::{responses, timestamp_of};
use crate::content::described::HasApiMembers;
use crate::content::described::histogram::Histogram;
use crate::content::status::upstreams::UpstreamServer;

/// The upper bounds of the histogram of response times, in milliseconds.
const BOUNDS_MS: [u64; 14] = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000];

/// Whose servers these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Groups of `http`.
    Http,
    /// Groups of `stream`.
    Stream,
}

impl Protocol {
    /// The name of the protocol, a key to the groups of a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Stream => "stream",
        }
    }
}

/// A group.
pub fn group(of: &dyn AnyGroup, protocol: Protocol, now: Millis) -> Value {
    let set = of.group().peers();
    let entries = of.entries();
    let peers: Vec<Value> = set.peers().map(|one| peer(one, &entries, protocol, now)).collect();
    let mut map = Map::new();
    if protocol == Protocol::Http {
        map.insert("keepalive".to_owned(), set.peers().map(|peer| peer.pool.len()).sum::<usize>().into());
        if let Some(queue) = of.group().settings.queue {
            let waiting = of.group().waiting();
            let overflows = of.group().overflows();
            map.insert(
                "queue".to_owned(),
                json!({ "size": waiting, "max_size": queue.length, "overflows": overflows }),
            );
        }
    }
    let current: HashSet<u32> = set.peers().map(|peer| peer.id).collect();
    map.insert("peers".to_owned(), peers.into());
    map.insert("zombies".to_owned(), of.group().state().zombies(&current).into());
    map.insert("zone".to_owned(), of.zone().map(|zone| zone.to_string()).into());
    map.into()
}

/// The number of a server: its entry's number, unless a name stands for the server.
fn id(one: &Peer, entries: &[ServerEntry]) -> u32 {
    let entry = entries.iter().find(|entry| entry.number == one.settings.entry);
    entry.filter(|entry| matches!(entry.server.place, ServerPlace::Address(_))).map_or(one.id, |entry| entry.number)
}

/// A server.
fn peer(one: &Peer, entries: &[ServerEntry], protocol: Protocol, now: Millis) -> Value {
    let shown = UpstreamServer::new(one, now);
    let [connect, header, response] = one.averages();
    let mut health = shown.checks.api_members();
    if let Some(passed) = one.figures.checks.last_passed() {
        health.insert("last_passed".to_owned(), passed.into());
    }
    let mut map = shown.api_members();
    let mut add = |name: &str, value: Value| {
        map.insert(name.to_owned(), value);
    };
    add("id", id(one, entries).into());
    let entry = entries.iter().find(|entry| entry.number == one.settings.entry);
    if let Some(service) = entry.and_then(|entry| entry.server.asked_service()) {
        add("service", service.into());
    }
    // Sessions have no draining servers in the API.
    let state = match (shown.state, protocol) {
        ("draining", Protocol::Stream) => "up",
        (state, _) => state,
    };
    add("state", state.into());
    if one.settings.max_conns > 0 {
        add("max_conns", one.settings.max_conns.into());
    }
    let first = match protocol {
        Protocol::Http => {
            add("requests", shown.requests.into());
            add("responses", responses(&shown.responses, &BTreeMap::new()));
            "header_time"
        }
        Protocol::Stream => {
            add("connections", shown.requests.into());
            if let Some(time) = connect {
                add("connect_time", loops::millis_of(time).into());
            }
            "first_byte_time"
        }
    };
    for (name, time) in [(first, header), ("response_time", response)] {
        if let Some(time) = time {
            add(name, loops::millis_of(time).into());
        }
    }
    if protocol == Protocol::Http {
        add("response_time_hist", histogram(&shown.response));
    }
    // An idle connection that was dead says nothing about the server.
    let fails = shown.failures.iter().filter(|(kind, _)| **kind != AttemptFailure::Stale.word());
    add("fails", fails.map(|(_, count)| count).sum::<u64>().into());
    add("health_checks", health.into());
    add("downtime", one.downtime(now).into());
    if let Some(since) = one.down_since() {
        add("downstart", timestamp_of(since, now));
    }
    if let Some(at) = one.selected() {
        add("selected", timestamp_of(at, now));
    }
    map.into()
}

/// Times in the API's buckets. Those that are kept have bounds that are powers of two of microseconds: each of them counts in
/// the bucket that its upper bound is in.
fn histogram(times: &Histogram) -> Value {
    let mut buckets = [0; BOUNDS_MS.len() + 1];
    for (index, count) in times.counts.iter().enumerate() {
        let bound = HistogramSnapshot::upper_bound_us(index);
        let place = bound.and_then(|bound| BOUNDS_MS.iter().position(|ms| bound <= ms * 1000));
        buckets[place.unwrap_or(BOUNDS_MS.len())] += count;
    }
    let names = BOUNDS_MS.iter().map(u64::to_string).chain(["inf".to_owned()]);
    let buckets: Map<String, Value> = names.zip(buckets).map(|(name, count)| (name, count.into())).collect();
    json!({ "count": times.count, "sum": times.sum_us / 1000, "buckets": buckets })
}

/// The servers of a group as they are configured: those that are written, and those that names stand for.
pub fn configured(of: &dyn AnyGroup, protocol: Protocol) -> Vec<Value> {
    let set = of.group().peers();
    let mut all = Vec::new();
    for entry in of.entries().iter() {
        all.push(written(entry, protocol));
        if let ServerPlace::Name(_) = &entry.server.place {
            let own = set.peers().filter(|peer| peer.settings.entry == entry.number);
            all.extend(own.map(|peer| server(entry, peer.id, Some(peer), protocol)));
        }
    }
    all
}

/// The configured server with this number.
///
/// # Errors
/// The text is no number, or the number of no server.
pub fn configured_one(of: &dyn AnyGroup, protocol: Protocol, id: &str) -> Result<Value, ApiError> {
    let id: u32 = id.parse().map_err(|_| ApiError::BadServerId)?;
    let found = configured(of, protocol).into_iter().find(|server| server["id"] == id);
    found.ok_or(ApiError::ServerNotFound(id))
}

/// A server as it is written.
pub fn written(entry: &ServerEntry, protocol: Protocol) -> Value {
    server(entry, entry.number, None, protocol)
}

/// A server as it is configured; `resolved`: one of those that its name stands for.
fn server(entry: &ServerEntry, id: u32, resolved: Option<&Arc<Peer>>, protocol: Protocol) -> Value {
    let settings = resolved.map_or(&entry.server.settings, |peer| &peer.settings);
    let text = resolved.map_or(&*entry.server.text, |peer| &*peer.name);
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    let mut shown = json!({
        "id": id,
        "server": text,
        "weight": settings.weight,
        "max_conns": settings.max_conns,
        "max_fails": settings.max_fails,
        "fail_timeout": seconds(settings.fail_timeout),
        "slow_start": seconds(settings.slow_start),
        "backup": settings.backup,
        "down": settings.down,
    });
    if protocol == Protocol::Http {
        shown["route"] = settings.route.as_deref().unwrap_or_default().into();
        if settings.drain {
            shown["drain"] = true.into();
        }
    }
    if let Some(service) = entry.server.asked_service() {
        shown["service"] = service.into();
    }
    if resolved.is_some() {
        shown["parent"] = entry.number.to_string().into();
        if let ServerPlace::Name(name) = &entry.server.place {
            shown["host"] = name.host.to_string().into();
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use freerun_runtime::stats;

    use super::*;

    #[test]
    fn a_time_is_never_shown_as_a_shorter_one() {
        let times = stats::Histogram::default();
        for ms in [0, 3, 9, 60, 900, 20_000] {
            times.record(Duration::from_millis(ms));
        }
        let shown = histogram(&times.snapshot().into());
        assert_eq!((&shown["count"], &shown["sum"]), (&6.into(), &20_972.into()));
        let count = |name: &str| shown["buckets"][name].as_u64().expect("a number");
        assert_eq!(
            (count("5"), count("10"), count("25"), count("75")),
            (2, 0, 1, 1),
            "9 ms are below 16.4, 60 below 65.5"
        );
        assert_eq!((count("1000"), count("2500"), count("inf")), (0, 1, 1));
        let names = BOUNDS_MS.iter().map(u64::to_string).chain(["inf".to_owned()]);
        assert_eq!(names.map(|name| count(&name)).sum::<u64>(), 6);
    }
}
