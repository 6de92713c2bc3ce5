//! Groups of servers that requests are passed to: `upstream` blocks, and those that an address or a name in `proxy_pass`
//! and its kin makes.
//!
//! A directive that passes requests on refers to its group by [`refer`] while the configuration is read; the group is there
//! when all of it has been read. What a request computes is found by [`find`]. Groups are shared by all loops. What is known of a
//! server, and its idle connections, go on over reloads, by the name of the group and the server's address.

mod choose;
mod computed;
mod group;
pub mod methods;
mod names;
pub mod ntlm;
mod registry;
pub mod server;
pub mod settings;
pub mod sticky;

pub use group::Upstream;
pub use names::unknown;
pub use registry::{NotFound, UpstreamRef, Upstreams, find, refer};

use freerun_conf::{Contexts, Directive, Shape, group as settings_group};
use freerun_http::module::{Block, Module};

use crate::state::variables;
use crate::upstream::methods::MethodSettings;
use crate::upstream::settings::UpstreamSettings;

/// Groups of servers, and the variables of requests that are passed to them.
pub static MODULE: Module = Module {
    name: "upstream",
    groups: &[settings_group::<UpstreamSettings>(), settings_group::<MethodSettings>()],
    blocks: &[Block {
        directive: Directive::structural(
            "upstream",
            Contexts::HTTP,
            Shape::exactly(1, "name").with_block(Contexts::UPSTREAM),
            "A group of servers. `proxy_pass` and its kin name it instead of an address.",
        ),
        read: registry::read_block,
    }],
    variables: variables::VARIABLES,
    finish: Some(registry::finish),
    prepare: Some(names::prepare),
    ..Module::EMPTY
};

#[cfg(test)]
mod tests;
