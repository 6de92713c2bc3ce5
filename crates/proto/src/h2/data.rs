//! Received `DATA`: bodies, the windows that bound them, and their announced lengths.

use super::connection::{Connection, ConnectionError};
use super::frame::{ErrorCode, FrameHead, LARGEST_WINDOW, flag, kind};
use super::reader::ReadStage;
use super::receive::{Event, size, wrong};
use super::stream::{Slot, Stream};
use crate::role::Role;

/// Payloads shorter than this, in bytes, cost more than they are worth if nobody reads them.
const SMALL: u32 = 64;

impl Connection {
    pub(super) fn begin_data<'b>(&mut self, head: FrameHead, now: u64) -> Result<Option<Event<'b>>, ConnectionError> {
        let len = head.len;
        if head.stream == 0 {
            return Err(wrong("DATA without a stream"));
        }
        if self.is_not_begun(head.stream) {
            return Err(wrong("DATA on a stream that has not begun"));
        }
        let ends = head.has(flag::END_STREAM);
        let slot = self.streams.find(head.stream);
        let is_wanted = slot.and_then(|slot| self.streams.get(slot)).is_some_and(|stream| !stream.is_unended);
        if len == 0 && !ends || len < SMALL && !is_wanted {
            self.account.pay(0, now)?;
        }
        let (slot, event) = match slot {
            None => (None, self.late_frame(head.stream, true, now)?),
            Some(slot) => match self.may_receive(slot, len, now)? {
                None if self.is_too_much(slot, len, ends) => {
                    self.cut_off(slot);
                    (None, None)
                }
                None => (Some(slot), None),
                Some(event) => (None, Some(event)),
            },
        };
        self.reader.stage = if !head.has(flag::PADDED) {
            ReadStage::Data { slot, left: len, padding: 0, ends }
        } else if len > 0 {
            ReadStage::PadLength { slot, len, ends }
        } else {
            return Err(size("padding without its length"));
        };
        Ok(event)
    }

    /// Whether this number of bytes of `DATA` may come now; otherwise the stream is reset.
    pub(super) fn may_receive<'b>(
        &mut self,
        slot: Slot,
        len: u32,
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if stream.received_end {
            return self.break_stream(slot, ErrorCode::STREAM_CLOSED, now);
        }
        if self.role == Role::Client && !stream.received_head {
            return self.break_stream(slot, ErrorCode::PROTOCOL_ERROR, now);
        }
        stream.receive_window -= i64::from(len);
        if stream.receive_window < 0 {
            return self.break_stream(slot, ErrorCode::FLOW_CONTROL_ERROR, now);
        }
        Ok(None)
    }

    /// Whether a frame on an answered stream is the last frame to take, because the client would soon need more window.
    fn is_too_much(&self, slot: Slot, len: u32, ends: bool) -> bool {
        let is_too_much =
            |stream: &Stream| stream.is_unended && (stream.needs_window(len) || stream.receive_window <= 0);
        !ends && self.streams.get(slot).is_some_and(is_too_much)
    }

    /// Gives bytes that nobody reads back to the windows.
    pub(super) fn give_back(&mut self, slot: Option<Slot>, count: u32) {
        debug_assert!(self.owed < LARGEST_WINDOW / 2, "the peer was not told of what was read");
        self.owed += count;
        if self.owed >= LARGEST_WINDOW / 2 {
            let more = std::mem::take(&mut self.owed);
            self.out.with(|out| super::frame::write(kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes(), out));
        }
        if let Some(slot) = slot
            && let Some(stream) = self.streams.get_mut(slot)
        {
            stream.unread += count;
            self.consumed(slot, count as usize);
        }
    }

    /// Bytes of a body.
    pub(super) fn body<'b>(
        &mut self,
        slot: Slot,
        bytes: &'b [u8],
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        self.give_back(None, bytes.len() as u32);
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if !stream.is_unended {
            self.account.passed(bytes.len(), !bytes.is_empty());
        }
        if stream.is_reset || stream.resets_at_end.is_some() {
            return Ok(None);
        }
        if let Some(expected) = &mut stream.expected {
            match expected.checked_sub(bytes.len() as u64) {
                Some(left) => *expected = left,
                None => return self.wrong_length(slot, 0, now),
            }
        }
        if stream.is_unended {
            return Ok(None);
        }
        stream.unread += bytes.len() as u32;
        debug_assert!(!bytes.is_empty() && !stream.received_end, "bytes come after the end, or none come");
        Ok(Some(Event::Data { slot, bytes }))
    }

    /// The peer has sent everything on a stream.
    pub(super) fn message_ends<'b>(&mut self, slot: Slot, now: u64) -> Result<Option<Event<'b>>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if stream.is_reset {
            return Ok(None);
        }
        if stream.resets_at_end.is_some() && stream.expected.is_some() {
            self.note_end(slot);
            return Ok(None);
        }
        if let Some(missing) = stream.expected.filter(|left| *left > 0) {
            let event = self.wrong_length(slot, missing, now)?;
            if self.streams.get(slot).is_some_and(|stream| !stream.is_reset) {
                self.note_end(slot);
            }
            return Ok(event);
        }
        let is_told = !stream.is_unended;
        self.note_end(slot);
        Ok(is_told.then_some(Event::End { slot }))
    }

    /// A body is not as long as it was announced: nothing more of it is told. A server that has not answered still does; the
    /// stream is reset then (RFC 9113 section 8.1.1).
    pub(super) fn wrong_length<'b>(
        &mut self,
        slot: Slot,
        missing: u64,
        now: u64,
    ) -> Result<Option<Event<'b>>, ConnectionError> {
        let is_unended = self.streams.get(slot).is_some_and(|stream| stream.is_unended);
        if self.role == Role::Client || is_unended {
            return self.break_stream(slot, ErrorCode::PROTOCOL_ERROR, now);
        }
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if stream.resets_at_end.replace(ErrorCode::PROTOCOL_ERROR).is_some() {
            return Ok(None);
        }
        Ok(Some(Event::WrongLength { slot, missing }))
    }
}
