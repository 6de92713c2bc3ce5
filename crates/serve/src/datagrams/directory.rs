//! Which loop has the sessions of which clients at an address for datagrams, as far as other threads have to know it.
//!
//! The kernel gives a client's datagrams to one of the sockets of the address, and the loop that reads the socket has the
//! client's sessions. While that loop is late, another thread reads in its place, and must not begin a second session of a
//! client that has one:
//!
//! - a [`Part`], one for each socket, counts the clients with sessions there by a hash, so that whoever finds a count of
//!   zero knows that the client has none; datagrams of others are kept for the loop;
//! - a session that begins at another part than the one whose socket the client's datagrams come to is a *stray*. The
//!   [`Directory`] knows it until it ends, and whoever gets its datagrams hands them on.
//!
//! Nobody waits: a part is read by whoever gets hold of it first, and the other one goes on with something else.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, TryLockError};

use arc_swap::ArcSwap;
use freerun_runtime::net::udp::{BATCH, Received};
use rustc_hash::{FxBuildHasher, FxHasher};
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::copied::Copied;

/// How many counts of clients a part has. Clients that share a count with one that has a session wait for the loop that is
/// late: one in four with 16,384 sessions.
const COUNTS: usize = ROWS * ROW;

/// The counts are made in rows, when a client comes whose hash leads there: with few clients they take little memory.
const ROWS: usize = 64;
const ROW: usize = 1024;

/// The most strays of an address. While there are so many, new clients wait for the loop that is late.
const MOST_STRAYS: usize = 4096;

/// The most bytes that are kept for a loop that is late; further ones stay in the kernel's queue. What is read with one call
/// may exceed it once.
const MOST_KEPT: usize = 1024 * 1024;

/// The most datagrams, or runs of them, on their way to a loop from others; further ones are lost.
const MOST_ON_THEIR_WAY: usize = 1024;

/// Both ends of a client's datagrams: its address, and the one that it sends to, where there are several.
type Ends = (SocketAddr, Option<IpAddr>);

/// What loops and other threads know of an address for datagrams.
pub struct Directory {
    /// One for each socket, in their order.
    parts: ArcSwap<Vec<Arc<Part>>>,
    /// How many there are.
    sockets: AtomicUsize,
    /// The numbers of the parts that have strays.
    strays: papaya::HashMap<Ends, usize, FxBuildHasher>,
}

/// One socket of an address.
pub struct Part {
    /// The number of the socket.
    pub number: usize,
    /// The loop that reads it.
    reader: AtomicUsize,
    /// Held by whoever reads the socket.
    reading: Mutex<Kept>,
    /// Notified when something is kept for the loop, or another thread has finished reading.
    pub left: Notify,
    /// How many sessions there are of clients with this hash.
    counts: [OnceLock<Box<[AtomicU32]>>; ROWS],
    /// How many datagrams are on their way to the loop.
    on_their_way: AtomicUsize,
}

/// The datagrams that are kept for a loop, in the order in which they came.
#[derive(Default)]
struct Kept {
    datagrams: Vec<Copied>,
    bytes: usize,
}

/// The right to read a socket.
pub struct Reading<'p>(MutexGuard<'p, Kept>);

/// Clients whose datagrams are being given to their sessions, or to new ones; nobody else begins a session for them.
pub struct Reserved<'p> {
    part: &'p Part,
    hashes: SmallVec<[usize; BATCH]>,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { parts: ArcSwap::default(), sockets: AtomicUsize::new(0), strays: papaya::HashMap::default() }
    }
}

impl Directory {
    /// Has parts for so many sockets at least. Called by one thread.
    pub fn extend(&self, sockets: usize) {
        let known = self.parts.load();
        if known.len() < sockets {
            let new = (known.len()..sockets).map(|number| Arc::new(Part::new(number)));
            self.parts.store(Arc::new(known.iter().cloned().chain(new).collect()));
            self.sockets.store(sockets, Relaxed);
        }
    }

    /// The number of sockets.
    pub fn sockets(&self) -> usize {
        self.sockets.load(Relaxed)
    }

    /// Whether there is one socket, which nobody else reads.
    pub fn is_one(&self) -> bool {
        self.sockets() < 2
    }

    /// The part with this number.
    pub fn part(&self, number: usize) -> Option<Arc<Part>> {
        self.parts.load().get(number).cloned()
    }

    /// All parts.
    pub fn parts(&self) -> Arc<Vec<Arc<Part>>> {
        self.parts.load_full()
    }

    /// Whether there are strays.
    pub fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// The number of the part that has the client as a stray.
    pub fn stray(&self, received: &Received<'_>) -> Option<usize> {
        self.strays.pin().get(&(received.from?, received.to)).copied()
    }

    /// Notes that the client is a stray at this part. False if there are too many, or nobody could answer the client.
    pub fn add_stray(&self, received: &Received<'_>, part: usize) -> bool {
        let Some(from) = received.from.filter(|_| self.strays.len() < MOST_STRAYS) else { return false };
        self.strays.pin().insert((from, received.to), part);
        true
    }

    /// Notes that a client is no stray at this part any more, if it was one.
    pub fn remove_stray(&self, ends: Ends, part: usize) {
        if self.has_strays() {
            // Nobody gives it to another part meanwhile: it has one as long as it is known.
            let strays = self.strays.pin();
            if strays.get(&ends) == Some(&part) {
                strays.remove(&ends);
            }
        }
    }
}

/// The place of a client's count.
fn place(ends: Ends) -> usize {
    // Whoever knew the hashes could have all clients kept waiting.
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    let mut hasher = FxHasher::default();
    (*SEED, ends).hash(&mut hasher);
    hasher.finish() as usize % COUNTS
}

impl Part {
    fn new(number: usize) -> Part {
        let (reader, reading, left, on_their_way) = Default::default();
        let counts = [const { OnceLock::new() }; ROWS];
        Part { number, reader, reading, left, counts, on_their_way }
    }

    /// The index of the loop that reads the socket.
    pub fn reader(&self) -> usize {
        self.reader.load(Relaxed)
    }

    /// Notes which loop reads the socket from now on.
    pub fn set_reader(&self, index: usize) {
        self.reader.store(index, Relaxed);
    }

    /// The right to read the socket, unless another thread is reading.
    pub fn try_read(&self) -> Option<Reading<'_>> {
        match self.reading.try_lock() {
            Ok(kept) => Some(Reading(kept)),
            // What is kept is right at any time.
            Err(TryLockError::Poisoned(poisoned)) => Some(Reading(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Counts a session, or takes one back.
    fn count(&self, place: usize, begins: bool) {
        let row = self.counts[place / ROW].get_or_init(|| (0..ROW).map(|_| AtomicU32::new(0)).collect());
        let count = &row[place % ROW];
        if begins {
            count.fetch_add(1, Relaxed);
        } else {
            let before = count.fetch_sub(1, Relaxed);
            debug_assert!(before > 0, "a client leaves that never came");
        }
    }

    /// Notes that a client has a session here.
    pub fn begin(&self, ends: Ends) {
        self.count(place(ends), true);
    }

    /// Notes that a session has ended. Returns whether the client has none any more, as far as is known.
    pub fn end(&self, ends: Ends) -> bool {
        self.count(place(ends), false);
        !self.knows(ends)
    }

    fn knows(&self, ends: Ends) -> bool {
        let place = place(ends);
        self.counts[place / ROW].get().is_some_and(|row| row[place % ROW].load(Relaxed) > 0)
    }

    /// Whether the sender may have a session here: whoever reads the socket ([`Part::try_read`]) is told of all of them.
    pub fn may_know(&self, received: &Received<'_>) -> bool {
        received.from.is_some_and(|from| self.knows((from, received.to)))
    }

    /// Counts the clients of these datagrams as known, until the value is dropped.
    pub fn reserve<'r>(&self, received: impl Iterator<Item = Received<'r>>) -> Reserved<'_> {
        let all = received.filter_map(|one| Some(place((one.from?, one.to))));
        let hashes: SmallVec<_> = all.inspect(|place| self.count(*place, true)).collect();
        Reserved { part: self, hashes }
    }

    /// Takes room for so many datagrams on their way to the loop; false if there is none. The loop gives it back
    /// ([`Part::arrived`]).
    pub fn send(&self, count: usize) -> bool {
        let before = self.on_their_way.fetch_add(count, Relaxed);
        if before + count > MOST_ON_THEIR_WAY {
            self.on_their_way.fetch_sub(count, Relaxed);
            return false;
        }
        true
    }

    /// Whether there is room for so many datagrams on their way to the loop.
    pub fn has_room_for(&self, count: usize) -> bool {
        self.on_their_way.load(Relaxed) + count <= MOST_ON_THEIR_WAY
    }

    /// Notes that datagrams have come to the loop.
    pub fn arrived(&self, count: usize) {
        self.on_their_way.fetch_sub(count, Relaxed);
    }
}

impl Reading<'_> {
    /// Whether more may be kept.
    pub fn has_room(&self) -> bool {
        self.0.bytes < MOST_KEPT && self.0.datagrams.len() < MOST_ON_THEIR_WAY
    }

    /// Keeps a datagram for the loop that reads the socket.
    pub fn keep(&mut self, received: &Received<'_>) {
        self.0.bytes += received.bytes.len();
        self.0.datagrams.push(Copied::of(received));
    }

    /// Takes what is kept, in the order in which it came.
    pub fn take_kept(&mut self) -> Vec<Copied> {
        self.0.bytes = 0;
        std::mem::take(&mut self.0.datagrams)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.hashes.iter().for_each(|place| self.part.count(*place, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(port: u16) -> Received<'static> {
        let from = Some(SocketAddr::from(([192, 0, 2, 1], port)));
        Received { bytes: b"x", from, to: None, ecn: 0, segment: None, is_truncated: false }
    }

    fn ends(port: u16) -> Ends {
        (SocketAddr::from(([192, 0, 2, 1], port)), None)
    }

    #[test]
    fn a_client_is_known_from_the_reading_of_its_datagram_to_the_end_of_its_last_session() {
        let part = Part::new(0);
        assert!(!part.may_know(&received(1)));
        let reserved = part.reserve([received(1), received(1)].into_iter());
        assert!(part.may_know(&received(1)));
        part.begin(ends(1));
        part.begin(ends(1));
        drop(reserved);
        assert!(part.may_know(&received(1)));
        assert!(!part.end(ends(1)));
        assert!(part.may_know(&received(1)));
        assert!(part.end(ends(1)));
        assert!(!part.may_know(&received(1)));
        // Nobody can have a session without an address.
        let nobody = Received { from: None, ..received(1) };
        drop(part.reserve([nobody].into_iter()));
        assert!(!part.may_know(&nobody));
    }

    #[test]
    fn one_reads_at_a_time_and_finds_what_was_kept_in_order() {
        let part = Part::new(0);
        let mut reading = part.try_read().unwrap();
        assert!(part.try_read().is_none());
        (1..4).for_each(|port| reading.keep(&received(port)));
        drop(reading);
        let kept = part.try_read().unwrap().take_kept();
        let ports: Vec<_> = kept.iter().map(|one| one.received().from.unwrap().port()).collect();
        assert_eq!(ports, [1, 2, 3]);
        assert_eq!(kept[0].received(), received(1));
        let long = vec![0; MOST_KEPT];
        let mut reading = part.try_read().unwrap();
        assert!(reading.take_kept().is_empty() && reading.has_room());
        reading.keep(&Received { bytes: &long, ..received(1) });
        assert!(!reading.has_room());
    }

    #[test]
    fn strays_are_known_until_they_end_where_they_are() {
        let directory = Directory::default();
        directory.extend(2);
        assert!(!directory.has_strays());
        assert!(directory.add_stray(&received(1), 1));
        assert_eq!((directory.stray(&received(1)), directory.stray(&received(2))), (Some(1), None));
        directory.remove_stray(ends(1), 0);
        assert_eq!(directory.stray(&received(1)), Some(1));
        directory.remove_stray(ends(1), 1);
        assert!(!directory.has_strays());
        // There is a bound.
        assert!((0..MOST_STRAYS).all(|port| directory.add_stray(&received(port as u16), 0)));
        assert!(!directory.add_stray(&received(u16::MAX), 0));
    }

    #[test]
    fn parts_stay_when_there_are_more_of_them() {
        let directory = Directory::default();
        directory.extend(2);
        let first = directory.part(0).unwrap();
        directory.extend(1);
        directory.extend(3);
        assert!(Arc::ptr_eq(&first, &directory.part(0).unwrap()));
        assert_eq!(directory.parts().iter().map(|part| part.number).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_is_on_its_way_to_a_loop_is_bounded() {
        let part = Part::new(0);
        assert!(part.send(MOST_ON_THEIR_WAY) && !part.has_room_for(1) && !part.send(1));
        part.arrived(1);
        assert!(part.has_room_for(1) && part.send(1));
    }
}
