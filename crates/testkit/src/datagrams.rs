//! Clients and servers of UDP, for tests.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::PATIENCE;

/// The longest datagram.
const LONGEST: usize = 65_536;

/// A socket for datagrams that a test controls: a client, or a server behind the server under test.
#[derive(Debug)]
pub struct Datagrams(UdpSocket);

impl Default for Datagrams {
    fn default() -> Datagrams {
        Datagrams::new()
    }
}

impl Datagrams {
    /// A socket at a free port of the loopback interface.
    pub fn new() -> Datagrams {
        Datagrams::at((Ipv4Addr::LOCALHOST, 0).into())
    }

    /// A socket at this address.
    ///
    /// # Panics
    /// It is in use.
    pub fn at(address: SocketAddr) -> Datagrams {
        let socket = UdpSocket::bind(address).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Datagrams(socket)
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("it is bound")
    }

    /// Sends a datagram.
    ///
    /// # Panics
    /// It could not be sent.
    pub fn send(&self, bytes: impl AsRef<[u8]>, to: SocketAddr) {
        let bytes = bytes.as_ref();
        assert_eq!(self.0.send_to(bytes, to).expect("a datagram that is sent"), bytes.len());
    }

    /// The next datagram, and where it comes from.
    ///
    /// # Panics
    /// None comes.
    pub fn receive(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = vec![0; LONGEST];
        let (len, from) = self.0.recv_from(&mut buffer).expect("a datagram that comes");
        buffer.truncate(len);
        (buffer, from)
    }

    /// Sends a datagram, and returns the next datagram that comes, as text.
    ///
    /// # Panics
    /// None comes.
    pub fn ask(&self, bytes: impl AsRef<[u8]>, to: SocketAddr) -> String {
        self.send(bytes, to);
        String::from_utf8_lossy(&self.receive().0).into_owned()
    }

    /// Whether a datagram is there already, or comes within a time: only for what must not come.
    pub fn receives_within(&self, time: Duration) -> bool {
        self.receive_within(time).is_some()
    }

    /// The next datagram, if it comes within a time: only for what need not come.
    pub fn receive_within(&self, time: Duration) -> Option<Vec<u8>> {
        let mut buffer = vec![0; LONGEST];
        self.0.set_read_timeout(Some(time)).expect("a timeout");
        let received = self.0.recv_from(&mut buffer);
        self.0.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let (len, _) = received.ok()?;
        buffer.truncate(len);
        Some(buffer)
    }

    /// A server that answers each datagram, until the test process ends: what it has got, behind the port that it came from.
    /// `n` and a number has as many answers. Returns its address.
    pub fn echo() -> SocketAddr {
        let Datagrams(socket) = Datagrams::new();
        let address = socket.local_addr().expect("it is bound");
        socket.set_read_timeout(None).expect("a timeout");
        std::thread::spawn(move || {
            let mut buffer = vec![0; LONGEST];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let bytes = &buffer[..len];
                let count = match bytes {
                    [b'n', digits @ ..] => {
                        std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
                    }
                    _ => 1,
                };
                for _ in 0..count {
                    let answer = [format!("{}:", from.port()).as_bytes(), bytes].concat();
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        address
    }
}
