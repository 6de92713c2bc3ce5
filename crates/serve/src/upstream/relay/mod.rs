//! Bytes that go both ways between a client and a server until they have ended: a session of TCP, and a connection that has
//! left HTTP (WebSocket, CONNECT).
//!
//! A relay is written by hand, as polls, to be small: while nothing is said it has no buffer, and one deadline. Bytes are read
//! into a buffer of the loop and written from there. Only bytes that the receiver does not take are kept. Nothing more is read
//! from the sender meanwhile, so that a slow reader costs one piece of memory.

mod direction;
mod end;
pub mod pace;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::num::NonZeroU32;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::loops;

use self::direction::{Broke, Direction, Went};
pub use self::end::RelayEnd;

/// The most bytes that are read at a time, whatever a configuration says.
const LARGEST_PIECE: usize = 1024 * 1024;

thread_local! {
    /// The buffer that the relays of a thread read into, one after the other.
    static BUFFER: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// A side of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelaySide {
    /// The side that has asked for the relay.
    Client,
    /// The server that it leads to.
    Upstream,
}

/// The progress that puts off the end of a relay for silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Bytes from the server, and from the client once the server has ended.
    OfServer,
    /// Bytes from either side.
    OfBoth,
    /// Bytes from either side, and bytes that either side takes.
    OfAnyKind,
}

/// The sides of a relay that may end their sending while the other side goes on (TCP half-close).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfClose {
    /// Neither: the relay is over when one side has ended.
    Neither,
    /// The client alone: the relay is over when the server has ended.
    Client,
    /// Both: the relay is over when both have ended.
    Both,
}

impl HalfClose {
    /// Whether the end of this side is passed on, and the other side goes on.
    fn is_for(self, side: RelaySide) -> bool {
        self == HalfClose::Both || self == HalfClose::Client && side == RelaySide::Client
    }
}

/// Settings of a relay.
#[derive(Debug, Clone, Copy)]
pub struct RelaySettings {
    /// The most bytes that are read at a time, unless the receiver certainly takes more.
    pub piece: usize,
    /// The sides that may end before the other.
    pub half_close: HalfClose,
    /// The longest time without news.
    pub timeout: Duration,
    /// The events that count as news.
    pub news: News,
    /// The longest time in which the client takes nothing, if there is a limit apart from `timeout`.
    pub client_patience: Option<Duration>,
    /// The longest time in which the server takes nothing, if there is a limit apart from `timeout`.
    pub server_patience: Option<Duration>,
}

/// The reason that a relay is over.
#[derive(Debug)]
pub enum Over {
    /// The end of this side, when the other has all of its bytes. With half-close of this side the other has ended before.
    Ended(RelaySide),
    /// Reading from this side failed.
    Receive(RelaySide, io::Error),
    /// Writing to this side failed.
    Send(RelaySide, io::Error),
    /// A side that has taken no byte for too long.
    Blocked(RelaySide),
    /// There was no news for too long.
    Silent,
}

/// A relay. Points in time are milliseconds since the process began; durations are milliseconds, too.
#[derive(Debug)]
pub struct Relay {
    /// The direction from the server to the client.
    down: Direction,
    /// The direction from the client to the server.
    up: Direction,
    piece: u32,
    half_close: HalfClose,
    news: News,
    timeout: u64,
    /// The time at which there was no news for too long.
    until: u64,
    deadline: Deadline,
}

impl Relay {
    /// A relay that begins now.
    pub fn new(settings: &RelaySettings) -> Relay {
        let patience = |patience: Option<Duration>| {
            let patience = u32::try_from(patience?.as_millis()).unwrap_or(u32::MAX);
            Some(NonZeroU32::new(patience).unwrap_or(NonZeroU32::MIN))
        };
        let timeout = loops::millis_of(settings.timeout);
        Relay {
            down: Direction::new(patience(settings.client_patience)),
            up: Direction::new(patience(settings.server_patience)),
            piece: settings.piece.clamp(1, LARGEST_PIECE) as u32,
            half_close: settings.half_close,
            news: settings.news,
            timeout,
            until: loops::millis().saturating_add(timeout),
            deadline: Deadline::default(),
        }
    }

    /// Limits how many bytes a second are read from this side from now on; 0 is no limit. Those that were read `before` count
    /// as read in the first second.
    pub fn limit(&mut self, side: RelaySide, rate: u64, before: u64) {
        self.from(side).limit(rate, before);
    }

    /// Passes these bytes on before those that are read from this side. They do not count as read here.
    pub fn begin_with(&mut self, side: RelaySide, bytes: Vec<u8>) {
        self.from(side).hold(bytes);
    }

    fn from(&mut self, side: RelaySide) -> &mut Direction {
        match side {
            RelaySide::Client => &mut self.up,
            RelaySide::Upstream => &mut self.down,
        }
    }

    /// The number of bytes that were read from this side.
    pub fn received(&self, side: RelaySide) -> u64 {
        match side {
            RelaySide::Client => self.up.read,
            RelaySide::Upstream => self.down.read,
        }
    }

    /// The number of bytes that were written to this side.
    pub fn sent(&self, side: RelaySide) -> u64 {
        match side {
            RelaySide::Client => self.down.written,
            RelaySide::Upstream => self.up.written,
        }
    }

    /// Whether this side has all bytes that were read from the other one.
    pub fn is_delivered(&self, to: RelaySide) -> bool {
        match to {
            RelaySide::Client => self.down.is_empty(),
            RelaySide::Upstream => self.up.is_empty(),
        }
    }

    /// Passes bytes on; ready when the relay is over. It has to be the same task each time.
    pub fn poll(&mut self, client: &impl RelayEnd, upstream: &impl RelayEnd, context: &mut Context<'_>) -> Poll<Over> {
        loop {
            if let Some(over) = self.pass(client, upstream, context) {
                return Poll::Ready(over);
            }
            if let Some(over) = ready!(self.poll_late(context)) {
                return Poll::Ready(over);
            }
        }
    }

    /// Passes bytes on in both directions.
    fn pass(&mut self, client: &impl RelayEnd, upstream: &impl RelayEnd, context: &mut Context<'_>) -> Option<Over> {
        let mut buffer = BUFFER.take();
        let (ended_down, ended_up) = (self.down.is_over, self.up.is_over);
        let piece = self.piece as usize;
        let down = self.down.poll(upstream, client, piece, &mut buffer, context);
        let up = match down {
            Ok(_) => self.up.poll(client, upstream, piece, &mut buffer, context),
            Err(_) => Ok(Went::default()),
        };
        BUFFER.set(buffer);
        let (down, up) = match (down, up) {
            (Ok(down), Ok(up)) => (down, up),
            (Err(Broke::From(error)), _) => return Some(Over::Receive(RelaySide::Upstream, error)),
            (Err(Broke::To(error)), _) => return Some(Over::Send(RelaySide::Client, error)),
            (_, Err(Broke::From(error))) => return Some(Over::Receive(RelaySide::Client, error)),
            (_, Err(Broke::To(error))) => return Some(Over::Send(RelaySide::Upstream, error)),
        };
        if down.has_more || up.has_more {
            context.waker().wake_by_ref();
        }
        if self.is_news(down, up) {
            self.until = loops::millis().saturating_add(self.timeout);
        }
        let ends = [(RelaySide::Upstream, ended_down, &self.down), (RelaySide::Client, ended_up, &self.up)];
        let mut ended = None;
        for (side, had_ended, direction) in ends {
            if !direction.is_over || had_ended {
                continue;
            }
            debug_assert!(direction.is_empty(), "the end of a stream is read after its bytes were written");
            ended = ended.or(Some(side));
            if self.half_close.is_for(side) {
                match side {
                    RelaySide::Client => upstream.shutdown_write(),
                    RelaySide::Upstream => client.shutdown_write(),
                }
            }
        }
        let goes_on = |side| {
            let other = if side == RelaySide::Client { &self.down } else { &self.up };
            self.half_close.is_for(side) && !other.is_over
        };
        ended.filter(|side| !goes_on(*side)).map(Over::Ended)
    }

    fn is_news(&self, down: Went, up: Went) -> bool {
        match self.news {
            News::OfServer => down.read || self.down.is_over && up.read || down.has_more || up.has_more,
            News::OfBoth => down.read || up.read,
            News::OfAnyKind => down.read || up.read || down.wrote || up.wrote,
        }
    }

    /// Ready when it is time to go on (`None`), or when something has taken too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Option<Over>> {
        let late = [self.down.too_late(), self.up.too_late()];
        let paced = [self.down.resumes(), self.up.resumes()];
        let first = late.into_iter().chain(paced).flatten().fold(self.until, u64::min);
        ready!(self.deadline.poll_until(first, context));
        let has_come = |moment: Option<u64>| moment.is_some_and(|moment| moment <= loops::millis());
        Poll::Ready(match (late, paced) {
            ([down, _], _) if has_come(down) => Some(Over::Blocked(RelaySide::Client)),
            ([_, up], _) if has_come(up) => Some(Over::Blocked(RelaySide::Upstream)),
            _ if has_come(Some(self.until)) => Some(Over::Silent),
            _ => None,
        })
    }
}
