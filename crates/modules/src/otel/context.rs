//! The place of a request in its trace.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use freerun_http::request::Request;
use freerun_proto::trace_context::{SpanId, TraceId, TraceParent, trace_state};
use freerun_proxy::state::record::Record;
use freerun_telemetry::{new_span_id, new_trace_id};

use super::settings::OtelSettings;

/// The most subrequests of a request whose tries become spans.
const MAX_SUBREQUESTS: usize = 32;

/// The context of a request and of all its subrequests, made at first use.
#[derive(Default)]
struct SharedContext(OnceCell<Rc<TraceContext>>);

/// The place of a request in its trace.
pub(super) struct TraceContext {
    /// The trace.
    pub(super) trace_id: TraceId,
    /// The span of the request.
    pub(super) span_id: SpanId,
    /// The span that has made the request, if the request says so.
    pub(super) parent: Option<TraceParent>,
    /// The `tracestate` that came with the parent.
    pub(super) state: Option<String>,
    /// Whether the request is traced.
    is_sampled: Cell<bool>,
    /// Whether the span was exported.
    is_exported: Cell<bool>,
    /// The names and the tries of subrequests.
    subrequests: RefCell<Vec<(String, Rc<Record>)>>,
}

impl TraceContext {
    /// The context of a request. If it has none yet, the settings of its location decide whether its fields count.
    pub(super) fn of(request: &Request) -> Rc<TraceContext> {
        let shared = request.shared().get::<SharedContext>();
        shared.0.get_or_init(|| Rc::new(TraceContext::new(request))).clone()
    }

    fn new(request: &Request) -> TraceContext {
        let extracts = request.settings().get::<OtelSettings>().otel_trace_context.extracts();
        let mut values = request.head.values_named(b"traceparent").take(if extracts { 2 } else { 0 });
        // Several fields are as good as none (section 3.2 of the specification knows one).
        let parent = match (values.next(), values.next()) {
            (Some(value), None) => TraceParent::parse(value),
            _ => None,
        };
        let state = parent.and_then(|_| trace_state(request.head.values_named(b"tracestate")));
        TraceContext {
            trace_id: parent.map_or_else(new_trace_id, |parent| parent.trace_id),
            span_id: new_span_id(),
            parent,
            state,
            is_sampled: Cell::new(false),
            is_exported: Cell::new(false),
            subrequests: RefCell::default(),
        }
    }

    /// Decides in a location whether the request is traced. Once it is, it stays so.
    pub(super) fn decide(request: &Request) -> bool {
        let settings = request.settings().get::<OtelSettings>();
        let known = request.find_shared::<SharedContext>();
        if let Some(context) = known.as_ref().and_then(|shared| shared.0.get())
            && context.is_sampled.get()
        {
            return true;
        }
        let is_on = settings.otel_trace.is_on(request);
        if is_on {
            TraceContext::of(request).is_sampled.set(true);
        }
        is_on
    }

    /// Decides whether the request is traced, and notes a subrequest of a traced one. Returns whether it is.
    pub(super) fn enter(request: &Request) -> bool {
        let is_sampled = TraceContext::decide(request);
        if is_sampled && request.is_subrequest() {
            TraceContext::of(request).add_subrequest(request);
        }
        is_sampled
    }

    /// Sets the fields of the request for upstream servers, in a location that wants them. It comes after
    /// [`TraceContext::enter`].
    pub(super) fn inject(request: &mut Request) {
        let mode = request.settings().get::<OtelSettings>().otel_trace_context;
        let context = TraceContext::of(request);
        if context.parent.is_none() || !mode.extracts() {
            // A state belongs to the trace that it came with.
            if request.head.values_named(b"tracestate").next().is_some() {
                request.remove_fields(|name| name.eq_ignore_ascii_case(b"tracestate"));
            }
        }
        let (trace_id, parent_id, is_sampled) = (context.trace_id, context.span_id, context.is_sampled.get());
        request.set_field(b"traceparent", &TraceParent { trace_id, parent_id, is_sampled }.text());
    }

    fn add_subrequest(&self, request: &Request) {
        let mut subrequests = self.subrequests.borrow_mut();
        let record = request.own.get::<Record>();
        // A subrequest that is redirected comes here again.
        let is_new = !subrequests.iter().any(|(_, known)| Rc::ptr_eq(known, &record));
        if is_new && subrequests.len() < MAX_SUBREQUESTS {
            subrequests.push((request.place.location.name.clone(), record));
        }
    }

    /// Calls `look` with the name and the tries of each subrequest.
    pub(super) fn each_subrequest(&self, mut look: impl FnMut(&str, &Record)) {
        self.subrequests.borrow().iter().for_each(|(name, record)| look(name, record));
    }

    /// Whether the spans of the request are to be exported now; `true` once.
    pub(super) fn take_export(&self) -> bool {
        !self.is_exported.replace(true)
    }
}
