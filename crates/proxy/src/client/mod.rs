//! Has one request answered by upstream servers, in any of their protocols.
//!
//! `mod.rs` chooses servers and decides about further tries. `plan.rs` has the state that all tries share, `attempt.rs`
//! is one try, up to the response's head: on a `connection.rs`, with a `request_body.rs`. If a part of the request's
//! body is unsent when the head comes, `request_rest.rs` sends it.
//!
//! `response.rs` makes the client's response, whose body is a `response_body.rs` that `reader.rs` fills. A body that
//! also goes elsewhere passes through a `tee.rs`. After `101 Switching Protocols` only a `tunnel.rs` remains.
//!
//! `http3.rs` makes connections of HTTP/3, or others for servers without UDP.
//!
//! `error.rs` has the consequences of errors, `client_watch.rs` watches whether the client is still there.

mod attempt;
pub mod client_watch;
mod connection;
mod early_hints;
pub mod error;
pub mod http3;
mod input;
mod pieces;
mod plan;
mod reader;
mod request_body;
mod request_rest;
pub mod response;
pub mod response_body;
pub mod spool;
pub mod tee;
pub mod tls;
mod tunnel;
mod write_turns;

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;

use freerun_http::body;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::{Method, Status};
use freerun_runtime::loops;
use freerun_serve::upstream::tries::{Took, Tries, wait_within};
use freerun_upstream::{AttemptFailure, FailureVerdict, Lease, NoPeer};

use crate::exchange::UpstreamHead;
use crate::exchange::family::Family;
use crate::exchange::target::{PassTarget, Pick, TargetLookup};
use crate::settings::next::NextUpstream;
use crate::state::record::Record;
use attempt::UpstreamExchange;
use client_watch::ClientWatch;
use error::{TryStage, UpstreamError};
use plan::{FailedTry, Plan};
use request_body::OutgoingBody;
use tee::BodyTee;

/// The terms on which a server is asked.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Whether the request is given up when the client goes.
    pub watched: bool,
    /// Whether the response is passed on from its head on, because other requests may wait for that. Otherwise a head
    /// waits for a small body that is just about to come.
    pub head_at_once: bool,
}

/// A response of a server whose head has come.
pub struct ReachedServer {
    upstream: Box<UpstreamExchange>,
    lease: Lease,
    /// Beginning of the try, in [`loops::nanos`].
    began: u64,
}

impl ReachedServer {
    /// The head of the response.
    pub fn head(&self) -> &UpstreamHead {
        &self.upstream.head
    }

    /// Makes the response for the client.
    pub fn answer(self, request: &mut Request) -> Outcome {
        self.answer_with_tee::<Infallible>(request, None)
    }

    /// Makes the response for the client. Its body also goes to `tee`, unless it is passed on as it comes.
    pub fn answer_with_tee<T: BodyTee>(self, request: &mut Request, tee: Option<T>) -> Outcome {
        response::answer(request, self, tee)
    }

    /// Drops the response, because something else is answered instead.
    pub fn dismiss(self, request: &Request) {
        response::dismiss(request, self);
    }
}

/// The result when no server has answered.
pub struct NoServer {
    /// The answer for the client.
    pub outcome: Outcome,
    /// The condition of `cache_use_stale` that applies, unless the servers are not at fault.
    pub cause: Option<NextUpstream>,
}

impl NoServer {
    fn of(request: &mut Request, error: &UpstreamError) -> NoServer {
        NoServer { outcome: error.outcome(request), cause: error.cause() }
    }

    fn plain(outcome: Outcome) -> NoServer {
        NoServer { outcome, cause: None }
    }
}

/// Has the request answered by a server, up to the head of its response.
///
/// # Errors
/// There is no response; the reason is logged.
pub async fn reach(
    request: &mut Request,
    family: &'static dyn Family,
    terms: Terms,
) -> Result<ReachedServer, NoServer> {
    let mut upstream = match begin_now(request, family, terms) {
        Some(begun) => begun?,
        None => Box::pin(begin_later(request, family, terms)).await?,
    };
    // CONNECT has no body to ask for (RFC 9110 section 9.3.6): what comes is the tunnel's.
    if request.body.is_done() && request.asked.method != Method::Connect {
        body::send_continue(request);
    }
    let mut body = match OutgoingBody::ready(request, family) {
        Some(body) => body,
        None => match Box::pin(OutgoingBody::collect(request, family)).await {
            Ok(body) => body,
            Err(error) => return Err(NoServer::of(request, &error)),
        },
    };
    let mut tries = RequestTries { tries: Tries::new(), queued: Took::default() };
    let mut lease = match tries.pick(request, &upstream.plan).await {
        Ok(lease) => lease,
        Err(error) => return Err(without_server(request, &upstream.plan, &error, tries.queued)),
    };
    loop {
        // Many servers that refuse at once are many tries without a wait.
        loops::consume_budget().await;
        upstream.plan.record.begin(lease.peer().clone(), loops::nanos(), tries.queued);
        tries.tries.begin();
        let tried = upstream.attempt(request, &mut body, &lease).await;
        let plan = &upstream.plan;
        let Plan { options, record, .. } = plan;
        match tried {
            Ok(()) => {
                let status = upstream.head.status;
                let cause = NextUpstream::of_status(status).filter(|cause| options.next_upstream.contains(*cause));
                // If no other server can be asked at once, the client gets this response, and nothing counts against
                // the server.
                if let Some(cause) = cause
                    && tries.allow(plan, cause, true, &body)
                    && let Some(next) = tries.pick_now(request, plan).await
                {
                    let now = loops::nanos();
                    record.with(|last| {
                        last.own.status = status;
                        last.answered(now);
                    });
                    record.end(now);
                    lease.header(status, record.took(), loops::millis());
                    upstream.connection = None;
                    record.count(&lease);
                    // These two statuses say nothing about the server.
                    if !matches!(status, 403 | 404) {
                        fail(request, lease, AttemptFailure::Status, TryStage::ReadingHead);
                    }
                    lease = next;
                    continue;
                }
                break;
            }
            Err(FailedTry { error, stage, sent, is_unprocessed }) => {
                error.log(request, stage);
                record.set_status(error.upstream_status());
                record.end(loops::nanos());
                record.count(&lease);
                if let Some(failure) = error.failure() {
                    fail(request, lease, failure, stage);
                }
                if !error.next().is_some_and(|cause| {
                    tries.allow(plan, cause, sent, &body) || is_unprocessed && tries.allow_unprocessed(plan, &body)
                }) {
                    return Err(NoServer::of(request, &error));
                }
                lease = match tries.pick(request, plan).await {
                    Ok(lease) => lease,
                    Err(UpstreamError::NoPeer(NoPeer::AllTried | NoPeer::Wait)) => {
                        return Err(NoServer::of(request, &error));
                    }
                    Err(error) => return Err(without_server(request, plan, &error, tries.queued)),
                };
            }
        }
    }
    upstream.keep_rest(request, body);
    let began = note(request, &upstream, &lease);
    Ok(ReachedServer { upstream, lease, began })
}

/// Prepares the first try, unless the target has to be looked up.
fn begin_now(
    request: &mut Request,
    family: &'static dyn Family,
    terms: Terms,
) -> Option<Result<Box<UpstreamExchange>, NoServer>> {
    let target = match family.target(request) {
        TargetLookup::Now(target) => target,
        TargetLookup::Later(_) => return None,
    };
    Some(begin(request, family, terms, target))
}

/// Prepares the first try.
fn begin(
    request: &mut Request,
    family: &'static dyn Family,
    terms: Terms,
    target: Result<PassTarget, Outcome>,
) -> Result<Box<UpstreamExchange>, NoServer> {
    let target = match target {
        Ok(target) => target,
        Err(outcome) => {
            // A name that cannot be resolved counts as a server that cannot be chosen.
            let unknown = matches!(outcome, Outcome::Status(Status::BAD_GATEWAY | Status::GATEWAY_TIMEOUT));
            return Err(NoServer { outcome, cause: unknown.then_some(NextUpstream::Error) });
        }
    };
    if target.upstream().servers.is_none() {
        return Err(NoServer::plain(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
    }
    let record = request.own.get::<Record>();
    record.set_target(&target);
    request.answered.passed_to = Some(record.clone());
    let idempotent = family.is_idempotent(request);
    let options = family.options(request);
    let client = ClientWatch::new(request.client.clone(), terms.watched && !ignores_abort(request, family));
    Ok(UpstreamExchange::new(Plan {
        family,
        location: request.place.location.clone(),
        target,
        options,
        client,
        record,
        idempotent,
        head_at_once: terms.head_at_once,
    }))
}

/// Whether the server may finish when the client goes.
fn ignores_abort(request: &Request, family: &dyn Family) -> bool {
    family.table(request.settings()).proxy_ignore_client_abort
}

/// Looks the target up, and prepares the first try.
async fn begin_later(
    request: &mut Request,
    family: &'static dyn Family,
    terms: Terms,
) -> Result<Box<UpstreamExchange>, NoServer> {
    let client = ClientWatch::new(request.client.clone(), terms.watched && !ignores_abort(request, family));
    let target = match family.target(request) {
        TargetLookup::Now(target) => Ok(target),
        TargetLookup::Later(later) => client.unless_gone(later).await,
    };
    match target {
        Ok(target) => begin(request, family, terms, target),
        Err(gone) => Err(NoServer::of(request, &gone)),
    }
}

/// Records a response's head. Returns when the try began, in [`loops::nanos`].
fn note(request: &Request, upstream: &UpstreamExchange, lease: &Lease) -> u64 {
    let (record, head) = (&upstream.plan.record, &upstream.head);
    let began = record.answered(head, request.generation.http.keeps_upstream_head);
    lease.header(head.status, record.took(), loops::millis());
    began
}

/// The result when there is no server to ask.
fn without_server(request: &mut Request, plan: &Plan, error: &UpstreamError, queued: Took) -> NoServer {
    plan.record.begin(plan.servers().map_or("", |servers| servers.name()), loops::nanos(), queued);
    error.log(request, TryStage::Connecting);
    plan.record.set_status(error.upstream_status());
    plan.record.end(loops::nanos());
    NoServer::of(request, error)
}

fn fail(request: &Request, lease: Lease, failure: AttemptFailure, stage: TryStage) {
    tell(request, lease.failed(failure, loops::millis()), stage);
}

/// Logs the consequence for a server.
fn tell(request: &Request, verdict: FailureVerdict, stage: TryStage) {
    for words in verdict.words() {
        log_error!(request, Warn, "{words} while {stage}");
    }
}

/// The tries of one request.
struct RequestTries {
    tries: Tries,
    /// Time that the last choice has waited in the group's `queue`.
    queued: Took,
}

impl RequestTries {
    /// Chooses a server. A server that has room is waited for in the group's `queue`, but for a further try no longer
    /// than `next_upstream_timeout` allows.
    async fn pick(&mut self, request: &Request, plan: &Plan) -> Result<Lease, UpstreamError> {
        self.queued = Took::default();
        let Some(servers) = plan.servers() else { return Err(UpstreamError::Ours) };
        let longest = self.tries.longest_wait(|| plan.table().try_limits());
        let later = match servers.pick(request, &mut self.tries.tried) {
            Pick::Now(picked) => return picked.map_err(UpstreamError::NoPeer),
            Pick::Later(later) => Box::pin(plan.client.unless_gone(later)),
        };
        let entered = loops::nanos();
        let picked = wait_within(longest, later).await.unwrap_or(Ok(Err(NoPeer::Wait)));
        self.queued = Took::between(entered, loops::nanos());
        picked?.map_err(UpstreamError::NoPeer)
    }

    /// Chooses a server only if that takes no waiting. A wait would keep the server that has answered from other
    /// requests, and this request may be waiting for a server that one of these uses.
    async fn pick_now(&mut self, request: &Request, plan: &Plan) -> Option<Lease> {
        let picked = match plan.servers()?.pick(request, &mut self.tries.tried) {
            Pick::Now(picked) => picked,
            // Other requests wait, but the room that this request could have is not what they wait for.
            Pick::Later(mut later) => {
                let at_once = poll_fn(|context| Poll::Ready(later.as_mut().poll(context))).await;
                match at_once {
                    Poll::Ready(picked) => picked,
                    Poll::Pending => return None,
                }
            }
        };
        self.queued = Took::default();
        picked.ok()
    }

    /// Whether there may be another try for this reason.
    fn allow(&self, plan: &Plan, cause: NextUpstream, sent: bool, body: &OutgoingBody) -> bool {
        let options = &plan.options;
        let again = plan.idempotent || !sent || options.next_upstream.contains(NextUpstream::NonIdempotent);
        // If nobody has looked at it, what is kept of a streamed body is enough.
        let has_body = body.can_be_sent_again() || !sent && body.can_be_repeated();
        options.next_upstream.contains(cause) && again && has_body && self.tries.allow(plan.table().try_limits())
    }

    /// Whether there may be another try because a server has not looked at the request: that does no harm, and so only `off`
    /// prevents it.
    fn allow_unprocessed(&self, plan: &Plan, body: &OutgoingBody) -> bool {
        let options = &plan.options;
        let is_off = options.next_upstream.contains(NextUpstream::Off);
        !is_off && body.can_be_repeated() && self.tries.allow(plan.table().try_limits())
    }
}
