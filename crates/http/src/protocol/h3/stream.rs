//! The stream of one request, as the request path sees it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::h3::{H3ErrorCode, StreamId};
use freerun_proto::priority::Priority;
use freerun_quic::http3::StreamOver;
use freerun_runtime::loops;
use freerun_runtime::waiter::Waiter;
use freerun_serve::Address;

use crate::connection::stream::{ResponseHead, Stream, StreamError, StreamFault};
use crate::protocol::h3::client::H3Client;
use crate::protocol::h3::unread_rests::RestLimits;
use crate::protocol::multiplexed::request_task::RequestStream;
use crate::protocol::multiplexed::{RequestRunners, may_be_sent};
use crate::request::ConnectionFacts;
use crate::request::core_settings::CoreSettings;
use crate::request::response::Field;

/// The most bytes of a body that were received and that nobody has read. QUIC keeps the client from sending much more.
pub(super) const MOST_UNREAD: usize = 64 << 10;

/// The most bytes of a response that wait until QUIC takes them.
const MOST_UNSENT: usize = 128 << 10;

/// The step between two urgencies, among the priorities of QUIC's streams.
const URGENCY: i32 = 1 << 24;

/// The field of a response of HTTP/1 that opens a WebSocket, besides the fields about the connection.
const OF_WEBSOCKET: &[u8] = b"sec-websocket-accept";

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

/// The stream of one request.
pub(super) struct H3Stream {
    client: Rc<H3Client>,
    id: StreamId,
    /// The address that the client had moved to when the request began.
    peer: Option<Rc<Address>>,
    /// The priority among the streams of the connection, for QUIC.
    priority: Cell<i32>,
    /// The received pieces of the body that were not read yet, and their length.
    body: RefCell<VecDeque<Bytes>>,
    unread: Cell<usize>,
    /// Nothing is read of QUIC for this stream, because the pieces are many.
    is_paused: Cell<bool>,
    /// The whole body has been received.
    body_ended: Cell<bool>,
    /// The reason why the body is none.
    fault: RefCell<Option<StreamFault>>,
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
    stops: Cell<Option<H3ErrorCode>>,
    /// The limits of reading that rest.
    rest_limits: Cell<RestLimits>,
    /// The client has reset the stream, or the connection has ended.
    gone: Cell<bool>,
    /// The connection has failed, which is logged.
    failed: Cell<bool>,
    /// The request has ended.
    released: Cell<bool>,
    /// The head of the response was sent.
    sent_head: Cell<bool>,
    /// The generation that the request has begun with, if it has led to a tunnel.
    tunnel_of: Cell<Option<u64>>,
    reader: Waiter,
    writer: Waiter,
    /// Futures that wait for the client's leaving.
    watchers: RefCell<Vec<Waker>>,
}

/// The length of a response's body, if its head says it.
fn length(head: &ResponseHead) -> Option<u64> {
    let (_, length) = head.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
    std::str::from_utf8(length).ok()?.parse().ok()
}

impl H3Stream {
    /// The stream of a request; `body_ended` says that nothing follows its head.
    pub(super) fn new(client: Rc<H3Client>, id: StreamId, framing: Framing, body_ended: bool) -> Rc<H3Stream> {
        let (priority, body, unread, is_paused, fault, tail, pieces, unsent, is_blocked, ends, finished) =
            Default::default();
        let (stops, rest_limits, gone, failed, released, sent_head, tunnel_of, reader, writer, watchers) =
            Default::default();
        let (body_ended, peer) = (Cell::new(body_ended), client.peer());
        Rc::new(H3Stream {
            client,
            id,
            peer,
            priority,
            body,
            unread,
            is_paused,
            body_ended,
            fault,
            framing,
            tail,
            pieces,
            unsent,
            is_blocked,
            ends,
            finished,
            stops,
            rest_limits,
            gone,
            failed,
            released,
            sent_head,
            tunnel_of,
            reader,
            writer,
            watchers,
        })
    }

    // ---- what the connection tells ---------------------------------------------------------------------------------

    /// Bytes of the body have come.
    pub(super) fn received(&self, bytes: Bytes) {
        // A short piece would keep the whole datagram that it has come in.
        let piece = if bytes.len() < SPARSE { Bytes::copy_from_slice(&bytes) } else { bytes };
        self.unread.set(self.unread.get() + piece.len() + PIECE);
        self.body.borrow_mut().push_back(piece);
        self.reader.wake();
    }

    /// Whether further bytes have to wait, because nobody reads those that have come. The connection's task is asked to go
    /// on when they are read.
    pub(super) fn pauses(&self) -> bool {
        let is_full = self.unread.get() >= MOST_UNREAD;
        self.is_paused.set(is_full);
        is_full
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

    /// The client has gone.
    pub(super) fn leave(&self) {
        if self.gone.replace(true) {
            return;
        }
        self.body.take();
        self.unread.set(0);
        self.pieces.take();
        self.tail.take();
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

    /// Gives QUIC what waits for it, as far as it takes that.
    pub(super) fn flush(&self) {
        if self.gone.get() {
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
            if whole == 0 {
                // It may wait for long: it has no more memory than it needs.
                pieces.reserve_exact(1);
                pieces.push_back(Bytes::copy_from_slice(&only[0]));
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
                self.client.discard_rest(self.id, code, self.rest_limits.get());
            }
        }
        if self.unsent.get() < MOST_UNSENT {
            self.writer.wake();
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
        self.unsent.get() == 0 && !self.ends.get() && !self.is_over()
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
        self.stops.set(self.client.machine(|machine| machine.end(self.id)));
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

    /// The error of a stream that was reset, or whose connection has ended.
    fn over(&self) -> StreamError {
        if self.failed.get() { StreamError::ConnectionFailed } else { StreamError::Reset }
    }

    /// Whether nothing can be sent or received any more.
    fn is_over(&self) -> bool {
        self.gone.get() || self.released.get()
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
        if self.tunnel_of.get() == Some(generation) && !self.is_over() {
            let _ = self.client.machine(|machine| machine.reset(self.id, loops::millis()));
            self.client.reset_stream(self.id, H3ErrorCode::H3_REQUEST_CANCELLED);
            self.leave();
        }
    }

    fn rests(&self) {
        if !self.is_blocked.get() && self.unsent.get() > 0 && !self.is_over() {
            self.flush();
        }
    }

    fn release(&self) {
        if !self.released.replace(true) {
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
        if self.is_over() {
            return Poll::Ready(Err(self.over()));
        }
        let mut body = self.body.borrow_mut();
        if let Some(first) = body.front_mut() {
            let (piece, of_piece) = if first.len() > most {
                (first.split_to(most), 0)
            } else {
                (body.pop_front().unwrap_or_default(), PIECE)
            };
            drop(body);
            self.unread.set(self.unread.get() - piece.len() - of_piece);
            if self.is_paused.get() && self.unread.get() < MOST_UNREAD / 2 {
                self.is_paused.set(false);
                self.client.wanting.borrow_mut().push(self.id);
                self.client.wake();
            }
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
        self.send_fields(Some(head.status), head.fields.iter().filter(|(name, _)| may_be_sent(name)));
        self.flush();
    }

    fn send_head(&self, head: &ResponseHead, ends: bool) {
        if self.is_over() {
            return;
        }
        self.sent_head.set(true);
        if head.status == 101 {
            // What is 101 in HTTP/1 is 200 here, without the fields that belong to `Upgrade` (RFC 9220 section 3).
            let belongs = |name: &[u8]| !may_be_sent(name) || name.eq_ignore_ascii_case(OF_WEBSOCKET);
            self.send_fields(Some(200), head.fields.iter().filter(|(name, _)| !belongs(name)));
        } else {
            self.send_fields(Some(head.status), head.fields.iter().filter(|(name, _)| may_be_sent(name)));
        }
        if ends {
            self.end();
        }
        // A short body leaves with its head. Before another one is read, the head shows whether the client's window is open.
        if ends || length(head).is_none_or(|length| length > SHORT as u64) {
            self.flush();
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        if self.is_over() {
            return Poll::Ready(Err(self.over()));
        }
        if self.room() == 0 {
            self.flush();
        }
        match self.room() {
            0 => {
                self.writer.keep(context);
                Poll::Pending
            }
            room => Poll::Ready(Ok(room)),
        }
    }

    fn send_data(&self, data: Bytes, ends: bool) {
        if self.is_over() {
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
        if self.is_over() {
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
        if self.is_over() {
            return Poll::Ready(Err(self.over()));
        }
        self.writer.keep(context);
        Poll::Pending
    }

    fn sent_bytes(&self) -> Option<u64> {
        (!self.released.get()).then(|| self.client.machine(|machine| machine.sent_bytes(self.id)))
    }

    fn use_settings(&self, settings: &SettingsSet) {
        self.rest_limits.set(settings.get::<CoreSettings>().into());
    }

    fn become_tunnel(&self, generation: u64) {
        if !self.is_over() {
            self.tunnel_of.set(Some(generation));
            self.client.machine(|machine| machine.stay_open(self.id));
        }
    }

    fn reset(&self) {
        if self.is_over() || self.finished.get() {
            return;
        }
        // Without a response, the rest of the body did not come in time, or in a wrong form.
        let is_theirs = !self.sent_head.get() && !self.body_ended.get();
        let code = if is_theirs { H3ErrorCode::H3_MESSAGE_ERROR } else { H3ErrorCode::H3_INTERNAL_ERROR };
        // Too many resets are noticed by the connection's task.
        let _ = self.client.machine(|machine| machine.reset(self.id, loops::millis()));
        self.client.reset_stream(self.id, code);
        self.leave();
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
        if self.is_over() { 0 } else { self.room() }
    }

    fn peer(&self) -> Option<&Address> {
        self.peer.as_deref()
    }

    fn settle_session(&self, is_good: bool) {
        freerun_serve::tls::client_facts::CertificateHolder::settle(&*self.client, is_good);
    }
}
