//! A client that sends exactly the bytes that a test gives it.

use crate::connection_end::ConnectionEnd;
use crate::response::{ParsedResponse, Response};
use crate::tls::{AgreedParameters, Session, Tls, TlsFailure};
use crate::wait::SLICE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// A connection.
#[derive(Debug)]
pub struct TestClient {
    socket: Socket,
    tls: Option<Box<Session>>,
    trickles: bool,
    received: Vec<u8>,
    timeout: Duration,
}

/// The time that a client waits for the next byte by default.
const TIMEOUT: Duration = Duration::from_secs(15);

impl TestClient {
    /// Connects over TCP.
    ///
    /// # Errors
    /// The error of `connect(2)`.
    pub fn try_connect(address: SocketAddr) -> io::Result<TestClient> {
        TestClient::open(Domain::for_address(address), &address.into(), None, None)
    }

    /// Connects with a receive buffer of about this many bytes, so that a server soon has to wait for a slow reader.
    ///
    /// # Errors
    /// The error of `connect(2)`.
    pub fn try_connect_narrow(address: SocketAddr, receive_buffer: usize) -> io::Result<TestClient> {
        TestClient::open(Domain::for_address(address), &address.into(), Some(receive_buffer), None)
    }

    /// Connects from a given address, so that the server sees another client.
    ///
    /// # Errors
    /// The error of `bind(2)` or `connect(2)`.
    pub fn try_connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TestClient> {
        TestClient::open(Domain::for_address(address), &address.into(), None, Some(SocketAddr::new(source, 0)))
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// The error of `connect(2)`.
    pub fn try_connect_unix(path: &Path) -> io::Result<TestClient> {
        TestClient::open(Domain::UNIX, &SockAddr::unix(path)?, None, None)
    }

    fn open(
        domain: Domain,
        address: &SockAddr,
        receive_buffer: Option<usize>,
        source: Option<SocketAddr>,
    ) -> io::Result<TestClient> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if let Some(source) = source {
            socket.bind(&source.into())?;
        }
        if let Some(size) = receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        socket.connect_timeout(address, TIMEOUT).or_else(|error| match domain {
            // A Unix socket has no connection in progress to wait for.
            Domain::UNIX => socket.connect(address),
            _ => Err(error),
        })?;
        socket.set_nonblocking(false)?;
        if domain != Domain::UNIX {
            socket.set_tcp_nodelay(true)?;
        }
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(TestClient { socket, tls: None, trickles: false, received: Vec::new(), timeout: TIMEOUT })
    }

    /// Begins TLS: from now on, what is sent and received goes through a session.
    ///
    /// # Errors
    /// There is no session.
    pub fn try_tls(mut self, tls: &Tls) -> Result<TestClient, TlsFailure> {
        let failed = |client: &TestClient, ending| {
            let session = client.tls.as_ref();
            let alert = session.and_then(|session| session.alert);
            TlsFailure { alert, ending, error: session.and_then(|session| session.error.clone()) }
        };
        self.tls = Some(Box::new(Session::new(tls)));
        loop {
            let ended = self.send_waiting().err().map(|_| ConnectionEnd::Reset);
            let Some(session) = &self.tls else { unreachable!("it was made above") };
            if session.alert.is_some() || session.error.is_some() {
                return Err(failed(&self, None));
            }
            if !session.is_handshaking() {
                return Ok(self);
            }
            // An alert may have come before the connection broke.
            if let Err(ending) = self.receive() {
                return Err(failed(&self, ended.or(Some(ending))));
            }
        }
    }

    /// As [`try_tls`](Self::try_tls), with each byte of the handshake sent alone.
    ///
    /// # Errors
    /// There is no session.
    pub fn try_tls_trickling(mut self, tls: &Tls) -> Result<TestClient, TlsFailure> {
        self.trickles = true;
        let mut client = self.try_tls(tls)?;
        client.trickles = false;
        Ok(client)
    }

    /// Begins TLS: from now on, what is sent and received goes through a session.
    ///
    /// # Panics
    /// There is no session.
    #[track_caller]
    pub fn tls(self, tls: &Tls) -> TestClient {
        match self.try_tls(tls) {
            Ok(client) => client,
            Err(failure) => panic!("no session: {failure:?}"),
        }
    }

    /// The parameters that client and server have agreed on.
    ///
    /// # Panics
    /// The connection has no TLS.
    #[track_caller]
    pub fn agreed(&self) -> AgreedParameters {
        self.session().agreed()
    }

    /// The number of the alert that ended the session, as far as it was received.
    ///
    /// # Panics
    /// The connection has no TLS; the methods below panic in this case, too.
    #[track_caller]
    pub fn alert(&self) -> Option<u8> {
        self.session().alert
    }

    /// Whether the server has sent `close_notify`, as far as that was received.
    #[track_caller]
    pub fn is_notified(&self) -> bool {
        self.session().notified
    }

    /// The lengths of the records that are marked as application data and were received. With TLS 1.3 that is all that
    /// is encrypted, so that messages of the handshake and tickets are among them (RFC 8446 section 5.2).
    #[track_caller]
    pub fn records(&self) -> &[usize] {
        &self.session().records
    }

    #[track_caller]
    fn session(&self) -> &Session {
        match &self.tls {
            Some(session) => session,
            None => panic!("no TLS"),
        }
    }

    /// Sends what the session has to say.
    fn send_waiting(&mut self) -> io::Result<()> {
        let bytes = self.tls.as_mut().map(|session| session.outgoing()).unwrap_or_default();
        if self.trickles {
            bytes.iter().try_for_each(|byte| self.socket.write_all(&[*byte]))
        } else {
            self.socket.write_all(&bytes)
        }
    }

    /// The bytes that go over the wire for these. A session counts them as sent.
    ///
    /// # Errors
    /// The session has ended.
    pub fn wired(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match &mut self.tls {
            Some(session) => session.encrypt(bytes),
            None => Ok(bytes.to_vec()),
        }
    }

    /// Connects over TCP.
    ///
    /// # Panics
    /// Connecting fails.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> TestClient {
        match TestClient::try_connect(address) {
            Ok(client) => client,
            Err(error) => panic!("connecting to {address}: {error}"),
        }
    }

    /// Sets how long to wait for the next byte from now on.
    pub fn set_timeout(&mut self, timeout: Duration) -> &mut TestClient {
        self.timeout = timeout;
        self
    }

    /// The socket, for options.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends all of these bytes in a thread, while the connection is used otherwise.
    ///
    /// # Panics
    /// There are no more descriptors; the thread panics if sending fails.
    #[track_caller]
    pub fn send_meanwhile(&mut self, bytes: Vec<u8>) -> JoinHandle<()> {
        let mut socket = self.socket.try_clone().expect("a descriptor");
        let bytes = self.wired(&bytes).expect("bytes that can be sent");
        std::thread::spawn(move || socket.write_all(&bytes).expect("bytes sent by the client"))
    }

    /// Sends all of these bytes.
    ///
    /// # Errors
    /// The error of `send(2)`; a server may close before it has read everything.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let bytes = self.wired(bytes.as_ref())?;
        self.socket.write_all(&bytes)
    }

    /// Sends all of these bytes as they are, whether there is TLS or not.
    ///
    /// # Errors
    /// The error of `send(2)`.
    pub fn try_send_bare(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.socket.write_all(bytes.as_ref())
    }

    /// Sends all of these bytes.
    ///
    /// # Panics
    /// Sending fails.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut TestClient {
        if let Err(error) = self.try_send(bytes) {
            panic!("sending: {error}");
        }
        self
    }

    /// Ends the sending side, as a client does that has sent everything; with TLS, after `close_notify`.
    pub fn half_close(&mut self) -> &mut TestClient {
        if let Some(session) = &mut self.tls {
            let bytes = session.close();
            let _ = self.socket.write_all(&bytes);
        }
        // If the server has reset the connection, the sending side has ended already.
        let _ = self.socket.shutdown(Shutdown::Write);
        self
    }

    /// Drops the connection with a reset.
    pub fn reset(self) {
        // Without this option the connection merely closes.
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }

    /// Reads until there are more bytes; `Err` says how the connection ended.
    fn read(&mut self) -> Result<(), ConnectionEnd> {
        let before = self.received.len();
        loop {
            self.receive()?;
            // Some bytes are of the session itself.
            if self.received.len() > before {
                return Ok(());
            }
        }
    }

    /// Receives once; `Err` says how the connection ended. The time is counted in slices; if the machine stops, that
    /// counts as one slice at most.
    fn receive(&mut self) -> Result<(), ConnectionEnd> {
        let mut buffer = [0; 64 * 1024];
        let mut left = self.timeout;
        loop {
            let slice = left.clamp(Duration::from_millis(1), SLICE);
            if self.socket.set_read_timeout(Some(slice)).is_err() {
                return Err(ConnectionEnd::Reset);
            }
            return match (&self.socket).read(&mut buffer) {
                Ok(0) => Err(ConnectionEnd::Closed),
                Ok(count) => {
                    match &mut self.tls {
                        Some(session) => {
                            session.take(&buffer[..count], &mut self.received);
                            // A server that has gone misses the answer.
                            let _ = self.send_waiting();
                        }
                        None => self.received.extend_from_slice(&buffer[..count]),
                    }
                    Ok(())
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock | ErrorKind::TimedOut if left > slice => {
                        left -= slice;
                        continue;
                    }
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(ConnectionEnd::Silent),
                    _ => Err(ConnectionEnd::Reset),
                },
            };
        }
    }

    /// The next response, to a request of this method.
    ///
    /// # Errors
    /// The end of the connection, or the error in the response.
    pub fn try_response(&mut self, method: &str) -> Result<Response, String> {
        loop {
            match Response::parse(&self.received, method) {
                ParsedResponse::Whole(response, used) => {
                    self.received.drain(..used);
                    return Ok(response);
                }
                ParsedResponse::Bad(why) => return Err(format!("{why} in {}", shown(&self.received))),
                ParsedResponse::UntilClose(_) => {
                    let ending = self.read_to_end();
                    let ParsedResponse::UntilClose(response) = Response::parse(&self.received, method) else {
                        return Err(format!("{ending:?} within {}", shown(&self.received)));
                    };
                    self.received.clear();
                    return match ending {
                        ConnectionEnd::Closed => Ok(response),
                        other => Err(format!("{other:?} within the body of {}", response.line)),
                    };
                }
                ParsedResponse::Partial => {}
            }
            if let Err(ending) = self.read() {
                return Err(match (self.received.is_empty(), ending) {
                    (true, ending) => format!("{ending:?}"),
                    (false, ending) => format!("{ending:?} within {}", shown(&self.received)),
                });
            }
        }
    }

    /// The next response to a GET or a method with the same framing.
    ///
    /// # Panics
    /// No response comes.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// The next response to a request of this method.
    ///
    /// # Panics
    /// No response comes.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        match self.try_response(method) {
            Ok(response) => response,
            Err(why) => panic!("instead of a response: {why}"),
        }
    }

    /// Sends a GET that keeps the connection, and reads its response.
    ///
    /// # Panics
    /// Sending or reading fails.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response()
    }

    fn read_to_end(&mut self) -> ConnectionEnd {
        loop {
            if let Err(ending) = self.read() {
                return ending;
            }
        }
    }

    /// All bytes up to the connection's end, and how it ended.
    pub fn rest(&mut self) -> (Vec<u8>, ConnectionEnd) {
        let ending = self.read_to_end();
        (std::mem::take(&mut self.received), ending)
    }

    /// Whether there is TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Waits for bytes, and moves them behind those in `to`.
    pub(crate) fn more(&mut self, to: &mut Vec<u8>) -> Result<(), ConnectionEnd> {
        if self.received.is_empty() {
            self.read()?;
        }
        to.append(&mut self.received);
        Ok(())
    }

    /// Moves the bytes that are there behind those in `to`, and does not wait. Tells whether the server has sent
    /// anything.
    pub(crate) fn more_at_once(&mut self, to: &mut Vec<u8>) -> Result<bool, ConnectionEnd> {
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        let came = poll(&mut descriptors, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        if came {
            self.receive()?;
        }
        to.append(&mut self.received);
        Ok(came)
    }

    /// The end of the connection, if it comes within the timeout; bytes that come before are dropped.
    pub fn ending(&mut self) -> ConnectionEnd {
        self.rest().1
    }

    /// Whether the server ended the connection within the timeout, sending nothing more.
    pub fn is_closed(&mut self) -> bool {
        let (bytes, ending) = self.rest();
        bytes.is_empty() && ending != ConnectionEnd::Silent
    }

    /// Reads until at least this many bytes wait to be parsed.
    ///
    /// # Panics
    /// The connection ends before.
    #[track_caller]
    pub fn at_least(&mut self, count: usize) -> &[u8] {
        while self.received.len() < count {
            if let Err(ending) = self.read() {
                panic!("{ending:?} after {} of {count} bytes", self.received.len());
            }
        }
        &self.received
    }

    /// Reads until the bytes that wait to be parsed satisfy a condition, and returns them.
    ///
    /// # Panics
    /// The connection ends before.
    #[track_caller]
    pub fn until(&mut self, is: impl Fn(&[u8]) -> bool) -> &[u8] {
        while !is(&self.received) {
            self.at_least(self.received.len() + 1);
        }
        &self.received
    }

    /// Takes the bytes that have been received and not parsed.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }
}

/// The beginning of some bytes, escaped, for a message.
fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(300)];
    format!("{} bytes \"{}\"", bytes.len(), start.escape_ascii())
}
