//! Requests that the server makes for another request: their responses become part of a response, or decide about it.
//! [`subrequest_body`](super::subrequest_body) makes them part of a body.

use std::cell::Cell;
use std::pin::pin;
use std::task::Poll;

use freerun_conf::text_of;
use freerun_proto::{Method, Status, uri};

use crate::finish;
use crate::log_error;
use crate::phases::{self, Answer};
use crate::request::core_settings::CoreSettings;
use crate::request::response::{LocalBoxFuture, Response};
use crate::request::{MAX_INTERNAL_REDIRECTS, Request, SentAmounts};

/// The greatest depth of nested subrequests, as in nginx (50 inside the first one), so that pages that include
/// themselves come to an end.
pub const MAX_DEPTH: u8 = 51;

/// The most subrequests that one request of a client may cause in all. It ends a page that includes itself twice, long
/// before [`MAX_DEPTH`] does.
pub const MAX_SUBREQUESTS: u32 = 10_000;

const _: () = assert!(MAX_DEPTH < u8::MAX, "the depth that is one too many can be counted");
const _: () = assert!((MAX_DEPTH as u32) < MAX_SUBREQUESTS, "a page that includes itself once ends by its depth");

/// The number of subrequests that the request of a client has caused.
#[derive(Default)]
struct Count(Cell<u32>);

/// A subrequest that has run: its response is complete except for the body, which has to be pulled.
pub struct Subrequest {
    /// The request, with its location and the states that its handlers left in it.
    pub request: Box<Request>,
    /// The response. `None` if its location closes the connection instead of responding, or if the client has gone.
    pub response: Option<Box<Response>>,
}

impl Subrequest {
    /// The status of the response, or of the log if there is no response.
    pub fn status(&self) -> Status {
        self.response.as_ref().map_or(Status::new(self.request.sent.code()), |response| response.status)
    }

    /// Runs the log phase, if `log_subrequest` asks for it. It has to be called when the body has been used. No bytes
    /// are counted, because the log line of the client's request counts them.
    pub fn finish(mut self) {
        self.request.sent = SentAmounts { status: Some(self.status()), complete: true, ..SentAmounts::default() };
        if self.request.settings().get::<CoreSettings>().log_subrequest {
            finish::finish(&mut self.request);
        }
    }
}

/// There are too many subrequests, most likely because of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManySubrequests {
    /// The depth would exceed [`MAX_DEPTH`].
    #[error("subrequests cycle")]
    Depth,
    /// The number would exceed [`MAX_SUBREQUESTS`].
    #[error("request reference counter overflow")]
    Count,
}

/// Makes a request for `path` (decoded) to this server, as a part of `parent`. The future owns its data. It is given up
/// if the client goes while it waits.
///
/// # Errors
/// [`TooManySubrequests`], which is logged.
pub fn subrequest(
    parent: &Request,
    path: Vec<u8>,
    args: Option<Vec<u8>>,
) -> Result<LocalBoxFuture<'static, Subrequest>, TooManySubrequests> {
    Ok(run(fork(parent, path, args)?))
}

/// Makes a request as [`subrequest`] does, but one whose errors `error_page` does not replace, because the caller wants
/// to see them.
///
/// # Errors
/// [`TooManySubrequests`], which is logged.
pub fn plain(
    parent: &Request,
    path: Vec<u8>,
    args: Option<Vec<u8>>,
) -> Result<LocalBoxFuture<'static, Subrequest>, TooManySubrequests> {
    let mut request = fork(parent, path, args)?;
    request.lineage.plain_errors = true;
    Ok(run(request))
}

/// Makes a request as [`subrequest`] does. `prepare` may change it before.
///
/// # Errors
/// [`TooManySubrequests`], which is logged.
pub fn prepared(
    parent: &Request,
    path: Vec<u8>,
    args: Option<Vec<u8>>,
    prepare: impl FnOnce(&mut Request),
) -> Result<LocalBoxFuture<'static, Subrequest>, TooManySubrequests> {
    let mut request = fork(parent, path, args)?;
    prepare(&mut request);
    Ok(run(request))
}

/// Splits a URI that a page or a directive names into a decoded path, which is relative to `folder` if it begins with no
/// slash, and arguments.
///
/// # Errors
/// The path, if it climbs above its folder or has a NUL in it.
#[allow(clippy::type_complexity)]
pub fn target(folder: &[u8], uri: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), Vec<u8>> {
    let (path, args) = match uri.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&uri[..mark], Some(uri[mark + 1..].to_vec())),
        None => (uri, None),
    };
    let mut full = if uri.starts_with(b"/") { Vec::new() } else { folder.to_vec() };
    full.extend_from_slice(&uri::unescape(path));
    let climbs = full.split(|byte| *byte == b'/').any(|segment| segment == b"..");
    if full.is_empty() || climbs || full.contains(&0) {
        return Err(full);
    }
    Ok((full, args))
}

/// Makes the content of `parent` once more, by the handlers of its location and without any filter. `prepare` may leave
/// state in the new request before.
///
/// # Errors
/// [`TooManySubrequests`], which is logged.
pub fn content(
    parent: &Request,
    prepare: impl FnOnce(&Request),
) -> Result<LocalBoxFuture<'static, Subrequest>, TooManySubrequests> {
    let mut request = fork(parent, parent.asked.path.clone(), parent.asked.args.clone())?;
    prepare(&request);
    Ok(Box::pin(async move {
        let answer = phases::make_content(&mut request).await;
        answered(request, answer)
    }))
}

fn run(mut request: Box<Request>) -> LocalBoxFuture<'static, Subrequest> {
    Box::pin(async move {
        let answer = unless_gone(&mut request).await;
        answered(request, answer)
    })
}

/// Makes a request as [`subrequest`] does, but with a given method. The request goes on after the client has gone and
/// after the response that it belongs to is complete. It has the body of the client's request if that was collected and
/// `with_body` is set.
///
/// # Errors
/// [`TooManySubrequests`], which is logged.
pub fn background(
    parent: &Request,
    method: Method,
    path: Vec<u8>,
    args: Option<Vec<u8>>,
    with_body: bool,
) -> Result<LocalBoxFuture<'static, Subrequest>, TooManySubrequests> {
    let mut request = fork(parent, path, args)?;
    request.asked.method = method;
    request.client = request.client.in_background();
    request.lineage.without_body = !with_body;
    Ok(Box::pin(async move {
        let answer = phases::respond(&mut request, Ok(())).await;
        answered(request, answer)
    }))
}

fn answered(request: Box<Request>, answer: Answer) -> Subrequest {
    let response = match answer {
        Answer::Response(response) => Some(response),
        Answer::Close => None,
    };
    Subrequest { request, response }
}

fn fork(parent: &Request, path: Vec<u8>, args: Option<Vec<u8>>) -> Result<Box<Request>, TooManySubrequests> {
    let count = parent.shared().get::<Count>();
    let refused = if parent.lineage.depth >= MAX_DEPTH {
        Some(TooManySubrequests::Depth)
    } else {
        (count.0.get() >= MAX_SUBREQUESTS).then_some(TooManySubrequests::Count)
    };
    if let Some(refused) = refused {
        log_error!(parent, Error, "{refused} while processing \"{}\"", text_of(&path));
        return Err(refused);
    }
    count.0.set(count.0.get() + 1);
    let mut request = parent.fork();
    request.lineage.depth += 1;
    request.place.internal = true;
    request.place.body_judged = false;
    request.captures.clear();
    request.place.rewritten_here = false;
    request.asked.uri_kept = false;
    request.place.last_error_page = false;
    request.place.forced_status = None;
    request.place.redirects_left = MAX_INTERNAL_REDIRECTS;
    request.sent = SentAmounts::default();
    request.lineage.main_method = Some(parent.lineage.main_method.unwrap_or(parent.asked.method));
    request.asked.method = Method::Get;
    request.asked.path = path;
    request.asked.args = args;
    Ok(request)
}

/// Returns the answer, or a closed connection if the client goes before the answer is there.
async fn unless_gone(request: &mut Request) -> Answer {
    let client = request.client.clone();
    let answer = {
        let mut responding = pin!(phases::respond(request, Ok(())));
        // Most subrequests never wait: the socket is watched only for the others.
        match std::future::poll_fn(|context| Poll::Ready(responding.as_mut().poll(context))).await {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => tokio::select! {
                biased;
                answer = responding => Some(answer),
                () = client.gone() => None,
            },
        }
    };
    answer.unwrap_or_else(|| {
        request.sent.status = Some(Status::CLIENT_CLOSED_REQUEST);
        Answer::Close
    })
}
