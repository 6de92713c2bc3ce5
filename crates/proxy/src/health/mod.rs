//! Health checks: requests that find out whether servers are healthy.
//!
//! `settings.rs` reads `health_check` and `match`, `matching.rs` decides whether a response passes, `grpc.rs` has the question
//! and the answer of a check by gRPC, `probe.rs` sends one check, `watcher.rs` runs the checks on the loops. The consequence of a series of results is decided in
//! `freerun_upstream::health`.

mod grpc;
mod matching;
mod probe;
mod settings;
mod watcher;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_conf::{Cx, Problem, SettingsSet, group};
use freerun_http::module::Module;
use freerun_serve::accept::loop_listeners;
use freerun_serve::generation::Generation;
use freerun_serve::parts::Parts;
use freerun_serve::shared::Shared;
use freerun_serve::zones::ZoneTable;
use freerun_upstream::health::Watch;

use crate::exchange::family::Family;
use crate::family::http::settings::{HttpSettings, HttpVersion};
use crate::family::{fastcgi, grpc as grpc_family, http, scgi, uwsgi};
use crate::health::settings::{Declared, HealthCheck, HealthSettings};
use crate::health::watcher::{Key, Watcher};
use crate::upstream::{Upstream, UpstreamRef, Upstreams};

/// The module of health checks. It has to stand after the module of the groups.
pub static MODULE: Module = Module {
    name: "health_check",
    groups: &[group::<HealthSettings>()],
    settle: Some(settle),
    finish: Some(finish),
    prepare: Some(prepare),
    begin: Some(begin),
    ..Module::EMPTY
};

/// A check of a group, as a location configures it.
pub struct Check {
    /// The identity of the check over reloads.
    key: Arc<str>,
    /// The group's name.
    name: Arc<str>,
    rules: HealthCheck,
    settings: SettingsSet,
    family: &'static dyn Family,
    group: UpstreamRef,
}

impl Check {
    fn group(&self) -> Option<&Arc<Upstream>> {
        self.group.get()
    }
}

/// The checks of a generation.
#[derive(Default)]
struct Checks(Vec<Arc<Check>>);

/// The mandatory checks that run: a mandatory check that is new holds its servers back from the first request on. Each
/// loop enters those that it runs.
#[derive(Default)]
struct Known(ArcSwap<HashSet<Key>>);

impl Known {
    fn change(&self, ended: &[Key], begun: &[Key]) {
        self.0.rcu(|running| {
            let mut next = HashSet::clone(running);
            next.retain(|key| !ended.contains(key));
            next.extend(begun.iter().cloned());
            next
        });
    }
}

/// The checks gathered while the configuration is read.
#[derive(Default)]
struct Gathered(Vec<Check>);

/// The group that the location's requests are passed to.
fn passed_to(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    let all =
        [http::fixed_group, grpc_family::fixed_group, fastcgi::fixed_group, uwsgi::fixed_group, scgi::fixed_group];
    all.iter().find_map(|of| of(settings))
}

fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let Some(rules) = settings.get::<HealthSettings>().health_check.clone() else { return Ok(()) };
    let Some((family, group)) = passed_to(settings) else {
        let problem =
            Problem::new("no upstream to check: \"health_check\" stands without a \"proxy_pass\"").at(rules.place);
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
        let problem = Problem::new("\"health_check type=grpc\" needs HTTP/2").at(rules.place);
        return Err(
            problem.hint("the location has to have \"grpc_pass\", or \"proxy_pass\" with \"proxy_http_version 2\"")
        );
    }
    let check = Check { key: "".into(), name: "".into(), rules, settings: settings.clone(), family, group };
    cx.extensions.get_or_default::<Gathered>().0.push(check);
    Ok(())
}

fn finish(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    cx.extensions.get_or_default::<Declared>().check()?;
    let gathered = cx.extensions.remove::<Gathered>().unwrap_or_default().0;
    let mut same: HashMap<String, usize> = HashMap::new();
    let checks = gathered.into_iter().map(|mut check| {
        if let Some(group) = check.group() {
            check.name = group.name().clone();
        }
        let matching = check.rules.matching.as_ref().and_then(|matching| matching.get());
        let text = format!(
            "{} {} {{{}}} {}",
            check.name,
            check.rules.text,
            matching.map_or("", |matching| &matching.text),
            check.family.name()
        );
        let nth = same.entry(text.clone()).or_default();
        *nth += 1;
        check.key = format!("{text} {nth}").into();
        Arc::new(check)
    });
    let checks = Checks(checks.collect());
    let known = cx.extensions.get_or_default::<ZoneTable>().keep("health checks", Known::default);
    let parts = cx.extensions.get_or_default::<Parts>();
    parts.insert(Arc::new(checks));
    parts.insert(known);
    Ok(())
}

/// Holds servers back from the first request on whose mandatory checks begin.
fn prepare(generation: &Arc<Generation>, shared: &Arc<Shared>) {
    let parts = &generation.parts;
    let (Some(checks), Some(known)) = (parts.get::<Checks>(), parts.get::<Known>()) else { return };
    let running = known.0.load_full();
    let mut new: HashMap<usize, Vec<(Key, Watch)>> = HashMap::new();
    for group in parts.get::<Upstreams>().iter().flat_map(|upstreams| upstreams.all()) {
        let own =
            |check: &&Arc<Check>| check.rules.rules.mandatory && check.group().is_some_and(|of| Arc::ptr_eq(of, group));
        let own: Vec<&Arc<Check>> = checks.0.iter().filter(own).collect();
        // This applies to servers that a name resolves to from now on.
        group.group.state().hold_back(own.len() as u32);
        let peers = group.group.peers();
        for check in own {
            for peer in peers.peers().filter(|peer| !peer.settings.down) {
                let key = Key::new(check, peer);
                if !running.contains(&key) {
                    let watch = Watch::new(peer.live().clone(), check.rules.rules);
                    new.entry(key.loop_index(shared.loops.len())).or_default().push((key, watch));
                }
            }
        }
        peers.peers().for_each(|peer| peer.live().unhold());
    }
    for (index, watches) in new {
        loop_listeners::tell(shared, index, move |services| {
            services.loop_state.modules.get::<Watcher>().prepare(watches);
        });
    }
}

fn begin(_: &Arc<Generation>, shared: &Arc<Shared>) {
    for index in 0..shared.loops.len() {
        loop_listeners::tell(shared, index, |services| {
            services.loop_state.modules.get::<Watcher>().begin(&services.loop_state);
        });
    }
}
