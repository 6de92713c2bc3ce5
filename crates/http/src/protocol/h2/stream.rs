//! The stream of one request, as the request path sees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use freerun_conf::SettingsSet;
use freerun_proto::h2::{Elsewhere, ErrorCode, Slot};
use freerun_transport::FileSending;

use crate::connection::file_out::FileOut;
use crate::connection::stream::{ResponseHead, Stream, StreamError, StreamFault};
use crate::protocol::h2::shared::SharedConnection;
use crate::protocol::multiplexed::request_task::RequestStream;
use crate::protocol::multiplexed::stream_state::StreamState;
use crate::protocol::multiplexed::{RequestRunners, may_be_sent, status_and_fields};
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
    state: StreamState,
    was_read: Cell<bool>,
}

impl H2Stream {
    pub(super) fn new(shared: Rc<SharedConnection>, slot: Slot, body_ended: bool) -> Rc<H2Stream> {
        Rc::new(H2Stream {
            shared,
            slot,
            body: RefCell::default(),
            state: StreamState::new(body_ended),
            was_read: Cell::new(false),
        })
    }

    // ---- what the connection tells ---------------------------------------------------------------------------------

    /// Bytes of the body have come.
    pub(super) fn received(&self, bytes: &[u8]) {
        self.body.borrow_mut().extend_from_slice(bytes);
        self.state.reader.wake();
    }

    /// The whole body has come.
    pub(super) fn ended(&self) {
        self.state.end_body();
    }

    /// The body is none.
    pub(super) fn failed(&self, fault: StreamFault) {
        self.state.fail_body(fault);
    }

    /// There may be room.
    pub(super) fn has_room(&self) {
        self.state.writer.wake();
    }

    /// The client has gone.
    pub(super) fn leave(&self) {
        self.state.leave(|| drop(self.body.take()));
    }

    /// The connection has failed.
    pub(super) fn fail(&self) {
        self.state.fail();
        self.leave();
    }

    /// Sends a head.
    fn send_fields(&self, head: &ResponseHead, ends: bool) {
        let (status, fields) = status_and_fields(head);
        self.shared.with(|machine| {
            machine.head(self.slot, ends, |encoder, out| {
                encoder.status(status, out);
                fields.for_each(|(name, value)| encoder.field(name, value, out));
            });
        });
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
        if self.state.is_tunnel_of(generation) {
            self.shared.reset(self.slot, ErrorCode::CANCEL);
            self.leave();
        }
    }

    fn release(&self) {
        if self.state.release() {
            self.leave();
            self.shared.release(self.slot);
        }
    }
}

impl Stream for H2Stream {
    fn poll_body(&self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
        if self.state.is_over() {
            return Poll::Ready(Err(self.state.over()));
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
        self.state.poll_end(context)
    }

    fn is_body_taken(&self) -> bool {
        self.state.has_body() && self.body.borrow().is_empty()
    }

    fn send_interim(&self, head: &ResponseHead) {
        if !self.state.is_over() {
            self.send_fields(head, false);
        }
    }

    fn send_head(&self, head: &ResponseHead, ends: bool) {
        if !self.state.is_over() {
            self.state.note_head();
            self.send_fields(head, ends);
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        if self.state.is_over() {
            return Poll::Ready(Err(self.state.over()));
        }
        match self.shared.look(|machine| machine.room(self.slot)) {
            0 => {
                self.state.writer.keep(context);
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    fn send_data(&self, data: Bytes, ends: bool) {
        if !self.state.is_over() {
            self.shared.with(|machine| machine.data(self.slot, data, ends));
        }
    }

    fn sends_files(&self) -> bool {
        matches!(self.shared.connection.transport.file_sending(), FileSending::Sendfile(_))
    }

    fn send_file(&self, file: &Rc<FileOut>, offset: u64, len: usize, ends: bool) {
        if !self.state.is_over() {
            let piece = Elsewhere { what: file.clone(), at: offset, len };
            self.shared.with(|machine| machine.data_elsewhere(self.slot, piece, ends));
        }
    }

    fn send_trailers(&self, fields: &[Field]) {
        if !self.state.is_over() {
            let fields = fields.iter().filter(|(name, _)| may_be_sent(name)).cloned().collect();
            self.shared.with(|machine| machine.trailers(self.slot, fields));
        }
    }

    fn poll_sent(&self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.state.is_released() {
            return Poll::Ready(Err(self.state.over()));
        }
        // A client may reset a stream whose response it has got as a whole.
        if self.shared.look(|machine| machine.is_sent(self.slot)) {
            return Poll::Ready(Ok(()));
        }
        if self.state.is_gone() {
            return Poll::Ready(Err(self.state.over()));
        }
        self.state.writer.keep(context);
        Poll::Pending
    }

    fn sent_bytes(&self) -> Option<u64> {
        (!self.state.is_released()).then(|| self.shared.look(|machine| machine.sent_bytes(self.slot)))
    }

    fn is_held(&self) -> bool {
        self.state.is_over() || self.shared.look(|machine| machine.is_held(self.slot))
    }

    fn has_stalled(&self) {
        self.shared.stalled_at.set(Some(self.shared.look(|machine| machine.progress())));
    }

    fn use_settings(&self, settings: &SettingsSet) {
        if !self.state.is_over() {
            let most = settings.get::<Http2Settings>().http2_chunk_size.0;
            self.shared.look(|machine| machine.set_chunk(self.slot, most));
        }
    }

    fn become_tunnel(&self, generation: u64) {
        if !self.state.is_over() {
            self.state.become_tunnel(generation);
            self.shared.look(|machine| machine.stay_open(self.slot));
        }
    }

    fn reset(&self) {
        if !self.state.is_over() {
            let code =
                if self.state.is_client_at_fault() { ErrorCode::PROTOCOL_ERROR } else { ErrorCode::INTERNAL_ERROR };
            self.shared.reset(self.slot, code);
        }
    }

    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        self.state.poll_gone(context)
    }

    fn certain_room(&self) -> usize {
        if self.state.is_over() { 0 } else { self.shared.look(|machine| machine.room(self.slot)) }
    }
}
