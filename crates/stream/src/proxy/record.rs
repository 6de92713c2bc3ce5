//! The record of a session's tries at upstream servers, and the variables that show it: `$upstream_addr` and others.
//!
//! If a session was tried several times, the values are separated by `, `.

use std::borrow::Cow;
use std::fmt;

use freerun_conf::into_bytes;
use freerun_serve::upstream::tries::{Try, TryRecord};
use freerun_serve::values::{Variable, VariableValue};

use crate::session::{LogContext, Session};

/// The variables.
pub const VARIABLES: &[Variable<Session>] = &[
    Variable::named(
        "upstream_addr",
        "The address of the upstream server. Those of several tries are separated by commas, as in the other variables \
         of upstream servers.",
        |s, _| list(s, |one, out| out.push_str(one.server.name())),
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
        |s, _| list(s, |one, out| one.connect.append(out)),
    ),
    Variable::named(
        "upstream_first_byte_time",
        "How long it took until the first byte of the upstream server came, in seconds with milliseconds.",
        |s, _| list(s, |one, out| one.answer.append(out)),
    ),
    Variable::named(
        "upstream_session_time",
        "How long the session with the upstream server took, in seconds with milliseconds.",
        |s, _| list(s, |one, out| one.whole.append(out)),
    ),
];

/// The record of a session's tries.
pub type Record = TryRecord<()>;

impl LogContext for Record {
    fn write(&self, session: &Session, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look(|tries| match tries.last() {
            Some(last) => write!(to, ", upstream: \"{}\"", last.server.name()),
            None => Ok(()),
        })?;
        write!(to, ", {}", CountedConnection { record: self, session })
    }
}

/// Prints the bytes of a session and of its last try, as nginx has them at the end of its log lines.
pub struct CountedConnection<'c> {
    /// The record of the session's tries.
    pub record: &'c Record,
    /// The session.
    pub session: &'c Session,
}

impl fmt::Display for CountedConnection<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (received, sent) = self.record.bytes();
        let (from, by) = (self.session.received.get(), self.session.sent.get());
        write!(to, "bytes from/to client:{from}/{by}, bytes from/to upstream:{received}/{sent}")
    }
}

/// The values of `show` for each try.
fn list<'s>(session: &'s Session, show: fn(&Try<()>, &mut String)) -> VariableValue<'s> {
    let record = session.states.find::<Record>()?;
    record.list(usize::MAX, |_| ", ", show).map(|text| Cow::Owned(into_bytes(text)))
}
