//! Received blocks of fields: heads and trailers, and the frames that they come in.

use super::connection::{Connection, ConnectionError, GoAwayState, StreamEnd};
use super::frame::{ErrorCode, FrameHead, flag};
use super::hpack::{BlockLimits, DecodeError, FieldSink};
use super::reader::Block;
use super::receive::{Event, dependency, failure, size, wrong};
use super::stream::{Slot, Stream};
use crate::compression::{DiscardSink, FieldObserver};
use crate::flood::Flood;
use crate::role::Role;

/// The most frames of a block of fields, besides one for each [`BYTES_PER_FRAME`].
const FRAMES_OF_BLOCK: u32 = 128;

/// The size that `CONTINUATION` frames should have at least, on the average.
const BYTES_PER_FRAME: usize = 256;

/// The limits of a block of fields, in half the room: each connection has them, and none is near four gigabytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedLimits {
    string: u32,
    total: u32,
    fields: u32,
}

impl From<BlockLimits> for PackedLimits {
    fn from(limits: BlockLimits) -> PackedLimits {
        let [string, total, fields] = [limits.most_string, limits.most_total, limits.most_fields]
            .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        PackedLimits { string, total, fields }
    }
}

impl From<PackedLimits> for BlockLimits {
    fn from(PackedLimits { string, total, fields }: PackedLimits) -> BlockLimits {
        BlockLimits { most_string: string as usize, most_total: total as usize, most_fields: fields as usize }
    }
}

impl Connection {
    pub(super) fn headers<'b, S: FieldSink>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        let mut fragment = payload;
        if head.has(flag::PADDED) {
            let (padding, rest) = fragment.split_first().ok_or(size("padding without its length"))?;
            let len = rest.len().checked_sub(usize::from(*padding)).ok_or(wrong("invalid length of padding"))?;
            fragment = &rest[..len];
        }
        let mut is_self_dependent = false;
        if head.has(flag::PRIORITY) {
            let (priority, rest) = fragment.split_at_checked(5).ok_or(size("a priority is missing"))?;
            is_self_dependent = dependency(priority) == Some(head.stream);
            fragment = rest;
        }
        let ends = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, ends, is_self_dependent, fragment, now, sink);
        }
        if fragment.len() > self.limits.total as usize {
            return Err(Flood::Fields.into());
        }
        debug_assert!(self.reader.block.is_none(), "a block begins within another one");
        let fragment = fragment.to_vec();
        let block = Block { stream: head.stream, ends, frames: 1, fragment, is_self_dependent };
        self.reader.block = Some(Box::new(block));
        Ok(None)
    }

    pub(super) fn continuation<'b, S: FieldSink>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        let most = self.limits.total as usize;
        let Some(block) = &mut self.reader.block else { return Ok(None) };
        block.frames += 1;
        // The fields are never shorter than the fragments that they come in, but for updates of the table's size.
        let is_too_large = block.fragment.len() + payload.len() > most;
        let frames = FRAMES_OF_BLOCK + u32::try_from(block.fragment.len() / BYTES_PER_FRAME).unwrap_or(u32::MAX);
        if is_too_large || block.frames > frames || payload.is_empty() && !head.has(flag::END_HEADERS) {
            return Err(Flood::Fields.into());
        }
        block.fragment.extend_from_slice(payload);
        if !head.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let Some(block) = self.reader.block.take() else { return Ok(None) };
        self.block(block.stream, block.ends, block.is_self_dependent, &block.fragment, now, sink)
    }

    /// Decodes a block of fields.
    pub(super) fn decode<S: FieldSink>(&mut self, fragment: &[u8], sink: &mut S) -> Result<(), ConnectionError> {
        self.decoder.decode(fragment, &self.limits.into(), sink).map_err(|error| match error {
            DecodeError::Compression(what) => failure(ErrorCode::COMPRESSION_ERROR, what),
            DecodeError::TooLarge => Flood::Fields.into(),
        })
    }

    pub(super) fn block<'b, S: FieldSink>(
        &mut self,
        id: u32,
        ends: bool,
        is_self_dependent: bool,
        fragment: &[u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        self.block_len = fragment.len() as u32;
        if let Some(slot) = self.streams.find(id) {
            return self.later_block(slot, ends, fragment, now, sink);
        }
        if id.is_multiple_of(2) || self.role == Role::Client && id > self.last_stream {
            return Err(wrong("a stream with a wrong number"));
        }
        if id <= self.last_stream {
            self.decode(fragment, &mut DiscardSink)?;
            return self.late_frame(id, false, now);
        }
        if let GoAwayState::Last(last) = self.ending
            && id > last
        {
            // The client learns from GOAWAY that nothing was done for it.
            self.account.pay(fragment.len() as u32, now)?;
            self.decode(fragment, &mut DiscardSink)?;
            return Ok(None);
        }
        debug_assert!(self.role == Role::Server, "a client begins its streams itself");
        self.last_stream = id;
        let most = self.max_streams as usize;
        if self.streams.open() >= most {
            self.cut_off_one();
        }
        // Streams that were reset, and whose requests have not ended, count like open ones, but twice as many may be there.
        if self.streams.open() >= most || self.streams.used() >= most.saturating_mul(2) {
            self.decode(fragment, &mut DiscardSink)?;
            self.write_reset(id, ErrorCode::REFUSED_STREAM);
            self.account.torn_down(now)?;
            self.remember(id, StreamEnd::ResetHere);
            return Ok(None);
        }
        if is_self_dependent {
            // The stream is reported to nobody.
            self.decode(fragment, &mut DiscardSink)?;
        } else {
            self.decode(fragment, sink)?;
        }
        let priority = self.early_priority(id);
        let mut stream = Stream::new(id, self.peer.initial_window, self.initial_window, self.chunk);
        stream.received_end = ends;
        stream.has_priority = priority.is_some();
        stream.priority = priority.unwrap_or(stream.priority);
        debug_assert!(self.streams.open() < most, "more streams are open than were allowed");
        let slot = self.streams.insert(stream);
        if is_self_dependent {
            self.reset(slot, ErrorCode::PROTOCOL_ERROR, now)?;
            self.release(slot);
            return Ok(None);
        }
        Ok(Some(Event::Head { slot, ends }))
    }

    /// A block of fields on a stream that has begun: trailers, or heads of responses.
    pub(super) fn later_block<'b, S: FieldSink>(
        &mut self,
        slot: Slot,
        ends: bool,
        fragment: &[u8],
        now: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        let (is_closed, is_head) = match self.streams.get(slot) {
            Some(stream) => (stream.received_end, self.role == Role::Client && !stream.received_head),
            None => (true, false),
        };
        if is_closed {
            self.decode(fragment, &mut DiscardSink)?;
            return self.break_stream(slot, ErrorCode::STREAM_CLOSED, now);
        }
        let mut watched = FieldObserver::new(sink);
        self.decode(fragment, &mut watched)?;
        let FieldObserver { has_pseudo, is_interim, .. } = watched;
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if is_head {
            stream.received_head = !is_interim;
            if is_interim && ends {
                return self.break_stream(slot, ErrorCode::PROTOCOL_ERROR, now);
            }
            if ends {
                self.note_end(slot);
            }
            return Ok(Some(Event::Head { slot, ends }));
        }
        if !ends || has_pseudo || stream.expected.is_some_and(|left| left > 0) {
            return self.break_stream(slot, ErrorCode::PROTOCOL_ERROR, now);
        }
        self.note_end(slot);
        Ok(Some(Event::Trailers { slot }))
    }
}
