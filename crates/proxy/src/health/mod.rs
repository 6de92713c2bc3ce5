//! Health checks: requests that find out whether servers are healthy.
//!
//! `settings.rs` reads `health_check` and `match`, `matching.rs` decides whether a response passes, `grpc.rs` has the question
//! and the answer of a check by gRPC, `probe.rs` sends one check. When that is done, on which loop, and what follows from it is
//! the business of [`freerun_serve::upstream::health`].

mod grpc;
mod matching;
mod probe;
mod settings;

use std::rc::Rc;
use std::sync::Arc;

use freerun_conf::{Cx, Problem, SettingsSet, group};
use freerun_http::module::Module;
use freerun_serve::loops::state::LoopState;
use freerun_serve::upstream::health::{self, CheckSettings};
use freerun_upstream::Peer;

use crate::exchange::family::Family;
use crate::family::http::settings::{HttpSettings, HttpVersion};
use crate::family::{fastcgi, grpc as grpc_family, http, scgi, uwsgi};
use crate::health::matching::MatchTests;
use crate::health::probe::{KeptCheckConnection, NoConnection};
use crate::health::settings::{HealthCheck, HealthSettings};
use crate::upstream::{HttpGroups, Upstream, UpstreamRef};

/// The module of health checks. It has to stand after the module of the groups.
pub static MODULE: Module = Module {
    name: "health_check",
    groups: &[group::<HealthSettings>()],
    settle: Some(settle),
    finish: Some(|_, cx| health::finish::<Check, MatchTests>(cx)),
    prepare: Some(health::prepare::<Check>),
    begin: Some(health::begin::<Check>),
    ..Module::EMPTY
};

/// A check of a group, as a location configures it.
pub struct Check {
    rules: HealthCheck,
    /// The words for it in the log.
    shown: String,
    settings: SettingsSet,
    family: &'static dyn Family,
    group: UpstreamRef,
}

impl Check {
    /// The group's name.
    fn name(&self) -> &str {
        self.group.get().map_or("", |group| group.name())
    }
}

impl health::GroupCheck for Check {
    type Protocol = HttpGroups;
    type Kept = Option<KeptCheckConnection>;
    type Local = NoConnection;

    fn checking(&self) -> &CheckSettings {
        &self.rules.checking
    }

    fn group(&self) -> Option<&Arc<Upstream>> {
        self.group.get()
    }

    fn text(&self) -> String {
        format!("{} {}", self.rules.checking.text(self.rules.matching.as_ref()), self.family.name())
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    async fn check(
        &self,
        peer: &Arc<Peer>,
        kept: &mut Option<KeptCheckConnection>,
        loop_state: &Rc<LoopState>,
        local: &NoConnection,
    ) -> Result<(), probe::CheckFailure> {
        probe::check(self, peer, kept, loop_state, local).await
    }
}

/// The group that the location's requests are passed to.
fn passed_to(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    let all =
        [http::fixed_group, grpc_family::fixed_group, fastcgi::fixed_group, uwsgi::fixed_group, scgi::fixed_group];
    all.iter().find_map(|of| of(settings))
}

fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let Some(rules) = settings.get::<HealthSettings>().health_check.clone() else { return Ok(()) };
    let Some((family, group)) = passed_to(settings) else {
        let problem = Problem::new("no upstream to check: \"health_check\" stands without a \"proxy_pass\"")
            .at(rules.checking.place);
        return Err(
            problem.hint("the location has to pass requests on, to a server or group that is named without variables")
        );
    };
    let is_http2 = match family.name() {
        "grpc" => true,
        "proxy" => settings.get::<HttpSettings>().proxy_http_version == HttpVersion::Http2,
        _ => false,
    };
    if rules.grpc.is_some() && !is_http2 {
        let problem = Problem::new("\"health_check type=grpc\" needs HTTP/2").at(rules.checking.place);
        return Err(
            problem.hint("the location has to have \"grpc_pass\", or \"proxy_pass\" with \"proxy_http_version 2\"")
        );
    }
    let shown = format!("\"{}\" ", rules.uri);
    health::declare(Check { rules, shown, settings: settings.clone(), family, group }, cx);
    Ok(())
}
