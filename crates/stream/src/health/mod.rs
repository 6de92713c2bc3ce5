//! Health checks of stream: connections that find out whether servers are healthy.
//!
//! `settings.rs` reads `health_check` and `match`, `matching.rs` has what is sent and expected, `probe.rs` makes one check.
//! When that is done, on which loop, and what follows from it is the business of [`freerun_serve::upstream::health`].

mod matching;
mod probe;
mod settings;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Place, Problem, SettingsSet, group};
use freerun_serve::loops::state::LoopState;
use freerun_serve::upstream::health::{self, CheckSettings, GroupCheck, MatchRef};
use freerun_upstream::Peer;

use self::matching::Match;
use self::settings::{HealthCheck, HealthSettings};
use crate::module::Module;
use crate::proxy::ProxySettings;
use crate::upstream::{Stream, StreamUpstream, UpstreamRef};

/// The module of health checks. It has to stand after the module of the groups.
pub static MODULE: Module = Module {
    name: "stream/health_check",
    groups: &[group::<HealthSettings>()],
    settle: Some(settle),
    finish: Some(finish),
    prepare: Some(health::prepare::<StreamCheck>),
    begin: Some(health::begin::<StreamCheck>),
    ..Module::EMPTY
};

/// A check of a group, as a server configures it.
struct StreamCheck {
    rules: HealthCheck,
    settings: SettingsSet,
    group: UpstreamRef,
}

impl StreamCheck {
    /// The longest time of a check.
    fn timeout(&self) -> Duration {
        self.settings.get::<HealthSettings>().health_check_timeout
    }
}

impl GroupCheck for StreamCheck {
    type Protocol = Stream;
    type Kept = ();
    type Local = ();

    fn checking(&self) -> &CheckSettings {
        &self.rules.checking
    }

    fn group(&self) -> Option<&Arc<StreamUpstream>> {
        self.group.get()
    }

    fn text(&self) -> String {
        self.rules.checking.text(self.rules.matching.as_ref())
    }

    fn shown(&self) -> &str {
        ""
    }

    async fn check(
        &self,
        peer: &Arc<Peer>,
        (): &mut (),
        loop_state: &Rc<LoopState>,
        (): &(),
    ) -> Result<(), &'static str> {
        probe::check(self, peer, loop_state).await
    }
}

/// Checks of datagrams that have to send something, each with the place of its directive; lives in the configuration's context
/// until all `match` blocks are known.
#[derive(Default)]
struct Senders(Vec<(Option<MatchRef<Match>>, Place)>);

fn finish(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    health::finish::<StreamCheck, Match>(cx)?;
    for (matching, place) in cx.extensions.remove::<Senders>().unwrap_or_default().0 {
        if matching.as_ref().and_then(|matching| matching.get()).is_none_or(|block| block.matching.sends_nothing()) {
            let problem =
                Problem::new("nothing to send: \"health_check udp\" needs a \"match\" with \"send\"").at(place);
            cx.report(problem.hint("a server says nothing by itself; send it something that it answers"))?;
        }
    }
    Ok(())
}

fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let Some(rules) = settings.get::<HealthSettings>().health_check.clone() else { return Ok(()) };
    let group = settings.get::<ProxySettings>().proxy_pass.as_ref().and_then(|pass| pass.fixed_group().cloned());
    let Some(group) = group else {
        let message = "no upstream to check: \"health_check\" stands without a \"proxy_pass\"";
        let problem = Problem::new(message).at(rules.checking.place);
        return Err(
            problem.hint("the server has to pass sessions on, to a server or group that is named without variables")
        );
    };
    if rules.udp {
        cx.extensions.get_or_default::<Senders>().0.push((rules.matching.clone(), rules.checking.place));
    }
    health::declare(StreamCheck { rules, settings: settings.clone(), group }, cx);
    Ok(())
}
