//! The streams of a connection: the state of each (RFC 9113 section 5.1), and the table in which they are found.

use std::collections::VecDeque;

use bytes::Bytes;

use super::payload::Payload;
use crate::priority::Priority;

/// The place of a stream in the table of its connection. The place is not given to another stream before
/// [`Connection::release`](super::Connection::release).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub(super) u32);

impl Slot {
    /// The number of the place, from 0; places of streams that are gone are used again.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A field of trailers: name and value.
pub type TrailerField = (Bytes, Bytes);

/// A stream that has begun.
///
/// Invariants: `queued` is the sum over the queue. Nothing is queued on a stream that was reset or has sent its end.
/// Trailers stand behind the end of what is appended. What was read and not told (`owed`) fits into the window.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Number of bytes of `DATA` that the peer takes; negative after the peer has made its initial window smaller.
    pub(super) send_window: i64,
    /// Number of bytes of `DATA` that the peer may send.
    pub(super) receive_window: i64,
    /// Size of the receive window when it is open.
    pub(super) receive_size: u32,
    /// Number of received bytes that have not been given back to the window.
    pub(super) unread: u32,
    /// Number of bytes that were read and not yet announced to the peer.
    pub(super) owed: u32,
    /// Number of bytes added to the receive window.
    pub(super) grown: u32,
    /// Number of bytes that were read since the window was made larger.
    pub(super) since_grown: u32,
    /// Number of bytes of the body that are still to come, by `Content-Length`.
    pub(super) expected: Option<u64>,
    /// The bytes to send.
    pub(super) queue: VecDeque<Payload>,
    /// Number of bytes in `queue`.
    pub(super) queued: usize,
    /// The trailers that follow them.
    pub(super) trailers: Option<Vec<TrailerField>>,
    /// The largest payload of a `DATA` frame.
    pub(super) chunk: u32,
    pub(super) priority: Priority,
    /// The peer has sent everything.
    pub(super) received_end: bool,
    /// A client has received the final head of the response.
    pub(super) received_head: bool,
    /// Nothing is appended to the queue any more.
    pub(super) ends: bool,
    /// Everything is among the bytes to write, or was written.
    pub(super) sent_end: bool,
    /// The stream was reset, by either side.
    pub(super) is_reset: bool,
    /// The request was malformed: the stream is reset when the response is complete.
    pub(super) resets_at_end: Option<super::ErrorCode>,
    /// A server has answered it, and the request has not ended.
    pub(super) is_unended: bool,
    /// The stream is a tunnel: the peer may go on when this side has sent everything.
    pub(super) stays_open: bool,
    /// The owner still uses the slot.
    pub(super) is_attached: bool,
    /// The stream stands in the queue of streams that can send.
    pub(super) is_ready: bool,
    /// The owner waits for room.
    pub(super) wants_room: bool,
    /// The owner waits until everything is among the bytes to write.
    pub(super) awaits_end: bool,
    /// The number of the last of its frames among all of the connection.
    pub(super) sent_at: u64,
    /// Its priority came by a frame, which counts more than the field of the request.
    pub(super) has_priority: bool,
    /// Number of bytes that the frames of its message have taken.
    pub(super) sent: u64,
}

impl Stream {
    pub(super) fn new(id: u32, send_window: u32, receive_window: u32, chunk: u32) -> Stream {
        Stream {
            id,
            send_window: i64::from(send_window),
            receive_window: i64::from(receive_window),
            receive_size: receive_window,
            unread: 0,
            owed: 0,
            grown: 0,
            since_grown: 0,
            expected: None,
            queue: VecDeque::new(),
            queued: 0,
            trailers: None,
            chunk,
            priority: Priority::UNKNOWN,
            received_end: false,
            received_head: false,
            ends: false,
            sent_end: false,
            is_reset: false,
            resets_at_end: None,
            is_unended: false,
            stays_open: false,
            is_attached: true,
            is_ready: false,
            wants_room: false,
            awaits_end: false,
            sent_at: 0,
            has_priority: false,
            sent: 0,
        }
    }

    /// Asserts the invariants.
    pub(super) fn check_invariants(&self) {
        let queued: usize = self.queue.iter().map(Payload::len).sum();
        debug_assert_eq!(self.queued, queued, "stream {} counts its bytes wrong", self.id);
        debug_assert!(!(self.is_reset || self.sent_end) || queued == 0, "stream {} is over and would send", self.id);
        debug_assert!(!self.sent_end || self.ends, "stream {} has sent an end that nobody gave", self.id);
        debug_assert!(self.trailers.is_none() || self.ends, "something may follow the trailers");
        debug_assert!(!self.sent_end || self.trailers.is_none(), "the trailers were left out");
        debug_assert!(!self.is_unended || self.sent_end && !self.received_end, "a stream waits for an end that came");
        debug_assert!(!self.is_ready || !self.is_reset, "a stream that was reset waits for its turn");
        debug_assert!(self.receive_window <= i64::from(self.receive_size), "more may come than the window holds");
        debug_assert!(self.grown <= self.receive_size, "a window has grown from below nothing");
        let most = i64::from(super::frame::LARGEST_WINDOW);
        debug_assert!(self.is_reset || self.send_window <= most, "a window is too large");
    }

    /// Whether neither side sends anything more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_reset || self.received_end && self.sent_end
    }

    /// Whether there is something to hand to the connection that no window holds back.
    pub(super) fn can_send(&self) -> bool {
        !self.is_reset && !self.sent_end && (self.queued > 0 && self.send_window > 0 || self.queued == 0 && self.ends)
    }

    /// Forgets what is queued, because the stream was reset.
    pub(super) fn reset(&mut self) {
        self.is_reset = true;
        self.queue = VecDeque::new();
        self.queued = 0;
        self.trailers = None;
    }
}

/// The streams of a connection; a pointer as long as there were none, or the memory was left to another connection.
#[derive(Debug, Default)]
pub(super) struct StreamTable(Option<Box<Places>>);

/// Invariants: `free` has exactly the empty places, each once. `ids` ascends and names places that are in use. Two streams
/// in one place would get each other's bytes, so this is checked in every build.
#[derive(Debug, Default)]
struct Places {
    places: Vec<Option<Stream>>,
    free: Vec<u32>,
    /// The ids of streams that are not closed, in ascending order, with their places.
    ids: Vec<(u32, u32)>,
}

impl StreamTable {
    /// The stream in this place.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&Stream> {
        self.0.as_ref()?.places.get(slot.index())?.as_ref()
    }

    /// The stream in this place.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Stream> {
        self.0.as_mut()?.places.get_mut(slot.index())?.as_mut()
    }

    /// The place of the stream with this id, unless it is closed or has not begun.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<Slot> {
        let ids = &self.0.as_ref()?.ids;
        // The usual lookup is about the stream that began last.
        if let Some((last, place)) = ids.last()
            && *last == id
        {
            return Some(Slot(*place));
        }
        let at = ids.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(Slot(ids[at].1))
    }

    /// Puts in a stream, whose id is higher than those before.
    pub(super) fn insert(&mut self, stream: Stream) -> Slot {
        let Places { places, free, ids } = &mut **self.0.get_or_insert_default();
        debug_assert!(ids.last().is_none_or(|(id, _)| *id < stream.id), "ids only grow");
        let id = stream.id;
        let place = match free.pop() {
            Some(place) => {
                assert!(places[place as usize].is_none(), "place {place} is given to a second stream");
                places[place as usize] = Some(stream);
                place
            }
            None => {
                places.push(Some(stream));
                (places.len() - 1) as u32
            }
        };
        ids.push((id, place));
        Slot(place)
    }

    /// Notes that the stream with this id is closed: it is not found by it any more.
    pub(super) fn close(&mut self, id: u32) {
        let Some(Places { ids, .. }) = self.0.as_deref_mut() else { return };
        if let Ok(at) = ids.binary_search_by_key(&id, |(id, _)| *id) {
            ids.remove(at);
        }
    }

    /// Notes that all streams are closed.
    pub(super) fn close_all(&mut self) {
        if let Some(table) = &mut self.0 {
            table.ids.clear();
        }
    }

    /// Takes a stream out.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(Places { places, free, .. }) = self.0.as_deref_mut() else { return };
        if let Some(place) = places.get_mut(slot.index())
            && place.take().is_some()
        {
            debug_assert!(free.len() < places.len(), "a place is free twice");
            free.push(slot.0);
        }
    }

    /// Compares the lists with the places.
    pub(super) fn check_invariants(&self) {
        let Some(Places { places, free, ids }) = self.0.as_deref() else { return };
        let empty = places.iter().filter(|place| place.is_none()).count();
        debug_assert_eq!(free.len(), empty, "not every empty place is free");
        debug_assert!(ids.len() <= places.len() - empty, "more streams are open than there are");
        debug_assert!(ids.is_sorted_by(|one, other| one.0 < other.0), "a stream could not be found");
        for (id, place) in ids {
            let found = places[*place as usize].as_ref();
            debug_assert!(found.is_some_and(|stream| stream.id == *id && !stream.is_reset), "stream {id} is elsewhere");
        }
        places.iter().flatten().for_each(Stream::check_invariants);
    }

    /// Number of streams that are not closed.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.ids.len())
    }

    /// Number of places in use: by open streams, and by closed ones whose owners have not released them.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.places.len() - table.free.len())
    }

    /// All streams.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut Stream)> {
        let places = self.0.iter_mut().flat_map(|table| &mut table.places).enumerate();
        places.filter_map(|(place, stream)| Some((Slot(place as u32), stream.as_mut()?)))
    }

    /// Number of places, with empty ones.
    pub(super) fn places(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.places.len())
    }

    /// Number of bytes of memory on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |table| {
            size_of::<Places>()
                + table.places.capacity() * size_of::<Option<Stream>>()
                + table.free.capacity() * size_of::<u32>()
                + table.ids.capacity() * size_of::<(u32, u32)>()
        })
    }
}
