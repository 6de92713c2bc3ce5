//! The `upstream` block of `http`, and the steps when the configuration is put into use.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, SettingsSet};
use freerun_serve::generation::Generation;
use freerun_serve::parts::Paths;
use freerun_serve::resolver_settings::ResolverSettings;
use freerun_serve::shared::Shared;
use freerun_serve::upstream::{self, Plan};
use freerun_upstream::resolve::told;

use crate::upstream::http::{Http, Upstreams};
use crate::upstream::methods::MethodSettings;
use crate::upstream::settings::UpstreamSettings;

/// Reads an `upstream` block.
pub(super) fn read(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<UpstreamSettings>();
    let method = settings.get::<MethodSettings>();
    let resolving = settings.get::<ResolverSettings>();
    let plan = Plan {
        settings: method.group_settings(),
        key: method.key(),
        keepalive: own.keep_alive(),
        servers: own.servers.0.clone(),
        resolver: resolving.resolver.as_ref().map(|resolver| (resolver.0.clone(), resolving.resolver_timeout)),
        zone: own.zone.first(),
        state: own.state.as_ref().map(|path| cx.extensions.get_or_default::<Paths>().absolute(path)),
        extra: method.affinity(),
    };
    upstream::declare::<Http>(node, plan, own.state.is_some(), cx)
}

/// Resolves every reference to its group, after the whole `http` block was read.
pub(super) fn finish(_http: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    upstream::finish::<Http>(cx)
}

/// Looks up the names in the generation's groups before it takes requests.
pub(super) fn prepare(generation: &Arc<Generation>, _shared: &Arc<Shared>) {
    told::report_to(generation.error_log.clone());
    if let Some(upstreams) = generation.parts.get::<Upstreams>() {
        upstream::look_up_all(&upstreams, &generation.error_log);
    }
}
