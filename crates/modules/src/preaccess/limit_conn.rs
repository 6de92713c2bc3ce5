//! `limit_conn`: limits how many requests with the same key are served at the same time.
//!
//! <https://nginx.org/en/docs/http/ngx_http_limit_conn_module.html>

use std::borrow::Cow;
use std::cell::Cell;

use freerun_conf::{SettingsSet, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::variables::Variable;
use freerun_runtime::loops;
use freerun_serve::limits::{ConnLimits, ConnVerdict, ConnZones, RefusalLevel};

use super::key::RefusalStatus;

settings! {
    /// Limits how many requests with the same key are served at the same time.
    #[module = "limit_conn"]
    pub struct LimitConnSettings {
        /// Defines a zone: the key that distinguishes requests, and the size of its memory.
        ///
        /// A key takes 8 bytes while requests of it are served. If there is no place for another one (among the 32 that
        /// share a set of the table), its requests are refused. Requests with an empty key are not counted. A zone
        /// keeps its state over a reload if its name, size and key stay.
        limit_conn_zone: ConnZones<Request>, in HTTP,
            fidelity = Differs("a state takes 8 bytes instead of 32 or 64; a zone whose key or size changes on reload starts anew");
        /// Limits the requests of each key that are served at the same time.
        ///
        /// A connection counts only while it has a request whose head has been read. It counts until the end of the
        /// response is sent, or until the client ends its side of the connection. A level may have several limits.
        limit_conn: ConnLimits<Request>, in HTTP | SERVER | LOCATION;
        /// Only counts, logs and sets `$limit_conn_status`; nothing is refused.
        limit_conn_dry_run: bool = "off", in HTTP | SERVER | LOCATION;
        /// The level that refusals are logged at.
        limit_conn_log_level: RefusalLevel = "error", in HTTP | SERVER | LOCATION;
        /// The status of refused requests.
        limit_conn_status: RefusalStatus = "503", in HTTP | SERVER | LOCATION;
    }
}

/// The module `limit_conn`.
pub static MODULE: Module = Module {
    name: "limit_conn",
    groups: &[group::<LimitConnSettings>()],
    handlers: &[Handler { phase: Phase::PreAccess, wanted, run: Run::NowOrLater(run_now, run_later) }],
    variables: &[Variable::named(
        "limit_conn_status",
        "What `limit_conn` decided: `PASSED`, `REJECTED`, or `REJECTED_DRY_RUN`.",
        |request, _| Some(Cow::Borrowed(request.find_shared::<ConnLimitState>()?.status.get()?)),
    )],
    ..Module::EMPTY
};

/// The result for a request. A request is counted once, whatever internal redirects and subrequests it leads to.
#[derive(Default)]
struct ConnLimitState {
    status: Cell<Option<&'static [u8]>>,
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<LimitConnSettings>().limit_conn.is_empty()
}

/// Decides at once, unless the request would be refused: then the loop first looks at its events. A client that has just gone, as
/// one does that loads a page again, is seen there, and its place is free.
fn run_now(request: &mut Request) -> Option<Outcome> {
    let is_judged = request.find_shared::<ConnLimitState>().is_some_and(|judged| judged.status.get().is_some());
    let limits = &request.settings().get::<LimitConnSettings>().limit_conn;
    (is_judged || !limits.is_full(request)).then(|| run(request))
}

fn run_later(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        loops::after_events().await;
        run(request)
    })
}

fn run(request: &mut Request) -> Outcome {
    let judged = request.shared().get::<ConnLimitState>();
    if judged.status.get().is_some() {
        return Outcome::Declined;
    }
    let location = request.place.location.clone();
    let settings = location.settings.get::<LimitConnSettings>();
    let dry = settings.limit_conn_dry_run;
    let verdict = settings.limit_conn.enter(request, dry, settings.limit_conn_log_level.level());
    judged.status.set(verdict.status(dry));
    match verdict {
        ConnVerdict::Counted(places) => request.keep_places(places),
        ConnVerdict::Refused if !dry => return Outcome::Status(settings.limit_conn_status.0),
        ConnVerdict::Refused | ConnVerdict::NotCounted => {}
    }
    Outcome::Declined
}
