//! The `upstream` block of `stream`, and the steps when the configuration is put into use.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, SettingsSet};
use freerun_serve::generation::Generation;
use freerun_serve::parts::Paths;
use freerun_serve::resolver_settings::ResolverSettings;
use freerun_serve::shared::Shared;
use freerun_serve::upstream::{self, Plan};
use freerun_upstream::resolve::told;

use super::settings::UpstreamSettings;
use super::{Stream, Upstreams};

/// Reads an `upstream` block.
pub(super) fn read(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<UpstreamSettings>();
    let resolving = settings.get::<ResolverSettings>();
    let plan = Plan {
        settings: own.group_settings(),
        key: own.method.key.clone(),
        servers: own.servers.0.clone(),
        resolver: resolving.resolver.as_ref().map(|resolver| (resolver.0.clone(), resolving.resolver_timeout)),
        zone: own.zone.first(),
        state: own.state.as_ref().map(|path| cx.extensions.get_or_default::<Paths>().absolute(path)),
        extra: own.sticky(),
        ..Plan::default()
    };
    upstream::declare::<Stream>(node, plan, own.state.is_some(), cx)
}

/// Resolves every reference to its group, after the whole `stream` block was read.
pub(super) fn finish(_stream: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    upstream::finish::<Stream>(cx)
}

/// Looks up the names in the generation's groups before it takes sessions.
pub(super) fn prepare(generation: &Arc<Generation>, _shared: &Arc<Shared>) {
    told::report_to(generation.error_log.clone());
    if let Some(upstreams) = generation.parts.get::<Upstreams>() {
        upstream::look_up_all(&upstreams, &generation.error_log);
    }
}
