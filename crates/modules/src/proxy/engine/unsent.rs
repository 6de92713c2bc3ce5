//! What is left of a request when the head of its response comes: it follows while the response's body is read, as with nginx. A server
//! may begin to answer before it has all of the request, and wait for the rest of it before it goes on or closes.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use freerun_http::content::pull;
use freerun_http::content::response::{FileRange, LocalBoxFuture};
use freerun_http::head::body::{self, BodyError, Lent};
use freerun_http::head::collect::Collected;
use freerun_http::log::Detached;
use freerun_http::request::Request;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::net::Socket;
use freerun_runtime::timer::Timer;

use super::attempt::Plan;
use super::outgoing::{Outgoing, PIECE, Position};
use super::trouble::{Doing, Trouble};
use crate::proxy::exchange::Exchange;

/// The rest of a request.
pub struct Unsent {
    /// What stands before the piece, or behind the last one.
    out: Vec<u8>,
    piece: Bytes,
    /// The body is over, as far as it is not here.
    over: bool,
    /// Read, but more than a piece may be.
    held: Bytes,
    rest: Rest,
    timer: Timer,
    waiting: bool,
}

/// Where the rest of the body is.
enum Rest {
    /// Nowhere that it could be had from now.
    Gone,
    /// With the client, if it is borrowed from the request.
    Stream,
    Memory(Bytes),
    File(Box<Reading>),
    Client(Box<Lent>),
}

struct Reading {
    reader: pull::Reader,
    range: FileRange,
    now: Option<LocalBoxFuture<'static, (FileRange, io::Result<Bytes>)>>,
}

/// Why the response cannot be waited for any more.
#[derive(Debug)]
pub enum Stopped {
    /// The rest of the body did not come from the client.
    Client(BodyError),
    /// It could not be read from its file.
    File(io::Error),
}

impl Stopped {
    /// Says it, where nobody else does.
    pub fn log(&self, log: &Detached) {
        let doing = Doing::Sending;
        match self {
            Stopped::Client(BodyError::Status(413)) => {
                log.write(Level::Error, format_args!("client intended to send too large chunked body while {doing}"));
            }
            Stopped::Client(BodyError::Status(_)) => {
                log.write(Level::Error, format_args!("client sent invalid chunked body while {doing}"));
            }
            Stopped::Client(BodyError::Broken(_)) => {
                log.write(Level::Info, format_args!("client prematurely closed connection while {doing}"));
            }
            Stopped::Client(BodyError::TimedOut) => {
                log.write(Level::Info, format_args!("client timed out (110: Connection timed out) while {doing}"));
            }
            Stopped::File(error) => log.write(Level::Crit, format_args!("{error} while {doing}")),
        }
    }
}

impl From<Stopped> for Trouble {
    fn from(stopped: Stopped) -> Trouble {
        match stopped {
            Stopped::Client(error) => Trouble::Body(error),
            Stopped::File(_) => Trouble::Ours,
        }
    }
}

impl Unsent {
    /// `out` and then `piece` are to be sent, and then the body's end or, unless it is `over`, the rest of it, which is to be [put
    /// in](Unsent::put_in).
    pub fn new(out: &[u8], piece: Bytes, over: bool) -> Box<Unsent> {
        let (held, rest, timer) = (Bytes::new(), Rest::Gone, Timer::default());
        Box::new(Unsent { out: out.to_vec(), piece, over, held, rest, timer, waiting: false })
    }

    /// Puts in the body, of which all before `position` is on its way. One that comes from the client has to be [borrowed](Unsent::borrow).
    pub fn put_in(&mut self, request: &Request, body: Outgoing, position: &Position) {
        let at = position.bytes();
        let memory =
            |bytes: &Bytes| Rest::Memory(bytes.slice(bytes.len().min(usize::try_from(at).unwrap_or(usize::MAX))..));
        self.rest = match body {
            Outgoing::None => Rest::Gone,
            Outgoing::Stream(_) => Rest::Stream,
            Outgoing::Memory(bytes) => memory(&bytes),
            Outgoing::Kept(kept) => match &*kept {
                Collected::Memory(bytes) => memory(bytes),
                Collected::File(file) => {
                    let range = FileRange { file: file.file().clone(), offset: at, len: file.len().saturating_sub(at) };
                    Rest::File(Box::new(Reading { reader: pull::Reader::new(request), range, now: None }))
                }
            },
        };
    }

    /// Borrows the body from the request, if it comes from the client.
    pub fn borrow(&mut self, request: &mut Request) {
        if let Rest::Stream = self.rest {
            self.rest = Rest::Client(Box::new(body::lend(request)));
        }
    }

    /// The client has gone, or is nobody's business any more.
    pub fn leave_client(&mut self) {
        if let Rest::Client(_) = self.rest {
            self.rest = Rest::Gone;
        }
    }

    /// Sends what can be sent now, and adds to `sent` how much that was. Ready at the end: whether all was sent. A server that
    /// takes no more may still go on with its response.
    ///
    /// # Errors
    /// There is no more to be had of the body.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        socket: &Socket,
        (exchange, plan): (&mut dyn Exchange, &Plan),
        sent: &mut u64,
    ) -> Poll<Result<bool, Stopped>> {
        loop {
            ready!(loops::poll_budget(context));
            if self.out.is_empty() && self.piece.is_empty() {
                if self.over {
                    return Poll::Ready(Ok(true));
                }
                if let Rest::Gone | Rest::Stream = self.rest {
                    return Poll::Ready(Ok(false));
                }
                match ready!(self.poll_piece(context, exchange.max_piece().min(PIECE)))? {
                    Some(next) => {
                        exchange.before_piece(next.len(), &mut self.out);
                        self.piece = next;
                    }
                    None => {
                        self.over = true;
                        exchange.body_end(&mut self.out);
                    }
                }
                continue;
            }
            let both = [IoSlice::new(&self.out), IoSlice::new(&self.piece)];
            let parts = match (self.out.is_empty(), self.piece.is_empty()) {
                (true, _) => &both[1..],
                (_, true) => &both[..1],
                _ => &both,
            };
            match socket.try_write(parts, false) {
                Ok(n) => {
                    *sent += n as u64;
                    self.waiting = false;
                    let of_out = n.min(self.out.len());
                    self.out.drain(..of_out);
                    if n > of_out {
                        self.piece.advance(n - of_out);
                        if self.piece.is_empty() {
                            exchange.after_piece(&mut self.out);
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !std::mem::replace(&mut self.waiting, true) {
                        self.timer.set(plan.options.send_timeout);
                    }
                    if pin!(socket.writable_after_full()).poll(context).is_pending() {
                        return self.timer.poll_expired(context).map(|()| Ok(false));
                    }
                }
                Err(_) => return Poll::Ready(Ok(false)),
            }
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, Stopped>> {
        if self.held.is_empty() {
            self.held = match &mut self.rest {
                Rest::Gone | Rest::Stream => return Poll::Ready(Ok(None)),
                Rest::Memory(bytes) => std::mem::take(bytes),
                Rest::File(reading) => ready!(reading.poll(context)).map_err(Stopped::File)?,
                Rest::Client(lent) => {
                    ready!(lent.poll_piece(context, most)).map_err(Stopped::Client)?.unwrap_or_default()
                }
            };
        }
        let piece = self.held.split_to(self.held.len().min(most));
        Poll::Ready(Ok((!piece.is_empty()).then_some(piece)))
    }
}

impl Reading {
    /// The next piece; nothing at the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.range.len == 0 {
            return Poll::Ready(Ok(Bytes::new()));
        }
        let now = self.now.get_or_insert_with(|| {
            let (reader, mut range) = (self.reader.clone(), self.range.clone());
            Box::pin(async move {
                let piece = reader.read(&mut range).await;
                (range, piece)
            })
        });
        let (range, piece) = ready!(now.as_mut().poll(context));
        (self.range, self.now) = (range, None);
        Poll::Ready(piece)
    }
}
