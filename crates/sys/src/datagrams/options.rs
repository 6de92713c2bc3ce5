//! Options of sockets for datagrams.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Options of a UDP socket: facts that the kernel gives with each received datagram, and rules for those that are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    /// The address that it was sent to, for a socket that is bound to all addresses (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).
    pub destination: bool,
    /// ECN (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub ecn: bool,
    /// Several datagrams of one sender in one piece, with their size (`UDP_GRO`).
    pub gro: bool,
    /// Whether datagrams that are sent stay whole on their way (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`). What is too long for the
    /// first link is refused with `EMSGSIZE`. What is too long for a later one is lost.
    pub unfragmented: bool,
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
            if is_ipv6 {
                on(&fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO)?;
            } else {
                on(&fd, libc::SOL_IP, libc::IP_PKTINFO)?;
            }
        }
        if self.ecn {
            if is_ipv6 {
                // A socket of IPv6 may receive datagrams of IPv4, too.
                on(&fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS)?;
                let _ = on(&fd, libc::SOL_IP, libc::IP_RECVTOS);
            } else {
                on(&fd, libc::SOL_IP, libc::IP_RECVTOS)?;
            }
        }
        if self.unfragmented {
            if is_ipv6 {
                crate::socket::set(&fd, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
                let _ = crate::socket::set(&fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
            } else {
                crate::socket::set(&fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
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

/// `SO_DETACH_REUSEPORT_BPF`, since Linux 5.3.
const SO_DETACH_REUSEPORT_BPF: libc::c_int = 68;

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

/// Takes away the program of [`steer`]: the kernel chooses by the hash of the addresses again.
///
/// # Errors
/// `ENOENT` if there is none, or the socket is not one of several; `ENOPROTOOPT` before Linux 5.3.
pub fn unsteer(fd: impl AsFd) -> io::Result<()> {
    on(&fd, libc::SOL_SOCKET, SO_DETACH_REUSEPORT_BPF)
}
