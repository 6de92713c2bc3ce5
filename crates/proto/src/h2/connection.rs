//! State of one side of a connection, and its interface for the owner apart from bytes.

use super::blocks::PackedLimits;
use super::frame::{self, DEFAULT_WINDOW, ErrorCode, LARGEST_WINDOW, kind};
use super::hpack::{BlockLimits, Decoder, Encoder};
use super::lists::Lists;
use super::out::Out;
use super::reader::Reader;
use super::schedule::Schedule;
use super::settings::{self, PeerSettings};
use super::stream::{Slot, Stream, StreamTable};
use crate::flood::{Account, Flood};
use crate::priority::Priority;
use crate::role::Role;

/// Settings of a new connection.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The side.
    pub role: Role,
    /// Of a server: how many streams a client may have at a time.
    pub max_streams: u32,
    /// The flow-control window of each stream, in bytes.
    pub initial_window: u32,
    /// The largest payload of a `DATA` frame that is sent, in bytes; the peer may want smaller ones.
    pub chunk: u32,
    /// Of a server: whether extended CONNECT is offered (RFC 8441).
    pub connect_protocol: bool,
    /// The limits of a block of fields.
    pub limits: BlockLimits,
    /// The current time in milliseconds, by any clock that goes on steadily.
    pub now: u64,
}

/// Reason why a connection cannot go on. A `GOAWAY` frame with the code is ready to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code for the peer.
    pub code: ErrorCode,
    /// The words for a log.
    pub what: &'static str,
    /// The kind of flood that the peer has caused, if that is the reason.
    pub flood: Option<Flood>,
}

impl From<Flood> for ConnectionError {
    fn from(flood: Flood) -> ConnectionError {
        ConnectionError { code: ErrorCode::ENHANCE_YOUR_CALM, what: flood.text(), flood: Some(flood) }
    }
}

/// Announcement of the connection's end to the peer (RFC 9113 section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoAwayState {
    /// No announcement yet.
    No,
    /// The peer was asked to begin no stream; those on the way are accepted until it has answered a `PING`.
    Asked,
    /// Streams above this one are not accepted.
    Last(u32),
}

/// Number of closed streams that are remembered, to tell late frames from wrong ones.
pub(super) const REMEMBERED: usize = 32;

/// End of a stream that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Reset by this side: frames may still be on their way.
    ResetHere,
    /// The peer has reset it.
    ResetThere,
    /// Both sides have sent everything.
    Complete,
}

/// The most bytes of answers to `SETTINGS` and `PING` that wait to be written to a peer that does not read.
const MOST_UNREAD: u32 = 64 * 1024;

/// The largest receive window of a stream: what a reader as fast as its client needs over a long path.
const LARGEST_RECEIVE_WINDOW: u32 = 8 * 1024 * 1024;

/// The opaque data of the `PING` that asks for the time when no more streams are on the way.
const LAST_CALL: [u8; 8] = *b"the last";

const _: () = assert!(LARGEST_RECEIVE_WINDOW <= LARGEST_WINDOW, "the peer must be able to count it");
const _: () = assert!(MOST_UNREAD > 2 * frame::DEFAULT_FRAME_SIZE, "a peer that reads is never that far behind");

/// State machine of one side of an HTTP/2 connection: received bytes go in, events and bytes to write come out. It has
/// no socket and no clock.
pub struct Connection {
    pub(super) role: Role,
    pub(super) peer: PeerSettings,
    pub(super) max_streams: u32,
    pub(super) initial_window: u32,
    /// The largest size to which the receive window of a stream grows by itself, in bytes.
    pub(super) largest_window: u32,
    pub(super) chunk: u32,
    pub(super) limits: PackedLimits,
    pub(super) reader: Reader,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) streams: StreamTable,
    pub(super) schedule: Schedule,
    pub(super) lists: Lists,
    /// Number of bytes of `DATA` that the peer takes on all streams.
    pub(super) send_window: i64,
    /// Number of bytes of `DATA` that were received and not given back to the window of the connection.
    pub(super) owed: u32,
    /// Number of bytes added to the receive windows of open streams.
    pub(super) grown: u32,
    /// The urgency of streams that have sent everything they had, and whose owners may have more.
    pub(super) awaited: Option<u8>,
    /// Number of bytes of `DATA` that wait in streams.
    pub(super) queued: usize,
    /// Number of frames of bodies and ends of messages that were sent.
    pub(super) progress: u64,
    /// The length of the block of fields that has come last, in bytes.
    pub(super) block_len: u32,
    /// The highest stream that has begun.
    pub(super) last_stream: u32,
    pub(super) next_stream: u32,
    pub(super) ending: GoAwayState,
    /// A client: the server accepts no streams above this one.
    pub(super) peer_last: Option<u32>,
    pub(super) account: Account,
    pub(super) out: Out,
    /// Number of bytes of answers that were written since everything was taken by the peer.
    pub(super) answers: u32,
    pub(super) settings_acknowledged: bool,
    /// The time at which bytes were received last, in milliseconds.
    pub(super) now: u64,
    /// In a box: few connections fail, and then they end.
    pub(super) failure: Option<Box<ConnectionError>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Connection");
        shown.field("role", &self.role).field("last_stream", &self.last_stream).field("ending", &self.ending);
        shown.field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection before its first received byte. The settings of this side are ready to be written.
    pub fn new(config: &Config) -> Connection {
        let mut out = Out::default();
        let mut payload = Vec::with_capacity(5 * settings::SETTING);
        match config.role {
            Role::Server => {
                settings::push(settings::MAX_CONCURRENT_STREAMS, config.max_streams, &mut payload);
                settings::push(settings::INITIAL_WINDOW_SIZE, config.initial_window, &mut payload);
                if config.connect_protocol {
                    settings::push(settings::ENABLE_CONNECT_PROTOCOL, 1, &mut payload);
                }
                settings::push(settings::NO_RFC7540_PRIORITIES, 1, &mut payload);
            }
            Role::Client => {
                settings::push(settings::ENABLE_PUSH, 0, &mut payload);
                settings::push(settings::INITIAL_WINDOW_SIZE, config.initial_window, &mut payload);
            }
        }
        out.with(|out| {
            if config.role == Role::Client {
                out.extend_from_slice(frame::PREFACE);
            }
            frame::write(kind::SETTINGS, 0, 0, &payload, out);
            // The memory for bodies is bounded by the windows of streams, so none of them holds up another one.
            let more = LARGEST_WINDOW - DEFAULT_WINDOW;
            frame::write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), out);
        });
        Connection {
            role: config.role,
            peer: PeerSettings::default(),
            max_streams: config.max_streams,
            initial_window: config.initial_window,
            largest_window: LARGEST_RECEIVE_WINDOW,
            chunk: config.chunk.max(1),
            limits: config.limits.into(),
            reader: Reader::new(config.role),
            decoder: Decoder::new(PeerSettings::default().header_table_size),
            encoder: Encoder::new(),
            streams: StreamTable::default(),
            schedule: Schedule::default(),
            lists: Lists::default(),
            send_window: i64::from(DEFAULT_WINDOW),
            owed: 0,
            grown: 0,
            awaited: None,
            queued: 0,
            progress: 0,
            block_len: 0,
            last_stream: 0,
            next_stream: 1,
            ending: GoAwayState::No,
            peer_last: None,
            account: Account::new(config.max_streams, config.now),
            out,
            answers: 0,
            settings_acknowledged: false,
            now: config.now,
            failure: None,
        }
    }

    // ---- what there is ---------------------------------------------------------------------------------------------

    /// The settings of the peer.
    pub fn peer_settings(&self) -> &PeerSettings {
        &self.peer
    }

    /// Whether the first settings of the peer have come.
    pub fn knows_peer(&self) -> bool {
        self.reader.has_settings()
    }

    /// Number of streams that have begun and are not closed.
    pub fn open_streams(&self) -> usize {
        self.streams.open()
    }

    /// Number of streams in use: their owners have not released them, or they have more to send.
    pub fn used_slots(&self) -> usize {
        self.streams.used() - self.left_over()
    }

    /// The highest stream that has begun.
    pub fn last_stream(&self) -> u32 {
        self.last_stream
    }

    /// The number of a stream.
    pub fn stream_id(&self, slot: Slot) -> u32 {
        self.streams.get(slot).map_or(0, |stream| stream.id)
    }

    /// The length of the block of fields that has come last, as it was received, in bytes.
    pub fn block_len(&self) -> u32 {
        self.block_len
    }

    /// Whether a block of fields has begun and is not complete: its owner should not wait for the rest for ever.
    pub fn is_in_block(&self) -> bool {
        self.reader.is_in_block()
    }

    /// Gives up a head that has begun and does not come: its stream is reset, and the rest is of no interest.
    pub fn give_up_block(&mut self) {
        let Some(id) = self.reader.block_stream().filter(|id| *id > self.last_stream && !id.is_multiple_of(2)) else {
            return;
        };
        self.last_stream = id;
        self.write_reset(id, ErrorCode::PROTOCOL_ERROR);
        self.remember(id, StreamEnd::ResetHere);
    }

    /// Reason why the connection cannot go on. The answers that a peer causes may be the reason, too, so look here even
    /// if no bytes come.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.failure.as_deref().copied()
    }

    /// Whether one side has reset the stream, or the connection has failed.
    pub fn is_reset(&self, slot: Slot) -> bool {
        self.failure.is_some() || self.streams.get(slot).is_none_or(|stream| stream.is_reset)
    }

    /// Whether the end of the connection was announced, by whichever side.
    pub fn is_ending(&self) -> bool {
        self.ending != GoAwayState::No || self.peer_last.is_some() || self.failure.is_some()
    }

    /// Whether nothing goes on: there is no stream but answered ones whose requests may still end, and nothing to be written.
    pub fn is_idle(&self) -> bool {
        self.used_slots() == 0 && self.out.pending() == 0 && !self.reader.is_in_frame()
    }

    /// Number of bytes of memory on the heap besides payloads.
    pub fn heap_bytes(&self) -> usize {
        self.streams.heap_bytes()
            + self.schedule.heap_bytes()
            + self.out.heap_bytes()
            + self.decoder.heap_bytes()
            + self.encoder.heap_bytes()
            + self.reader.heap_bytes()
            + self.lists.heap_bytes()
    }

    // ---- the end ---------------------------------------------------------------------------------------------------

    /// Asks the peer to begin no further stream (the first step of RFC 9113 section 6.8). Streams on the way are accepted until it
    /// answers, and then [`Connection::finish`] is called for it.
    pub fn announce_end(&mut self) {
        if self.ending != GoAwayState::No || self.failure.is_some() {
            return;
        }
        self.ending = GoAwayState::Asked;
        self.write_goaway(LARGEST_WINDOW, ErrorCode::NO_ERROR);
        self.out.with(|out| frame::write(kind::PING, 0, 0, &LAST_CALL, out));
    }

    /// Accepts no stream above those that have begun (the second step).
    pub fn finish(&mut self, code: ErrorCode) {
        if matches!(self.ending, GoAwayState::Last(_)) || self.failure.is_some() {
            return;
        }
        self.ending = GoAwayState::Last(self.last_stream);
        self.write_goaway(self.last_stream, code);
    }

    /// Whether [`Connection::finish`] was called.
    pub fn is_finished(&self) -> bool {
        matches!(self.ending, GoAwayState::Last(_)) || self.failure.is_some()
    }

    pub(super) fn write_goaway(&mut self, last: u32, code: ErrorCode) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&code.0.to_be_bytes());
        self.out.with(|out| frame::write(kind::GOAWAY, 0, 0, &payload, out));
    }

    /// Notes that the connection cannot go on, and tells the peer.
    pub fn fail(&mut self, failure: ConnectionError) -> ConnectionError {
        if let Some(earlier) = &self.failure {
            return **earlier;
        }
        self.failure = Some(Box::new(failure));
        let last = match self.role {
            Role::Server => self.last_stream,
            Role::Client => 0,
        };
        self.write_goaway(last, failure.code);
        let mut left = Vec::new();
        for (slot, stream) in self.streams.iter_mut() {
            debug_assert!(self.queued >= stream.queued, "stream {} has more bytes than all streams", stream.id);
            self.queued -= stream.queued;
            stream.reset();
            stream.is_ready = false;
            left.extend((!stream.is_attached).then_some(slot));
        }
        self.streams.close_all();
        left.into_iter().for_each(|slot| self.remove(slot));
        debug_assert_eq!(self.queued, 0, "bytes are queued in no stream");
        self.schedule = Schedule::default();
        if !self.lists.unended.is_empty() {
            self.lists.unended.clear();
        }
        failure
    }

    /// Answers a question of the peer.
    ///
    /// # Errors
    /// The peer does not read the answers.
    pub(super) fn answer(&mut self, kind: u8, payload: &[u8]) -> Result<(), Flood> {
        if self.out.pending() == 0 {
            self.answers = 0;
        }
        // The payload of a frame is far shorter than that.
        self.answers += (frame::FRAME_HEAD + payload.len()) as u32;
        if self.answers > MOST_UNREAD {
            return Err(Flood::Unread);
        }
        self.out.with(|out| frame::write(kind, frame::flag::ACK, 0, payload, out));
        Ok(())
    }

    /// Sends a `PING`, to see whether the peer is there; its answer is [`Event::Pong`](super::Event::Pong).
    pub fn ping(&mut self, data: [u8; 8]) {
        self.out.with(|out| frame::write(kind::PING, 0, 0, &data, out));
    }

    /// Whether this is the answer that ends the first step of the end.
    pub(super) fn is_last_call(&self, data: &[u8]) -> bool {
        self.ending == GoAwayState::Asked && data == LAST_CALL
    }

    // ---- streams ---------------------------------------------------------------------------------------------------

    /// Sets the largest payload of the stream's `DATA` frames (`http2_chunk_size`).
    pub fn set_chunk(&mut self, slot: Slot, chunk: u32) {
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.chunk = chunk.max(1);
        }
    }

    /// Sets the priority that the stream's request asks for by a field. A frame that has come before it counts more.
    pub fn set_first_priority(&mut self, slot: Slot, priority: Priority) {
        if self.streams.get(slot).is_some_and(|stream| !stream.has_priority) {
            self.set_priority(slot, priority);
        }
    }

    /// Sets the priority of the stream's response.
    pub fn set_priority(&mut self, slot: Slot, priority: Priority) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.priority == priority {
            return;
        }
        stream.priority = priority;
        if stream.is_ready {
            self.schedule.remove(slot);
            self.schedule.push(slot, priority);
        }
    }

    /// The priority that came for this stream before it began, by `PRIORITY_UPDATE`.
    pub(super) fn early_priority(&mut self, id: u32) -> Option<Priority> {
        if self.lists.early.is_empty() {
            return None;
        }
        let found = self.lists.early.iter().find(|(of, _)| *of == id).map(|(_, priority)| *priority);
        self.lists.early.retain(|(of, _)| *of > id);
        found
    }

    /// Notes that the body which follows a head is announced to be this long (`Content-Length`): another length resets the
    /// stream.
    pub fn expect(&mut self, slot: Slot, length: u64) {
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.expected = Some(length);
        }
    }

    /// Makes the stream end with this code when its response is complete: the request was malformed (RFC 9113 section
    /// 8.1.1).
    pub fn reset_at_end(&mut self, slot: Slot, code: ErrorCode) {
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.resets_at_end = Some(code);
        }
    }

    /// Lets the peer go on sending when this side has sent everything: the stream is a tunnel.
    pub fn stay_open(&mut self, slot: Slot) {
        if let Some(stream) = self.streams.get_mut(slot) {
            stream.stays_open = true;
        }
    }

    /// Resets a stream, unless it is closed.
    ///
    /// # Errors
    /// Too many streams of this peer were reset: the connection has failed.
    pub fn reset(&mut self, slot: Slot, code: ErrorCode, now: u64) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(()) };
        if stream.is_closed() || self.failure.is_some() {
            return Ok(());
        }
        let (id, was_answered) = (stream.id, stream.sent_end);
        self.write_reset(id, code);
        self.close(slot, StreamEnd::ResetHere);
        // What a server gives up itself may still be the client's doing.
        if self.role == Role::Server && !was_answered {
            self.account.torn_down(now).map_err(|flood| self.fail(flood.into()))
        } else {
            Ok(())
        }
    }

    pub(super) fn write_reset(&mut self, id: u32, code: ErrorCode) {
        self.out.with(|out| frame::write(kind::RST_STREAM, 0, id, &code.0.to_be_bytes(), out));
    }

    /// Closes a stream: it is reset, or complete.
    pub(super) fn close(&mut self, slot: Slot, how: StreamEnd) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let (id, is_attached, queued) = (stream.id, stream.is_attached, stream.queued);
        debug_assert!(self.queued >= queued && self.grown >= stream.grown, "stream {id} has more than all streams");
        debug_assert!(how != StreamEnd::Complete || queued == 0, "stream {id} is complete and has something to send");
        self.queued -= queued;
        self.grown -= std::mem::take(&mut stream.grown);
        if std::mem::take(&mut stream.is_unended) {
            self.forget_unended(slot);
        }
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if how != StreamEnd::Complete {
            stream.reset();
            if std::mem::take(&mut stream.is_ready) {
                self.schedule.remove(slot);
            }
            self.lists.with_room.push_back(slot);
        }
        self.streams.close(id);
        self.remember(id, how);
        if !is_attached {
            self.remove(slot);
        }
        if queued > 0 {
            // The window of the connection that these bytes would have taken is for others.
            self.wake_waiting();
        }
    }

    /// Remembers the end of a stream, instead of the oldest end that is remembered.
    pub(super) fn remember(&mut self, id: u32, how: StreamEnd) {
        let closed = &mut self.lists.closed;
        if closed.len() == REMEMBERED {
            closed.pop_front();
        }
        closed.push_back((id, how));
        debug_assert!(closed.len() <= REMEMBERED, "more streams are remembered than the limit says");
    }

    /// Notes that the owner does not use the slot any more. What is queued is still sent.
    pub fn release(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        debug_assert!(stream.is_attached, "stream {} is released twice", stream.id);
        stream.is_attached = false;
        if stream.is_closed() || self.failure.is_some() {
            if std::mem::take(&mut stream.is_ready) {
                self.schedule.remove(slot);
            }
            self.remove(slot);
        }
    }

    /// Takes a stream out of its place, which another stream may get. What is left of a frame that is being received is
    /// not for that one.
    fn remove(&mut self, slot: Slot) {
        let is_over = |stream: &Stream| !stream.is_attached && !stream.is_ready && stream.queued == 0;
        debug_assert!(self.failure.is_some() || self.streams.get(slot).is_none_or(is_over), "the stream is in use");
        self.streams.remove(slot);
        self.reader.forget(slot);
    }

    /// Takes a stream whose owner has waited for room or for news, and should look again.
    pub fn take_woken(&mut self) -> Option<Slot> {
        if self.lists.with_room.is_empty() {
            return None;
        }
        self.lists.with_room.pop_front()
    }

    /// Takes the slots of streams above the last stream of the peer's `GOAWAY`: the peer has not looked at them. Their
    /// requests may be sent again elsewhere (RFC 9113 section 8.7). They are closed.
    pub fn take_unprocessed(&mut self) -> Option<Slot> {
        let last = self.peer_last?;
        let slot = self.streams.iter_mut().find(|(_, stream)| stream.id > last && !stream.is_closed())?.0;
        self.close(slot, StreamEnd::ResetThere);
        Some(slot)
    }

    // ---- of a client -----------------------------------------------------------------------------------------------

    /// Begins a stream, as a client.
    ///
    /// # Errors
    /// None can begin: the server allows no more at a time, or the connection ends.
    pub fn open(&mut self) -> Option<Slot> {
        if !self.can_open() {
            return None;
        }
        let id = self.next_stream;
        debug_assert!(!id.is_multiple_of(2) && id > self.last_stream, "stream {id} is none of a client's, or old");
        self.next_stream += 2;
        self.last_stream = id;
        let stream = Stream::new(id, self.peer.initial_window, self.initial_window, self.chunk);
        Some(self.streams.insert(stream))
    }

    /// Whether a client can begin a stream.
    pub fn can_open(&self) -> bool {
        self.role == Role::Client
            && !self.is_ending()
            && self.next_stream <= LARGEST_WINDOW
            && self.streams.open() < self.peer.max_concurrent_streams as usize
    }
}
