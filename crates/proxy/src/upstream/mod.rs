//! Groups of servers that requests are passed to: `upstream` blocks, and the groups made by an address or a name in
//! `proxy_pass` and the corresponding directives.
//!
//! The part that is common to all protocols is in [`freerun_serve::upstream`]. This module has the directives of the
//! block, and the features of requests: cookies and sessions that bind a client to a server ([`sticky`]), and
//! connections that are authenticated ([`ntlm`]).

mod block;
mod choose;
mod http;
pub mod methods;
pub mod ntlm;
pub mod settings;
pub mod sticky;

use freerun_serve::upstream;
pub use freerun_serve::upstream::{name_servers, refer, system_names, unknown};
pub use http::{HttpGroups, HttpServers, Upstream, UpstreamRef, Upstreams, find};

use freerun_conf::{Contexts, Directive, Shape, group as settings_group};
use freerun_http::module::{Module, ModuleBlock};

use crate::state::variables;
use crate::upstream::methods::MethodSettings;
use crate::upstream::settings::UpstreamSettings;

/// Groups of servers, and the variables of requests that are passed to them.
pub static MODULE: Module = Module {
    name: "upstream",
    groups: &[settings_group::<UpstreamSettings>(), settings_group::<MethodSettings>()],
    blocks: &[ModuleBlock {
        directive: Directive::structural(
            "upstream",
            Contexts::HTTP,
            Shape::exactly(1, "name").with_block(Contexts::UPSTREAM),
            "A group of servers. `proxy_pass` and its kin name it instead of an address.",
        ),
        read: block::read,
    }],
    variables: variables::VARIABLES,
    finish: Some(|_, cx| upstream::finish::<HttpGroups>(cx)),
    prepare: Some(upstream::prepare::<HttpGroups>),
    ..Module::EMPTY
};

#[cfg(test)]
mod tests;
