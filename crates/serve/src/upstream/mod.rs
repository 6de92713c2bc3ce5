//! Groups of upstream servers, for subjects that are passed to one of them.
//!
//! While the configuration is read, an `upstream` block is [`declare`]d, and a directive [`refer`]s to a group, which may be
//! declared below it. [`finish`] connects both when the whole configuration has been read. From then on all loops share the
//! group. The state of a server survives reloads, by the name of the group and the server's address.
//!
//! The tables of directives belong to the protocols; the values in them, and all operations on them, are here, generic
//! over the [`SubjectProtocol`]. So is the choice of a server: [`Upstream::asking`] computes the inputs of the method from the
//! subject, and [`Upstream::pick_now`] and [`Upstream::pick_later`] ask the group. Names of servers are looked up
//! outside of the loops ([`look_up_all`]), those that a subject computes by [`find`]. The [`tries`] of a subject are limited
//! and recorded in the same way in all protocols.

mod alpn;
mod any_group;
mod bind;
mod choose;
mod computed;
mod entries;
mod group;
pub mod health;
mod known_addresses;
mod method;
mod names;
mod outliers;
mod proxy_protocol;
mod registry;
pub mod relay;
pub mod resolver;
pub mod resolver_settings;
mod server;
mod settings;
mod sticky;
pub mod tries;
mod waiting;
mod zone;

use std::fmt;

use freerun_conf::parse_number;
use freerun_upstream::method::Measure;

pub use alpn::Alpn;
pub use any_group::{AnyGroup, AnyGroups, GroupsByProtocol};
pub use bind::{Bind, Local};
pub use choose::ChoiceInputs;
pub use entries::ServerEntry;
pub use group::{GroupResolver, Plan, Upstream};
pub use method::GroupMethod;
pub use names::{SystemName, look_up_all, name_servers, prepare, system_names, unknown};
pub use outliers::Outliers;
pub use proxy_protocol::{OwnTlv, ProxyProtocol};
pub use registry::{NotFound, UpstreamRef, Upstreams, declare, find, finish, refer};
pub use server::{ServerSetting, Servers};
pub use sticky::{StickyValues, Ties, part_of, sticky_variable};
pub use waiting::Queue;
pub use zone::SharedZones;

use crate::values::subject::Subject;

/// A protocol whose subjects are passed to upstream servers. No value of the type is ever used.
pub trait SubjectProtocol: fmt::Debug + Clone + Default + Send + Sync + 'static {
    /// The requests or sessions that are passed on.
    type Subject: Subject;

    /// The data of groups besides their servers and the settings of the choice.
    type Extra: fmt::Debug + Default + Send + Sync;

    /// The name of the protocol, which tells its groups from groups with the same name of another protocol.
    const NAME: &'static str;

    /// The port of a server that is written without one; `None` if a port is required.
    const DEFAULT_PORT: Option<u16>;

    /// The times that `least_time` may compare, by the words of the directive.
    const MEASURES: &'static [(&'static str, Measure)] =
        &[("header", Measure::Header), ("last_byte", Measure::LastByte)];
}

/// A number in a parameter: decimal digits, up to 32 bits.
pub fn number(text: &str) -> Option<u32> {
    parse_number(text).and_then(|number| u32::try_from(number).ok())
}
