//! The record of a session's tries at upstream servers, and the variables that show it: `$upstream_addr` and others.
//!
//! If a session was tried several times, the values are separated by `, `.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::into_bytes;
use freerun_serve::values::{Variable, VariableValue};
use freerun_upstream::Peer;
use smallvec::SmallVec;

use crate::session::{LogContext, Session};

/// The variables.
pub const VARIABLES: &[Variable<Session>] = &[
    Variable::named(
        "upstream_addr",
        "The address of the upstream server. Those of several tries are separated by commas, as in the other variables \
         of upstream servers.",
        |s, _| list(s, |one, out| out.push_str(one.whom.name())),
    ),
    Variable::named("upstream_bytes_received", "Bytes that were received of the upstream server.", |s, _| {
        list(s, |one, out| out.push_str(&one.received.to_string()))
    }),
    Variable::named("upstream_bytes_sent", "Bytes that were sent to the upstream server.", |s, _| {
        list(s, |one, out| out.push_str(&one.sent.to_string()))
    }),
    Variable::named(
        "upstream_connect_time",
        "How long the connection to the upstream server took, in seconds with milliseconds.",
        |s, _| list(s, |one, out| seconds(one.connect, out)),
    ),
    Variable::named(
        "upstream_first_byte_time",
        "How long it took until the first byte of the upstream server came, in seconds with milliseconds.",
        |s, _| list(s, |one, out| seconds(one.first_byte, out)),
    ),
    Variable::named(
        "upstream_session_time",
        "How long the session with the upstream server took, in seconds with milliseconds.",
        |s, _| list(s, |one, out| seconds(one.session, out)),
    ),
];

/// The server of a try.
#[derive(Debug, Clone)]
pub enum ServerChoice {
    /// A server of the group.
    Server(Arc<Peer>),
    /// No server could be chosen: the name of the group.
    None(Arc<str>),
}

impl ServerChoice {
    fn name(&self) -> &str {
        match self {
            ServerChoice::Server(peer) => &peer.name,
            ServerChoice::None(name) => name,
        }
    }
}

/// A try.
#[derive(Debug)]
pub struct Try {
    whom: ServerChoice,
    /// The time when it began, in nanoseconds since the process began.
    began: u64,
    connect: Option<Duration>,
    first_byte: Option<Duration>,
    session: Option<Duration>,
    /// The bytes that the server has got.
    pub sent: u64,
    /// The bytes that the server has sent.
    pub received: u64,
}

/// The record of a session's tries.
#[derive(Debug, Default)]
pub struct Record(RefCell<SmallVec<[Try; 1]>>);

impl Record {
    /// Begins a try.
    pub fn begin(&self, whom: ServerChoice, now: u64) {
        let (connect, first_byte, session) = (None, None, None);
        self.0.borrow_mut().push(Try { whom, began: now, connect, first_byte, session, sent: 0, received: 0 });
    }

    /// Changes the last try, and returns how long ago it began.
    pub fn with(&self, now: u64, change: impl FnOnce(&mut Try)) -> Duration {
        let mut tries = self.0.borrow_mut();
        let Some(last) = tries.last_mut() else { return Duration::ZERO };
        change(last);
        Duration::from_nanos(now.saturating_sub(last.began))
    }

    /// Notes that the connection was made; returns how long that took.
    pub fn connected(&self, now: u64) -> Duration {
        self.with(now, |last| last.connect = Some(Duration::from_nanos(now.saturating_sub(last.began))))
    }

    /// Notes that the server has sent its first byte; returns how long that took.
    pub fn first_byte(&self, now: u64) -> Duration {
        self.with(now, |last| last.first_byte = Some(Duration::from_nanos(now.saturating_sub(last.began))))
    }

    /// Notes that the try is over; returns how long it took.
    pub fn end(&self, now: u64) -> Duration {
        self.with(now, |last| last.session = Some(Duration::from_nanos(now.saturating_sub(last.began))))
    }

    /// The bytes of a session and of its last try, to be printed.
    pub fn counted<'c>(&'c self, session: &'c Session) -> CountedConnection<'c> {
        CountedConnection { record: self, session }
    }

    /// The bytes of the last try: those that the server has sent, and those that it has got.
    pub fn bytes(&self) -> (u64, u64) {
        self.0.borrow().last().map_or((0, 0), |last| (last.received, last.sent))
    }
}

impl LogContext for Record {
    fn write(&self, session: &Session, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(last) = self.0.borrow().last() {
            write!(to, ", upstream: \"{}\"", last.whom.name())?;
        }
        write!(to, ", {}", self.counted(session))
    }
}

/// Prints the bytes of a session, as nginx has them at the end of its log lines.
pub struct CountedConnection<'c> {
    record: &'c Record,
    session: &'c Session,
}

impl fmt::Display for CountedConnection<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (received, sent) = self.record.bytes();
        let (from, by) = (self.session.received.get(), self.session.sent.get());
        write!(to, "bytes from/to client:{from}/{by}, bytes from/to upstream:{received}/{sent}")
    }
}

/// The values of `show` for each try.
fn list<'s>(session: &'s Session, show: fn(&Try, &mut String)) -> VariableValue<'s> {
    let record = session.states.find::<Record>()?;
    joined(&record.0.borrow(), show).map(|text| Cow::Owned(into_bytes(text)))
}

fn joined(tries: &[Try], show: fn(&Try, &mut String)) -> Option<String> {
    let mut out = String::new();
    for (index, one) in tries.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        show(one, &mut out);
    }
    (!tries.is_empty()).then_some(out)
}

/// Prints seconds and milliseconds, as nginx prints times.
fn seconds(time: Option<Duration>, out: &mut String) {
    match time {
        Some(time) => drop(write!(out, "{}.{:03}", time.as_secs(), time.subsec_millis())),
        None => out.push('-'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tries_are_shown_in_their_order() {
        let record = Record::default();
        let named = |name: &str| ServerChoice::None(name.into());
        let shown = |show: fn(&Try, &mut String)| joined(&record.0.borrow(), show);
        assert_eq!(shown(|one, out| out.push_str(one.whom.name())), None);
        record.begin(named("127.0.0.1:1"), 1_000_000);
        assert_eq!(record.end(3_500_000), Duration::from_micros(2500));
        record.begin(named("unix:/two"), 10_000_000);
        assert_eq!(record.connected(1_012_000_000), Duration::from_millis(1002));
        record.with(0, |last| (last.sent, last.received) = (5, 7));
        assert_eq!(record.bytes(), (7, 5));
        assert_eq!(shown(|one, out| out.push_str(one.whom.name())).as_deref(), Some("127.0.0.1:1, unix:/two"));
        assert_eq!(shown(|one, out| seconds(one.connect, out)).as_deref(), Some("-, 1.002"));
        assert_eq!(shown(|one, out| seconds(one.session, out)).as_deref(), Some("0.002, -"));
    }
}
