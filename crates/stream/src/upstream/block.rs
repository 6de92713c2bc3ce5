//! The `upstream` block of `stream`.

use freerun_conf::{Cx, Node, Problem, SettingsSet};
use freerun_serve::configuration::state_file::StateFile;
use freerun_serve::upstream::resolver_settings::ResolverSettings;
use freerun_serve::upstream::{self, Plan};

use super::Stream;
use super::settings::UpstreamSettings;

/// Reads an `upstream` block.
pub(super) fn read(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<UpstreamSettings>();
    let resolving = settings.get::<ResolverSettings>().resolver_and_timeout();
    let state = own.state.as_ref().map(|path| StateFile::of(path, cx));
    let plan = Plan {
        settings: own.group_settings(),
        key: own.method.key.clone(),
        servers: own.servers.0.clone(),
        resolver: resolving.map(|(resolver, timeout)| (resolver.clone(), timeout)),
        zone: own.zone.first(),
        state,
        extra: own.sticky(),
        ..Plan::default()
    };
    upstream::declare::<Stream>(node, plan, own.state.is_some(), cx)
}
