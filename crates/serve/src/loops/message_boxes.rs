//! Message boxes of the worker processes that serve the same sockets: packets of QUIC that another process has read, and which
//! process reads the sockets of QUIC.
//!
//! The master makes a pair of Unix datagram sockets for each number that a process may have. Every process has its own
//! box's end for reading, and the ends for writing of all boxes. A full box loses what does not fit, as a network does.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use arc_swap::ArcSwap;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The number of processes that may live at a time: each has a bit of a byte.
pub const PROCESSES: u8 = 8;

/// The longest message, in bytes: a receiver has room for as many.
const LONGEST: usize = 65_000;

/// The most addresses of one message.
const ADDRESSES: usize = 500;

/// The most messages that are left in a box by the process before.
const LEFT: usize = 100_000;

/// A packet of QUIC that another process has read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedPacket<'m> {
    /// The number of the process that has read it.
    pub sender: u8,
    /// The index of its loop.
    pub sender_loop: u16,
    /// The index of the loop that it is for.
    pub index: u16,
    /// Whether the process that it was passed to has sent it back: it belongs to no connection there.
    pub is_returned: bool,
    /// The name of the listening address.
    #[serde(borrow)]
    pub address: Cow<'m, str>,
    /// The client.
    pub from: SocketAddr,
    /// The address of this machine that it was sent to, if the socket has several.
    pub to: Option<IpAddr>,
    /// The ECN bits.
    pub ecn: u8,
    /// The datagram.
    #[serde(borrow)]
    pub bytes: &'m [u8],
}

/// A message to another process of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoxMessage<'m> {
    /// A packet that is for a connection of the receiver's.
    #[serde(borrow)]
    Packet(PassedPacket<'m>),
    /// The sender reads the sockets of these addresses from now on, and nobody else does.
    Claim {
        /// The number of the sender.
        process: u8,
        /// The moment of the claim, in nanoseconds of the system's clock: the latest one counts.
        at: u64,
        /// The names of the addresses.
        addresses: Vec<String>,
    },
    /// The sender begins no connections any more: another process may read the sockets.
    Offer {
        /// The number of the sender.
        process: u8,
    },
    /// A process has ended.
    Gone {
        /// Its number.
        process: u8,
    },
}

impl BoxMessage<'_> {
    /// The bytes of the message. `None` if it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        postcard::to_stdvec(self).ok().filter(|bytes| bytes.len() <= LONGEST)
    }

    /// The message of these bytes. `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<BoxMessage<'_>> {
        let message: BoxMessage<'_> = postcard::from_bytes(bytes).ok()?;
        let (BoxMessage::Packet(PassedPacket { sender: process, .. })
        | BoxMessage::Claim { process, .. }
        | BoxMessage::Offer { process }
        | BoxMessage::Gone { process }) = &message;
        (*process < PROCESSES).then_some(message)
    }
}

/// Sends a message to a box. False if the box is full, or the message too long.
pub fn post(to: &OwnedFd, message: &BoxMessage<'_>) -> bool {
    let Some(bytes) = message.encode() else { return false };
    send(to, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

/// The message boxes, as a process has them.
#[derive(Debug)]
pub struct MessageBoxes {
    /// The number of the process.
    process: u8,
    /// Its own box.
    own: Arc<OwnedFd>,
    /// The ends for writing of all boxes, by the numbers of the processes.
    all: Vec<OwnedFd>,
    /// The processes that may live, each with a bit.
    living: AtomicU8,
    /// The addresses whose sockets other processes read, with the numbers of these.
    elsewhere: ArcSwap<HashMap<String, u8>>,
    /// The moment of the last claim of this process.
    claimed: AtomicU64,
    /// Whether this process begins no connections any more.
    is_draining: AtomicBool,
}

impl MessageBoxes {
    /// The boxes of the process with this number: its own one, and the ends for writing of all. `living` has a bit for each
    /// process that may live. `None` if descriptors are missing.
    pub fn new(process: u8, living: u8, own: OwnedFd, all: Vec<OwnedFd>) -> Option<MessageBoxes> {
        if process >= PROCESSES || all.len() != usize::from(PROCESSES) {
            return None;
        }
        // An earlier process with this number may have left some.
        let mut byte = [0; 1];
        let _ = (0..LEFT).find(|_| recv(&own, &mut byte, RecvFlags::DONTWAIT).is_err());
        let (elsewhere, claimed, is_draining) = Default::default();
        let (own, living) = (Arc::new(own), AtomicU8::new(living));
        Some(MessageBoxes { process, own, all, living, elsewhere, claimed, is_draining })
    }

    /// The number of this process.
    pub fn process(&self) -> u8 {
        self.process
    }

    /// The box of this process.
    pub(crate) fn own(&self) -> Arc<OwnedFd> {
        self.own.clone()
    }

    /// Whether a process with this number may live.
    pub fn may_live(&self, process: u8) -> bool {
        process != self.process && process < PROCESSES && self.living.load(Acquire) & 1 << process != 0
    }

    /// Notes that these processes may live, each with a bit.
    pub fn note_living(&self, processes: u8) {
        self.living.fetch_or(processes, Release);
    }

    /// Notes that a process has ended. Returns whether it has read any sockets.
    pub(crate) fn note_gone(&self, process: u8) -> bool {
        self.living.fetch_and(!(1 << process), Release);
        self.elsewhere.load().values().any(|reader| *reader == process)
    }

    /// Passes a packet on to another process. False if it is lost.
    pub fn pass_on(&self, to: u8, packet: PassedPacket<'_>) -> bool {
        debug_assert!(to != self.process, "a packet for this process stays here");
        self.all.get(usize::from(to)).is_some_and(|to| post(to, &BoxMessage::Packet(packet)))
    }

    /// Whether another process reads the sockets of this address.
    pub fn is_read_elsewhere(&self, address: &str) -> bool {
        self.elsewhere.load().contains_key(address)
    }

    /// Whether this process begins no connections any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Acquire)
    }

    /// Notes that another process reads the sockets of these addresses. Returns whether this changes anything.
    pub(crate) fn note_claim(&self, process: u8, at: u64, addresses: &[String]) -> bool {
        let own = (self.claimed.load(Acquire), self.process);
        if (at, process) <= own {
            return false;
        }
        let before = self.elsewhere.rcu(|elsewhere| {
            let mut elsewhere = HashMap::clone(elsewhere);
            elsewhere.extend(addresses.iter().map(|address| (address.clone(), process)));
            elsewhere
        });
        addresses.iter().any(|address| !before.contains_key(address))
    }

    /// Begins to read the sockets of these addresses. Returns the messages that tell all others, see
    /// [`MessageBoxes::post_to_others`].
    pub(crate) fn claim(&self, addresses: &[String]) -> Vec<BoxMessage<'static>> {
        let now = clock_gettime(ClockId::Monotonic);
        let at = u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0);
        self.claimed.store(at, Release);
        self.elsewhere.rcu(|elsewhere| {
            let mut elsewhere = HashMap::clone(elsewhere);
            for address in addresses {
                elsewhere.remove(address);
            }
            elsewhere
        });
        let claim = |part: &[String]| BoxMessage::Claim { process: self.process, at, addresses: part.to_vec() };
        addresses.chunks(ADDRESSES).map(claim).collect()
    }

    /// Offers the sockets to the others, since this process begins no connections any more. Returns the message for them.
    pub(crate) fn offer(&self) -> BoxMessage<'static> {
        self.is_draining.store(true, Release);
        BoxMessage::Offer { process: self.process }
    }

    /// Sends a message to all others that may live. Returns whether every one got it.
    pub(crate) fn post_to_others(&self, message: &BoxMessage<'_>) -> bool {
        let living = self.living.load(Relaxed);
        let others = (0..PROCESSES).filter(|other| *other != self.process && living & 1 << other != 0);
        let sent: Vec<bool> = others.map(|other| post(&self.all[usize::from(other)], message)).collect();
        sent.into_iter().all(|sent| sent)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// The boxes of two processes, with the numbers 0 and 4.
    fn two() -> [MessageBoxes; 2] {
        let pairs: Vec<_> = (0..PROCESSES).map(|_| UnixDatagram::pair().unwrap()).collect();
        [0, 4].map(|process: u8| {
            let all = pairs.iter().map(|(_, to)| to.try_clone().unwrap().into()).collect();
            let own = pairs[usize::from(process)].0.try_clone().unwrap();
            MessageBoxes::new(process, 0b1_0001, own.into(), all).unwrap()
        })
    }

    fn packet(bytes: &[u8]) -> PassedPacket<'_> {
        PassedPacket {
            sender: 0,
            sender_loop: 1,
            index: 2,
            is_returned: false,
            address: "127.0.0.1:443".into(),
            from: "127.0.0.1:5".parse().unwrap(),
            to: None,
            ecn: 1,
            bytes,
        }
    }

    #[test]
    fn packets_and_messages_go_over_and_nonsense_does_not() {
        let [one, other] = two();
        assert!(one.may_live(4) && !one.may_live(1) && !one.may_live(0));
        assert!(one.pass_on(4, packet(&[7; 1200])));
        let mut bytes = vec![0; 2000];
        let (count, _) = recv(&*other.own(), &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
        assert_eq!(BoxMessage::decode(&bytes[..count]), Some(BoxMessage::Packet(packet(&[7; 1200]))));
        for cut in 0..count {
            assert_eq!(BoxMessage::decode(&bytes[..cut]), None, "{cut}");
        }
        for (place, bit) in (0..count.min(100)).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut damaged = bytes[..count].to_vec();
            damaged[place] ^= 1 << bit;
            let known = BoxMessage::decode(&damaged);
            assert_ne!(known, Some(BoxMessage::Packet(packet(&[7; 1200]))), "{place} {bit}");
        }
        assert_eq!(BoxMessage::decode(&BoxMessage::Gone { process: PROCESSES }.encode().unwrap()), None);
        assert!(!one.pass_on(4, packet(&vec![0; LONGEST])), "too long");
        assert!(!one.note_gone(4) && !one.may_live(4));
    }

    #[test]
    fn a_full_box_loses_and_never_waits() {
        let [one, other] = two();
        let taken = (0..100_000).take_while(|_| one.pass_on(4, packet(&[7; 1200]))).count();
        assert!((10..100_000).contains(&taken), "{taken}");
        drop(other);
    }

    #[test]
    fn the_latest_claim_counts() {
        let [one, other] = two();
        let addresses = ["a".to_owned(), "b".to_owned()];
        let claim = |boxes: &MessageBoxes, addresses: &[String]| match boxes.claim(addresses).pop() {
            Some(BoxMessage::Claim { process, at, addresses }) => (process, at, addresses),
            message => panic!("{message:?}"),
        };
        let (process, first, claimed) = claim(&one, &addresses);
        assert!(other.note_claim(process, first, &claimed) && other.is_read_elsewhere("b"));
        assert!(!other.note_claim(process, first, &claimed), "known already");
        let (process, second, others) = claim(&other, &addresses[..1]);
        assert!(second > first && !other.is_read_elsewhere("a") && other.is_read_elsewhere("b"));
        assert!(one.note_claim(process, second, &others) && one.is_read_elsewhere("a"));
        assert!(!other.note_claim(0, first, &claimed), "it is older");
        assert!(!other.is_read_elsewhere("a"));
        assert!(one.note_gone(4) && !one.note_gone(1), "one of them has read");
    }
}
