//! Telemetry: what became of spans, in both forms, and the metrics that `otel_metrics` exports.

use std::sync::Arc;

use freerun_conf::display_only;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::shared::SharedState;
use freerun_telemetry::SpanCounts;

use super::samples::{MetricRow, Text};
use crate::content::described::described;
use crate::otel::telemetry::Telemetry;

described! {
    /// Spans of `otel_trace`, and what became of them.
    pub struct Spans {
        /// Spans that the collector has taken.
        #[metric(counter "freerun_otel_spans_total" by "result" is "exported", "Spans, by what became of them.")]
        pub exported: u64,
        /// Spans that were dropped, because the queue was full.
        #[metric(counter "freerun_otel_spans_total" by "result" is "dropped")]
        pub dropped: u64,
        /// Spans that the collector has refused, or that were given up after failures.
        #[metric(counter "freerun_otel_spans_total" by "result" is "failed")]
        pub failed: u64,
        /// Spans that wait for their export.
        #[metric(gauge "freerun_otel_spans_waiting")]
        pub waiting: u64,
        /// Exports of spans or metrics that have failed, those included that were repeated.
        #[metric(counter "freerun_otel_export_errors_total")]
        pub errors: u64,
    }
}

impl From<SpanCounts> for Spans {
    fn from(counts: SpanCounts) -> Spans {
        let SpanCounts { exported, dropped, failed, errors, waiting } = counts;
        Spans { exported, dropped, failed, waiting, errors }
    }
}

/// The spans of a generation with an exporter.
pub(super) fn collect(generation: &Generation) -> Option<Spans> {
    Telemetry::counts(generation).map(Spans::from)
}

/// Writes them for Prometheus.
pub(super) fn text(spans: Option<&Spans>, out: &mut Text) {
    let rows = spans.map(|object| MetricRow { labels: Vec::new(), object });
    if rows.is_some() {
        out.objects(rows.as_slice());
    }
}

/// Gives the exporter of a generation the source of its metrics: `text` makes them as Prometheus gets them.
pub(super) fn begin(generation: &Arc<Generation>, shared: &Arc<SharedState>, text: fn(&SharedState) -> String) {
    if let Some(telemetry) = generation.parts.get::<Telemetry>() {
        let shared = Arc::downgrade(shared);
        telemetry.set_metrics(Arc::new(move || {
            let text = shared.upgrade().map(|shared| text(&shared));
            text.map_or_else(String::new, |text| display_only(&text).into_owned())
        }));
    }
}
