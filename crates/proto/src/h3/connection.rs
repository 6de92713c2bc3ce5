//! State of one side of a connection, and its interface for the owner apart from bytes.

use super::control::ControlReader;
use super::frame::{self, H3ErrorCode, LARGEST_VARINT, kind};
use super::lists::StreamLists;
use super::output::{Output, OwnStream};
use super::qpack::{BlockLimits, QpackDecoder, QpackEncoder};
use super::settings::{self, H3Settings};
use super::stream::{RequestStream, RequestStreamTable, StreamId};
use super::unidirectional::PeerStreams;
use crate::flood::{Account, Flood};
use crate::priority::Priority;
use crate::role::Role;

/// Settings of a new connection.
#[derive(Debug, Clone, Copy)]
pub struct H3Config {
    /// The side.
    pub role: Role,
    /// Of a server: how many streams of requests QUIC lets a client have at a time.
    pub max_streams: u32,
    /// The size that the table of fields may have which the peer fills, in bytes; 0 for none, at most 65,535.
    pub decoder_table: u32,
    /// The number of streams of the peer that may wait for entries of that table.
    pub blocked_streams: u16,
    /// The size of the table of fields that this side fills, in bytes; the peer may want a smaller one, or none.
    pub encoder_table: u32,
    /// The number of streams that this side may make the peer wait with; the peer may want fewer. With 0, which is
    /// best if fields may get lost on the way, no stream waits.
    pub encoder_blocked_streams: u16,
    /// Of a server: whether extended CONNECT is offered (RFC 9220).
    pub connect_protocol: bool,
    /// The limits of a section of fields.
    pub limits: BlockLimits,
    /// The current time in milliseconds, by any clock that goes on steadily.
    pub now: u64,
}

/// Reason why a connection cannot go on: the QUIC connection is to be closed with the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct H3ConnectionError {
    /// The code for the peer.
    pub code: H3ErrorCode,
    /// The words for a log.
    pub what: &'static str,
    /// The kind of flood that the peer has caused, if that is the reason.
    pub flood: Option<Flood>,
}

impl H3ConnectionError {
    /// An error of the peer.
    pub(super) const fn new(code: H3ErrorCode, what: &'static str) -> H3ConnectionError {
        H3ConnectionError { code, what, flood: None }
    }
}

impl From<Flood> for H3ConnectionError {
    fn from(flood: Flood) -> H3ConnectionError {
        H3ConnectionError { code: H3ErrorCode::H3_EXCESSIVE_LOAD, what: flood.text(), flood: Some(flood) }
    }
}

/// Announcement of the connection's end to the peer (RFC 9114 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndAnnouncement {
    /// No announcement yet.
    No,
    /// The peer was asked to begin no stream; those on the way are accepted.
    Asked,
    /// Streams from this one on are not accepted.
    From(StreamId),
}

/// The most bytes of instructions for the peer's encoder that wait to be written to a peer that does not read.
const MOST_UNREAD: usize = 64 * 1024;

/// The number of bytes of instructions for the peer's decoder that may wait to be written before no more are made.
const MOST_INSTRUCTIONS: usize = 16 * 1024;

/// The greatest number of a stream of a client, which excludes none in a `GOAWAY`.
const LAST_STREAM: u64 = LARGEST_VARINT - 3;
const _: () = assert!(StreamId(LAST_STREAM).is_of_request(), "only numbers of requests are announced");

/// State machine of one side of an HTTP/3 connection: received bytes go in, events and bytes to write come out. It has
/// no socket and no clock. [`crate::h3`] says how its owner uses it.
pub struct H3Connection {
    pub(super) role: Role,
    pub(super) peer: H3Settings,
    pub(super) max_streams: u32,
    pub(super) limits: BlockLimits,
    pub(super) blocked_streams: u16,
    encoder_table: u32,
    encoder_blocked_streams: u16,
    pub(super) decoder: QpackDecoder,
    pub(super) encoder: QpackEncoder,
    pub(super) streams: RequestStreamTable,
    pub(super) lists: StreamLists,
    pub(super) control: ControlReader,
    pub(super) peer_streams: PeerStreams,
    pub(super) output: Output,
    /// Number of streams of requests that are not closed.
    pub(super) open: usize,
    /// Number of bytes of sections that are kept, because they have come in part or are blocked.
    pub(super) kept: usize,
    /// The length of the section of fields that was decoded last, in bytes.
    pub(super) section_len: u32,
    /// The number that follows the highest stream.
    pub(super) next_stream: StreamId,
    pub(super) ending: EndAnnouncement,
    /// The number of the peer's last `GOAWAY`.
    pub(super) peer_last: Option<u64>,
    pub(super) account: Account,
    /// The time at which bytes were received last, in milliseconds.
    pub(super) now: u64,
    /// In a box: few connections fail, and then they end.
    pub(super) failure: Option<Box<H3ConnectionError>>,
}

impl std::fmt::Debug for H3Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("H3Connection");
        shown.field("role", &self.role).field("next_stream", &self.next_stream).field("ending", &self.ending);
        shown.field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl H3Connection {
    /// A connection before its first received byte. The settings of this side are ready to be written.
    pub fn new(config: &H3Config) -> H3Connection {
        let decoder = QpackDecoder::new(config.decoder_table);
        let mut payload = Vec::new();
        if decoder.capacity() > 0 {
            settings::push(settings::QPACK_MAX_TABLE_CAPACITY, decoder.capacity().into(), &mut payload);
            settings::push(settings::QPACK_BLOCKED_STREAMS, config.blocked_streams.into(), &mut payload);
        }
        if config.role == Role::Server && config.connect_protocol {
            settings::push(settings::ENABLE_CONNECT_PROTOCOL, 1, &mut payload);
        }
        let mut output = Output::default();
        output.with(OwnStream::Control, |out| frame::write(kind::SETTINGS, &payload, out));
        H3Connection {
            role: config.role,
            peer: H3Settings::default(),
            max_streams: config.max_streams,
            limits: config.limits,
            blocked_streams: config.blocked_streams,
            encoder_table: config.encoder_table,
            encoder_blocked_streams: config.encoder_blocked_streams,
            decoder,
            encoder: QpackEncoder::new(),
            streams: RequestStreamTable::default(),
            lists: StreamLists::default(),
            control: ControlReader::default(),
            peer_streams: PeerStreams::default(),
            output,
            open: 0,
            kept: 0,
            section_len: 0,
            next_stream: StreamId(0),
            ending: EndAnnouncement::No,
            peer_last: None,
            account: Account::new(config.max_streams, config.now),
            now: config.now,
            failure: None,
        }
    }

    // ---- what there is ---------------------------------------------------------------------------------------------

    /// The settings of the peer.
    pub fn peer_settings(&self) -> &H3Settings {
        &self.peer
    }

    /// Whether the settings of the peer have come.
    pub fn knows_peer(&self) -> bool {
        self.control.has_settings()
    }

    /// Number of streams of requests that have begun and are not closed.
    pub fn open_streams(&self) -> usize {
        self.open
    }

    /// Number of streams of requests in use: they are open, or their owners have not released them.
    pub fn used_streams(&self) -> usize {
        self.streams.used()
    }

    /// The length of the section of fields that was decoded last, as it was received, in bytes.
    pub fn section_len(&self) -> u32 {
        self.section_len
    }

    /// Reason why the connection cannot go on. Streams that were reset may be the reason, too, so look here even if no
    /// bytes come.
    pub fn failure(&self) -> Option<H3ConnectionError> {
        self.failure.as_deref().copied()
    }

    /// Whether one side has reset the stream, or it is not known, or the connection has failed.
    pub fn is_reset(&self, id: StreamId) -> bool {
        self.failure.is_some() || self.streams.get(id).is_none_or(|stream| stream.is_reset)
    }

    /// Whether the end of the connection was announced, by whichever side.
    pub fn is_ending(&self) -> bool {
        self.ending != EndAnnouncement::No || self.peer_last.is_some() || self.failure.is_some()
    }

    /// Whether nothing goes on: there is no stream of a request, and nothing to be written.
    pub fn is_idle(&self) -> bool {
        self.streams.used() == 0 && self.wants_to_write().is_none()
    }

    /// Number of bytes of memory on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.streams.heap_bytes()
            + self.kept
            + self.lists.heap_bytes()
            + self.control.heap_bytes()
            + self.peer_streams.heap_bytes()
            + self.output.heap_bytes()
            + self.decoder.heap_bytes()
            + self.encoder.heap_bytes()
    }

    /// Gives up memory that is not needed while nothing goes on. What only makes the next messages shorter is given up,
    /// too, if `everything` says so.
    pub fn shrink(&mut self, everything: bool) {
        self.streams.shrink();
        self.lists.shrink();
        self.decoder.shrink();
        if everything && self.streams.used() == 0 && self.failure.is_none() {
            self.encoder.forget();
            self.write_encoder_instructions();
        }
        self.output.shrink();
    }

    // ---- the streams of this side ----------------------------------------------------------------------------------

    /// A stream of this side for which there are bytes.
    #[inline]
    pub fn wants_to_write(&self) -> Option<OwnStream> {
        OwnStream::ALL.into_iter().find(|stream| !self.output.pending(*stream).is_empty())
    }

    /// The bytes to write next on a stream of this side.
    #[inline]
    pub fn output(&self, stream: OwnStream) -> &[u8] {
        self.output.pending(stream)
    }

    /// Notes that the first `count` bytes of a stream of this side were written.
    pub fn wrote(&mut self, stream: OwnStream, count: usize) {
        self.output.wrote(stream, count);
        if stream == OwnStream::Encoder {
            self.encoder.pause(self.output.pending(stream).len() > MOST_INSTRUCTIONS);
        }
    }

    /// Takes over the instructions of the encoder.
    #[inline]
    pub(super) fn write_encoder_instructions(&mut self) {
        let instructions = self.encoder.instructions();
        if !instructions.is_empty() {
            self.output.with(OwnStream::Encoder, |out| out.append(instructions));
            self.encoder.pause(self.output.pending(OwnStream::Encoder).len() > MOST_INSTRUCTIONS);
        }
    }

    /// Takes over the instructions of the decoder.
    ///
    /// # Errors
    /// The peer does not read them.
    #[inline]
    pub(super) fn write_decoder_instructions(&mut self) -> Result<(), Flood> {
        let instructions = self.decoder.instructions();
        if !instructions.is_empty() {
            self.output.with(OwnStream::Decoder, |out| out.append(instructions));
            if self.output.pending(OwnStream::Decoder).len() > MOST_UNREAD {
                return Err(Flood::Unread);
            }
        }
        Ok(())
    }

    /// Takes over the settings of the peer.
    pub(super) fn take_settings(&mut self, peer: H3Settings) {
        self.peer = peer;
        let blocked = peer.qpack_blocked_streams.min(self.encoder_blocked_streams.into());
        self.encoder.set_most(peer.qpack_table, self.encoder_table, blocked);
    }

    // ---- the end ---------------------------------------------------------------------------------------------------

    /// Asks the peer to begin no further stream (the first step of RFC 9114 section 5.2). Streams on the way are accepted
    /// until [`H3Connection::finish`] is called, best after a round trip. A client has no such step.
    pub fn announce_end(&mut self) {
        if self.ending != EndAnnouncement::No || self.failure.is_some() || self.role == Role::Client {
            return;
        }
        self.ending = EndAnnouncement::Asked;
        self.write_goaway(LAST_STREAM);
    }

    /// Accepts no stream above those that have begun (the second step). A client begins none any more.
    pub fn finish(&mut self) {
        if self.is_finished() {
            return;
        }
        self.ending = EndAnnouncement::From(self.next_stream);
        // A client names a pushed response, and accepts none.
        self.write_goaway(if self.role == Role::Server { self.next_stream.0 } else { 0 });
    }

    /// Whether [`H3Connection::finish`] was called.
    pub fn is_finished(&self) -> bool {
        matches!(self.ending, EndAnnouncement::From(_)) || self.failure.is_some()
    }

    fn write_goaway(&mut self, id: u64) {
        let mut payload = Vec::with_capacity(8);
        frame::write_varint(id, &mut payload);
        self.output.with(OwnStream::Control, |out| frame::write(kind::GOAWAY, &payload, out));
    }

    /// Notes that the connection cannot go on. All streams are over.
    pub fn fail(&mut self, failure: H3ConnectionError) -> H3ConnectionError {
        if let Some(earlier) = &self.failure {
            return **earlier;
        }
        self.failure = Some(Box::new(failure));
        self.streams.reset_all();
        self.streams.shrink();
        self.lists = StreamLists::default();
        self.open = 0;
        self.kept = 0;
        failure
    }

    // ---- streams ---------------------------------------------------------------------------------------------------

    /// The priority of the stream's response.
    pub fn priority(&self, id: StreamId) -> Priority {
        self.streams.get(id).map_or(Priority::UNKNOWN, |stream| stream.priority)
    }

    /// Sets the priority that the stream's request asks for by a field. A frame that has come before it counts more.
    pub fn set_first_priority(&mut self, id: StreamId, priority: Priority) {
        if let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.has_priority) {
            stream.priority = priority;
        }
    }

    /// The priority that came for this stream before it began, by `PRIORITY_UPDATE`.
    pub(super) fn take_early_priority(&mut self, id: StreamId) -> Option<Priority> {
        if self.lists.early.is_empty() {
            return None;
        }
        let at = self.lists.early.iter().position(|(of, _)| *of == id)?;
        Some(self.lists.early.swap_remove(at).1)
    }

    /// Notes that the body which follows a head is announced to be this long (`Content-Length`): another length is an
    /// error of the stream.
    pub fn expect(&mut self, id: StreamId, length: u64) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.expected = Some(length);
        }
    }

    /// Notes that the request was malformed (RFC 9114 section 4.1.2). The rest of it is thrown away. A peer that still
    /// sends when the response is complete sees the code, or an earlier one.
    pub fn stop_at_end(&mut self, id: StreamId, code: H3ErrorCode) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.stops_at_end.get_or_insert(code);
        }
    }

    /// Lets the peer go on sending when this side has sent everything: the stream is a tunnel.
    pub fn stay_open(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.stays_open = true;
        }
    }

    /// Notes that the owner gives up a stream, unless it is closed: the owner resets its half and stops reading.
    ///
    /// # Errors
    /// Too many streams of this peer were reset: the connection has failed.
    pub fn reset(&mut self, id: StreamId, now: u64) -> Result<(), H3ConnectionError> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if stream.is_closed() || self.failure.is_some() {
            return Ok(());
        }
        let was_answered = stream.sent_end;
        self.close_by_reset(id)?;
        // What a server gives up itself may still be the client's doing.
        if self.role == Role::Server && !was_answered {
            self.account.torn_down(now).map_err(|flood| self.fail(flood.into()))
        } else {
            Ok(())
        }
    }

    /// Closes a stream because one side has reset it.
    pub(super) fn close_by_reset(&mut self, id: StreamId) -> Result<(), H3ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        if stream.is_closed() {
            return Ok(());
        }
        if !stream.received_end {
            self.decoder.cancel(id.0);
        }
        stream.is_reset = true;
        self.closed(id);
        self.write_decoder_instructions().map_err(|flood| self.fail(flood.into()))
    }

    /// Notes that a stream is closed.
    pub(super) fn closed(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        debug_assert!(stream.is_closed() && self.open > 0, "stream {} is not closed", id.0);
        self.open -= 1;
        self.kept -= stream.fragment.take().map_or(0, |fragment| fragment.0.len());
        (stream.is_blocked, stream.is_awaited) = (false, false);
        let is_attached = stream.is_attached;
        self.lists.forget(id);
        if !is_attached {
            self.streams.remove(id);
        }
    }

    /// Notes that the owner does not use the stream any more; it should be closed then.
    pub fn release(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.is_attached = false;
        if stream.is_closed() {
            self.streams.remove(id);
        }
    }

    /// The number of bytes that the frames of the stream's message have taken so far.
    pub fn sent_bytes(&self, id: StreamId) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.sent)
    }

    /// Takes a stream that was [blocked](super::H3Event::Blocked) and is no longer: its bytes are to be given to
    /// [`H3Connection::receive`] again.
    pub fn take_unblocked(&mut self) -> Option<StreamId> {
        if self.lists.unblocked.is_empty() {
            return None;
        }
        self.lists.unblocked.pop_front()
    }

    /// Of a server: since when the head of the oldest request has not come that has begun, in milliseconds.
    pub fn awaited_since(&self) -> Option<u64> {
        self.lists.awaited.front().map(|(_, since)| *since)
    }

    /// Takes a stream whose head has not come since this time, or for longer. It is closed; its owner resets its half
    /// and stops reading, with `H3_REQUEST_INCOMPLETE`.
    ///
    /// # Errors
    /// Too many streams of this peer were reset: the connection has failed.
    pub fn take_late(&mut self, since: u64, now: u64) -> Result<Option<StreamId>, H3ConnectionError> {
        let Some((id, _)) = self.lists.awaited.front().filter(|(_, began)| *began <= since).copied() else {
            return Ok(None);
        };
        self.reset(id, now)?;
        Ok(Some(id))
    }

    // ---- of a client -----------------------------------------------------------------------------------------------

    /// Begins a stream, as a client, that the owner has opened. Returns whether it has begun; otherwise the connection
    /// ends, or the number is none of a new request.
    #[must_use]
    pub fn open(&mut self, id: StreamId) -> bool {
        let can_begin = self.can_open() && id.is_of_request() && id >= self.next_stream;
        if can_begin {
            self.next_stream = StreamId(id.0 + 4);
            self.open += 1;
            self.streams.insert(id, RequestStream::new(true));
        }
        can_begin
    }

    /// Whether a client can begin a stream, as far as HTTP/3 is concerned.
    pub fn can_open(&self) -> bool {
        self.role == Role::Client && !self.is_ending()
    }

    /// Takes the streams from the number of the peer's `GOAWAY` on: the peer has not looked at them. Their requests may
    /// be sent again elsewhere. They are closed; the owner resets and releases them.
    pub fn take_unprocessed(&mut self) -> Option<StreamId> {
        let from = self.peer_last.filter(|_| self.role == Role::Client)?;
        let id = self.streams.iter().find(|(id, stream)| id.0 >= from && !stream.is_closed())?.0;
        self.close_by_reset(id).ok()?;
        Some(id)
    }
}
