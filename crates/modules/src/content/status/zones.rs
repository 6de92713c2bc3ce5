//! Counters of zones (`status_zone`), in both forms.

use std::borrow::Cow;
use std::collections::BTreeMap;

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::zones::{StatusZones, ZoneFigures, ZonesByName};

use super::samples::{MetricRow, Text};
use super::upstreams::CLASSES;
use crate::content::described::described;
use crate::content::described::histogram::{Histogram, ZoneExemplar};
use crate::content::described::metric::Figure;

described! {
    /// The counters of a zone.
    pub struct Zone {
        pub name: String,
        /// Whether it is a server without `status_zone` (`status_servers`), under the name and the port of the server.
        pub is_server: bool,
        /// Requests or sessions that are there.
        #[metric(gauge "{zone}_{units}_processing", "Of a zone, {units} that are there.")]
        #[api]
        pub processing: u64,
        /// Requests or sessions that have begun.
        #[api]
        pub requests: u64,
        /// Responses, by class.
        pub responses: BTreeMap<&'static str, u64>,
        /// Responses, by the first statuses that each loop has sent.
        #[metric(counter "{zone}_{units}_total" by "code" from Zone::by_code,
            "Of a zone, {units} that have ended, by status.")]
        pub codes: BTreeMap<u16, u64>,
        /// Requests or sessions that have ended without a response.
        #[metric(counter "{zone}_{units}_discarded_total", "Of a zone, {units} that have ended without a response.")]
        #[api]
        pub discarded: u64,
        #[metric(counter "{zone}_received_bytes_total", "Bytes of {units} of a zone.")]
        #[api]
        pub received: u64,
        /// Bytes sent to their clients.
        #[metric(counter "{zone}_sent_bytes_total")]
        #[api]
        pub sent: u64,
        /// Handshakes of clients, if there were any.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[metric(counter "{zone}_handshakes_total" by "result" from Zone::handshakes,
            "TLS handshakes of the zone's clients.")]
        pub tls: Option<Handshakes>,
        #[metric(histogram "{zone}_{unit}_duration_seconds" from Zone::durations, "How long {units} of a zone took.")]
        pub times: Histogram,
        /// Traced requests as examples of durations, one for each bucket at most, from the shortest to the longest; left
        /// out if there is none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub exemplars: Vec<ZoneExemplar>,
    }

    /// The handshakes of a zone's clients.
    pub struct Handshakes {
        pub done: u64,
        pub failed: u64,
        pub resumed: u64,
    }
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
    let all = |zones: &ZonesByName| zones.iter().map(|(name, figures)| Zone::of(name, figures)).collect::<Vec<_>>();
    let with_own = |named: &ZonesByName, own: &ZonesByName| {
        // A zone may have been given the name of a server: two rows of one name would be one for Prometheus.
        let unlike = |name: String| if named.contains_key(name.as_str()) { format!("{name} (server)") } else { name };
        let own = all(own).into_iter().map(|zone| Zone { is_server: true, name: unlike(zone.name), ..zone });
        all(named).into_iter().chain(own).collect()
    };
    Zones {
        servers: with_own(&zones.servers, &zones.own_servers),
        locations: all(&zones.locations),
        stream_servers: with_own(&zones.stream_servers, &zones.own_stream_servers),
    }
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
            is_server: false,
            processing: shown.processing,
            requests: shown.begun,
            responses: CLASSES.into_iter().zip(shown.classes).collect(),
            codes: shown.codes,
            discarded: shown.discarded,
            received: shown.received,
            sent: shown.sent,
            tls,
            times: shown.times.into(),
            exemplars: figures.exemplars().into_iter().map(ZoneExemplar::from).collect(),
        }
    }

    /// The durations, with examples.
    fn durations(&self) -> Figure<'_> {
        Figure::WithExemplars(&self.times, &self.exemplars)
    }

    /// The statuses, and how often each came; behind those that are counted one by one, what is left of each class.
    fn by_code(&self) -> Figure<'_> {
        let mut all: Vec<(Cow<'_, str>, u64)> =
            self.codes.iter().map(|(code, count)| (code.to_string().into(), *count)).collect();
        for (class, first_digit) in CLASSES.into_iter().zip(1u16..) {
            let counted = self.responses.get(class).copied().unwrap_or(0);
            let one_by_one: u64 =
                self.codes.iter().filter(|(code, _)| *code / 100 == first_digit).map(|(_, n)| n).sum();
            if counted > one_by_one {
                all.push((class.into(), counted - one_by_one));
            }
        }
        Figure::Counts(all)
    }

    /// The handshakes, by result.
    fn handshakes(&self) -> Figure<'_> {
        let Some(tls) = &self.tls else { return Figure::Missing };
        let results = [("done", tls.done), ("failed", tls.failed), ("resumed", tls.resumed)];
        Figure::Counts(results.map(|(result, count)| (result.into(), count)).to_vec())
    }
}

/// The words of a family of zones in names and helps of metrics, and the label that names a zone.
struct ZoneFamily {
    label: &'static str,
    words: [(&'static str, &'static str); 3],
}

/// The words of a family whose metrics begin with `zone` and count `units`.
const fn family(label: &'static str, zone: &'static str, unit: &'static str, units: &'static str) -> ZoneFamily {
    ZoneFamily { label, words: [("{zone}", zone), ("{unit}", unit), ("{units}", units)] }
}

const SERVERS: ZoneFamily = family("server_zone", "freerun_http", "request", "requests");
const LOCATIONS: ZoneFamily = family("location_zone", "freerun_http_location", "request", "requests");
const STREAM_SERVERS: ZoneFamily = family("server_zone", "freerun_stream_zone", "session", "sessions");

/// Writes the counters for Prometheus.
pub(super) fn text(servers: &[Zone], locations: &[Zone], stream_servers: &[Zone], out: &mut Text) {
    for (family, zones) in [(&SERVERS, servers), (&LOCATIONS, locations), (&STREAM_SERVERS, stream_servers)] {
        let rows = zones.iter().map(|zone| MetricRow::new(family.label, &zone.name, zone));
        out.family(&rows.collect::<Vec<_>>(), &family.words);
    }
}
