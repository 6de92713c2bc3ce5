//! Options of sockets for datagrams.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The facts that the kernel is to give with each received datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    /// The address that it was sent to, for a socket that is bound to all addresses (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).
    pub destination: bool,
    /// ECN (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub ecn: bool,
    /// Several datagrams of one sender in one piece, with their size (`UDP_GRO`).
    pub gro: bool,
}

fn on(fd: &impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    crate::socket::set(fd, level, name, 1)
}

impl DatagramOptions {
    /// Sets these options of a UDP socket of IPv6 or of IPv4. A kernel without `UDP_GRO` (before Linux 5.0) delivers
    /// datagrams one by one.
    ///
    /// # Errors
    /// The error of `setsockopt(2)`.
    pub fn apply(&self, fd: impl AsFd, is_ipv6: bool) -> io::Result<()> {
        if self.destination {
            match is_ipv6 {
                true => on(&fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO)?,
                false => on(&fd, libc::SOL_IP, libc::IP_PKTINFO)?,
            }
        }
        if self.ecn {
            match is_ipv6 {
                // A socket of IPv6 may receive datagrams of IPv4, too.
                true => {
                    on(&fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS)?;
                    let _ = on(&fd, libc::SOL_IP, libc::IP_RECVTOS);
                }
                false => on(&fd, libc::SOL_IP, libc::IP_RECVTOS)?,
            }
        }
        if self.gro {
            let _ = on(&fd, libc::SOL_UDP, libc::UDP_GRO);
        }
        Ok(())
    }
}

/// An instruction of classic BPF (`linux/filter.h`): the operation, how far to jump if a comparison holds and if it does
/// not, and its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// The number of instructions to skip if the comparison holds.
    pub if_true: u8,
    /// The number of instructions to skip if it does not hold.
    pub if_false: u8,
    /// The operand.
    pub operand: u32,
}

/// `SO_ATTACH_REUSEPORT_CBPF` (socket(7)).
const SO_ATTACH_REUSEPORT_CBPF: libc::c_int = 51;

/// `struct sock_fprog` of `linux/filter.h`.
#[repr(C)]
struct Program {
    len: libc::c_ushort,
    instructions: *const Instruction,
}

/// Has a program choose the socket for each datagram to an address that several sockets share (`SO_REUSEPORT`). The
/// program returns the socket's number, in the order in which they were bound (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).
/// The whole group has one program, whichever socket it is set on, and it needs no rights. It sees what the datagram
/// carries from its first byte on. If the number is none of a socket, the kernel chooses by the hash of the addresses,
/// as without a program.
///
/// # Errors
/// `EINVAL` if the kernel does not accept the program.
pub fn steer(fd: impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let Ok(len) = libc::c_ushort::try_from(program.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let program = Program { len, instructions: program.as_ptr() };
    // SAFETY: the pointer and length belong to `program`, whose own pointer and length come from a slice. Both live
    // through the call, and `Instruction` has the layout of `struct sock_filter`. The kernel copies both and checks the
    // program before it uses it. The descriptor is open.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<Program>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
