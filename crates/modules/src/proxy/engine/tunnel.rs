//! A connection that has left HTTP (WebSocket and others): bytes go both ways until both ends have nothing more to say, or
//! nothing comes from the upstream server for too long.
//!
//! Written by hand, as polls, for its size: an idle tunnel holds no buffer.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use freerun_http::connection::takeover::Takeover;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_runtime::log::Errno;
use freerun_runtime::loops;
use freerun_runtime::net::Socket;
use freerun_runtime::timer::Timer;
use freerun_upstream::Lease;

use super::reader::Parts;
use super::trouble::{Doing, Trouble};
use crate::proxy::exchange::Options;
use crate::proxy::variables::Record;

/// How much is read at a time.
const PIECE: usize = 16 * 1024;

/// How many pieces go one way before others have their turn.
const TURN: usize = 16;

/// A tunnel.
pub struct Tunnel {
    upstream: Socket,
    lease: Option<Lease>,
    record: Rc<Record>,
    /// From the upstream server to the client.
    down: Way,
    /// From the client to the upstream server.
    up: Way,
    /// `proxy_read_timeout`
    quiet: Duration,
    /// When it has been quiet for too long.
    until: Instant,
    timer: Timer,
}

/// One of the two directions.
struct Way {
    /// What was read and not yet written; empty while nothing waits.
    pending: Vec<u8>,
    /// How much of it was written.
    done: usize,
    /// All bytes that were written.
    total: u64,
    /// The reader's end was seen, and told.
    over: bool,
    /// Since when the receiver takes nothing.
    blocked: Option<Instant>,
    /// How long it may do that.
    patience: Duration,
}

/// How far one direction has come.
enum Went {
    /// As far as it goes now; whether there was anything.
    Far(bool),
    /// There is more.
    Turn,
}

/// Which end an error is of.
enum Broke {
    From(std::io::Error),
    To(std::io::Error),
}

impl Way {
    fn new(pending: Vec<u8>, patience: Duration) -> Way {
        Way { pending, done: 0, total: 0, over: false, blocked: None, patience }
    }

    fn poll(&mut self, from: &Socket, to: &Socket, context: &mut Context<'_>) -> Result<Went, Broke> {
        let mut moved = false;
        for _ in 0..TURN {
            while self.done < self.pending.len() {
                match to.poll_write(context, &self.pending[self.done..]) {
                    Poll::Ready(Ok(n)) => {
                        self.done += n;
                        self.total += n as u64;
                        self.blocked = None;
                    }
                    Poll::Ready(Err(error)) => return Err(Broke::To(error)),
                    Poll::Pending => {
                        self.blocked.get_or_insert_with(loops::now);
                        return Ok(Went::Far(moved));
                    }
                }
            }
            self.pending.clear();
            self.done = 0;
            if self.over {
                self.pending = Vec::new();
                return Ok(Went::Far(moved));
            }
            let pending = &mut self.pending;
            let read = from.poll_read_by(context, || {
                pending.reserve(PIECE);
                Ok((from.try_read(pending)?, pending.capacity()))
            });
            match read {
                Poll::Ready(Ok(0)) => {
                    self.over = true;
                    to.shutdown_write();
                }
                Poll::Ready(Ok(_)) => moved = true,
                Poll::Ready(Err(error)) => return Err(Broke::From(error)),
                Poll::Pending => {
                    self.pending = Vec::new();
                    return Ok(Went::Far(moved));
                }
            }
        }
        Ok(Went::Turn)
    }

    fn is_over(&self) -> bool {
        self.over && self.pending.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        self.blocked.and_then(|since| since.checked_add(self.patience))
    }
}

impl Tunnel {
    /// Between the client and the server that has sent 101. `send_timeout` is that of the client's connection.
    pub fn new(parts: Parts, options: &Options, send_timeout: Duration) -> Tunnel {
        let Parts { wire, lease, record, .. } = parts;
        Tunnel {
            upstream: wire.kept.socket,
            lease: Some(lease),
            record,
            down: Way::new(wire.input.to_vec(), send_timeout),
            up: Way::new(Vec::new(), options.send_timeout),
            quiet: options.read_timeout,
            until: later(loops::now(), options.read_timeout),
            timer: wire.timer,
        }
    }

    fn poll_both(&mut self, client: &Socket, context: &mut Context<'_>) -> Result<bool, Trouble> {
        let down = self.down.poll(&self.upstream, client, context).map_err(|broke| match broke {
            Broke::From(error) => Trouble::Receive(error),
            Broke::To(_) => Trouble::ClientGone,
        })?;
        let up = self.up.poll(client, &self.upstream, context).map_err(|broke| match broke {
            Broke::From(_) => Trouble::ClientGone,
            Broke::To(error) => Trouble::Send(error),
        })?;
        let heard = match (&down, &up) {
            (Went::Far(down), Went::Far(up)) => *down || self.down.over && *up,
            (Went::Turn, _) | (_, Went::Turn) => {
                context.waker().wake_by_ref();
                true
            }
        };
        if heard {
            self.until = later(loops::now(), self.quiet);
        }
        Ok(self.down.is_over() && self.up.is_over())
    }

    /// Ready with the direction that has waited for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        loop {
            let deadlines = [Some(self.until), self.down.deadline(), self.up.deadline()];
            let Some(first) = deadlines.iter().flatten().min() else { return Poll::Pending };
            let now = loops::now();
            if *first <= now {
                let of_client = self.down.deadline().is_some_and(|deadline| deadline <= now);
                return Poll::Ready(if of_client { "client" } else { "upstream" });
            }
            self.timer.set(*first - now);
            if self.timer.poll_expired(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

fn later(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    now.checked_add(wait.min(FAR)).unwrap_or(now)
}

impl Takeover for Tunnel {
    fn begin(&mut self, rest: Vec<u8>) {
        self.up.pending = rest;
    }

    fn poll(&mut self, request: &Request, context: &mut Context<'_>) -> Poll<()> {
        let connection = &request.connection;
        loops::note(connection.number, "tunnelling");
        match self.poll_both(&connection.socket, context) {
            Ok(true) => return Poll::Ready(()),
            Ok(false) => {}
            Err(Trouble::ClientGone) => return Poll::Ready(()),
            Err(trouble) => {
                trouble.log(request, Doing::Tunnelling);
                return Poll::Ready(());
            }
        }
        self.poll_late(context).map(|who| {
            let late = std::io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
            let doing = Doing::Tunnelling;
            match who {
                "client" => log_error!(request, Info, "client timed out ({}) while {doing}", Errno(&late)),
                _ => Trouble::TimedOut.log(request, doing),
            }
        })
    }

    fn sent(&self) -> u64 {
        self.down.total
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let (down, up) = (self.down.total, self.up.total);
        self.record.with(|last| {
            last.length += down;
            last.received += down;
            last.sent += up;
        });
        let now = loops::now();
        self.record.end(now);
        if let Some(lease) = self.lease.take() {
            lease.bytes(up, down);
            lease.over(loops::millis());
        }
    }
}
