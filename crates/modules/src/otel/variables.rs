//! `$otel_trace_id`, `$otel_span_id`, `$otel_parent_id` and `$otel_parent_sampled`.

use std::borrow::Cow;

use freerun_http::variables::{Variable, VariableValue};
use freerun_proto::trace_context::write_hex;

use super::context::TraceContext;

/// The variables.
pub(super) const VARIABLES: &[Variable] = &[
    Variable::named(
        "otel_parent_id",
        "The identifier of the span that has made the request, of its field `traceparent`, where `otel_trace_context` \
         extracts it: 16 hexadecimal digits.",
        |request, _| hex(&TraceContext::of(request).parent?.parent_id),
    ),
    Variable::named(
        "otel_parent_sampled",
        "`1` if the sender of the request may have recorded its trace, by the flag of the field `traceparent`; `0` if not; \
         no value where no such field is extracted.",
        |request, _| {
            let is_sampled = TraceContext::of(request).parent?.is_sampled;
            Some(Cow::Borrowed(if is_sampled { b"1" } else { b"0" }))
        },
    ),
    Variable::named("otel_span_id", "The identifier of the request's span: 16 hexadecimal digits.", |request, _| {
        hex(&TraceContext::of(request).span_id)
    }),
    Variable::named(
        "otel_trace_id",
        "The identifier of the trace that the request belongs to: 32 hexadecimal digits. `split_clients` with it takes a \
         share of all traces.",
        |request, _| hex(&TraceContext::of(request).trace_id),
    ),
];

fn hex<'r>(identifier: &[u8]) -> VariableValue<'r> {
    let mut out = vec![0; 2 * identifier.len()];
    write_hex(identifier, &mut out);
    Some(Cow::Owned(out))
}
