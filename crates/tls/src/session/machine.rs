//! The steps of a session, which are the same on both sides.

use super::concealment::ConcealedName;
use super::connection::LibraryConnection;
use super::records::{
    ALERT_ROOM, MAX_SESSION_ID, asks_again, has_whole_record, hello_session_id, overhead, plaintext_room, sent_alert,
};
use super::step::{self, CallbackData, SessionPlace};
use super::{
    EncryptedCounts, Event, FailureKind, MAX_INPUT, MIN_OUTPUT, SessionFailure, SessionOrigin, SessionParameters,
    ShownCertificate, StepProgress, TlsVersion, names,
};
use bytes::BufMut;
use freerun_proto::tls::{Alert, is_whole_message, message_bytes};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, WriteTraffic};
use rustls::{AlertDescription, Error, HandshakeKind, ProtocolVersion};
use std::sync::Arc;
use std::time::Duration;

/// A session of one side.
pub(super) struct Machine<C> {
    connection: C,
    stage: SessionStage,
    /// The handshake's end was told.
    established: bool,
    /// The number of bytes that the last step left with the caller. They have been changed, so the next one has to get
    /// the same.
    left: usize,
    /// Received bytes that the session keeps itself: the beginning of a handshake message that comes in several records while
    /// plaintext may be sent, and what has come behind it.
    held: Vec<u8>,
    /// The library is in the middle of the message at the front of `held` and has to get it at each call.
    in_message: bool,
    /// Plaintext for which the caller's buffer had no room, and where it begins.
    rest: Vec<u8>,
    rest_at: usize,
    /// The peer's end has come; the next step reports it.
    peer_closes: bool,
    peer_closed: bool,
    /// `close_notify` was sent, and so nothing may be sent any more. The peer may still send (RFC 8446 section 6.1).
    closed: bool,
    fragment: usize,
    /// Which ClientHello still has a name to be concealed.
    conceals: Conceals,
    /// The id that the server has given the session, and its length.
    hello_id: Option<(u8, [u8; MAX_SESSION_ID])>,
    kept: CallbackData,
}

/// The ClientHello of the peer in which the next step has to conceal the name of the server.
#[derive(Clone, Copy)]
enum Conceals {
    /// None.
    Nothing,
    /// The first one, which is at the front of the received bytes; the extension begins at this offset of the message.
    First(usize),
    /// The second one, which the server has asked for.
    Second,
}

/// Progress of a session.
enum SessionStage {
    Handshake,
    Open,
    Failed(SessionFailure),
}

/// Point that the library has reached within a step.
enum LibraryState {
    /// There is more to do.
    More,
    /// Nothing more can be done with what was received.
    End,
    Event(Event),
    /// A failure, and where in the output its alert begins.
    Failure(SessionFailure, usize),
}

/// Place for a step's plaintext.
pub(super) struct Sink<'a> {
    pub(super) buffer: &'a mut dyn BufMut,
    /// The number of bytes that it may still get.
    pub(super) most: usize,
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

/// Plaintext that the library has decrypted.
struct Got<'a, 'b> {
    open: bool,
    plaintext: &'a mut Sink<'b>,
    rest: &'a mut Vec<u8>,
    given: usize,
}

impl<'a, 'b> Got<'a, 'b> {
    fn new(open: bool, plaintext: &'a mut Sink<'b>, rest: &'a mut Vec<u8>) -> Self {
        Self { open, plaintext, rest, given: 0 }
    }

    fn record(&mut self, record: &[u8]) {
        // The handshake's end is reported first; what came right behind it is kept, where the caller can see that it is
        // there.
        let taken = if self.open { self.plaintext.put(record) } else { 0 };
        self.given += taken;
        self.rest.extend_from_slice(&record[taken..]);
    }

    fn reached(self) -> LibraryState {
        match (self.open, self.given) {
            (false, _) => LibraryState::Event(Event::Established),
            // An empty record is no news.
            (true, 0) if self.rest.is_empty() => LibraryState::More,
            (true, given) => LibraryState::Event(Event::Plaintext(given)),
        }
    }
}

impl<C: LibraryConnection> Machine<C> {
    pub(super) fn new(connection: C, fragment: usize, kept: CallbackData) -> Self {
        Self {
            connection,
            stage: SessionStage::Handshake,
            established: false,
            left: 0,
            held: Vec::new(),
            in_message: false,
            rest: Vec::new(),
            rest_at: 0,
            peer_closes: false,
            peer_closed: false,
            closed: false,
            fragment,
            conceals: Conceals::Nothing,
            hello_id: None,
            kept,
        }
    }

    /// Has the first step conceal the name of the server in the ClientHello, whose extension begins at this offset.
    pub(super) fn conceal_first(&mut self, at: usize) {
        self.conceals = Conceals::First(at);
    }

    pub(super) fn step(
        &mut self,
        now: Duration,
        received: &mut [u8],
        output: &mut Vec<u8>,
        plaintext: &mut Sink<'_>,
    ) -> StepProgress {
        if let Some(event) = self.without_input(received.len(), plaintext) {
            let consumed = if matches!(event, Event::Plaintext(_)) { 0 } else { received.len() };
            if consumed > 0 {
                self.left = 0;
            }
            return StepProgress { consumed, event };
        }
        if let Some(event) = self.conceal(received) {
            self.left = received.len();
            return StepProgress { consumed: 0, event };
        }
        // Answers that come too late, as one to a change of keys does after the end.
        let mut dropped = Vec::new();
        let output = if self.closed { &mut dropped } else { output };
        let begin = output.len();
        let mut kept = std::mem::take(&mut self.kept);
        kept.resumption.is_resumed = self.is_resumed();
        let (progress, kept) = step::run(now, kept, || self.with_input(received, output, plaintext));
        self.kept = kept;
        if self.hello_id.is_none() && matches!(self.stage, SessionStage::Handshake) {
            self.hello_id = output.get(begin..).and_then(hello_session_id).map(|id| {
                let mut bytes = [0; MAX_SESSION_ID];
                bytes[..id.len()].copy_from_slice(id);
                (id.len() as u8, bytes)
            });
        }
        if let (Some(name), SessionStage::Handshake) = (&self.kept.concealed, &self.stage) {
            let sent = &mut output[begin..];
            name.reveal(sent);
            self.conceals = if asks_again(sent) { Conceals::Second } else { Conceals::Nothing };
        }
        debug_assert!(progress.consumed <= received.len());
        self.left = received.len() - progress.consumed;
        progress
    }

    /// Conceals the name of the server in the ClientHello that is awaited. The event: the step ends here, because it is not whole
    /// or asks for another server than the first one.
    fn conceal(&mut self, received: &mut [u8]) -> Option<Event> {
        let name = self.kept.concealed.clone()?;
        match self.conceals {
            Conceals::Nothing => return None,
            Conceals::First(at) => name.conceal(received, at),
            Conceals::Second => {
                let message = message_bytes(received);
                if !is_whole_message(&message) && received.len() < MAX_INPUT && sent_alert(received).is_none() {
                    return Some(Event::NeedsInput);
                }
                if let Some((at, second)) = ConcealedName::of_client(&message) {
                    if !second.is_same(&name) {
                        let failure =
                            SessionFailure::new(FailureKind::Protocol, "another server name in the second ClientHello");
                        return Some(self.fail(failure, &[]));
                    }
                    second.conceal(received, at);
                    self.kept.concealed = Some(Arc::new(second));
                }
            }
        }
        self.conceals = Conceals::Nothing;
        None
    }

    /// The event of a step for which the received bytes do not matter.
    fn without_input(&mut self, received: usize, plaintext: &mut Sink<'_>) -> Option<Event> {
        if self.rest_at < self.rest.len() {
            return Some(Event::Plaintext(self.give_rest(plaintext)));
        }
        match &self.stage {
            SessionStage::Failed(failure) => Some(Event::Failed(failure.clone())),
            _ if std::mem::take(&mut self.peer_closes) => {
                self.peer_closed = true;
                Some(Event::PeerClosed)
            }
            _ if self.peer_closed => Some(Event::NeedsInput),
            SessionStage::Handshake | SessionStage::Open if received < self.left => {
                let failure = SessionFailure::new(FailureKind::Internal, "received bytes were lost");
                self.stage = SessionStage::Failed(failure.clone());
                Some(Event::Failed(failure))
            }
            SessionStage::Handshake | SessionStage::Open => None,
        }
    }

    /// Works on the received bytes, or on those that the session keeps, with the received ones behind them.
    fn with_input(&mut self, received: &mut [u8], output: &mut Vec<u8>, plaintext: &mut Sink<'_>) -> StepProgress {
        if self.held.is_empty() {
            let mut progress = self.advance(received, output, plaintext);
            if self.in_message {
                self.held.extend_from_slice(&received[progress.consumed..]);
                progress.consumed = received.len();
            }
            return progress;
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(received);
        let StepProgress { consumed, event } = self.advance(&mut held, output, plaintext);
        if consumed < held.len() {
            held.drain(..consumed);
            self.held = held;
        }
        StepProgress { consumed: received.len(), event }
    }

    fn advance(&mut self, received: &mut [u8], output: &mut Vec<u8>, plaintext: &mut Sink<'_>) -> StepProgress {
        let all = received.len();
        let mut consumed = 0;
        self.in_message = false;
        loop {
            let status = self.connection.process(&mut received[consumed..]);
            let discard = status.discard;
            let open = matches!(self.stage, SessionStage::Open);
            let reached = match status.state {
                // The library takes the peer's end for an error as long as the handshake is not complete.
                Err(Error::AlertReceived(AlertDescription::CloseNotify)) => LibraryState::Event(Event::PeerClosed),
                Err(error) => {
                    let begin = output.len();
                    self.send_alerts(output);
                    let version = self.connection.common().protocol_version();
                    let failure = SessionFailure::of(&error).in_version(version);
                    LibraryState::Failure(self.without_certificate(failure, begin, output), begin)
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut got = Got::new(open, plaintext, &mut self.rest);
                    while let Some(Ok(record)) = traffic.next_record() {
                        got.record(record.payload);
                    }
                    got.reached()
                }
                // The client has not answered the server's part of the handshake yet, and already waits for a response.
                Ok(ConnectionState::ReadEarlyData(early)) => {
                    let mut got = Got::new(open, plaintext, &mut self.rest);
                    C::early_data(early, |record| got.record(record));
                    got.reached()
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    append(data, output);
                    LibraryState::More
                }
                Ok(ConnectionState::TransmitTlsData(transmitted)) => {
                    transmitted.done();
                    LibraryState::More
                }
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => LibraryState::End,
                // The end came together with the last message of the handshake, and is reported after it.
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) if !open => {
                    self.peer_closes = true;
                    LibraryState::Event(Event::Established)
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => LibraryState::Event(Event::PeerClosed),
                Ok(_) => {
                    LibraryState::Failure(SessionFailure::new(FailureKind::Internal, "an unknown state"), output.len())
                }
            };
            consumed = (consumed + discard).min(all);
            let event = match reached {
                LibraryState::More => continue,
                LibraryState::End => self.at_end(&received[consumed..]),
                LibraryState::Event(event) => event,
                LibraryState::Failure(failure, begin) => self.fail(failure, &output[begin..]),
            };
            match event {
                Event::Established => {
                    self.stage = SessionStage::Open;
                    self.established = true;
                }
                Event::PeerClosed => self.peer_closed = true,
                _ => {}
            }
            // What stands behind the end is of no interest.
            let over = matches!(event, Event::PeerClosed | Event::Failed(_));
            return StepProgress { consumed: if over { all } else { consumed }, event };
        }
    }

    /// The failure of a handshake with a client that can use none of the certificates. In TLS 1.2 the library may find
    /// that only when it signs, as an error of its own and without an alert.
    fn without_certificate(&self, failure: SessionFailure, begin: usize, output: &mut Vec<u8>) -> SessionFailure {
        if failure.kind != FailureKind::Internal || !step::is_without_certificate() {
            return failure;
        }
        output.truncate(begin);
        output.extend_from_slice(&Alert::HandshakeFailure.record());
        SessionFailure { kind: FailureKind::NoSharedCipher, ..failure }
    }

    /// The event when nothing can be done with the rest of the received bytes.
    fn at_end(&mut self, left: &[u8]) -> Event {
        if left.len() >= MAX_INPUT {
            return self
                .fail(SessionFailure::new(FailureKind::TooLarge, "a handshake message in too many pieces"), &[]);
        }
        let open = matches!(self.stage, SessionStage::Open);
        if self.connection.common().is_handshaking() && !open {
            return Event::NeedsInput;
        }
        // Records that are complete and yet not used up belong to a message whose last record has not come.
        self.in_message = has_whole_record(left);
        if open { Event::NeedsInput } else { Event::Established }
    }

    /// Ends the session; `sent` is what has been put into the output for it.
    fn fail(&mut self, mut failure: SessionFailure, sent: &[u8]) -> Event {
        let sent = if self.closed { &[] } else { sent };
        failure.alert = sent_alert(sent).or(failure.kind.alert().filter(|_| !sent.is_empty()));
        self.stage = SessionStage::Failed(failure.clone());
        Event::Failed(failure)
    }

    /// Puts what the library still wants to send into the output. There are no received bytes to refer to any more, so it is
    /// asked only while it has something.
    fn send_alerts(&mut self, output: &mut Vec<u8>) {
        while self.connection.common().wants_write() {
            match self.connection.process(&mut []).state {
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

    pub(super) fn agreed(&self) -> Option<SessionParameters<'_>> {
        if !self.established {
            return None;
        }
        let common = self.connection.common();
        let version = match common.protocol_version()? {
            ProtocolVersion::TLSv1_3 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let session_id = match (version, &self.hello_id) {
            (TlsVersion::Tls13, _) => self.kept.resumption.id(),
            (TlsVersion::Tls12, Some((length, id))) => id.get(..usize::from(*length)).filter(|id| !id.is_empty()),
            (TlsVersion::Tls12, None) => None,
        };
        Some(SessionParameters {
            version,
            cipher: names::suite(common.negotiated_cipher_suite()?.suite()),
            group: common.negotiated_key_exchange_group().map_or("", |group| names::group(group.name())),
            server_name: self.kept.server_name.as_deref(),
            alpn: common.alpn_protocol(),
            resumed: self.is_resumed(),
            session_id,
            early_data: common.is_handshaking(),
        })
    }

    /// See [`TlsSession::shown`](super::TlsSession::shown).
    pub(super) fn shown(&self) -> Option<ShownCertificate> {
        self.kept.shown.filter(|_| self.established && !self.is_resumed())
    }

    /// See [`TlsSession::origin`](super::TlsSession::origin).
    pub(super) fn origin(&self) -> Option<SessionOrigin> {
        match (self.established, self.is_resumed()) {
            (false, _) => None,
            (true, false) => self.kept.shown.map(|shown| SessionOrigin::Signed(shown.key)),
            (true, true) => self.kept.resumption.place().map(|place| match place {
                SessionPlace::Ticket => SessionOrigin::Ticket,
                SessionPlace::Store => SessionOrigin::Store,
            }),
        }
    }

    fn is_resumed(&self) -> bool {
        self.connection.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) fn peer_certificates(&self) -> impl Iterator<Item = &[u8]> {
        let certificates = self.connection.common().peer_certificates().filter(|_| self.established);
        certificates.unwrap_or_default().iter().map(AsRef::as_ref)
    }

    pub(super) fn encrypt(&mut self, plaintext: &[u8], output: &mut [u8]) -> Result<EncryptedCounts, SessionFailure> {
        debug_assert!(output.len() >= MIN_OUTPUT, "the output is too small for a record");
        match &self.stage {
            SessionStage::Open if !self.closed => {}
            SessionStage::Failed(failure) => return Err(failure.clone()),
            SessionStage::Handshake | SessionStage::Open => {
                debug_assert!(false, "plaintext for a session that cannot send it");
                return Err(SessionFailure::new(FailureKind::Internal, "the session cannot send"));
            }
        }
        let (fragment, overhead) = (self.fragment, overhead(self.connection.common().negotiated_cipher_suite()));
        let mut written = 0;
        let mut most = plaintext.len();
        loop {
            let begun = if self.in_message { &mut self.held[..] } else { &mut [] };
            match self.connection.process(begun).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let room = &mut output[written..];
                    let taken = most.min(plaintext_room(fragment, overhead, room.len()));
                    if taken == 0 {
                        return Ok(EncryptedCounts { taken, written });
                    }
                    match traffic.encrypt(&plaintext[..taken], room) {
                        Ok(more) => return Ok(EncryptedCounts { taken, written: written + more }),
                        // New keys are announced in the same output, which takes some of its room.
                        Err(EncryptError::InsufficientSize(size)) => {
                            let missing = size.required_size.saturating_sub(room.len()).max(1);
                            most = taken.saturating_sub(missing);
                        }
                        Err(error @ EncryptError::EncryptExhausted) => {
                            return Err(SessionFailure::new(FailureKind::Internal, &error.to_string()));
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(&mut output[written..]) {
                    Ok(more) => written += more,
                    Err(error) => return Err(SessionFailure::new(FailureKind::Internal, &error.to_string())),
                },
                Ok(ConnectionState::TransmitTlsData(transmitted)) => transmitted.done(),
                // The peer's plaintext waits for the next step.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        self.rest.extend_from_slice(record.payload);
                    }
                }
                _ => return Err(SessionFailure::new(FailureKind::Internal, "the library cannot send")),
            }
        }
    }

    pub(super) fn close(&mut self, output: &mut Vec<u8>) {
        if !matches!(self.stage, SessionStage::Open) || std::mem::replace(&mut self.closed, true) {
            return;
        }
        loop {
            let begun = if self.in_message { &mut self.held[..] } else { &mut [] };
            match self.connection.process(begun).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    close_notify(&mut traffic, output);
                    break;
                }
                Ok(ConnectionState::EncodeTlsData(data)) => append(data, output),
                Ok(ConnectionState::TransmitTlsData(transmitted)) => transmitted.done(),
                // The peer's plaintext waits for the next step.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        self.rest.extend_from_slice(record.payload);
                    }
                }
                _ => break,
            }
        }
    }

    pub(super) fn has_more(&self) -> bool {
        self.rest_at < self.rest.len() || self.peer_closes || !self.in_message && has_whole_record(&self.held)
    }

    /// The number of bytes that the session itself keeps. See [`TlsSession::settle`](super::TlsSession::settle).
    pub(super) fn settle(&mut self, is_good: bool) {
        self.kept.resumption.settle(is_good);
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.rest.capacity() + self.held.capacity()
    }

    pub(super) fn stage(&self) -> &'static str {
        match self.stage {
            SessionStage::Handshake => "Handshake",
            SessionStage::Open if self.closed => "Closed",
            SessionStage::Open => "Open",
            SessionStage::Failed(_) => "Failed",
        }
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
    output.resize(begin + ALERT_ROOM, 0);
    let written = traffic.queue_close_notify(&mut output[begin..]).unwrap_or(0);
    output.truncate(begin + written);
}
