//! Requests that the server makes to itself for another request: their responses become part of an answer, or decide
//! about it.

use crate::content::response::{LocalBoxFuture, Response};
use crate::finish;
use crate::log_error;
use crate::phases::{self, Answer};
use crate::request::{MAX_INTERNAL_REDIRECTS, Request, Sent};
use crate::settings::core::CoreSettings;
use freerun_proto::Method;

/// How deep subrequests may be nested, as in nginx: pages that include themselves come to an end.
pub const MAX_DEPTH: u8 = 50;

/// A subrequest that ran: its response is complete but for the body, which has to be pulled.
pub struct Subrequest {
    /// The request, with its location and what its handlers left in it.
    pub request: Box<Request>,
    /// The answer. `None`: its location closes the connection instead of answering.
    pub response: Option<Box<Response>>,
}

impl Subrequest {
    /// To be called when the body has been used: the log phase, where `log_subrequest` asks for it.
    pub fn finish(mut self, body_bytes: u64) {
        let status = self.response.as_ref().map_or(self.request.sent.status, |response| response.status);
        self.request.sent = Sent { status, bytes: body_bytes, body_bytes, complete: true };
        if self.request.settings().get::<CoreSettings>().log_subrequest {
            finish::finish(&mut self.request);
        }
    }
}

/// Nested too deeply: a cycle, most likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("subrequests cycle")]
pub struct Cycle;

/// Asks the server itself for `path` (decoded), as a part of `parent`. The future owns what it needs.
///
/// # Errors
/// [`Cycle`], which is logged.
pub fn subrequest(
    parent: &Request,
    path: Vec<u8>,
    args: Option<Vec<u8>>,
) -> Result<LocalBoxFuture<'static, Subrequest>, Cycle> {
    if parent.depth >= MAX_DEPTH {
        log_error!(parent, Error, "subrequests cycle while processing \"{}\"", String::from_utf8_lossy(&path));
        return Err(Cycle);
    }
    let mut request = parent.fork();
    request.depth += 1;
    request.internal = true;
    request.in_error_page = false;
    request.forced_status = None;
    request.redirects_left = MAX_INTERNAL_REDIRECTS;
    request.sent = Sent::default();
    request.method = if parent.method == Method::Head { Method::Head } else { Method::Get };
    request.path = path;
    request.args = args;
    Ok(Box::pin(async move {
        let response = match phases::respond(&mut request).await {
            Answer::Response(response) => Some(response),
            Answer::Close => None,
        };
        Subrequest { request, response }
    }))
}
