//! The socket of a client, and the memory for its datagrams that all clients of a thread share.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use freerun_sys::datagrams::{DatagramDetail, DatagramOptions, Message, Receiver, Sender};

/// Number of runs of datagrams that are taken with one call, and the room for each.
const BATCH: usize = 16;
const LONGEST_RUN: usize = 65_536;

/// The size of a socket's buffer that is asked for, in bytes.
const BUFFER: usize = 4 << 20;

/// The memory for datagrams.
pub struct Wire {
    /// The datagrams that were received last.
    pub receiver: Receiver,
    sender: Sender,
    /// The datagrams to send.
    pub output: Vec<u8>,
}

impl Wire {
    /// Memory for the clients of a thread.
    pub fn new() -> Wire {
        Wire { receiver: Receiver::new(BATCH, LONGEST_RUN), sender: Sender::new(1), output: Vec::new() }
    }

    /// Takes the datagrams that have come to a socket. Returns whether there were any.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<bool> {
        match self.receiver.receive(socket, BATCH, DatagramDetail::All) {
            Ok(count) => Ok(count > 0),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends the first `length` bytes of the output as datagrams of `segment` bytes. A full socket loses them, as any network
    /// may.
    pub fn send(&mut self, socket: &UdpSocket, length: usize, segment: Option<usize>) {
        let parts = [IoSlice::new(&self.output[..length])];
        let segment = segment.and_then(|segment| u16::try_from(segment).ok());
        let _ = self.sender.send(socket, &[Message { parts: &parts, to: None, from: None, ecn: 0, segment }]);
    }
}

/// A socket whose peer is `server`. Without a source, the kernel chooses it.
pub fn socket(server: SocketAddr, source: Option<Ipv4Addr>) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((IpAddr::from(source.unwrap_or(Ipv4Addr::UNSPECIFIED)), 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    // The kernel gives less if it has to.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    DatagramOptions { gro: true, unfragmented: true, ..DatagramOptions::default() }.apply(&socket, false)?;
    Ok(socket)
}
