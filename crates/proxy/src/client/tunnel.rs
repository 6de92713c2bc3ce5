//! A connection that has left HTTP (WebSocket and others, and what CONNECT asks for): bytes go both ways until both
//! ends have closed, or no bytes come for too long: from the upstream server, or with CONNECT from either side.
//!
//! It is written by hand, as polls, to be small: an idle tunnel holds no buffer.

use std::cell::Cell;
use std::mem::take;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use freerun_http::connection::takeover::Takeover;
use freerun_http::connection::tunnel_end::TunnelEnd;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_runtime::deadline::Deadline;
use freerun_runtime::log::Errno;
use freerun_runtime::loops;
use freerun_transport::Transport;
use freerun_upstream::Lease;

use crate::client::error::{Stage, UpstreamError};
use crate::client::plan::Plan;
use crate::state::record::Record;

/// The most bytes that are read at a time behind `101 Switching Protocols`.
const PIECE: usize = 16 * 1024;

/// The most bytes that are read at a time, whatever `tunnel_buffer_size` says.
const LARGEST_PIECE: usize = 1024 * 1024;

/// The number of pieces that go one way before the task yields.
const TURN: usize = 16;

thread_local! {
    /// The buffer that the tunnels of a thread read into, one after the other: a tunnel that has to keep the bytes
    /// takes the buffer.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A tunnel. Points in time are milliseconds since the process began; durations are milliseconds, too.
pub struct Tunnel {
    upstream: Transport,
    /// The lease, until the end.
    lease: Option<Lease>,
    record: Rc<Record>,
    /// The direction from the upstream server to the client.
    down: Way,
    /// The direction from the client to the upstream server.
    up: Way,
    /// The most bytes that are read at a time.
    piece: u32,
    /// Whether bytes of the client count as news, too.
    hears_client: bool,
    /// The value of `proxy_read_timeout`.
    quiet: u64,
    /// The time at which it has been quiet for too long.
    until: u64,
    deadline: Deadline,
    /// The reason of its end, if it is to be logged.
    why: Option<Box<Why>>,
}

/// The reason why a tunnel has ended that neither side has closed.
enum Why {
    /// The client accepts no bytes.
    ClientLate,
    /// An error of the upstream server.
    Upstream(UpstreamError),
}

/// One of the two directions.
struct Way {
    /// The number of bytes written.
    total: u64,
    /// The bytes that were read and not yet written.
    held: Option<Box<Held>>,
    /// How long the receiver may accept nothing: 49 days at most.
    patience: u32,
    /// Whether the sender's end was seen, and passed on.
    over: bool,
}

struct Held {
    bytes: Vec<u8>,
    /// How many of the bytes were written.
    done: usize,
    /// The time since when the receiver accepts nothing.
    blocked: Option<u64>,
}

/// The progress of one direction.
enum Went {
    /// It went as far as possible now; the value says whether there were any bytes.
    Far(bool),
    /// There are more bytes, but the turn is over.
    Turn,
}

/// The end of the tunnel that an error belongs to.
enum Broke {
    From(std::io::Error),
    To(std::io::Error),
}

impl Way {
    fn new(waiting: Vec<u8>, patience: Duration) -> Way {
        let patience = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        Way { total: 0, held: Held::new(waiting), patience, over: false }
    }

    fn poll(
        &mut self,
        from: TunnelEnd<'_>,
        to: TunnelEnd<'_>,
        (buffer, piece): (&mut Vec<u8>, usize),
        context: &mut Context<'_>,
    ) -> Result<Went, Broke> {
        let mut moved = false;
        for _ in 0..TURN {
            if let Some(held) = &mut self.held {
                while held.done < held.bytes.len() {
                    match to.poll_write(context, &held.bytes[held.done..]) {
                        Poll::Ready(Ok(n)) => {
                            held.done += n;
                            held.blocked = None;
                            self.total += n as u64;
                        }
                        Poll::Ready(Err(error)) => return Err(Broke::To(error)),
                        Poll::Pending => {
                            held.blocked.get_or_insert_with(loops::millis);
                            return Ok(Went::Far(moved));
                        }
                    }
                }
                if held.bytes.capacity() == piece {
                    *buffer = take(&mut held.bytes);
                }
                self.held = None;
            }
            if self.over {
                return Ok(Went::Far(moved));
            }
            if buffer.capacity() == piece {
                buffer.clear();
            } else {
                // Another tunnel of the thread has larger or smaller ones.
                *buffer = Vec::new();
            }
            match from.poll_read(context, buffer, piece) {
                Poll::Ready(Ok(0)) => {
                    self.over = true;
                    to.shutdown_write();
                }
                Poll::Ready(Ok(_)) => {
                    moved = true;
                    self.held = Held::new(take(buffer));
                }
                Poll::Ready(Err(error)) => return Err(Broke::From(error)),
                Poll::Pending => return Ok(Went::Far(moved)),
            }
        }
        Ok(Went::Turn)
    }

    fn is_over(&self) -> bool {
        self.over && self.held.is_none()
    }

    fn deadline(&self) -> Option<u64> {
        Some(self.held.as_ref()?.blocked?.saturating_add(self.patience.into()))
    }
}

impl Held {
    /// The held bytes; `None` if there are none.
    fn new(bytes: Vec<u8>) -> Option<Box<Held>> {
        (!bytes.is_empty()).then(|| Box::new(Held { bytes, done: 0, blocked: None }))
    }
}

impl Tunnel {
    /// A tunnel between the client and the server that has sent 101, or that the client has asked for by CONNECT.
    /// `send_timeout` is that of the client's connection. `upstream` is the connection to the server, with the bytes that
    /// have come on it.
    pub fn new(upstream: (Transport, Vec<u8>), lease: Lease, plan: Plan, send_timeout: Duration) -> Tunnel {
        let Plan { record, options, .. } = plan;
        let (upstream, rest) = upstream;
        let quiet = u64::try_from(options.read_timeout.as_millis()).unwrap_or(u64::MAX);
        let piece = options.tunnel.map_or(PIECE, |tunnel| tunnel.piece.clamp(1, LARGEST_PIECE)) as u32;
        Tunnel {
            upstream,
            lease: Some(lease),
            record,
            down: Way::new(rest, send_timeout),
            up: Way::new(Vec::new(), options.send_timeout),
            piece,
            hears_client: options.tunnel.is_some(),
            quiet,
            until: loops::millis().saturating_add(quiet),
            deadline: Deadline::default(),
            why: None,
        }
    }

    fn poll_both(&mut self, client: TunnelEnd<'_>, context: &mut Context<'_>) -> Result<bool, UpstreamError> {
        let mut buffer = BUFFER.take();
        let upstream = TunnelEnd::Transport(&self.upstream);
        let piece = self.piece as usize;
        let down = self.down.poll(upstream, client, (&mut buffer, piece), context);
        let up = match down {
            Ok(_) => self.up.poll(client, upstream, (&mut buffer, piece), context),
            Err(_) => Ok(Went::Far(false)),
        };
        BUFFER.set(buffer);
        let down = down.map_err(|broke| match broke {
            Broke::From(error) => UpstreamError::Receive(error),
            Broke::To(_) => UpstreamError::ClientGone,
        })?;
        let up = up.map_err(|broke| match broke {
            Broke::From(_) => UpstreamError::ClientGone,
            Broke::To(error) => UpstreamError::Send(error),
        })?;
        let heard = match (&down, &up) {
            (Went::Far(down), Went::Far(up)) => *down || (self.down.over || self.hears_client) && *up,
            (Went::Turn, _) | (_, Went::Turn) => {
                context.waker().wake_by_ref();
                true
            }
        };
        if heard {
            self.until = loops::millis().saturating_add(self.quiet);
        }
        Ok(self.down.is_over() && self.up.is_over())
    }

    /// Ready when one of the directions has waited for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Why> {
        let ways = [self.down.deadline(), self.up.deadline()];
        let first = ways.into_iter().flatten().fold(self.until, u64::min);
        std::task::ready!(self.deadline.poll_until(first, context));
        let of_client = ways[0].is_some_and(|deadline| deadline <= loops::millis());
        Poll::Ready(if of_client { Why::ClientLate } else { Why::Upstream(UpstreamError::TimedOut) })
    }

    /// Records the bytes that went through the tunnel.
    fn note(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let (down, up) = (self.down.total, self.up.total);
        self.record.with(|last| {
            last.received += down;
            last.sent += up;
        });
        self.record.end(loops::nanos());
        lease.bytes(up, down);
        lease.over(loops::millis());
    }
}

impl Takeover<Request> for Tunnel {
    fn begin(&mut self, rest: Vec<u8>) {
        self.up.held = Held::new(rest);
    }

    fn poll(&mut self, client: TunnelEnd<'_>, context: &mut Context<'_>) -> Poll<bool> {
        let why = match self.poll_both(client, context) {
            Ok(true) => return Poll::Ready(true),
            Ok(false) => std::task::ready!(self.poll_late(context)),
            Err(UpstreamError::ClientGone) => return Poll::Ready(false),
            Err(error) => Why::Upstream(error),
        };
        self.why = Some(Box::new(why));
        Poll::Ready(false)
    }

    fn end(&mut self, request: &Request) -> u64 {
        let stage = Stage::Tunnelling;
        match self.why.take().map(|why| *why) {
            None => {}
            Some(Why::ClientLate) => {
                let late = std::io::Error::from_raw_os_error(rustix::io::Errno::TIMEDOUT.raw_os_error());
                log_error!(request, Info, "client timed out ({}) while {stage}", Errno(&late));
            }
            Some(Why::Upstream(error)) => error.log(request, stage),
        }
        self.note();
        self.down.total
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // The tunnel may never have begun.
        self.note();
    }
}
