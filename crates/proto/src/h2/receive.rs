//! Received frames: what each of them does to the connection, and what its owner is told.

use super::connection::{Connection, ConnectionError, StreamEnd};
use super::frame::{DEFAULT_FRAME_SIZE, ErrorCode, FrameHead, LARGEST_WINDOW, flag, kind};
use super::hpack::FieldSink;
use super::reader::{PayloadRead, ReadStage};
use super::settings::SETTING;
use super::stream::Slot;
use crate::priority::Priority;
use crate::role::Role;

/// Event on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'b> {
    /// The head of a message has come; its fields are in the sink. For a client it may be the head of an interim
    /// response.
    Head {
        /// The stream; a server's owner has it from here on, until it [releases](Connection::release) it.
        slot: Slot,
        /// Nothing follows.
        ends: bool,
    },
    /// The trailers of a message have come, and with them its end; their fields are in the sink.
    Trailers {
        /// The stream.
        slot: Slot,
    },
    /// Bytes of a body have come. The owner says when they were [read](Connection::consumed).
    Data {
        /// The stream.
        slot: Slot,
        /// The bytes, at least one.
        bytes: &'b [u8],
    },
    /// A message is complete.
    End {
        /// The stream.
        slot: Slot,
    },
    /// The body of a request is longer or shorter than it was announced. No more of it comes; a client resets a response like
    /// that.
    WrongLength {
        /// The stream.
        slot: Slot,
        /// The bytes that have not come before the end; 0: more came than were announced.
        missing: u64,
    },
    /// A stream is over before it was complete.
    Reset {
        /// The stream.
        slot: Slot,
        /// The reason.
        code: ErrorCode,
        /// Whether the peer has reset it; otherwise it was reset here, because the peer has broken the rules.
        by_peer: bool,
    },
    /// Settings of the peer have come.
    Settings,
    /// The peer has answered a `PING` with this data.
    Pong([u8; 8]),
    /// All streams that the peer has begun before it learnt of the [end](Connection::announce_end) have come.
    LastCallAnswered,
    /// The peer accepts no further stream.
    GoneAway {
        /// The highest stream that the peer has looked at, or may.
        last: u32,
        /// The reason.
        code: ErrorCode,
    },
}

/// A failure of the protocol.
pub(super) const fn wrong(what: &'static str) -> ConnectionError {
    ConnectionError { code: ErrorCode::PROTOCOL_ERROR, what, flood: None }
}

/// A frame of a wrong size.
pub(super) const fn size(what: &'static str) -> ConnectionError {
    ConnectionError { code: ErrorCode::FRAME_SIZE_ERROR, what, flood: None }
}

/// A failure with this code.
pub(super) const fn failure(code: ErrorCode, what: &'static str) -> ConnectionError {
    ConnectionError { code, what, flood: None }
}

/// The number of priorities of streams that have not begun that are kept.
const EARLY: usize = 32;

impl Connection {
    /// Takes received bytes, up to what the owner has to be told; it calls again with the rest, until there is neither.
    /// The fields of a message's head go to `sink`; what they were is known when the event has come. Then the sink has
    /// to be cleared, whatever the event is. `now` is the time, as in [`Config::now`](super::Config::now).
    ///
    /// # Errors
    /// The connection cannot go on. The rest of the bytes is of no interest.
    pub fn receive<'b, S: FieldSink>(
        &mut self,
        bytes: &mut &'b [u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(**failure);
        }
        self.now = now;
        match self.advance(bytes, now, sink) {
            Ok(event) => Ok(event),
            Err(failure) => Err(self.fail(failure)),
        }
    }

    pub(super) fn advance<'b, S: FieldSink>(
        &mut self,
        bytes: &mut &'b [u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        loop {
            let event = match self.reader.stage {
                ReadStage::Preface(_) | ReadStage::PadLength { .. } if bytes.is_empty() => return Ok(None),
                ReadStage::Preface(seen) => {
                    self.reader.preface(seen, bytes).ok_or(wrong("invalid connection preface"))?;
                    None
                }
                ReadStage::Head(seen) => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let Some(head) = self.reader.head(seen, bytes) else { return Ok(None) };
                    self.begin_frame(head, now)?
                }
                ReadStage::Payload(head) => match self.reader.payload(head.len, bytes) {
                    PayloadRead::Payload(payload) => {
                        self.reader.stage = ReadStage::Head(0);
                        self.frame(head, payload, now, sink)?
                    }
                    PayloadRead::More => {
                        let Some(payload) = self.reader.assembled(head.len) else { return Ok(None) };
                        self.reader.stage = ReadStage::Head(0);
                        self.frame(head, &payload, now, sink)?
                    }
                },
                ReadStage::PadLength { slot, len, ends } => {
                    let Some((padding, rest)) = bytes.split_first() else { return Ok(None) };
                    *bytes = rest;
                    let padding = u32::from(*padding);
                    let left = (len - 1).checked_sub(padding).ok_or(wrong("invalid length of padding"))?;
                    // Padding, with its length, is given back to the windows at once.
                    self.give_back(slot, padding + 1);
                    if left == 0 && !ends {
                        self.account.pay(len, now)?;
                    }
                    self.reader.stage = ReadStage::Data { slot, left, padding, ends };
                    None
                }
                ReadStage::Data { slot, left: 0, padding: 0, ends } => {
                    self.reader.stage = ReadStage::Head(0);
                    match slot {
                        Some(slot) if ends => self.message_ends(slot, now)?,
                        _ => None,
                    }
                }
                ReadStage::Data { .. } | ReadStage::Skip(1..) if bytes.is_empty() => return Ok(None),
                ReadStage::Data { slot, left, padding, ends } => {
                    let is_body = left > 0;
                    let most = if is_body { left } else { padding };
                    let len = (most as usize).min(bytes.len());
                    let (part, rest) = bytes.split_at(len);
                    *bytes = rest;
                    let (left, padding) =
                        if is_body { (left - len as u32, padding) } else { (0, padding - len as u32) };
                    self.reader.stage = ReadStage::Data { slot, left, padding, ends };
                    match slot.filter(|_| is_body) {
                        Some(slot) => self.body(slot, part, now)?,
                        None if is_body => {
                            self.give_back(None, len as u32);
                            None
                        }
                        None => None,
                    }
                }
                ReadStage::Skip(left) => {
                    let len = (left as usize).min(bytes.len());
                    *bytes = &bytes[len..];
                    self.reader.stage = match left - len as u32 {
                        0 => ReadStage::Head(0),
                        left => ReadStage::Skip(left),
                    };
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    // ---- the heads of frames ---------------------------------------------------------------------------------------

    pub(super) fn begin_frame<'b>(&mut self, head: FrameHead, now: u64) -> Result<Option<Event<'b>>, ConnectionError> {
        if head.len > DEFAULT_FRAME_SIZE {
            return Err(size("too large frame"));
        }
        if let Some(block) = &self.reader.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return Err(wrong("another frame within a block of fields"));
        }
        // That the first frame has to be SETTINGS is not enforced, as nginx does not: there are clients without settings.
        self.reader.had_settings |= head.kind == kind::SETTINGS && !head.has(flag::ACK);
        if head.kind == kind::DATA {
            return self.begin_data(head, now);
        }
        let len = head.len;
        let is_right = match head.kind {
            kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION => true,
            kind::PRIORITY => len == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => len == 4,
            kind::PING => len == 8,
            kind::GOAWAY => len >= 8,
            kind::PRIORITY_UPDATE => len >= 4,
            kind::SETTINGS if head.has(flag::ACK) => len == 0,
            kind::SETTINGS => (len as usize).is_multiple_of(SETTING),
            _ => {
                self.account.pay(len, now)?;
                self.reader.stage = if len == 0 { ReadStage::Head(0) } else { ReadStage::Skip(len) };
                return Ok(None);
            }
        };
        if !is_right {
            return Err(size("a frame of a wrong size"));
        }
        let of_stream = matches!(
            head.kind,
            kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::PUSH_PROMISE | kind::CONTINUATION
        );
        let of_connection = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE);
        if of_stream && head.stream == 0 || of_connection && head.stream != 0 {
            return Err(wrong("a frame with a wrong stream"));
        }
        if head.kind == kind::CONTINUATION && self.reader.block.is_none() {
            return Err(wrong("CONTINUATION without a block of fields"));
        }
        if head.kind == kind::PUSH_PROMISE {
            return Err(wrong("a response is pushed"));
        }
        self.reader.stage = ReadStage::Payload(head);
        Ok(None)
    }

    /// Whether the stream has not begun. A stream that the other side would have begun is meant, too.
    pub(super) fn is_not_begun(&self, id: u32) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }

    /// A frame for a stream that is closed. `DATA` may be on its way when a stream is reset here.
    pub(super) fn late_frame<'b>(
        &mut self,
        id: u32,
        is_data: bool,
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        match self.lists.closed.iter().rev().find(|(closed, _)| *closed == id) {
            Some((_, StreamEnd::ResetHere)) => Ok(None),
            Some((_, StreamEnd::Complete)) if !is_data => {
                Err(wrong("a stream with the number of one that is complete"))
            }
            Some(_) => Err(failure(ErrorCode::STREAM_CLOSED, "a frame for a closed stream")),
            // A client may give up many requests, and their responses come whenever they are ready.
            None if self.role == Role::Client => {
                self.account.pay(0, now)?;
                Ok(None)
            }
            // It is not known any more how it has ended.
            None if is_data => {
                self.write_reset(id, ErrorCode::STREAM_CLOSED);
                self.remember(id, StreamEnd::ResetHere);
                self.account.torn_down(now)?;
                Ok(None)
            }
            None => Err(wrong("a stream with a lower number than the last one")),
        }
    }

    pub(super) fn note_end(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        debug_assert!(!stream.received_end, "stream {} was complete already", stream.id);
        stream.received_end = true;
        if stream.is_closed() {
            self.close(slot, StreamEnd::Complete);
        }
        if self.role == Role::Client {
            self.account.answered();
        }
    }

    /// Resets a stream because the peer has broken a rule on it.
    pub(super) fn break_stream<'b>(
        &mut self,
        slot: Slot,
        code: ErrorCode,
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        // A client gets no credit for an answer to a stream on which it breaks the rules.
        if self.role == Role::Server && self.streams.get(slot).is_some_and(|stream| stream.is_unended) {
            self.account.take_back_answer();
            self.account.torn_down(now)?;
        }
        self.reset(slot, code, now)?;
        Ok(Some(Event::Reset { slot, code, by_peer: false }))
    }

    // ---- whole frames ----------------------------------------------------------------------------------------------

    pub(super) fn frame<'b, S: FieldSink>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        match head.kind {
            kind::HEADERS => self.headers(head, payload, now, sink),
            kind::CONTINUATION => self.continuation(head, payload, now, sink),
            kind::PRIORITY => {
                self.account.pay(head.len, now)?;
                if dependency(payload) != Some(head.stream) {
                    return Ok(None);
                }
                match self.streams.find(head.stream) {
                    Some(slot) => self.break_stream(slot, ErrorCode::PROTOCOL_ERROR, now),
                    None => Err(wrong("a stream depends on itself")),
                }
            }
            kind::RST_STREAM => self.peer_resets(head.stream, payload, now),
            kind::SETTINGS => self.settings(head, payload, now),
            kind::PING => {
                let Ok(data) = <[u8; 8]>::try_from(payload) else { return Ok(None) };
                if head.has(flag::ACK) {
                    return Ok(Some(if self.is_last_call(&data) {
                        Event::LastCallAnswered
                    } else {
                        self.account.pay(head.len, now)?;
                        Event::Pong(data)
                    }));
                }
                self.account.pay(head.len, now)?;
                self.answer(kind::PING, payload)?;
                Ok(None)
            }
            kind::GOAWAY => {
                self.account.pay(head.len, now)?;
                let (Some(last), Some(code)) = (number(payload), number(&payload[4..])) else { return Ok(None) };
                let last = last & LARGEST_WINDOW;
                // A second one may only lower the number (RFC 9113 section 6.8).
                let last = self.peer_last.map_or(last, |before| before.min(last));
                self.peer_last = Some(last);
                Ok(Some(Event::GoneAway { last, code: ErrorCode(code) }))
            }
            kind::WINDOW_UPDATE => self.window_update(head.stream, payload, now),
            kind::PRIORITY_UPDATE => self.priority_update(payload, now),
            _ => Ok(None),
        }
    }

    pub(super) fn peer_resets<'b>(
        &mut self,
        id: u32,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        if self.is_not_begun(id) {
            return Err(wrong("a stream is reset that has not begun"));
        }
        let Some(slot) = self.streams.find(id) else {
            // Whether the answer was there before the reset is chance: a client gets no credit for answers that it gives up.
            if self.role == Role::Server
                && self.lists.closed.iter().rev().any(|closed| *closed == (id, StreamEnd::Complete))
            {
                self.account.take_back_answer();
                self.account.torn_down(now)?;
            }
            self.account.pay(payload.len() as u32, now)?;
            return Ok(None);
        };
        let was_answered = self.streams.get(slot).is_some_and(|stream| stream.is_unended);
        self.close(slot, StreamEnd::ResetThere);
        match self.role {
            Role::Server if was_answered => self.account.pay(payload.len() as u32, now)?,
            Role::Server => self.account.torn_down(now)?,
            Role::Client => {}
        }
        Ok(Some(Event::Reset { slot, code: ErrorCode(number(payload).unwrap_or(0)), by_peer: true }))
    }

    pub(super) fn settings<'b>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        if head.has(flag::ACK) {
            if std::mem::replace(&mut self.settings_acknowledged, true) {
                self.account.pay(0, now)?;
            }
            return Ok(None);
        }
        self.account.pay(head.len, now)?;
        let before = self.peer;
        self.peer.apply(payload).map_err(|code| failure(code, "invalid value of a setting"))?;
        if self.peer.header_table_size != before.header_table_size {
            self.encoder.set_most(self.peer.header_table_size, PEER_TABLE);
        }
        let change = i64::from(self.peer.initial_window) - i64::from(before.initial_window);
        if change != 0 {
            self.account.pay_for_streams(self.streams.used(), now)?;
            let mut opened = Vec::new();
            for (slot, stream) in self.streams.iter_mut() {
                stream.send_window += change;
                if stream.send_window > i64::from(LARGEST_WINDOW) {
                    return Err(failure(ErrorCode::FLOW_CONTROL_ERROR, "a window is too large"));
                }
                opened.push(slot);
            }
            if change > 0 {
                opened.into_iter().for_each(|slot| self.make_ready(slot));
                self.wake_waiting();
            }
        }
        self.answer(kind::SETTINGS, &[])?;
        Ok(Some(Event::Settings))
    }

    pub(super) fn window_update<'b>(
        &mut self,
        id: u32,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        self.account.pay(payload.len() as u32, now)?;
        let more = i64::from(number(payload).unwrap_or(0) & LARGEST_WINDOW);
        if id == 0 {
            if more == 0 {
                return Err(wrong("a window is opened by nothing"));
            }
            self.send_window += more;
            if self.send_window > i64::from(LARGEST_WINDOW) {
                return Err(failure(ErrorCode::FLOW_CONTROL_ERROR, "the connection's window is too large"));
            }
            self.wake_waiting();
            return Ok(None);
        }
        if self.is_not_begun(id) {
            return Err(wrong("a window of a stream that has not begun"));
        }
        let Some(slot) = self.streams.find(id) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if more == 0 {
            return self.break_stream(slot, ErrorCode::PROTOCOL_ERROR, now);
        }
        stream.send_window += more;
        if stream.send_window > i64::from(LARGEST_WINDOW) {
            return self.break_stream(slot, ErrorCode::FLOW_CONTROL_ERROR, now);
        }
        if std::mem::take(&mut stream.wants_room) {
            self.lists.with_room.push_back(slot);
        }
        self.make_ready(slot);
        Ok(None)
    }

    pub(super) fn priority_update<'b>(
        &mut self,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        self.account.pay(payload.len() as u32, now)?;
        let id = number(payload).unwrap_or(0) & LARGEST_WINDOW;
        if self.role == Role::Client || id == 0 || id.is_multiple_of(2) {
            return Err(wrong("a priority for a wrong stream"));
        }
        let priority = Priority::parse(&payload[4..]);
        if let Some(slot) = self.streams.find(id) {
            self.set_priority(slot, priority);
        } else if id > self.last_stream {
            self.lists.early.retain(|(of, _)| *of != id);
            if self.lists.early.len() < EARLY {
                self.lists.early.push((id, priority));
            }
        }
        Ok(None)
    }
}

/// The largest table of header compression that is kept for a peer, in bytes.
const PEER_TABLE: u32 = 4096;

/// The first four bytes as a number.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The stream that a priority of RFC 7540 depends on.
pub(super) fn dependency(priority: &[u8]) -> Option<u32> {
    number(priority).map(|stream| stream & LARGEST_WINDOW)
}
