//! An exchange on a connection, as a byte stream of records.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use freerun_proto::h2::hpack::Pseudo;
use freerun_proto::h2::{self, ErrorCode, Slot};
use freerun_runtime::loops;

use super::connection::Http2State;
use super::handle::Http2Connection;
use crate::exchange::record::{ExchangeFault, RecordFields};
use crate::exchange::state::StreamState;
use crate::exchange::writer::{RecordWriter, RequestSink};
use crate::pool::SharedSlot;

/// A stream's hold on its connection.
#[derive(Debug)]
#[expect(dead_code, reason = "it keeps the connection")]
enum Hold {
    /// A slot of a connection that others use, too.
    Slot(SharedSlot),
    /// The connection itself.
    Alone(Arc<Http2Connection>),
}

/// An exchange on a connection of HTTP/2, as a byte stream: a request is written and a response is read as records
/// ([`record`](crate::exchange::record)). Dropping it gives up what is not complete, and the connection goes on.
pub struct Http2Stream {
    inner: Rc<Http2State>,
    state: Rc<StreamState>,
    /// The stream, once the head was written.
    slot: Cell<Option<Slot>>,
    writer: RefCell<RecordWriter>,
    _hold: Hold,
}

impl fmt::Debug for Http2Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({:?})", self.slot.get())
    }
}

impl Http2Stream {
    fn on(inner: Rc<Http2State>, hold: Hold) -> Http2Stream {
        let (state, slot, writer) = Default::default();
        Http2Stream { inner, state, slot, writer, _hold: hold }
    }

    /// The stream for a slot of an [`Http2Connection`]. It begins when the head of the request is written. `None`: the
    /// connection has just ended.
    pub fn of(slot: SharedSlot) -> Option<Http2Stream> {
        let inner = slot.connection::<Http2Connection>()?.inner()?;
        Some(Http2Stream::on(inner, Hold::Slot(slot)))
    }

    /// A stream of a connection that is in no pool. `None`: the connection has just ended.
    pub fn alone(connection: impl Into<Arc<Http2Connection>>) -> Option<Http2Stream> {
        let connection = connection.into();
        let inner = connection.inner()?;
        Some(Http2Stream::on(inner, Hold::Alone(connection)))
    }

    // ---- reading -------------------------------------------------------------------------------------------------------

    /// Polls for records, or the end, without reading them.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.state.poll_readable(context)
    }

    /// Polls a read of records with at most `most` bytes of a body, or one byte. Returns how many bytes of records have come,
    /// 0 at the end. What is read here is what the server may send again.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub fn poll_read(&self, context: &mut Context<'_>, out: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        let before = out.len();
        let body = ready!(self.state.poll_take(context, out, most))?;
        if let Some(slot) = self.slot.get()
            && body > 0
        {
            let inner = &self.inner;
            let has_news = inner.look(|machine| {
                machine.consumed(slot, body);
                machine.pending() > 0
            });
            if has_news {
                inner.with(|_| ());
            }
        }
        Poll::Ready(Ok(out.len() - before))
    }

    // ---- writing -------------------------------------------------------------------------------------------------------

    /// Writes as much of `out`, and then of `piece`, as the server takes now, without waiting. All but the bytes of a body
    /// have to be in `out`, record by record.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room for any byte; or the stream has ended.
    pub fn try_write(&self, out: &[u8], piece: &Bytes) -> io::Result<usize> {
        let written = self.writer.borrow_mut().write(self, out, piece)?;
        self.inner.with(|_| ());
        Ok(written)
    }

    /// The connection takes no stream, or has ended: the request was not sent.
    fn refused(&self) {
        self.state.broken(&ExchangeFault::Refused(ErrorCode::REFUSED_STREAM.0));
        self.inner.tell_streams();
    }

    /// Polls for room to write, after a write found none. A stream that has ended is always ready: the write reports it.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(slot) = self.slot.get() else { return Poll::Ready(()) };
        if self.inner.look(|machine| machine.is_reset(slot) || machine.room(slot) > 0) {
            return Poll::Ready(());
        }
        self.state.keep_writer(context);
        Poll::Pending
    }

    // ---- the connection ------------------------------------------------------------------------------------------------

    /// Whether the server has nothing unread, neither bytes nor the end: otherwise the connection may be about to end.
    /// The kernel is not asked while other streams are under way. Before a server closes such a connection, it says
    /// which requests it has not looked at (RFC 9113 section 6.8).
    pub fn is_quiet(&self) -> bool {
        let is_used = self.inner.look(|machine| machine.used_slots() > 0);
        self.inner.transport.is_quiet(!is_used)
    }

    /// Whether the connection takes no further request.
    pub fn is_over(&self) -> bool {
        self.inner.tell_streams() == 0 || self.inner.lost().is_some()
    }

    /// Whether the server's SETTINGS have come, which are the first that it sends. A connection that ends before has been accepted
    /// by nobody, such as one in the queue of a socket that is closed.
    pub fn is_heard(&self) -> bool {
        self.inner.look(|machine| machine.knows_peer())
    }

    /// Moment at which anything came from the server the last time, on whichever stream, in milliseconds as
    /// [`loops::millis`] counts them.
    pub fn heard(&self) -> u64 {
        self.inner.heard.get()
    }

    /// Asks the server whether it is there. Its answer changes [`Http2Stream::heard`].
    pub fn ask(&self) {
        self.inner.with(|machine: &mut h2::Connection| machine.ping(loops::millis().to_be_bytes()));
    }

    /// Lets the server be silent for so long only, and answer within the same time, in milliseconds.
    #[cfg(test)]
    pub(super) fn shorten_patience(&self, millis: u64) {
        self.inner.patience.set((millis, millis));
        self.inner.with(|_| ());
    }
}

impl RequestSink for Http2Stream {
    fn begin(&self, payload: &[u8], ends: bool, fields: RecordFields<'_>) -> io::Result<()> {
        let Some(slot) = self.inner.open(&self.state) else {
            // The server has said so since this stream was made.
            self.refused();
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        self.slot.set(Some(slot));
        self.inner.look(|machine| {
            machine.head(slot, ends, |encoder, out| {
                for (name, value) in fields {
                    let (name, value) = (&payload[name], &payload[value]);
                    match Pseudo::of(name) {
                        Some(pseudo) => encoder.pseudo(pseudo, value, out),
                        None => encoder.field(name, value, out),
                    }
                }
            });
        });
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.slot.get().is_some_and(|slot| self.inner.look(|machine| machine.is_reset(slot)))
    }

    fn room(&self) -> usize {
        self.slot.get().map_or(0, |slot| self.inner.look(|machine| machine.room(slot)))
    }

    fn send(&self, part: Bytes, ends: bool) {
        if let Some(slot) = self.slot.get() {
            self.inner.look(|machine| machine.data(slot, part, ends));
        }
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.get() {
            self.inner.leave(slot);
        }
    }
}
