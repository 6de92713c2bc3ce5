//! A client that speaks HTTP/3.

use super::forgery::ForgedFrames;
use super::link::{LinkEnd, QuicLink};
use super::message::{H3End, H3Message, H3Response};
use super::options::Http3Options;
use crate::PATIENCE;
use bytes::Bytes;
use freerun_proto::h3::qpack::{BlockLimits, Pseudo};
use freerun_proto::h3::settings::H3Settings;
use freerun_proto::h3::{H3Config, H3Connection, H3ConnectionError, StreamId as Number};
use freerun_proto::role::Role;
use quinn_proto::{ConnectionStats, Dir, StreamId, VarInt};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time between two looks at what a test waits for.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The limits of what a client takes, far above what any server sends.
const LIMITS: BlockLimits = BlockLimits { most_string: 1 << 20, most_total: 4 << 20, most_fields: 10_000 };

/// A client's connection. Streams have the numbers of QUIC: requests 0, 4, 8 and so on.
pub struct Http3 {
    pub(super) link: QuicLink,
    pub(super) machine: H3Connection,
    pub(super) begun: Instant,
    pub(super) authority: String,
    pub(super) is_bare: bool,
    pub(super) has_early: bool,
    pub(super) own: [Option<StreamId>; 3],
    pub(super) messages: HashMap<u64, H3Message>,
    /// The rest of streams that wait for entries of the table of fields.
    pub(super) blocked: HashMap<u64, (Bytes, bool)>,
    /// Streams that are not read for now.
    pub(super) held: HashSet<u64>,
    /// Streams that had something while they were held.
    pub(super) passed: HashSet<u64>,
    /// The numbers of the GOAWAY frames that have come.
    pub(super) away: Vec<u64>,
    pub(super) failure: Option<H3ConnectionError>,
    pub(super) forged: Option<ForgedFrames>,
    /// The stream whose packets carry frames that the test has written.
    pub(super) carrier: Option<StreamId>,
}

impl std::fmt::Debug for Http3 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Http3");
        shown.field("link", &self.link).field("away", &self.away).field("failure", &self.failure);
        shown.finish_non_exhaustive()
    }
}

/// A code for the library.
pub(super) fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// The number of a stream in the library.
pub(super) fn quic(stream: u64) -> StreamId {
    StreamId::from(code_of(stream))
}

/// The number of a stream.
pub(super) fn number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

impl Http3 {
    /// Connects with the default options.
    ///
    /// # Panics
    /// There is no connection.
    #[track_caller]
    pub fn connect(to: SocketAddr) -> Http3 {
        Http3::with(to, &Http3Options::new())
    }

    /// Connects with these options, and waits for the end of the handshake.
    ///
    /// # Panics
    /// There is no connection.
    #[track_caller]
    pub fn with(to: SocketAddr, options: &Http3Options) -> Http3 {
        match Http3::try_with(to, options) {
            Ok(client) => client,
            Err(end) => panic!("no connection to {to}: {end:?}"),
        }
    }

    /// Connects with these options, and waits for the end of the handshake.
    ///
    /// # Errors
    /// There is no connection.
    pub fn try_with(to: SocketAddr, options: &Http3Options) -> Result<Http3, LinkEnd> {
        let mut client = Http3::begin(to, options);
        client.establish()?;
        Ok(client)
    }

    /// Begins a connection, and waits for nothing. Requests may be begun at once if a session is resumed with early data.
    pub fn begin(to: SocketAddr, options: &Http3Options) -> Http3 {
        let mut link = QuicLink::begin(to, options);
        let has_early = link.connection().has_0rtt();
        let machine = H3Connection::new(&H3Config {
            role: Role::Client,
            max_streams: 0,
            decoder_table: options.table,
            blocked_streams: 16,
            encoder_table: 4096,
            encoder_blocked_streams: options.blocking,
            connect_protocol: false,
            limits: LIMITS,
            now: 0,
        });
        Http3 {
            link,
            machine,
            begun: Instant::now(),
            authority: options.authority.clone(),
            is_bare: options.is_bare,
            has_early,
            own: [None; 3],
            messages: HashMap::new(),
            blocked: HashMap::new(),
            held: HashSet::new(),
            passed: HashSet::new(),
            away: Vec::new(),
            failure: None,
            forged: options.forged.clone(),
            carrier: None,
        }
    }

    /// Waits for the end of the handshake.
    ///
    /// # Errors
    /// There is no connection.
    pub fn establish(&mut self) -> Result<(), LinkEnd> {
        self.link.turn();
        self.wait_within(PATIENCE, |client| client.link.is_established());
        match (self.link.end(), self.link.is_established()) {
            (Some(end), _) => Err(end.clone()),
            (None, true) => Ok(()),
            (None, false) => Err(LinkEnd::TimedOut),
        }
    }

    /// The connection below.
    pub fn link(&mut self) -> &mut QuicLink {
        &mut self.link
    }

    /// The server's settings, as far as they have come.
    pub fn settings(&self) -> &H3Settings {
        self.machine.peer_settings()
    }

    /// The library's figures.
    pub fn stats(&self) -> ConnectionStats {
        self.link.stats()
    }

    /// Whether the client could send early data.
    pub fn has_early(&self) -> bool {
        self.has_early
    }

    /// Whether the server has taken the early data.
    pub fn early_accepted(&mut self) -> bool {
        self.link.connection().accepted_0rtt()
    }

    /// The numbers of the GOAWAY frames that have come.
    pub fn away(&self) -> &[u64] {
        &self.away
    }

    /// The server's fault that the machine has found.
    pub fn failure(&self) -> Option<H3ConnectionError> {
        self.failure
    }

    /// Names this server in the requests that follow.
    pub fn set_authority(&mut self, authority: &str) -> &mut Http3 {
        authority.clone_into(&mut self.authority);
        self
    }

    // ---- waiting ---------------------------------------------------------------------------------------------------

    /// Takes what has come and sends what there is, without waiting.
    pub fn step(&mut self) {
        self.link.turn();
        self.take_events();
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// It does not hold in time.
    #[track_caller]
    pub fn wait(&mut self, what: &str, holds: impl Fn(&Http3) -> bool) {
        assert!(self.wait_within(PATIENCE, &holds), "not within {PATIENCE:?}: {what}; {self:?}");
    }

    /// Waits until a condition holds or the connection has ended, for at most this long. Returns whether it holds.
    pub fn wait_within(&mut self, time: Duration, holds: impl Fn(&Http3) -> bool) -> bool {
        let end = Instant::now() + time;
        loop {
            self.take_events();
            if holds(self) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.link.end().is_some() {
                return false;
            }
            self.link.wait(left.min(LOOK));
        }
    }

    /// Goes on for this long, whatever comes.
    pub fn run_for(&mut self, time: Duration) {
        self.wait_within(time, |_| false);
    }

    /// Waits for the end of the connection.
    ///
    /// # Panics
    /// It goes on.
    #[track_caller]
    pub fn ending(&mut self) -> LinkEnd {
        self.wait("the end of the connection", |client| client.link.end().is_some());
        self.link.end().cloned().expect("it has ended")
    }

    // ---- requests --------------------------------------------------------------------------------------------------

    /// The frame of a request's head.
    pub fn head_of(&mut self, stream: u64, method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        self.head_with(stream, method, None, path, fields)
    }

    fn head_with(
        &mut self,
        stream: u64,
        method: &str,
        protocol: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Vec<u8> {
        let authority = self.authority.clone();
        let mut out = Vec::new();
        self.machine.head(Number(stream), &mut out, |encoder, out| {
            encoder.pseudo(Pseudo::Method, method.as_bytes(), out);
            if let Some(protocol) = protocol {
                encoder.pseudo(Pseudo::Protocol, protocol.as_bytes(), out);
            }
            encoder.pseudo(Pseudo::Scheme, b"https", out);
            encoder.pseudo(Pseudo::Authority, authority.as_bytes(), out);
            encoder.pseudo(Pseudo::Path, path.as_bytes(), out);
            fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), out));
        });
        out
    }

    /// Opens a stream of a request, and sends nothing on it. The server's limit of streams is waited for.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn open(&mut self) -> u64 {
        self.try_open().unwrap_or_else(|| panic!("no stream; {self:?}"))
    }

    /// Opens a stream of a request. `None` if the connection has ended, or is about to.
    pub fn try_open(&mut self) -> Option<u64> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.take_events();
            if self.link.end().is_some() || !self.machine.can_open() {
                return None;
            }
            if let Some(stream) = self.link.connection().streams().open(Dir::Bi) {
                let stream = number(stream);
                self.messages.insert(stream, H3Message::default());
                return self.machine.open(Number(stream)).then_some(stream);
            }
            if Instant::now() > end {
                return None;
            }
            self.link.wait(LOOK);
        }
    }

    /// Begins a request, whose body has still to come.
    ///
    /// # Panics
    /// There is no stream for it.
    #[track_caller]
    pub fn start(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> u64 {
        let stream = self.open();
        let head = self.head_of(stream, method, path, fields);
        self.write_all(stream, &head);
        stream
    }

    /// Opens a stream for another protocol, by an extended CONNECT (RFC 9220). What is sent there is the body of the request.
    #[track_caller]
    pub fn connect_protocol(&mut self, protocol: &str, path: &str, fields: &[(&str, &str)]) -> u64 {
        let stream = self.open();
        let head = self.head_with(stream, "CONNECT", Some(protocol), path, fields);
        self.write_all(stream, &head);
        stream
    }

    /// Sends a request without a body, and does not wait for its response.
    ///
    /// # Panics
    /// There is no stream for it. The same holds for the methods below.
    #[track_caller]
    pub fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> u64 {
        let stream = self.start(method, path, fields);
        self.finish(stream);
        stream
    }

    /// Asks for a path with GET, and does not wait for the response.
    #[track_caller]
    pub fn ask_for(&mut self, path: &str) -> u64 {
        self.ask("GET", path, &[])
    }

    /// As [`Http3::ask_for`]. `None` if the connection has ended, or is about to.
    pub fn try_ask_for(&mut self, path: &str) -> Option<u64> {
        let stream = self.try_open()?;
        let head = self.head_of(stream, "GET", path, &[]);
        self.write_all(stream, &head);
        self.finish(stream);
        Some(stream)
    }

    /// GETs a path.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> H3Response {
        self.request("GET", path, &[])
    }

    /// Sends a request without a body.
    #[track_caller]
    pub fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> H3Response {
        let stream = self.ask(method, path, fields);
        self.answer(stream)
    }

    /// Sends a request with a body and its length.
    #[track_caller]
    pub fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> H3Response {
        let body = body.as_ref();
        let stream = self.start("POST", path, &[("content-length", &body.len().to_string())]);
        self.upload(stream, body);
        self.finish(stream);
        self.answer(stream)
    }

    /// Sends a piece of a body, as the windows allow, and takes what comes meanwhile. Returns how many bytes of it the server
    /// has left room for before it stopped reading.
    #[track_caller]
    pub fn upload(&mut self, stream: u64, body: &[u8]) -> usize {
        let Some(head) = self.machine.data(Number(stream), body.len()) else { return 0 };
        let head = head.as_bytes().to_vec();
        if self.write_all(stream, &head) < head.len() {
            return 0;
        }
        self.write_all(stream, body)
    }

    /// Sends fields behind a body.
    #[track_caller]
    pub fn trailers(&mut self, stream: u64, fields: &[(&str, &str)]) {
        let mut out = Vec::new();
        self.machine.trailers(Number(stream), &mut out, |encoder, out| {
            fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), out));
        });
        self.write_all(stream, &out);
    }

    /// Ends the client's side of a stream.
    pub fn finish(&mut self, stream: u64) {
        self.machine.end(Number(stream));
        let _ = self.link.connection().send_stream(quic(stream)).finish();
        self.flush();
    }

    /// Waits until a stream has ended, in whatever way.
    ///
    /// # Panics
    /// It goes on.
    #[track_caller]
    pub fn answer(&mut self, stream: u64) -> H3Response {
        let ended = |client: &Http3| {
            let is_over = client.messages.get(&stream).is_none_or(H3Message::is_over);
            is_over || client.is_unprocessed(stream) || client.link.end().is_some()
        };
        // Downloads may take long on a loaded machine, but something has to come.
        let mut before = usize::MAX;
        while !self.wait_within(PATIENCE, ended) {
            let come = self.link.seen().bytes;
            assert!(come != before, "stream {stream} has no end; {self:?}, so far {:?}", self.so_far(stream));
            before = come;
        }
        let is_unprocessed = self.is_unprocessed(stream);
        let message = self.messages.remove(&stream).unwrap_or_default();
        let end = match (&message, self.link.end()) {
            (H3Message { whole: true, .. }, _) => H3End::Whole,
            (H3Message { reset: Some(code), .. }, _) => H3End::Reset(*code),
            (_, Some(end)) => H3End::Gone(end.clone()),
            _ if is_unprocessed => H3End::Unprocessed,
            _ => H3End::Gone(LinkEnd::Here),
        };
        self.machine.release(Number(stream));
        H3Response { status: message.status(), message, end }
    }

    fn is_unprocessed(&self, stream: u64) -> bool {
        self.away.last().is_some_and(|first| stream >= *first)
    }

    /// The status and the length of what has come, for a message.
    fn so_far(&self, stream: u64) -> Option<(u16, usize)> {
        self.messages.get(&stream).map(|message| (message.status(), message.body.len()))
    }

    /// The response of a stream, as far as it has come.
    pub fn message(&self, stream: u64) -> Option<&H3Message> {
        self.messages.get(&stream)
    }

    /// Waits for the head of a response.
    ///
    /// # Panics
    /// It does not come.
    #[track_caller]
    pub fn head(&mut self, stream: u64) -> u16 {
        self.wait("a head", |client| client.messages.get(&stream).is_some_and(|message| message.status() > 0));
        self.messages.get(&stream).map_or(0, H3Message::status)
    }

    /// Waits until `length` bytes of a body have come.
    ///
    /// # Panics
    /// They do not come.
    #[track_caller]
    pub fn body_of(&mut self, stream: u64, length: usize) {
        self.wait("a body", |client| client.messages.get(&stream).is_some_and(|message| message.body.len() >= length));
    }
}
