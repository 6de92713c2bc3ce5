//! Datagrams of UDP, many with one call: `recvmmsg(2)` and `sendmmsg(2)`. Control messages (cmsg(3)) carry facts about
//! each datagram to and from the kernel: the address that it was sent to, ECN, and the size of its parts. It has parts
//! when the kernel has put several datagrams together (`UDP_GRO`) or is to take it apart (`UDP_SEGMENT`, udp(7)).

mod control;
mod name;
mod options;
mod receive;
mod send;

pub use options::{DatagramOptions, Instruction, steer, unsteer};
pub use receive::{DatagramDetail, ReceivedDatagrams, Receiver};
pub use send::{Message, Sender};

/// The bits of ECN in an IP header (RFC 3168, section 5): 0 if the sender does not support it.
pub type Ecn = u8;

/// The mask of these bits in the byte that IPv4 calls "type of service" and IPv6 "traffic class".
const ECN: u8 = 0b11;

/// The length of a kernel's table of messages in one call, `UIO_MAXIOV` (recvmmsg(2), sendmmsg(2)).
const MOST: usize = 1024;

#[cfg(test)]
mod tests;
