//! The record of tries: the servers, the times and the bytes.

use std::cell::RefCell;
use std::fmt::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use freerun_upstream::{Lease, Peer};
use smallvec::SmallVec;

/// The server of a try.
#[derive(Debug)]
pub enum ChosenServer {
    /// A server was chosen.
    Server(Arc<Peer>),
    /// No server was available in the group with this name.
    None(Box<str>),
}

impl ChosenServer {
    /// The server's address, or the group's name: `$upstream_addr`.
    pub fn name(&self) -> &str {
        match self {
            ChosenServer::Server(peer) => &peer.name,
            ChosenServer::None(group) => group,
        }
    }

    /// The server, if there is one.
    pub fn peer(&self) -> Option<&Peer> {
        match self {
            ChosenServer::Server(peer) => Some(peer),
            ChosenServer::None(_) => None,
        }
    }
}

impl From<Arc<Peer>> for ChosenServer {
    fn from(peer: Arc<Peer>) -> ChosenServer {
        ChosenServer::Server(peer)
    }
}

impl From<&str> for ChosenServer {
    fn from(group: &str) -> ChosenServer {
        ChosenServer::None(group.into())
    }
}

/// A duration that was measured, or none: half the size of an `Option<Duration>`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took(Option<NonZeroU64>);

impl Took {
    /// The duration.
    pub fn get(self) -> Option<Duration> {
        Some(Duration::from_nanos(self.0?.get() - 1))
    }

    /// The duration between two times of [`loops::nanos`](freerun_runtime::loops::nanos).
    pub fn between(began: u64, now: u64) -> Took {
        Took(NonZeroU64::new(now.saturating_sub(began).saturating_add(1)))
    }

    /// Appends the duration as nginx prints times: seconds with milliseconds, or `-`.
    pub fn append(self, out: &mut String) {
        match self.get() {
            Some(time) => drop(write!(out, "{}.{:03}", time.as_secs(), time.subsec_millis())),
            None => out.push('-'),
        }
    }
}

impl From<Duration> for Took {
    fn from(time: Duration) -> Took {
        Took(NonZeroU64::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_add(1)))
    }
}

/// A try to have a request or session answered by a server, with what the protocol notes besides.
#[derive(Debug)]
pub struct Try<T> {
    /// The server of the try.
    pub server: ChosenServer,
    /// Beginning of the try, in [`loops::nanos`](freerun_runtime::loops::nanos).
    pub began: u64,
    /// Time that connecting took; none if no connection was made.
    pub connect: Took,
    /// Time until the server has answered: until its first byte, or the head of its response.
    pub answer: Took,
    /// Time until the try was over.
    pub whole: Took,
    /// The number of bytes received.
    pub received: u64,
    /// The number of bytes sent.
    pub sent: u64,
    /// The facts that the protocol notes.
    pub own: T,
}

impl<T> Try<T> {
    /// Records that the server has answered; only the first call counts.
    pub fn answered(&mut self, now: u64) {
        if self.answer.0.is_none() {
            self.answer = Took::between(self.began, now);
        }
    }
}

/// The record of the tries of a request or session.
#[derive(Debug)]
pub struct TryRecord<T>(RefCell<SmallVec<[Try<T>; 1]>>);

impl<T> Default for TryRecord<T> {
    fn default() -> TryRecord<T> {
        TryRecord(RefCell::default())
    }
}

impl<T> TryRecord<T> {
    /// Begins a try.
    pub fn begin(&self, server: impl Into<ChosenServer>, now: u64, own: T) {
        self.0.borrow_mut().push(Try {
            server: server.into(),
            began: now,
            connect: Took::default(),
            answer: Took::default(),
            whole: Took::default(),
            received: 0,
            sent: 0,
            own,
        });
    }

    /// Changes the last try, if there is one.
    pub fn with<R>(&self, change: impl FnOnce(&mut Try<T>) -> R) -> Option<R> {
        let mut tries = self.0.borrow_mut();
        debug_assert!(!tries.is_empty(), "something has come of a try that nobody has begun");
        tries.last_mut().map(change)
    }

    /// Ends the last try; only the first call counts.
    pub fn end(&self, now: u64) {
        self.with(|last| {
            if last.whole.0.is_none() {
                last.whole = Took::between(last.began, now);
            }
        });
    }

    /// The time since the last try began.
    pub fn since(&self, now: u64) -> Duration {
        let began = self.0.borrow().last().map_or(now, |last| last.began);
        Duration::from_nanos(now.saturating_sub(began))
    }

    /// The bytes of the last try: those that the server has sent, and those that it has got.
    pub fn bytes(&self) -> (u64, u64) {
        self.0.borrow().last().map_or((0, 0), |last| (last.received, last.sent))
    }

    /// Adds the bytes of the last try to the counters of its server.
    pub fn count(&self, lease: &Lease) {
        let (received, sent) = self.bytes();
        lease.bytes(sent, received);
    }

    /// Passes all tries to `look`. Nothing may be recorded meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&[Try<T>]) -> R) -> R {
        look(&self.0.borrow())
    }

    /// The values of `show` for the first `most` tries, with the texts of `between` in front of all but the first one.
    /// `None`: there are no tries.
    pub fn list(
        &self,
        most: usize,
        between: fn(&Try<T>) -> &'static str,
        show: fn(&Try<T>, &mut String),
    ) -> Option<String> {
        let tries = self.0.borrow();
        let mut out = String::new();
        for (index, one) in tries.iter().take(most).enumerate() {
            if index > 0 {
                out.push_str(between(one));
            }
            show(one, &mut out);
        }
        (most > 0 && !tries.is_empty()).then_some(out)
    }

    /// The number of tries.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Whether nothing was tried yet.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Whether no try goes on.
    pub fn is_over(&self) -> bool {
        self.0.borrow().last().is_none_or(|last| last.whole.0.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_recorded_in_their_order() {
        let record = TryRecord::<()>::default();
        assert!(record.is_empty() && record.is_over() && record.bytes() == (0, 0));
        assert_eq!(record.list(9, |_| ", ", |_, _| {}), None);
        record.begin("127.0.0.1:1", 1_000_000, ());
        assert!(!record.is_over());
        record.end(3_500_000);
        record.end(9_000_000);
        record.begin("unix:/two", 10_000_000, ());
        assert_eq!(record.since(1_012_000_000), Duration::from_millis(1002));
        record.with(|last| last.connect = Took::between(last.began, 1_012_000_000));
        record.with(|last| (last.sent, last.received) = (5, 7));
        assert_eq!(record.bytes(), (7, 5));
        let shown = |most, show: fn(&Try<()>, &mut String)| record.list(most, |_| ", ", show);
        let names = |one: &Try<()>, out: &mut String| out.push_str(one.server.name());
        assert_eq!(shown(9, names).as_deref(), Some("127.0.0.1:1, unix:/two"));
        assert_eq!(shown(1, names).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(shown(0, names), None);
        assert_eq!(shown(9, |one, out| one.connect.append(out)).as_deref(), Some("-, 1.002"));
        assert_eq!(shown(9, |one, out| one.whole.append(out)).as_deref(), Some("0.002, -"));
    }

    #[test]
    fn times_have_milliseconds() {
        let mut out = String::new();
        for time in [Duration::from_micros(1_002_900).into(), Took::default(), Duration::ZERO.into()] {
            Took::append(time, &mut out);
        }
        assert_eq!(out, "1.002-0.000");
    }
}
