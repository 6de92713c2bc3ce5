//! The stream of one request, as the request path sees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use freerun_conf::SettingsSet;
use freerun_proto::h2::{Elsewhere, ErrorCode, Slot};
use freerun_runtime::waiter::Waiter;
use freerun_transport::FileSending;

use crate::connection::file_out::FileOut;
use crate::connection::stream::{ResponseHead, Stream, StreamError, StreamFault};
use crate::protocol::h2::shared::SharedConnection;
use crate::protocol::multiplexed::request_task::RequestStream;
use crate::protocol::multiplexed::{RequestRunners, may_be_sent};
use crate::request::ConnectionFacts;
use crate::request::response::Field;
use crate::settings::http2::Http2Settings;

/// The window that a reader of a body has at least, in bytes, whatever the connection begins with.
const READER_WINDOW: u32 = 256 * 1024;

/// The stream of one request.
pub(super) struct H2Stream {
    shared: Rc<SharedConnection>,
    slot: Slot,
    /// The received bytes of the body that were not read yet. The stream's window bounds them.
    body: RefCell<BytesMut>,
    /// The whole body has been received.
    body_ended: Cell<bool>,
    /// The client has reset the stream, or the connection has ended.
    gone: Cell<bool>,
    /// The request has ended: the slot belongs to another stream by now.
    released: Cell<bool>,
    /// The connection has failed, which is logged.
    failed: Cell<bool>,
    was_read: Cell<bool>,
    /// The reason why the body is none.
    fault: RefCell<Option<StreamFault>>,
    sent_head: Cell<bool>,
    /// The generation that the request has begun with, if it has led to a tunnel.
    tunnel_of: Cell<Option<u64>>,
    reader: Waiter,
    writer: Waiter,
    /// Futures that wait for the client's leaving.
    watchers: RefCell<Vec<Waker>>,
}

/// The field of a response of HTTP/1 that opens a WebSocket, besides the fields about the connection.
const OF_WEBSOCKET: &[u8] = b"sec-websocket-accept";

impl H2Stream {
    pub(super) fn new(shared: Rc<SharedConnection>, slot: Slot, body_ended: bool) -> Rc<H2Stream> {
        Rc::new(H2Stream {
            shared,
            slot,
            body: RefCell::default(),
            body_ended: Cell::new(body_ended),
            gone: Cell::new(false),
            released: Cell::new(false),
            failed: Cell::new(false),
            was_read: Cell::new(false),
            fault: RefCell::default(),
            sent_head: Cell::new(false),
            tunnel_of: Cell::new(None),
            reader: Waiter::default(),
            writer: Waiter::default(),
            watchers: RefCell::default(),
        })
    }

    // ---- what the connection tells ---------------------------------------------------------------------------------

    /// Bytes of the body have come.
    pub(super) fn received(&self, bytes: &[u8]) {
        self.body.borrow_mut().extend_from_slice(bytes);
        self.reader.wake();
    }

    /// The whole body has come.
    pub(super) fn ended(&self) {
        self.body_ended.set(true);
        self.reader.wake();
    }

    /// The body is none.
    pub(super) fn failed(&self, fault: StreamFault) {
        self.fault.borrow_mut().get_or_insert(fault);
        self.reader.wake();
    }

    /// There may be room.
    pub(super) fn has_room(&self) {
        self.writer.wake();
    }

    /// The client has gone.
    pub(super) fn leave(&self) {
        if self.gone.replace(true) {
            return;
        }
        self.body.take();
        self.reader.wake();
        self.writer.wake();
        let watchers = self.watchers.take();
        watchers.into_iter().for_each(Waker::wake);
    }

    /// The connection has failed.
    pub(super) fn fail(&self) {
        self.failed.set(true);
        self.leave();
    }

    /// Sends the head that answers an extended CONNECT: what is 101 in HTTP/1 is 200 here, without the fields that belong to
    /// `Upgrade` (RFC 8441 section 5).
    fn send_upgrade(&self, head: &ResponseHead) {
        let belongs = |name: &[u8]| !may_be_sent(name) || name.eq_ignore_ascii_case(OF_WEBSOCKET);
        self.shared.with(|machine| {
            machine.head(self.slot, false, |encoder, out| {
                encoder.status(200, out);
                let fields = head.fields.iter().filter(|(name, _)| !belongs(name));
                fields.for_each(|(name, value)| encoder.field(name, value, out));
            });
        });
    }

    /// The error of a stream that was reset, or whose connection has ended.
    fn over(&self) -> StreamError {
        if self.failed.get() { StreamError::ConnectionFailed } else { StreamError::Reset }
    }

    /// Whether nothing can be sent or received any more.
    fn is_over(&self) -> bool {
        self.gone.get() || self.released.get()
    }
}

impl RequestStream for H2Stream {
    fn facts(&self) -> &ConnectionFacts {
        &self.shared.connection
    }

    fn runners(&self) -> &RequestRunners {
        &self.shared.driver.runners
    }

    fn end_tunnel(&self, generation: u64) {
        if self.tunnel_of.get() == Some(generation) && !self.is_over() {
            self.shared.reset(self.slot, ErrorCode::CANCEL);
            self.leave();
        }
    }

    fn release(&self) {
        if !self.released.replace(true) {
            self.leave();
            self.shared.release(self.slot);
        }
    }
}

impl Stream for H2Stream {
    fn poll_body(&self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
        if self.is_over() {
            return Poll::Ready(Err(self.over()));
        }
        if !self.was_read.replace(true) {
            self.shared.with(|machine| machine.open_window(self.slot, READER_WINDOW));
        }
        let mut body = self.body.borrow_mut();
        if !body.is_empty() {
            let len = body.len().min(most);
            let piece = body.split_to(len).freeze();
            if body.is_empty() {
                // The memory goes with the last piece of it.
                *body = BytesMut::new();
            }
            drop(body);
            self.shared.with(|machine| machine.consumed(self.slot, piece.len()));
            return Poll::Ready(Ok(Some(piece)));
        }
        if let Some(fault) = &*self.fault.borrow() {
            return Poll::Ready(Err(StreamError::Faulty(Box::new(fault.clone()))));
        }
        if self.body_ended.get() {
            return Poll::Ready(Ok(None));
        }
        self.reader.keep(context);
        Poll::Pending
    }

    fn is_body_taken(&self) -> bool {
        self.body_ended.get() && self.fault.borrow().is_none() && self.body.borrow().is_empty()
    }

    fn send_interim(&self, head: &ResponseHead) {
        if self.is_over() {
            return;
        }
        self.shared.with(|machine| {
            machine.head(self.slot, false, |encoder, out| {
                encoder.status(head.status, out);
                let fields = head.fields.iter().filter(|(name, _)| may_be_sent(name));
                fields.for_each(|(name, value)| encoder.field(name, value, out));
            });
        });
    }

    fn send_head(&self, head: &ResponseHead, ends: bool) {
        if self.is_over() {
            return;
        }
        self.sent_head.set(true);
        if head.status == 101 {
            return self.send_upgrade(head);
        }
        self.shared.with(|machine| {
            machine.head(self.slot, ends, |encoder, out| {
                encoder.status(head.status, out);
                let fields = head.fields.iter().filter(|(name, _)| may_be_sent(name));
                fields.for_each(|(name, value)| encoder.field(name, value, out));
            });
        });
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        if self.is_over() {
            return Poll::Ready(Err(self.over()));
        }
        match self.shared.look(|machine| machine.room(self.slot)) {
            0 => {
                self.writer.keep(context);
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    fn send_data(&self, data: Bytes, ends: bool) {
        if !self.is_over() {
            self.shared.with(|machine| machine.data(self.slot, data, ends));
        }
    }

    fn sends_files(&self) -> bool {
        matches!(self.shared.connection.transport.file_sending(), FileSending::Sendfile(_))
    }

    fn send_file(&self, file: &Rc<FileOut>, offset: u64, len: usize, ends: bool) {
        if !self.is_over() {
            let piece = Elsewhere { what: file.clone(), at: offset, len };
            self.shared.with(|machine| machine.data_elsewhere(self.slot, piece, ends));
        }
    }

    fn send_trailers(&self, fields: &[Field]) {
        if !self.is_over() {
            let fields = fields.iter().filter(|(name, _)| may_be_sent(name)).cloned().collect();
            self.shared.with(|machine| machine.trailers(self.slot, fields));
        }
    }

    fn poll_sent(&self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.released.get() {
            return Poll::Ready(Err(self.over()));
        }
        // A client may reset a stream whose response it has got as a whole.
        if self.shared.look(|machine| machine.is_sent(self.slot)) {
            return Poll::Ready(Ok(()));
        }
        if self.gone.get() {
            return Poll::Ready(Err(self.over()));
        }
        self.writer.keep(context);
        Poll::Pending
    }

    fn sent_bytes(&self) -> Option<u64> {
        (!self.released.get()).then(|| self.shared.look(|machine| machine.sent_bytes(self.slot)))
    }

    fn is_held(&self) -> bool {
        self.is_over() || self.shared.look(|machine| machine.is_held(self.slot))
    }

    fn has_stalled(&self) {
        self.shared.stalled_at.set(Some(self.shared.look(|machine| machine.progress())));
    }

    fn use_settings(&self, settings: &SettingsSet) {
        if !self.is_over() {
            let most = settings.get::<Http2Settings>().http2_chunk_size.0;
            self.shared.look(|machine| machine.set_chunk(self.slot, most));
        }
    }

    fn become_tunnel(&self, generation: u64) {
        if !self.is_over() {
            self.tunnel_of.set(Some(generation));
            self.shared.look(|machine| machine.stay_open(self.slot));
        }
    }

    fn reset(&self) {
        if !self.is_over() {
            // Without a response, the rest of the body did not come in time, or in a wrong form.
            let is_theirs = !self.sent_head.get() && !self.body_ended.get();
            let code = if is_theirs { ErrorCode::PROTOCOL_ERROR } else { ErrorCode::INTERNAL_ERROR };
            self.shared.reset(self.slot, code);
        }
    }

    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        let mut watchers = self.watchers.borrow_mut();
        if !watchers.iter().any(|waker| waker.will_wake(context.waker())) {
            watchers.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn certain_room(&self) -> usize {
        if self.is_over() { 0 } else { self.shared.look(|machine| machine.room(self.slot)) }
    }
}
