//! The recorder: the rows of values of the last fifteen minutes, and the last counters, from which the next values are computed.

use std::collections::BTreeMap;
use std::collections::HashMap;

use freerun_runtime::stats::BUCKETS;

use super::figures::{CacheHistory, HistoryFigures, LoopHistory, UpstreamHistory, WorkerHistory, ZoneHistory};
use super::ring::Ring;
use crate::content::described::histogram::Histogram;
use crate::content::status::figures::Figures;
use crate::content::status::upstreams::{Upstream, UpstreamServer};
use crate::content::status::zones::Zone;

/// The most zones of http and of stream that have a history, each.
const MAX_ZONES: usize = 256;

/// The most upstream servers that have a history.
const MAX_SERVERS: usize = 256;

/// The most caches that have a history.
const MAX_CACHES: usize = 64;

/// The meaning of the first value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstValue {
    /// The time for which it has been counted is unknown.
    Unknown,
    /// The counter was 0 at the end of the interval before.
    FromZero,
}

/// A counter and its last values in intervals.
#[derive(Debug, Default)]
struct CounterRow {
    last: Option<u64>,
    row: Ring<u32>,
}

impl CounterRow {
    /// Adds the counter's change since the last interval.
    fn add(&mut self, count: u64, first: FirstValue) {
        let before = self.last.replace(count).unwrap_or(if first == FirstValue::FromZero { 0 } else { count });
        let change = count.saturating_sub(before);
        self.row.push(u32::try_from(change).unwrap_or(u32::MAX));
    }
}

/// A histogram and a bound of its durations in intervals.
#[derive(Debug, Default)]
struct BoundRow {
    last: Option<[u64; BUCKETS]>,
    row: Ring<u32>,
}

impl BoundRow {
    /// Adds the bound below which this share of the durations since the last interval lies; 0 without any.
    fn add(&mut self, histogram: &Histogram, share: f64, first: FirstValue) {
        let unknown = if first == FirstValue::FromZero { [0; BUCKETS] } else { histogram.counts };
        let before = self.last.replace(histogram.counts).unwrap_or(unknown);
        let mut since = histogram.counts;
        for (count, before) in since.iter_mut().zip(before) {
            *count = count.saturating_sub(before);
        }
        let all: u64 = since.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut below = 0;
        let bucket = since.iter().position(|count| {
            below += count;
            below > 0 && below >= wanted
        });
        let bound = bucket
            .map_or(0, |bucket| histogram.bounds_us.get(bucket).copied().unwrap_or(u64::MAX).min(histogram.max_us));
        self.row.push(u32::try_from(bound).unwrap_or(u32::MAX));
    }
}

/// The rows of several objects of one kind, by their names.
#[derive(Debug)]
struct Rows<T> {
    by_name: BTreeMap<String, (T, u64)>,
    limit: usize,
    left_out: usize,
}

impl<T: Default> Rows<T> {
    fn new(limit: usize) -> Rows<T> {
        Rows { by_name: BTreeMap::new(), limit, left_out: 0 }
    }

    /// Changes the rows of an object, in a turn. An object that is not worth it yet gets none.
    fn note(&mut self, name: &str, turn: u64, is_worth_it: bool, change: impl FnOnce(&mut T)) {
        if let Some((rows, last)) = self.by_name.get_mut(name) {
            *last = turn;
            change(rows);
        } else if is_worth_it && self.by_name.len() < self.limit {
            let mut rows = T::default();
            change(&mut rows);
            self.by_name.insert(name.to_owned(), (rows, turn));
        } else if is_worth_it {
            self.left_out += 1;
        }
    }

    /// Forgets the objects that were not there in this turn.
    fn end(&mut self, turn: u64) {
        self.by_name.retain(|_, (_, last)| *last == turn);
        debug_assert!(self.by_name.len() <= self.limit, "more histories than there may be");
    }

    fn show<H>(&self, show: impl Fn(&str, &T) -> H) -> Vec<H> {
        self.by_name.iter().map(|(name, (rows, _))| show(name, rows)).collect()
    }
}

#[derive(Debug, Default)]
struct ZoneRows {
    requests: CounterRow,
    errors: CounterRow,
    p99: BoundRow,
}

impl ZoneRows {
    fn add(&mut self, zone: &Zone, first: FirstValue) {
        self.requests.add(zone.responses.values().sum(), first);
        self.errors.add(errors(zone), first);
        self.p99.add(&zone.times, 0.99, first);
    }

    fn show(name: &str, rows: &ZoneRows) -> ZoneHistory {
        ZoneHistory {
            name: name.to_owned(),
            requests: rows.requests.row.values(),
            errors: rows.errors.row.values(),
            p99_us: rows.p99.row.values(),
        }
    }
}

#[derive(Debug, Default)]
struct LoopRows {
    longest: BoundRow,
    stalls: CounterRow,
}

#[derive(Debug)]
struct ServerRows {
    protocol: &'static str,
    group: String,
    address: String,
    nth: usize,
    state: Ring<&'static str>,
    requests: CounterRow,
    failures: CounterRow,
    p99: BoundRow,
}

impl Default for ServerRows {
    fn default() -> ServerRows {
        ServerRows {
            protocol: "",
            group: String::new(),
            address: String::new(),
            nth: 1,
            state: Ring::default(),
            requests: CounterRow::default(),
            failures: CounterRow::default(),
            p99: BoundRow::default(),
        }
    }
}

impl ServerRows {
    fn add(&mut self, server: &UpstreamServer, first: FirstValue) {
        self.state.push(server.state);
        self.requests.add(server.requests, first);
        self.failures.add(server.failures.values().sum(), first);
        self.p99.add(&server.header, 0.99, first);
    }
}

#[derive(Debug, Default)]
struct CacheRows {
    answers: CounterRow,
    hits: CounterRow,
}

/// The rows of all figures that have a history.
#[derive(Debug)]
pub struct Recorder {
    turn: u64,
    /// Whether the counters of the first interval began at 0.
    is_first_known: bool,
    newest: i64,
    requests: CounterRow,
    errors: CounterRow,
    p99: BoundRow,
    connections: Ring<u32>,
    loops: Rows<LoopRows>,
    zones: Rows<ZoneRows>,
    stream_zones: Rows<ZoneRows>,
    servers: Rows<ServerRows>,
    caches: Rows<CacheRows>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder {
            turn: 0,
            is_first_known: false,
            newest: 0,
            requests: CounterRow::default(),
            errors: CounterRow::default(),
            p99: BoundRow::default(),
            connections: Ring::default(),
            loops: Rows::new(usize::MAX),
            zones: Rows::new(MAX_ZONES),
            stream_zones: Rows::new(MAX_ZONES),
            servers: Rows::new(MAX_SERVERS),
            caches: Rows::new(MAX_CACHES),
        }
    }
}

impl Recorder {
    /// Adds the figures at the end of an interval, at a time in seconds since 1970. `is_new`: the worker has started in this
    /// interval.
    pub fn add(&mut self, figures: &Figures, now: i64, is_new: bool) {
        self.turn += 1;
        self.is_first_known |= is_new;
        self.newest = now;
        let (turn, first) = (self.turn, self.first());
        self.requests.add(figures.loops.iter().map(|one| one.requests).sum(), first);
        self.errors.add(figures.server_zones.iter().map(errors).sum(), first);
        self.p99.add(&sum(&figures.server_zones), 0.99, first);
        let connections: u64 = figures.loops.iter().map(|one| one.connections.active).sum();
        self.connections.push(u32::try_from(connections).unwrap_or(u32::MAX));
        for one in &figures.loops {
            // Names have the order of the numbers.
            self.loops.note(&format!("{:06}", one.index), turn, true, |rows| {
                rows.longest.add(&one.polls, 1.0, first);
                rows.stalls.add(one.stalls.saturating_sub(one.stalls_without_processor), first);
            });
        }
        let own = [(&mut self.zones, &figures.server_zones), (&mut self.stream_zones, &figures.stream.server_zones)];
        for (rows, zones) in own {
            rows.left_out = 0;
            for zone in zones {
                rows.note(&zone.name, turn, zone.requests > 0, |rows| rows.add(zone, first));
            }
        }
        self.servers.left_out = 0;
        self.add_servers("http", &figures.upstreams);
        self.add_servers("stream", &figures.stream.upstreams);
        for cache in &figures.caches {
            self.caches.note(&cache.name, turn, true, |rows| {
                rows.answers.add(cache.answers.values().sum(), first);
                rows.hits.add(cache.answers.get("hit").copied().unwrap_or(0), first);
            });
        }
        self.loops.end(turn);
        self.zones.end(turn);
        self.stream_zones.end(turn);
        self.servers.end(turn);
        self.caches.end(turn);
    }

    /// The meaning of first values in this turn. What is there at the first sample may have been counted for long.
    fn first(&self) -> FirstValue {
        if self.turn == 1 && !self.is_first_known { FirstValue::Unknown } else { FirstValue::FromZero }
    }

    fn add_servers(&mut self, protocol: &'static str, groups: &[Upstream]) {
        let first = self.first();
        for group in groups {
            let mut seen: HashMap<&str, usize> = HashMap::new();
            for server in &group.servers {
                let nth = seen.entry(&server.address).or_default();
                *nth += 1;
                // A line feed is in no name of a group.
                let name = format!("{protocol}\n{}\n{}\n{nth}", group.name, server.address);
                self.servers.note(&name, self.turn, true, |rows| {
                    if rows.group.is_empty() {
                        (rows.protocol, rows.nth) = (protocol, *nth);
                        (rows.group, rows.address) = (group.name.clone(), server.address.clone());
                    }
                    rows.add(server, first);
                });
            }
        }
    }

    /// The history, with intervals of this length in seconds.
    pub fn show(&self, interval_seconds: u64) -> HistoryFigures {
        HistoryFigures {
            interval_seconds,
            newest: self.newest,
            left_out: self.zones.left_out + self.stream_zones.left_out + self.servers.left_out,
            worker: WorkerHistory {
                requests: self.requests.row.values(),
                errors: self.errors.row.values(),
                p99_us: self.p99.row.values(),
                connections: self.connections.values(),
            },
            loops: self.loops.show(|name, rows| LoopHistory {
                index: name.parse().unwrap_or_default(),
                longest_us: rows.longest.row.values(),
                stalls: rows.stalls.row.values(),
            }),
            server_zones: self.zones.show(ZoneRows::show),
            stream_zones: self.stream_zones.show(ZoneRows::show),
            upstreams: self.servers.show(|_, rows| UpstreamHistory {
                protocol: rows.protocol,
                group: rows.group.clone(),
                address: rows.address.clone(),
                nth: rows.nth,
                state: rows.state.values(),
                requests: rows.requests.row.values(),
                failures: rows.failures.row.values(),
                p99_us: rows.p99.row.values(),
            }),
            caches: self.caches.show(|name, rows| CacheHistory {
                name: name.to_owned(),
                answers: rows.answers.row.values(),
                hits: rows.hits.row.values(),
            }),
        }
    }
}

/// The responses of a zone with a status of 5xx.
fn errors(zone: &Zone) -> u64 {
    zone.responses.get("5xx").copied().unwrap_or(0)
}

/// The durations of the requests of all zones.
fn sum(zones: &[Zone]) -> Histogram {
    let mut sum = freerun_runtime::stats::Histogram::default().snapshot();
    for zone in zones {
        for (count, more) in sum.buckets.iter_mut().zip(zone.times.counts) {
            *count = count.wrapping_add(more);
        }
        sum.max_us = sum.max_us.max(zone.times.max_us);
    }
    sum.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use freerun_runtime::stats;

    use super::*;

    #[test]
    fn a_counter_shows_what_came_in_each_interval() {
        let mut row = CounterRow::default();
        for count in [7, 10, 10, 5, u64::MAX] {
            row.add(count, FirstValue::Unknown);
        }
        assert_eq!(row.row.values(), [0, 3, 0, 0, u32::MAX]);
        let mut new = CounterRow::default();
        new.add(7, FirstValue::FromZero);
        new.add(9, FirstValue::FromZero);
        assert_eq!(new.row.values(), [7, 2]);
    }

    #[test]
    fn a_bound_is_that_of_its_interval() {
        let histogram = stats::Histogram::default();
        let mut row = BoundRow::default();
        histogram.record(Duration::from_secs(9));
        row.add(&histogram.snapshot().into(), 0.99, FirstValue::Unknown);
        (0..99).for_each(|_| histogram.record(Duration::from_micros(900)));
        histogram.record(Duration::from_secs(3));
        row.add(&histogram.snapshot().into(), 0.99, FirstValue::Unknown);
        histogram.record(Duration::from_secs(3));
        row.add(&histogram.snapshot().into(), 0.99, FirstValue::Unknown);
        row.add(&histogram.snapshot().into(), 0.99, FirstValue::Unknown);
        assert_eq!(row.row.values(), [0, 1024, 1 << 22, 0]);
    }

    #[test]
    fn the_number_of_histories_is_limited_and_those_of_the_past_go() {
        let mut rows: Rows<CounterRow> = Rows::new(2);
        for name in ["a", "b", "c"] {
            rows.note(name, 1, true, |row| row.add(1, FirstValue::Unknown));
        }
        rows.note("d", 1, false, |row| row.add(1, FirstValue::Unknown));
        rows.end(1);
        assert_eq!((rows.by_name.len(), rows.left_out), (2, 1));
        rows.note("b", 2, false, |row| row.add(3, FirstValue::Unknown));
        rows.end(2);
        assert_eq!(rows.show(|name, row| (name.to_owned(), row.row.values())), [("b".to_owned(), vec![0, 2])]);
    }
}
