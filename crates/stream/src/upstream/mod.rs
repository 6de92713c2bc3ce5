//! Groups of servers that sessions are passed to: `upstream` blocks of stream, and the groups made by an address or a name in
//! `proxy_pass`.
//!
//! All that is common with other protocols is in [`freerun_serve::upstream`]; this module has the directives of the block.

mod block;
mod settings;
mod sticky;

use std::sync::Arc;

use freerun_conf::{Contexts, Directive, Shape, group as settings_group};
use freerun_serve::upstream::resolver_settings::ResolverSettings;
use freerun_serve::upstream::{self, NotFound, StickyValues, SubjectProtocol};
use freerun_upstream::method::Measure;

pub use self::settings::UpstreamSettings;
use crate::module::{Module, ModuleBlock};
use crate::session::Session;

/// Stream as a parameter of the generic groups.
#[derive(Debug, Clone, Default)]
pub struct Stream;

impl SubjectProtocol for Stream {
    type Subject = Session;
    type Extra = Option<StickyValues<Session>>;

    const NAME: &'static str = "stream";
    const DEFAULT_PORT: Option<u16> = None;
    const MEASURES: &'static [(&'static str, Measure)] =
        &[("connect", Measure::Connect), ("first_byte", Measure::Header), ("last_byte", Measure::LastByte)];
}

/// A group of servers that sessions are passed to.
pub type StreamUpstream = upstream::Upstream<Stream>;

/// The groups of a configuration.
pub type Upstreams = upstream::Upstreams<Stream>;

/// A directive's reference to a group.
pub type UpstreamRef = upstream::UpstreamRef<Stream>;

/// The value of the directive `server` in a group.
pub type StreamServers = upstream::Servers<Stream>;

/// The method of a group, and the text that it depends on.
pub type Balance = upstream::GroupMethod<Stream>;

/// The group for `text`, which variables of the session have given: the name of an `upstream` block, an address, or a name
/// that is looked up with the server's `resolver`. It never blocks in a system call; a name may take `resolver_timeout`.
///
/// # Errors
/// [`NotFound`] if there is no such group and the name does not resolve.
pub async fn find(session: &Session, text: &str) -> Result<Arc<StreamUpstream>, NotFound> {
    let settings = session.settings();
    let resolver = settings.get::<ResolverSettings>().resolver_and_timeout();
    upstream::find(session, resolver, text, None).await
}

/// Groups of servers.
pub static MODULE: Module = Module {
    name: "stream/upstream",
    groups: &[settings_group::<UpstreamSettings>()],
    blocks: &[ModuleBlock {
        directive: Directive::structural(
            "upstream",
            Contexts::STREAM,
            Shape::exactly(1, "name").with_block(Contexts::STREAM_UPSTREAM),
            "A group of servers. `proxy_pass` names it instead of an address.",
        ),
        read: block::read,
    }],
    finish: Some(|_, cx| upstream::finish::<Stream>(cx)),
    prepare: Some(upstream::prepare::<Stream>),
    ..Module::EMPTY
};
