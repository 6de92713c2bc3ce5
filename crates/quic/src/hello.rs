//! The ClientHello in a client's first packets (RFC 9001 section 4.3). A server chooses the settings of a session by it, and
//! so reads it before there is a connection. The keys of these packets are no secret: they are made of the connection ID
//! that the client has chosen.

use freerun_tls::session::{QUIC_VERSION, initial_suite};
use rustls::Side;
use rustls::quic::{HeaderProtectionKey, PacketKey, Version};

use crate::packet::varint;

/// The most bytes of a ClientHello. The usual ones have less than 2 KiB.
pub const MOST_BYTES: usize = 64 << 10;

/// The most pieces that are known apart, until those between them have come.
const MOST_PIECES: usize = 64;

/// The header of a handshake message: its type, and three bytes with its length (RFC 8446 section 4).
const MESSAGE_HEADER: usize = 4;
const CLIENT_HELLO: u8 = 1;

/// The types of frames that an Initial packet may have (RFC 9000 section 12.4).
mod frame {
    pub(super) const PADDING: u64 = 0x00;
    pub(super) const PING: u64 = 0x01;
    pub(super) const ACK: u64 = 0x02;
    pub(super) const ACK_ECN: u64 = 0x03;
    pub(super) const CRYPTO: u64 = 0x06;
}

/// The length of the bytes that header protection is made of, and where they begin behind the packet number.
const SAMPLE: usize = 16;
const SAMPLE_OFFSET: usize = 4;

/// Progress of reading a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloProgress {
    /// More packets have to come.
    NeedMore,
    /// The message is whole.
    Whole,
    /// The client sends something else, so its connection may begin without a choice, and fail.
    Other,
}

/// Collects the ClientHello of a client.
pub struct HelloCollector {
    header: Box<dyn HeaderProtectionKey>,
    packet: Box<dyn PacketKey>,
    bytes: Vec<u8>,
    /// The pieces that have come, in order and apart from each other: where they begin and end.
    pieces: Vec<(usize, usize)>,
    /// Frames came that do not belong into such packets, or too much.
    is_other: bool,
    /// A packet came that was not damaged.
    has_read: bool,
}

impl HelloCollector {
    /// A collector for the client that has chosen this connection ID. `None` if the library has no such keys.
    pub fn new(destination: &[u8]) -> Option<HelloCollector> {
        let keys = initial_suite()?.keys(destination, Side::Server, Version::V1);
        Some(HelloCollector {
            header: keys.remote.header,
            packet: keys.remote.packet,
            bytes: Vec::new(),
            pieces: Vec::new(),
            is_other: false,
            has_read: false,
        })
    }

    /// Reads the Initial packets of a datagram. Others, and those that are damaged, are left out.
    pub fn read(&mut self, datagram: &[u8]) -> HelloProgress {
        let mut rest = datagram;
        while let Some((packet, behind)) = InitialPacket::split(rest) {
            self.read_packet(packet);
            rest = behind;
        }
        self.progress()
    }

    /// Whether any packet could be read: otherwise the bytes are no client's.
    pub fn has_read(&self) -> bool {
        self.has_read
    }

    /// The message, as far as it has come.
    pub fn message(&self) -> &[u8] {
        let whole = self.whole_length().unwrap_or(0);
        self.bytes.get(..whole).unwrap_or_default()
    }

    /// The progress so far.
    pub fn progress(&self) -> HelloProgress {
        let is_hello = self.first_piece() == 0 || self.bytes[0] == CLIENT_HELLO;
        match self.whole_length() {
            _ if self.is_other || !is_hello => HelloProgress::Other,
            Some(length) if length > MOST_BYTES => HelloProgress::Other,
            Some(length) if self.first_piece() >= length => HelloProgress::Whole,
            _ => HelloProgress::NeedMore,
        }
    }

    /// Number of bytes from the beginning that are there.
    fn first_piece(&self) -> usize {
        self.pieces.first().filter(|(begin, _)| *begin == 0).map_or(0, |(_, end)| *end)
    }

    /// The length of the message with its header, once that has come.
    fn whole_length(&self) -> Option<usize> {
        let header = self.bytes.get(..MESSAGE_HEADER).filter(|_| self.first_piece() >= MESSAGE_HEADER)?;
        let length = header[1..].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        Some(MESSAGE_HEADER + length)
    }

    fn read_packet(&mut self, packet: InitialPacket<'_>) {
        let mut bytes = packet.bytes.to_vec();
        let Some(payload) = self.open(&mut bytes, packet.number_at) else { return };
        self.has_read = true;
        let mut rest = payload;
        while !rest.is_empty() {
            if self.read_frame(&mut rest).is_none() {
                self.is_other = true;
                return;
            }
        }
    }

    /// Decrypts a packet whose number is at this place, and returns its frames.
    fn open<'b>(&self, bytes: &'b mut [u8], number_at: usize) -> Option<&'b [u8]> {
        let (head, payload) = bytes.split_at_mut_checked(number_at + SAMPLE_OFFSET)?;
        let sample = payload.get(..SAMPLE)?;
        let (first, numbers) = head.split_first_mut()?;
        let numbers = &mut numbers[number_at - 1..];
        self.header.decrypt_in_place(sample, first, numbers).ok()?;
        let number_length = usize::from(*first & 3) + 1;
        let number = numbers[..number_length].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (head, payload) = bytes.split_at_mut(number_at + number_length);
        // The first packets of a connection have small numbers, which are whole.
        self.packet.decrypt_in_place(number, head, payload).ok()
    }

    /// Reads one frame. `None` if it does not belong into an Initial packet.
    fn read_frame(&mut self, rest: &mut &[u8]) -> Option<()> {
        match varint(rest)? {
            frame::PADDING => {
                let padding = rest.iter().take_while(|byte| **byte == 0).count();
                *rest = &rest[padding..];
            }
            frame::PING => {}
            kind @ (frame::ACK | frame::ACK_ECN) => {
                let (_largest, _delay) = (varint(rest)?, varint(rest)?);
                let ranges = varint(rest)?;
                let _first = varint(rest)?;
                for _ in 0..ranges {
                    let (_gap, _length) = (varint(rest)?, varint(rest)?);
                }
                if kind == frame::ACK_ECN {
                    let (_ect0, _ect1, _ce) = (varint(rest)?, varint(rest)?, varint(rest)?);
                }
            }
            frame::CRYPTO => {
                let offset = usize::try_from(varint(rest)?).ok()?;
                let length = usize::try_from(varint(rest)?).ok()?;
                let (data, behind) = rest.split_at_checked(length)?;
                *rest = behind;
                self.add(offset, data)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds a piece of the stream. `None` if there is no room for it.
    fn add(&mut self, offset: usize, data: &[u8]) -> Option<()> {
        let end = offset.checked_add(data.len()).filter(|end| *end <= MOST_BYTES)?;
        if data.is_empty() {
            return Some(());
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(data);
        let (mut begin, mut until) = (offset, end);
        self.pieces.retain(|(other_begin, other_end)| {
            let is_apart = *other_end < begin || *other_begin > until;
            if !is_apart {
                begin = begin.min(*other_begin);
                until = until.max(*other_end);
            }
            is_apart
        });
        let at = self.pieces.partition_point(|(other, _)| *other < begin);
        self.pieces.insert(at, (begin, until));
        debug_assert!(self.pieces.windows(2).all(|pair| pair[0].1 < pair[1].0), "pieces are in order and apart");
        (self.pieces.len() <= MOST_PIECES).then_some(())
    }
}

/// An Initial packet of version 1 in a datagram.
struct InitialPacket<'d> {
    /// The packet from its first byte to its last.
    bytes: &'d [u8],
    /// The place of the packet number.
    number_at: usize,
}

impl<'d> InitialPacket<'d> {
    /// Takes the packet at the front of a datagram. `None` if there is none, or it is no such packet.
    fn split(datagram: &'d [u8]) -> Option<(InitialPacket<'d>, &'d [u8])> {
        let (first, mut rest) = datagram.split_first()?;
        let (version, behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        if first & 0xf0 != 0xc0 || u32::from_be_bytes(*version) != QUIC_VERSION {
            return None;
        }
        for _ in 0..2 {
            let (length, behind) = rest.split_first()?;
            rest = behind.get(usize::from(*length)..)?;
        }
        let token = usize::try_from(varint(&mut rest)?).ok()?;
        rest = rest.get(token..)?;
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        let behind = rest.get(length..)?;
        let number_at = datagram.len() - rest.len();
        let bytes = &datagram[..number_at + length];
        Some((InitialPacket { bytes, number_at }, behind))
    }
}
