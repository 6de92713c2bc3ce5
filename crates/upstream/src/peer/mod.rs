//! A server of a group: its configuration, and its state while it runs.

use freerun_conf::bytes_of;

mod avail;

pub(crate) use avail::AdmittedConnection;
#[cfg(test)]
pub(crate) use avail::SCALE;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::address::UpstreamAddress;
use crate::clock::Millis;
use crate::group_state::GroupState;
use crate::health::OutlierRules;
use crate::live::Live;

/// The parameters of nginx's `server` directive that a choice depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// The weight of the server, from 1.
    pub weight: u32,
    /// The most connections at a time; 0: no limit.
    pub max_conns: u32,
    /// Number of failures within `fail_timeout` that make the server unavailable; 0: no number does.
    pub max_fails: u32,
    /// The time in which failures are counted. The server is unavailable for the same time.
    pub fail_timeout: Duration,
    /// The time in which the weight grows from nothing to its value when the server has come back; zero: it does so at
    /// once.
    pub slow_start: Duration,
    /// Whether the server is chosen only when no primary server can be.
    pub backup: bool,
    /// Whether the server is never chosen.
    pub down: bool,
    /// Whether the server is chosen only for clients that are bound to it.
    pub drain: bool,
    /// The name that `sticky route` compares with, and that `sticky cookie` sends to clients.
    pub route: Option<Arc<str>>,
    /// The number of the entry in the group's list that the server comes from; 0: of none.
    pub entry: u32,
}

impl Default for PeerSettings {
    /// nginx's defaults: weight 1, one failure within ten seconds.
    fn default() -> PeerSettings {
        PeerSettings {
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            slow_start: Duration::ZERO,
            backup: false,
            down: false,
            drain: false,
            route: None,
            entry: 0,
        }
    }
}

/// The state of a server as shown by `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// The server is in use.
    Up,
    /// The server is configured not to be used.
    Down,
    /// The server failed too often a short while ago, or the outlier detection has ejected it.
    Unavailable,
    /// The server waits for its first health check.
    Checking,
    /// A health check failed.
    Unhealthy,
    /// Only clients that are bound to the server are sent to it.
    Draining,
}

impl PeerState {
    /// nginx's name for the state.
    pub fn word(self) -> &'static str {
        match self {
            PeerState::Up => "up",
            PeerState::Down => "down",
            PeerState::Unavailable => "unavail",
            PeerState::Checking => "checking",
            PeerState::Unhealthy => "unhealthy",
            PeerState::Draining => "draining",
        }
    }
}

/// A server of a group, with the settings that one configuration gives it. It dereferences to the state of the server.
#[derive(Debug)]
pub struct Peer {
    /// The address of the server.
    pub address: UpstreamAddress,
    /// The address as `$upstream_addr` has it.
    pub name: Arc<str>,
    /// The server as the configuration names it, without parameters. All servers that one name resolves to share this
    /// name.
    pub server: Arc<str>,
    /// The settings of the server.
    pub settings: PeerSettings,
    /// The value that clients bound to the server present: its route, or the hex MD5 sum of its name.
    pub route: Arc<str>,
    pub(crate) live: Arc<Live>,
    pub(crate) state: Arc<GroupState>,
    pub(crate) outlier: Option<Arc<OutlierRules>>,
    /// Whether this is the only server of the group: failures do not count then.
    pub(crate) single: bool,
    /// Whether the group's method looks at the age of requests in flight.
    pub(crate) ages: bool,
}

/// The route of a server that has none configured: the hex MD5 sum of its name.
pub(crate) fn route_of(name: &str) -> Arc<str> {
    use md5::{Digest, Md5};
    let mut text = String::with_capacity(32);
    for byte in Md5::digest(bytes_of(name)) {
        text.push_str(&format!("{byte:02x}"));
    }
    text.into()
}

impl Deref for Peer {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.live
    }
}

impl Peer {
    /// The state of the server as shown by `status`.
    pub fn state(&self, now: Millis) -> PeerState {
        if self.settings.down {
            PeerState::Down
        } else if self.unhealthy.load(Relaxed) > 0 {
            PeerState::Unhealthy
        } else if self.checking.load(Relaxed) > 0 {
            PeerState::Checking
        } else if self.ejected.load(Relaxed) > now || (self.until.load(Relaxed) != 0 && self.fails_count()) {
            PeerState::Unavailable
        } else if self.settings.drain {
            PeerState::Draining
        } else {
            PeerState::Up
        }
    }

    /// The number of connections in use, and of attempts to make one.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// The state of the server, which the [`Peer`]s of all configurations share.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }
}
