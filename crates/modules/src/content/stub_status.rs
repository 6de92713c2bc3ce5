//! `stub_status`: nginx's basic counters, and the `$connections_…` variables.

use std::borrow::Cow;

use freerun_conf::{SettingsSet, group, settings};
use freerun_http::body;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, Response};
use freerun_http::values::switch::Present;
use freerun_http::variables::{Variable, VariableValue};
use freerun_proto::{Method, Status};

settings! {
    /// nginx's basic counters.
    #[module = "stub_status"]
    pub struct StubStatusSettings {
        /// Answers with the numbers of connections and requests. The argument of old versions has no effect.
        ///
        /// The directive `status` shows more.
        stub_status: Present<1>, in SERVER | LOCATION, local;
    }
}

/// The module `stub_status`.
pub static MODULE: Module = Module {
    name: "stub_status",
    groups: &[group::<StubStatusSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Now(answer) }],
    content: &["stub_status"],
    variables: &[
        Variable::named(
            "connections_active",
            "Connections of clients that are open, idle ones included.",
            |request, _| number(StubFigures::of(request).active),
        ),
        Variable::named("connections_reading", "Connections that a request's head is being read of.", |request, _| {
            number(StubFigures::of(request).reading)
        }),
        Variable::named(
            "connections_writing",
            "Connections that a response is being made for, or sent to.",
            |request, _| number(StubFigures::of(request).writing),
        ),
        Variable::named("connections_waiting", "Connections that are idle between requests.", |request, _| {
            number(StubFigures::of(request).waiting)
        }),
    ],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<StubStatusSettings>().stub_status.0
}

fn number<'r>(value: u64) -> VariableValue<'r> {
    Some(Cow::Owned(value.to_string().into_bytes()))
}

/// The sums over all loops.
#[derive(Debug, Default)]
struct StubFigures {
    active: u64,
    accepted: u64,
    /// Of these, the connections that were not closed at once for want of room.
    handled: u64,
    requests: u64,
    reading: u64,
    writing: u64,
    waiting: u64,
}

impl StubFigures {
    fn of(request: &Request) -> StubFigures {
        let mut sums = StubFigures::default();
        for stats in &request.client.loop_state.shared.loops.load().stats {
            sums.active += stats.active.get();
            let handled = stats.accepted.get();
            sums.accepted += handled + stats.dropped.get();
            sums.handled += handled;
            sums.requests += stats.requests.get();
            sums.reading += stats.reading.get();
            sums.waiting += stats.idle.get() + stats.fresh.get();
        }
        // The counters are read one after the other, while they change.
        sums.writing = sums.active.saturating_sub(sums.reading + sums.waiting);
        sums
    }
}

fn answer(request: &mut Request) -> Outcome {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Outcome::Status(Status::METHOD_NOT_ALLOWED);
    }
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let StubFigures { active, accepted, handled, requests, reading, writing, waiting } = StubFigures::of(request);
    let text = format!(
        "Active connections: {active} \n\
         server accepts handled requests\n \
         {accepted} {handled} {requests} \n\
         Reading: {reading} Writing: {writing} Waiting: {waiting} \n"
    );
    Response::new(Status::OK, &b"text/plain"[..], Body::Bytes(text.into())).into()
}
