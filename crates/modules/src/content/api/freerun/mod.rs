//! freerun's own API, below `/freerun/1/` of a location with `api`: what nginx's API has no place for.
//!
//! `table.rs` has all endpoints; everything that is said of them elsewhere (`openapi.rs`: the description for programs, and
//! the page of the reference) is made of it. Their handlers are in `loops.rs`, `caches.rs`, `cluster.rs`, `log.rs` and `shown.rs`; what these
//! are asked and answer is in `asked.rs`, and `refusal.rs` has the errors.

mod caches;
mod cluster;
mod endpoint_call;
mod log;
mod loops;
pub mod openapi;
mod refusal;
mod server_parts;
mod table;

use freerun_http::core_variables::request_id;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_proto::{Method, Status};
use serde_json::json;

use self::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFailure};
use self::refusal::{Code, Refusal};
use self::table::{Endpoint, NAME, VERSION};
use super::origin::is_of_other_origin;
use super::read::ApiState;

/// The answer to a request.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The text of the JSON, if there is any.
    pub text: Vec<u8>,
    /// The methods that can be used instead, where the method cannot.
    pub allow: Option<String>,
}

/// The parts of a path below the location that are behind [`NAME`]. `None`: it does not lead here.
pub fn inside(path: &str) -> Option<Vec<&str>> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    (parts.next() == Some(NAME)).then(|| parts.collect())
}

/// Answers a request for these parts of the path; `may_write` is whether it may change something.
///
/// # Errors
/// The status that the server answers with.
pub async fn answer(request: &mut Request, source: ApiState, parts: &[&str], may_write: bool) -> Result<Reply, Status> {
    let answered = match find(request, parts, may_write) {
        Ok(Some((endpoint, names))) => (endpoint.run)(EndpointCall { request: &mut *request, source, names }).await,
        Ok(None) => EndpointAnswer::value(&[1]),
        Err(refusal) => Err(refusal.into()),
    };
    match answered {
        Ok(EndpointAnswer { status, text }) => Ok(Reply { status, text: text.unwrap_or_default(), allow: None }),
        Err(EndpointFailure::Refused(refusal)) => Ok(refused(request, &refusal)),
        Err(EndpointFailure::Status(status)) => Err(status),
    }
}

/// Finds the endpoint that a request is for, with the names in its path. `None`: the list of versions.
fn find(
    request: &Request,
    parts: &[&str],
    may_write: bool,
) -> Result<Option<(&'static Endpoint, Vec<String>)>, Refusal> {
    let method = match request.asked.method {
        Method::Head => Method::Get,
        method => method,
    };
    let inside = match parts.split_first() {
        None if method == Method::Get => return Ok(None),
        None => return Err(Refusal::method(Code::MethodNotAllowed, "GET, HEAD".to_owned())),
        Some((&VERSION, inside)) => inside,
        Some(_) => return Err(Code::UnknownVersion.into()),
    };
    let found = table::find(inside, method, may_write)?;
    if method != Method::Get && is_of_other_origin(request) {
        log_error!(request, Error, "api: a page of another server wants to change something");
        return Err(Code::OtherOrigin.into());
    }
    Ok(Some(found))
}

/// The answer that nothing was done, and why.
fn refused(request: &Request, refusal: &Refusal) -> Reply {
    let location = request.place.location.name.trim_end_matches('/');
    let href = format!("{location}/{NAME}/{VERSION}/openapi.json");
    let told = json!(refusal.report(request_id(request), href));
    Reply { status: refusal.code.status(), text: told.to_string().into_bytes(), allow: refusal.allow.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_here_by_their_first_part() {
        assert_eq!(inside("/freerun/1/loops"), Some(vec!["1", "loops"]));
        assert_eq!(inside("freerun//1//loops/"), Some(vec!["1", "loops"]));
        assert_eq!(inside("/freerun"), Some(vec![]));
        assert_eq!((inside("/9/freerun"), inside("/freerun1"), inside("/")), (None, None, None));
    }
}
