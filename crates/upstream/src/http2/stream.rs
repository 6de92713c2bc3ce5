//! An exchange on a connection, as a byte stream of records.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use freerun_proto::h2::hpack::Pseudo;
use freerun_proto::h2::{self, Slot};
use freerun_runtime::loops;
use freerun_runtime::waiter::Waiter;

use super::connection::{Http2State, LossReason};
use super::handle::Http2Connection;
use super::record::{self, ExchangeFault, RECORD_HEAD};
use crate::pool::SharedSlot;

/// Records that have come on a stream and were not read yet.
#[derive(Default)]
pub(super) struct StreamState {
    /// The records. The stream's window bounds them.
    received: RefCell<BytesMut>,
    /// The place of the last record, if it belongs to a body and nothing of it was taken: more can be appended to it.
    open: Cell<Option<usize>>,
    /// Number of bytes in front of the records that belong to a body partly taken.
    begun: Cell<usize>,
    /// Nothing more comes.
    has_ended: Cell<bool>,
    /// The connection was lost.
    lost: RefCell<Option<LossReason>>,
    reader: Waiter,
    writer: Waiter,
}

impl StreamState {
    // ---- what the connection tells -------------------------------------------------------------------------------------

    /// Appends a record, unless nothing may follow.
    fn append(&self, ends: bool, push: impl FnOnce(&mut BytesMut)) {
        if self.has_ended.get() {
            return;
        }
        push(&mut self.received.borrow_mut());
        self.open.set(None);
        self.has_ended.set(ends);
        self.reader.wake();
    }

    /// A head has come.
    pub(super) fn head(&self, ends: bool, status: u16, fields: &[u8]) {
        self.append(ends, |out| record::push_head(out, ends, status, fields));
    }

    /// Bytes of the body have come.
    pub(super) fn data(&self, bytes: &[u8]) {
        if self.has_ended.get() {
            return;
        }
        let mut received = self.received.borrow_mut();
        let start = match self.open.get() {
            Some(start) => start,
            None => {
                let start = received.len();
                received.reserve(RECORD_HEAD + bytes.len());
                received.extend_from_slice(&record::head(record::DATA, 0));
                self.open.set(Some(start));
                start
            }
        };
        received.extend_from_slice(bytes);
        let head = record::head(record::DATA, received.len() - start - RECORD_HEAD);
        received[start..start + RECORD_HEAD].copy_from_slice(&head);
        drop(received);
        self.reader.wake();
    }

    /// Trailers have come, with the end.
    pub(super) fn trailers(&self, fields: &[u8]) {
        self.append(true, |out| {
            out.extend_from_slice(&record::head(record::TRAILERS, fields.len()));
            out.extend_from_slice(fields);
        });
    }

    /// The whole response has come.
    pub(super) fn ended(&self) {
        self.append(true, |out| out.extend_from_slice(&record::head(record::END, 0)));
    }

    /// The response is broken off, or wrong.
    pub(super) fn broken(&self, how: &ExchangeFault) {
        self.append(true, |out| how.push(out));
        self.wake_writer();
    }

    /// The connection is lost.
    pub(super) fn lost(&self, why: &LossReason) {
        if let LossReason::Invalid(text) = why {
            self.broken(&ExchangeFault::Invalid(text.clone()));
        }
        self.lost.borrow_mut().get_or_insert_with(|| why.clone());
        self.has_ended.set(true);
        self.reader.wake();
        self.wake_writer();
    }

    /// There may be room to write, or there never will be.
    pub(super) fn wake_writer(&self) {
        self.writer.wake();
    }

    // ---- what the owner takes ------------------------------------------------------------------------------------------

    fn has_something(&self) -> bool {
        self.has_ended.get() || !self.received.borrow().is_empty()
    }

    /// Takes records with about `most` bytes of a body, at least one byte. Returns how many bytes of a body are among them.
    fn take(&self, most: usize, out: &mut BytesMut) -> usize {
        let mut received = self.received.borrow_mut();
        let (len, body, begun) = self.measure(&received, most.max(1));
        debug_assert!(len > 0, "nothing would look like the end of the stream");
        let taken = if len == received.len() { std::mem::take(&mut *received) } else { received.split_to(len) };
        self.begun.set(begun);
        self.open.set(match self.open.get() {
            Some(start) if start >= len => Some(start - len),
            _ => None,
        });
        if out.is_empty() {
            *out = taken
        } else {
            out.extend_from_slice(&taken)
        }
        body
    }

    /// Measures the bytes to take: their number, the number of a body's bytes among them, and the number of bytes that
    /// are left of the last body.
    fn measure(&self, received: &[u8], most: usize) -> (usize, usize, usize) {
        let (mut at, mut body, mut begun) = (0, 0, self.begun.get());
        loop {
            let part = begun.min(most - body);
            (at, body, begun) = (at + part, body + part, begun - part);
            if body == most || begun > 0 {
                return (at, body, begun);
            }
            let Some((kind, len)) = received.get(at..).and_then(record::parse) else { return (at, body, begun) };
            at += RECORD_HEAD;
            if kind == record::DATA { begun = len } else { at += len }
        }
    }
}

/// A stream's hold on its connection.
#[derive(Debug)]
#[expect(dead_code, reason = "it keeps the connection")]
enum Hold {
    /// A slot of a connection that others use, too.
    Slot(SharedSlot),
    /// The connection itself.
    Alone(Arc<Http2Connection>),
}

/// State of the records that are written.
#[derive(Default)]
struct WriteState {
    /// The stream, once the head was written.
    slot: Option<Slot>,
    /// Number of bytes of a body that are still to be written.
    left: usize,
    /// The bytes are the last ones.
    is_last: bool,
}

/// An exchange on a connection of HTTP/2, as a byte stream: a request is written and a response is read as records
/// ([`record`]). Dropping it gives up what is not complete, and the connection goes on.
pub struct ExchangeStream {
    inner: Rc<Http2State>,
    state: Rc<StreamState>,
    writing: RefCell<WriteState>,
    _hold: Hold,
}

impl fmt::Debug for ExchangeStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({:?})", self.writing.borrow().slot)
    }
}

impl ExchangeStream {
    fn on(inner: Rc<Http2State>, hold: Hold) -> ExchangeStream {
        ExchangeStream { inner, state: Rc::default(), writing: RefCell::default(), _hold: hold }
    }

    /// The stream for a slot of an [`Http2Connection`]. It begins when the head of the request is written. `None`: the
    /// connection has just ended.
    pub fn of(slot: SharedSlot) -> Option<ExchangeStream> {
        let inner = slot.connection::<Http2Connection>()?.inner()?;
        Some(ExchangeStream::on(inner, Hold::Slot(slot)))
    }

    /// A stream of a connection that is in no pool. `None`: the connection has just ended.
    pub fn alone(connection: impl Into<Arc<Http2Connection>>) -> Option<ExchangeStream> {
        let connection = connection.into();
        let inner = connection.inner()?;
        Some(ExchangeStream::on(inner, Hold::Alone(connection)))
    }

    // ---- reading -------------------------------------------------------------------------------------------------------

    /// Polls for records, or the end, without reading them.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.has_something() {
            return Poll::Ready(());
        }
        self.state.reader.keep(context);
        Poll::Pending
    }

    /// Polls a read of records with at most `most` bytes of a body, or one byte. Returns how many bytes of records have come,
    /// 0 at the end. What is read here is what the server may send again.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub fn poll_read(&self, context: &mut Context<'_>, out: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        if self.state.received.borrow().is_empty() {
            if self.state.has_ended.get() {
                let error = self.state.lost.borrow().as_ref().and_then(LossReason::error);
                return Poll::Ready(error.map_or(Ok(0), Err));
            }
            self.state.reader.keep(context);
            return Poll::Pending;
        }
        let before = out.len();
        let body = self.state.take(most, out);
        if let Some(slot) = self.writing.borrow().slot
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
        let mut writing = self.writing.borrow_mut();
        let all = out.len() + piece.len();
        let mut at = 0;
        while at < all {
            if let Some(slot) = writing.slot
                && self.inner.look(|machine| machine.is_reset(slot))
            {
                return if at > 0 { Ok(at) } else { Err(io::ErrorKind::BrokenPipe.into()) };
            }
            let step = match writing.left {
                0 => self.write_record(&mut writing, out, at)?,
                left => {
                    let Some(slot) = writing.slot else { return Err(io::ErrorKind::InvalidInput.into()) };
                    let room = self.inner.look(|machine| machine.room(slot)).min(left);
                    let part = match out.get(at..).filter(|rest| !rest.is_empty()) {
                        Some(rest) => Bytes::copy_from_slice(&rest[..rest.len().min(room)]),
                        None => {
                            let from = at - out.len();
                            piece.slice(from..piece.len().min(from + room))
                        }
                    };
                    let len = part.len();
                    if len > 0 {
                        writing.left -= len;
                        let ends = writing.is_last && writing.left == 0;
                        self.inner.look(|machine| machine.data(slot, part, ends));
                    }
                    len
                }
            };
            if step == 0 {
                break;
            }
            at += step;
        }
        if at == 0 && all > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inner.with(|_| ());
        Ok(at)
    }

    /// Writes the record that begins at `at`; of a body only what precedes its bytes. Returns how many bytes it has.
    fn write_record(&self, writing: &mut WriteState, out: &[u8], at: usize) -> io::Result<usize> {
        let no_record = || io::Error::from(io::ErrorKind::InvalidInput);
        let record = out.get(at..).ok_or_else(no_record)?;
        let (kind, len) = record::parse(record).ok_or_else(no_record)?;
        match (kind, writing.slot) {
            (record::HEAD, None) => {
                let payload = record.get(RECORD_HEAD..RECORD_HEAD + len).ok_or_else(no_record)?;
                let (ends, fields) = record::split_request(payload).ok_or_else(no_record)?;
                let Some(slot) = self.inner.open(&self.state) else {
                    // The server has said so since this stream was made.
                    self.refused();
                    return Err(io::ErrorKind::BrokenPipe.into());
                };
                writing.slot = Some(slot);
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
                Ok(RECORD_HEAD + len)
            }
            (record::DATA | record::LAST, Some(_)) if len > 0 => {
                (writing.left, writing.is_last) = (len, kind == record::LAST);
                Ok(RECORD_HEAD)
            }
            (record::END | record::LAST, Some(slot)) => {
                self.inner.look(|machine| machine.data(slot, Bytes::new(), true));
                Ok(RECORD_HEAD)
            }
            _ => Err(no_record()),
        }
    }

    /// The connection takes no stream, or has ended: the request was not sent.
    fn refused(&self) {
        self.state.broken(&ExchangeFault::Refused);
        self.inner.tell_streams();
    }

    /// Polls for room to write, after a write found none. A stream that has ended is always ready: the write reports it.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(slot) = self.writing.borrow().slot else { return Poll::Ready(()) };
        if self.inner.look(|machine| machine.is_reset(slot) || machine.room(slot) > 0) {
            return Poll::Ready(());
        }
        self.state.writer.keep(context);
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

    /// Asks the server whether it is there. Its answer changes [`ExchangeStream::heard`].
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

impl Drop for ExchangeStream {
    fn drop(&mut self) {
        if let Some(slot) = self.writing.get_mut().slot {
            self.inner.leave(slot);
        }
    }
}
