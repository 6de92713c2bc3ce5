//! Received bytes of requests and responses: what they do to their streams, and what the owner is told.

use super::connection::{EndAnnouncement, H3Connection, H3ConnectionError};
use super::frame::H3ErrorCode;
use super::qpack::FieldSink;
use super::reader::{FrameKind, FrameStage};
use super::stream::{MessagePart, RequestStream, StreamId};
use crate::flood::Flood;
use crate::priority::Priority;
use crate::role::Role;

/// H3Event on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum H3Event<'b> {
    /// The head of a message has come; its fields are in the sink. For a client it may be the head of an interim
    /// response.
    Head {
        /// The stream; a server's owner has it from here on, until it [releases](H3Connection::release) it.
        stream: StreamId,
        /// Nothing follows, and no [`H3Event::End`] comes. If it is false, that may turn out with the next bytes.
        ends: bool,
    },
    /// The head of a request passes a limit; the sink has a part of its fields at most. The rest of the request is thrown
    /// away, and the owner answers as after [`H3Event::Head`].
    TooLarge {
        /// The stream, which the owner has from here on.
        stream: StreamId,
        /// Nothing follows, and no [`H3Event::End`] comes.
        ends: bool,
    },
    /// The body of a message is complete, and trailers have come behind it; their fields are in the sink.
    /// [`H3Event::End`] follows.
    Trailers {
        /// The stream.
        stream: StreamId,
    },
    /// Bytes of a body have come.
    Data {
        /// The stream.
        stream: StreamId,
        /// The bytes, at least one: a part of those that were given.
        bytes: &'b [u8],
    },
    /// A message is complete.
    End {
        /// The stream.
        stream: StreamId,
    },
    /// The body of a request is longer or shorter than it was announced. No more of it comes; a response like that is
    /// reset.
    WrongLength {
        /// The stream.
        stream: StreamId,
        /// The bytes that have not come before the end; 0: more came than were announced.
        missing: u64,
    },
    /// The stream waits for entries of the dynamic table. It takes no bytes before [`H3Connection::take_unblocked`]
    /// returns it.
    Blocked {
        /// The stream.
        stream: StreamId,
    },
    /// A stream is over before it was complete. The owner may not know it yet, and it may be a unidirectional one.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The reason.
        code: H3ErrorCode,
        /// Whether the peer has reset it. Otherwise the owner resets its half, if it has one, and stops reading.
        by_peer: bool,
    },
    /// Of a client: the server reads no more of the request, which is over on this side. The response goes on.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// The reason.
        code: H3ErrorCode,
    },
    /// A frame has set the priority of a response.
    Priority {
        /// The stream.
        stream: StreamId,
        /// The priority.
        priority: Priority,
    },
    /// The settings of the peer have come.
    Settings,
    /// The peer announces its end. A server accepts no stream from this number on; of a client, it is the number of a
    /// pushed response.
    GoneAway {
        /// The number.
        id: u64,
    },
}

/// Payloads shorter than this, in bytes, cost more than they are worth if nobody reads them.
const SMALL: u64 = 64;

/// The number of ranges of streams that have not begun, though higher ones have. A range has at least one stream, and QUIC
/// bounds the streams that a client may open.
pub(super) const MOST_SKIPPED: usize = 1024;

/// A frame that a message may not have in this place.
const UNEXPECTED: H3ConnectionError =
    H3ConnectionError::new(H3ErrorCode::H3_FRAME_UNEXPECTED, "a frame that a message may not have in this place");

impl H3Connection {
    /// Takes received bytes of a stream, up to what the owner has to be told; it calls again with the rest, until there
    /// is no event. `fin` says that nothing follows them. All bytes are taken then, unless the stream is
    /// [blocked](H3Event::Blocked). The fields of a message's head go to `sink`; what they were is known when the event
    /// has come. Then the sink has to be cleared, whatever the event is. `now` is the time, as in
    /// [`H3Config::now`](super::H3Config::now).
    ///
    /// # Errors
    /// The connection cannot go on. The rest of the bytes is of no interest.
    pub fn receive<'b, S: FieldSink>(
        &mut self,
        id: StreamId,
        bytes: &mut &'b [u8],
        fin: bool,
        now: u64,
        sink: &mut S,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(**failure);
        }
        self.now = now;
        let result = if id.is_bidirectional() {
            self.receive_message(id, bytes, fin, now, sink)
        } else {
            self.receive_unidirectional(id, bytes, fin, now)
        };
        result.map_err(|failure| self.fail(failure))
    }

    /// Notes that the peer has reset its half of a stream.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn peer_resets(
        &mut self,
        id: StreamId,
        code: H3ErrorCode,
        now: u64,
    ) -> Result<Option<H3Event<'static>>, H3ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(**failure);
        }
        self.now = now;
        let result = if id.is_bidirectional() {
            self.message_reset(id, code, now)
        } else {
            self.unidirectional_reset(id, now).map(|()| None)
        };
        result.map_err(|failure| self.fail(failure))
    }

    /// Notes that the peer reads no more of a stream (STOP_SENDING).
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn peer_stops(
        &mut self,
        id: StreamId,
        code: H3ErrorCode,
        now: u64,
    ) -> Result<Option<H3Event<'static>>, H3ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(**failure);
        }
        self.now = now;
        let result = if id.is_bidirectional() {
            self.message_stopped(id, code, now)
        } else {
            Err(self.unidirectional_stopped())
        };
        result.map_err(|failure| self.fail(failure))
    }

    // ---- messages --------------------------------------------------------------------------------------------------

    fn receive_message<'b, S: FieldSink>(
        &mut self,
        id: StreamId,
        bytes: &mut &'b [u8],
        fin: bool,
        now: u64,
        sink: &mut S,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        if self.streams.get(id).is_none()
            && let Some(refusal) = self.begin(id, now)?
        {
            *bytes = &[];
            return Ok(Some(refusal));
        }
        loop {
            let Some(stream) = self.streams.get_mut(id) else {
                *bytes = &[];
                return Ok(None);
            };
            if stream.is_reset || stream.received_end {
                *bytes = &[];
                return Ok(None);
            }
            if stream.is_blocked {
                return Ok(None);
            }
            if stream.fragment.is_some() && stream.reader.stage == FrameStage::Type {
                // The section has waited for entries, which are there.
                return self.kept_section(id, bytes.is_empty() && fin, now, sink);
            }
            let event = match stream.reader.stage {
                FrameStage::Type | FrameStage::Length(_) => {
                    let Some((kind, len)) = stream.reader.head(bytes) else { break };
                    self.begin_frame(id, kind, len, now)?
                }
                FrameStage::Payload(kind, left) => {
                    if bytes.is_empty() && left > 0 {
                        break;
                    }
                    match kind {
                        FrameKind::Data => {
                            let payload = stream.reader.payload(bytes);
                            self.body(id, payload, now)?
                        }
                        FrameKind::Headers => {
                            let payload = stream.reader.payload(bytes);
                            self.fields(id, payload, left, bytes.is_empty() && fin, now, sink)?
                        }
                        _ => {
                            stream.reader.payload(bytes);
                            None
                        }
                    }
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        if fin {
            return self.message_ends(id, now);
        }
        if self.role == Role::Server
            && let Some(stream) = self.streams.get_mut(id)
        {
            let is_awaited = stream.part == MessagePart::Head;
            if is_awaited && !std::mem::replace(&mut stream.is_awaited, true) {
                self.lists.awaited.push_back((id, now));
            }
        }
        Ok(None)
    }

    /// Begins a stream of the peer, or refuses it by an event.
    fn begin<'b>(&mut self, id: StreamId, now: u64) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        if !id.is_of_client() {
            let what = "a server opens a bidirectional stream";
            return Err(H3ConnectionError::new(H3ErrorCode::H3_STREAM_CREATION_ERROR, what));
        }
        if self.role == Role::Client || !self.note_begin(id)? {
            // It is over.
            return Ok(None);
        }
        let refusal = H3Event::Reset { stream: id, code: H3ErrorCode::H3_REQUEST_REJECTED, by_peer: false };
        if let EndAnnouncement::From(first) = self.ending
            && id >= first
        {
            self.account.pay(0, now)?;
            return Ok(Some(refusal));
        }
        let priority = self.take_early_priority(id);
        // Streams that are closed, and whose requests have not ended, count like open ones, but twice as many may be there.
        let most = self.max_streams as usize;
        if self.open >= most || self.streams.used() >= most.saturating_mul(2) {
            self.account.torn_down(now)?;
            return Ok(Some(refusal));
        }
        let mut stream = RequestStream::new(false);
        stream.has_priority = priority.is_some();
        stream.priority = priority.unwrap_or(stream.priority);
        self.open += 1;
        self.streams.insert(id, stream);
        Ok(None)
    }

    /// Looks at the head of a frame of a message.
    fn begin_frame<'b>(
        &mut self,
        id: StreamId,
        kind: FrameKind,
        len: u64,
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        match kind {
            FrameKind::Data => {
                if stream.part != MessagePart::Body {
                    return Err(UNEXPECTED);
                }
                if len == 0 || len < SMALL && stream.stops_at_end.is_some() {
                    self.account.pay(0, now)?;
                }
                Ok(None)
            }
            FrameKind::Headers => {
                if stream.part == MessagePart::End {
                    return Err(UNEXPECTED);
                }
                // The fields are never shorter than what they come in.
                if len <= self.limits.most_total as u64 {
                    return Ok(None);
                }
                // Nobody reads it.
                stream.reader.stage = FrameStage::Payload(FrameKind::Unknown, len);
                self.too_large(id, false, now)
            }
            FrameKind::PushPromise if self.role == Role::Client => {
                Err(H3ConnectionError::new(H3ErrorCode::H3_ID_ERROR, "a response is promised that may not be pushed"))
            }
            FrameKind::Unknown => {
                self.account.pay(u32::try_from(len).unwrap_or(u32::MAX), now)?;
                Ok(None)
            }
            _ => Err(UNEXPECTED),
        }
    }

    /// Bytes of a body.
    fn body<'b>(&mut self, id: StreamId, bytes: &'b [u8], now: u64) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if bytes.is_empty() {
            return Ok(None);
        }
        self.account.earn(bytes.len());
        if stream.stops_at_end.is_some() {
            return Ok(None);
        }
        if let Some(expected) = &mut stream.expected {
            match expected.checked_sub(bytes.len() as u64) {
                Some(left) => *expected = left,
                None => return self.wrong_length(id, 0, now),
            }
        }
        Ok(Some(H3Event::Data { stream: id, bytes }))
    }

    /// The peer has sent everything on a stream.
    fn message_ends<'b>(&mut self, id: StreamId, now: u64) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if stream.reader.is_in_frame() {
            return Err(H3ConnectionError::new(H3ErrorCode::H3_FRAME_ERROR, "a stream ends within a frame"));
        }
        if stream.part == MessagePart::Head {
            let is_request = self.role == Role::Server;
            let code = if is_request { H3ErrorCode::H3_REQUEST_INCOMPLETE } else { H3ErrorCode::H3_MESSAGE_ERROR };
            return self.break_stream(id, code, now);
        }
        if let Some(missing) = stream.expected.filter(|left| *left > 0 && stream.stops_at_end.is_none()) {
            let event = self.wrong_length(id, missing, now)?;
            if self.streams.get(id).is_some_and(|stream| !stream.is_reset) {
                self.note_end(id);
            }
            return Ok(event);
        }
        let is_wrong_length = stream.stops_at_end.is_some() && stream.expected.is_some();
        self.note_end(id);
        Ok((!is_wrong_length).then_some(H3Event::End { stream: id }))
    }

    pub(super) fn note_end(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        debug_assert!(!stream.received_end, "stream {} was complete already", id.0);
        stream.received_end = true;
        if stream.is_closed() {
            self.closed(id);
        }
        if self.role == Role::Client {
            self.account.answered();
        }
    }

    /// A body is not as long as it was announced: nothing more of it is told. A server that has not answered still does.
    pub(super) fn wrong_length<'b>(
        &mut self,
        id: StreamId,
        missing: u64,
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        if self.role == Role::Client {
            return self.break_stream(id, H3ErrorCode::H3_MESSAGE_ERROR, now);
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if stream.stops_at_end.replace(H3ErrorCode::H3_MESSAGE_ERROR).is_some() {
            return Ok(None);
        }
        Ok(Some(H3Event::WrongLength { stream: id, missing }))
    }

    /// Resets a stream because the peer has broken a rule on it.
    pub(super) fn break_stream<'b>(
        &mut self,
        id: StreamId,
        code: H3ErrorCode,
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        self.reset(id, now)?;
        Ok(Some(H3Event::Reset { stream: id, code, by_peer: false }))
    }

    /// A section of fields passes a limit. The others are decoded without it. A server answers a request whose head is too
    /// large; everything else is reset.
    pub(super) fn too_large<'b>(
        &mut self,
        id: StreamId,
        ends: bool,
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        self.account.pay(0, now)?;
        let code = H3ErrorCode::H3_EXCESSIVE_LOAD;
        match self.streams.get_mut(id) {
            Some(stream) if self.role == Role::Server && stream.part == MessagePart::Head => {
                stream.stops_at_end = Some(code);
            }
            _ => return self.break_stream(id, code, now),
        }
        self.decoder.cancel(id.0);
        self.write_decoder_instructions()?;
        self.head_ends(id, ends);
        Ok(Some(H3Event::TooLarge { stream: id, ends }))
    }

    /// Notes that the head of a message has come.
    pub(super) fn head_ends(&mut self, id: StreamId, ends: bool) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.part = MessagePart::Body;
        stream.is_attached = true;
        if std::mem::take(&mut stream.is_awaited) {
            self.lists.awaited.retain(|(other, _)| *other != id);
        }
        if ends {
            self.note_end(id);
        }
    }

    // ---- resets ----------------------------------------------------------------------------------------------------

    fn message_reset(
        &mut self,
        id: StreamId,
        code: H3ErrorCode,
        now: u64,
    ) -> Result<Option<H3Event<'static>>, H3ConnectionError> {
        let Some(stream) = self.streams.get(id) else {
            self.unknown_reset(id, now)?;
            return Ok(None);
        };
        if stream.is_closed() || stream.received_end {
            self.account.pay(0, now)?;
            return Ok(None);
        }
        let was_answered = stream.sent_end;
        self.close_by_reset(id)?;
        match self.role {
            Role::Server if was_answered => self.account.pay(0, now)?,
            Role::Server => self.account.torn_down(now)?,
            Role::Client => {}
        }
        Ok(Some(H3Event::Reset { stream: id, code, by_peer: true }))
    }

    fn message_stopped(
        &mut self,
        id: StreamId,
        code: H3ErrorCode,
        now: u64,
    ) -> Result<Option<H3Event<'static>>, H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else {
            self.unknown_reset(id, now)?;
            return Ok(None);
        };
        let was_answered = stream.sent_end;
        if self.role == Role::Client {
            if stream.is_closed() || was_answered {
                return Ok(None);
            }
            stream.sent_end = true;
            if stream.is_closed() {
                self.closed(id);
            }
            return Ok(Some(H3Event::Stopped { stream: id, code }));
        }
        if was_answered && !stream.is_reset {
            // Whether the answer was on its way before is chance: a client gets no credit for answers that it gives up.
            self.account.take_back_answer();
        }
        if stream.is_closed() {
            self.account.torn_down(now)?;
            return Ok(None);
        }
        self.close_by_reset(id)?;
        self.account.torn_down(now)?;
        Ok(Some(H3Event::Reset { stream: id, code, by_peer: true }))
    }

    /// A stream is given up by its client that has not begun, or is over.
    fn unknown_reset(&mut self, id: StreamId, now: u64) -> Result<(), Flood> {
        if self.role == Role::Client || !id.is_of_client() {
            return self.account.pay(0, now);
        }
        self.note_begin(id)?;
        self.account.torn_down(now)
    }

    /// Whether a stream of a request has not begun. Streams may come in another order than they were opened.
    pub(super) fn is_not_begun(&self, id: StreamId) -> bool {
        id >= self.next_stream || self.lists.skipped.iter().any(|(from, end)| (*from..*end).contains(&id))
    }

    /// Notes that a stream of a request has begun; false if it had already.
    ///
    /// # Errors
    /// Many streams with lower numbers have not: more than the transport should have let the client open.
    fn note_begin(&mut self, id: StreamId) -> Result<bool, Flood> {
        if id >= self.next_stream {
            if id > self.next_stream {
                if self.lists.skipped.len() >= MOST_SKIPPED {
                    return Err(Flood::Resets);
                }
                let from = self.next_stream;
                self.lists.skipped.push((from, id));
            }
            self.next_stream = StreamId(id.0.saturating_add(4));
            return Ok(true);
        }
        if self.lists.skipped.is_empty() {
            return Ok(false);
        }
        let Some(at) = self.lists.skipped.iter().position(|(from, end)| (*from..*end).contains(&id)) else {
            return Ok(false);
        };
        if self.lists.skipped.len() >= MOST_SKIPPED {
            return Err(Flood::Resets);
        }
        let (from, end) = self.lists.skipped.swap_remove(at);
        let parts = [(from, id), (StreamId(id.0 + 4), end)];
        self.lists.skipped.extend(parts.into_iter().filter(|(from, end)| from < end));
        Ok(true)
    }
}
