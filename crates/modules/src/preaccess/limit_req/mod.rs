//! `limit_req`: a leaky bucket for each key.
//!
//! <https://nginx.org/en/docs/http/ngx_http_limit_req_module.html>

mod setting;
mod states;

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_conf::{Cx, Problem, SettingsSet, group};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::variables::Variable;
use freerun_proto::Status;
use freerun_serve::Subject as _;
use freerun_serve::configuration::parts::Parts;
use freerun_serve::configuration::zones::Zone;
use freerun_serve::limits::bucket::{Bucket, Judgement};
use freerun_serve::limits::leases::{LeaseWait, SharedLimits};
use freerun_serve::loops::figures::limits::LimitOutcome as Counted;

use setting::{Limit, LimitReqSettings, ReqZone};

/// The module `limit_req`.
pub static MODULE: Module = Module {
    name: "limit_req",
    groups: &[group::<LimitReqSettings>()],
    finish: Some(keep_shared),
    handlers: &[Handler { phase: Phase::PreAccess, wanted, run: Run::Later(run) }],
    variables: &[Variable::named(
        "limit_req_status",
        "What `limit_req` decided: `PASSED`, `DELAYED`, `REJECTED`, `DELAYED_DRY_RUN`, or `REJECTED_DRY_RUN`.",
        |request, _| Some(Cow::Borrowed(request.find_shared::<ReqLimitStatus>()?.0.get()?)),
    )],
    ..Module::EMPTY
};

/// The result for a request: the value of `$limit_req_status`. A request is counted once, whatever internal redirects
/// and subrequests it leads to.
#[derive(Default)]
struct ReqLimitStatus(Cell<Option<&'static [u8]>>);

/// Keeps the zones that several machines share, for the cluster.
fn keep_shared(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let shared = cx.extensions.remove::<SharedLimits>().unwrap_or_default();
    cx.extensions.get_or_default::<Parts>().insert(Arc::new(shared));
    Ok(())
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<LimitReqSettings>().limit_req.0.is_empty()
}

/// The combined verdict of the zones of a level.
enum RateVerdict<'s> {
    /// No zone has a key for the request.
    Unknown,
    Pass,
    Delay(Duration, u64, &'s Limit),
    Refuse(u64, &'s Limit),
    /// The engine has to be asked first.
    Wait(&'s Limit),
}

/// The step of a wait for the engine.
const LEASE_STEP: Duration = Duration::from_millis(1);

fn run(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    let judged = request.shared().get::<ReqLimitStatus>();
    if judged.0.get().is_some() {
        return Box::pin(std::future::ready(Outcome::Declined));
    }
    let location = request.place.location.clone();
    let settings = location.settings.get::<LimitReqSettings>();
    match judge(&settings.limit_req.0, request) {
        // Where limits are only tried out, nothing waits.
        RateVerdict::Wait(_) if settings.limit_req_dry_run => carry_out(RateVerdict::Pass, settings, request),
        RateVerdict::Wait(_) => Box::pin(wait_for_engine(request)),
        verdict => carry_out(verdict, settings, request),
    }
}

/// Judges a request again and again until the engine has answered for its keys, or the time for that is over. The wait ends when the
/// client goes away.
async fn wait_for_engine(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    let settings = location.settings.get::<LimitReqSettings>();
    let limits = &settings.limit_req.0;
    let judged = request.shared().get::<ReqLimitStatus>();
    let begun = Instant::now();
    let mut waiting: Option<(Zone<ReqZone>, LeaseWait)> = None;
    // Another subrequest may be faster.
    while judged.0.get().is_none() {
        let limit = match judge(limits, request) {
            RateVerdict::Wait(limit) => limit,
            verdict => return carry_out(verdict, settings, request).await,
        };
        let Some((counts, key)) = limit.zone.get().and_then(|zone| Some((&zone.counts, zone.key.of(request)?))) else {
            break;
        };
        if waiting.as_ref().is_none_or(|(zone, _)| *zone != limit.zone) {
            waiting = counts.wait(&key).map(|wait| (limit.zone.clone(), wait));
        }
        if begun.elapsed() >= counts.longest_wait() {
            waiting.iter().for_each(|(_, wait)| wait.note_vain());
            drop(waiting);
            return carry_out(RateVerdict::Refuse(limit.burst.saturating_add(1), limit), settings, request).await;
        }
        drop(key);
        if let Some(outcome) = sleep(request, LEASE_STEP).await {
            return outcome;
        }
    }
    Outcome::Declined
}

/// Does with a request what its limits say.
fn carry_out<'r>(
    verdict: RateVerdict<'_>,
    settings: &LimitReqSettings,
    request: &'r mut Request,
) -> LocalBoxFuture<'r, Outcome> {
    let judged = request.shared().get::<ReqLimitStatus>();
    let dry = settings.limit_req_dry_run;
    let dryly = if dry { ", dry run" } else { "" };
    let level = settings.limit_req_log_level;
    count(&settings.limit_req.0, &verdict, request, dry);
    let (status, outcome) = match verdict {
        RateVerdict::Unknown | RateVerdict::Wait(_) => (None, Outcome::Declined),
        RateVerdict::Pass => (Some(&b"PASSED"[..]), Outcome::Declined),
        RateVerdict::Refuse(excess, limit) => {
            let (excess, zone) = (Thousandths(excess), limit.zone.name());
            request.log(level.level(), format_args!("limiting requests{dryly}, excess: {excess} by zone \"{zone}\""));
            if dry {
                (Some(&b"REJECTED_DRY_RUN"[..]), Outcome::Declined)
            } else {
                (Some(&b"REJECTED"[..]), Outcome::Status(settings.limit_req_status.0))
            }
        }
        RateVerdict::Delay(delay, excess, limit) => {
            let (excess, zone) = (Thousandths(excess), limit.zone.name());
            request.log(level.milder(), format_args!("delaying request{dryly}, excess: {excess}, by zone \"{zone}\""));
            if !dry {
                judged.0.set(Some(b"DELAYED"));
                return Box::pin(wait(request, delay));
            }
            (Some(&b"DELAYED_DRY_RUN"[..]), Outcome::Declined)
        }
    };
    judged.0.set(status);
    Box::pin(std::future::ready(outcome))
}

/// Makes a request wait for its turn. The wait ends when the client goes away.
async fn wait(request: &mut Request, delay: Duration) -> Outcome {
    sleep(request, delay).await.unwrap_or(Outcome::Declined)
}

/// Sleeps. The outcome, if the client goes away meanwhile.
async fn sleep(request: &mut Request, time: Duration) -> Option<Outcome> {
    tokio::select! {
        biased;
        () = freerun_runtime::timer::sleep(time) => None,
        () = request.client.gone() => {
            log_error!(request, Info, "client prematurely closed connection");
            Some(Outcome::Status(Status::CLIENT_CLOSED_REQUEST))
        }
    }
}

/// The verdict of a zone on a request.
enum KeyVerdict {
    /// The request has no key in the zone.
    Keyless,
    /// The engine has to be asked first.
    Wait,
    /// The zone has judged the request.
    Judged(Judgement),
}

fn judge<'s>(limits: &'s [Limit], request: &Request) -> RateVerdict<'s> {
    if let [limit] = limits {
        return match judge_one(limit, request, true) {
            KeyVerdict::Keyless => RateVerdict::Unknown,
            KeyVerdict::Wait => RateVerdict::Wait(limit),
            KeyVerdict::Judged(Judgement::Beyond(excess)) => RateVerdict::Refuse(excess, limit),
            KeyVerdict::Judged(Judgement::Within(excess)) => {
                delay_of(limit, excess).map_or(RateVerdict::Pass, |delay| RateVerdict::Delay(delay, excess, limit))
            }
        };
    }
    // A request that one zone refuses is counted by none.
    let mut verdict = RateVerdict::Unknown;
    for limit in limits {
        match judge_one(limit, request, false) {
            KeyVerdict::Keyless => {}
            KeyVerdict::Wait => return RateVerdict::Wait(limit),
            KeyVerdict::Judged(Judgement::Beyond(excess)) => return RateVerdict::Refuse(excess, limit),
            KeyVerdict::Judged(Judgement::Within(excess)) => {
                let so_far = match &verdict {
                    RateVerdict::Delay(delay, ..) => *delay,
                    _ => Duration::ZERO,
                };
                match delay_of(limit, excess) {
                    Some(delay) if delay > so_far => verdict = RateVerdict::Delay(delay, excess, limit),
                    _ if matches!(verdict, RateVerdict::Unknown) => verdict = RateVerdict::Pass,
                    _ => {}
                }
            }
        }
    }
    for limit in limits {
        // Another loop may have filled the bucket meanwhile: the request passes all the same.
        let _ = judge_one(limit, request, true);
    }
    verdict
}

/// Counts a request in the zones. The deciding zone counts its verdict; the others, if it has not refused, count a
/// request that passes.
fn count(limits: &[Limit], verdict: &RateVerdict<'_>, request: &Request, dry: bool) {
    let (decided, decisive) = match (verdict, dry) {
        (RateVerdict::Unknown | RateVerdict::Wait(_), _) => return,
        (RateVerdict::Pass, _) => (None, Counted::Passed),
        (RateVerdict::Delay(.., limit), false) => (Some(limit), Counted::Delayed),
        (RateVerdict::Delay(.., limit), true) => (Some(limit), Counted::DelayedDryRun),
        (RateVerdict::Refuse(_, limit), false) => (Some(limit), Counted::Rejected),
        (RateVerdict::Refuse(_, limit), true) => (Some(limit), Counted::RejectedDryRun),
    };
    let is_refused = matches!(verdict, RateVerdict::Refuse(..));
    for limit in limits {
        let Some(zone) = limit.zone.get() else { continue };
        if decided.is_some_and(|decided| decided.zone == limit.zone) {
            zone.figures.count(decisive);
        } else if !is_refused && (limits.len() == 1 || zone.key.of(request).is_some()) {
            zone.figures.count(Counted::Passed);
        }
    }
}

fn judge_one(limit: &Limit, request: &Request, count: bool) -> KeyVerdict {
    let Some(zone) = limit.zone.get() else { return KeyVerdict::Keyless };
    let Some(key) = zone.key.of(request) else { return KeyVerdict::Keyless };
    let now = zone.counts.now();
    let bucket = Bucket { rate: zone.rate, burst: limit.burst };
    let judged = if count { zone.counts.count(&key, now, bucket) } else { zone.counts.ask(&key, now, bucket) };
    judged.map_or(KeyVerdict::Wait, KeyVerdict::Judged)
}

/// The time that a request with this excess has to wait.
fn delay_of(limit: &Limit, excess: u64) -> Option<Duration> {
    let beyond = excess.checked_sub(limit.delay?).filter(|beyond| *beyond > 0)?;
    let rate = limit.zone.get()?.rate.max(1);
    Some(Duration::from_millis(beyond.saturating_mul(1000) / rate)).filter(|delay| !delay.is_zero())
}

/// A number of thousandths, printed like in nginx's log.
struct Thousandths(u64);

impl std::fmt::Display for Thousandths {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
