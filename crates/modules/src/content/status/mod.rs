//! The module `status`: the state of the worker as JSON, for Prometheus, or as a page.
//!
#![doc = include_str!("fields.md")]

mod acme;
pub(super) mod caches;
pub(super) mod cluster;
pub(super) mod figures;
pub(super) mod history;
mod http2;
pub(super) mod key;
pub(super) mod limits;
mod page;
pub(super) mod problem;
mod problems;
mod process;
mod prometheus;
mod quic;
mod resolvers;
pub(super) mod routes;
mod samples;
mod sessions;
mod telemetry;
#[cfg(test)]
mod tests;
mod tls;
pub(super) mod upstreams;
pub(super) mod zones;

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Problem, SettingsSet, group, settings};
use freerun_http::body;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_proto::{Method, Status, uri};
use freerun_runtime::log::{Errno, Level};
use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::tls::sessions::ServedTls;

use super::answer_size::{FEW, zones_and_servers};
use super::api::settings::write_path;
use super::open::{self, DirectivePlace};
use super::utf8;
use key::AskedKey;

settings! {
    /// The state of the worker.
    #[module = "status"]
    pub struct StatusSettings {
        /// Answers with the state and the counters of the worker: connections, event loops, thread pools, mounts, logs,
        /// zones of servers and locations, upstream groups, resolvers, caches, TLS, certificates by ACME.
        ///
        /// The answer is JSON, or with the argument `format=prometheus` text for Prometheus. For a browser (a client
        /// that prefers `text/html`, or `format=html`) it is a page that shows the figures and how they change. With
        /// `cache=NAME` and `key=TEXT` it is about one key of a cache: where the response is, how fresh it is, and why.
        /// With `history=on` it is the history of the last fifteen minutes, in JSON, and with `routes=on` the list of the
        /// servers and locations of the configuration. In the page, with a location of the same server that has
        /// `api write=on`, servers of groups are drained, taken out and brought back, and keys of caches purged.
        ///
        /// A client whose `Accept` names `application/openmetrics-text`, and prefers nothing else, gets OpenMetrics 1.0 instead,
        /// with `format=prometheus` too. By default Prometheus asks so. `format=openmetrics` is OpenMetrics for any client. Its
        /// samples have the same names, labels and values, and it differs in this:
        ///
        /// | | text for Prometheus | OpenMetrics |
        /// |---|---|---|
        /// | `Content-Type` | `text/plain; version=0.0.4` | `application/openmetrics-text; version=1.0.0` |
        /// | name of a counter in `# HELP` and `# TYPE` | with `_total` | without |
        /// | bound of the first bucket of a histogram | `le="0.000001"` | `le="1e-06"` |
        /// | traces of `otel_trace` behind the buckets of a zone's durations | none | one exemplar for each bucket |
        /// | last line | a sample | `# EOF` |
        ///
        /// So queries that name the bound of the first bucket have to name the other one; `histogram_quantile` takes both. With
        /// `scrape_protocols: [PrometheusText0.0.4]` Prometheus asks for the text.
        ///
        /// The answer contains paths of the machine, so restrict the access to it. A web page may read it through the
        /// browser of a person with access, if the page's owner lets its name stand for an address of yours (DNS
        /// rebinding). Against that, give the server a `server_name`, and have a `default_server` answer all other
        /// names with 444.
        ///
        /// In the text for Prometheus, an upstream server is named by the labels `upstream` and `server`, its address.
        /// If an address occurs more than once in a group, the further servers have the label `nth` too, `2` and so on
        /// in the order of the group. Groups that variables have computed have the label `computed`; of these, up to
        /// 256 servers are shown, in the order of the names, without histograms. Resolvers with the same `status_zone`
        /// are added up. A certificate is named by `file`, `subject`, `names`, `key` (the kind) and `issuer`; further
        /// certificates with the same values have the label `nth`.
        status: Option<DirectivePlace>, in LOCATION, local, fidelity = Own;
    }
}

/// Fields of the answers of `status`: Markdown, for the reference.
pub const FIELDS: &str = include_str!("fields.md");

/// The module `status`.
pub static MODULE: Module = Module {
    name: "status",
    groups: &[group::<StatusSettings>()],
    handlers: &[
        Handler { phase: Phase::Content, wanted, run: Run::NowOrLater(answer, answer_later) },
        Handler { phase: Phase::Content, wanted, run: Run::Later(explain) },
    ],
    content: &["status"],
    settle: Some(settle),
    finish: Some(finish),
    begin: Some(begin),
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<StatusSettings>().status.is_some()
}

/// Warns of a status that everybody can ask for.
fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    if let Some(DirectivePlace(place)) = settings.get::<StatusSettings>().status {
        open::warn(settings, cx, place, "the status");
        history::want(cx);
    }
    Ok(())
}

fn finish(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    history::declare(cx);
    Ok(())
}

/// Has the history go on.
fn begin(generation: &Arc<Generation>, shared: &Arc<SharedState>) {
    telemetry::begin(generation, shared, |shared| prometheus::text(&history::judged_figures(shared)));
    if let Some(history) = history::of(generation)
        && let Err(error) = history.begin(shared)
    {
        let told = format_args!("status has no history: the thread for it cannot be started ({})", Errno(&error));
        generation.error_log.write(Level::Alert, None, told);
    }
}

/// The format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatusFormat {
    Json,
    Prometheus,
    OpenMetrics,
    Html,
}

impl StatusFormat {
    /// The format that the arguments ask for, or the client's `Accept`; `None`: an unknown format.
    fn asked(args: Option<&[u8]>, accept: &[u8]) -> Option<StatusFormat> {
        match args.and_then(|args| uri::argument(args, b"format")) {
            None if page::preferred(accept) => Some(StatusFormat::Html),
            None | Some(b"prometheus") if prometheus::prefers_open_metrics(accept) => Some(StatusFormat::OpenMetrics),
            None | Some(b"json") => Some(StatusFormat::Json),
            Some(b"prometheus") => Some(StatusFormat::Prometheus),
            Some(b"openmetrics") => Some(StatusFormat::OpenMetrics),
            Some(b"html") => Some(StatusFormat::Html),
            Some(_) => None,
        }
    }

    /// The format that a request asks for; `None`: an unknown format.
    fn of(request: &Request) -> Option<StatusFormat> {
        let accept = request.head.values_named(b"accept").next().unwrap_or_default();
        StatusFormat::asked(request.asked.args.as_deref(), accept)
    }

    /// The text of the answer, with all counters as they are now.
    fn text(self, shared: &SharedState) -> serde_json::Result<Bytes> {
        let figures = || history::judged_figures(shared);
        Ok(match self {
            StatusFormat::Json => utf8::json(&figures())?.into(),
            StatusFormat::Prometheus => utf8::shown(prometheus::text(&figures())).into(),
            StatusFormat::OpenMetrics => utf8::shown(prometheus::open_metrics(&figures())).into(),
            StatusFormat::Html => page::text(None),
        })
    }

    /// The response with this text. No cache keeps it, and it depends on what the client accepts.
    fn response(self, text: Bytes) -> Box<Response> {
        let content_type = match self {
            StatusFormat::Json => "application/json",
            StatusFormat::Prometheus => prometheus::CONTENT_TYPE,
            StatusFormat::OpenMetrics => prometheus::OPEN_METRICS_TYPE,
            StatusFormat::Html => page::CONTENT_TYPE,
        };
        let mut response = Response::new(Status::OK, content_type, Body::Bytes(text));
        response.add(Bytes::from_static(b"Cache-Control"), Bytes::from_static(b"no-store"));
        response.add(Bytes::from_static(b"Vary"), Bytes::from_static(b"Accept"));
        // Names in the text may have come from clients: a browser takes it for nothing but what it is.
        response.add(Bytes::from_static(b"X-Content-Type-Options"), Bytes::from_static(b"nosniff"));
        if self == StatusFormat::Html {
            page::protect(&mut response);
        }
        response
    }
}

fn answer(request: &mut Request) -> Option<Outcome> {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Some(Outcome::Status(Status::METHOD_NOT_ALLOWED));
    }
    if argument(request, b"cache").is_some() {
        return Some(Outcome::Declined);
    }
    if Section::of(request).is_some() {
        return None;
    }
    let Some(format) = StatusFormat::of(request) else { return Some(Outcome::Status(Status::BAD_REQUEST)) };
    let shared = request.client.loop_state.shared.clone();
    if format != StatusFormat::Html && size(&shared.generation.load()) > FEW {
        return None;
    }
    if let Err(status) = body::begin_discarding(request) {
        return Some(Outcome::Status(status));
    }
    if format == StatusFormat::Html {
        let text = page::text(write_path(request).as_deref());
        return Some(outcome(request, format, Ok(text)));
    }
    Some(outcome(request, format, format.text(&shared)))
}

/// Answers as [`answer`] does, with a text that the pool makes.
fn answer_later(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        let Some(format) = StatusFormat::of(request) else { return Outcome::Status(Status::BAD_REQUEST) };
        let shared = request.client.loop_state.shared.clone();
        let section = Section::of(request);
        let format = if section.is_some() { StatusFormat::Json } else { format };
        let make = move || match section {
            Some(section) => section.text(&shared.generation.load()),
            None => format.text(&shared),
        };
        let text = request.generation.pools.cpu().run(request.client_key(), make).await;
        match text {
            Ok(text) => outcome(request, format, text),
            Err(error) => {
                log_error!(request, Error, "status: {error}");
                Outcome::Status(Status::SERVICE_UNAVAILABLE)
            }
        }
    })
}

/// The size of an answer: the number of its objects, since a configuration may have thousands.
fn size(generation: &Generation) -> usize {
    zones_and_servers(generation) + generation.parts.get::<ServedTls>().map_or(0, |served| served.0.len())
}

/// The value of an argument, percent-decoded.
fn argument(request: &Request, name: &[u8]) -> Option<Vec<u8>> {
    let value = uri::argument(request.asked.args.as_deref()?, name)?;
    Some(uri::unescape(value).into_owned())
}

/// A part of the state that is no part of the ordinary answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// The history of the last minutes.
    History,
    /// The servers and locations of the configuration.
    Routes,
}

impl Section {
    /// The section that a request asks for, in place of the present state.
    fn of(request: &Request) -> Option<Section> {
        let is_asked = |name: &[u8]| argument(request, name).is_some();
        match () {
            () if is_asked(b"history") => Some(Section::History),
            () if is_asked(b"routes") => Some(Section::Routes),
            () => None,
        }
    }

    /// The text of the section, in JSON.
    fn text(self, generation: &Generation) -> serde_json::Result<Bytes> {
        let text = match self {
            Section::History => utf8::json(&history::show(generation)),
            Section::Routes => utf8::json(&routes::collect(generation)),
        };
        Ok(text?.into())
    }
}

/// Answers with the state of one key of a cache.
fn explain(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        let name = argument(request, b"cache").unwrap_or_default();
        let Some(asked) = AskedKey::new(argument(request, b"key"), argument(request, b"hash")) else {
            return Outcome::Status(Status::BAD_REQUEST);
        };
        let Some(cache) = caches::find(&request.generation, &name) else { return Outcome::Status(Status::NOT_FOUND) };
        match key::explain_to(request, &cache, &asked).await {
            Some(explained) => outcome(request, StatusFormat::Json, utf8::json(&explained).map(Bytes::from)),
            None => Outcome::Status(Status::INTERNAL_SERVER_ERROR),
        }
    })
}

fn outcome(request: &Request, format: StatusFormat, text: serde_json::Result<Bytes>) -> Outcome {
    match text {
        Ok(text) => format.response(text).into(),
        Err(error) => {
            log_error!(request, Error, "status cannot be written as JSON ({error})");
            Outcome::Status(Status::INTERNAL_SERVER_ERROR)
        }
    }
}
