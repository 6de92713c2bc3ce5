//! `api`: the state of the worker in the shape of nginx's API, version 9.
//!
//! <https://nginx.org/en/docs/http/ngx_http_api_module.html>
//!
//! `read.rs` finds the object at a path and `object.rs` leaves out fields that are not wanted. What objects consist of is in
//! `counted.rs` and `upstreams.rs`. `write.rs` changes what can be changed: `keyvals.rs` and `servers.rs` say what bodies of
//! requests mean.
//!
//! What nginx's API has no place for is in `freerun/`.

mod body;
mod change_log;
mod counters;
mod error;
mod freerun;
mod keyvals;
mod object;
mod origin;
mod read;
mod servers;
pub(super) mod settings;
mod upstreams;
mod write;

use bytes::Bytes;
use freerun_conf::{Cx, Problem, SettingsSet, group, text_of};
use freerun_http::body::begin_discarding;
use freerun_http::core_variables::request_id;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_http::request::{Address, Request};
use freerun_proto::{Method, Status, uri};
use serde_json::Value;

use super::answer_size::FEW;
use super::open;
use super::status::history;
use super::utf8;
use body::BodyRefused;
use error::ApiError;
pub use freerun::openapi;
use read::{ApiState, VERSIONS};
use settings::ApiSettings;
use write::WriteAnswer;

/// Warns of an API that everybody can ask.
fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    if let Some(api) = settings.get::<ApiSettings>().api {
        open::warn(settings, cx, api.place, "the API");
        history::want(cx);
    }
    Ok(())
}

fn finish(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    settings::keep_paths(cx);
    Ok(())
}

/// The module `api`.
pub static MODULE: Module = Module {
    name: "api",
    groups: &[group::<ApiSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    content: &["api"],
    settle: Some(settle),
    finish: Some(finish),
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<ApiSettings>().api.is_some()
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        let path = below(request);
        if let Some(parts) = freerun::inside(&path) {
            return answer_own(request, &parts).await;
        }
        let answered = match request.asked.method {
            Method::Get | Method::Head => match begin_discarding(request) {
                Ok(()) => read(request).await.map(|text| respond(200, text)),
                Err(status) => Err(ApiFailure::Status(status)),
            },
            _ => change(request).await.map(|WriteAnswer { status, value, is_undone }| {
                let mut response = respond(status, value.map_or(Vec::new(), |value| text(&value)));
                if is_undone {
                    response.add(Bytes::from_static(NOTE), Bytes::from_static(UNDONE));
                }
                response
            }),
        };
        match answered {
            Ok(response) => response.into(),
            Err(ApiFailure::Refused(error)) => {
                if let Err(status) = begin_discarding(request) {
                    return Outcome::Status(status);
                }
                let (status, _) = error.status_and_code();
                let mut response = respond(status, text(&error.body(&request_id(request))));
                if status == 405 {
                    response.add(Bytes::from_static(b"Allow"), allowed(request, &path));
                }
                response.into()
            }
            Err(ApiFailure::Status(status)) => Outcome::Status(status),
        }
    })
}

/// The field of a response that says of a change what its body, which has nginx's form, has no place for.
const NOTE: &[u8] = b"Freerun-Note";

/// The value of `Freerun-Note` after a change of servers that no file keeps.
const UNDONE: &[u8] = b"the next reload undoes this: the group has no state file";

/// The methods that do something at a path below the location.
fn allowed(request: &Request, path: &str) -> &'static str {
    match versioned(path) {
        Ok(Some(inside)) => write::allowed(&inside, may_write(request)),
        _ => write::allowed(&[], false),
    }
}

/// Whether the location may be used to change something.
fn may_write(request: &Request) -> bool {
    request.settings().get::<ApiSettings>().api.is_some_and(|api| api.write)
}

/// Answers for these parts of the path in freerun's own API.
async fn answer_own(request: &mut Request, parts: &[&str]) -> Outcome {
    let (source, may_write) = (source(request), may_write(request));
    let reply = match freerun::answer(request, source, parts, may_write).await {
        Ok(reply) => reply,
        Err(status) => return Outcome::Status(status),
    };
    if let Err(status) = begin_discarding(request) {
        return Outcome::Status(status);
    }
    let mut response = respond(reply.status, reply.text);
    if let Some(allow) = reply.allow {
        response.add(Bytes::from_static(b"Allow"), allow);
    }
    response.into()
}

/// The reason why there is no answer.
enum ApiFailure {
    /// The API says so.
    Refused(ApiError),
    /// The server could not make it.
    Status(Status),
}

impl From<ApiError> for ApiFailure {
    fn from(error: ApiError) -> ApiFailure {
        ApiFailure::Refused(error)
    }
}

impl From<BodyRefused> for ApiFailure {
    fn from(refused: BodyRefused) -> ApiFailure {
        match refused {
            BodyRefused::TooLong => ApiFailure::Status(Status::CONTENT_TOO_LARGE),
            BodyRefused::Unread => ApiError::BodyRead.into(),
            BodyRefused::NoJson(why) => ApiError::Json(why).into(),
            BodyRefused::Status(status) => ApiFailure::Status(status),
        }
    }
}

/// The part of the path that is behind the location.
fn below(request: &Request) -> String {
    let path = text_of(&request.asked.path);
    path.strip_prefix(&*request.place.location.name).unwrap_or(&path).to_owned()
}

fn source(request: &Request) -> ApiState {
    let shared = request.client.loop_state.shared.clone();
    let generation = shared.generation.load_full();
    ApiState { shared, generation, address: address(request) }
}

fn argument(request: &Request, name: &[u8]) -> Option<String> {
    let value = uri::argument(request.asked.args.as_deref()?, name)?;
    Some(text_of(&uri::unescape(value)).into_owned())
}

fn text(value: &Value) -> Vec<u8> {
    utf8::shown(value.to_string())
}

/// The text of the object that is asked for.
async fn read(request: &Request) -> Result<Vec<u8>, ApiFailure> {
    let path = below(request);
    let (fields, key) = (argument(request, b"fields"), argument(request, b"key"));
    let source = source(request);
    let is_long = source.size() > FEW;
    let make = move || -> Result<Vec<u8>, ApiError> {
        let Some(inside) = versioned(&path)? else { return Ok(text(&VERSIONS.collect())) };
        let fields: Option<Vec<&str>> =
            fields.as_ref().map(|fields| fields.split(',').filter(|name| !name.is_empty()).collect());
        Ok(text(&source.object(&inside, key.as_deref())?.with_fields(fields.as_deref())))
    };
    if !is_long {
        return make().map_err(ApiFailure::Refused);
    }
    match request.generation.pools.cpu().run(request.client_key(), make).await {
        Ok(made) => made.map_err(ApiFailure::Refused),
        Err(error) => {
            log_error!(request, Error, "api: {error}");
            Err(ApiFailure::Status(Status::SERVICE_UNAVAILABLE))
        }
    }
}

async fn change(request: &mut Request) -> Result<WriteAnswer, ApiFailure> {
    if !matches!(request.asked.method, Method::Post | Method::Patch | Method::Delete) {
        return Err(ApiError::MethodNotAllowed.into());
    }
    let path = below(request);
    let inside = versioned(&path)?.ok_or(ApiError::MethodNotAllowed)?;
    if !may_write(request) {
        return Err(ApiError::MethodDisabled.into());
    }
    if origin::is_of_other_origin(request) {
        log_error!(request, Error, "api: a page of another server wants to change something");
        return Err(ApiError::OtherOrigin.into());
    }
    let source = source(request);
    write::change(request, source, &inside).await
}

/// The parts of a path below the location that are behind the version; `None`: there is no version.
fn versioned(path: &str) -> Result<Option<Vec<&str>>, ApiError> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let Some(version) = parts.next() else { return Ok(None) };
    if version.starts_with('0') || !version.parse().is_ok_and(|version: u8| VERSIONS.contains(&version)) {
        return Err(ApiError::UnknownVersion);
    }
    Ok(Some(parts.collect()))
}

/// The address that the request has come to, without the port.
fn address(request: &Request) -> String {
    match request.client.local() {
        Address::Ip(address) => address.ip().to_string(),
        Address::Unix(path) => format!("unix:{path}"),
    }
}

fn respond(status: u16, text: Vec<u8>) -> Box<Response> {
    let body = if text.is_empty() { Body::Empty } else { Body::Bytes(text.into()) };
    let mut response = Response::new(Status::new(status), &b"application/json"[..], body);
    response.add(Bytes::from_static(b"Cache-Control"), Bytes::from_static(b"no-cache"));
    response.add(Bytes::from_static(b"X-Content-Type-Options"), Bytes::from_static(b"nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_versions_are_alike_and_others_unknown() {
        for path in ["", "/", "//"] {
            assert_eq!(versioned(path), Ok(None));
        }
        for path in ["1/http/requests", "/9/http/requests/", "//5//http/requests"] {
            assert_eq!(versioned(path), Ok(Some(vec!["http", "requests"])));
        }
        for path in ["0", "10", "01", "x", "-1", "9a", "nginx"] {
            assert_eq!(versioned(path), Err(ApiError::UnknownVersion), "{path}");
        }
    }
}
