//! The engine: has one request answered by upstream servers, whatever protocol they speak.
//!
//! `mod.rs` chooses servers and decides about further tries; `attempt.rs` is one try, up to the response's head; `answer.rs`
//! makes the client's response of it, whose body is a `flow.rs` that `reader.rs` fills. `trouble.rs` knows what follows from
//! what went wrong. After `101 Switching Protocols` a `tunnel.rs` is all that is left.

mod answer;
mod attempt;
mod early;
mod flow;
mod outgoing;
mod reader;
mod spool;
mod trouble;
mod tunnel;
mod wire;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use freerun_http::content::response::LocalBoxFuture;
use freerun_http::log_error;
use freerun_http::module::Outcome;
use freerun_http::request::Request;
use freerun_runtime::loops;
use freerun_upstream::{Failure, Lease, NoPeer, Tried, Verdict};

use crate::proxy::exchange::{Aim, Family, NextUpstream, Options, Pick};
use crate::proxy::settings::store::Store;
use crate::proxy::store;
use crate::proxy::variables::Record;
use attempt::{Failed, Plan};
use outgoing::Outgoing;
use trouble::{Doing, Trouble};
use wire::Client;

/// Passes the request on: the content handler of a location of the family.
pub fn pass<'r>(request: &'r mut Request, family: &'static dyn Family) -> LocalBoxFuture<'r, Outcome> {
    Box::pin(async move {
        let outcome = run(request, family).await;
        let settings = request.location.settings.clone();
        match family.shared(&settings) {
            Some(shared) if !matches!(shared.proxy_store, Store::Off) => store::keep(request, shared, outcome).await,
            _ => outcome,
        }
    })
}

async fn run(request: &mut Request, family: &'static dyn Family) -> Outcome {
    let options = family.options(request);
    let client = Client::new(request.connection.clone(), !options.ignore_client_abort && !request.is_background);
    let aimed = match family.target(request) {
        Aim::Now(aimed) => Ok(aimed),
        Aim::Later(later) => client.unless_gone(later).await,
    };
    let target = match aimed {
        Ok(Ok(target)) => Rc::new(target),
        Ok(Err(outcome)) => return outcome,
        Err(gone) => return gone.outcome(request),
    };
    let Some(servers) = target.servers.clone() else { return Outcome::Status(500) };
    let record = request.own.get::<Record>();
    record.aim(&target);
    request.passed_to = Some(record.clone());
    let mut body = match Outgoing::ready(request, family, &options) {
        Some(body) => body,
        None => match Box::pin(Outgoing::collect(request)).await {
            Ok(body) => body,
            Err(trouble) => return trouble.outcome(request),
        },
    };
    let plan = Plan {
        family,
        target: &target,
        servers: &servers,
        options: &options,
        client: &client,
        record: &record,
        idempotent: family.is_idempotent(request),
    };
    let mut tries = Tries { options: &options, tried: Tried::new(), count: 0, began: loops::now() };
    let mut lease = match tries.pick(request, &plan).await {
        Ok(lease) => lease,
        Err(trouble) => return without_server(request, &plan, &trouble),
    };
    loop {
        record.begin(lease.peer().name.clone(), loops::now());
        tries.count += 1;
        match plan.attempt(request, &mut body, &lease).await {
            Ok(answered) => {
                let status = answered.head.status;
                let cause = NextUpstream::of_status(status).filter(|cause| options.next_upstream.contains(*cause));
                // Neither says anything about the server.
                let verdict = cause.filter(|_| !matches!(status, 403 | 404)).map(|_| Failure::Status);
                if let Some(cause) = cause
                    && tries.allow(&plan, cause, true, &body)
                    && let Ok(next) = tries.pick(request, &plan).await
                {
                    record.with(|last| last.status = status);
                    record.end(loops::now());
                    lease.header(status, record.took(), loops::millis());
                    drop(answered);
                    if let Some(failure) = verdict {
                        fail(request, lease, failure, Doing::ReadingHead);
                    }
                    lease = next;
                    continue;
                }
                return answer::answer(request, &plan, answered, lease, verdict);
            }
            Err(Failed { trouble, doing, sent }) => {
                trouble.log(request, doing);
                record.with(|last| last.status = trouble.status());
                record.end(loops::now());
                if let Some(failure) = trouble.failure() {
                    fail(request, lease, failure, doing);
                }
                if !trouble.next().is_some_and(|cause| {
                    options.next_upstream.contains(cause) && tries.allow(&plan, cause, sent, &body)
                }) {
                    return trouble.outcome(request);
                }
                lease = match tries.pick(request, &plan).await {
                    Ok(lease) => lease,
                    Err(Trouble::NoPeer(NoPeer::AllTried)) => return trouble.outcome(request),
                    Err(trouble) => return without_server(request, &plan, &trouble),
                };
            }
        }
    }
}

/// There is no server to ask.
fn without_server(request: &mut Request, plan: &Plan<'_>, trouble: &Trouble) -> Outcome {
    trouble.log(request, Doing::Connecting);
    plan.record.begin(Arc::from(plan.servers.name()), loops::now());
    plan.record.with(|last| last.status = trouble.status());
    plan.record.end(loops::now());
    trouble.outcome(request)
}

fn fail(request: &Request, lease: Lease, failure: Failure, doing: Doing) {
    tell(request, lease.failed(failure, loops::millis()), doing);
}

/// Says what became of a server.
fn tell(request: &Request, verdict: Verdict, doing: Doing) {
    if verdict.disabled {
        log_error!(request, Warn, "upstream server temporarily disabled while {doing}");
    }
    if verdict.ejected {
        log_error!(request, Warn, "upstream server ejected as an outlier while {doing}");
    }
}

/// The tries of one request.
struct Tries<'o> {
    options: &'o Options,
    tried: Tried,
    count: u32,
    began: Instant,
}

impl Tries<'_> {
    /// Chooses a server.
    async fn pick(&mut self, request: &Request, plan: &Plan<'_>) -> Result<Lease, Trouble> {
        let picked = match plan.servers.pick(request, &mut self.tried) {
            Pick::Now(picked) => picked,
            Pick::Later(later) => plan.client.unless_gone(later).await?,
        };
        picked.map_err(Trouble::NoPeer)
    }

    /// Whether there may be another try for this reason.
    fn allow(&self, plan: &Plan<'_>, cause: NextUpstream, sent: bool, body: &Outgoing) -> bool {
        let options = self.options;
        let again = plan.idempotent || !sent || options.next_upstream.contains(NextUpstream::NonIdempotent);
        let count = options.next_upstream_tries == 0 || self.count < options.next_upstream_tries;
        let time = options.next_upstream_timeout.is_zero()
            || loops::now().saturating_duration_since(self.began) < options.next_upstream_timeout;
        options.next_upstream.contains(cause) && again && count && time && body.can_be_sent_again()
    }
}
