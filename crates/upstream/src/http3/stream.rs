//! An exchange on a connection, as a byte stream of records.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use freerun_proto::h3::qpack::Pseudo;
use freerun_proto::h3::{H3ErrorCode, StreamId};
use freerun_quic::http3::Http3Streams;

use super::connection::Http3State;
use super::handle::Http3Connection;
use super::receive::fault_code;
use crate::exchange::loss::LossReason;
use crate::exchange::record::{ExchangeFault, RecordFields};
use crate::exchange::state::StreamState;
use crate::exchange::writer::{RecordWriter, RequestSink};
use crate::pool::SharedSlot;

/// The most bytes of a response that were received and that nobody has read, besides what QUIC keeps.
const MOST_UNREAD: usize = 64 << 10;

/// The most bytes of a request that wait until QUIC takes them.
const MOST_UNSENT: usize = 128 << 10;

/// The longest piece of a body that is copied behind the heads before it. A longer one costs less as a piece of its own.
const SHORT: usize = 512;

/// A stream that has begun.
pub(super) struct OpenStream {
    pub(super) id: StreamId,
    state: Rc<StreamState>,
    /// Heads, and short pieces, that belong behind the pieces: they become one with what follows.
    tail: RefCell<Vec<u8>>,
    /// The pieces of the request that QUIC has not taken yet, and the length of all with the tail.
    pieces: RefCell<VecDeque<Bytes>>,
    unsent: Cell<usize>,
    /// QUIC has not taken all pieces. An event tells when it takes more.
    is_blocked: Cell<bool>,
    /// Nothing follows the pieces.
    ends: Cell<bool>,
    /// The end was given to QUIC.
    is_finished: Cell<bool>,
    /// Nothing more can be sent.
    is_stopped: Cell<bool>,
    /// The whole response has come.
    is_answered: Cell<bool>,
    /// Nothing is read of QUIC for this stream, because there is much that nobody has read.
    is_paused: Cell<bool>,
}

impl OpenStream {
    pub(super) fn new(id: StreamId, state: Rc<StreamState>) -> OpenStream {
        let (tail, pieces, unsent, is_blocked, ends, is_finished) = Default::default();
        let (is_stopped, is_answered, is_paused) = Default::default();
        OpenStream {
            id,
            state,
            tail,
            pieces,
            unsent,
            is_blocked,
            ends,
            is_finished,
            is_stopped,
            is_answered,
            is_paused,
        }
    }

    /// Whether both sides have sent everything.
    pub(super) fn is_complete(&self) -> bool {
        self.is_answered.get() && self.is_finished.get()
    }

    // ---- what the connection tells -------------------------------------------------------------------------------------

    /// Whether further bytes have to wait, because nobody reads those that have come. The task is asked to go on when they are
    /// read.
    pub(super) fn pauses(&self) -> bool {
        let is_full = self.state.unread() >= MOST_UNREAD;
        self.is_paused.set(is_full);
        is_full
    }

    /// A head has come.
    pub(super) fn head(&self, ends: bool, status: u16, fields: &[u8]) {
        self.is_answered.set(ends);
        self.state.head(ends, status, fields);
    }

    /// Bytes of the body have come.
    pub(super) fn data(&self, bytes: &[u8]) {
        self.state.data(bytes);
    }

    /// Trailers have come. The end follows, which they bring.
    pub(super) fn trailers(&self, fields: &[u8]) {
        self.state.trailers(fields);
    }

    /// The whole response has come.
    pub(super) fn ended(&self) {
        self.is_answered.set(true);
        self.state.ended();
    }

    /// The server reads no more of the request.
    pub(super) fn stopped(&self) {
        self.is_stopped.set(true);
        self.forget_unsent();
        self.state.wake_writer();
    }

    /// The response is broken off, or wrong.
    pub(super) fn broken(&self, how: &ExchangeFault) {
        self.is_stopped.set(true);
        self.forget_unsent();
        self.state.broken(how);
    }

    /// The connection is lost.
    pub(super) fn lost(&self, why: &LossReason) {
        self.is_stopped.set(true);
        self.forget_unsent();
        self.state.lost(why);
    }

    fn forget_unsent(&self) {
        self.tail.take();
        self.pieces.take();
        self.unsent.set(0);
    }

    /// Gives QUIC what waits for it, as far as it takes that.
    pub(super) fn flush(&self, connection: &Http3State) {
        if self.is_stopped.get() || self.is_finished.get() {
            return;
        }
        self.close_tail();
        let mut pieces = self.pieces.borrow_mut();
        self.is_blocked.set(false);
        while !pieces.is_empty() {
            match connection.look(|streams| streams.write(self.id, pieces.make_contiguous())) {
                Ok((0, 0)) => {
                    self.is_blocked.set(true);
                    break;
                }
                Ok((bytes, whole)) => {
                    pieces.drain(..whole);
                    self.unsent.set(self.unsent.get() - bytes);
                    connection.wrote(bytes);
                }
                Err(_) => {
                    drop(pieces);
                    return self.stopped();
                }
            }
        }
        if pieces.is_empty() && self.ends.get() {
            self.is_finished.set(true);
            connection.look(|streams| streams.finish(self.id));
        }
        drop(pieces);
        if self.room() > 0 {
            self.state.wake_writer();
        }
    }

    // ---- sending -------------------------------------------------------------------------------------------------------

    /// The room for a body. There is none while QUIC takes nothing.
    fn room(&self) -> usize {
        if self.is_blocked.get() { 0 } else { MOST_UNSENT.saturating_sub(self.unsent.get()) }
    }

    /// Appends a piece of a body.
    fn queue(&self, piece: Bytes) {
        self.unsent.set(self.unsent.get() + piece.len());
        if piece.len() <= SHORT {
            return self.tail.borrow_mut().extend_from_slice(&piece);
        }
        self.close_tail();
        self.pieces.borrow_mut().push_back(piece);
    }

    /// Makes a piece of the tail.
    fn close_tail(&self) {
        let tail = self.tail.take();
        if !tail.is_empty() {
            self.pieces.borrow_mut().push_back(Bytes::from(tail));
        }
    }

    /// Notes that nothing follows.
    fn end(&self, streams: &mut Http3Streams) {
        // A client has no reason to stop reading then.
        let _ = streams.machine.end(self.id);
        self.ends.set(true);
    }
}

/// A stream's hold on its connection.
#[derive(Debug)]
#[expect(dead_code, reason = "it keeps the connection")]
enum ConnectionHold {
    /// A slot of a connection that others use, too.
    Slot(SharedSlot),
    /// The connection itself.
    Alone(Arc<Http3Connection>),
}

/// An exchange on a connection of HTTP/3, as a byte stream of [records](crate::exchange::record). Dropping it gives up what is
/// not complete, and the connection goes on.
pub struct Http3Stream {
    inner: Rc<Http3State>,
    state: Rc<StreamState>,
    /// The stream, once the head was written.
    open: OnceCell<Rc<OpenStream>>,
    writer: RefCell<RecordWriter>,
    _hold: ConnectionHold,
}

impl fmt::Debug for Http3Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({:?})", self.open.get().map(|open| open.id))
    }
}

impl Http3Stream {
    fn on(inner: Rc<Http3State>, hold: ConnectionHold) -> Http3Stream {
        let (state, open, writer) = Default::default();
        Http3Stream { inner, state, open, writer, _hold: hold }
    }

    /// The stream for a slot of an [`Http3Connection`]. It begins when the head of the request is written. `None`: the
    /// connection has just ended.
    pub fn of(slot: SharedSlot) -> Option<Http3Stream> {
        let inner = slot.connection::<Http3Connection>()?.inner()?;
        Some(Http3Stream::on(inner, ConnectionHold::Slot(slot)))
    }

    /// A stream of a connection that is in no pool. `None`: the connection has just ended.
    pub fn alone(connection: impl Into<Arc<Http3Connection>>) -> Option<Http3Stream> {
        let connection = connection.into();
        let inner = connection.inner()?;
        Some(Http3Stream::on(inner, ConnectionHold::Alone(connection)))
    }

    /// Polls for records, or the end, without reading them.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.state.poll_readable(context)
    }

    /// Polls a read of records with at most `most` bytes of a body, or one byte. Returns how many bytes of records have come,
    /// 0 at the end.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub fn poll_read(&self, context: &mut Context<'_>, out: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        let before = out.len();
        ready!(self.state.poll_take(context, out, most))?;
        if let Some(open) = self.open.get()
            && open.is_paused.get()
            && self.state.unread() < MOST_UNREAD / 2
        {
            open.is_paused.set(false);
            self.inner.want(open.id);
        }
        Poll::Ready(Ok(out.len() - before))
    }

    /// Writes as much of `out`, and then of `piece`, as the server takes now, without waiting. All but the bytes of a body
    /// have to be in `out`, record by record.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room for any byte, or no stream yet; or the stream has ended.
    pub fn try_write(&self, out: &[u8], piece: &Bytes) -> io::Result<usize> {
        let written = self.writer.borrow_mut().write(self, out, piece)?;
        if let Some(open) = self.open.get() {
            open.flush(&self.inner);
        }
        self.inner.wake();
        Ok(written)
    }

    /// Polls for room to write, after a write found none. A stream that has ended is always ready: the write reports it.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let is_ready = match self.open.get() {
            Some(open) => open.is_stopped.get() || open.room() > 0,
            None => self.inner.may_begin(),
        };
        if is_ready {
            return Poll::Ready(());
        }
        self.state.keep_writer(context);
        Poll::Pending
    }

    /// Whether the connection takes no further request.
    pub fn is_over(&self) -> bool {
        self.inner.is_ending()
    }

    /// Moment at which anything came from the server the last time, in milliseconds.
    pub fn heard(&self) -> u64 {
        self.inner.heard.get()
    }

    /// Asks the server whether it is there. Its answer changes [`Http3Stream::heard`].
    pub fn ask(&self) {
        self.inner.ask();
    }
}

impl RequestSink for Http3Stream {
    fn begin(&self, payload: &[u8], ends: bool, fields: RecordFields<'_>) -> io::Result<()> {
        if self.inner.is_ending() {
            // The server has said so since this stream was made: the request is not sent.
            self.state.broken(&fault_code(H3ErrorCode::H3_REQUEST_REJECTED, ExchangeFault::Refused));
            self.inner.tell_streams();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let Some(open) = self.inner.begin(&self.state) else {
            self.inner.wait(&self.state);
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let open = self.open.get_or_init(|| open);
        let mut tail = open.tail.borrow_mut();
        self.inner.look(|streams| {
            streams.machine.head(open.id, &mut tail, |encoder, out| {
                for (name, value) in fields {
                    let (name, value) = (&payload[name], &payload[value]);
                    match Pseudo::of(name) {
                        Some(pseudo) => encoder.pseudo(pseudo, value, out),
                        None => encoder.field(name, value, out),
                    }
                }
            });
            if ends {
                open.end(streams);
            }
        });
        open.unsent.set(tail.len());
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.open.get().is_some_and(|open| open.is_stopped.get())
    }

    fn room(&self) -> usize {
        self.open.get().map_or(0, |open| open.room())
    }

    fn send(&self, part: Bytes, ends: bool) {
        let Some(open) = self.open.get() else { return };
        self.inner.look(|streams| {
            if let Some(head) = streams.machine.data(open.id, part.len()) {
                open.tail.borrow_mut().extend_from_slice(head.as_bytes());
                open.unsent.set(open.unsent.get() + head.as_bytes().len());
                open.queue(part);
            }
            if ends {
                open.end(streams);
            }
        });
    }
}

impl Drop for Http3Stream {
    fn drop(&mut self) {
        match self.open.get() {
            Some(open) => self.inner.leave(open),
            None => self.inner.forget_waiting(&self.state),
        }
    }
}
