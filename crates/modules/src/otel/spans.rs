//! The spans of a request that has ended.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use freerun_http::request::{Address, Request};
use freerun_proto::{BodyFraming, HeaderId};
use freerun_proxy::state::cache_status;
use freerun_proxy::state::record::{Record, Try};
use freerun_runtime::loops::{self, nanos_of as nanos};
use freerun_serve::upstream::tries::Took;
use freerun_telemetry::new_span_id;
use freerun_telemetry::otlp::{SpanEncoder, SpanKind, SpanTimes};

use super::context::TraceContext;
use super::settings::OtelSettings;
use super::telemetry::Telemetry;

/// The lowest status that is an error of the server (RFC 9110 section 15.6).
const SERVER_ERROR: u16 = 500;

/// The most tries of a request, or of one of its subrequests, that become spans.
const MAX_TRIES: usize = 16;

/// Gives the spans of a request that has ended to the exporter, once.
pub(super) fn export(request: &mut Request) {
    let Some(telemetry) = request.generation.parts.get::<Telemetry>() else { return };
    let context = TraceContext::of(request);
    if !context.take_export() {
        return;
    }
    let clock = SpanClock::now();
    let trace = SpanFamily { telemetry: &telemetry, context: &context, clock };
    // A trace whose span was dropped cannot be looked up.
    if telemetry.push(server_span(request, &context, clock)) {
        request.note_exemplar(context.trace_id, context.span_id, clock.time());
    }
    if let Some(record) = request.own.find::<Record>() {
        trace.export_tries(&record);
    }
    context.each_subrequest(|_, record| trace.export_tries(record));
}

/// The clock of the loop, and the time since 1970 that belongs to it.
#[derive(Clone, Copy)]
struct SpanClock {
    /// The present time in nanoseconds since 1970.
    unix: u64,
    /// The same moment, in [`loops::nanos`].
    own: u64,
}

impl SpanClock {
    fn now() -> SpanClock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        SpanClock { unix: nanos(unix), own: nanos(loops::epoch().elapsed()) }
    }

    /// The present time, which is the end of the request's span.
    fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.unix)
    }

    /// A moment of the loop in nanoseconds since 1970.
    fn at(self, moment: u64) -> u64 {
        let passed = self.own.saturating_sub(moment);
        self.unix.saturating_sub(passed)
    }
}

/// The span of the request, with the attributes of nginx.
fn server_span(request: &Request, context: &TraceContext, clock: SpanClock) -> Box<[u8]> {
    let settings = request.settings().get::<OtelSettings>();
    let route = request.place.location.name.as_bytes();
    let name = settings.otel_span_name.as_ref().map_or(route.into(), |name| name.render(request));
    let start = clock.at(nanos(request.arrival.started.saturating_duration_since(loops::epoch())));
    let times = SpanTimes { start, end: clock.unix.max(start) };
    let mut span = SpanEncoder::new(SpanKind::Server, &name, &context.trace_id, &context.span_id, times);
    if let Some(parent) = &context.parent {
        span.parent(&parent.parent_id);
    }
    if let Some(state) = &context.state {
        span.trace_state(state);
    }
    let head = &request.head;
    span.text("http.method", head.method_text());
    span.text("http.target", head.uri());
    span.text("http.route", route);
    span.text("http.scheme", request.client.scheme().as_bytes());
    span.text("http.flavor", head.version_text().strip_prefix(b"HTTP/").unwrap_or_default());
    if let Some(agent) = head.value(HeaderId::UserAgent) {
        span.text("http.user_agent", agent);
    }
    if let BodyFraming::Length(length) = head.body() {
        span.number("http.request_content_length", signed(length));
    }
    span.number("http.response_content_length", signed(request.sent.body_bytes));
    span.number("http.status_code", request.sent.code().into());
    if let Some(host) = &request.asked.host {
        span.text("net.host.name", host.as_bytes());
    }
    if let Address::Ip(local) = request.client.local() {
        span.number("net.host.port", local.port().into());
    }
    match request.peer() {
        Address::Ip(peer) => {
            span.text("net.sock.peer.addr", peer.ip().to_string().as_bytes());
            span.number("net.sock.peer.port", peer.port().into());
        }
        Address::Unix(_) => span.text("net.sock.peer.addr", b"unix:"),
    }
    if let Some(status) = cache_status::of(request) {
        span.text("freerun.cache.status", status.word().as_bytes());
    }
    for attribute in &settings.otel_span_attr {
        let value = attribute.value.render(request);
        if !value.is_empty() {
            span.text(&attribute.name, &value);
        }
    }
    if request.sent.code() >= SERVER_ERROR {
        span.failed();
    }
    span.finish()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The children of a request's span.
struct SpanFamily<'s> {
    telemetry: &'s Telemetry,
    context: &'s TraceContext,
    clock: SpanClock,
}

impl SpanFamily<'_> {
    /// Exports the tries at upstream servers.
    fn export_tries(&self, record: &Record) {
        record.look(|tries| {
            for one in tries.iter().take(MAX_TRIES) {
                self.export_queue(one);
                self.export_try(one);
            }
        });
    }

    fn child(&self, kind: SpanKind, name: &str, begin: u64, took: Took) -> SpanEncoder {
        let start = self.clock.at(begin);
        // A try that goes on, of a subrequest in the background, ends with what is known of it.
        let end = took.get().map_or(self.clock.unix, |took| start.saturating_add(nanos(took)));
        let times = SpanTimes { start, end: end.max(start) };
        let mut span = SpanEncoder::new(kind, name.as_bytes(), &self.context.trace_id, &new_span_id(), times);
        span.parent(&self.context.span_id);
        span
    }

    /// The time that the request waited for a server of the group.
    fn export_queue(&self, one: &Try) {
        if let Some(waited) = one.own.queue.get().filter(|waited| !waited.is_zero()) {
            let begin = one.began.saturating_sub(nanos(waited));
            self.telemetry.push(self.child(SpanKind::Internal, "queue", begin, one.own.queue).finish());
        }
    }

    fn export_try(&self, one: &Try) {
        let mut span = self.child(SpanKind::Client, "upstream", one.began, one.whole);
        span.text("net.peer.name", one.server.peer().map_or(one.server.name(), |peer| &peer.server).as_bytes());
        span.text("net.sock.peer.addr", one.server.name().as_bytes());
        if one.own.status != 0 {
            span.number("http.status_code", one.own.status.into());
        }
        span.number("http.request_content_length", signed(one.sent));
        span.number("http.response_content_length", signed(one.own.length));
        for (name, took) in [("connected", one.connect), ("response head", one.answer)] {
            if let Some(took) = took.get() {
                span.event(name, self.clock.at(one.began).saturating_add(nanos(took)));
            }
        }
        if one.own.status == 0 || one.own.status >= SERVER_ERROR {
            span.failed();
        }
        self.telemetry.push(span.finish());
    }
}
