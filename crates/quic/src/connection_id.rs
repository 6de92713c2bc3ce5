//! Connection IDs that name the process, the loop and the place of their connection, so that datagrams find it without a
//! table.
//!
//! | bytes | contents |
//! |---|---|
//! | 1 | the steering byte: the remainder of its division by the number of sockets is the socket; otherwise it is random |
//! | 12 | random |
//! | 5 | 21 bits of the place of the connection on its loop, 10 of the index of the loop, 3 of the number of the process, and 6 that are 0; hidden by a mask |
//!
//! The mask is made of the other bytes with a secret key, so nobody else sees which IDs belong to one connection
//! (RFC 9000 section 5.1). The kernel reads the steering byte to give the datagram to the loop's socket. Where it does not,
//! or the sockets belong to other loops since a reload, the hidden bytes say which loop has the connection. While the binary is
//! changed, they say which process has it.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::quic::HeaderProtectionKey;
use freerun_tls::random;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use crate::keys::QuicKeys;
use crate::packet::PacketHead;

/// The length of this server's connection IDs.
pub const LENGTH: usize = 1 + RANDOM + HIDDEN;

const RANDOM: usize = 12;
const HIDDEN: usize = 5;

/// The bytes that a mask is made of.
const SAMPLE: usize = 16;

const _: () = assert!(RANDOM < SAMPLE, "all bytes that are not hidden make the mask");
const _: () = assert!(LENGTH <= crate::packet::LONGEST_ID, "the protocol has no longer IDs");

/// Number of bits of a place, of the index of a loop, and of the number of a process.
const PLACE_BITS: u32 = 21;
const LOOP_BITS: u32 = 10;
const PROCESS_BITS: u32 = 3;

/// The most connections of one loop at one address.
pub const MOST_PLACES: u32 = 1 << PLACE_BITS;

/// The place that the connection IDs of Retry packets name: none. Until the client comes back with such an ID, a connection of
/// somebody else may have begun in any other place.
pub const NO_PLACE: u32 = MOST_PLACES - 1;

/// The number of indices that a loop may have.
pub const MOST_LOOPS: u16 = 1 << LOOP_BITS;

/// The number of numbers that a process may have.
pub const MOST_PROCESSES: u8 = 1 << PROCESS_BITS;

const _: () = assert!(PLACE_BITS + LOOP_BITS + PROCESS_BITS < HIDDEN as u32 * 8, "some bits show whose an ID is");

/// The loop that connection IDs lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopPlace {
    /// The number of the process, which is less than [`MOST_PROCESSES`].
    pub process: u8,
    /// The index of the loop, which is less than [`MOST_LOOPS`].
    pub index: u16,
    /// The number of the loop's socket among the sockets of its address.
    pub number: u8,
    /// The number of sockets.
    pub of: u8,
}

/// The connection that an ID is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionPlace {
    /// The number of the process.
    pub process: u8,
    /// The index of the loop.
    pub index: u16,
    /// The place of the connection there.
    pub place: u32,
}

impl LoopPlace {
    /// A steering byte that leads to the loop.
    fn steering(self, random: u8) -> u8 {
        let of = self.of.max(1);
        let last = u8::MAX - self.number;
        // Of all bytes with this remainder one is as likely as the other, but for a few at the end.
        let choices = u16::from(last / of) + 1;
        let chosen = u16::from(random) % choices;
        self.number + u8::try_from(chosen).unwrap_or(0) * of
    }
}

/// Makes and reads connection IDs.
#[derive(Clone)]
pub struct ConnectionIds {
    key: Arc<HeaderProtectionKey>,
    to: LoopPlace,
}

impl ConnectionIds {
    /// The connection IDs of a loop.
    pub fn new(keys: &QuicKeys, to: LoopPlace) -> ConnectionIds {
        debug_assert!(to.number < to.of.max(1) && to.index < MOST_LOOPS, "the loop has one of the sockets");
        debug_assert!(to.process < MOST_PROCESSES, "a process has 3 bits");
        ConnectionIds { key: keys.ids.clone(), to }
    }

    /// A new ID of the connection at this place, which is less than [`MOST_PLACES`].
    pub fn make(&self, place: u32) -> ConnectionId {
        debug_assert!(place < MOST_PLACES, "a place has 21 bits");
        let mut id = [0; LENGTH];
        // Without random bytes no session could have begun.
        let _ = random::fill(&mut id[..1 + RANDOM]);
        id[0] = self.to.steering(id[0]);
        let named = u64::from(place)
            | u64::from(self.to.index) << PLACE_BITS
            | u64::from(self.to.process) << (PLACE_BITS + LOOP_BITS);
        id[1 + RANDOM..].copy_from_slice(&named.to_le_bytes()[..HIDDEN]);
        let (open, hidden) = id.split_at_mut(1 + RANDOM);
        self.apply_mask(open, hidden);
        ConnectionId::new(&id)
    }

    /// The connection that an ID is of, in whichever process. `None` if this server cannot have given it.
    pub fn place(&self, id: &[u8]) -> Option<ConnectionPlace> {
        let id: &[u8; LENGTH] = id.try_into().ok()?;
        let (open, hidden) = id.split_at(1 + RANDOM);
        let mut bytes = [0; 8];
        bytes[..HIDDEN].copy_from_slice(hidden);
        self.apply_mask(open, &mut bytes[..HIDDEN]);
        let named = u64::from_le_bytes(bytes);
        // Each has fewer bits than its type.
        let index = (named >> PLACE_BITS) as u16 & (MOST_LOOPS - 1);
        let process = (named >> (PLACE_BITS + LOOP_BITS)) as u8 & (MOST_PROCESSES - 1);
        let place = named as u32 & (MOST_PLACES - 1);
        let is_own = named >> (PLACE_BITS + LOOP_BITS + PROCESS_BITS) == 0;
        is_own.then_some(ConnectionPlace { process, index, place })
    }

    /// Whether a packet belongs to a connection of this loop, or may have belonged to one, and to nobody else: its ID names a
    /// place here.
    pub fn have_given(&self, packet: &PacketHead<'_>) -> bool {
        let place = self.place(packet.destination).filter(|place| place.place != NO_PLACE);
        place.is_some_and(|place| (place.process, place.index) == (self.to.process, self.to.index))
    }

    fn apply_mask(&self, open: &[u8], hidden: &mut [u8]) {
        let mut sample = [0; SAMPLE];
        sample[..open.len()].copy_from_slice(open);
        let mask = self.key.new_mask(&sample).unwrap_or_default();
        hidden.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

impl fmt::Debug for ConnectionIds {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ConnectionIds").field("to", &self.to).finish_non_exhaustive()
    }
}

/// Makes the connection IDs of one connection for the library.
pub(crate) struct PlaceIds {
    pub(crate) ids: ConnectionIds,
    pub(crate) place: u32,
}

impl ConnectionIdGenerator for PlaceIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.ids.make(self.place)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.ids.place(id).map(|_| ()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_of(process: u8, index: u16, number: u8, of: u8) -> ConnectionIds {
        let keys = QuicKeys::of(b"a secret of sixteen bytes or more", "").unwrap();
        ConnectionIds::new(&keys, LoopPlace { process, index, number, of })
    }

    fn ids(number: u8, of: u8) -> ConnectionIds {
        ids_of(0, u16::from(number), number, of)
    }

    #[test]
    fn an_id_leads_to_its_process_loop_and_place() {
        for of in [1, 2, 3, 7, 64, 255] {
            for number in [0, of / 2, of - 1] {
                let last = (MOST_PROCESSES - 1, MOST_LOOPS - 1, MOST_PLACES - 1);
                for (process, index, place) in [(0, 0, 0), (1, 0, 1), (0, 700, 70_000), (5, 1, 0), last] {
                    let ids = ids_of(process, index, number, of);
                    let id = ids.make(place);
                    assert_eq!(id[0] % of, number);
                    // Every loop of every process can read it, however many there are.
                    let expected = Some(ConnectionPlace { process, index, place });
                    assert_eq!((ids.place(&id), self::ids(0, 1).place(&id)), (expected, expected), "{number} of {of}");
                }
            }
        }
    }

    #[test]
    fn ids_of_one_connection_have_nothing_in_common_that_others_see() {
        let ids = ids(0, 2);
        let made: Vec<_> = (0..64).map(|_| ids.make(5)).collect();
        for at in 1..LENGTH {
            assert!(made.iter().any(|id| id[at] != made[0][at]), "byte {at} is always the same");
        }
    }

    #[test]
    fn ids_of_others_are_told_apart() {
        let id = ids(0, 2).make(5);
        assert_eq!(ids(0, 2).place(&id[..LENGTH - 1]), None);
        assert_eq!(ids(0, 2).place(&[]), None);
        let stranger = ConnectionIds::new(
            &QuicKeys::of(b"another secret of many bytes....", "").unwrap(),
            LoopPlace { process: 0, index: 0, number: 0, of: 1 },
        );
        // One in 64 looks like an own one.
        let known = (0..512).filter(|_| ids(0, 1).place(&stranger.make(5)).is_some()).count();
        assert!(known < 48, "{known}");
    }
}
