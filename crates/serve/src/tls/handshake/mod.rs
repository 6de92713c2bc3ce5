//! Handshakes with clients that have connected to a listening socket with `ssl`, and with upstream servers.
//!
//! The caller chooses the settings of the session by a client's ClientHello: the client names a server (RFC 6066
//! section 3), which has its protocols, ciphers and certificates.

pub mod figures;
pub mod outgoing_quic;
pub mod outgoing_session;
mod share;

use std::fmt;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use freerun_proto::tls::alert::{ALERT_RECORD, alert_record};
use freerun_proto::tls::{Alert, ClientHello, ExtensionType, HelloError, HelloProgress, HelloReader, is_tls};
use freerun_runtime::log::{Errno, Level, clock};
use freerun_runtime::loops;
use freerun_runtime::pool::{CpuPool, PoolError};
use freerun_runtime::timer::Timer;
use freerun_tls::session::{Event, FailureKind, MAX_INPUT, ServerConfig, SessionFailure, TlsSession, asks_again};
use freerun_transport::Transport;

use figures::TlsFigures;

/// Size of the buffer for received bytes at the beginning. A ClientHello with a key share of a post-quantum group fits.
const FIRST_READ: usize = 4 << 10;

/// The signature from which on a handshake always goes to the pool.
const LONG: Duration = Duration::from_micros(150);

/// The longest ClientHello that is answered on the loop. It has thousands of entries in its lists if a client wants that, and the
/// library looks at each of them; usual ones have less than 2 KiB.
const SHORT_HELLO: usize = 8 << 10;

/// The longest signature of a handshake that is begun on the loop when the client offers to resume an earlier session,
/// which needs none.
const LONGEST_GAMBLE: Duration = Duration::from_micros(400);

/// Pool for the steps of handshakes that take long, and the figures.
#[derive(Debug, Clone, Copy)]
pub struct HandshakeHelpers<'p> {
    /// The pool.
    pub pool: &'p CpuPool,
    /// The listening address, as a number: the addresses take turns in the pool.
    pub lane: u64,
    /// Counters of handshakes.
    pub figures: &'p TlsFigures,
}

/// Protocol of a client on a socket with `ssl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// TLS: the session is established.
    Tls,
    /// Something else, which the buffer has the first bytes of.
    Plain,
}

/// A ClientHello, with the message that its spans point into.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'m> {
    /// The parsed ClientHello.
    pub hello: &'m ClientHello,
    /// The message.
    pub message: &'m [u8],
}

impl Offer<'_> {
    /// Whether the client wants to know that the server's certificate was not revoked (`status_request`, RFC 6066 section 8).
    pub fn wants_status(&self) -> bool {
        self.hello.extension(self.message, ExtensionType::STATUS_REQUEST).is_some()
    }
}

/// Reason why there are no settings for a session that a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The server refuses every handshake (`ssl_reject_handshake`).
    Rejected,
    /// Neither the server nor the address's default server has a certificate.
    NoCertificate,
    /// The server's certificate cannot be used, for a reason that was logged.
    BadCertificate,
}

impl Refusal {
    /// The alert that the client gets.
    fn alert(self) -> Option<Alert> {
        match self {
            Refusal::Rejected => Some(Alert::UnrecognizedName),
            Refusal::NoCertificate => None,
            Refusal::BadCertificate => Some(Alert::InternalError),
        }
    }
}

/// Reason why there is no session.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client closed the connection before it sent anything.
    Left,
    /// The peer closed the connection.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// The handshake took too long.
    TimedOut,
    /// The first message is no ClientHello that can be gone on with.
    Hello(HelloError),
    /// There are no settings for the session.
    Refused(Refusal),
    /// The peers cannot agree, or one of them breaks the protocol.
    Failed(SessionFailure),
    /// The connection of QUIC has ended, for this reason.
    Quic(String),
}

impl fmt::Display for HandshakeError {
    /// nginx's words, without what was done meanwhile.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Left => to.write_str("client closed connection"),
            HandshakeError::Closed => to.write_str("peer closed connection in SSL handshake"),
            HandshakeError::Broken(error) => write!(to, "peer closed connection in SSL handshake ({})", Errno(error)),
            HandshakeError::TimedOut => to.write_str("timed out (110: Connection timed out)"),
            HandshakeError::Hello(error) => write!(to, "SSL_do_handshake() failed (SSL: {error})"),
            HandshakeError::Refused(Refusal::NoCertificate) => {
                to.write_str("no \"ssl_certificate\" is defined in server listening on SSL port")
            }
            HandshakeError::Refused(Refusal::Rejected) => to.write_str("handshake rejected"),
            HandshakeError::Refused(Refusal::BadCertificate) => {
                to.write_str("SSL_do_handshake() failed (SSL: error:0A000179:SSL routines::cert cb error)")
            }
            HandshakeError::Failed(failure) => write!(to, "SSL_do_handshake() failed ({failure})"),
            HandshakeError::Quic(reason) => write!(to, "QUIC handshake failed ({reason})"),
        }
    }
}

impl HandshakeError {
    /// The level at which nginx logs that a client has no session.
    pub fn level(&self) -> Level {
        match self {
            HandshakeError::Refused(Refusal::NoCertificate) => Level::Error,
            HandshakeError::Failed(failure) if failure.kind == FailureKind::Internal => Level::Crit,
            _ => Level::Info,
        }
    }

    /// The alert that tells the client, if nobody has told it yet.
    pub fn alert(&self) -> Option<Alert> {
        match self {
            HandshakeError::Hello(error) => error.alert(),
            HandshakeError::Refused(refusal) => refusal.alert(),
            _ => None,
        }
    }

    /// The error in nginx's words where it is a client's.
    pub fn of_client(&self) -> OfClient<'_> {
        OfClient(self)
    }
}

/// See [`HandshakeError::of_client`].
pub struct OfClient<'e>(&'e HandshakeError);

impl fmt::Display for OfClient<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.0, HandshakeError::TimedOut) {
            to.write_str("client ")?;
        }
        self.0.fmt(to)
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        HandshakeError::Broken(error)
    }
}

/// Whether the step of a server that answers this ClientHello takes long, by its signature or by the message.
pub fn takes_long(config: &ServerConfig, offer: Offer<'_>) -> bool {
    let signature = config.signature_time();
    let gambles = signature <= LONGEST_GAMBLE && offer.hello.wants_resumption(offer.message);
    let is_short = (signature < LONG || gambles) && offer.message.len() <= SHORT_HELLO;
    !is_short
}

/// Does a step of a handshake that needs nothing of the loop. The pool does it if it takes long, or if this loop has spent
/// its share of time on handshakes ([`share`]).
///
/// # Errors
/// The pool could not do it.
pub async fn run_step<T: Send + 'static>(
    helpers: HandshakeHelpers<'_>,
    is_long: bool,
    step: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HandshakeError> {
    if !is_long && share::has_time() {
        return Ok(share::spend(&helpers.figures.steps, step));
    }
    helpers.figures.pooled.add();
    let done = helpers.pool.run_in_lane(helpers.lane, std::future::pending(), step).await;
    done.map_err(|error| HandshakeError::Broken(io::Error::other(error)))
}

/// A handshake that goes on: a session, and the bytes on both sides of it.
struct Handshake {
    session: Box<TlsSession>,
    /// Bytes that were received and are not consumed.
    received: Vec<u8>,
    /// Bytes to send.
    output: Vec<u8>,
}

/// Which steps of a handshake have a signature that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongSteps {
    /// None of them.
    None,
    /// The step of a server that answers the ClientHello; after a HelloRetryRequest, the step that answers the second
    /// one.
    Answer,
    /// Any step of a client after its ClientHello: the messages that it signs for may come in several pieces.
    Later,
}

/// Input that a handshake needs to go on.
enum HandshakeNeed {
    /// More bytes of the client.
    Input,
    /// Nothing: it is complete.
    Nothing,
}

impl Handshake {
    fn new(session: TlsSession, received: Vec<u8>) -> Handshake {
        Handshake { session: Box::new(session), received, output: Vec::new() }
    }

    /// Goes on with what was received.
    fn advance(&mut self) -> Result<HandshakeNeed, SessionFailure> {
        let now = clock::since_1970();
        let progress = self.session.step(now, &mut self.received, &mut self.output, &mut Vec::new(), 0);
        self.received.drain(..progress.consumed);
        match progress.event {
            Event::Established | Event::Plaintext(_) => Ok(HandshakeNeed::Nothing),
            // If the peer has closed the session, the next read finds the end of the connection.
            Event::NeedsInput | Event::PeerClosed => Ok(HandshakeNeed::Input),
            Event::Failed(failure) => Err(failure),
        }
    }
}

/// Finds out what a client speaks, and lets it have a session if that is TLS. All of it has to be done within `timeout`.
///
/// A step with a signature that takes long is done by the `helpers`, and so is any, once this loop has spent its share of
/// time on handshakes ([`share`]).
///
/// `buffer` has the bytes that have come already, and gets those that do not belong to TLS. `choose` makes the session's
/// configuration of the ClientHello, for which it may have to wait.
///
/// # Errors
/// There is no session; an alert was sent where one belongs.
pub async fn shake_hands(
    transport: &Transport,
    timer: &mut Timer,
    timeout: Duration,
    helpers: HandshakeHelpers<'_>,
    buffer: &mut Vec<u8>,
    choose: impl AsyncFnOnce(Offer<'_>) -> Result<ServerConfig, Refusal>,
) -> Result<Speaks, HandshakeError> {
    let deadline = loops::now() + timeout;
    while buffer.is_empty() {
        read_more(transport, timer, deadline, buffer).await.map_err(|error| match error {
            HandshakeError::Closed => HandshakeError::Left,
            error => error,
        })?;
    }
    if !is_tls(buffer[0]) {
        return Ok(Speaks::Plain);
    }
    let mut received = std::mem::take(buffer);
    let mut reader = HelloReader::new();
    let (read, config, long) = loop {
        match reader.advance(&received) {
            Ok(HelloProgress::Hello(read)) => {
                let message = read.message(&received);
                let left = deadline.saturating_duration_since(loops::now());
                let chosen = timer.within(left, choose(Offer { hello: &read.hello, message })).await;
                match chosen.ok_or(HandshakeError::TimedOut)? {
                    Ok(config) => {
                        let config = config.for_client(read.hello.cipher_suites(message));
                        let is_long = takes_long(&config, Offer { hello: &read.hello, message });
                        break (read, config, if is_long { LongSteps::Answer } else { LongSteps::None });
                    }
                    Err(refusal) => {
                        refuse(transport, refusal.alert().map(Alert::record));
                        return Err(HandshakeError::Refused(refusal));
                    }
                }
            }
            Ok(HelloProgress::NeedMore) => read_more(transport, timer, deadline, &mut received).await?,
            Err(error) => {
                refuse(transport, error.alert().map(Alert::record));
                return Err(HandshakeError::Hello(error));
            }
        }
    };
    let session = TlsSession::answer(&config, &read.hello, read.message(&received)).map_err(|failure| {
        refuse(transport, failure.alert.map(alert_record));
        HandshakeError::Failed(failure)
    })?;
    let received = read.reframed(received);
    finish(transport, timer, deadline, helpers, Handshake::new(session, received), long).await?;
    Ok(Speaks::Tls)
}

/// Has a session with a server that a connection was made to; all of it has to be done within `timeout`. It is established
/// on the transport then, and nothing is verified yet but that the server has the key of its certificate. `signature` is the
/// time that one takes for the client's own certificate, if it has one.
///
/// # Errors
/// There is no session.
pub async fn greet(
    transport: &Transport,
    timer: &mut Timer,
    timeout: Duration,
    helpers: HandshakeHelpers<'_>,
    session: TlsSession,
    signature: Duration,
) -> Result<(), HandshakeError> {
    let deadline = loops::now() + timeout;
    let long = if signature < LONG { LongSteps::None } else { LongSteps::Later };
    finish(transport, timer, deadline, helpers, Handshake::new(session, Vec::new()), long).await
}

/// Takes a handshake to its end, and establishes the session. The `long` steps are done by the pool.
async fn finish(
    transport: &Transport,
    timer: &mut Timer,
    deadline: Instant,
    helpers: HandshakeHelpers<'_>,
    mut handshake: Handshake,
    long: LongSteps,
) -> Result<(), HandshakeError> {
    let mut is_short = long != LongSteps::Answer;
    loop {
        let next = if is_short && share::has_time() {
            share::spend(&helpers.figures.steps, || handshake.advance())
        } else {
            let next;
            helpers.figures.pooled.add();
            (handshake, next) = in_pool(transport, timer, deadline, helpers, handshake).await?;
            next
        };
        is_short = match long {
            LongSteps::None => true,
            LongSteps::Answer => is_short || !asks_again(&handshake.output),
            LongSteps::Later => false,
        };
        // An alert is sent if that is possible. The error of the handshake, not of the sending, is the one to report.
        let sent = send(transport, timer, deadline, &mut handshake.output).await;
        let next = next.map_err(HandshakeError::Failed)?;
        sent?;
        match next {
            HandshakeNeed::Input => read_more(transport, timer, deadline, &mut handshake.received).await?,
            HandshakeNeed::Nothing => break,
        }
    }
    if let Some(tls) = transport.tls() {
        helpers.figures.completed(&handshake.session);
        handshake.received.shrink_to_fit();
        tls.establish(handshake.session, handshake.received);
    }
    Ok(())
}

/// Goes on with a handshake on a thread of the pool. The socket is not read meanwhile; if its client goes, the step is left
/// out.
async fn in_pool(
    transport: &Transport,
    timer: &mut Timer,
    deadline: Instant,
    HandshakeHelpers { pool, lane, .. }: HandshakeHelpers<'_>,
    mut handshake: Handshake,
) -> Result<(Handshake, Result<HandshakeNeed, SessionFailure>), HandshakeError> {
    let step = move || {
        let next = handshake.advance();
        (handshake, next)
    };
    let left = deadline.saturating_duration_since(loops::now());
    match timer.within(left, pool.run_in_lane(lane, transport.gone_for_reader(), step)).await {
        None => Err(HandshakeError::TimedOut),
        Some(Ok(done)) => Ok(done),
        Some(Err(PoolError::ClientGone)) => Err(HandshakeError::Closed),
        Some(Err(error)) => Err(HandshakeError::Broken(io::Error::other(error))),
    }
}

/// Receives more bytes behind those that are there.
async fn read_more(
    transport: &Transport,
    timer: &mut Timer,
    deadline: Instant,
    received: &mut Vec<u8>,
) -> Result<(), HandshakeError> {
    if received.capacity() - received.len() < FIRST_READ / 2 {
        received.reserve(FIRST_READ.min(MAX_INPUT));
    }
    let left = deadline.saturating_duration_since(loops::now());
    match timer.within(left, transport.read(received)).await {
        None => Err(HandshakeError::TimedOut),
        Some(Ok(0)) => Err(HandshakeError::Closed),
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(error.into()),
    }
}

/// Sends all of it.
async fn send(
    transport: &Transport,
    timer: &mut Timer,
    deadline: Instant,
    output: &mut Vec<u8>,
) -> Result<(), HandshakeError> {
    let mut sent = 0;
    while sent < output.len() {
        match transport.try_write(&[IoSlice::new(&output[sent..])], false) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = deadline.saturating_duration_since(loops::now());
                timer.within(left, transport.writable_after_full()).await.ok_or(HandshakeError::TimedOut)??;
            }
            Err(error) => return Err(error.into()),
        }
    }
    output.clear();
    Ok(())
}

/// Sends an alert, as far as the socket takes it now: nothing else was sent, so it does.
fn refuse(transport: &Transport, alert: Option<[u8; ALERT_RECORD]>) {
    if let Some(alert) = alert {
        // A client that has gone misses it.
        let _ = transport.try_write(&[IoSlice::new(&alert)], false);
    }
}
