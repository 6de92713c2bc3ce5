//! The messages of OTLP, version 1 (<https://opentelemetry.io/docs/specs/otlp/>), in the encoding of protobuf.
//!
//! The fields have the numbers of `opentelemetry/proto` 1.x, which is stable: a generator and its library would bring much code
//! for four messages. An independent decoder of the test harness reads the messages.

mod attributes;
mod metrics;
mod protobuf;
mod response;
mod span;

pub use attributes::MAX_ATTRIBUTE_VALUE;
pub use metrics::{MetricPoints, metrics_requests};
pub use response::PartialSuccess;
pub(crate) use response::printable;
pub use span::{SpanEncoder, SpanKind, SpanTimes, trace_request};

use protobuf::MessageWriter;

/// The name of the instrumentation scope of all spans and metrics.
const SCOPE: &str = "freerun";

/// Writes `resource` and `scope_spans` or `scope_metrics` of one resource.
fn of_resource(out: &mut Vec<u8>, attributes: &[(String, String)], write: impl FnOnce(&mut MessageWriter<'_>)) {
    let mut request = MessageWriter::new(out);
    request.message(1, |of_resource| {
        of_resource.message(1, |resource| {
            for (name, value) in attributes {
                attributes::text(resource, 1, name, value.as_bytes());
            }
        });
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| {
                scope.bytes(1, SCOPE.as_bytes());
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            write(of_scope);
        });
    });
}
