//! The loops that have the sessions of clients at an address for datagrams, as far as other threads have to know it.
//!
//! The kernel gives a client's datagrams to one of the sockets of the address, and the loop that reads the socket has the
//! client's sessions. While that loop is late, another thread reads in its place, and must not begin a second session of a
//! client that has one. A handshake of QUIC is a session here: it is known by the ID that its client has chosen. Later
//! packets name their loop by their IDs.
//!
//! - Each socket has a [`SocketPart`], which counts the sessions there by a hash of their clients. A thread that finds a count of
//!   zero, or a session of another client, knows that the client has none. Datagrams of others are kept for the loop.
//! - A client is a *stray* if its session begins at another part than the part of the socket that its datagrams come to. The
//!   [`Directory`] knows it until its last session there ends, and a thread that gets its datagrams hands them on.
//!
//! An address with a socket for each loop has a part for each. A port of a range has one socket, whose part is number 0.
//! Further parts, one for each loop that helps, have no socket, and their sessions answer by the first one
//! ([`Directory::answers_by`]).
//!
//! Nobody waits: a part is read by whoever gets hold of it first, and the other one goes on with something else.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

use arc_swap::{ArcSwap, ArcSwapOption};
use freerun_quic::connection_id::{ConnectionIds, LENGTH};
use freerun_quic::packet::PacketHead;
use freerun_runtime::net::udp::{BATCH, ReceivedDatagrams};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::SharedPart;
use super::client_key::{ClientHash, ClientKey, ClientKind};
use super::datagram_copy::CopiedDatagrams;
use crate::listen::ListenSpec;

/// Number of counts of clients in a part. Clients that share a count with several sessions of others wait for the loop that is
/// late: one in forty with 16,384 sessions.
const COUNTS: usize = ROWS * ROW;

/// The counts are made in rows, when a client comes whose hash leads there: with few clients they take little memory.
const ROWS: usize = 128;
const ROW: usize = 512;

const _: () = assert!(COUNTS.is_power_of_two(), "every count stands for equally many hashes");
const _: () = assert!(COUNTS <= 1 << 32, "what tells clients of a count apart does not choose the count");

/// The most strays of an address. While there are so many, new clients wait for the loop that is late.
const MOST_STRAYS: usize = 4096;

/// The most bytes that are kept for a loop that is late; further ones stay in the kernel's queue. What is read with one call
/// may exceed it once.
const MOST_KEPT: usize = 1024 * 1024;

/// The most datagrams, or runs of them, on their way to a loop from others; further ones are lost.
const MOST_ON_THEIR_WAY: usize = 1024;

/// The index that stands for no loop.
const NOBODY: usize = usize::MAX;

/// Facts about an address for datagrams that loops and other threads share.
#[derive(Default)]
pub struct Directory {
    /// Parts in the order of the sockets. For a port of a range the first part has the socket, and each further part a loop.
    parts: ArcSwap<Vec<Arc<SocketPart>>>,
    /// Number of sockets.
    sockets: AtomicUsize,
    /// The socket of a port of a range, for all loops to answer by.
    answers_by: ArcSwapOption<AnswersBy>,
    /// Whether other threads read that socket when its loop is late.
    is_helped: AtomicBool,
    strays: papaya::HashMap<ClientKey, Stray, FxBuildHasher>,
    /// The way to tell the clients at the address apart.
    kind: ClientKind,
    /// Number of connections of QUIC at the address, on all loops.
    connections: Arc<AtomicUsize>,
}

/// The only socket of an address: sessions of several loops answer by it.
pub struct AnswersBy {
    /// The specification of the socket.
    pub spec: Arc<ListenSpec>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
}

/// A client whose datagrams come to another part than its sessions are in.
struct Stray {
    /// The number of the part that has its sessions.
    part: usize,
    /// Number of its sessions there; none between being given to the part and its first session.
    sessions: AtomicUsize,
}

/// The sessions of clients with hashes of the same place: their number, and in the upper half the sum of the upper halves of
/// their clients' hashes. If there is one session, the sum is the half of its client, and no other client has a session.
type Count = AtomicU64;

/// A row of counts, which is made when it is needed first.
type CountRow = OnceLock<Box<[Count]>>;

/// A socket of an address, or the share of a loop in a socket that another loop reads.
pub struct SocketPart {
    /// The number of the part.
    pub number: usize,
    /// The loop that reads the socket, or has the part.
    reader: AtomicUsize,
    /// Held by whoever reads the socket.
    reading: Mutex<WaitingDatagrams>,
    /// Notified when something is kept for the loop.
    pub left: Notify,
    /// Numbers of sessions of clients by their hashes.
    counts: OnceLock<Box<[CountRow]>>,
    /// Number of datagrams on their way to the loop.
    on_their_way: AtomicUsize,
    /// The way to tell clients apart.
    kind: ClientKind,
    /// The connection IDs of the loop that reads the socket, if it has connections of QUIC.
    ids: ArcSwapOption<ConnectionIds>,
}

/// The datagrams that are kept for a loop, in the order in which they came.
#[derive(Default)]
struct WaitingDatagrams {
    datagrams: Vec<CopiedDatagrams>,
    bytes: usize,
    /// The hashes of their clients.
    clients: HashSet<ClientHash, FxBuildHasher>,
}

/// The right to read a socket.
pub struct ReadingRight<'p> {
    part: &'p SocketPart,
    kept: MutexGuard<'p, WaitingDatagrams>,
}

/// Clients whose datagrams are being given to their sessions, or to new ones; nobody else begins a session for them.
pub struct ReservedClients<'p> {
    part: &'p SocketPart,
    hashes: SmallVec<[ClientHash; BATCH]>,
}

impl Directory {
    /// The facts about an address that tells its clients apart in this way.
    pub fn new(kind: ClientKind) -> Directory {
        Directory { kind, ..Directory::default() }
    }

    /// The way to tell the clients at the address apart.
    pub fn kind(&self) -> ClientKind {
        self.kind
    }

    /// The number of connections of QUIC at the address, which its loops count.
    pub fn connections(&self) -> &Arc<AtomicUsize> {
        &self.connections
    }

    /// Makes parts for this number of sockets, if there are fewer.
    pub fn extend(&self, sockets: usize) {
        self.extend_parts(sockets);
        self.sockets.fetch_max(sockets, Relaxed);
    }

    /// Makes parts up to this number, if there are fewer.
    fn extend_parts(&self, number: usize) {
        if self.parts.load().len() < number {
            // Another thread may add some at the same time.
            self.parts.rcu(|known| {
                let new = (known.len()..number).map(|number| Arc::new(SocketPart::new(number, self.kind)));
                known.iter().cloned().chain(new).collect::<Vec<_>>()
            });
        }
    }

    /// Has all loops answer by this socket, the only one of the address, from now on; `is_helped`: there are other loops
    /// besides its reader. `None`: nobody answers by it any more, and there are no strays.
    pub fn set_answers_by(&self, socket: Option<AnswersBy>, is_helped: bool) {
        self.is_helped.store(is_helped, Relaxed);
        let ends = socket.is_none();
        let before = self.answers_by.swap(socket.map(Arc::new));
        if ends && before.is_some() {
            self.strays.pin().clear();
        }
    }

    /// The socket that all loops answer by, if the address has only one.
    pub fn answers_by(&self) -> Option<Arc<AnswersBy>> {
        self.answers_by.load_full()
    }

    /// The part of the loop with this index at a socket that another loop reads: it is made at the first call.
    pub fn part_of_loop(&self, index: usize) -> Option<Arc<SocketPart>> {
        self.extend_parts(index + 2);
        let part = self.part(index + 1)?;
        part.set_reader(index);
        Some(part)
    }

    /// The number of sockets.
    pub fn sockets(&self) -> usize {
        self.sockets.load(Relaxed)
    }

    /// Whether there is one socket, which nobody else reads.
    pub fn is_one(&self) -> bool {
        self.sockets() < 2 && !self.is_helped.load(Relaxed)
    }

    /// The part with this number.
    pub fn part(&self, number: usize) -> Option<Arc<SocketPart>> {
        self.parts.load().get(number).cloned()
    }

    /// All parts.
    pub fn parts(&self) -> Arc<Vec<Arc<SocketPart>>> {
        self.parts.load_full()
    }

    /// Whether there are strays.
    pub fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// The number of the part that has the client as a stray.
    pub fn stray(&self, received: &ReceivedDatagrams<'_>) -> Option<usize> {
        self.strays.pin().get(&self.kind.key(received)?).map(|stray| stray.part)
    }

    /// Notes that the client is a stray at this part. False if there are too many, or nobody could answer the client.
    pub fn add_stray(&self, received: &ReceivedDatagrams<'_>, part: usize) -> bool {
        let client = received.from.and_then(|_| self.kind.key(received));
        let Some(client) = client.filter(|_| self.strays.len() < MOST_STRAYS) else { return false };
        self.strays.pin().insert(client, Stray { part, sessions: AtomicUsize::new(0) });
        true
    }

    /// Notes that a session of the client begins at this part.
    fn begin(&self, client: &ClientKey, part: usize) {
        if self.has_strays()
            && let Some(stray) = self.strays.pin().get(client).filter(|stray| stray.part == part)
        {
            stray.sessions.fetch_add(1, Relaxed);
        }
    }

    /// Notes that a session of the client has ended at this part. With its last one there the client is no stray any more.
    fn end(&self, client: &ClientKey, part: usize) {
        if self.has_strays() {
            let strays = self.strays.pin();
            let Some(stray) = strays.get(client).filter(|stray| stray.part == part) else { return };
            // A session from before the client became a stray is not counted.
            if stray.sessions.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).unwrap_or(1) <= 1 {
                // Nobody gives it to another part meanwhile: it has one as long as it is known.
                strays.remove(client);
            }
        }
    }

    /// Forgets that a client is a stray at this part, unless it has a session there.
    pub fn forget_if_unused(&self, received: &ReceivedDatagrams<'_>, part: usize) {
        let Some(client) = self.kind.key(received) else { return };
        let strays = self.strays.pin();
        let is_unused = |stray: &Stray| stray.part == part && stray.sessions.load(Relaxed) == 0;
        if strays.get(&client).is_some_and(is_unused) {
            strays.remove(&client);
        }
    }

    /// Forgets all strays at this part: its loop does not serve them any more.
    pub fn forget_strays(&self, part: usize) {
        self.strays.pin().retain(|_, stray| stray.part != part);
    }
}

impl SharedPart {
    /// Whether the part is what a loop has of a socket that another one reads.
    pub fn has_no_socket(&self) -> bool {
        self.part.number > 0 && self.directory.answers_by.load().is_some()
    }

    /// Notes that a client has a session here, or had one.
    pub fn note(&self, client: &ClientKey, begins: bool) {
        let SharedPart { directory, part } = self;
        part.count(ClientHash::of(client), begins);
        if begins {
            directory.begin(client, part.number);
        } else {
            directory.end(client, part.number);
        }
    }
}

impl ClientHash {
    /// The place of the client's count.
    fn place(self) -> usize {
        self.0 as usize % COUNTS
    }

    /// The number that a session of the client adds to its count.
    fn share(self) -> u64 {
        self.0 & !u64::from(u32::MAX) | 1
    }
}

impl SocketPart {
    fn new(number: usize, kind: ClientKind) -> SocketPart {
        let (reading, left, counts, on_their_way, ids) = Default::default();
        let reader = AtomicUsize::new(NOBODY);
        SocketPart { number, reader, reading, left, counts, on_their_way, kind, ids }
    }

    /// Notes the connection IDs of the loop that reads the socket.
    pub fn set_ids(&self, ids: ConnectionIds) {
        self.ids.store(Some(Arc::new(ids)));
    }

    /// The index of the loop that reads the socket, or has the part; larger than all indices before there is such a loop.
    pub fn reader(&self) -> usize {
        self.reader.load(Relaxed)
    }

    /// Notes which loop reads the socket from now on.
    pub fn set_reader(&self, index: usize) {
        self.reader.store(index, Relaxed);
    }

    /// The right to read the socket, unless another thread is reading.
    pub fn try_read(&self) -> Option<ReadingRight<'_>> {
        let kept = match self.reading.try_lock() {
            Ok(kept) => kept,
            // What is kept is right at any time.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(ReadingRight { part: self, kept })
    }

    /// Counts a session, or takes one back.
    fn count(&self, client: ClientHash, begins: bool) {
        let place = client.place();
        let rows = self.counts.get_or_init(|| (0..ROWS).map(|_| OnceLock::new()).collect());
        let row = rows[place / ROW].get_or_init(|| (0..ROW).map(|_| Count::default()).collect());
        let count = &row[place % ROW];
        if begins {
            count.fetch_add(client.share(), Relaxed);
        } else {
            let before = count.fetch_sub(client.share(), Relaxed);
            debug_assert!(before as u32 > 0, "a client leaves that never came");
        }
    }

    /// Whether the client may have a session here.
    fn knows(&self, client: ClientHash) -> bool {
        let place = client.place();
        let row = self.counts.get().and_then(|rows| rows[place / ROW].get());
        let count = row.map_or(0, |row| row[place % ROW].load(Relaxed));
        match count as u32 {
            0 => false,
            1 => count == client.share(),
            _ => true,
        }
    }

    /// Counts the clients of these datagrams as known, until the value is dropped.
    pub fn reserve<'r>(&self, received: impl Iterator<Item = ReceivedDatagrams<'r>>) -> ReservedClients<'_> {
        let single = received.flat_map(|one| self.kind.separate(one));
        let all = single.filter_map(|one| Some(ClientHash::of(&self.kind.key(&one)?)));
        let hashes: SmallVec<_> = all.inspect(|client| self.count(*client, true)).collect();
        ReservedClients { part: self, hashes }
    }

    /// Takes room for `count` datagrams on their way to the loop; false if there is none. The loop gives it back
    /// ([`SocketPart::arrived`]).
    pub fn send(&self, count: usize) -> bool {
        let before = self.on_their_way.fetch_add(count, Relaxed);
        if before + count > MOST_ON_THEIR_WAY {
            self.on_their_way.fetch_sub(count, Relaxed);
            return false;
        }
        true
    }

    /// Whether there is room for `count` datagrams on their way to the loop.
    pub fn has_room_for(&self, count: usize) -> bool {
        self.on_their_way.load(Relaxed) + count <= MOST_ON_THEIR_WAY
    }

    /// Notes that datagrams have come to the loop.
    pub fn arrived(&self, count: usize) {
        let before = self.on_their_way.fetch_sub(count, Relaxed);
        debug_assert!(before >= count, "{count} datagrams arrive of {before} that are on their way");
    }
}

impl ReadingRight<'_> {
    /// Whether more may be kept.
    pub fn has_room(&self) -> bool {
        self.kept.bytes < MOST_KEPT && self.kept.datagrams.len() < MOST_ON_THEIR_WAY
    }

    /// Whether the sender may have a session at the socket, or something kept that will begin one.
    pub fn may_know(&self, received: &ReceivedDatagrams<'_>) -> bool {
        let client = self.part.kind.key(received).map(|client| ClientHash::of(&client));
        client.is_some_and(|client| self.part.knows(client) || self.kept.clients.contains(&client))
    }

    /// Whether a packet of QUIC belongs to a connection of the loop that reads the socket, or may have belonged to one.
    pub fn is_of_reader(&self, received: &ReceivedDatagrams<'_>) -> bool {
        let ids = self.part.ids.load();
        let packet = PacketHead::parse(received.bytes, LENGTH);
        ids.as_ref().zip(packet).is_some_and(|(ids, packet)| ids.have_given(&packet))
    }

    /// Keeps a datagram for the loop that reads the socket.
    pub fn keep(&mut self, received: &ReceivedDatagrams<'_>) {
        self.kept.bytes += received.bytes.len();
        self.kept.clients.extend(self.part.kind.key(received).map(|client| ClientHash::of(&client)));
        self.kept.datagrams.push(CopiedDatagrams::of(received));
    }

    /// Takes what is kept, in the order in which it came.
    pub fn take_kept(&mut self) -> Vec<CopiedDatagrams> {
        std::mem::take(&mut *self.kept).datagrams
    }
}

impl Drop for ReservedClients<'_> {
    fn drop(&mut self) {
        self.hashes.iter().for_each(|client| self.part.count(*client, false));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn received(port: u16) -> ReceivedDatagrams<'static> {
        let from = Some(SocketAddr::from(([192, 0, 2, 1], port)));
        ReceivedDatagrams { bytes: b"x", from, to: None, ecn: 0, segment: None, is_truncated: false }
    }

    fn client(port: u16) -> ClientKey {
        ClientKey::Ends(SocketAddr::from(([192, 0, 2, 1], port)), None)
    }

    fn may_know(part: &SocketPart, port: u16) -> bool {
        part.try_read().unwrap().may_know(&received(port))
    }

    #[test]
    fn a_client_is_known_from_the_reading_of_its_datagram_to_the_end_of_its_last_session() {
        let part = SocketPart::new(0, ClientKind::Sessions);
        assert!(!may_know(&part, 1));
        let reserved = part.reserve([received(1), received(1)].into_iter());
        assert!(may_know(&part, 1));
        part.count(ClientHash::of(&client(1)), true);
        part.count(ClientHash::of(&client(1)), true);
        drop(reserved);
        assert!(may_know(&part, 1));
        part.count(ClientHash::of(&client(1)), false);
        assert!(may_know(&part, 1));
        part.count(ClientHash::of(&client(1)), false);
        assert!(!may_know(&part, 1));
        // Nobody can have a session without an address.
        let nobody = ReceivedDatagrams { from: None, ..received(1) };
        drop(part.reserve([nobody].into_iter()));
        assert!(!part.try_read().unwrap().may_know(&nobody));
    }

    #[test]
    fn a_client_that_shares_the_count_of_one_session_is_told_from_its_client() {
        let part = SocketPart::new(0, ClientKind::Sessions);
        let (one, other) = (ClientHash(5), ClientHash(1 << 40 | 5));
        assert_eq!(one.place(), other.place());
        part.count(one, true);
        assert!(part.knows(one) && !part.knows(other));
        part.count(other, true);
        assert!(part.knows(one) && part.knows(other));
        part.count(one, false);
        assert!(!part.knows(one) && part.knows(other));
        part.count(other, false);
        assert!(!part.knows(one) && !part.knows(other));
    }

    #[test]
    fn one_reads_at_a_time_and_finds_what_was_kept_in_order() {
        let part = SocketPart::new(0, ClientKind::Sessions);
        let mut reading = part.try_read().unwrap();
        assert!(part.try_read().is_none());
        (1..4).for_each(|port| reading.keep(&received(port)));
        drop(reading);
        // Those whose datagrams are kept have sessions soon.
        assert!(may_know(&part, 1) && may_know(&part, 3));
        let kept = part.try_read().unwrap().take_kept();
        assert!(!may_know(&part, 1));
        let ports: Vec<_> = kept.iter().map(|one| one.received().from.unwrap().port()).collect();
        assert_eq!(ports, [1, 2, 3]);
        assert_eq!(kept[0].received(), received(1));
        let long = vec![0; MOST_KEPT];
        let mut reading = part.try_read().unwrap();
        assert!(reading.take_kept().is_empty() && reading.has_room());
        reading.keep(&ReceivedDatagrams { bytes: &long, ..received(1) });
        assert!(!reading.has_room());
    }

    #[test]
    fn strays_are_known_until_their_last_sessions_end_where_they_are() {
        let directory = Arc::new(Directory::default());
        directory.extend(2);
        let at = |number| SharedPart { part: directory.part(number).unwrap(), directory: directory.clone() };
        let note = |number, port, begins| at(number).note(&client(port), begins);
        assert!(!directory.has_strays());
        assert!(directory.add_stray(&received(1), 1));
        assert_eq!((directory.stray(&received(1)), directory.stray(&received(2))), (Some(1), None));
        note(1, 1, true);
        note(1, 1, true);
        note(0, 1, true);
        note(0, 1, false);
        note(1, 1, false);
        directory.forget_if_unused(&received(1), 1);
        assert_eq!(directory.stray(&received(1)), Some(1), "it has another session there");
        // A session of somebody else with the same hash does not keep it.
        directory.part(1).unwrap().count(ClientHash::of(&client(1)), true);
        note(1, 1, false);
        assert!(!directory.has_strays());
        // One that never got a session is forgotten too.
        assert!(directory.add_stray(&received(1), 1));
        directory.forget_if_unused(&received(1), 0);
        assert_eq!(directory.stray(&received(1)), Some(1));
        directory.forget_if_unused(&received(1), 1);
        assert!(!directory.has_strays());
        // There is a bound.
        assert!((0..MOST_STRAYS).all(|port| directory.add_stray(&received(port as u16), port % 2)));
        assert!(!directory.add_stray(&received(u16::MAX), 0));
        directory.forget_strays(0);
        assert_eq!((directory.stray(&received(0)), directory.stray(&received(1))), (None, Some(1)));
    }

    #[test]
    fn loops_have_parts_of_a_socket_that_another_one_reads() {
        let directory = Directory::default();
        directory.extend(1);
        assert!(directory.is_one() && directory.answers_by().is_none());
        let socket = || {
            let spec = Arc::new(ListenSpec::new("stream", None, "192.0.2.1:9".to_owned()));
            Some(AnswersBy { spec, fd: Arc::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()) })
        };
        directory.set_answers_by(socket(), true);
        assert!(!directory.is_one() && directory.answers_by().is_some());
        let part = directory.part_of_loop(2).unwrap();
        assert_eq!((part.number, part.reader()), (3, 2));
        assert!(Arc::ptr_eq(&part, &directory.part_of_loop(2).unwrap()));
        assert_eq!(directory.sockets(), 1, "there is still one socket");
        assert!(directory.add_stray(&received(1), part.number));
        directory.set_answers_by(socket(), false);
        assert!(directory.is_one() && directory.has_strays());
        directory.set_answers_by(None, false);
        assert!(directory.answers_by().is_none() && !directory.has_strays());
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
        let part = SocketPart::new(0, ClientKind::Sessions);
        assert!(part.send(MOST_ON_THEIR_WAY) && !part.has_room_for(1) && !part.send(1));
        part.arrived(1);
        assert!(part.has_room_for(1) && part.send(1));
    }
}
