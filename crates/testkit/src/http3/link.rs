//! A QUIC connection of a client, over a socket of its own.

use super::options::Http3Options;
use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, ConnectionStats, DatagramEvent, Endpoint, EndpointConfig, Event,
    StreamEvent, StreamId, VarInt,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest datagram.
const LONGEST: usize = 65_536;

/// The size of the socket's buffer that is asked for, in bytes.
const BUFFER: usize = 4 << 20;

/// The number of bytes that are kept of a packet with a short header: the first one, and the longest connection ID.
const SHORT: usize = 1 + 20;

/// The most datagrams that are taken in a turn.
const TURN: usize = 256;

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The server has closed it with this code of HTTP/3 and this reason.
    Closed(u64, String),
    /// The server's QUIC has closed it with this code (RFC 9000 section 20.1) and this reason.
    Refused(u64, String),
    /// By a stateless reset.
    Reset,
    /// Nothing has come for too long.
    TimedOut,
    /// The server speaks none of the client's versions.
    NoVersion,
    /// The client has closed it.
    Here,
    /// The client has found an error.
    Error(String),
}

impl From<ConnectionError> for LinkEnd {
    fn from(error: ConnectionError) -> LinkEnd {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match error {
            ConnectionError::ApplicationClosed(close) => {
                LinkEnd::Closed(close.error_code.into_inner(), text(&close.reason))
            }
            ConnectionError::ConnectionClosed(close) => {
                LinkEnd::Refused(u64::from(close.error_code), text(&close.reason))
            }
            ConnectionError::Reset => LinkEnd::Reset,
            ConnectionError::TimedOut => LinkEnd::TimedOut,
            ConnectionError::VersionMismatch => LinkEnd::NoVersion,
            ConnectionError::LocallyClosed => LinkEnd::Here,
            other => LinkEnd::Error(other.to_string()),
        }
    }
}

/// Packets of the server that a client's connection says nothing about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenPackets {
    /// Number of Retry packets.
    pub retries: usize,
    /// Number of Version Negotiation packets.
    pub negotiations: usize,
    /// Number of datagrams of every kind.
    pub datagrams: usize,
    /// Number of bytes in them.
    pub bytes: usize,
}

/// Datagrams of a client with a wrong sender ([`QuicLink::forge`]), in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgedDatagrams {
    /// Number of bytes that were sent.
    pub sent: usize,
    /// Number of bytes that have come to the wrong sender.
    pub received: usize,
}

/// A connection, and the socket that it goes over.
pub struct QuicLink {
    socket: UdpSocket,
    /// The socket that sends, if what comes there is lost.
    forged: Option<UdpSocket>,
    seen_forged: ForgedDatagrams,
    to: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    seen: SeenPackets,
    is_established: bool,
    end: Option<LinkEnd>,
    /// The first bytes of the last packet with a short header that was sent.
    last_short: Vec<u8>,
    output: Vec<u8>,
    input: Vec<u8>,
}

impl std::fmt::Debug for QuicLink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("QuicLink");
        shown.field("to", &self.to).field("seen", &self.seen).field("end", &self.end).finish_non_exhaustive()
    }
}

fn socket(from: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).expect("a free port");
    socket.set_nonblocking(true).expect("a socket that does not wait");
    // The kernel gives less if it has to.
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    socket
}

impl QuicLink {
    /// Begins a connection; nothing is sent yet.
    ///
    /// # Panics
    /// The options do not fit together.
    pub fn begin(to: SocketAddr, options: &Http3Options) -> QuicLink {
        let same: IpAddr = if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        let socket = socket(options.bind.unwrap_or(same));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let name = options.tls.session_name();
        let begun = endpoint.connect(Instant::now(), options.config(), to, name);
        let (handle, connection) = begun.expect("a connection that can begin");
        QuicLink {
            socket,
            forged: None,
            seen_forged: ForgedDatagrams::default(),
            to,
            endpoint,
            handle,
            connection,
            seen: SeenPackets::default(),
            is_established: false,
            end: None,
            last_short: Vec::new(),
            output: Vec::new(),
            input: vec![0; LONGEST],
        }
    }

    /// The address that the client sends from.
    pub fn local(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }

    /// The address that the client sends to.
    pub fn remote(&self) -> SocketAddr {
        self.to
    }

    /// The connection in the library.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The library's figures.
    pub fn stats(&self) -> ConnectionStats {
        self.connection.stats()
    }

    /// The packets of the server that the library tells nothing about.
    pub fn seen(&self) -> SeenPackets {
        self.seen
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// The end of the connection, once it has ended.
    pub fn end(&self) -> Option<&LinkEnd> {
        self.end.as_ref()
    }

    /// Goes on from another port, without telling the server: what a router does that has lost its table.
    pub fn rebind(&mut self) {
        self.rebind_to(self.local().ip());
    }

    /// Goes on from this address of the machine, without telling the server.
    pub fn rebind_to(&mut self, address: IpAddr) {
        self.socket = socket(address);
    }

    /// The datagrams that were sent from a wrong sender, and those that have come there.
    pub fn forged(&mut self) -> ForgedDatagrams {
        while let Some(Ok(length)) = self.forged.as_ref().map(|socket| socket.recv(&mut self.input)) {
            self.seen_forged.received += length;
        }
        self.seen_forged
    }

    /// The datagrams that the client would send now. They are not sent.
    pub fn output(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut output = Vec::new();
        while self.connection.poll_transmit(Instant::now(), 1, &mut output).is_some() {
            all.push(std::mem::take(&mut output));
        }
        all
    }

    /// Sends from this address of the machine from now on, and still receives at the one before: somebody in between sends the
    /// client's datagrams on with a wrong sender. `None` ends that.
    pub fn forge(&mut self, sender: Option<IpAddr>) {
        self.forged = sender.map(socket);
    }

    /// Goes on from another port, knowing it: the client takes another of the server's connection IDs.
    pub fn migrate(&mut self) {
        self.rebind();
        self.connection.local_address_changed();
    }

    /// The connection ID of the server that the last packet with a short header was sent to; empty before there was one. The
    /// server's IDs have this length.
    pub fn sent_to(&self, length: usize) -> &[u8] {
        self.last_short.get(1..1 + length).unwrap_or_default()
    }

    /// Takes a datagram as if the server had sent it.
    pub fn take_forged(&mut self, bytes: &[u8]) {
        self.take(bytes, self.to);
    }

    /// Sends a datagram that belongs to no connection, from the client's port.
    ///
    /// # Panics
    /// It could not be sent.
    pub fn send_datagram(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.to).expect("a datagram that is sent");
    }

    /// Closes the connection, and sends that.
    pub fn close(&mut self, code: u64, reason: &str) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        self.connection.close(Instant::now(), code, bytes::Bytes::copy_from_slice(reason.as_bytes()));
        self.end.get_or_insert(LinkEnd::Here);
        self.send();
    }

    /// Sends what there is to send.
    pub fn send(&mut self) {
        let now = Instant::now();
        let mut output = std::mem::take(&mut self.output);
        loop {
            output.clear();
            let Some(transmit) = self.connection.poll_transmit(now, 1, &mut output) else { break };
            // A full socket loses it, as any network may.
            if output[0] & 0x80 == 0 {
                self.last_short = output[..output.len().min(SHORT)].to_vec();
            }
            if self.forged.is_some() {
                self.seen_forged.sent += transmit.size;
            }
            let sender = self.forged.as_ref().unwrap_or(&self.socket);
            let _ = sender.send_to(&output[..transmit.size], transmit.destination);
        }
        self.output = output;
        self.exchange();
    }

    /// Takes what has come, lets time pass, and sends. Returns whether anything came.
    pub fn turn(&mut self) -> bool {
        let came = self.receive();
        self.connection.handle_timeout(Instant::now());
        self.exchange();
        self.send();
        came
    }

    /// The moment at which the connection has something to do although nothing comes.
    pub fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Waits until something comes or has to be done, for at most this long, and does it.
    pub fn wait(&mut self, most: Duration) -> bool {
        wait_for_any([&mut *self], most);
        self.turn()
    }

    /// The next event of a stream.
    pub fn next_event(&mut self) -> Option<StreamEvent> {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_established = true,
                Event::ConnectionLost { reason } => {
                    self.end.get_or_insert(reason.into());
                }
                Event::Stream(event) => return Some(event),
                _ => {}
            }
        }
        None
    }

    /// Writes on a stream as far as the server's window goes; returns how many bytes those were, or `None` if the stream is
    /// over.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Option<usize> {
        match self.connection.send_stream(stream).write(bytes) {
            Ok(count) => Some(count),
            Err(quinn_proto::WriteError::Blocked) => Some(0),
            Err(_) => None,
        }
    }

    fn receive(&mut self) -> bool {
        let mut input = std::mem::take(&mut self.input);
        let mut came = false;
        for _ in 0..TURN {
            let Ok((length, from)) = self.socket.recv_from(&mut input) else { break };
            came = true;
            self.take(&input[..length], from);
        }
        self.input = input;
        came
    }

    fn take(&mut self, bytes: &[u8], from: SocketAddr) {
        self.seen.datagrams += 1;
        self.seen.bytes += bytes.len();
        if let [first, a, b, c, d, ..] = bytes
            && first & 0x80 != 0
        {
            let version = u32::from_be_bytes([*a, *b, *c, *d]);
            self.seen.negotiations += usize::from(version == 0);
            self.seen.retries += usize::from(version != 0 && first & 0x30 == 0x30);
        }
        let mut answer = Vec::new();
        let event = self.endpoint.handle(Instant::now(), from, None, None, BytesMut::from(bytes), &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                self.connection.handle_event(event);
                self.exchange();
            }
            Some(DatagramEvent::Response(transmit)) => {
                let _ = self.socket.send_to(&answer[..transmit.size], transmit.destination);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            None => {}
        }
    }

    fn exchange(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }
}

/// Waits until something comes on one of these connections, or one of them has something to do, for at most this long.
pub fn wait_for_any<'l>(links: impl IntoIterator<Item = &'l mut QuicLink>, most: Duration) {
    let now = Instant::now();
    let mut until = now + most;
    let links: Vec<&QuicLink> = links
        .into_iter()
        .map(|link| {
            until = link.deadline().map_or(until, |deadline| until.min(deadline));
            &*link
        })
        .collect();
    let left = until.saturating_duration_since(now);
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    let mut waited: Vec<_> = links.iter().map(|link| PollFd::new(&link.socket, PollFlags::IN)).collect();
    let _ = poll(&mut waited, Some(&left));
}
