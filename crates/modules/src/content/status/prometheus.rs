//! The counters in the text format of Prometheus, version 0.0.4.
//!
//! Names follow its conventions: base units, `_total` for counters. Buckets of histograms are cumulative; their bounds
//! are the powers of two of microseconds of the internal histograms, in seconds.

use super::figures::{Figures, Mount};
use super::samples::{MetricRow, Text};
use super::{acme, caches, cluster, limits, problem, resolvers, telemetry, tls, upstreams, zones};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text with all counters.
pub fn text(figures: &Figures) -> String {
    let mut out = Text(String::with_capacity(16 * 1024));
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
    out.0
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
