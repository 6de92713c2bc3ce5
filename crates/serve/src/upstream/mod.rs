//! Groups of upstream servers, for whoever is passed on to one of them.
//!
//! While the configuration is read, an `upstream` block is [`declare`]d, a directive [`refer`]s to a group, which may be
//! declared below it, and [`finish`] brings both together when all has been read. From then on the group is shared by all
//! loops. What is known of a server goes on over reloads, by the name of the group and the server's address.
//!
//! The tables of directives are the protocols' own; the values in them, and all that is done with them, are here, generic
//! over the [`Protocol`]. So is the choice of a server: [`Upstream::asking`] finds in the subject what the method looks at,
//! [`Upstream::pick_now`] and [`Upstream::pick_later`] ask the group. Names of servers are looked up beside the loops
//! ([`look_up_all`]), those that a subject computes by [`find`].

mod choose;
mod computed;
mod group;
mod known;
mod method;
mod names;
mod outliers;
mod registry;
mod server;
mod waiting;
mod zone;

use std::fmt;

pub use choose::Asking;
pub use group::{Plan, Resolving, Upstream};
pub use method::Balance;
pub use names::{look_up_all, unknown};
pub use outliers::Outliers;
pub use registry::{NotFound, UpstreamRef, Upstreams, declare, find, finish, refer};
pub use server::{Server, Servers};
pub use waiting::Queue;
pub use zone::SharedZones;

use crate::subject::Subject;

/// A protocol whose subjects are passed on to upstream servers. It stands for a value that nobody ever needs.
pub trait Protocol: fmt::Debug + Clone + Default + Send + Sync + 'static {
    /// Who is passed on.
    type Subject: Subject;

    /// What groups have beside their servers and what a choice among these depends on.
    type Extra: fmt::Debug + Default + Send + Sync;

    /// Its name, which tells its groups from those that another protocol calls by the same name.
    const NAME: &'static str;

    /// The port of a server that is written without one; `None`: it has to be written.
    const DEFAULT_PORT: Option<u16>;
}

/// A number of a parameter: decimal digits, up to 32 bits.
pub fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
