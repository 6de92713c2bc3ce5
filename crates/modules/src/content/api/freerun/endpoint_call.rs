//! Calls of handlers of freerun's own API, and their answers.

use freerun_http::body;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::response::LocalBoxFuture;
use freerun_proto::Status;
use serde::Serialize;
use serde_json::Value;

use super::refusal::{Code, Refusal};
use crate::content::api::body::{BodyRefused, json as read_json};
use crate::content::api::read::ApiState;
use crate::content::utf8;

/// The longest body in bytes.
const MAX_BODY: usize = 64 << 10;

/// The arguments of a handler: the request and the parts of its path.
pub(super) struct EndpointCall<'r> {
    pub(super) request: &'r mut Request,
    pub(super) source: ApiState,
    /// The parts of the path that stand for names: `{zone}`.
    pub(super) names: Vec<String>,
}

/// The answer of a handler: a status, and the text of the JSON with it.
pub(super) struct EndpointAnswer {
    pub(super) status: u16,
    pub(super) text: Option<Vec<u8>>,
}

/// The future that a handler returns.
pub(super) type EndpointFuture<'r> = LocalBoxFuture<'r, Result<EndpointAnswer, EndpointFailure>>;

/// The reason why there is no answer.
pub(super) enum EndpointFailure {
    /// The API says so.
    Refused(Refusal),
    /// The server answers with this status.
    Status(Status),
}

impl From<Refusal> for EndpointFailure {
    fn from(refusal: Refusal) -> EndpointFailure {
        EndpointFailure::Refused(refusal)
    }
}

impl From<Code> for EndpointFailure {
    fn from(code: Code) -> EndpointFailure {
        EndpointFailure::Refused(code.into())
    }
}

impl EndpointAnswer {
    /// A value.
    pub(super) fn value(value: &impl Serialize) -> Result<EndpointAnswer, EndpointFailure> {
        // It has no keys but strings, so that this never fails.
        let text = utf8::json(value).map_err(|_| EndpointFailure::Status(Status::INTERNAL_SERVER_ERROR))?;
        Ok(EndpointAnswer { status: 200, text: Some(text) })
    }

    /// No content: it will be done.
    pub(super) fn accepted() -> Result<EndpointAnswer, EndpointFailure> {
        Ok(EndpointAnswer { status: 202, text: None })
    }

    /// No content: it is done.
    pub(super) fn done() -> Result<EndpointAnswer, EndpointFailure> {
        Ok(EndpointAnswer { status: 204, text: None })
    }
}

impl EndpointCall<'_> {
    /// The first name in the path.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// The value of an argument, percent-decoded.
    pub(super) fn argument(&self, name: &str) -> Option<Vec<u8>> {
        let value = freerun_proto::uri::argument(self.request.asked.args.as_deref()?, name.as_bytes())?;
        Some(freerun_proto::uri::unescape(value).into_owned())
    }

    /// The body, which has to be JSON.
    pub(super) async fn body(&mut self) -> Result<Value, EndpointFailure> {
        read_json(self.request, MAX_BODY).await.map_err(|refused| match refused {
            BodyRefused::TooLong => Code::TooLong.into(),
            BodyRefused::Unread => Refusal::new(Code::BadBody, "reading the body failed").into(),
            BodyRefused::NoJson(why) => Refusal::new(Code::BadBody, format!("the body is no JSON: {why}")).into(),
            BodyRefused::Status(status) => EndpointFailure::Status(status),
        })
    }

    /// The answer with a value that may be long: the pool for such work makes it.
    pub(super) async fn made<T: Serialize>(
        self,
        make: impl FnOnce(&ApiState) -> T + Send + 'static,
    ) -> Result<EndpointAnswer, EndpointFailure> {
        let EndpointCall { request, source, .. } = self;
        let made = request.generation.pools.cpu().run(request.client_key(), move || {
            let value = make(&source);
            EndpointAnswer::value(&value)
        });
        made.await.unwrap_or_else(|error| {
            log_error!(request, Error, "api: {error}");
            Err(Code::Overloaded.into())
        })
    }

    /// Declares that the request has no body to read.
    pub(super) fn without_body(&mut self) -> Result<(), EndpointFailure> {
        body::begin_discarding(self.request).map_err(EndpointFailure::Status)
    }
}
