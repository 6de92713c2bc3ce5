//! A server of a group: how it is configured, and what is known of it while it runs.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Millis;
use crate::address::UpstreamAddress;
use crate::figures::Figures;
use crate::health::OutlierRules;
use crate::health::outlier::Answers;
use crate::idle::Idle;

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

/// What is known of a server while it runs. It goes on with its address: over changes of the group, of its settings, and
/// reloads.
///
/// The counters that every choice reads come first and together, so that looking at a server touches two lines of the cache;
/// what only requests write comes after them.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Live {
    /// A number that no other server of the process has or had; never 0.
    pub id: u32,
    /// Connections in use, and attempts to make one.
    pub(crate) connections: AtomicU32,
    /// Failures since `window`.
    pub(crate) fails: AtomicU32,
    /// How much of the weight failures took; it comes back by one with each choice.
    pub(crate) lost: AtomicU32,
    /// When the first of `fails` was.
    pub(crate) window: AtomicU64,
    /// Until when it is unavailable. 0: it is not. A time that has passed: one request may try.
    pub(crate) until: AtomicU64,
    /// Since when it has its weight back, for the slow start; 0: always had it.
    pub(crate) recovered: AtomicU64,
    /// How many health checks say that it is unhealthy.
    pub(crate) unhealthy: AtomicU32,
    /// How many mandatory health checks have not spoken yet.
    pub(crate) checking: AtomicU32,
    /// How many of these have not even begun: the server is new.
    pub(crate) held: AtomicU32,
    /// Until when the outlier detection keeps it out; 0: it does not.
    pub(crate) ejected: AtomicU64,
    /// Moving average of the time to the response's head, microseconds; 0: not known.
    pub(crate) header_average: AtomicU64,
    /// Moving average of the time to the response's end, microseconds; 0: not known.
    pub(crate) last_byte_average: AtomicU64,
    /// When a time was measured last.
    pub(crate) measured: AtomicU64,
    /// Of the requests that are on their way: the sum of the times at which they began. Counted, as their number, where the
    /// method of the group looks at it.
    pub(crate) begun: AtomicU64,
    /// How many requests are in `begun`.
    pub(crate) inflight: AtomicU32,
    /// What the outlier detection remembers.
    pub(crate) answers: Answers,
    /// What is counted.
    pub figures: Figures,
    /// Idle connections.
    pub idle: Idle,
}

static IDS: AtomicU32 = AtomicU32::new(1);

impl Default for Live {
    fn default() -> Live {
        // Numbers repeat after four billion servers; all that happens then is a session that sticks to the wrong one.
        let id = IDS.fetch_add(1, Relaxed).max(1);
        Live {
            id,
            connections: AtomicU32::new(0),
            fails: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            window: AtomicU64::new(0),
            until: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            unhealthy: AtomicU32::new(0),
            checking: AtomicU32::new(0),
            held: AtomicU32::new(0),
            ejected: AtomicU64::new(0),
            header_average: AtomicU64::new(0),
            last_byte_average: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            inflight: AtomicU32::new(0),
            answers: Answers::default(),
            figures: Figures::default(),
            idle: Idle::default(),
        }
    }
}

impl Live {
    /// A new server, which is asked by nobody before so many checks have begun and spoken.
    pub(crate) fn held(checks: u32) -> Live {
        Live { checking: AtomicU32::new(checks), held: AtomicU32::new(checks), ..Live::default() }
    }

    /// Checks that have not begun by now will not.
    pub fn unhold(&self) {
        let held = self.held.swap(0, Relaxed);
        self.checking.fetch_sub(held, Relaxed);
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
    pub(crate) state: Arc<crate::group::GroupState>,
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
