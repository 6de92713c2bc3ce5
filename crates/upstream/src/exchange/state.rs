//! Records of a response between the connection that receives them and the exchange that takes them.

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use freerun_runtime::waiter::Waiter;

use super::loss::LossReason;
use super::record::{self, ExchangeFault, RECORD_HEAD};

/// Records that have come on a stream and were not read yet.
#[derive(Default)]
pub(crate) struct StreamState {
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
    pub(crate) fn head(&self, ends: bool, status: u16, fields: &[u8]) {
        self.append(ends, |out| record::push_head(out, ends, status, fields));
    }

    /// Bytes of the body have come.
    pub(crate) fn data(&self, bytes: &[u8]) {
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
    pub(crate) fn trailers(&self, fields: &[u8]) {
        self.append(true, |out| {
            out.extend_from_slice(&record::head(record::TRAILERS, fields.len()));
            out.extend_from_slice(fields);
        });
    }

    /// The whole response has come.
    pub(crate) fn ended(&self) {
        self.append(true, |out| out.extend_from_slice(&record::head(record::END, 0)));
    }

    /// The response is broken off, or wrong.
    pub(crate) fn broken(&self, how: &ExchangeFault) {
        self.append(true, |out| how.push(out));
        self.wake_writer();
    }

    /// The connection is lost.
    pub(crate) fn lost(&self, why: &LossReason) {
        if let LossReason::Invalid(text) = why {
            self.broken(&ExchangeFault::Invalid(text.clone()));
        }
        self.lost.borrow_mut().get_or_insert_with(|| why.clone());
        self.has_ended.set(true);
        self.reader.wake();
        self.wake_writer();
    }

    /// There may be room to write, or there never will be.
    pub(crate) fn wake_writer(&self) {
        self.writer.wake();
    }

    // ---- what the owner takes ------------------------------------------------------------------------------------------

    /// Polls for records, or the end, without taking them.
    pub(crate) fn poll_readable(&self, context: &Context<'_>) -> Poll<()> {
        if self.has_ended.get() || !self.received.borrow().is_empty() {
            return Poll::Ready(());
        }
        self.reader.keep(context);
        Poll::Pending
    }

    /// Polls for records with at most `most` bytes of a body, or one byte. Returns how many bytes of a body are among them;
    /// without any record, at the end, 0.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub(crate) fn poll_take(&self, context: &Context<'_>, out: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        if !self.received.borrow().is_empty() {
            return Poll::Ready(Ok(self.take(most, out)));
        }
        if self.has_ended.get() {
            let error = self.lost.borrow().as_ref().and_then(LossReason::error);
            return Poll::Ready(error.map_or(Ok(0), Err));
        }
        self.reader.keep(context);
        Poll::Pending
    }

    /// Has the task of this context woken when there may be room to write.
    pub(crate) fn keep_writer(&self, context: &Context<'_>) {
        self.writer.keep(context);
    }

    /// Number of bytes that were not taken.
    pub(crate) fn unread(&self) -> usize {
        self.received.borrow().len()
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
