//! A connection that a simulated upstream server has accepted: requests come in, exact bytes go out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::SockRef;

use crate::ConnectionEnd;
use crate::tls::{TlsConnection, TlsServer, Visitor};

/// The time that a peer waits for bytes.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The time that a peer waits until the other side takes more bytes.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// A request as the upstream has received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The request line and the fields, with the empty line; read as Latin-1 if it is not UTF-8.
    pub head: String,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
}

/// Bytes as text in which they are all told apart.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

impl ReceivedRequest {
    /// The request line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The request target.
    pub fn target(&self) -> &str {
        self.line().split(' ').nth(1).unwrap_or_default()
    }

    /// The value of the first field of that name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).into_iter().next()
    }

    /// The values of all fields of that name, ignoring case.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

#[derive(Debug)]
pub(crate) enum PeerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsConnection>),
}

impl PeerStream {
    fn socket(&self) -> SockRef<'_> {
        match self {
            PeerStream::Tcp(tcp) => SockRef::from(tcp),
            PeerStream::Unix(unix) => SockRef::from(unix),
            PeerStream::Tls(tls) => SockRef::from(&tls.stream.sock),
        }
    }
}

/// A connection that the upstream has accepted.
#[derive(Debug)]
pub struct Peer {
    stream: PeerStream,
    received: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(stream: PeerStream) -> Peer {
        let socket = stream.socket();
        socket.set_nonblocking(false).expect("a stream that waits");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket.set_write_timeout(Some(SEND_TIMEOUT)).expect("a timeout");
        if let PeerStream::Tcp(tcp) = &stream {
            tcp.set_nodelay(true).expect("TCP_NODELAY");
        }
        Peer { stream, received: Vec::new() }
    }

    /// Makes the peer wait for bytes as long as the connection lasts: a connection that the server keeps must not end
    /// because a busy machine is slow.
    #[must_use]
    pub fn patient(self) -> Peer {
        let socket = self.stream.socket();
        socket.set_read_timeout(None).expect("no timeout");
        self
    }

    /// Begins TLS, whose handshake goes on with what is read or sent.
    ///
    /// # Panics
    /// The connection is not of TCP, or has TLS already.
    pub(crate) fn tls(self, server: &TlsServer) -> Peer {
        let PeerStream::Tcp(stream) = self.stream else { panic!("TLS over {:?}", self.stream) };
        Peer { stream: PeerStream::Tls(Box::new(TlsConnection::new(server, stream))), received: self.received }
    }

    /// Finishes the handshake, and tells who is there.
    ///
    /// # Errors
    /// There is no session.
    ///
    /// # Panics
    /// The connection has no TLS.
    pub fn try_visitor(&mut self) -> io::Result<Visitor> {
        let PeerStream::Tls(tls) = &mut self.stream else { panic!("no TLS over {:?}", self.stream) };
        tls.shake_hands()?;
        Ok(tls.visitor())
    }

    /// Finishes the handshake, and tells who is there.
    ///
    /// # Panics
    /// There is no session, or the connection has no TLS.
    #[track_caller]
    pub fn visitor(&mut self) -> Visitor {
        self.try_visitor().unwrap_or_else(|error| panic!("no session: {error}"))
    }

    /// Ends a session of TLS with `close_notify`; without it, a connection that ends is cut.
    pub fn notify(&mut self) {
        if let PeerStream::Tls(tls) = &mut self.stream {
            tls.notify();
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut piece = [0; 65536];
        let n = match &mut self.stream {
            PeerStream::Tcp(stream) => stream.read(&mut piece)?,
            PeerStream::Unix(stream) => stream.read(&mut piece)?,
            PeerStream::Tls(tls) => tls.read(&mut piece)?,
        };
        self.received.extend_from_slice(&piece[..n]);
        Ok(n)
    }

    /// Sets how long to wait for bytes from now on.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.stream.socket().set_read_timeout(Some(timeout)).expect("a timeout");
    }

    /// Waits for bytes, and moves them behind those in `to`.
    pub(crate) fn more(&mut self, to: &mut Vec<u8>) -> Result<(), ConnectionEnd> {
        let come = if self.received.is_empty() { self.fill() } else { Ok(self.received.len()) };
        to.append(&mut self.received);
        match come {
            Ok(0) => Err(ConnectionEnd::Closed),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(ConnectionEnd::Silent)
            }
            Err(_) => Err(ConnectionEnd::Reset),
        }
    }

    /// The head of the next request, and none of its body.
    ///
    /// # Panics
    /// No request comes.
    #[track_caller]
    pub fn head(&mut self) -> String {
        match self.try_head() {
            Some(head) => head,
            None => panic!("no head, but {:?}", String::from_utf8_lossy(&self.received)),
        }
    }

    fn try_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                return Some(String::from_utf8(head).unwrap_or_else(|error| latin1(error.as_bytes())));
            }
            if self.fill().ok()? == 0 {
                return None;
            }
        }
    }

    /// The next request, whole.
    ///
    /// # Panics
    /// No request comes.
    #[track_caller]
    pub fn request(&mut self) -> ReceivedRequest {
        match self.try_request() {
            Some(request) => request,
            None => panic!("no request, but {:?}", String::from_utf8_lossy(&self.received)),
        }
    }

    /// The next request; `None` if the connection ends, or no request comes.
    pub fn try_request(&mut self) -> Option<ReceivedRequest> {
        let head = self.try_head()?;
        self.try_body(head)
    }

    /// The body behind a head.
    ///
    /// # Panics
    /// The body does not come.
    #[track_caller]
    pub fn body(&mut self, head: String) -> Vec<u8> {
        match self.try_body(head) {
            Some(request) => request.body,
            None => panic!("no whole body, and {} bytes behind the last part", self.received.len()),
        }
    }

    fn try_body(&mut self, head: String) -> Option<ReceivedRequest> {
        let mut request = ReceivedRequest { head, body: Vec::new() };
        if request.header("transfer-encoding").is_some() {
            loop {
                let line = self.try_line()?;
                let size = usize::from_str_radix(line.trim(), 16).ok()?;
                if size == 0 {
                    while !self.try_line()?.is_empty() {}
                    break;
                }
                request.body.extend(self.try_bytes(size)?);
                self.try_line()?;
            }
        } else if let Some(length) = request.header("content-length") {
            let length = length.parse().ok()?;
            request.body = self.try_bytes(length)?;
        }
        Some(request)
    }

    fn try_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.received.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).ok();
            }
            if self.fill().ok()? == 0 {
                return None;
            }
        }
    }

    /// Exactly `count` bytes.
    ///
    /// # Panics
    /// Fewer bytes come.
    #[track_caller]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.try_bytes(count).unwrap_or_else(|| panic!("{} of {count} bytes came", self.received.len()))
    }

    /// Exactly `count` bytes; `None` if fewer come.
    pub fn try_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.received.len() < count {
            if self.fill().ok()? == 0 {
                return None;
            }
        }
        Some(self.received.drain(..count).collect())
    }

    /// All bytes until the other side closes (or resets).
    ///
    /// # Panics
    /// The other side does not close.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("the connection was not closed: {error}"),
            }
        }
        std::mem::take(&mut self.received)
    }

    /// Sends all these bytes.
    ///
    /// # Panics
    /// The other side has gone.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("bytes sent by the upstream");
    }

    /// Sends all these bytes.
    ///
    /// # Errors
    /// The error of `send(2)`.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            PeerStream::Tcp(stream) => stream.write_all(bytes.as_ref()),
            PeerStream::Unix(stream) => stream.write_all(bytes.as_ref()),
            PeerStream::Tls(tls) => tls.write_all(bytes.as_ref()),
        }
    }

    /// Another handle on the same connection, for sending while something is received.
    ///
    /// # Panics
    /// There are no more descriptors, or the connection has TLS.
    #[track_caller]
    pub fn also(&self) -> Peer {
        let stream = match &self.stream {
            PeerStream::Tcp(stream) => PeerStream::Tcp(stream.try_clone().expect("a descriptor")),
            PeerStream::Unix(stream) => PeerStream::Unix(stream.try_clone().expect("a descriptor")),
            PeerStream::Tls(_) => panic!("a session has one handle"),
        };
        Peer { stream, received: Vec::new() }
    }

    /// The address that the connection comes from; `None` for a Unix socket.
    pub fn remote(&self) -> Option<SocketAddr> {
        match &self.stream {
            PeerStream::Tcp(stream) => stream.peer_addr().ok(),
            PeerStream::Unix(_) => None,
            PeerStream::Tls(tls) => tls.stream.sock.peer_addr().ok(),
        }
    }

    /// Ends the sending side.
    pub fn half_close(&mut self) {
        let _ = self.stream.socket().shutdown(Shutdown::Write);
    }

    /// Stops receiving. On a Unix socket, later sends of the other side fail.
    pub fn stop_taking(&mut self) {
        let _ = self.stream.socket().shutdown(Shutdown::Read);
    }

    /// Closes the connection, and returns when the other side's kernel has the end. Otherwise the end may still be on
    /// its way when `close(2)` returns, and bytes that are sent from there meanwhile are lost, whatever that side does.
    pub fn close(self) {
        if !matches!(self.stream, PeerStream::Unix(_)) {
            self.stream.socket().set_linger(Some(TIMEOUT)).expect("SO_LINGER");
        }
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        if !matches!(self.stream, PeerStream::Unix(_)) {
            let _ = self.stream.socket().set_linger(Some(Duration::ZERO));
        }
    }
}
