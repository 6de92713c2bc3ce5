//! The `upstream` block of `http`.

use freerun_conf::{Cx, Node, Problem, SettingsSet};
use freerun_serve::configuration::state_file::StateFile;
use freerun_serve::upstream::resolver_settings::ResolverSettings;
use freerun_serve::upstream::{self, Plan};

use crate::upstream::http::HttpGroups;
use crate::upstream::methods::MethodSettings;
use crate::upstream::settings::UpstreamSettings;

/// Reads an `upstream` block.
pub(super) fn read(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<UpstreamSettings>();
    let method = settings.get::<MethodSettings>();
    let resolving = settings.get::<ResolverSettings>().resolver_and_timeout();
    let state = own.state.as_ref().map(|path| StateFile::of(path, cx));
    let plan = Plan {
        settings: method.group_settings(),
        key: method.key(),
        keepalive: own.keep_alive(),
        servers: own.servers.0.clone(),
        resolver: resolving.map(|(resolver, timeout)| (resolver.clone(), timeout)),
        zone: own.zone.first(),
        state,
        extra: method.affinity(),
    };
    upstream::declare::<HttpGroups>(node, plan, own.state.is_some(), cx)
}
