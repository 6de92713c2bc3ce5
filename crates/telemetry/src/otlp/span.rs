//! Spans (`opentelemetry/proto/trace/v1/trace.proto`).

use freerun_proto::trace_context::{SpanId, TraceId};

use super::protobuf::MessageWriter;
use super::{attributes, of_resource};

/// The fields of `Span`.
const TRACE_ID: u32 = 1;
const SPAN_ID: u32 = 2;
const TRACE_STATE: u32 = 3;
const PARENT_SPAN_ID: u32 = 4;
const NAME: u32 = 5;
const KIND: u32 = 6;
const START: u32 = 7;
const END: u32 = 8;
const ATTRIBUTES: u32 = 9;
const EVENTS: u32 = 11;
const STATUS: u32 = 15;
const FLAGS: u32 = 16;

/// The field `code` of `Status`, and the code of an error.
const STATUS_CODE: u32 = 3;
const ERROR: u64 = 2;

/// The flag of W3C: the trace is sampled.
const SAMPLED: u32 = 1;

/// The longest name of a span in bytes; what is longer is cut off.
const MAX_NAME: usize = 1024;

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside the server.
    Internal = 1,
    /// A request of a client.
    Server = 2,
    /// A request to another server.
    Client = 3,
}

/// The times of a span, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanTimes {
    /// The start.
    pub start: u64,
    /// The end, which is never before the start.
    pub end: u64,
}

/// A span that is being encoded. It has ended, so that it never changes.
#[derive(Debug)]
pub struct SpanEncoder(Vec<u8>);

impl SpanEncoder {
    /// A span of a trace. The name is a text of any bytes.
    pub fn new(kind: SpanKind, name: &[u8], trace_id: &TraceId, span_id: &SpanId, times: SpanTimes) -> SpanEncoder {
        debug_assert!(*trace_id != [0; 16] && *span_id != [0; 8], "an identifier of zeros is invalid");
        debug_assert!(times.start <= times.end, "a span ends before it begins");
        let mut out = Vec::with_capacity(512);
        let mut span = MessageWriter::new(&mut out);
        span.bytes(TRACE_ID, trace_id);
        span.bytes(SPAN_ID, span_id);
        span.bytes(NAME, attributes::utf8(name, MAX_NAME).as_bytes());
        span.uint(KIND, kind as u64);
        span.fixed64(START, times.start);
        span.fixed64(END, times.end);
        span.fixed32(FLAGS, SAMPLED);
        SpanEncoder(out)
    }

    fn message(&mut self) -> MessageWriter<'_> {
        MessageWriter::new(&mut self.0)
    }

    /// The span that this one belongs to. It may be called once.
    pub fn parent(&mut self, parent: &SpanId) {
        self.message().bytes(PARENT_SPAN_ID, parent);
    }

    /// The `tracestate` that came with the parent. It may be called once.
    pub fn trace_state(&mut self, state: &str) {
        self.message().bytes(TRACE_STATE, state.as_bytes());
    }

    /// Adds an attribute whose value is a text of any bytes.
    pub fn text(&mut self, name: &str, value: &[u8]) {
        attributes::text(&mut self.message(), ATTRIBUTES, name, value);
    }

    /// Adds an attribute whose value is a number.
    pub fn number(&mut self, name: &str, value: i64) {
        attributes::number(&mut self.message(), ATTRIBUTES, name, value);
    }

    /// Adds an event at this time, in nanoseconds since 1970.
    pub fn event(&mut self, name: &str, time: u64) {
        self.message().message(EVENTS, |event| {
            event.fixed64(1, time);
            event.bytes(2, name.as_bytes());
        });
    }

    /// Says that the operation has failed. It may be called once.
    pub fn failed(&mut self) {
        self.message().message(STATUS, |status| status.uint(STATUS_CODE, ERROR));
    }

    /// The bytes of the message `Span`.
    pub fn finish(self) -> Box<[u8]> {
        self.0.into()
    }
}

/// The message `ExportTraceServiceRequest` with these spans of one resource.
pub fn trace_request(resource: &[(String, String)], spans: &[Box<[u8]>]) -> Vec<u8> {
    let bytes: usize = spans.iter().map(|span| span.len() + 8).sum();
    let mut out = Vec::with_capacity(bytes + 1024);
    of_resource(&mut out, resource, |of_scope| spans.iter().for_each(|span| of_scope.bytes(2, span)));
    out
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{FieldValue, MessageFields};
    use super::*;

    fn fields(bytes: &[u8]) -> Vec<(u64, FieldValue<'_>)> {
        MessageFields(bytes).collect()
    }

    #[test]
    fn a_span_has_valid_texts_of_bounded_length_whatever_a_client_sends() {
        let times = SpanTimes { start: 1, end: 2 };
        let mut span = SpanEncoder::new(SpanKind::Server, b"/\xff", &[1; 16], &[2; 8], times);
        span.text("http.user_agent", &[0xc3; 10_000]);
        span.text("cut", "aé".repeat(5000).as_bytes());
        span.number("http.status_code", 200);
        span.failed();
        let span = span.finish();
        let texts: Vec<&[u8]> = fields(&span)
            .iter()
            .filter_map(|(field, value)| match value {
                FieldValue::Bytes(pair) if *field == u64::from(ATTRIBUTES) => Some(*pair),
                _ => None,
            })
            .map(|pair| match fields(pair)[1].1 {
                FieldValue::Bytes(any) => any,
                FieldValue::Number(_) => panic!("a value is a message"),
            })
            .collect();
        assert_eq!(texts.len(), 3);
        for text in &texts[..2] {
            let FieldValue::Bytes(text) = fields(text)[0].1 else { panic!("a text") };
            assert!(std::str::from_utf8(text).is_ok() && text.len() <= 3 * MAX_NAME * 2);
        }
        assert_eq!(fields(texts[2]), [(3, FieldValue::Number(200))]);
        let name = fields(&span).iter().find(|(field, _)| *field == u64::from(NAME)).map(|(_, value)| *value);
        assert_eq!(name, Some(FieldValue::Bytes("/\u{fffd}".as_bytes())));
    }

    #[test]
    fn a_request_has_its_resource_and_all_spans() {
        let spans = [Box::from(*b"\x0a\x01a"), Box::from(*b"\x0a\x01b")];
        let request = trace_request(&[("service.name".to_owned(), "web".to_owned())], &spans);
        let inside = |bytes| match fields(bytes)[..] {
            [(1, FieldValue::Bytes(inside))] => fields(inside),
            ref other => panic!("{other:?}"),
        };
        let of_resource = inside(&request);
        let [(1, FieldValue::Bytes(resource)), (2, FieldValue::Bytes(of_scope))] = of_resource[..] else {
            panic!("{of_resource:?}")
        };
        assert!(resource.windows(3).any(|part| part == b"web"));
        let found: Vec<_> = fields(of_scope).into_iter().filter(|(field, _)| *field == 2).collect();
        assert_eq!(found, [(2, FieldValue::Bytes(b"\x0a\x01a")), (2, FieldValue::Bytes(b"\x0a\x01b"))]);
    }
}
