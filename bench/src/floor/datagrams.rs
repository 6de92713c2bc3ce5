//! The floor of a proxy of datagrams: `recvmmsg(2)` and `sendmmsg(2)`, and a socket to the server behind for each client.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use freerun_sys::datagrams::{DatagramDetail, Message, Receiver, Sender};

use super::poll::{self, Poll, Slots};

/// The number of datagrams that are taken or sent with one call.
pub const BATCH: usize = 64;

/// The largest datagram, in bytes.
pub const ROOM: usize = 2048;

/// A client's socket to the server behind.
struct DatagramSession {
    socket: UdpSocket,
    client: SocketAddr,
}

/// The memory for receiving and sending many datagrams with one call each.
pub struct Batch {
    receiver: Receiver,
    sender: Sender,
}

impl Batch {
    /// Memory for a batch.
    pub fn new() -> Batch {
        Batch { receiver: Receiver::new(BATCH, ROOM), sender: Sender::new(BATCH) }
    }

    /// Takes what waits at a socket; returns the number of datagrams, 0 if there are none.
    pub fn receive(&mut self, socket: &UdpSocket, detail: DatagramDetail) -> io::Result<usize> {
        match self.receiver.receive(socket, BATCH, detail) {
            Err(error) if poll::would_wait(&error) => Ok(0),
            // A datagram that was sent did not arrive.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(0),
            other => other,
        }
    }

    /// The sender of a datagram of the last call.
    pub fn from(&self, index: usize) -> Option<SocketAddr> {
        self.receiver.get(index)?.from
    }

    /// Sends datagrams of the last call on. Those for which the socket has no room are lost.
    pub fn send(&mut self, range: std::ops::Range<usize>, socket: &UdpSocket, to: Option<SocketAddr>) {
        let received = range.filter_map(|index| self.receiver.get(index));
        let parts: Vec<[IoSlice<'_>; 1]> = received.map(|datagram| [IoSlice::new(datagram.bytes)]).collect();
        let message = |parts| Message { parts, to, from: None, ecn: 0, segment: None };
        let messages: Vec<Message<'_>> = parts.iter().map(|parts| message(&parts[..])).collect();
        let _ = self.sender.send(socket, &messages);
    }
}

/// Serves until an error; `upstream` is the server behind. The same address of TCP is open, for those who look whether
/// the program listens.
pub fn serve(address: SocketAddr, upstream: SocketAddr) -> io::Result<()> {
    let _open = TcpListener::bind(address)?;
    let listener = UdpSocket::bind(address)?;
    listener.set_nonblocking(true)?;
    let own = poll::number(&listener);
    let mut poll = Poll::new()?;
    poll.watch(&listener)?;
    let mut clients: HashMap<SocketAddr, usize> = HashMap::new();
    let mut sessions: Slots<DatagramSession> = Slots::new();
    let mut batch = Batch::new();
    loop {
        for index in 0..poll.wait()? {
            let (number, _) = poll.event(index);
            if number != own {
                let Some(session) = sessions.get(number) else { continue };
                let count = batch.receive(&session.socket, DatagramDetail::Bytes)?;
                batch.send(0..count, &listener, Some(session.client));
                continue;
            }
            let count = batch.receive(&listener, DatagramDetail::All)?;
            let mut start = 0;
            while start < count {
                let Some(client) = batch.from(start) else { break };
                let same = (start..count).take_while(|index| batch.from(*index) == Some(client)).count();
                let number = match clients.get(&client) {
                    Some(number) => *number,
                    None => {
                        let session = DatagramSession { socket: connect(upstream)?, client };
                        let number = poll::number(&session.socket);
                        poll.watch(&session.socket)?;
                        clients.insert(client, number);
                        sessions.put(number, session);
                        number
                    }
                };
                if let Some(session) = sessions.get(number) {
                    batch.send(start..start + same, &session.socket, None);
                }
                start += same;
            }
        }
    }
}

/// A socket that exchanges datagrams with `peer` alone.
pub fn connect(peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(peer)?;
    Ok(socket)
}

/// Sends every datagram back, until an error.
pub fn echo(socket: &UdpSocket) -> io::Result<()> {
    let mut poll = Poll::new()?;
    poll.watch(socket)?;
    let mut batch = Batch::new();
    loop {
        poll.wait()?;
        let count = batch.receive(socket, DatagramDetail::All)?;
        let mut start = 0;
        while start < count {
            let client = batch.from(start);
            let same = (start..count).take_while(|index| batch.from(*index) == client).count();
            batch.send(start..start + same, socket, client);
            start += same;
        }
    }
}
