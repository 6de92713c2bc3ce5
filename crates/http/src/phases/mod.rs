//! The phases: from a parsed request to a response, through handlers, internal redirects and error pages.

pub mod included;
pub mod keepalive;
pub mod post_action;
pub mod subrequest;

use std::num::NonZeroU16;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{bytes_of, text_of};
use freerun_proto::HeaderId;
use freerun_proto::head::{Method, parse_length};
use freerun_proto::status::sent_code;
use freerun_proto::uri::{self, EscapeSet};

use crate::body;
use crate::content::{error_page, grpc_error, msie, path};
use crate::filters;
use crate::message::persistence::CloseReason;
use crate::request::Request;
use crate::request::core_settings::{CoreSettings, Satisfy};
use crate::request::handler::{Later, Outcome, Phase, Run, Slot};
use crate::request::response::{Body, LocalBoxFuture, Response};
use crate::rewrite::{self, ScriptEnd};
use crate::route::LocationChoice;
use crate::settings::server::ServerSettings;
use crate::values::error_page::Target;
use crate::{log_error, log_step};

/// The instruction for the connection.
pub enum Answer {
    /// Send this response.
    Response(Box<Response>),
    /// Close the connection without a response.
    Close,
}

/// Where the request goes on.
enum Step {
    /// With the server's own handlers and the choice of a location.
    Route,
    /// With the choice of a location.
    Choose,
    /// With the script and the handlers of its location.
    Location,
    /// Nowhere: it has its response.
    Answer(Box<Response>),
    /// Nowhere: the connection is closed.
    Close,
}

/// Takes a request through the phases. It always ends, because internal redirects are limited.
pub async fn respond(request: &mut Request) -> Answer {
    let page = request.generation.http.challenges.as_ref().and_then(|challenges| challenges.page(&request.asked.path));
    let first = match page {
        None if reads_early(request) => Box::pin(read_early(request)).await.unwrap_or(Step::Route),
        None => Step::Route,
        Some(page) => challenge(request, page),
    };
    walk(request, first).await
}

/// Whether the body is read before anything else is done: `client_body_early_read`.
#[inline]
fn reads_early(request: &Request) -> bool {
    if request.body.is_done() || request.is_subrequest() {
        return false;
    }
    let conditions = &request.place.server.entry.settings.get::<ServerSettings>().client_body_early_read;
    !conditions.is_empty() && conditions.hold(request)
}

/// Reads the body by the settings of the server. `None`: the request goes on.
async fn read_early(request: &mut Request) -> Option<Step> {
    if let Some(refused) = judge_length(request) {
        return Some(refused);
    }
    let error = body::collect_early(request).await.err()?;
    Some(follow(request, Outcome::Status(error.status())))
}

/// Answers a CA that looks at a challenge (RFC 8555, section 8.3), whatever the server's directives do with other requests.
fn challenge(request: &mut Request, page: Bytes) -> Step {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Step::Route;
    }
    if let Err(status) = body::begin_discarding(request) {
        return follow(request, Outcome::Status(status));
    }
    Step::Answer(Response::new(200, &b"application/octet-stream"[..], Body::Bytes(page)))
}

/// Makes the content of a request that is in its location already, without filters and `error_page`.
pub async fn make_content(request: &mut Request) -> Answer {
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase != Phase::Content {
            continue;
        }
        return match run(request, handler.run).await {
            Outcome::Declined | Outcome::Allowed => continue,
            Outcome::Response(response) => Answer::Response(response),
            Outcome::Status(408 | 444 | 499) | Outcome::Close => Answer::Close,
            Outcome::Status(status) => Answer::Response(error_page::built_in(request, status)),
            Outcome::Redirect(..) | Outcome::Named(_) => Answer::Response(error_page::built_in(request, 500)),
        };
    }
    Answer::Response(error_page::built_in(request, 404))
}

/// Responds to a request that never reached the phases (because of a bad head, for example); error pages apply all the
/// same.
pub async fn respond_with_status(request: &mut Request, status: u16) -> Answer {
    // If the head is wrong, its length of a body does not count.
    request.place.body_judged = true;
    let page = error_page::built_in(request, status);
    walk(request, Step::Answer(page)).await
}

async fn walk(request: &mut Request, mut step: Step) -> Answer {
    loop {
        step = match step {
            Step::Route => route(request).await,
            Step::Choose => choose(request),
            Step::Location => content(request).await,
            Step::Answer(response) => match finish(request, response) {
                Ok(mut response) => {
                    let refused = match prepare(request, &mut response) {
                        Some(preparing) => preparing.await.err(),
                        None => None,
                    };
                    match refused {
                        None => return Answer::Response(response),
                        Some(status) => Step::Answer(error_page::built_in(request, status)),
                    }
                }
                Err(next) => next,
            },
            Step::Close => return Answer::Close,
        };
    }
}

async fn route(request: &mut Request) -> Step {
    enter_server(request);
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        // The handlers are in the order of their phases.
        if handler.phase > Phase::ServerRewrite {
            break;
        }
        match run(request, handler.run).await {
            Outcome::Declined | Outcome::Allowed => {}
            outcome => return follow(request, outcome),
        }
    }
    if !request.place.location.script.is_empty() {
        match rewrite::script(request).await {
            ScriptEnd::Stays => {}
            ScriptEnd::Moved => request.place.rewritten_here = false,
            ScriptEnd::Answer(outcome) => return follow(request, outcome),
        }
    }
    choose(request)
}

/// Returns from a location to the server's own level.
fn enter_server(request: &mut Request) {
    if !request.place.location.is(&request.place.server.entry) {
        request.place.location = request.generation.location(&request.place.server.entry);
    }
}

/// Chooses the location for the path.
fn choose(request: &mut Request) -> Step {
    let server = request.place.server.clone();
    enter_server(request);
    request.place.path_behind_alias = false;
    match server.locations.find(&request.asked.path, &request.captures, &|location| location.holds(request)) {
        Ok(LocationChoice::Location(location)) => {
            let refused = location.internal && !request.place.internal;
            request.place.location = request.generation.location(location.for_method(request.asked.method));
            // The error has the location's own pages.
            if refused {
                return follow(request, Outcome::Status(404));
            }
        }
        Ok(LocationChoice::Folder(location)) => {
            let mut target = uri::escape(EscapeSet::Uri, &bytes_of(&location.name)).into_owned();
            if let Some(args) = request.asked.args.as_ref().filter(|args| !args.is_empty()) {
                target.push(b'?');
                target.extend_from_slice(args);
            }
            request.place.location = request.generation.location(location);
            let mut redirect = error_page::built_in(request, 301);
            redirect.location = Some(target.into());
            return Step::Answer(redirect);
        }
        Ok(LocationChoice::Nothing) => {}
        Err(error) => {
            log_error!(request, Alert, "{error} on \"{}\"", text_of(&request.asked.path));
            return follow(request, Outcome::Status(500));
        }
    }
    log_step!(request, "using configuration \"{}\"", request.place.location.name);
    keepalive::in_location(request);
    judge_length(request).unwrap_or(Step::Location)
}

/// Refuses a body whose declared length is beyond `client_max_body_size`. `None`: it is not.
#[inline]
fn judge_length(request: &mut Request) -> Option<Step> {
    let limit = request.core().client_max_body_size.0;
    let declared = match request.is_subrequest() {
        // A subrequest has no body, but it is refused for the length of the client's, as in nginx.
        true => request.head.value(HeaderId::ContentLength).and_then(parse_length),
        false => request.body.declared_length(),
    };
    let judged = declared.filter(|_| !request.place.body_judged);
    let length = judged.filter(|length| limit > 0 && *length > limit)?;
    request.body.refuse();
    request.body.give_up();
    request.place.body_judged = true;
    log_error!(request, Error, "client intended to send too large body: {length} bytes");
    request.answered.persistence.close(CloseReason::BadBody);
    Some(follow(request, Outcome::Status(413)))
}

async fn content(request: &mut Request) -> Step {
    // If no location was chosen, the server's own script has run already.
    if !request.place.location.script.is_empty() && !request.place.location.is(&request.place.server.entry) {
        let ended = match rewrite::at_once(request) {
            Some(ended) => ended,
            None => rewrite::script(request).await,
        };
        match ended {
            ScriptEnd::Stays => {}
            ScriptEnd::Moved if take_redirect(request) => {
                rewrite_tail(request).await;
                request.place.rewritten_here = false;
                return Step::Choose;
            }
            ScriptEnd::Moved => {
                let path = request.asked.path.clone();
                return cycle(request, "processing", &path);
            }
            ScriptEnd::Answer(outcome) => return follow(request, outcome),
        }
    }
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        match handler.phase {
            Phase::PostRead | Phase::ServerRewrite | Phase::Log => {}
            Phase::Access => {
                // The first access handler runs all of them. Subrequests are parts of a page, and were allowed with the
                // page.
                let first = index == 0 || request.place.location.handlers[index - 1].phase < Phase::Access;
                if first
                    && !request.is_subrequest()
                    && let Some(outcome) = access(request, index).await
                {
                    return follow(request, outcome);
                }
            }
            _ => {
                // The future is awaited here and not in `run`: few handlers wait, and each call would be a future more.
                let outcome = match run_now(request, handler.run) {
                    Ok(outcome) => outcome,
                    Err(later) => later(request).await,
                };
                if !matches!(outcome, Outcome::Declined | Outcome::Allowed) {
                    return follow(request, outcome);
                }
            }
        }
    }
    if request.asked.path.last() == Some(&b'/') {
        let folder = path::file_name(request);
        log_error!(request, Error, "directory index of \"{}\" is forbidden", text_of(&folder));
        return follow(request, Outcome::Status(403));
    }
    follow(request, Outcome::Status(404))
}

/// Runs the handlers behind a script that has changed the path. They change the request, and have no answers.
async fn rewrite_tail(request: &mut Request) {
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase == Phase::Rewrite {
            run(request, handler.run).await;
        }
    }
}

/// Runs the handlers of the access phase, from the one at `index` on. `None` if the request may pass.
async fn access(request: &mut Request, index: usize) -> Option<Outcome> {
    let refusal = judge(request, index).await;
    if let Some(Outcome::Status(401 | 407)) = refusal {
        let delay = request.settings().get::<CoreSettings>().auth_delay;
        if !delay.is_zero() {
            tokio::select! {
                () = freerun_runtime::timer::sleep(delay) => {}
                () = request.client.gone() => return Some(Outcome::Status(499)),
            }
        }
    }
    refusal
}

async fn judge(request: &mut Request, index: usize) -> Option<Outcome> {
    // Challenges of this location take the place of those of one that the request was in before.
    let mut earlier = std::mem::take(&mut request.answered.challenges);
    let refusal = ask_handlers(request, index, &mut earlier).await;
    if request.answered.challenges.is_empty() {
        request.answered.challenges = earlier;
    }
    refusal
}

async fn ask_handlers(request: &mut Request, index: usize, earlier: &mut Vec<Bytes>) -> Option<Outcome> {
    let any = request.settings().get::<CoreSettings>().satisfy == Satisfy::Any;
    let mut refusal = None;
    for index in index..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase != Phase::Access {
            break;
        }
        match run(request, handler.run).await {
            Outcome::Declined => {}
            Outcome::Allowed if any => {
                request.answered.challenges.clear();
                earlier.clear();
                return None;
            }
            Outcome::Allowed => {}
            // 401 (or 407) tells the client how to get access, so it is the better response of the two.
            Outcome::Status(status @ (401 | 403 | 407)) if any => {
                if refusal.is_none_or(|earlier| earlier == 403) {
                    refusal = Some(status);
                }
            }
            outcome => return Some(outcome),
        }
    }
    let status = refusal?;
    // A single handler does not know whether another one lets the request pass.
    if status == 403 {
        log_error!(request, Error, "access forbidden by rule");
    }
    Some(Outcome::Status(status))
}

async fn run(request: &mut Request, run: Run) -> Outcome {
    match run_now(request, run) {
        Ok(outcome) => outcome,
        Err(later) => later(request).await,
    }
}

/// Runs a handler as far as it does not wait.
///
/// # Errors
/// The function to call instead, if the handler may have to wait.
fn run_now(request: &mut Request, run: Run) -> Result<Outcome, Later> {
    match run {
        Run::Now(handler) => Ok(handler(request)),
        Run::Later(later) => Err(later),
        Run::NowOrLater(now, later) => now(request).ok_or(later),
    }
}

fn follow(request: &mut Request, outcome: Outcome) -> Step {
    match outcome {
        Outcome::Response(response) => Step::Answer(response),
        Outcome::Status(408 | 444 | 499) | Outcome::Close => {
            if let Outcome::Status(status) = outcome {
                request.sent.status = status;
            }
            Step::Close
        }
        Outcome::Declined | Outcome::Allowed => Step::Answer(error_page::built_in(request, 404)),
        Outcome::Status(status) => Step::Answer(error_page::built_in(request, status)),
        Outcome::Redirect(path, args) => {
            if !take_redirect(request) {
                return cycle(request, "internally redirecting to", &path);
            }
            request.asked.path = path;
            request.asked.args = args;
            request.asked.uri_kept = false;
            request.place.internal = true;
            request.place.rewritten_here = false;
            // The keep-alive settings of the server are applied again, as in nginx.
            request.place.location = request.generation.location(&request.place.server.entry);
            keepalive::in_location(request);
            Step::Route
        }
        Outcome::Named(name) => {
            if request.asked.path.is_empty() {
                // The request line was not understood, so there is no path.
                log_error!(request, Error, "empty URI in redirect to named location \"{name}\"");
                return Step::Answer(error_page::built_in(request, 500));
            }
            if !take_redirect(request) {
                return cycle(request, "redirect to named location", &bytes_of(&name));
            }
            let server = request.place.server.clone();
            match server.locations.named(&name) {
                Some(location) => {
                    request.place.location = request.generation.location(location.for_method(request.asked.method));
                    request.place.internal = true;
                    request.place.path_behind_alias = false;
                    keepalive::in_location(request);
                    Step::Location
                }
                None => {
                    log_error!(request, Error, "could not find named location \"{name}\"");
                    Step::Answer(error_page::built_in(request, 500))
                }
            }
        }
    }
}

/// Uses up one of the internal redirects; `false` if none is left.
fn take_redirect(request: &mut Request) -> bool {
    let left = request.place.redirects_left.checked_sub(1);
    request.place.redirects_left = left.unwrap_or(0);
    left.is_some()
}

/// Ends a request that has used up its redirects, with an error that no error page replaces, because that would be
/// another redirect.
fn cycle(request: &mut Request, doing: &str, target: &[u8]) -> Step {
    let target = text_of(target);
    log_error!(request, Error, "rewrite or internal redirection cycle while {doing} \"{target}\"");
    request.lineage.plain_errors = true;
    Step::Answer(error_page::built_in(request, 500))
}

/// Sends a response through the filters, then lets `error_page` replace it if it is a built-in one.
fn finish(request: &mut Request, mut response: Box<Response>) -> Result<Box<Response>, Step> {
    if let Some(status) = request.place.forced_status.filter(|_| !response.special || response.status < 300) {
        response.status = status.get();
        if let Some(written) = response.as_written.as_mut().map(Arc::make_mut) {
            // The reason phrase belongs to the other server's status, even if the number is the same.
            written.status = 0;
        }
    }
    filters::run(request, &mut response, ..=Slot::NotModified);
    if response.special {
        request.answered.carried.drop_description();
    }
    if response.special
        && response.status >= 300
        && let Some(next) = replaced(request, &mut response)
    {
        return next;
    }
    let status = response.status;
    let is_call = grpc_error::applies(request, &response);
    if is_call {
        grpc_error::clear(&mut response);
    }
    leave(request, &mut response);
    // The last filter finds out that a requested range cannot be satisfied.
    if response.special
        && response.status != status
        && let Some(next) = replaced(request, &mut response)
    {
        return next;
    }
    if is_call {
        grpc_error::tell(&mut response);
    }
    Ok(response)
}

/// Has the source of a body that is going to be sent find out whether there will be one.
fn prepare<'r>(request: &Request, response: &'r mut Response) -> Option<LocalBoxFuture<'r, Result<(), u16>>> {
    match &mut response.body {
        Body::Source(source) if request.asked.method != Method::Head => source.prepare(),
        _ => None,
    }
}

/// Applies `error_page` to an error. If the request goes on, the error's `Location` and the fields that the filters
/// have added go with it, as in nginx.
fn replaced(request: &mut Request, response: &mut Response) -> Option<Result<Box<Response>, Step>> {
    if request.lineage.plain_errors || request.place.last_error_page {
        return None;
    }
    let location = request.place.location.clone();
    let core = location.settings.get::<CoreSettings>();
    let page = core.error_page.iter().find(|page| page.statuses.contains(&response.status))?;
    request.place.last_error_page = !core.recursive_error_pages;
    let uri = match &page.target {
        Target::Named(name) => bytes_of(name).into_owned(),
        Target::Uri(template) => template.render(request).into_owned(),
    };
    if !matches!(uri.first(), Some(b'/' | b'@')) {
        let is_redirect = |status: &u16| matches!(status, 301 | 302 | 303 | 307 | 308);
        let status = page.overwrite.filter(is_redirect).unwrap_or(302);
        let mut redirect = error_page::built_in(request, status);
        redirect.location = Some(uri.into());
        leave(request, &mut redirect);
        return Some(Ok(redirect));
    }
    request.place.forced_status = forced(page.overwrite, response.status);
    body::note_replaced(request, response.status);
    if !matches!(page.overwrite, Some(0 | 200)) {
        // A refused client is not asked to send its body, not even by the page that stands for the error.
        request.body.refuse();
    }
    request.answered.carried.location = response.location.take().or(request.answered.carried.location.take());
    request.answered.carried.vary |= response.vary;
    request.answered.carried.fields.extend(response.fields.take());
    if uri.first() == Some(&b'@') {
        return Some(Err(follow(request, Outcome::Named(text_of(&uri).into_owned()))));
    }
    if request.asked.method != Method::Head {
        request.asked.method = Method::Get;
    }
    let (path, args) = match uri.iter().position(|byte| *byte == b'?') {
        Some(mark) => (uri[..mark].to_vec(), Some(uri[mark + 1..].to_vec())),
        None => (uri, None),
    };
    Some(Err(follow(request, Outcome::Redirect(path, args))))
}

/// Runs the filters that see only the response that is really sent.
fn leave(request: &mut Request, response: &mut Response) {
    msie::refresh(request, response);
    if let Some(location) = request.answered.carried.location.take() {
        response.location.get_or_insert(location);
    }
    if let Some((content_type, charset)) = request.answered.carried.content_type.take()
        && response.takes_given_type()
    {
        (response.content_type, response.charset) = (content_type, charset);
    }
    response.vary |= request.answered.carried.vary;
    if !request.answered.carried.fields.is_empty() {
        // If no range is asked for, the range filter adds the field.
        if response.ranges && !request.head.has(HeaderId::Range) {
            request.answered.carried.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"Accept-Ranges"));
        }
        response.fields.extend(request.answered.carried.fields.drain(..));
    }
    for challenge in &request.answered.challenges {
        let name = if request.is_connect() { &b"Proxy-Authenticate"[..] } else { b"WWW-Authenticate" };
        response.add(name, challenge.clone());
    }
    if request.place.forced_status.is_none() || matches!(response.status, 200 | 206 | 304) {
        filters::run(request, response, Slot::MoreHeaders..);
    } else {
        // `expires modified` may count from this time, but an error page does not show the resource that was asked for,
        // so the time is not sent.
        filters::run(request, response, Slot::MoreHeaders..=Slot::Headers);
        response.last_modified = None;
        filters::run(request, response, Slot::UserId..);
    }
}

/// The status that an error page is sent with. `error_page 404 =200 /x` sends 200, and `=` alone the status of the page
/// itself. Otherwise it is the original status, as a client may see it: some of nginx's own are never sent.
fn forced(overwrite: Option<u16>, original: u16) -> Option<NonZeroU16> {
    match overwrite {
        None => NonZeroU16::new(sent_code(original)),
        // 0 stands for the status of the page itself.
        Some(status) => NonZeroU16::new(status),
    }
}
