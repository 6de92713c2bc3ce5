//! A connection of a client: requests on many streams, and what comes of them.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, IdleTimeout,
    NoneTokenStore, ReadError, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};

use super::response::{self, CONTROL, Response};
use super::table::{DECODER, ENCODER, ServerTable};
use super::wire::{self, Wire};
use crate::error::{Error, Result};
use crate::random::RandomNumbers;
use crate::tls::client::{SessionUse, TlsVersion, settings};

/// The name of the protocol in the handshake (RFC 9114 section 3.1).
const ALPN: &[u8] = b"h3";

/// Number of datagrams that leave with one call.
const SEGMENTS: usize = 16;

/// A piece of the body of a request.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// The time without any datagram after which a connection ends.
const IDLE: Duration = Duration::from_secs(600);

/// Settings of a client's connections.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    config: ClientConfig,
    /// The bytes of the requests, and the choice of one.
    requests: Arc<[Vec<u8>]>,
    random: Arc<RandomNumbers>,
    /// The size of a request's body.
    upload: u64,
    /// The size of a response's body.
    size: u64,
}

impl ClientSettings {
    /// A client that asks for `path`, whose file has `size` bytes, and gives each stream a window of `window` bytes.
    pub fn new(path: &str, size: u64, window: u32) -> Result<ClientSettings> {
        ClientSettings::of_requests(vec![response::request(path)], size, window)
    }

    /// A client that asks each time for another one of these paths, whose files have `size` bytes each.
    pub fn random(paths: &[String], size: u64, window: u32) -> Result<ClientSettings> {
        ClientSettings::of_requests(paths.iter().map(|path| response::request(path)).collect(), size, window)
    }

    fn of_requests(requests: Vec<Vec<u8>>, size: u64, window: u32) -> Result<ClientSettings> {
        let setup = |error: &dyn std::fmt::Display| Error::Setup(error.to_string());
        let mut tls = (*settings(TlsVersion::Tls13, SessionUse::Never)?).clone();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| setup(&error))?;
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(window.into())
            .receive_window(VarInt::MAX)
            .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
            .max_concurrent_uni_streams(8_u32.into())
            .datagram_receive_buffer_size(None);
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport)).token_store(Arc::new(NoneTokenStore));
        let random = Arc::new(RandomNumbers::new(1));
        Ok(ClientSettings { config, requests: requests.into(), random, upload: 0, size })
    }

    /// The next request.
    fn request(&self) -> &[u8] {
        let index = self.random.next() % self.requests.len().max(1) as u64;
        self.requests.get(usize::try_from(index).unwrap_or(0)).map_or(&[], Vec::as_slice)
    }

    /// A client that sends `upload` bytes of zeros to `path` with each request, and is answered without a body.
    pub fn uploading(path: &str, upload: u64, window: u32) -> Result<ClientSettings> {
        let settings = ClientSettings::of_requests(vec![response::upload(path, upload)], 0, window)?;
        Ok(ClientSettings { upload, ..settings })
    }
}

/// A request under way.
struct Exchange {
    begun: Instant,
    /// The bytes of the request's body that QUIC has not taken yet.
    unsent: u64,
    response: Response,
}

/// Figures that a connection adds to.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Responses that are whole.
    pub done: usize,
    /// Bytes of bodies: of responses, and of requests that were answered.
    pub bytes: u64,
    /// The time from the beginning of each request to the end of its response.
    pub times: Vec<Duration>,
}

/// A client's connection.
pub struct H3Connection {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    settings: ClientSettings,
    exchanges: HashMap<StreamId, Exchange>,
    /// The server's streams whose types are known, and whether they are of its encoder.
    of_server: HashMap<StreamId, bool>,
    table: ServerTable,
    /// The stream of instructions for the server's encoder.
    decoder: Option<StreamId>,
    /// Number of requests at a time, and of those that are still to begin.
    streams: usize,
    left: usize,
    begun: Instant,
    /// The time of its handshake.
    pub established: Option<Duration>,
}

impl H3Connection {
    /// Begins a connection that has `streams` requests at a time and `left` in all.
    pub fn begin(
        server: SocketAddr,
        source: Option<Ipv4Addr>,
        settings: &ClientSettings,
        (streams, left): (usize, usize),
    ) -> io::Result<H3Connection> {
        let socket = wire::socket(server, source)?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let begun = Instant::now();
        let connecting = endpoint.connect(begun, settings.config.clone(), server, "bench");
        let (handle, connection) = connecting.map_err(io::Error::other)?;
        Ok(H3Connection {
            socket,
            endpoint,
            handle,
            connection,
            settings: settings.clone(),
            exchanges: HashMap::new(),
            of_server: HashMap::new(),
            table: ServerTable::default(),
            decoder: None,
            streams,
            left,
            begun,
            established: None,
        })
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether all requests were answered.
    pub fn is_done(&self) -> bool {
        self.established.is_some() && self.left == 0 && self.exchanges.is_empty()
    }

    /// Whether all requests have begun.
    pub fn has_asked(&self) -> bool {
        self.left == 0
    }

    /// Lets the connection make one request more.
    pub fn ask_once_more(&mut self) {
        self.left += 1;
    }

    /// The moment at which the connection has something to do although nothing comes.
    pub fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// The first packet, which is not sent.
    pub fn first_packet<'w>(&mut self, wire: &'w mut Wire) -> &'w [u8] {
        wire.output.clear();
        let size = self.connection.poll_transmit(Instant::now(), 1, &mut wire.output).map_or(0, |sent| sent.size);
        &wire.output[..size]
    }

    /// Does all that can be done.
    pub fn advance(&mut self, wire: &mut Wire, progress: &mut LoadProgress) -> io::Result<()> {
        loop {
            let came = wire.receive(&self.socket)?;
            let now = Instant::now();
            if came {
                self.take(wire, now);
            }
            if self.connection.poll_timeout().is_some_and(|deadline| deadline <= now) {
                self.connection.handle_timeout(now);
            }
            self.exchange();
            self.take_events(now, progress)?;
            self.tell()?;
            self.ask(now)?;
            self.send(wire, now);
            if !came {
                return Ok(());
            }
        }
    }

    /// Closes the connection.
    pub fn close(mut self, wire: &mut Wire) {
        let now = Instant::now();
        // H3_NO_ERROR
        self.connection.close(now, VarInt::from_u32(0x100), bytes::Bytes::new());
        self.send(wire, now);
    }

    fn take(&mut self, wire: &Wire, now: Instant) {
        let mut answer = Vec::new();
        for run in wire.receiver.iter() {
            let Some(from) = run.from else { continue };
            let segment = run.segment.unwrap_or(run.bytes.len()).max(1);
            for datagram in run.bytes.chunks(segment) {
                let event = self.endpoint.handle(now, from, None, None, datagram.into(), &mut answer);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
        }
    }

    fn exchange(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    fn take_events(&mut self, now: Instant, progress: &mut LoadProgress) -> io::Result<()> {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.established = Some(now - self.begun);
                    if let Some(control) = self.connection.streams().open(Dir::Uni) {
                        self.connection.send_stream(control).write(&CONTROL).map_err(io::Error::other)?;
                    }
                }
                Event::ConnectionLost { reason } => return Err(io::Error::other(reason)),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.connection.streams().accept(dir) {
                        self.read(id, now, progress)?;
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, now, progress)?,
                Event::Stream(StreamEvent::Writable { id }) => self.write_body(id)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, id: StreamId, now: Instant, progress: &mut LoadProgress) -> io::Result<()> {
        let mut exchange = self.exchanges.get_mut(&id);
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
        let ended = loop {
            match (chunks.next(usize::MAX), &mut exchange) {
                (Ok(Some(chunk)), Some(exchange)) => {
                    let before = exchange.response.body;
                    exchange.response.take(&chunk.bytes)?;
                    progress.bytes += exchange.response.body - before;
                }
                (Ok(Some(chunk)), None) => {
                    let mut bytes = &chunk.bytes[..];
                    let is_encoder = *self.of_server.entry(id).or_insert_with(|| {
                        let kind = bytes[0];
                        bytes = &bytes[1..];
                        kind == ENCODER
                    });
                    if is_encoder && !self.table.take(bytes) {
                        return Err(ErrorKind::InvalidData.into());
                    }
                }
                (Ok(None), _) => break true,
                (Err(ReadError::Blocked), _) => break false,
                (Err(ReadError::Reset(_)), _) => return Err(ErrorKind::ConnectionReset.into()),
            }
        };
        let _ = chunks.finalize();
        if ended && let Some(exchange) = self.exchanges.remove(&id) {
            exchange.response.end(self.settings.size)?;
            if exchange.response.refers {
                self.table.acknowledge(VarInt::from(id).into_inner());
            }
            progress.done += 1;
            progress.bytes += self.settings.upload;
            progress.times.push(now - exchange.begun);
        }
        Ok(())
    }

    /// Begins as many requests as there may be.
    fn ask(&mut self, now: Instant) -> io::Result<()> {
        while self.established.is_some() && self.left > 0 && self.exchanges.len() < self.streams {
            // The server may allow fewer for now.
            let Some(id) = self.connection.streams().open(Dir::Bi) else { break };
            let mut stream = self.connection.send_stream(id);
            stream.write(self.settings.request()).map_err(io::Error::other)?;
            self.left -= 1;
            let unsent = self.settings.upload;
            self.exchanges.insert(id, Exchange { begun: now, unsent, response: Response::default() });
            self.write_body(id)?;
        }
        Ok(())
    }

    /// Gives QUIC as much of a request's body as it takes, and then the end of the request.
    fn write_body(&mut self, id: StreamId) -> io::Result<()> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let mut stream = self.connection.send_stream(id);
        while exchange.unsent > 0 {
            let piece = &ZEROS[..usize::try_from(exchange.unsent).unwrap_or(usize::MAX).min(ZEROS.len())];
            match stream.write(piece) {
                Ok(count) => exchange.unsent -= count as u64,
                Err(WriteError::Blocked) => return Ok(()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        stream.finish().map_err(io::Error::other)
    }

    /// Tells the server what has come of its table.
    fn tell(&mut self) -> io::Result<()> {
        if self.table.out.is_empty() {
            return Ok(());
        }
        let decoder = match self.decoder {
            Some(decoder) => decoder,
            None => {
                let Some(decoder) = self.connection.streams().open(Dir::Uni) else { return Ok(()) };
                self.connection.send_stream(decoder).write(&[DECODER]).map_err(io::Error::other)?;
                *self.decoder.insert(decoder)
            }
        };
        match self.connection.send_stream(decoder).write(&self.table.out) {
            Ok(count) => drop(self.table.out.drain(..count)),
            Err(WriteError::Blocked) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    fn send(&mut self, wire: &mut Wire, now: Instant) {
        loop {
            wire.output.clear();
            let Some(transmit) = self.connection.poll_transmit(now, SEGMENTS, &mut wire.output) else { break };
            wire.send(&self.socket, transmit.size, transmit.segment_size);
        }
        self.exchange();
    }
}
