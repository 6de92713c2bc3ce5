//! freerun's own API, below `/freerun/1/` of a location with `api`: what nginx's API has no place for.
//!
//! `table.rs` has all endpoints; everything that is said of them elsewhere (`openapi.rs`: the description for programs, and
//! the page of the reference) is made of it. Their handlers are in `loops.rs`, `caches.rs`, `log.rs` and `shown.rs`;
//! `refusal.rs` has the errors.

mod caches;
mod log;
mod loops;
pub mod openapi;
mod refusal;
mod shown;
mod table;

use bytes::Bytes;
use freerun_http::body;
use freerun_http::core_variables::request_id;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::LocalBoxFuture;
use freerun_proto::Method;
use serde::Serialize;
use serde_json::{Value, json};

use self::refusal::{Code, Refusal};
use self::table::Endpoint;
use super::body::{BodyRefused, json as read_json};
use super::read::Source;
use super::write::is_of_other_origin;
use super::{ApiSettings, source};

/// The part of a path that leads here.
pub const NAME: &str = "freerun";

/// The only version.
const VERSION: &str = "1";

/// The longest body in bytes.
const MAX_BODY: usize = 64 << 10;

/// What a handler is asked.
struct Asked<'r> {
    request: &'r mut Request,
    source: Source,
    /// The parts of the path that stand for names: `{zone}`.
    names: Vec<String>,
}

/// The answer of a handler: a status, and the text of the JSON with it.
struct Answer {
    status: u16,
    text: Option<Vec<u8>>,
}

/// What a handler returns.
type Answered<'r> = LocalBoxFuture<'r, Result<Answer, Failed>>;

/// Why there is no answer.
enum Failed {
    /// The API says so.
    Refused(Refusal),
    /// The server answers with this status.
    Status(u16),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::Refused(refusal)
    }
}

impl From<Code> for Failed {
    fn from(code: Code) -> Failed {
        Failed::Refused(code.into())
    }
}

impl Answer {
    /// A value.
    fn value(value: &impl Serialize) -> Result<Answer, Failed> {
        // It has no keys but strings, so that this never fails.
        let text = serde_json::to_vec(value).map_err(|_| Failed::Status(500))?;
        Ok(Answer { status: 200, text: Some(text) })
    }

    /// No content: it is done.
    fn done() -> Result<Answer, Failed> {
        Ok(Answer { status: 204, text: None })
    }
}

impl Asked<'_> {
    /// The first name in the path.
    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The value of an argument, percent-decoded.
    fn argument(&self, name: &str) -> Option<Vec<u8>> {
        let value = freerun_proto::uri::argument(self.request.asked.args.as_deref()?, name.as_bytes())?;
        Some(freerun_proto::uri::unescape(value).into_owned())
    }

    /// The body, which has to be JSON.
    async fn body(&mut self) -> Result<Value, Failed> {
        read_json(self.request, MAX_BODY).await.map_err(|refused| match refused {
            BodyRefused::TooLong => Code::TooLong.into(),
            BodyRefused::Unread => Refusal::new(Code::BadBody, "reading the body failed").into(),
            BodyRefused::NoJson(why) => Refusal::new(Code::BadBody, format!("the body is no JSON: {why}")).into(),
            BodyRefused::Status(status) => Failed::Status(status),
        })
    }

    /// Says that there is no body to read.
    fn without_body(&mut self) -> Result<(), Failed> {
        body::begin_discarding(self.request).map_err(Failed::Status)
    }
}

/// The parts of a path below the location that are behind [`NAME`]. `None`: it does not lead here.
pub fn inside(path: &str) -> Option<Vec<&str>> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    (parts.next() == Some(NAME)).then(|| parts.collect())
}

/// Answers a request for these parts of the path.
pub async fn answer(request: &mut Request, parts: &[&str]) -> Outcome {
    let answered = match find(request, parts) {
        Ok(Some((endpoint, names))) => {
            let source = source(request);
            (endpoint.run)(Asked { request: &mut *request, source, names }).await
        }
        Ok(None) => Answer::value(&[1]),
        Err(refusal) => Err(refusal.into()),
    };
    match answered {
        Ok(Answer { status, text }) => {
            if let Err(status) = body::begin_discarding(request) {
                return Outcome::Status(status);
            }
            super::respond(status, text.unwrap_or_default())
        }
        Err(Failed::Refused(refusal)) => refuse(request, &refusal),
        Err(Failed::Status(status)) => Outcome::Status(status),
    }
}

/// Finds the endpoint that a request is for, with the names in its path. `None`: the list of versions.
fn find(request: &Request, parts: &[&str]) -> Result<Option<(&'static Endpoint, Vec<String>)>, Refusal> {
    let method = match request.asked.method {
        Method::Head => Method::Get,
        method => method,
    };
    let inside = match parts.split_first() {
        None if method == Method::Get => return Ok(None),
        None => return Err(Refusal::method("GET, HEAD".to_owned())),
        Some((&VERSION, inside)) => inside,
        Some(_) => return Err(Code::UnknownVersion.into()),
    };
    let may_write = request.settings().get::<ApiSettings>().api.is_some_and(|api| api.write);
    let found = table::find(inside, method, may_write)?;
    if method != Method::Get && is_of_other_origin(request) {
        log_error!(request, Error, "api: a page of another server wants to change something");
        return Err(Code::OtherOrigin.into());
    }
    Ok(Some(found))
}

/// The answer that nothing was done, and why.
fn refuse(request: &mut Request, refusal: &Refusal) -> Outcome {
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let location = request.place.location.name.trim_end_matches('/');
    let href = format!("{location}/{NAME}/{VERSION}/openapi.json");
    let told = json!(refusal.told(request_id(request), href));
    let outcome = super::respond(refusal.code.status(), told.to_string().into_bytes());
    match (outcome, &refusal.allow) {
        (Outcome::Response(mut response), Some(allow)) => {
            response.add(Bytes::from_static(b"Allow"), Bytes::from(allow.clone()));
            Outcome::Response(response)
        }
        (outcome, _) => outcome,
    }
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
