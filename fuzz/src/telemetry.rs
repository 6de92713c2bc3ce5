//! Messages of OpenTelemetry: contexts of traces from clients, and answers of collectors to exports.

use freerun_proto::trace_context::{MAX_TRACE_STATE, TraceParent, trace_state};
use freerun_telemetry::otlp::{MetricPoints, PartialSuccess, SpanEncoder, SpanKind, SpanTimes, metrics_requests};

use crate::choice;
use crate::target::Target;
use crate::targets::owned;

/// Contexts of traces, answers of collectors, spans of any bytes, and texts of metrics: no panic, bounded results, and a
/// context that was read is written as it was.
pub fn telemetry(data: &[u8]) {
    let (options, bytes) = choice(data);
    if let Some(parent) = TraceParent::parse(bytes) {
        assert_eq!(TraceParent::parse(&parent.text()), Some(parent));
        assert!(parent.trace_id != [0; 16] && parent.parent_id != [0; 8]);
    }
    let fields = bytes.split(|byte| *byte == b'\n');
    if let Some(state) = trace_state(fields.clone()) {
        assert!(!state.is_empty() && state.len() <= MAX_TRACE_STATE);
        assert_eq!(trace_state([state.as_bytes()].into_iter()).as_ref(), Some(&state));
    }
    let answer = PartialSuccess::parse(bytes);
    assert!(!answer.message.chars().any(char::is_control));
    let mut span = SpanEncoder::new(SpanKind::Server, bytes, &[1; 16], &[2; 8], SpanTimes { start: 1, end: 2 });
    fields.for_each(|field| span.text("http.target", field));
    span.number("http.status_code", i64::from(options));
    assert!(!span.finish().is_empty());
    if let Ok(text) = std::str::from_utf8(bytes) {
        metrics_requests(&[], &MetricPoints::parse(text), 1);
    }
}

/// Runs [`telemetry`].
pub static TELEMETRY: Target = Target {
    name: "telemetry",
    body: telemetry,
    seeds: || {
        owned(&[
            b"\x0000-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            b"\x00cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more",
            b"\x00a=1\n b=2\t\n",
            b"\x00\x0a\x07\x08\x05\x12\x03a\nb",
            b"\x00# HELP a_total How.\n# TYPE a_total counter\na_total{x=\"1\",y=\"q\\\"\"} 5\n",
            b"\x00# TYPE h histogram\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 9\nh_count 2\n",
        ])
    },
    words: &[
        b"00-",
        b"-01",
        b"00000000",
        b",",
        b"\n",
        b"# TYPE ",
        b"{le=\"",
        b"\"} ",
        b"\\",
        b"\x0a",
        b"\x08",
        b"\xff",
    ],
};
