//! Counters of zones (`status_zone`), in both forms.

use std::collections::BTreeMap;

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::zones::{StatusZones, ZoneFigures, ZonesByName};
use serde::Serialize;
use serde_json::{Map, Value};

use super::histogram::Histogram;
use super::samples::{Label, Text};
use super::upstreams::CLASSES;

/// The counters of a zone.
#[derive(Debug, Serialize)]
pub struct Zone {
    pub name: String,
    pub processing: u64,
    pub requests: u64,
    pub responses: Map<String, Value>,
    pub codes: BTreeMap<u16, u64>,
    pub discarded: u64,
    pub received: u64,
    pub sent: u64,
    /// The handshakes of clients; `None`: there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Handshakes>,
    pub times: Histogram,
}

/// The handshakes of a zone's clients.
#[derive(Debug, Serialize)]
pub struct Handshakes {
    pub done: u64,
    pub failed: u64,
    pub resumed: u64,
}

/// The zones of a generation.
#[derive(Debug, Default)]
pub struct Zones {
    pub servers: Vec<Zone>,
    pub locations: Vec<Zone>,
    pub stream_servers: Vec<Zone>,
}

/// Collects the counters of the zones of a generation.
pub fn collect(generation: &Generation) -> Zones {
    let Some(zones) = generation.parts.get::<StatusZones>() else { return Zones::default() };
    let all = |zones: &ZonesByName| zones.iter().map(|(name, figures)| Zone::of(name, figures)).collect();
    Zones { servers: all(&zones.servers), locations: all(&zones.locations), stream_servers: all(&zones.stream_servers) }
}

impl Zone {
    /// The counters of a zone.
    pub fn of(name: &str, figures: &ZoneFigures) -> Zone {
        let shown = figures.snapshot();
        let tls = figures.tls_if_any().map(|tls| Handshakes {
            done: tls.by_version.iter().map(|counter| counter.get()).sum(),
            failed: tls.failed.iter().map(|counter| counter.get()).sum(),
            resumed: tls.resumed.get(),
        });
        Zone {
            name: name.to_owned(),
            processing: shown.processing,
            requests: shown.begun,
            responses: CLASSES.iter().zip(shown.classes).map(|(class, n)| ((*class).to_owned(), n.into())).collect(),
            codes: shown.codes,
            discarded: shown.discarded,
            received: shown.received,
            sent: shown.sent,
            tls,
            times: shown.times.into(),
        }
    }

    /// The statuses, and how often each came; behind those that are counted one by one, what is left of each class.
    fn by_code(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = self.codes.iter().map(|(code, count)| (code.to_string(), *count)).collect();
        for (class, first_digit) in CLASSES.iter().zip(1u16..) {
            let counted = self.responses.get(*class).and_then(Value::as_u64).unwrap_or(0);
            let told: u64 = self.codes.iter().filter(|(code, _)| *code / 100 == first_digit).map(|(_, n)| n).sum();
            if counted > told {
                all.push(((*class).to_owned(), counted - told));
            }
        }
        all
    }
}

/// The words of a family of zones: in names of samples, of their label, and of what they count.
struct Words {
    prefix: &'static str,
    label: &'static str,
    one: &'static str,
    more: &'static str,
}

const SERVERS: Words = Words { prefix: "freerun_http", label: "server_zone", one: "request", more: "requests" };

const LOCATIONS: Words =
    Words { prefix: "freerun_http_location", label: "location_zone", one: "request", more: "requests" };

const STREAM_SERVERS: Words =
    Words { prefix: "freerun_stream_zone", label: "server_zone", one: "session", more: "sessions" };

/// Writes the counters for Prometheus.
pub(super) fn text(servers: &[Zone], locations: &[Zone], stream_servers: &[Zone], out: &mut Text) {
    family(&SERVERS, servers, out);
    family(&LOCATIONS, locations, out);
    family(&STREAM_SERVERS, stream_servers, out);
}

fn family(words: &Words, zones: &[Zone], out: &mut Text) {
    let Words { prefix, label, one, more } = words;
    let name = format!("{prefix}_{more}_total");
    out.head(&name, "counter", &format!("Of a zone, {more} that have ended, by status."));
    for zone in zones {
        for (code, count) in zone.by_code() {
            out.sample(&name, &[(label, &zone.name), ("code", &code)], count);
        }
    }
    let mut of = |what: &str, kind, help: &str, value: fn(&Zone) -> u64| {
        let name = format!("{prefix}_{what}");
        out.head(&name, kind, help);
        for zone in zones {
            out.sample(&name, &[(label, &zone.name)], value(zone));
        }
    };
    of(&format!("{more}_processing"), "gauge", &format!("Of a zone, {more} that are there."), |z| z.processing);
    of(&format!("{more}_discarded_total"), "counter", "Those that have ended without a response.", |z| z.discarded);
    of("received_bytes_total", "counter", &format!("Bytes of {more} of a zone."), |z| z.received);
    of("sent_bytes_total", "counter", "Bytes sent to their clients.", |z| z.sent);
    if zones.iter().any(|zone| zone.tls.is_some()) {
        let name = format!("{prefix}_handshakes_total");
        out.head(&name, "counter", "TLS handshakes of the zone's clients.");
        for (zone, tls) in zones.iter().filter_map(|zone| Some((zone, zone.tls.as_ref()?))) {
            for (result, count) in [("done", tls.done), ("failed", tls.failed), ("resumed", tls.resumed)] {
                out.sample(&name, &[(label, &zone.name), ("result", &result)], count);
            }
        }
    }
    let name = format!("{prefix}_{one}_duration_seconds");
    let all = zones.iter().map(|zone| (zone, *label));
    out.histogram(&name, &format!("How long {more} of a zone took."), all, |(zone, label)| {
        let labels: Vec<Label<'_>> = vec![(label, &zone.name)];
        (labels, &zone.times)
    });
}
