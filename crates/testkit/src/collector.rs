//! A collector of OpenTelemetry, which keeps what it is sent. Its decoder of protobuf is independent of the server's encoder.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::http2::{ServerReply, StreamRequest, answering};
use crate::{PATIENCE, ReceivedRequest, TestUpstream, TlsServer};

/// Attributes with their values as texts.
pub type Attributes = BTreeMap<String, String>;

/// The answer of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectorAnswer {
    /// The collector takes each export.
    Takes,
    /// The answer has this code of gRPC, or this status of HTTP.
    Code(u16),
    /// The collector takes the message, and says that it has refused this number of spans.
    Rejects(u8),
    /// The collector reads the message, and does not answer.
    Hangs,
}

/// A span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedSpan {
    /// The identifier of the trace, in hexadecimal digits as the others.
    pub trace_id: String,
    /// The identifier of the span.
    pub span_id: String,
    /// The identifier of the parent; empty if there is none.
    pub parent_id: String,
    /// The `tracestate`.
    pub trace_state: String,
    /// The name.
    pub name: String,
    /// The kind: 1 internal, 2 server, 3 client.
    pub kind: u64,
    /// The start in nanoseconds since 1970.
    pub start: u64,
    /// The end in nanoseconds since 1970.
    pub end: u64,
    /// The attributes.
    pub attributes: Attributes,
    /// The names of the events.
    pub events: Vec<String>,
    /// Whether the status is an error.
    pub is_error: bool,
    /// The attributes of the resource.
    pub resource: Attributes,
}

/// A metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectedMetric {
    /// The name.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The number of the field of its data: 5 gauge, 7 sum, 9 histogram.
    pub kind: u64,
    /// The labels and the value of each point; of a histogram, its count.
    pub points: Vec<(Attributes, f64)>,
}

/// An export.
#[derive(Debug, Clone, Default)]
pub struct CollectedExport {
    /// The path that it was sent to.
    pub path: String,
    /// The fields of its head, with names in lower case.
    pub fields: Attributes,
    /// The spans.
    pub spans: Vec<CollectedSpan>,
    /// The metrics.
    pub metrics: Vec<CollectedMetric>,
}

/// A collector, over gRPC or HTTP.
#[derive(Debug)]
pub struct Collector {
    address: String,
    state: Arc<Mutex<CollectorState>>,
}

#[derive(Debug)]
struct CollectorState {
    answer: CollectorAnswer,
    exports: Vec<CollectedExport>,
}

impl Collector {
    fn on(start: impl FnOnce(Arc<Mutex<CollectorState>>) -> String) -> Collector {
        let state = CollectorState { answer: CollectorAnswer::Takes, exports: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        Collector { address: start(state.clone()), state }
    }

    /// A collector that speaks gRPC.
    pub fn grpc(upstream: TestUpstream) -> Collector {
        Collector::on(|state| answering(upstream, move |asked| by_grpc(&state, asked)).address().to_owned())
    }

    /// A collector that speaks gRPC over TLS, with the certificate of this name.
    pub fn grpc_tls(name: &str) -> Collector {
        Collector::grpc(TestUpstream::tls(TlsServer::new(name).alpn(&["h2"])))
    }

    /// A collector that speaks HTTP.
    pub fn http(upstream: TestUpstream) -> Collector {
        Collector::on(|state| upstream.answer(move |asked| by_http(&state, asked)).address().to_owned())
    }

    /// The address with its port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers in this way from now on.
    pub fn set_answer(&self, answer: CollectorAnswer) {
        self.locked().answer = answer;
    }

    /// The exports that have come and were not taken yet.
    pub fn take_exports(&self) -> Vec<CollectedExport> {
        std::mem::take(&mut self.locked().exports)
    }

    /// The spans of all exports so far.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.locked().exports.iter().flat_map(|export| export.spans.clone()).collect()
    }

    /// The number of exports so far.
    pub fn exports(&self) -> usize {
        self.locked().exports.len()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, CollectorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn by_grpc(state: &Mutex<CollectorState>, asked: &StreamRequest) -> ServerReply {
    let message = asked.message.body.get(5..).unwrap_or_default();
    let fields = asked.message.fields.iter().cloned().collect();
    let answer = keep(state, asked.path(), fields, message);
    let reply = |status: &str, body: &[u8]| {
        let reply = ServerReply { status: 200, ..ServerReply::default() };
        let head = [&[0, 0, 0, 0, u8::try_from(body.len()).expect("a short answer")], body].concat();
        reply.field("content-type", "application/grpc").body(head).trailer("grpc-status", status)
    };
    match answer {
        CollectorAnswer::Takes => reply("0", b""),
        CollectorAnswer::Code(code) => reply(&code.to_string(), b"").trailer("grpc-message", "as the test wants it"),
        CollectorAnswer::Rejects(count) => reply("0", &[0x0a, 2, 8, count]),
        CollectorAnswer::Hangs => {
            std::thread::sleep(Duration::from_secs(3600));
            ServerReply::default()
        }
    }
}

fn by_http(state: &Mutex<CollectorState>, asked: &ReceivedRequest) -> Vec<u8> {
    let fields = asked.head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let answer = keep(state, asked.target(), fields, &asked.body);
    match answer {
        CollectorAnswer::Takes => crate::ok(b""),
        CollectorAnswer::Code(code) => format!("HTTP/1.1 {code} As\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        CollectorAnswer::Rejects(count) => crate::ok([0x0a, 2, 8, count]),
        CollectorAnswer::Hangs => {
            std::thread::sleep(PATIENCE * 100);
            Vec::new()
        }
    }
}

/// Keeps an export unless it is refused, and says how it is answered.
fn keep(state: &Mutex<CollectorState>, path: &str, fields: Attributes, message: &[u8]) -> CollectorAnswer {
    let mut export = CollectedExport { path: path.to_owned(), fields, ..CollectedExport::default() };
    for of_resource in messages(message, 1) {
        let resource = messages(of_resource, 1).flat_map(|resource| attributes(resource, 1)).collect::<Attributes>();
        for of_scope in messages(of_resource, 2) {
            for inside in messages(of_scope, 2) {
                if path.to_ascii_lowercase().contains("metrics") {
                    export.metrics.push(metric(inside));
                } else {
                    export.spans.push(CollectedSpan { resource: resource.clone(), ..span(inside) });
                }
            }
        }
    }
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(state.answer, CollectorAnswer::Takes | CollectorAnswer::Rejects(_)) {
        state.exports.push(export);
    }
    state.answer
}

fn span(message: &[u8]) -> CollectedSpan {
    let mut span = CollectedSpan { attributes: attributes(message, 9).collect(), ..CollectedSpan::default() };
    for (field, value) in fields(message) {
        match (field, value) {
            (1, WireValue::Bytes(id)) => span.trace_id = hex(id),
            (2, WireValue::Bytes(id)) => span.span_id = hex(id),
            (3, WireValue::Bytes(state)) => span.trace_state = text(state),
            (4, WireValue::Bytes(id)) => span.parent_id = hex(id),
            (5, WireValue::Bytes(name)) => span.name = text(name),
            (6, WireValue::Number(kind)) => span.kind = kind,
            (7, WireValue::Number(time)) => span.start = time,
            (8, WireValue::Number(time)) => span.end = time,
            (11, WireValue::Bytes(event)) => span.events.extend(messages(event, 2).map(text)),
            (15, WireValue::Bytes(status)) => span.is_error = fields(status).contains(&(3, WireValue::Number(2))),
            _ => {}
        }
    }
    span
}

fn metric(message: &[u8]) -> CollectedMetric {
    let mut metric = CollectedMetric::default();
    for (field, value) in fields(message) {
        match (field, value) {
            (1, WireValue::Bytes(name)) => metric.name = text(name),
            (3, WireValue::Bytes(unit)) => metric.unit = text(unit),
            (kind @ (5 | 7 | 9), WireValue::Bytes(data)) => {
                metric.kind = kind;
                metric.points = messages(data, 1).map(|point| number_point(point, kind)).collect();
            }
            _ => {}
        }
    }
    metric
}

fn number_point(point: &[u8], kind: u64) -> (Attributes, f64) {
    let labels = attributes(point, if kind == 9 { 9 } else { 7 }).collect();
    let value = fields(point).into_iter().find_map(|(field, value)| match (field, value) {
        (4, WireValue::Number(count)) if kind == 9 => Some(count as f64),
        (4, WireValue::Number(bits)) => Some(f64::from_bits(bits)),
        _ => None,
    });
    (labels, value.unwrap_or_default())
}

/// The value of a field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WireValue<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// The fields of a message.
///
/// # Panics
/// It is malformed.
fn fields(mut message: &[u8]) -> Vec<(u64, WireValue<'_>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message);
        let mut bytes = |count: usize| {
            let (taken, rest) = message.split_at(count);
            message = rest;
            taken
        };
        let value = match tag & 7 {
            0 => WireValue::Number(number(&mut message)),
            1 => WireValue::Number(u64::from_le_bytes(bytes(8).try_into().expect("eight bytes"))),
            5 => WireValue::Number(u32::from_le_bytes(bytes(4).try_into().expect("four bytes")).into()),
            2 => {
                let length = number(&mut message);
                let (taken, rest) = message.split_at(usize::try_from(length).expect("a length"));
                message = rest;
                WireValue::Bytes(taken)
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, value));
    }
    found
}

fn number(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0..10 {
        let (byte, rest) = message.split_first().expect("a byte of a number");
        *message = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes")
}

/// The messages of this field.
fn messages(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter_map(move |(field, value)| match value {
        WireValue::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

/// The attributes of this field.
fn attributes(message: &[u8], field: u64) -> impl Iterator<Item = (String, String)> {
    messages(message, field).map(|pair| {
        let name = messages(pair, 1).map(text).next().unwrap_or_default();
        let value = messages(pair, 2).flat_map(fields).next();
        let value = match value {
            Some((1, WireValue::Bytes(bytes))) => text(bytes),
            Some((3, WireValue::Number(number))) => number.cast_signed().to_string(),
            other => panic!("the attribute {name} has the value {other:?}"),
        };
        (name, value)
    })
}

/// A text, which has to be UTF-8.
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("texts of protobuf are UTF-8")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a string");
        out
    })
}
