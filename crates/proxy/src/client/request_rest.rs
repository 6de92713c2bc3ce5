//! The part of a request that is unsent when the head of its response comes: it is sent while the response's body is
//! read, as with nginx. A server may begin to answer before it has the whole request, and wait for the rest of it
//! before it goes on or closes.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use freerun_http::body::collect::CollectedBody;
use freerun_http::body::{self, BodyError, LentBody};
use freerun_http::content::pull;
use freerun_http::files::read_error::ReadError;
use freerun_http::log::DetachedLog;
use freerun_http::request::Request;
use freerun_http::request::response::{FileRange, LocalBoxFuture};
use freerun_proto::Status;
use freerun_runtime::log::{Errno, Level};
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_upstream::link::Link;

use crate::client::error::{TryStage, UpstreamError};
use crate::client::plan::Plan;
use crate::client::request_body::{OutgoingBody, PIECE, Position};
use crate::exchange::Exchange;

/// The rest of a request.
pub struct RequestRest {
    /// The bytes that precede the piece, or follow the last one.
    out: Vec<u8>,
    piece: Bytes,
    /// Whether the body is over, apart from the bytes held here.
    over: bool,
    /// Bytes that were read, but exceed the size of a piece, or were sent in another try.
    held: Bytes,
    rest: RestSource,
    /// The position in a body that is here.
    at: u64,
    timer: Timer,
    waiting: bool,
}

/// The source of the rest of the body.
enum RestSource {
    /// The rest is no longer available.
    Gone,
    /// The client, if the body is borrowed from the request.
    Stream,
    Memory(Bytes),
    File(Box<RestReading>),
    Client(Box<LentBody>),
}

struct RestReading {
    reader: pull::Reader,
    range: FileRange,
    now: Option<LocalBoxFuture<'static, (FileRange, Result<Bytes, ReadError>)>>,
}

/// The reason why not the whole request was sent.
#[derive(Debug)]
pub enum StopReason {
    /// The server accepts no more bytes.
    Refused(io::Error),
    /// The rest of the body did not come from the client.
    Client(BodyError),
    /// The body could not be read from its file.
    File(ReadError),
    /// The rest of the body is no longer available.
    Gone,
}

impl StopReason {
    /// Logs the reason, if it is not logged elsewhere.
    pub fn log(&self, log: &DetachedLog) {
        let stage = TryStage::Sending;
        let (level, words) = match self {
            StopReason::Gone => return,
            StopReason::Refused(error) => (Level::Info, format!("send() failed ({})", Errno(error))),
            StopReason::Client(BodyError::Status(Status::CONTENT_TOO_LARGE)) => {
                (Level::Error, "client intended to send too large chunked body".to_owned())
            }
            StopReason::Client(BodyError::Faulty(fault)) => (fault.level(), fault.to_string()),
            StopReason::Client(BodyError::Status(_)) => return,
            StopReason::Client(BodyError::Broken) => (Level::Info, "client prematurely closed connection".to_owned()),
            StopReason::Client(BodyError::TimedOut) => {
                (Level::Info, "client timed out (110: Connection timed out)".to_owned())
            }
            StopReason::File(error) => (Level::Crit, error.to_string()),
        };
        log.write(level, format_args!("{words} while {stage}, whose response has begun"));
    }

    /// The error for which the response is given up, too. The response goes on if the server accepts no more of the
    /// request, and also after the client has timed out, as long as the server does not end it.
    pub fn upstream_error(self) -> Option<UpstreamError> {
        match self {
            StopReason::Refused(_) | StopReason::Client(BodyError::TimedOut) | StopReason::Gone => None,
            StopReason::Client(error) => Some(UpstreamError::Body(error)),
            StopReason::File(_) => Some(UpstreamError::Ours),
        }
    }
}

impl RequestRest {
    /// Makes the rest of a request: `out`, then `piece`, and then the body's end if it is `over`. Otherwise the rest of
    /// the body from `position` on follows, to be [put in](RequestRest::put_in).
    pub fn new(out: &[u8], piece: Bytes, over: bool, position: &Position) -> Box<RequestRest> {
        let (held, rest, at, timer) = (Bytes::new(), RestSource::Gone, position.bytes(), Timer::default());
        debug_assert!(!over || !out.is_empty() || !piece.is_empty(), "the request was sent completely");
        Box::new(RequestRest { out: out.to_vec(), piece, over, held, rest, at, timer, waiting: false })
    }

    /// Puts the body in. A body that comes from the client has to be [borrowed](RequestRest::borrow).
    pub fn put_in(&mut self, request: &Request, body: OutgoingBody) {
        debug_assert!(matches!(self.rest, RestSource::Gone), "a request gets a second body");
        let at = self.at;
        let memory = |bytes: &Bytes| {
            RestSource::Memory(bytes.slice(bytes.len().min(usize::try_from(at).unwrap_or(usize::MAX))..))
        };
        self.rest = match body {
            OutgoingBody::None => RestSource::Gone,
            OutgoingBody::Stream(streamed) => {
                // What another try has sent before, and this one has not.
                self.held = Bytes::copy_from_slice(streamed.from(at));
                RestSource::Stream
            }
            OutgoingBody::Memory(bytes) => memory(&bytes),
            OutgoingBody::Kept(kept) => match &*kept {
                CollectedBody::Memory(bytes) => memory(bytes),
                CollectedBody::File(file) => {
                    let range = FileRange { file: file.file().clone(), offset: at, len: file.len().saturating_sub(at) };
                    RestSource::File(Box::new(RestReading { reader: pull::Reader::new(request), range, now: None }))
                }
            },
        };
    }

    /// Borrows the body from the request, if it comes from the client.
    pub fn borrow(&mut self, request: &mut Request) {
        if let RestSource::Stream = self.rest {
            self.rest = RestSource::Client(Box::new(body::lend(request)));
        }
    }

    /// Continues without the client's connection: a body in a file is read whether the client is there or not.
    pub fn forget_client(&mut self) {
        if let RestSource::File(reading) = &mut self.rest {
            reading.reader.forget_client();
            // This read was begun for the client.
            reading.now = None;
        }
    }

    /// Goes on without the client, which has gone or no longer matters. Returns whether the rest can be sent without
    /// it.
    pub fn leave_client(&mut self) -> bool {
        // Another task may wait from now on.
        self.waiting = false;
        match &mut self.rest {
            RestSource::Client(_) | RestSource::Stream => {
                self.rest = RestSource::Gone;
                self.over
            }
            RestSource::File(_) => {
                self.forget_client();
                true
            }
            RestSource::Memory(_) | RestSource::Gone => true,
        }
    }

    /// Whether nothing can be sent before the client has sent more.
    pub fn waits_for_client(&self) -> bool {
        let has_nothing = self.out.is_empty() && self.piece.is_empty() && self.held.is_empty();
        matches!(self.rest, RestSource::Client(_)) && !self.over && has_nothing
    }

    /// Sends as much as possible, and adds the number of bytes to `sent`. It is ready when all was sent.
    ///
    /// # Errors
    /// The reason why no more can be sent.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        link: &Link,
        (exchange, plan): (&mut dyn Exchange, &Plan),
        sent: &mut u64,
    ) -> Poll<Result<(), StopReason>> {
        let mut has_waited = false;
        loop {
            ready!(loops::poll_budget(context));
            if self.out.is_empty() && self.piece.is_empty() {
                if self.over {
                    return Poll::Ready(Ok(()));
                }
                match ready!(self.poll_piece(context, exchange.max_piece().min(PIECE)))? {
                    Some(next) => {
                        if self.has_ended() {
                            exchange.last_piece(next.len());
                        }
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
            match link.try_write(&self.out, &self.piece) {
                Ok(n) => {
                    *sent += n as u64;
                    (self.waiting, has_waited) = (false, false);
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
                        self.timer.set(plan.table().proxy_send_timeout);
                    }
                    match pin!(link.writable_after_full()).poll(context) {
                        Poll::Pending => {
                            let timed_out = || Err(StopReason::Refused(ErrorKind::TimedOut.into()));
                            return self.timer.poll_expired(context).map(|()| timed_out());
                        }
                        // A socket that is closed on that side is always writable.
                        Poll::Ready(Ok(())) if !std::mem::replace(&mut has_waited, true) => {}
                        Poll::Ready(answer) => {
                            return Poll::Ready(Err(StopReason::Refused(answer.err().unwrap_or(error))));
                        }
                    }
                }
                Err(error) => return Poll::Ready(Err(StopReason::Refused(error))),
            }
        }
    }

    /// Whether the piece that was taken last is the last one of a body that comes from the client.
    fn has_ended(&self) -> bool {
        matches!(&self.rest, RestSource::Client(lent) if lent.is_done()) && self.held.is_empty()
    }

    fn poll_piece(&mut self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StopReason>> {
        if self.held.is_empty() {
            self.held = match &mut self.rest {
                RestSource::Gone | RestSource::Stream => return Poll::Ready(Err(StopReason::Gone)),
                RestSource::Memory(bytes) => std::mem::take(bytes),
                RestSource::File(reading) => ready!(reading.poll(context)).map_err(StopReason::File)?,
                RestSource::Client(lent) => {
                    ready!(lent.poll_piece(context, most)).map_err(StopReason::Client)?.unwrap_or_default()
                }
            };
        }
        let piece = self.held.split_to(self.held.len().min(most));
        Poll::Ready(Ok((!piece.is_empty()).then_some(piece)))
    }
}

impl RestReading {
    /// The next piece; empty at the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, ReadError>> {
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
