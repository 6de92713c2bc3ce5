//! Streams that were answered before their requests have ended.
//!
//! Nobody reads the rest of such a request, and a server may say so by a reset without an error (RFC 9113 section 8.1).
//! But a short rest is mostly on its way, and a client that has sent it is done. So the stream stays half-closed: what
//! still comes is judged by the same rules as before, and thrown away. The reset is sent when the client would need
//! more window to go on. It is also sent to the stream that has waited longest when there are too many of them, and to
//! those that have waited for too long.

use super::connection::{Connection, StreamEnd};
use super::frame::ErrorCode;
use super::stream::{Slot, Stream};

/// The number of answered streams that may wait for the ends of their requests, however many streams a client may have.
const UNENDED: usize = 16;

impl Connection {
    /// Notes that a stream is answered whose request has not ended.
    pub(super) fn answered_early(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        debug_assert!(stream.sent_end && !stream.received_end && !stream.is_unended, "the stream waits for no end");
        stream.is_unended = true;
        if stream.needs_window(0) {
            return self.cut_off(slot);
        }
        self.lists.unended.push_back((slot, self.now));
        // A client whose only stream this is could begin no other one.
        if self.lists.unended.len() > UNENDED.min(self.max_streams as usize / 2) {
            self.cut_off_one();
        }
    }

    /// Resets the answered stream that has waited longest for the end of its request.
    pub(super) fn cut_off_one(&mut self) {
        let before = self.lists.unended.len();
        if let Some((slot, _)) = self.lists.unended.front() {
            self.cut_off(*slot);
        }
        // Otherwise the oldest stream would be cut off for ever.
        debug_assert!(before == 0 || self.lists.unended.len() < before, "the stream still waits");
    }

    /// Since when an answered stream waits for the end of its request, in milliseconds: the time at which bytes had come last when
    /// it was answered.
    pub fn unended_since(&self) -> Option<u64> {
        self.lists.unended.front().map(|(_, since)| *since)
    }

    /// Resets the answered streams that have waited for the ends of their requests since this time, or for longer.
    pub fn cut_off_until(&mut self, time: u64) {
        while self.unended_since().is_some_and(|since| since <= time) {
            self.cut_off_one();
        }
    }

    /// Tells the client that nobody reads the rest of the request.
    pub(super) fn cut_off(&mut self, slot: Slot) {
        let Some(stream) = self.streams.get(slot) else { return };
        let id = stream.id;
        self.write_reset(id, ErrorCode::NO_ERROR);
        self.close(slot, StreamEnd::ResetHere);
    }

    /// Notes that an answered stream is closed.
    pub(super) fn forget_unended(&mut self, slot: Slot) {
        self.lists.unended.retain(|(other, _)| *other != slot);
    }

    /// The number of answered streams without an owner: nothing goes on in them.
    pub(super) fn left_over(&self) -> usize {
        let is_left = |(slot, _): &&(Slot, u64)| self.streams.get(*slot).is_some_and(|stream| !stream.is_attached);
        self.lists.unended.iter().filter(is_left).count()
    }
}

impl Stream {
    /// Whether the rest of the request needs more window than there is. A frame of `len` bytes has been taken from the
    /// window already.
    pub(super) fn needs_window(&self, len: u32) -> bool {
        match self.expected {
            Some(left) => left > u64::try_from(self.receive_window + i64::from(len)).unwrap_or(0),
            // How much it is cannot be known.
            None => self.receive_window < i64::from(self.receive_size / 2),
        }
    }
}
