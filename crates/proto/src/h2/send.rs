//! Messages that a stream sends: heads, bodies and trailers, and how they become frames.

use std::io::IoSlice;

use bytes::Bytes;

use super::connection::{Connection, StreamEnd};
use super::frame::{FRAME_HEAD, FrameHead, flag, kind};
use super::hpack::Encoder;
use super::payload::{Elsewhere, Payload};
use super::stream::{Slot, TrailerField};
use crate::role::Role;

/// The most bytes that may be ready to be written for another frame to be put behind them at once, whatever comes
/// later.
const DIRECT: usize = 32 * 1024;
const _: () = assert!(DIRECT > FRAME_HEAD + super::frame::DEFAULT_FRAME_SIZE as usize, "one frame does not reach it");

impl Connection {
    /// Sends a head, whose fields `write` encodes; `ends` says that nothing follows. A server may send heads of interim
    /// responses before the final one.
    pub fn head(&mut self, slot: Slot, ends: bool, write: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.is_reset || stream.ends || self.failure.is_some() {
            return;
        }
        stream.ends = ends;
        self.fields(slot, ends, write);
        if ends {
            self.sent_everything(slot);
        }
    }

    /// Writes `HEADERS`, and `CONTINUATION` if the fields do not fit one frame.
    fn fields(&mut self, slot: Slot, ends: bool, write: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let (id, before) = (stream.id, self.out.pending());
        let most = self.peer.max_frame_size as usize;
        let flags = if ends { flag::END_STREAM } else { 0 };
        let encoder = &mut self.encoder;
        self.out.with(|out| {
            let start = out.len();
            out.extend_from_slice(&[0; FRAME_HEAD]);
            encoder.begin(out);
            write(encoder, out);
            debug_assert!(out.len() >= start + FRAME_HEAD, "the encoder has removed what stood before its block");
            let len = out.len() - start - FRAME_HEAD;
            if len <= most {
                let head =
                    FrameHead { len: len as u32, kind: kind::HEADERS, flags: flags | flag::END_HEADERS, stream: id };
                out[start..start + FRAME_HEAD].copy_from_slice(&head.bytes());
                return;
            }
            let block = out.split_off(start + FRAME_HEAD);
            out.truncate(start);
            let mut parts = block.chunks(most).peekable();
            let (mut kind, mut flags) = (kind::HEADERS, flags);
            while let Some(part) = parts.next() {
                if parts.peek().is_none() {
                    flags |= flag::END_HEADERS;
                }
                out.extend_from_slice(&FrameHead { len: part.len() as u32, kind, flags, stream: id }.bytes());
                out.extend_from_slice(part);
                (kind, flags) = (kind::CONTINUATION, 0);
            }
        });
        stream.sent += (self.out.pending() - before) as u64;
    }

    /// Sends a piece of a body, no longer than the [room](Connection::room); `ends` says that nothing follows.
    pub fn data(&mut self, slot: Slot, bytes: Bytes, ends: bool) {
        self.send_body(slot, bytes.into(), ends);
    }

    /// Sends a piece of a body that is not in memory: when it is to be written, [`Connection::elsewhere`] has it. It is no
    /// longer than the [room](Connection::room); `ends` says that nothing follows.
    pub fn data_elsewhere(&mut self, slot: Slot, piece: Elsewhere, ends: bool) {
        self.send_body(slot, Payload::Elsewhere(piece), ends);
    }

    fn send_body(&mut self, slot: Slot, piece: Payload, ends: bool) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.is_reset || stream.ends || self.failure.is_some() {
            return;
        }
        stream.ends = ends;
        // Nearly always nothing waits, and everything fits.
        let window =
            stream.send_window.min(self.send_window).min(i64::from(stream.chunk.min(self.peer.max_frame_size)));
        if self.schedule.is_empty()
            && stream.queued == 0
            && piece.len() as i64 <= window
            && self.out.pending() < DIRECT
            && (ends || piece.len() > 0)
        {
            return self.send_directly(slot, piece, ends);
        }
        if piece.len() > 0 {
            self.queued += piece.len();
            stream.queued += piece.len();
            stream.queue.push_back(piece);
        }
        self.make_ready(slot);
    }

    /// Writes a frame for which nothing has to wait.
    fn send_directly(&mut self, slot: Slot, piece: Payload, ends: bool) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let len = piece.len();
        debug_assert!(stream.queued == 0 && stream.trailers.is_none(), "a piece overtakes others of its stream");
        debug_assert!(len as i64 <= stream.send_window.min(self.send_window).max(0), "a window is overdrawn");
        stream.send_window -= len as i64;
        self.send_window -= len as i64;
        let flags = if ends { flag::END_STREAM } else { 0 };
        let head = FrameHead { len: len as u32, kind: kind::DATA, flags, stream: stream.id };
        self.out.with(|out| out.extend_from_slice(&head.bytes()));
        self.out.payload(piece);
        stream.sent += (FRAME_HEAD + len) as u64;
        self.progress += 1;
        stream.sent_at = self.progress;
        let is_whole = stream.send_window > 0 && self.send_window > 0;
        self.account.passed(len, is_whole);
        if ends {
            self.sent_everything(slot);
        }
    }

    /// Sends trailers behind the body, which end the stream. The names are in lower case, and none is a pseudo-field.
    pub fn trailers(&mut self, slot: Slot, fields: Vec<TrailerField>) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.is_reset || stream.ends || self.failure.is_some() {
            return;
        }
        stream.ends = true;
        stream.trailers = Some(fields);
        self.make_ready(slot);
    }

    /// Puts a stream among those that can send, if it can.
    pub(super) fn make_ready(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        debug_assert!(!stream.is_ready || !stream.is_reset, "a stream that was reset waits for its turn");
        if !stream.is_ready && stream.can_send() {
            stream.is_ready = true;
            let priority = stream.priority;
            self.schedule.push(slot, priority);
        }
    }

    /// Whether there is anything to write, or to bring into order for it.
    pub fn wants_to_write(&self) -> bool {
        self.out.pending() > 0 || self.has_opened() || !self.schedule.is_empty() && self.can_fill()
    }

    /// Whether a stream can send something in spite of the connection's window.
    fn can_fill(&self) -> bool {
        self.send_window > 0 || self.queued == 0
    }

    /// Brings bytes of streams into their final order, until `most` are to be written. To be called right before
    /// writing: what comes later, and is more urgent, cannot overtake them. Returns whether streams are held back that
    /// can send, because more urgent ones have sent all that they had, and their owners may have more of it at once.
    /// They go on when the owners have had [their turn](Connection::owners_had_their_turn).
    pub fn fill(&mut self, most: usize) -> bool {
        if self.has_opened() {
            self.tell_opened();
        }
        while self.out.pending() < most {
            let Some(slot) = self.schedule.pop() else { return false };
            let Some(stream) = self.streams.get_mut(slot) else { continue };
            debug_assert!(stream.is_ready && !stream.is_reset, "stream {} has no turn", stream.id);
            if self.awaited.is_some_and(|awaited| awaited < stream.priority.urgency) {
                let priority = stream.priority;
                self.schedule.put_back(slot, priority);
                return true;
            }
            if stream.queued > 0 && self.send_window <= 0 {
                let priority = stream.priority;
                self.schedule.put_back(slot, priority);
                // Only ends of streams, which need no window, may go before it.
                self.send_ends();
                return false;
            }
            stream.is_ready = false;
            let priority = stream.priority;
            self.send_some(slot);
            let Some(stream) = self.streams.get_mut(slot) else { continue };
            if !stream.ends && !stream.is_reset && stream.queued == 0 && stream.send_window > 0 {
                let urgency = self.awaited.get_or_insert(priority.urgency);
                *urgency = priority.urgency.min(*urgency);
            }
            if stream.can_send() {
                stream.is_ready = true;
                if priority.incremental {
                    self.schedule.push(slot, priority)
                } else {
                    self.schedule.put_back(slot, priority)
                }
            }
        }
        false
    }

    /// Notes that the owners of streams that were [woken](Connection::take_woken) could send more: nobody waits any
    /// longer for an owner that has not done so.
    pub fn owners_had_their_turn(&mut self) {
        self.awaited = None;
    }

    /// Whether everything that was given to the stream is among the bytes to write, with its end. If not, the stream is among
    /// [`Connection::take_woken`] when it is.
    pub fn is_sent(&mut self, slot: Slot) -> bool {
        let Some(stream) = self.streams.get_mut(slot) else { return true };
        stream.awaits_end |= !stream.sent_end;
        stream.sent_end
    }

    /// The number of bytes that the frames of the stream's message have taken so far.
    pub fn sent_bytes(&self, slot: Slot) -> u64 {
        self.streams.get(slot).map_or(0, |stream| stream.sent)
    }

    /// Whether the peer's windows hold back what the stream would send.
    pub fn is_held(&self, slot: Slot) -> bool {
        self.send_window <= 0 || self.streams.get(slot).is_some_and(|stream| stream.send_window <= 0)
    }

    /// A number that grows whenever the peer lets a stream send something.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Sends the ends of streams that have nothing else to send.
    fn send_ends(&mut self) {
        let all: Vec<Slot> =
            self.streams.iter_mut().filter(|(_, s)| s.is_ready && s.queued == 0).map(|(slot, _)| slot).collect();
        for slot in all {
            self.schedule.remove(slot);
            if let Some(stream) = self.streams.get_mut(slot) {
                stream.is_ready = false;
            }
            self.send_some(slot);
        }
    }

    /// Writes a frame of this stream, and what ends it if nothing else is left.
    fn send_some(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.queued > 0 {
            let window = stream.send_window.min(self.send_window);
            let most = stream.chunk.min(self.peer.max_frame_size) as usize;
            let len = stream.queued.min(most).min(usize::try_from(window).unwrap_or(0));
            if len == 0 {
                return;
            }
            let is_last = len == stream.queued && stream.ends && stream.trailers.is_none();
            let flags = if is_last { flag::END_STREAM } else { 0 };
            let head = FrameHead { len: len as u32, kind: kind::DATA, flags, stream: stream.id };
            self.out.with(|out| out.extend_from_slice(&head.bytes()));
            let mut left = len;
            while left > 0 {
                let Some(piece) = stream.queue.front_mut() else { break };
                let part = piece.split_to(left.min(piece.len()));
                if piece.len() == 0 {
                    stream.queue.pop_front();
                }
                left -= part.len();
                self.out.payload(part);
            }
            debug_assert_eq!(left, 0, "the queue is as long as it says");
            debug_assert!(len as i64 <= stream.send_window.min(self.send_window), "a window is overdrawn");
            debug_assert!(stream.queued >= len && self.queued >= stream.queued, "more is sent than is queued");
            stream.queued -= len;
            stream.send_window -= len as i64;
            self.send_window -= len as i64;
            self.queued -= len;
            stream.sent += (FRAME_HEAD + len) as u64;
            self.progress += 1;
            stream.sent_at = self.progress;
            let is_whole = stream.send_window > 0 && self.send_window > 0;
            self.account.passed(len, is_whole);
            if std::mem::take(&mut stream.wants_room) {
                self.lists.with_room.push_back(slot);
            }
            if is_last {
                self.sent_everything(slot);
                return;
            }
        }
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.queued > 0 || !stream.ends {
            return;
        }
        let id = stream.id;
        match stream.trailers.take() {
            Some(fields) => self.fields(slot, true, |encoder, out| {
                fields.iter().for_each(|(name, value)| encoder.field(name, value, out));
            }),
            None => {
                let head = FrameHead { len: 0, kind: kind::DATA, flags: flag::END_STREAM, stream: id };
                self.out.with(|out| out.extend_from_slice(&head.bytes()));
                stream.sent += FRAME_HEAD as u64;
            }
        }
        self.sent_everything(slot);
    }

    /// Notes that the end of the stream is among the bytes to write.
    fn sent_everything(&mut self, slot: Slot) {
        let role = self.role;
        let Some(stream) = self.streams.get_mut(slot) else { return };
        debug_assert!(!stream.sent_end && !stream.is_reset, "stream {} ends twice", stream.id);
        debug_assert!(stream.queued == 0 && stream.trailers.is_none(), "stream {} ends too early", stream.id);
        stream.sent_end = true;
        stream.ends = true;
        if std::mem::take(&mut stream.awaits_end) {
            self.lists.with_room.push_back(slot);
        }
        if role == Role::Client || stream.stays_open {
            if stream.received_end {
                self.close(slot, StreamEnd::Complete);
            }
            return;
        }
        self.progress += 1;
        let (id, is_complete) = (stream.id, stream.received_end);
        if let Some(code) = stream.resets_at_end {
            self.write_reset(id, code);
            self.close(slot, StreamEnd::ResetHere);
            if let Err(flood) = self.account.torn_down(self.now) {
                // Whoever gives the next bytes to the connection is told.
                self.fail(flood.into());
            }
            return;
        }
        self.account.answered();
        if is_complete { self.close(slot, StreamEnd::Complete) } else { self.answered_early(slot) }
    }

    /// The number of bytes that are ready to be written.
    pub fn pending(&self) -> usize {
        self.out.pending()
    }

    /// The bytes to write next, if they are not in memory: they are written by other means than [`Connection::parts`], or
    /// given to [`Connection::supply`].
    pub fn elsewhere(&self) -> Option<&Elsewhere> {
        self.out.elsewhere()
    }

    /// Puts bytes that were read meanwhile in the place of the first ones of [`Connection::elsewhere`].
    pub fn supply(&mut self, bytes: Bytes) {
        self.out.supply(bytes);
    }

    /// Fills `parts` with the bytes to write, as far as they are in memory, and returns how many parts there are.
    pub fn parts<'o>(&'o self, parts: &mut [IoSlice<'o>]) -> usize {
        self.out.parts(parts)
    }

    /// Notes that the first `count` bytes were written.
    pub fn wrote(&mut self, count: usize) {
        self.out.wrote(count);
    }
}
