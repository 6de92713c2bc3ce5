//! Reading a body while the response to its request is being sent, when the request itself is out of reach.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use freerun_proto::{BodyFraming, Status};
use freerun_runtime::timer::Timer;

use super::{BodyError, limits, poll_piece};
use crate::message::body::{ClientBody, ReturnedBody};
use crate::request::{ClientStream, Head, Request};

/// A body that is read apart from its request, while the response is being sent. When it is dropped, the request can
/// take back the rest of the body ([`take_back`]).
pub struct LentBody {
    body: ClientBody,
    /// The bytes that have come of the body, or behind it.
    buffer: Vec<u8>,
    client: ClientStream,
    timer: Timer,
    waiting: bool,
    wait: Duration,
    limit: u64,
    /// Whether the framing or the connection has failed, so that the rest of the bytes cannot be interpreted.
    failed: bool,
    returned: Rc<ReturnedBody>,
}

/// Hands out the rest of a body after a part was passed on as it came. Until it is given back, the body in the request
/// counts as not received and cannot be read.
pub fn lend(request: &mut Request) -> LentBody {
    take_back(request);
    let (wait, limit) = limits(request);
    let head = request.head.parsed.len as usize;
    let buffer = request.head.buffer.split_off(request.body.used());
    request.head.buffer.truncate(head);
    let (body, returned) = request.body.lend(head);
    let client = request.client.clone();
    LentBody { body, buffer, client, timer: Timer::default(), waiting: false, wait, limit, failed: false, returned }
}

/// Takes back the rest of a body that was lent, if it has been returned.
pub fn take_back(request: &mut Request) {
    let Request { body, head: Head { buffer, parsed }, .. } = request;
    body.take_back(parsed.len as usize, buffer);
}

impl LentBody {
    /// The next piece, at most `most` bytes; `None` at the end.
    ///
    /// # Errors
    /// The errors of [`next_piece`](super::next_piece); nothing is logged.
    pub fn poll_piece(&mut self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, BodyError>> {
        let piece = ready!(self.poll(context, most));
        // A piece that is late can still come.
        self.failed |= matches!(piece, Err(BodyError::Status(_) | BodyError::Faulty(_) | BodyError::Broken));
        Poll::Ready(piece)
    }

    /// Whether the last piece of the body was taken.
    pub fn is_done(&self) -> bool {
        self.body.is_done()
    }

    fn poll(&mut self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, BodyError>> {
        let piece = match poll_piece(&mut self.body, context, (&mut self.buffer, 0), &self.client, most) {
            Poll::Ready(piece) => piece?,
            Poll::Pending => {
                if !std::mem::replace(&mut self.waiting, true) {
                    self.timer.set(self.wait);
                }
                return self.timer.poll_expired(context).map(|()| Err(BodyError::TimedOut));
            }
        };
        self.waiting = false;
        if self.body.is_beyond(self.limit) {
            return Poll::Ready(Err(BodyError::Status(Status::CONTENT_TOO_LARGE)));
        }
        Poll::Ready(Ok(piece))
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if self.failed {
            // The connection is closed if the body is not returned.
            return;
        }
        let over = ClientBody::new(BodyFraming::None, 0, false);
        self.returned.leave(std::mem::replace(&mut self.body, over), std::mem::take(&mut self.buffer));
    }
}
