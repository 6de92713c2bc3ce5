//! The variables of the module.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::time::Instant;

use freerun_http::body::collect::{CollectedBody, KeptBody};
use freerun_http::request::Request;
use freerun_http::variables::{Variable, VariableValue};
use freerun_runtime::loops;

/// The state of one request.
#[derive(Default)]
pub(super) struct EchoState {
    /// The time at which `$echo_timer_elapsed` begins, if not with the request.
    pub(super) started: Cell<Option<Instant>>,
    /// The part of the text that `echo_foreach_split` is at.
    pub(super) it: RefCell<Vec<u8>>,
    /// The method of a subrequest.
    pub(super) method: RefCell<Option<Vec<u8>>>,
}

/// The counter of a client's request and its subrequests.
#[derive(Default)]
pub(super) struct Counter(Cell<u64>);

pub(super) const ALL: &[Variable] = &[
    Variable::named("echo_it", "The part of the text that `echo_foreach_split` is at.", |request, _| {
        let state = request.own.find::<EchoState>()?;
        let it = state.it.borrow().clone();
        owned(it)
    }),
    Variable::named(
        "echo_timer_elapsed",
        "Seconds with milliseconds since the request began, or since the last `echo_reset_timer`.",
        |request, _| {
            let started = request.own.find::<EchoState>().and_then(|state| state.started.get());
            let elapsed = loops::now().saturating_duration_since(started.unwrap_or(request.arrival.started));
            owned(format!("{:.3}", elapsed.as_secs_f64()).into_bytes())
        },
    ),
    Variable::named(
        "echo_request_body",
        "The request's body, once `echo_read_request_body` has read it, if it is in memory.",
        |request, _| {
            let kept = request.find_shared::<KeptBody>()?;
            match kept.0.borrow().as_deref()? {
                CollectedBody::Memory(bytes) => owned(bytes.to_vec()),
                CollectedBody::File(_) => None,
            }
        },
    ),
    Variable::named(
        "echo_request_method",
        "The method of the request, in a subrequest that of the subrequest.",
        |request, _| {
            let given = request.own.find::<EchoState>().and_then(|state| state.method.borrow().clone());
            match given {
                Some(method) => owned(method),
                None => Some(Cow::Borrowed(method(request, request.asked.method))),
            }
        },
    ),
    Variable::named(
        "echo_client_request_method",
        "The method of the client's request, in a subrequest too.",
        |request, _| Some(Cow::Borrowed(method(request, request.lineage.main_method.unwrap_or(request.asked.method)))),
    ),
    Variable::named(
        "echo_client_request_headers",
        "The head of the client's request, as it was sent.",
        |request, _| owned(request.head.as_text()),
    ),
    Variable::named(
        "echo_request_uri",
        "The path of the request in its normal form, without arguments.",
        |request, _| Some(Cow::Borrowed(&request.asked.path)),
    ),
    Variable::named(
        "echo_cacheable_request_uri",
        "The same as `$echo_request_uri`, but the value of the first use is kept.",
        |request, _| Some(Cow::Borrowed(&request.asked.path)),
    )
    .kept(),
    Variable::named(
        "echo_incr",
        "A counter of the client's request and its subrequests, which each use increases by one.",
        |request, _| {
            let counter = request.shared().get::<Counter>();
            counter.0.set(counter.0.get() + 1);
            owned(counter.0.get().to_string().into_bytes())
        },
    ),
    Variable::named(
        "echo_response_status",
        "The status of the response; no value before that is known.",
        |request: &Request, _: &str| match request.sent.code() {
            0 => None,
            status => owned(status.to_string().into_bytes()),
        },
    ),
];

fn owned<'r>(value: Vec<u8>) -> VariableValue<'r> {
    Some(Cow::Owned(value))
}

/// The text of a method. An unknown method has the client's text.
fn method(request: &Request, method: freerun_proto::Method) -> &[u8] {
    method.as_str().map_or_else(|| request.head.method_text(), str::as_bytes)
}
