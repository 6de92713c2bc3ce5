//! Flow control (RFC 9113 section 5.2): how much a stream may queue, and how much the peer may send.

use super::connection::Connection;
use super::frame::{self, LARGEST_WINDOW, kind};
use super::stream::Slot;

/// Number of bytes of responses that wait in a connection before a further stream gets room.
const MOST_QUEUED: usize = 256 * 1024;

/// The most bytes that wait in one stream.
const MOST_OF_STREAM: usize = 64 * 1024;

/// Number of bytes that a stream without any may always queue.
const LEAST_OF_STREAM: usize = 16 * 1024;

/// The most bytes added to all receive windows of a connection.
pub(super) const LARGEST_GROWTH: u32 = 32 * 1024 * 1024;

const _: () = assert!(LEAST_OF_STREAM < MOST_OF_STREAM && MOST_OF_STREAM < MOST_QUEUED, "several streams have room");
const _: () = assert!(LARGEST_GROWTH < LARGEST_WINDOW / 2, "what has grown is counted in the connection's window");

impl Connection {
    /// Number of bytes that may be queued for the stream now. If there is no room, [`Connection::take_woken`] returns
    /// the stream when there may be some.
    pub fn room(&mut self, slot: Slot) -> usize {
        let Some(stream) = self.streams.get_mut(slot) else { return 0 };
        if stream.is_reset || stream.ends {
            return 0;
        }
        let most = if self.queued < MOST_QUEUED { MOST_OF_STREAM } else { LEAST_OF_STREAM };
        let by_stream = stream.send_window - stream.queued as i64;
        let by_connection = self.send_window - self.queued as i64;
        let window = usize::try_from(by_stream.min(by_connection)).unwrap_or(0);
        let room = window.min(most.saturating_sub(stream.queued));
        debug_assert!(stream.queued + room <= MOST_OF_STREAM.max(stream.queued), "a stream gets more than its part");
        stream.wants_room |= room == 0;
        room
    }

    /// Wakes the streams that wait for room, in the order in which they get it, since there may not be enough for all
    /// of them. The most urgent streams come first. Among equals, the order of incremental ones is by their last frame;
    /// streams whose responses are no use in parts come before them, by their numbers.
    pub(super) fn wake_waiting(&mut self) {
        for (slot, stream) in self.streams.iter_mut() {
            if std::mem::take(&mut stream.wants_room) {
                self.lists.with_room.push_back(slot);
            }
        }
        let order = |slot: &Slot| {
            let stream = self.streams.get(*slot)?;
            let since = if stream.priority.incremental { stream.sent_at } else { 0 };
            Some((stream.priority.urgency, since, stream.id))
        };
        if self.lists.with_room.len() > 1 {
            self.lists.with_room.make_contiguous().sort_by_key(order);
        }
    }

    /// Notes that the owner has read this many further bytes of the stream's body: the peer may send more. The window grows
    /// for a reader that keeps up, as far as the path needs it.
    pub fn consumed(&mut self, slot: Slot, count: usize) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let count = (count as u64).min(u64::from(stream.unread)) as u32;
        stream.unread -= count;
        stream.owed += count;
        stream.since_grown = stream.since_grown.saturating_add(count);
        debug_assert!(self.grown >= stream.grown, "one window has grown more than all");
        if stream.received_end || stream.is_reset || stream.is_unended || self.failure.is_some() {
            return;
        }
        let mut grown = 0;
        let may_grow = LARGEST_GROWTH.saturating_sub(self.grown);
        // A window that was used up once, while the reader had nothing left to read, is what holds the peer back.
        if stream.since_grown >= stream.receive_size && stream.unread <= stream.receive_size / 4 {
            let size = stream.receive_size.saturating_mul(2).min(self.largest_window).max(stream.receive_size);
            grown = (size - stream.receive_size).min(may_grow);
            stream.receive_size += grown;
            stream.grown += grown;
            self.grown += grown;
            stream.since_grown = 0;
        }
        if grown > 0 || stream.owed >= stream.receive_size / 2 {
            let more = stream.owed + grown;
            if more > 0 {
                stream.owed = 0;
                stream.receive_window += i64::from(more);
                debug_assert!(stream.receive_window <= i64::from(stream.receive_size), "more is given than was read");
                let id = stream.id;
                self.out.with(|out| frame::write(kind::WINDOW_UPDATE, 0, id, &more.to_be_bytes(), out));
            }
        }
    }

    /// Bounds what the receive windows of streams grow to, in bytes, for readers that keep up: as much may have to be kept
    /// when one of them stops.
    pub fn limit_windows(&mut self, most: u32) {
        self.largest_window = most;
    }

    /// Makes the stream's window at least this large: a reader is there. A server may begin with windows of no size at
    /// all (`http2_body_preread_size 0`).
    pub fn open_window(&mut self, slot: Slot, size: u32) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let is_over = stream.received_end || stream.is_reset || stream.is_unended;
        if is_over || stream.receive_size >= size || self.failure.is_some() {
            return;
        }
        let grown = (size - stream.receive_size).min(LARGEST_GROWTH.saturating_sub(self.grown));
        stream.receive_size += grown;
        stream.grown += grown;
        self.grown += grown;
        stream.owed += grown;
        if stream.owed > 0 {
            self.lists.opened.push(slot);
        }
    }

    /// Whether the peer is to be told that windows were [opened](Connection::open_window).
    pub(super) fn has_opened(&self) -> bool {
        !self.lists.opened.is_empty()
    }

    /// Tells the peer which windows were opened. Most bodies are short, and have come already with their heads: nothing
    /// is said of these.
    pub(super) fn tell_opened(&mut self) {
        while let Some(slot) = self.lists.opened.pop() {
            let Some(stream) = self.streams.get_mut(slot) else { continue };
            let is_over = stream.received_end || stream.is_reset || stream.is_unended;
            if is_over || stream.owed == 0 || self.failure.is_some() {
                continue;
            }
            let more = std::mem::take(&mut stream.owed);
            stream.receive_window += i64::from(more);
            debug_assert!(stream.receive_window <= i64::from(stream.receive_size), "more is given than was read");
            let id = stream.id;
            self.out.with(|out| frame::write(kind::WINDOW_UPDATE, 0, id, &more.to_be_bytes(), out));
        }
    }
}
