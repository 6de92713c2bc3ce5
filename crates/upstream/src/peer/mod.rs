//! A server of a group: how it is configured, and what is known of it while it runs.

mod avail;

pub(crate) use avail::Admitted;
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
    /// Share of the requests, from 1.
    pub weight: u32,
    /// Most connections at a time; 0: no limit.
    pub max_conns: u32,
    /// How many failures within `fail_timeout` make the server unavailable; 0: none ever do.
    pub max_fails: u32,
    /// The time in which failures are counted, and for which the server is unavailable then.
    pub fail_timeout: Duration,
    /// The time in which the weight grows from nothing to its value when the server has come back; zero: at once.
    pub slow_start: Duration,
    /// Asked only when no primary server can be.
    pub backup: bool,
    /// Never asked.
    pub down: bool,
    /// Asked only by clients that are bound to it.
    pub drain: bool,
    /// The name that `sticky route` compares with, and that `sticky cookie` hands out.
    pub route: Option<Arc<str>>,
}

impl Default for PeerSettings {
    /// nginx's: weight 1, one failure within ten seconds.
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
        }
    }
}

/// What `status` says of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is asked.
    Up,
    /// It is configured not to be.
    Down,
    /// It failed too often a short while ago, or the outlier detection keeps it out.
    Unavailable,
    /// It waits for its first health check.
    Checking,
    /// A health check failed.
    Unhealthy,
    /// Only those are sent to it who are bound to it.
    Draining,
}

impl State {
    /// nginx's word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Down => "down",
            State::Unavailable => "unavail",
            State::Checking => "checking",
            State::Unhealthy => "unhealthy",
            State::Draining => "draining",
        }
    }
}

/// A server of a group, with the settings that one configuration gives it. Through it one reads what is known of it.
#[derive(Debug)]
pub struct Peer {
    /// Where it is.
    pub address: UpstreamAddress,
    /// The address as `$upstream_addr` has it.
    pub name: Arc<str>,
    /// The server as the configuration names it, without parameters. Servers that one name resolves to share it.
    pub server: Arc<str>,
    /// Its settings.
    pub settings: PeerSettings,
    /// What clients that are bound to it show: its route, or the hex MD5 sum of its name.
    pub route: Arc<str>,
    pub(crate) live: Arc<Live>,
    pub(crate) state: Arc<GroupState>,
    pub(crate) outlier: Option<Arc<OutlierRules>>,
    /// Whether it is the only server of the group: failures do not count then.
    pub(crate) single: bool,
    /// Whether the group's method looks at the age of requests that are on their way.
    pub(crate) ages: bool,
}

/// What stands for a server that has no route of its own.
pub(crate) fn route_of(name: &str) -> Arc<str> {
    use md5::{Digest, Md5};
    let mut text = String::with_capacity(32);
    for byte in Md5::digest(name.as_bytes()) {
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
    /// What `status` says of it.
    pub fn state(&self, now: Millis) -> State {
        if self.settings.down {
            State::Down
        } else if self.unhealthy.load(Relaxed) > 0 {
            State::Unhealthy
        } else if self.checking.load(Relaxed) > 0 {
            State::Checking
        } else if self.ejected.load(Relaxed) > now || (self.until.load(Relaxed) != 0 && self.fails_count()) {
            State::Unavailable
        } else if self.settings.drain {
            State::Draining
        } else {
            State::Up
        }
    }

    /// Connections in use, and attempts to make one.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// The part of the server in [`Peer`]s of all configurations.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }
}
