//! `limit_conn`: limits how many sessions with the same key there are at the same time.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_limit_conn_module.html>

use std::borrow::Cow;
use std::cell::Cell;

use freerun_conf::{SettingsSet, group, settings};
use freerun_serve::limits::{ConnLimits, ConnVerdict, ConnZones, RefusalLevel};
use freerun_serve::values::Variable;

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PhaseOutcome, status};

settings! {
    /// Limits how many sessions with the same key there are at the same time.
    #[module = "stream/limit_conn"]
    pub struct LimitConnSettings {
        /// Defines a zone: the key that distinguishes sessions, and the size of its memory.
        ///
        /// It is as `limit_conn_zone` in `http`. Sessions with an empty key are not counted.
        limit_conn_zone: ConnZones<Session>, in STREAM,
            fidelity = Differs("a state takes 8 bytes instead of 32 or 64; a zone whose key or size changes on reload starts anew");
        /// Limits the sessions of each key that there are at the same time; one beyond ends with status 503.
        limit_conn: ConnLimits<Session>, in STREAM | STREAM_SERVER;
        /// Only counts, logs and sets `$limit_conn_status`; nothing is refused.
        limit_conn_dry_run: bool = "off", in STREAM | STREAM_SERVER;
        /// The level that refusals are logged at.
        limit_conn_log_level: RefusalLevel = "error", in STREAM | STREAM_SERVER;
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/limit_conn",
    groups: &[group::<LimitConnSettings>()],
    handlers: &[Handler { phase: Phase::PreAccess, wanted, run: HandlerRun::NowOrAfterEvents(run_now, run) }],
    variables: &[Variable::named(
        "limit_conn_status",
        "What `limit_conn` decided: `PASSED`, `REJECTED`, or `REJECTED_DRY_RUN`.",
        |session, _| Some(Cow::Borrowed(session.states.find::<ConnLimitStatus>()?.0.get()?)),
    )],
    ..Module::EMPTY
};

/// The result for a session.
#[derive(Default)]
struct ConnLimitStatus(Cell<Option<&'static [u8]>>);

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<LimitConnSettings>().limit_conn.is_empty()
}

/// Decides at once, unless the session would be refused: the place of a client that has just gone is free when the loop has
/// looked at its events.
fn run_now(session: &Session) -> Option<PhaseOutcome> {
    (!session.settings().get::<LimitConnSettings>().limit_conn.is_full(session)).then(|| run(session))
}

fn run(session: &Session) -> PhaseOutcome {
    let settings = session.settings();
    let limits = settings.get::<LimitConnSettings>();
    let dry = limits.limit_conn_dry_run;
    let verdict = limits.limit_conn.enter(session, dry, limits.limit_conn_log_level.level());
    if let Some(result) = verdict.status(dry) {
        session.states.get::<ConnLimitStatus>().0.set(Some(result));
    }
    match verdict {
        ConnVerdict::Counted(places) => session.keep_places(places),
        ConnVerdict::Refused if !dry => return PhaseOutcome::End(status::SERVICE_UNAVAILABLE),
        ConnVerdict::Refused | ConnVerdict::NotCounted => {}
    }
    PhaseOutcome::Declined
}
