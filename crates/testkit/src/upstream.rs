//! A server behind the server under test, which does exactly what the test demands. It answers in exact bytes, pauses
//! until the test goes on, ends or resets connections on demand.
//!
//! Either the test does this step by step ([`TestUpstream::accept`]), or a function answers each request
//! ([`TestUpstream::answering`]).

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

use crate::peer::{Peer, PeerStream, ReceivedRequest};
use crate::tls::TlsServer;

/// The time that an upstream waits for a connection.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A listening socket that simulates an upstream server.
#[derive(Debug)]
pub struct TestUpstream {
    listener: Listener,
    tls: Option<TlsServer>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl TestUpstream {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn new() -> TestUpstream {
        TestUpstream::on(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Listens on this address.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn on(address: SocketAddr) -> TestUpstream {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("upstream on {address}: {error}"));
        listener.set_nonblocking(true).expect("a listener that does not wait");
        TestUpstream { listener: Listener::Tcp(listener), tls: None }
    }

    /// Listens on a free port of 127.0.0.1 and speaks TLS.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn tls(server: TlsServer) -> TestUpstream {
        TestUpstream { tls: Some(server), ..TestUpstream::new() }
    }

    /// Listens on a Unix socket.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn unix(path: &Path) -> TestUpstream {
        let listener =
            UnixListener::bind(path).unwrap_or_else(|error| panic!("upstream on {}: {error}", path.display()));
        listener.set_nonblocking(true).expect("a listener that does not wait");
        TestUpstream { listener: Listener::Unix(listener, path.to_owned()), tls: None }
    }

    /// The address in the form of a `server` directive: `127.0.0.1:8000`, `unix:/path`.
    pub fn address(&self) -> String {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().expect("an address").to_string(),
            Listener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// The port; 0 for a Unix socket.
    pub fn port(&self) -> u16 {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().expect("an address").port(),
            Listener::Unix(..) => 0,
        }
    }

    /// The next connection.
    ///
    /// # Panics
    /// No connection comes.
    #[track_caller]
    pub fn accept(&self) -> Peer {
        self.try_accept(TIMEOUT).unwrap_or_else(|| panic!("no connection came to the upstream {}", self.address()))
    }

    /// The next connection, if one comes within this time.
    pub fn try_accept(&self, wait: Duration) -> Option<Peer> {
        let end = Instant::now() + wait;
        loop {
            let accepted = match &self.listener {
                Listener::Tcp(listener) => listener.accept().map(|(stream, _)| PeerStream::Tcp(stream)),
                Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| PeerStream::Unix(stream)),
            };
            match accepted {
                Ok(stream) => {
                    let peer = Peer::new(stream);
                    return Some(match &self.tls {
                        Some(server) => peer.tls(server),
                        None => peer,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = end.checked_duration_since(Instant::now())?;
                    let socket = match &self.listener {
                        Listener::Tcp(listener) => listener.as_fd(),
                        Listener::Unix(listener, _) => listener.as_fd(),
                    };
                    let left = Timespec::try_from(left).ok();
                    let _ = poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], left.as_ref());
                }
                Err(_) => return None,
            }
        }
    }

    /// Calls `answer` for each request of each connection, on threads of their own, until the process ends. `answer`
    /// returns the bytes of the answer; an empty answer closes the connection without one. The connection stays open
    /// after an answer whose head does not have `Connection: close`, unless it has neither a length nor chunks.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn answering(answer: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> AnsweringUpstream {
        TestUpstream::new().answer(answer)
    }

    /// As [`answering`](Self::answering), on this upstream.
    #[track_caller]
    pub fn answer(self, answer: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> AnsweringUpstream {
        let upstream = self;
        let address = upstream.address();
        let connections = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (count, requests, answer) = (connections.clone(), seen.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            loop {
                let Some(peer) = upstream.try_accept(Duration::from_secs(3600)) else { return };
                let mut peer = peer.patient();
                count.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (answer.clone(), requests.clone());
                std::thread::spawn(move || {
                    while let Some(request) = peer.try_request() {
                        if let Ok(mut requests) = requests.lock() {
                            requests.push(request.clone());
                        }
                        let bytes = answer(&request);
                        if bytes.is_empty() || peer.try_send(&bytes).is_err() || !stays_open(&bytes) {
                            return;
                        }
                    }
                });
            }
        });
        AnsweringUpstream { address, connections, seen }
    }
}

impl Default for TestUpstream {
    fn default() -> TestUpstream {
        TestUpstream::new()
    }
}

/// An address of 127.0.0.1 that refuses connections. No other process gets its port while this exists. A port that was
/// merely free a moment ago may belong to another test's server already.
#[derive(Debug)]
pub struct RefusingAddress {
    bound: Socket,
}

impl RefusingAddress {
    /// A free port on which no server listens.
    ///
    /// # Panics
    /// There is no free port.
    #[track_caller]
    pub fn new() -> RefusingAddress {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
        RefusingAddress { bound }
    }

    /// The address in the form of a `server` directive.
    pub fn address(&self) -> String {
        self.bound.local_addr().ok().and_then(|address| address.as_socket()).expect("an address").to_string()
    }
}

/// An address of 127.0.0.1 that neither accepts nor refuses connections: its queue is full, so the kernel drops what
/// asks for one.
#[derive(Debug)]
pub struct Full {
    listening: Socket,
    _held: Vec<TcpStream>,
}

impl Full {
    /// Fills the queue of a listening socket.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn new() -> Full {
        let listening = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listening.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
        listening.listen(0).expect("a listener");
        let address = listening.local_addr().ok().and_then(|address| address.as_socket()).expect("an address");
        // The first connection that has to wait shows that no room is left.
        let wait = Duration::from_millis(300);
        let held = std::iter::from_fn(|| TcpStream::connect_timeout(&address, wait).ok()).take(16).collect();
        Full { listening, _held: held }
    }

    /// The address in the form of a `server` directive.
    pub fn address(&self) -> String {
        self.listening.local_addr().ok().and_then(|address| address.as_socket()).expect("an address").to_string()
    }
}

impl Default for Full {
    fn default() -> Full {
        Full::new()
    }
}

impl Default for RefusingAddress {
    fn default() -> RefusingAddress {
        RefusingAddress::new()
    }
}

fn stays_open(answer: &[u8]) -> bool {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let bodiless = [" 204", " 304"].iter().any(|status| head.lines().next().is_some_and(|line| line.contains(status)));
    !head.contains("\nconnection: close")
        && (bodiless || head.contains("\ncontent-length:") || head.contains("\ntransfer-encoding: chunked"))
}

/// The bytes of a response of 200 with this body.
pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// A record of FastCGI, of the first request.
pub fn fastcgi_record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[1, kind, 0, 1, (content.len() >> 8) as u8, content.len() as u8, 0, 0], content].concat()
}

/// An upstream that answers requests by itself.
#[derive(Debug)]
pub struct AnsweringUpstream {
    address: String,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl AnsweringUpstream {
    /// The address in the form of a `server` directive.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The number of connections that have come.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests that have come and were not taken yet, in their order.
    pub fn take_requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().map(|mut seen| std::mem::take(&mut *seen)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_played_upstream_sees_exact_bytes() {
        let upstream = TestUpstream::new();
        let mut client = TcpStream::connect(upstream.address()).unwrap();
        client
            .write_all(b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nmore")
            .unwrap();
        let mut peer = upstream.accept();
        let request = peer.request();
        assert_eq!((request.target(), request.header("HOST"), &request.body[..]), ("/a", Some("x"), &b"abc"[..]));
        assert_eq!(peer.bytes(4), b"more");
        peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        drop(peer);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HTTP/1.1 204 No Content\r\n\r\n");
    }

    #[test]
    fn nobody_else_gets_a_port_that_refuses() {
        let refusing = RefusingAddress::new();
        assert_eq!(TcpStream::connect(refusing.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(refusing.address()).unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn an_answering_upstream_keeps_connections_and_requests() {
        let upstream = TestUpstream::answering(|request| ok(request.target()));
        let mut client = TcpStream::connect(upstream.address()).unwrap();
        for path in ["/a", "/b"] {
            write!(client, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = [0; 40];
            client.read_exact(&mut answer).unwrap();
            assert!(answer.ends_with(path.as_bytes()), "{}", String::from_utf8_lossy(&answer));
        }
        assert_eq!(upstream.connections(), 1);
        assert_eq!(upstream.take_requests().len(), 2);
    }
}
