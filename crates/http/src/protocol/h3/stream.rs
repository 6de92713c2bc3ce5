//! The stream of one request, as the request path sees it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::h3::{H3ErrorCode, StreamId};
use freerun_proto::priority::Priority;
use freerun_quic::http3::StreamOver;
use freerun_runtime::loops;
use freerun_serve::Address;

use crate::connection::stream::{ResponseHead, Stream, StreamError, StreamFault};
use crate::protocol::h3::client::H3Client;
use crate::protocol::h3::unread_rests::RestLimits;
use crate::protocol::multiplexed::request_task::RequestStream;
use crate::protocol::multiplexed::stream_state::StreamState;
use crate::protocol::multiplexed::{RequestRunners, may_be_sent, status_and_fields};
use crate::request::ConnectionFacts;
use crate::request::core_settings::CoreSettings;
use crate::request::response::Field;

/// The most bytes of a body that were received and that nobody has read. QUIC keeps the client from sending much more.
pub(super) const MOST_UNREAD: usize = 64 << 10;

/// The most bytes of a response that wait until QUIC takes them.
const MOST_UNSENT: usize = 128 << 10;

/// The step between two urgencies, among the priorities of QUIC's streams.
const URGENCY: i32 = 1 << 24;

/// The length from which on a received piece of a body is kept in its datagram. A shorter one is copied.
const SPARSE: usize = 1024;

/// Number of bytes that a received piece counts besides its own.
const PIECE: usize = 64;

/// The longest piece of a body that is copied behind the heads before it. A longer one costs less as a piece of its own.
const SHORT: usize = 2048;

/// The room for the head of a response.
const HEAD: usize = 256;

/// The framing of messages on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Frames of HTTP/3.
    Http3,
    /// None: the response is the body alone, as in HTTP/0.9 (`http3_hq`).
    Bare,
}

/// The received pieces of a body that were not read yet.
#[derive(Default)]
struct UnreadPieces {
    pieces: VecDeque<Bytes>,
    /// Their length, with `PIECE` for each.
    len: usize,
}

/// The stream of one request.
pub(super) struct H3Stream {
    client: Rc<H3Client>,
    id: StreamId,
    /// The address that the client had moved to when the request began.
    peer: Option<Rc<Address>>,
    /// The priority among the streams of the connection, for QUIC.
    priority: Cell<i32>,
    /// The received pieces of the body that were not read yet. Most requests have none.
    body: RefCell<Option<Box<UnreadPieces>>>,
    /// Nothing is read of QUIC for this stream, because the pieces are many.
    is_paused: Cell<bool>,
    state: StreamState,
    /// The framing of messages.
    framing: Framing,
    /// Heads, and short pieces, that belong behind the pieces: they become one with what follows.
    tail: RefCell<Vec<u8>>,
    /// The pieces of the response that QUIC has not taken yet, and the length of all with the tail.
    pieces: RefCell<VecDeque<Bytes>>,
    unsent: Cell<usize>,
    /// QUIC has not taken all pieces. An event tells when it takes more.
    is_blocked: Cell<bool>,
    /// Nothing follows the pieces.
    ends: Cell<bool>,
    /// The end was given to QUIC.
    finished: Cell<bool>,
    /// The code for the client when its response is sent and nobody reads the rest of its request.
    stops: Cell<Option<Box<H3ErrorCode>>>,
    /// The limits of reading that rest.
    rest_limits: Cell<RestLimits>,
}

/// The length of a response's body, if its head says it.
fn length(head: &ResponseHead) -> Option<u64> {
    let (_, length) = head.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
    std::str::from_utf8(length).ok()?.parse().ok()
}

impl H3Stream {
    /// The stream of a request; `body_ended` says that nothing follows its head.
    pub(super) fn new(client: Rc<H3Client>, id: StreamId, framing: Framing, body_ended: bool) -> Rc<H3Stream> {
        let (priority, body, is_paused, tail, pieces, unsent, is_blocked, ends, finished) = Default::default();
        let (stops, rest_limits, peer) = (Cell::default(), Cell::default(), client.peer());
        Rc::new(H3Stream {
            client,
            id,
            peer,
            priority,
            body,
            is_paused,
            state: StreamState::new(body_ended),
            framing,
            tail,
            pieces,
            unsent,
            is_blocked,
            ends,
            finished,
            stops,
            rest_limits,
        })
    }

    // ---- what the connection tells ---------------------------------------------------------------------------------

    /// Bytes of the body have come.
    pub(super) fn received(&self, bytes: Bytes) {
        // A short piece would keep the whole datagram that it has come in.
        let piece = if bytes.len() < SPARSE { Bytes::copy_from_slice(&bytes) } else { bytes };
        let mut body = self.body.borrow_mut();
        let unread = body.get_or_insert_default();
        unread.len += piece.len() + PIECE;
        unread.pieces.push_back(piece);
        drop(body);
        self.state.reader.wake();
    }

    /// Whether further bytes have to wait, because nobody reads those that have come. The connection's task is asked to go
    /// on when they are read.
    pub(super) fn pauses(&self) -> bool {
        let is_full = self.body.borrow().as_ref().is_some_and(|unread| unread.len >= MOST_UNREAD);
        self.is_paused.set(is_full);
        is_full
    }

    /// The whole body has come.
    pub(super) fn ended(&self) {
        self.state.end_body();
    }

    /// The body is none.
    pub(super) fn failed(&self, fault: StreamFault) {
        self.state.fail_body(fault);
    }

    /// The client has gone.
    pub(super) fn leave(&self) {
        self.state.leave(|| {
            self.body.take();
            self.pieces.take();
            self.tail.take();
        });
    }

    /// The connection has failed.
    pub(super) fn fail(&self) {
        self.state.fail();
        self.leave();
    }

    /// Gives QUIC what waits for it, as far as it takes that.
    pub(super) fn flush(&self) {
        if self.state.is_gone() {
            return;
        }
        let mut pieces = self.pieces.borrow_mut();
        if pieces.is_empty() {
            // Most responses are a single piece.
            let mut only = [Bytes::from(self.tail.take())];
            let written = if only[0].is_empty() { Ok((0, 1)) } else { self.client.write(self.id, &mut only) };
            let Ok((bytes, whole)) = written else {
                drop(pieces);
                return self.leave();
            };
            self.unsent.set(self.unsent.get() - bytes);
            let [rest] = only;
            if bytes == 0 && whole == 0 {
                // It may wait for long: it has no more memory than it needs.
                let mut tail = Vec::from(rest);
                tail.shrink_to_fit();
                self.tail.replace(tail);
                self.is_blocked.set(true);
                return;
            }
            if whole == 0 {
                pieces.push_back(rest);
            }
        }
        self.close_tail(&mut pieces);
        while !pieces.is_empty() {
            match self.client.write(self.id, pieces.make_contiguous()) {
                Ok((0, 0)) => {
                    self.is_blocked.set(true);
                    return;
                }
                Ok((bytes, whole)) => {
                    pieces.drain(..whole);
                    self.unsent.set(self.unsent.get() - bytes);
                }
                Err(StreamOver) => {
                    drop(pieces);
                    return self.leave();
                }
            }
        }
        drop(pieces);
        self.is_blocked.set(false);
        if self.ends.get() && !self.finished.replace(true) {
            self.client.finish_stream(self.id);
            if let Some(code) = self.stops.take() {
                self.client.discard_rest(self.id, *code, self.rest_limits.get());
            }
        }
        if self.unsent.get() < MOST_UNSENT {
            self.state.writer.wake();
        }
    }

    /// Sets the priority of the response (RFC 9218). Responses of one urgency take turns if the client can use parts of
    /// them; others go one after the other, in the order of their requests.
    pub(super) fn set_priority(&self, priority: Priority) {
        let urgency = 7 - i32::from(priority.urgency.min(7));
        let order = i32::try_from(self.id.0 / 4 % (URGENCY as u64 / 2)).unwrap_or(0);
        let within = if priority.incremental { 0 } else { URGENCY - 1 - order };
        self.priority.set(urgency * URGENCY + within);
        self.client.set_priority(self.id, self.priority.get());
    }

    /// The priority among the streams of the connection, for QUIC.
    pub(super) fn priority(&self) -> i32 {
        self.priority.get()
    }

    /// The number of the stream.
    pub(super) fn id(&self) -> StreamId {
        self.id
    }

    /// Whether QUIC has taken all of the response so far, and more is to come.
    pub(super) fn has_drained(&self) -> bool {
        self.unsent.get() == 0 && !self.ends.get() && !self.state.is_over()
    }

    // ---- sending -----------------------------------------------------------------------------------------------------

    /// Appends a piece of a body.
    fn queue(&self, piece: Bytes) {
        self.unsent.set(self.unsent.get() + piece.len());
        if piece.len() <= SHORT {
            let mut tail = self.tail.borrow_mut();
            // The tail of most responses ends here: without room to spare it needs no count of its users.
            tail.reserve_exact(piece.len());
            return tail.extend_from_slice(&piece);
        }
        let mut pieces = self.pieces.borrow_mut();
        self.close_tail(&mut pieces);
        pieces.push_back(piece);
    }

    /// Makes a piece of the tail.
    fn close_tail(&self, pieces: &mut VecDeque<Bytes>) {
        let tail = self.tail.take();
        if !tail.is_empty() {
            pieces.push_back(Bytes::from(tail));
        }
    }

    /// Notes that nothing follows.
    fn end(&self) {
        self.stops.set(self.client.machine(|machine| machine.end(self.id)).map(Box::new));
        self.ends.set(true);
    }

    fn send_fields<'f>(&self, status: Option<u16>, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        let mut out = self.tail.borrow_mut();
        let before = out.len();
        out.reserve(HEAD);
        self.client.machine(|machine| {
            machine.head(self.id, &mut out, |encoder, out| {
                if let Some(status) = status {
                    encoder.status(status, out);
                }
                fields.for_each(|(name, value)| encoder.field(name, value, out));
            });
        });
        self.unsent.set(self.unsent.get() + out.len() - before);
    }

    /// The room for pieces. There is none while QUIC takes nothing: its own windows are what a client is given.
    fn room(&self) -> usize {
        if self.is_blocked.get() { 0 } else { MOST_UNSENT.saturating_sub(self.unsent.get()) }
    }
}

impl RequestStream for H3Stream {
    fn facts(&self) -> &ConnectionFacts {
        &self.client.facts
    }

    fn runners(&self) -> &RequestRunners {
        &self.client.driver.runners
    }

    fn end_tunnel(&self, generation: u64) {
        if self.state.is_tunnel_of(generation) {
            let _ = self.client.machine(|machine| machine.reset(self.id, loops::millis()));
            self.client.reset_stream(self.id, H3ErrorCode::H3_REQUEST_CANCELLED);
            self.leave();
        }
    }

    fn rests(&self) {
        if !self.is_blocked.get() && self.unsent.get() > 0 && !self.state.is_over() {
            self.flush();
        }
    }

    fn release(&self) {
        if self.state.release() {
            // What was sent is on its way, and goes on.
            if !self.finished.get() {
                self.leave();
            }
            self.client.release(self.id);
        }
    }
}

impl Stream for H3Stream {
    fn poll_body(&self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
        if self.state.is_over() {
            return Poll::Ready(Err(self.state.over()));
        }
        let mut body = self.body.borrow_mut();
        if let Some(UnreadPieces { pieces, len }) = body.as_deref_mut()
            && let Some(first) = pieces.front_mut()
        {
            let (piece, of_piece) = if first.len() > most {
                (first.split_to(most), 0)
            } else {
                (pieces.pop_front().unwrap_or_default(), PIECE)
            };
            *len -= piece.len() + of_piece;
            let has_room = *len < MOST_UNREAD / 2;
            drop(body);
            if self.is_paused.get() && has_room {
                self.is_paused.set(false);
                self.client.wanting.borrow_mut().push(self.id);
                self.client.wake();
            }
            return Poll::Ready(Ok(Some(piece)));
        }
        self.state.poll_end(context)
    }

    fn is_body_taken(&self) -> bool {
        self.state.has_body() && self.body.borrow().as_ref().is_none_or(|unread| unread.pieces.is_empty())
    }

    fn send_interim(&self, head: &ResponseHead) {
        if self.state.is_over() {
            return;
        }
        let (status, fields) = status_and_fields(head);
        self.send_fields(Some(status), fields);
        self.flush();
    }

    fn send_head(&self, head: &ResponseHead, ends: bool) {
        if self.state.is_over() {
            return;
        }
        self.state.note_head();
        let (status, fields) = status_and_fields(head);
        self.send_fields(Some(status), fields);
        if ends {
            self.end();
        }
        // A short body leaves with its head. Before another one is read, the head shows whether the client's window is open.
        if ends || length(head).is_none_or(|length| length > SHORT as u64) {
            self.flush();
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        if self.state.is_over() {
            return Poll::Ready(Err(self.state.over()));
        }
        if self.room() == 0 {
            self.flush();
        }
        match self.room() {
            0 => {
                self.state.writer.keep(context);
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    fn send_data(&self, data: Bytes, ends: bool) {
        if self.state.is_over() {
            return;
        }
        if self.framing == Framing::Bare {
            self.queue(data);
        } else if let Some(head) = self.client.machine(|machine| machine.data(self.id, data.len())) {
            self.tail.borrow_mut().extend_from_slice(head.as_bytes());
            self.unsent.set(self.unsent.get() + head.as_bytes().len());
            self.queue(data);
        }
        if ends {
            self.end();
        }
        self.flush();
    }

    fn send_trailers(&self, fields: &[Field]) {
        if self.state.is_over() {
            return;
        }
        let fields = fields.iter().filter(|(name, _)| may_be_sent(name));
        self.send_fields(None, fields.map(|(name, value)| (&name[..], &value[..])));
        self.end();
        self.flush();
    }

    fn poll_sent(&self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.finished.get() {
            return Poll::Ready(Ok(()));
        }
        if self.state.is_over() {
            return Poll::Ready(Err(self.state.over()));
        }
        self.state.writer.keep(context);
        Poll::Pending
    }

    fn sent_bytes(&self) -> Option<u64> {
        (!self.state.is_released()).then(|| self.client.machine(|machine| machine.sent_bytes(self.id)))
    }

    fn use_settings(&self, settings: &SettingsSet) {
        self.rest_limits.set(settings.get::<CoreSettings>().into());
    }

    fn become_tunnel(&self, generation: u64) {
        if !self.state.is_over() {
            self.state.become_tunnel(generation);
            self.client.machine(|machine| machine.stay_open(self.id));
        }
    }

    fn reset(&self) {
        if self.state.is_over() || self.finished.get() {
            return;
        }
        let code = if self.state.is_client_at_fault() {
            H3ErrorCode::H3_MESSAGE_ERROR
        } else {
            H3ErrorCode::H3_INTERNAL_ERROR
        };
        // Too many resets are noticed by the connection's task.
        let _ = self.client.machine(|machine| machine.reset(self.id, loops::millis()));
        self.client.reset_stream(self.id, code);
        self.leave();
    }

    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        self.state.poll_gone(context)
    }

    fn certain_room(&self) -> usize {
        if self.state.is_over() { 0 } else { self.room() }
    }

    fn peer(&self) -> Option<&Address> {
        self.peer.as_deref()
    }

    fn settle_session(&self, is_good: bool) {
        freerun_serve::tls::client_facts::CertificateHolder::settle(&*self.client, is_good);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_waits_is_small() {
        let shared = size_of::<H3Stream>() + 2 * size_of::<usize>();
        assert!(shared <= 288, "{shared}");
        assert!(size_of::<RestLimits>() <= 12, "{}", size_of::<RestLimits>());
    }
}
