//! Sending many datagrams at a time.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use super::control::Control;
use super::name::SocketName;
use super::receive::no_message;
use super::{Ecn, MOST};

/// A datagram to send, or several of one size to one address, which the kernel takes apart.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The bytes that it carries, in parts.
    pub parts: &'a [IoSlice<'a>],
    /// The address to send to; `None` if the socket is connected.
    pub to: Option<SocketAddr>,
    /// The address of this machine to send from; `None`: the socket's, or what the kernel chooses.
    pub from: Option<IpAddr>,
    /// The ECN bits.
    pub ecn: Ecn,
    /// The size of each datagram of several; the last one may be smaller (`UDP_SEGMENT`, udp(7)). There are at most 64.
    pub segment: Option<u16>,
}

/// The memory for the headers of one call, used again for the next.
pub struct Sender {
    names: Vec<SocketName>,
    controls: Vec<Control>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in the headers are set anew at the beginning of each call, and nothing reads them between calls.
// So it does not matter on which thread the next call is.
unsafe impl Send for Sender {}

impl Sender {
    /// Memory for `most` messages at a time.
    pub fn new(most: usize) -> Sender {
        let most = most.clamp(1, MOST);
        Sender {
            names: vec![SocketName::EMPTY; most],
            controls: vec![Control::EMPTY; most],
            headers: vec![no_message(); most],
        }
    }

    /// The number of messages for which it has room.
    pub fn most(&self) -> usize {
        self.headers.len()
    }

    /// Sends messages in their order, as many as there is room for, and returns how many were sent. It does not wait.
    ///
    /// # Errors
    /// The error of `sendmmsg(2)` about the first message. `EAGAIN`: the socket is full. `EMSGSIZE`: the message is too
    /// long. `EINVAL`, `EIO`: the datagrams of one size cannot be sent as one message on this way. Their size is more
    /// than the size of its packets, or the device cannot compute checksums. `ENOBUFS`: the device is full.
    pub fn send(&mut self, socket: impl AsFd, messages: &[Message<'_>]) -> io::Result<usize> {
        let parts = self.names.iter_mut().zip(&mut self.controls).zip(&mut self.headers);
        let mut count = 0;
        for (((name, control), header), message) in parts.zip(messages) {
            let mut name_len = 0;
            if let Some(to) = message.to {
                (*name, name_len) = SocketName::of(to);
            }
            let is_ipv6 = match (message.to, message.from) {
                // What goes to a mapped address (RFC 4291, section 2.5.5.2) is a datagram of IPv4.
                (Some(SocketAddr::V6(to)), _) => to.ip().to_ipv4_mapped().is_none(),
                (Some(SocketAddr::V4(_)), _) => false,
                (None, from) => from.is_some_and(|from| from.is_ipv6()),
            };
            let control_len = control.write(is_ipv6, message.from, message.ecn, message.segment);
            let header = &mut header.msg_hdr;
            header.msg_name = if name_len == 0 { std::ptr::null_mut() } else { (&raw mut *name).cast() };
            header.msg_namelen = name_len as libc::socklen_t;
            // An `IoSlice` has the layout of an `iovec` (std says so), and the kernel only reads.
            header.msg_iov = message.parts.as_ptr().cast_mut().cast();
            header.msg_iovlen = message.parts.len() as _;
            header.msg_control = if control_len == 0 { std::ptr::null_mut() } else { (&raw mut *control).cast() };
            header.msg_controllen = control_len as _;
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: there are `count` headers, and each one's pointers and lengths, set above, refer to a name and a
        // control buffer of this value and to a slice of `IoSlice`. All of them live through the call. sendmmsg(2) only
        // reads what they point to, and writes lengths to the headers. The descriptor is open.
        let answer = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(answer).map_err(|_| io::Error::last_os_error())
    }
}
