//! Changes by the API (`write=on`).

use std::sync::Arc;

use freerun_cluster::Cluster;
use freerun_http::body::begin_discarding;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_proto::{Method, Status};
use freerun_runtime::pool::Tag;
use freerun_serve::configuration::unsaved_states;
use freerun_serve::values::keyvals::{self, KeyvalZone};
use serde_json::Value;

use super::ApiFailure;
use super::body;
use super::change_log;
use super::error::ApiError;
use super::keyvals as pairs;
use super::read::ApiState;
use super::servers::{self, ServerParameters};
use super::upstreams::{self, Protocol};

/// The longest body in bytes.
const MAX_BODY: usize = 1 << 20;

/// The answer to a change.
pub struct WriteAnswer {
    /// The status.
    pub status: u16,
    /// The body, if there is one.
    pub value: Option<Value>,
    /// Whether the next reload undoes the change.
    pub is_undone: bool,
}

/// The methods that do something at a path behind the version, for `Allow`.
pub fn allowed(path: &[&str], may_write: bool) -> &'static str {
    match path {
        ["http" | "stream", "keyvals", _] if may_write => "GET, HEAD, POST, PATCH, DELETE",
        ["http" | "stream", "upstreams", _, "servers"] if may_write => "GET, HEAD, POST",
        ["http" | "stream", "upstreams", _, "servers", _] if may_write => "GET, HEAD, PATCH, DELETE",
        _ => "GET, HEAD",
    }
}

/// Changes what is at a path behind the version.
///
/// # Errors
/// Nothing has changed.
pub async fn change(request: &mut Request, source: ApiState, path: &[&str]) -> Result<WriteAnswer, ApiFailure> {
    let protocol = match path.first() {
        Some(&"http") => Protocol::Http,
        Some(&"stream") => Protocol::Stream,
        _ => return not_changed(request, &source, path),
    };
    match (request.asked.method, &path[1..]) {
        (method @ (Method::Post | Method::Patch | Method::Delete), ["keyvals", name]) => {
            let zone = source.keyvals(protocol).get(*name).cloned().ok_or(ApiError::KeyvalNotFound)?;
            let has_timeout = zone.timeout.is_some();
            let zone_name = (*name).to_owned();
            let change = match method {
                Method::Post => pairs::added(&json(request).await?, has_timeout)?,
                Method::Patch => pairs::patched(&json(request).await?, has_timeout)?,
                _ => {
                    discard(request)?;
                    keyvals::PairChange::Clear
                }
            };
            match shared(&source, &zone) {
                Some(cluster) => cluster.change_pairs(name, change).await.map_err(ApiError::from)?,
                None => {
                    let log = source.generation.error_log.clone();
                    let changed = in_pool(request, move || {
                        zone.pairs.change(&change, zone.timeout)?;
                        if let Some(state) = &zone.state {
                            let pairs = zone.pairs.clone();
                            unsaved_states::write(state, &log, move || pairs.save());
                        }
                        Ok(())
                    });
                    changed.await??;
                }
            }
            // Pairs may be secrets.
            change_log::note(request, format_args!("pairs of keyval_zone \"{zone_name}\" are changed"));
            Ok(WriteAnswer { status: if method == Method::Post { 201 } else { 204 }, value: None, is_undone: false })
        }
        (Method::Post, ["upstreams", name, "servers"]) => {
            let group = source.group(protocol, name)?;
            let parameters = ServerParameters::parse(&json(request).await?, protocol)?;
            let log = source.generation.error_log.clone();
            let is_undone = group.state().is_none();
            let shown = in_pool(request, move || {
                let added = servers::apply(group, &servers::ServerChange::Add(parameters), &log)?;
                Ok(upstreams::written(&added, protocol))
            });
            let shown = shown.await??;
            change_log::note(request, format_args!("upstream \"{name}\": a server is added: {shown}"));
            Ok(WriteAnswer { status: 201, value: Some(shown), is_undone })
        }
        (method @ (Method::Patch | Method::Delete), ["upstreams", name, "servers", id]) => {
            let group = source.group(protocol, name)?;
            let id: u32 = id.parse().map_err(|_| ApiError::BadServerId)?;
            let mut wanted = None;
            let change = match method {
                Method::Patch => {
                    let body = wanted.insert(json(request).await?);
                    servers::ServerChange::Set(id, ServerParameters::parse(body, protocol)?)
                }
                _ => {
                    discard(request)?;
                    servers::ServerChange::Remove(id)
                }
            };
            let log = source.generation.error_log.clone();
            let is_undone = group.state().is_none();
            let shown = in_pool(request, move || {
                let changed = servers::apply(group.clone(), &change, &log)?;
                let server = changed.server.text.to_string();
                let shown = match change {
                    servers::ServerChange::Remove(_) => upstreams::configured(&*group, protocol).into(),
                    _ => upstreams::written(&changed, protocol),
                };
                Ok((server, shown))
            });
            let (server, shown) = shown.await??;
            match wanted {
                Some(wanted) => {
                    change_log::note(
                        request,
                        format_args!("upstream \"{name}\": server {server} is changed: {wanted}"),
                    );
                }
                None => change_log::note(request, format_args!("upstream \"{name}\": server {server} is removed")),
            }
            Ok(WriteAnswer { status: 200, value: Some(shown), is_undone })
        }
        _ => not_changed(request, &source, path),
    }
}

/// The cluster that a zone of pairs is shared by. `None`: its pairs concern this machine alone.
fn shared(source: &ApiState, zone: &KeyvalZone) -> Option<Arc<Cluster>> {
    zone.sync?;
    source.generation.parts.get::<Cluster>()
}

/// The answer for what is there, or not, and cannot be changed.
fn not_changed(request: &Request, source: &ApiState, path: &[&str]) -> Result<WriteAnswer, ApiFailure> {
    source.object(path, None)?;
    Err(refusal(request.asked.method).into())
}

/// The reason that a method changes nothing. With `DELETE` nginx resets counters.
fn refusal(method: Method) -> ApiError {
    if method == Method::Delete { ApiError::MethodDisabled } else { ApiError::MethodNotAllowed }
}

fn discard(request: &mut Request) -> Result<(), ApiFailure> {
    begin_discarding(request).map_err(ApiFailure::Status)
}

/// Runs a change on a thread that may wait for the disk.
async fn in_pool<T: Send + 'static>(
    request: &Request,
    change: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<Result<T, ApiError>, ApiFailure> {
    let done = request.generation.pools.default().run(Tag::client(request.client_key()), change).await;
    done.map_err(|error| {
        log_error!(request, Error, "api: {error}");
        ApiFailure::Status(Status::SERVICE_UNAVAILABLE)
    })
}

/// The body, which has to be JSON.
async fn json(request: &mut Request) -> Result<Value, ApiFailure> {
    Ok(body::json(request, MAX_BODY).await?)
}
