//! Which of several sockets at one address gets a datagram, when each loop has one (`SO_REUSEPORT`).
//!
//! The kernel's own choice is a hash of both addresses: all datagrams of one client to one address come to one loop, as
//! long as the number of sockets stays. That is what sessions need. In QUIC, peers keep their identity when their
//! address changes (RFC 9000, section 9): the bytes of the datagram decide. Programs of classic BPF can do that: the
//! kernel runs them without rights, and they see the datagram's bytes.

use std::io;
use std::os::fd::AsFd;

use freerun_sys::datagrams::{self, Instruction};

/// The operations of classic BPF that are used here (`linux/bpf_common.h`).
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_BITS: u16 = 0x45;
const JUMP: u16 = 0x05;
const MODULO: u16 = 0x94;
const RETURN: u16 = 0x16;

/// The bit of a QUIC packet's first byte that says that it has a long header (RFC 8999, section 5.1).
const LONG_HEADER: u32 = 0x80;

/// Place of the destination's connection ID in a packet with a long header: behind a byte of flags, the version, and
/// the length of the ID (RFC 8999, section 5.1).
const LONG_ID: u32 = 6;
/// Place of the destination's connection ID in a packet with a short header: behind a byte of flags (section 5.2).
const SHORT_ID: u32 = 1;

fn instruction(code: u16, operand: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, operand }
}

/// A program that chooses by the first byte of a QUIC packet's connection ID: the remainder of its division by the number
/// of sockets. A server that gives out IDs whose first byte has its loop's number as that remainder finds all packets of
/// a connection on that loop, wherever they come from. A client's first packets have random IDs, which spread clients
/// over the loops. A datagram that is too short for an ID comes to the first socket.
fn by_connection_id(sockets: u8) -> [Instruction; 6] {
    [
        instruction(LOAD_BYTE, 0),
        Instruction { code: JUMP_IF_BITS, if_true: 0, if_false: 2, operand: LONG_HEADER },
        instruction(LOAD_BYTE, LONG_ID),
        instruction(JUMP, 1),
        instruction(LOAD_BYTE, SHORT_ID),
        instruction(MODULO, u32::from(sockets.max(1))),
    ]
}

/// Has the kernel choose among the sockets at the address of this one by the connection ID of QUIC packets: the first byte
/// modulo their number.
///
/// # Errors
/// The kernel does not accept it (`setsockopt(2)`); the socket is not one of several.
pub fn steer_by_connection_id(socket: impl AsFd, sockets: u8) -> io::Result<()> {
    let mut program = by_connection_id(sockets).to_vec();
    program.push(instruction(RETURN, 0));
    datagrams::steer(socket, &program)
}

/// Has the kernel choose by the hash of both addresses again, if [`steer_by_connection_id`] was called for the sockets.
///
/// # Errors
/// The kernel cannot do that (before Linux 5.3).
pub fn steer_by_addresses(socket: impl AsFd) -> io::Result<()> {
    match datagrams::unsteer(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
