//! Receiving many datagrams at a time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use super::control::Control;
use super::name::SocketName;
use super::{Ecn, MOST};

/// The memory for the datagrams of one call, used again for the next.
pub struct Receiver {
    /// The bytes of the datagrams: `room` for each. The kernel gives memory to those pages that are written to.
    bytes: Vec<u8>,
    room: usize,
    names: Vec<SocketName>,
    controls: Vec<Control>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// The number of datagrams.
    filled: usize,
}

// SAFETY: the pointers in the headers and slices are set anew at the beginning of each call, to memory that the value
// owns. Nothing reads them between calls; so it does not matter on which thread the next call is.
unsafe impl Send for Receiver {}

/// A datagram that was received, or several of one sender that the kernel has put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedDatagrams<'a> {
    /// The bytes that it carries.
    pub bytes: &'a [u8],
    /// The sender's address; `None` if it is neither of IPv4 nor of IPv6, or was not asked for.
    pub from: Option<SocketAddr>,
    /// The address that it was sent to, if [`DatagramOptions::destination`](super::DatagramOptions::destination) is set.
    pub to: Option<IpAddr>,
    /// The ECN bits, if [`DatagramOptions::ecn`](super::DatagramOptions::ecn) is set.
    pub ecn: Ecn,
    /// The size of each of the datagrams that the kernel has put together; the last one may be smaller. `None`: it is a
    /// single datagram.
    pub segment: Option<usize>,
    /// Whether it was longer than the room for it, and the rest is lost.
    pub is_truncated: bool,
}

impl<'a> ReceivedDatagrams<'a> {
    /// Each of the datagrams that the kernel has put together by itself. One without bytes is left out.
    pub fn each(self) -> impl Iterator<Item = ReceivedDatagrams<'a>> {
        let size = self.segment.unwrap_or(self.bytes.len()).max(1);
        self.bytes.chunks(size).map(move |bytes| ReceivedDatagrams { bytes, segment: None, ..self })
    }
}

/// DatagramFacts to be known of each datagram besides its bytes; asking for less costs the kernel less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramDetail {
    /// Everything.
    All,
    /// Nothing: a single sender can send to the socket, and the kernel puts nothing together.
    Bytes,
}

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// A header without anything.
pub(super) const fn no_message() -> libc::mmsghdr {
    // SAFETY: the structure consists of numbers and pointers, for which zeroes are valid.
    unsafe { std::mem::zeroed() }
}

impl Receiver {
    /// Memory for `most` datagrams at a time, of at most `room` bytes each.
    pub fn new(most: usize, room: usize) -> Receiver {
        let (most, room) = (most.clamp(1, MOST), room.max(1));
        Receiver {
            bytes: vec![0; most * room],
            room,
            names: vec![SocketName::EMPTY; most],
            controls: vec![Control::EMPTY; most],
            slices: vec![NOTHING; most],
            headers: vec![no_message(); most],
            filled: 0,
        }
    }

    /// The number of datagrams for which it has room.
    pub fn most(&self) -> usize {
        self.headers.len()
    }

    /// Takes up to `most` datagrams that wait at a socket, in place of those that were received before, and returns how
    /// many there were. It does not wait.
    ///
    /// # Errors
    /// `EAGAIN` if there is none. `ECONNREFUSED` and the like if the network has reported that a datagram did not
    /// arrive; it was sent from this socket, a connected one (udp(7)).
    pub fn receive(&mut self, socket: impl AsFd, most: usize, known: DatagramDetail) -> io::Result<usize> {
        self.filled = 0;
        let (name_room, control_room) = match known {
            DatagramDetail::All => (SocketName::ROOM, Control::ROOM),
            DatagramDetail::Bytes => (0, 0),
        };
        let most = most.min(self.headers.len());
        let parts = self.bytes.chunks_exact_mut(self.room).zip(&mut self.names).zip(&mut self.controls);
        for (((bytes, name), control), (slice, header)) in
            parts.zip(self.slices.iter_mut().zip(&mut self.headers)).take(most)
        {
            *slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let message = &mut header.msg_hdr;
            message.msg_name = if name_room == 0 { std::ptr::null_mut() } else { (&raw mut *name).cast() };
            message.msg_namelen = name_room as libc::socklen_t;
            message.msg_iov = &raw mut *slice;
            message.msg_iovlen = 1;
            message.msg_control = if control_room == 0 { std::ptr::null_mut() } else { (&raw mut *control).cast() };
            message.msg_controllen = control_room as _;
            message.msg_flags = 0;
        }
        // SAFETY: there are `most` headers, and each one's pointers and lengths, set above, refer to parts of this
        // value that belong to it alone. These are bytes, one slice that describes them, a name and a control buffer,
        // unless the pointers are null and their lengths 0. Any bits are valid in them. Nothing else uses them during
        // the call. No timeout is given. The descriptor is open.
        let answer = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                most as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(answer) {
            Ok(filled) => {
                debug_assert!(filled <= most, "the kernel has filled more headers than there are");
                self.filled = filled.min(most);
                Ok(self.filled)
            }
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// A datagram of the last [`Receiver::receive`], from 0; `None` if there were not so many.
    pub fn get(&self, index: usize) -> Option<ReceivedDatagrams<'_>> {
        if index >= self.filled {
            return None;
        }
        let header = &self.headers[index];
        let len = (header.msg_len as usize).min(self.room);
        let start = index * self.room;
        let facts = self.controls[index].read(header.msg_hdr.msg_controllen);
        Some(ReceivedDatagrams {
            bytes: &self.bytes[start..start + len],
            from: self.names[index].address(header.msg_hdr.msg_namelen as usize),
            to: facts.to,
            ecn: facts.ecn,
            segment: facts.segment.filter(|segment| *segment < len),
            is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }

    /// The datagrams of the last [`Receiver::receive`].
    pub fn iter(&self) -> impl Iterator<Item = ReceivedDatagrams<'_>> {
        (0..self.filled).filter_map(|index| self.get(index))
    }
}
