//! The counters in the text format of Prometheus, version 0.0.4, and in the format of OpenMetrics 1.0.
//!
//! Names follow its conventions: base units, `_total` for counters. Buckets of histograms are cumulative; their bounds
//! are the powers of two of microseconds of the internal histograms, in seconds.

use freerun_proto::quality::{FULL_QUALITY, parse_quality};

use super::figures::{Figures, Mount};
use super::samples::{MetricRow, Text, TextFormat};
use super::{acme, caches, cluster, limits, problem, resolvers, telemetry, tls, upstreams, zones};

/// The media type of the text for Prometheus.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The media type of OpenMetrics, without parameters.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// The media type of the text in OpenMetrics.
pub const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The end of a text in OpenMetrics.
const END: &str = "# EOF\n";

/// The quality, in thousandths, that a client gives to a media type it names; 0: it does not name it, or wants another
/// version of it. All of it is in lower case.
fn named_quality(accept: &[u8], name: &str) -> u16 {
    let Some(range) = accept.split(|byte| *byte == b',').find_map(|range| {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let is_named = parts.next().is_some_and(|own| own == name.as_bytes());
        let is_known = |part: &[u8]| !part.starts_with(b"version=") || part == b"version=1.0.0" || name != OPEN_METRICS;
        let parts: Vec<&[u8]> = parts.collect();
        (is_named && parts.iter().all(|part| is_known(part))).then_some(parts)
    }) else {
        return 0;
    };
    let quality = range.iter().find_map(|part| part.strip_prefix(b"q="));
    quality.map_or(FULL_QUALITY, |text| parse_quality(text).unwrap_or_default())
}

/// Whether a client that sends this `Accept` prefers OpenMetrics to the text for Prometheus, and to JSON. It has to name it:
/// programs that take anything get what they got before.
pub fn prefers_open_metrics(accept: &[u8]) -> bool {
    let accept = accept.to_ascii_lowercase();
    let wanted = named_quality(&accept, OPEN_METRICS);
    wanted > 0 && ["text/plain", "application/json"].iter().all(|other| wanted >= named_quality(&accept, other))
}

/// The text with all counters in OpenMetrics.
pub fn open_metrics(figures: &Figures) -> String {
    let mut text = text_in(TextFormat::OpenMetrics, figures);
    text.push_str(END);
    text
}

/// The text with all counters.
pub fn text(figures: &Figures) -> String {
    text_in(TextFormat::Prometheus, figures)
}

fn text_in(format: TextFormat, figures: &Figures) -> String {
    let mut out = Text::new(format);
    out.objects(&[MetricRow { labels: Vec::new(), object: figures }]);
    problem::text(&figures.problems, &mut out);
    out.objects(&rows(&figures.loops, |one| MetricRow::new("loop", &one.index, one)));
    out.objects(&rows(&figures.pools, |one| MetricRow::new("pool", &one.name, one)));
    mounts(&figures.mounts, &mut out);
    out.objects(&rows(&figures.logs, |one| MetricRow::new("log", &one.name, one)));
    zones::text(&figures.server_zones, &figures.location_zones, &figures.stream.server_zones, &mut out);
    let sessions = &figures.stream.limit_conns[..];
    let kinds = [("requests", &figures.limit_reqs[..]), ("connections", &figures.limit_conns), ("sessions", sessions)];
    limits::text(kinds, &mut out);
    upstreams::text(&figures.upstreams, &figures.stream.upstreams, &mut out);
    resolvers::text(&figures.resolvers, &mut out);
    caches::text(&figures.caches, &mut out);
    tls::text(&figures.tls, &mut out);
    acme::text(&figures.acme, &mut out);
    telemetry::text(figures.otel.as_ref(), &mut out);
    cluster::text(figures.cluster.as_ref(), &mut out);
    out.text
}

fn rows<T>(all: &[T], row: fn(&T) -> MetricRow<'_, T>) -> Vec<MetricRow<'_, T>> {
    all.iter().map(row).collect()
}

fn mounts(mounts: &[Mount], out: &mut Text) {
    let name = "freerun_mount_info";
    out.head(name, "gauge", "How files of a mount are probed; always 1.");
    for one in mounts {
        let Mount { mount, device, fs_type, rung, density, .. } = one;
        out.sample(
            name,
            &[("mount", mount), ("device", device), ("type", fs_type), ("rung", rung), ("density", density)],
            1,
        );
    }
    out.objects(&rows(mounts, |one| MetricRow {
        labels: vec![("mount", &one.mount), ("device", &one.device)],
        object: one,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_those_that_name_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                          q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, wanted) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("text/plain;q=0.1, Application/OpenMetrics-Text; Version=1.0.0", true),
            ("text/plain;q=0.1, application/openmetrics-text; version=1.0.0", true),
            ("application/openmetrics-text; version=2.0.0", false),
            ("application/openmetrics-text;q=0.3,text/plain;q=0.5", false),
            ("application/openmetrics-text;q=0.3,application/json", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("application/openmetrics-text;q=2", false),
            ("application/openmetrics-text;q=0.29,text/plain;q=0.291", false),
            ("application/openmetrics-text;q=0.291,text/plain;q=0.29", true),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(prefers_open_metrics(accept.as_bytes()), wanted, "{accept}");
        }
    }
}
