//! A TLS session: bytes of the peer go in, bytes for the peer and plaintext come out.
//!
//! All buffers are the caller's. Each step is given what has been received and not yet consumed, and goes on until something
//! has to happen outside. rustls does the work (its interface without buffers), and nothing outside this folder sees it.

mod config;
mod failure;
mod names;
mod p521;
mod step;

pub use config::{ServerConfig, ServerSettings, SettingsError, group_name, has_suite};
pub use failure::{Failure, FailureKind};
pub use names::Version;

use bytes::BufMut;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, WriteTraffic};
use rustls::{AlertDescription, CipherSuite, Error, HandshakeKind, ProtocolVersion};
use std::time::Duration;

/// How many received bytes may wait for a handshake message to become complete. A caller that has room for so many never has
/// to refuse more.
pub const MAX_INPUT: usize = 80 << 10;

/// How large a buffer for encrypted bytes has to be at least.
pub const MIN_OUTPUT: usize = 256;

/// The bytes before a record's content: its type, a version and its length.
const HEADER: usize = 5;

/// The content type of alerts.
const ALERT: u8 = 21;

/// A session on the server's side.
///
/// A session that waits holds no buffers: what was received of an incomplete record stays with the caller, and plaintext that
/// had no room is kept only until it is asked for.
pub struct Session {
    connection: UnbufferedServerConnection,
    stage: Stage,
    /// How many bytes the last step left with the caller. They have been changed, so the next one has to get the same.
    left: usize,
    /// Plaintext for which the caller's buffer had no room, and where it begins.
    rest: Vec<u8>,
    rest_at: usize,
    /// The peer's end has come, and is told by the next step.
    peer_closes: bool,
    peer_closed: bool,
    server_name: Option<Box<str>>,
    fragment: usize,
}

/// Where a step puts plaintext.
struct Sink<'a> {
    buffer: &'a mut dyn BufMut,
    /// How many bytes it may still get.
    most: usize,
}

impl Sink<'_> {
    fn room(&self) -> usize {
        self.most.min(self.buffer.remaining_mut())
    }

    /// Appends as much of it as there is room for, and says how many bytes that were.
    fn put(&mut self, plaintext: &[u8]) -> usize {
        let taken = plaintext.len().min(self.room());
        self.buffer.put_slice(&plaintext[..taken]);
        self.most -= taken;
        taken
    }
}

/// How far a session is.
enum Stage {
    Handshake,
    Open,
    /// `close_notify` was sent; whatever still comes is of no interest.
    Closed,
    Failed(Failure),
}

/// What the library has come to within a step.
enum Reached {
    /// There is more to do.
    More,
    /// Nothing more can be done with what was received.
    End,
    Event(Event),
    /// A failure, and where in the output its alert begins.
    Failure(Failure, usize),
}

/// What a step has done.
#[derive(Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many of the received bytes are used up. The others are given to the next step again, as they are now, with what
    /// has been received since behind them.
    pub consumed: usize,
    /// Why the step has ended.
    pub event: Event,
}

/// Why a step has ended. In each case what is in the output is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// All that was received is done with; there has to be more of it for another step.
    NeedsInput,
    /// The handshake is complete. This comes once.
    Established,
    /// So many bytes of plaintext were written; none if there are some, but no room.
    Plaintext(usize),
    /// The peer has sent `close_notify`; no plaintext comes any more. Plaintext may still be sent.
    PeerClosed,
    /// The session is over; what is in the output (an alert, in most cases) is still to be sent.
    Failed(Failure),
}

/// What peers have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed<'a> {
    /// The protocol's version.
    pub version: Version,
    /// The cipher suite's name in OpenSSL.
    pub cipher: &'static str,
    /// The group's name in OpenSSL; empty if there was no key exchange.
    pub group: &'static str,
    /// The name that the client has asked for.
    pub server_name: Option<&'a str>,
    /// The protocol above TLS.
    pub alpn: Option<&'a [u8]>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

/// What was encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encrypted {
    /// How many bytes of the plaintext.
    pub taken: usize,
    /// How many bytes were written for it.
    pub written: usize,
}

impl Session {
    /// A session of a client that has connected.
    pub fn new(config: &ServerConfig) -> Result<Self, Failure> {
        let connection = UnbufferedServerConnection::new(config.shared.clone()).map_err(|error| Failure::of(&error))?;
        Ok(Self {
            connection,
            stage: Stage::Handshake,
            left: 0,
            rest: Vec::new(),
            rest_at: 0,
            peer_closes: false,
            peer_closed: false,
            server_name: None,
            fragment: config.fragment,
        })
    }

    /// Goes on until something has to happen outside. `received` are the bytes of the peer that are not consumed yet, which
    /// the step changes; what is to be sent is appended to `output`; plaintext is appended to `plaintext`, at most `most` bytes
    /// of one record, and no more than it has room for. `now` is the time since 1970, of which tickets are told.
    pub fn step<P: BufMut>(
        &mut self,
        now: Duration,
        received: &mut [u8],
        output: &mut Vec<u8>,
        plaintext: &mut P,
        most: usize,
    ) -> Progress {
        debug_assert!(received.len() >= self.left, "the bytes that the last step has left are gone");
        let mut plaintext = Sink { buffer: plaintext, most };
        if let Some(event) = self.without_input(received.len(), &mut plaintext) {
            let consumed = if matches!(event, Event::Plaintext(_)) { 0 } else { received.len() };
            if consumed > 0 {
                self.left = 0;
            }
            return Progress { consumed, event };
        }
        step::begin(now);
        let progress = self.advance(received, output, &mut plaintext);
        if let Some(name) = step::end() {
            self.server_name = Some(name);
        }
        debug_assert!(progress.consumed <= received.len());
        self.left = received.len() - progress.consumed;
        progress
    }

    /// What a step comes to for which the received bytes do not matter.
    fn without_input(&mut self, received: usize, plaintext: &mut Sink<'_>) -> Option<Event> {
        if self.rest_at < self.rest.len() {
            return Some(Event::Plaintext(self.give_rest(plaintext)));
        }
        match &self.stage {
            Stage::Failed(failure) => Some(Event::Failed(failure.clone())),
            Stage::Closed => Some(Event::NeedsInput),
            _ if std::mem::take(&mut self.peer_closes) => {
                self.peer_closed = true;
                Some(Event::PeerClosed)
            }
            _ if self.peer_closed => Some(Event::NeedsInput),
            Stage::Handshake | Stage::Open if received < self.left => {
                let failure = Failure::new(FailureKind::Internal, "received bytes were lost");
                self.stage = Stage::Failed(failure.clone());
                Some(Event::Failed(failure))
            }
            Stage::Handshake | Stage::Open => None,
        }
    }

    fn advance(&mut self, received: &mut [u8], output: &mut Vec<u8>, plaintext: &mut Sink<'_>) -> Progress {
        let all = received.len();
        let mut consumed = 0;
        loop {
            let status = self.connection.process_tls_records(&mut received[consumed..]);
            let discard = status.discard;
            let open = matches!(self.stage, Stage::Open);
            let reached = match status.state {
                // The library takes the peer's end for an error as long as the handshake is not complete.
                Err(Error::AlertReceived(AlertDescription::CloseNotify)) => Reached::Event(Event::PeerClosed),
                Err(error) => {
                    let begin = output.len();
                    self.send_alerts(output);
                    Reached::Failure(Failure::of(&error), begin)
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut given = 0;
                    while let Some(Ok(record)) = traffic.next_record() {
                        // The handshake's end is told first; what came right behind it is kept, where the caller can see
                        // that it is there.
                        let taken = if open { plaintext.put(record.payload) } else { 0 };
                        given += taken;
                        self.rest.extend_from_slice(&record.payload[taken..]);
                    }
                    match (open, given) {
                        (false, _) => Reached::Event(Event::Established),
                        // An empty record is no news.
                        (true, 0) if self.rest.is_empty() => Reached::More,
                        (true, given) => Reached::Event(Event::Plaintext(given)),
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    append(data, output);
                    Reached::More
                }
                Ok(ConnectionState::TransmitTlsData(transmitted)) => {
                    transmitted.done();
                    Reached::More
                }
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => Reached::End,
                // The end came together with the last message of the handshake, and is told after it.
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) if !open => {
                    self.peer_closes = true;
                    Reached::Event(Event::Established)
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Reached::Event(Event::PeerClosed),
                Ok(_) => Reached::Failure(Failure::new(FailureKind::Internal, "an unknown state"), output.len()),
            };
            consumed = (consumed + discard).min(all);
            let event = match reached {
                Reached::More => continue,
                Reached::End => self.at_end(&mut received[consumed..], output),
                Reached::Event(event) => event,
                Reached::Failure(failure, begin) => self.fail(failure, &output[begin..]),
            };
            match event {
                Event::Established => self.stage = Stage::Open,
                Event::PeerClosed => self.peer_closed = true,
                _ => {}
            }
            // What stands behind the end is of no interest.
            let over = matches!(event, Event::PeerClosed | Event::Failed(_));
            return Progress { consumed: if over { all } else { consumed }, event };
        }
    }

    /// What it means that nothing can be done with what is left of the received bytes.
    fn at_end(&mut self, left: &mut [u8], output: &mut Vec<u8>) -> Event {
        if left.len() >= MAX_INPUT {
            return self.fail(Failure::new(FailureKind::TooLarge, "a handshake message in too many pieces"), &[]);
        }
        if self.connection.is_handshaking() {
            return Event::NeedsInput;
        }
        if has_whole_record(left) {
            // A handshake message in several records, of which the last one has not come. Nobody sends such a thing when
            // plaintext may be sent, and nothing could be encrypted before its end.
            if let Ok(ConnectionState::WriteTraffic(mut traffic)) = self.connection.process_tls_records(left).state {
                close_notify(&mut traffic, output);
            }
            return self.fail(Failure::new(FailureKind::Protocol, "a handshake message in pieces"), &[]);
        }
        if matches!(self.stage, Stage::Open) { Event::NeedsInput } else { Event::Established }
    }

    /// Ends the session; `sent` is what has been put into the output for it.
    fn fail(&mut self, mut failure: Failure, sent: &[u8]) -> Event {
        failure.alert = sent_alert(sent).or(failure.kind.alert().filter(|_| !sent.is_empty()));
        self.stage = Stage::Failed(failure.clone());
        Event::Failed(failure)
    }

    /// Puts what the library still wants to send into the output. There are no received bytes to refer to any more, so it is
    /// asked only while it has something.
    fn send_alerts(&mut self, output: &mut Vec<u8>) {
        while self.connection.wants_write() {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => append(data, output),
                _ => return,
            }
        }
    }

    /// Gives plaintext that had no room before, and lets its buffer go with the last of it.
    fn give_rest(&mut self, plaintext: &mut Sink<'_>) -> usize {
        let given = plaintext.put(&self.rest[self.rest_at..]);
        self.rest_at += given;
        if self.rest_at == self.rest.len() {
            self.rest = Vec::new();
            self.rest_at = 0;
        }
        given
    }

    /// What was agreed on, once the handshake is complete.
    pub fn agreed(&self) -> Option<Agreed<'_>> {
        if matches!(self.stage, Stage::Handshake) || self.connection.is_handshaking() {
            return None;
        }
        let version = match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            _ => Version::Tls12,
        };
        Some(Agreed {
            version,
            cipher: names::suite(self.connection.negotiated_cipher_suite()?.suite()),
            group: self.connection.negotiated_key_exchange_group().map_or("", |group| names::group(group.name())),
            server_name: self.server_name.as_deref(),
            alpn: self.connection.alpn_protocol(),
            resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    /// Encrypts as much of the plaintext as has room in `output`, which has [`MIN_OUTPUT`] bytes or more.
    pub fn encrypt(&mut self, plaintext: &[u8], output: &mut [u8]) -> Result<Encrypted, Failure> {
        debug_assert!(output.len() >= MIN_OUTPUT, "the output is too small for a record");
        match &self.stage {
            Stage::Open => {}
            Stage::Failed(failure) => return Err(failure.clone()),
            Stage::Handshake | Stage::Closed => {
                debug_assert!(false, "plaintext for a session that cannot send it");
                return Err(Failure::new(FailureKind::Internal, "the session cannot send"));
            }
        }
        let (fragment, overhead) = (self.fragment, self.overhead());
        let mut written = 0;
        let mut most = plaintext.len();
        loop {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let room = &mut output[written..];
                    let taken = most.min(plaintext_room(fragment, overhead, room.len()));
                    if taken == 0 {
                        return Ok(Encrypted { taken, written });
                    }
                    match traffic.encrypt(&plaintext[..taken], room) {
                        Ok(more) => return Ok(Encrypted { taken, written: written + more }),
                        // New keys are announced in the same output, which takes some of its room.
                        Err(EncryptError::InsufficientSize(size)) => {
                            let missing = size.required_size.saturating_sub(room.len()).max(1);
                            most = taken.saturating_sub(missing);
                        }
                        Err(error @ EncryptError::EncryptExhausted) => {
                            return Err(Failure::new(FailureKind::Internal, &error.to_string()));
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(&mut output[written..]) {
                    Ok(more) => written += more,
                    Err(error) => return Err(Failure::new(FailureKind::Internal, &error.to_string())),
                },
                Ok(ConnectionState::TransmitTlsData(transmitted)) => transmitted.done(),
                // The peer's plaintext waits for the next step.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        self.rest.extend_from_slice(record.payload);
                    }
                }
                _ => return Err(Failure::new(FailureKind::Internal, "the library cannot send")),
            }
        }
    }

    /// How many bytes a record has besides its plaintext.
    fn overhead(&self) -> usize {
        // The header, the authentication code, and what a version adds: the content's type, or a part of the nonce.
        let added = match self.connection.negotiated_cipher_suite().map(|suite| suite.suite()) {
            Some(
                CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS13_AES_256_GCM_SHA384
                | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
            ) => 1,
            Some(
                CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
            ) => 0,
            _ => 8,
        };
        HEADER + 16 + added
    }

    /// Appends `close_notify` to the output, once. What the peer sends after that is not read any more. Before the handshake
    /// is complete there is nothing to close in this way.
    pub fn close(&mut self, output: &mut Vec<u8>) {
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        loop {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    close_notify(&mut traffic, output);
                    break;
                }
                Ok(ConnectionState::EncodeTlsData(data)) => append(data, output),
                Ok(ConnectionState::TransmitTlsData(transmitted)) => transmitted.done(),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => while traffic.next_record().is_some() {},
                _ => break,
            }
        }
        self.stage = Stage::Closed;
        // The caller may drop what the last step left with it, as nothing of it is read any more.
        self.left = 0;
        self.rest = Vec::new();
        self.rest_at = 0;
    }

    /// Whether plaintext of the peer waits in the session itself, because the caller's buffer had no room for it.
    pub fn has_plaintext(&self) -> bool {
        self.rest_at < self.rest.len()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stage = match self.stage {
            Stage::Handshake => "Handshake",
            Stage::Open => "Open",
            Stage::Closed => "Closed",
            Stage::Failed(_) => "Failed",
        };
        to.debug_struct("Session").field("stage", &stage).field("agreed", &self.agreed()).finish_non_exhaustive()
    }
}

/// Appends what the library wants to send.
fn append<Data>(mut data: EncodeTlsData<'_, Data>, output: &mut Vec<u8>) {
    let begin = output.len();
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        output.resize(begin + size.required_size, 0);
        let written = data.encode(&mut output[begin..]).unwrap_or(0);
        output.truncate(begin + written);
    }
}

/// Appends `close_notify`.
fn close_notify<Data>(traffic: &mut WriteTraffic<'_, Data>, output: &mut Vec<u8>) {
    let begin = output.len();
    output.resize(begin + MIN_OUTPUT, 0);
    let written = traffic.queue_close_notify(&mut output[begin..]).unwrap_or(0);
    output.truncate(begin + written);
}

/// How much plaintext has room in so many bytes of output, in records of `fragment` bytes.
fn plaintext_room(fragment: usize, overhead: usize, output: usize) -> usize {
    let record = fragment + overhead;
    output / record * fragment + (output % record).saturating_sub(overhead)
}

/// The alert among these records, if it is not encrypted.
fn sent_alert(mut records: &[u8]) -> Option<u8> {
    loop {
        let [kind, _, _, high, low] = records.first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        match (*kind, records.get(HEADER..HEADER + length)?) {
            (ALERT, [_, alert]) => return Some(*alert),
            _ => records = &records[HEADER + length..],
        }
    }
}

/// Whether there is a complete record at the front.
fn has_whole_record(received: &[u8]) -> bool {
    let Some([_, _, _, high, low]) = received.first_chunk::<HEADER>() else { return false };
    received.len() - HEADER >= usize::from(u16::from_be_bytes([*high, *low]))
}

#[cfg(test)]
mod tests;
