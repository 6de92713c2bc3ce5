//! The streams of requests: the number and the state of each, and the table in which they are found.

use super::frame::H3ErrorCode;
use super::reader::FrameReader;
use crate::priority::Priority;

/// The number of a QUIC stream (RFC 9000 section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// Whether the client has begun the stream; otherwise the server has.
    pub const fn is_of_client(self) -> bool {
        self.0 & 1 == 0
    }

    /// Whether both sides send on it. Otherwise only the side does that has begun it.
    pub const fn is_bidirectional(self) -> bool {
        self.0 & 2 == 0
    }

    /// Whether a request may be on it.
    pub const fn is_of_request(self) -> bool {
        self.0 & 3 == 0
    }
}

/// The bytes of a section of fields that have come. It is in a box, because most sections come whole.
#[derive(Debug, Default)]
pub(super) struct Fragment(pub(super) Vec<u8>);

/// The part of a message that is received next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessagePart {
    /// The head; for a client, the final one.
    Head,
    /// The body, or trailers.
    Body,
    /// The end.
    End,
}

/// A stream that has begun.
#[derive(Debug)]
pub(super) struct RequestStream {
    pub(super) reader: FrameReader,
    /// The part of a section of fields that has come, or a section that waits for entries of the table.
    pub(super) fragment: Option<Box<Fragment>>,
    /// Number of bytes of the body that are still to come, by `Content-Length`.
    pub(super) expected: Option<u64>,
    /// Number of bytes that the frames of its message have taken.
    pub(super) sent: u64,
    /// The request was malformed: the end of the response says so.
    pub(super) stops_at_end: Option<H3ErrorCode>,
    pub(super) priority: Priority,
    /// Its priority came by a frame, which counts more than the field of the request.
    pub(super) has_priority: bool,
    pub(super) part: MessagePart,
    /// The section in `fragment` waits for entries of the table.
    pub(super) is_blocked: bool,
    /// The stream is in the list of streams whose heads have not come.
    pub(super) is_awaited: bool,
    /// The peer has sent everything, or nobody reads the rest.
    pub(super) received_end: bool,
    /// Everything was sent on this side.
    pub(super) sent_end: bool,
    /// The stream was reset, by either side.
    pub(super) is_reset: bool,
    /// The stream is a tunnel: the peer may go on when this side has sent everything.
    pub(super) stays_open: bool,
    /// The owner still uses the stream.
    pub(super) is_attached: bool,
}

impl RequestStream {
    pub(super) const fn new(is_attached: bool) -> RequestStream {
        RequestStream {
            reader: FrameReader::new(),
            fragment: None,
            expected: None,
            sent: 0,
            stops_at_end: None,
            priority: Priority::UNKNOWN,
            has_priority: false,
            part: MessagePart::Head,
            is_blocked: false,
            is_awaited: false,
            received_end: false,
            sent_end: false,
            is_reset: false,
            stays_open: false,
            is_attached,
        }
    }

    /// Whether neither side sends anything more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_reset || self.received_end && self.sent_end
    }

    /// The number of bytes that are kept of a section.
    pub(super) fn fragment_len(&self) -> usize {
        self.fragment.as_ref().map_or(0, |fragment| fragment.0.len())
    }
}

/// The streams of a connection that are not closed, or whose owners have not released them; a pointer as long as there
/// were none.
#[derive(Debug, Default)]
pub(super) struct RequestStreamTable(Option<Box<RequestPlaces>>);

/// Invariants: `free` has exactly the empty places, each once. `ids` ascends and names every place in use once.
#[derive(Debug, Default)]
struct RequestPlaces {
    places: Vec<Option<RequestStream>>,
    free: Vec<u32>,
    ids: Vec<(StreamId, u32)>,
}

impl RequestPlaces {
    #[inline]
    fn place(&self, id: StreamId) -> Option<usize> {
        // The usual lookup is about the stream that began last.
        if let Some((last, place)) = self.ids.last()
            && *last == id
        {
            return Some(*place as usize);
        }
        let at = self.ids.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.ids[at].1 as usize)
    }
}

impl RequestStreamTable {
    /// The stream with this number.
    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Option<&RequestStream> {
        let table = self.0.as_ref()?;
        table.places.get(table.place(id)?)?.as_ref()
    }

    /// The stream with this number.
    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut RequestStream> {
        let table = self.0.as_mut()?;
        let place = table.place(id)?;
        table.places.get_mut(place)?.as_mut()
    }

    /// Puts in a stream whose number is not in the table. Streams begin in nearly the order of their numbers.
    pub(super) fn insert(&mut self, id: StreamId, stream: RequestStream) {
        let RequestPlaces { places, free, ids } = &mut **self.0.get_or_insert_default();
        let Err(at) = ids.binary_search_by_key(&id, |(id, _)| *id) else {
            debug_assert!(false, "stream {} begins twice", id.0);
            return;
        };
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
        ids.insert(at, (id, place));
    }

    /// Takes a stream out.
    pub(super) fn remove(&mut self, id: StreamId) -> Option<RequestStream> {
        let RequestPlaces { places, free, ids } = self.0.as_deref_mut()?;
        let at = ids.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, place) = ids.remove(at);
        free.push(place);
        places.get_mut(place as usize)?.take()
    }

    /// Resets all streams, and takes those out that have no owners.
    pub(super) fn reset_all(&mut self) {
        let Some(RequestPlaces { places, free, ids }) = self.0.as_deref_mut() else { return };
        ids.retain(|(_, place)| {
            let Some(stream) = &mut places[*place as usize] else { return false };
            stream.is_reset = true;
            stream.fragment = None;
            (stream.is_blocked, stream.is_awaited) = (false, false);
            if !stream.is_attached {
                places[*place as usize] = None;
                free.push(*place);
            }
            places[*place as usize].is_some()
        });
    }

    /// Gives up the memory, if no stream is there.
    pub(super) fn shrink(&mut self) {
        if self.used() == 0 {
            self.0 = None;
        }
    }

    /// Number of streams in the table.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.ids.len())
    }

    /// All streams.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamId, &RequestStream)> {
        let table = self.0.iter().flat_map(|table| table.ids.iter().map(move |entry| (&table.places, entry)));
        table.filter_map(|(places, (id, place))| Some((*id, places.get(*place as usize)?.as_ref()?)))
    }

    /// Compares the lists with the places.
    pub(super) fn check_invariants(&self) {
        let Some(RequestPlaces { places, free, ids }) = self.0.as_deref() else { return };
        let empty = places.iter().filter(|place| place.is_none()).count();
        debug_assert_eq!(free.len(), empty, "not every empty place is free");
        debug_assert_eq!(ids.len(), places.len() - empty, "a stream could not be found, or is there twice");
        debug_assert!(ids.is_sorted_by(|one, other| one.0 < other.0), "a stream could not be found");
        for (id, place) in ids {
            debug_assert!(places[*place as usize].is_some(), "stream {} is elsewhere", id.0);
        }
    }

    /// Number of bytes of memory on the heap, besides fragments.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |table| {
            size_of::<RequestPlaces>()
                + table.places.capacity() * size_of::<Option<RequestStream>>()
                + table.free.capacity() * size_of::<u32>()
                + table.ids.capacity() * size_of::<(StreamId, u32)>()
        })
    }
}
