//! The directives about traces and metrics, and their values.

use std::time::Duration;

use freerun_conf::{Cx, Many, Node, Problem, Shape, Value, keyword_enum, parse_time, settings};
use freerun_http::request::Request;
use freerun_http::template::Template;

/// The interval of metrics if `otel_metrics` names none, as the exporters of OpenTelemetry have it.
const METRICS_INTERVAL: Duration = Duration::from_secs(60);

keyword_enum! {
    /// The use of the fields `traceparent` and `tracestate` of a request.
    #[derive(Default)]
    pub enum ContextMode {
        /// The fields decide about the trace of the request.
        Extract = "extract",
        /// Upstream servers get fields of a new trace.
        Inject = "inject",
        /// The trace of the request goes on, and upstream servers get its fields.
        Propagate = "propagate",
        /// Nobody looks at the fields.
        #[default]
        Ignore = "ignore",
    }
}

impl ContextMode {
    /// Whether the trace of the request goes on.
    pub fn extracts(self) -> bool {
        matches!(self, ContextMode::Extract | ContextMode::Propagate)
    }

    /// Whether upstream servers get fields of the trace.
    pub fn injects(self) -> bool {
        matches!(self, ContextMode::Inject | ContextMode::Propagate)
    }
}

settings! {
    /// Traces of requests and metrics of the server, by OpenTelemetry.
    #[module = "otel"]
    pub struct OtelSettings {
        /// The attribute `service.name` of the server's spans and metrics.
        otel_service_name: String = "unknown_service:nginx", in HTTP;
        /// Adds an attribute of the resource that all spans and metrics belong to, such as `deployment.environment`.
        otel_resource_attr: Many<ResourceAttribute>, in HTTP;
        /// Whether requests are traced: each becomes a span that `otel_exporter` exports. A variable decides request by request,
        /// by the value `on` or `1` that it has when the location is chosen.
        ///
        /// A request that was decided to be traced stays traced, wherever internal redirects lead it. The span is of the kind
        /// "server" and begins with the first byte of the request. It has the attributes that nginx gives it: `http.method`,
        /// `http.target`, `http.route`, `http.scheme`, `http.flavor`, `http.user_agent`, `http.request_content_length`,
        /// `http.response_content_length`, `http.status_code`, `net.host.name`, `net.host.port`, `net.sock.peer.addr` and
        /// `net.sock.peer.port`. With a cache it has `freerun.cache.status` too. Its status is an error if the response has
        /// the status 500 or above.
        ///
        /// Each try to have the request answered by an upstream server is a child, a span of the kind "client", also for
        /// subrequests. Its events say when the connection and the head of the response were there. The time in the group's
        /// `queue` is a span of its own. Upstream servers that continue the trace are children of the request's span, as with
        /// nginx.
        ///
        /// An attribute has at most 2048 bytes. Spans that find the queue of the exporter full are dropped, and counted in
        /// `status`.
        otel_trace: TraceSwitch = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("requests that `return` answers at the level of the server are traced too; spans of tries are added");
        /// The use of the fields `traceparent` and `tracestate` (W3C Trace Context).
        ///
        /// | value | |
        /// |---|---|
        /// | `extract` | the request belongs to the trace that its fields name |
        /// | `inject` | upstream servers get fields of a trace that begins here, in the place of the request's own |
        /// | `propagate` | both: the request belongs to the trace, and upstream servers hear of it |
        /// | `ignore` | the fields are neither looked at nor changed |
        ///
        /// The fields are set in locations with `proxy_pass`, `grpc_pass`, `fastcgi_pass`, `scgi_pass` or `uwsgi_pass`. In others,
        /// `$http_traceparent` is what the client has sent.
        otel_trace_context: ContextMode = "ignore", in HTTP | SERVER | LOCATION;
        /// The name of the span. By default it is the name of the location.
        otel_span_name: Option<Template>, in HTTP | SERVER | LOCATION;
        /// Adds an attribute to the span, unless its value is empty.
        otel_span_attr: Many<SpanAttribute>, in HTTP | SERVER | LOCATION,
            fidelity = Differs("an attribute without a value is left out");
        /// Exports the metrics of the server by OTLP, to the collector of `otel_exporter`: the same that `status prometheus` has, with the
        /// same names and labels. They are sent every `interval`, a minute by default.
        otel_metrics: MetricsSetting = "off", in HTTP, fidelity = Own;
    }
}

/// The value of `otel_trace`.
#[derive(Debug, Clone)]
pub enum TraceSwitch {
    /// No request is traced.
    Off,
    /// Each request is traced.
    On,
    /// A variable decides.
    Variable(Template),
}

impl Value for TraceSwitch {
    const SHAPE: Shape = Shape::exactly(1, "on | off | $variable");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TraceSwitch, Problem> {
        let word = &directive.args[0];
        match word.text.as_str() {
            "on" => Ok(TraceSwitch::On),
            "off" => Ok(TraceSwitch::Off),
            text if text.contains('$') => Template::parse(word, cx).map(TraceSwitch::Variable),
            _ => Err(Problem::invalid_value(directive, word).hint("it is \"on\", \"off\" or a variable")),
        }
    }
}

impl TraceSwitch {
    /// Whether this request is traced.
    pub fn is_on(&self, request: &Request) -> bool {
        match self {
            TraceSwitch::Off => false,
            TraceSwitch::On => true,
            TraceSwitch::Variable(text) => matches!(&*text.render(request), b"on" | b"1"),
        }
    }
}

/// The value of `otel_resource_attr`.
#[derive(Debug, Clone)]
pub struct ResourceAttribute {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Value for ResourceAttribute {
    const SHAPE: Shape = Shape::exactly(2, "name value");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<ResourceAttribute, Problem> {
        let text = |index: usize| directive.args[index].text.clone();
        Ok(ResourceAttribute { name: text(0), value: text(1) })
    }
}

/// The value of `otel_span_attr`.
#[derive(Debug, Clone)]
pub struct SpanAttribute {
    /// The name.
    pub name: String,
    /// The value, with variables.
    pub value: Template,
}

impl Value for SpanAttribute {
    const SHAPE: Shape = Shape::exactly(2, "name value");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<SpanAttribute, Problem> {
        Ok(SpanAttribute { name: directive.args[0].text.clone(), value: Template::parse(&directive.args[1], cx)? })
    }
}

/// The value of `otel_metrics`: the interval, if metrics are exported.
#[derive(Debug, Clone, Copy)]
pub struct MetricsSetting(pub Option<Duration>);

impl Value for MetricsSetting {
    const SHAPE: Shape = Shape::between(1, 2, "on | off [interval=time]");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<MetricsSetting, Problem> {
        let word = &directive.args[0];
        let is_on = match word.text.as_str() {
            "on" => true,
            "off" => false,
            _ => return Err(Problem::invalid_value(directive, word).hint("it is \"on\" or \"off\"")),
        };
        let interval = match directive.args.get(1) {
            None => METRICS_INTERVAL,
            Some(word) => {
                let time = word.text.strip_prefix("interval=").and_then(parse_time).filter(|time| !time.is_zero());
                time.ok_or_else(|| Problem::invalid_parameter(directive, word))?
            }
        };
        Ok(MetricsSetting(is_on.then_some(interval)))
    }
}
