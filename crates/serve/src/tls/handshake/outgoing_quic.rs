//! QUIC with a server that this one connects to: the handshake, and the verification of what the server shows.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io;
use std::task::{Context, Poll};

use freerun_quic::connection::{ConnectionError, Event, QuicConnection, TransportErrorCode};
use freerun_quic::datagram::Datagram;
use freerun_quic::{VarInt, client};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::log::clock;
use freerun_runtime::loops;
use freerun_tls::session::{QuicClient, QuicSession};
use freerun_upstream::http3::EstablishedQuic;
use freerun_upstream::http3::memory::ReceiveWindow;
use freerun_upstream::http3::socket::QuicSocket;

use super::outgoing_session::{OutgoingError, OutgoingTls};
use super::{HandshakeError, HandshakeHelpers, LONG, run_step};
use crate::tls::agreed_session::AgreedSession;

/// The protocol above QUIC (ALPN, RFC 9114 section 3.1).
pub const HTTP3: &[u8] = b"h3";

/// The code for a server whose certificate is not good: an alert of TLS as an error of HTTP/3 is none, so it is this one
/// (`H3_NO_ERROR`).
const CLOSED: u32 = 0x100;

/// Reason why there is no connection of QUIC with a server.
#[derive(Debug)]
pub enum QuicFailure {
    /// Nobody takes datagrams at the server's address.
    Unreachable(io::Error),
    /// The server takes no connection of QUIC, or none of this version.
    Refused(ConnectionError),
    /// There is no session.
    Session(OutgoingError),
}

/// Progress of a handshake.
enum HandshakeProgress {
    /// Datagrams have come.
    Received(Vec<Datagram>),
    /// The handshake is complete.
    Complete,
}

impl OutgoingTls {
    /// Has a connection of QUIC with the server of the socket. `heard` is set when the server has answered. The caller bounds the
    /// time by dropping the future.
    ///
    /// # Errors
    /// [`QuicFailure`].
    pub async fn open_quic(
        &self,
        socket: QuicSocket,
        window: ReceiveWindow,
        heard: &Cell<bool>,
        helpers: HandshakeHelpers<'_>,
    ) -> Result<EstablishedQuic, QuicFailure> {
        let failed = |error| {
            helpers.figures.failed(&error);
            QuicFailure::Session(OutgoingError::Handshake(error))
        };
        let made = QuicClient::new(&self.config, self.server_name.as_deref(), self.sessions.clone(), clock::since_1970);
        let (crypto, session) = made.map_err(|failure| failed(HandshakeError::Failed(failure)))?;
        let transport = window.settings().transport();
        let begun = client::connect(crypto, transport, self.sessions.clone(), loops::now(), socket.server());
        let mut quic = begun.map_err(|error| failed(reason(&session, &error.to_string())))?;
        let is_long = self.config.signature_time() >= LONG;
        loop {
            let mut deadline = Deadline::default();
            let step = poll_fn(|context| poll(&mut quic, &socket, &session, &mut deadline, context)).await;
            match step {
                Ok(HandshakeProgress::Complete) => break,
                Ok(HandshakeProgress::Received(datagrams)) => {
                    heard.set(true);
                    let now = loops::now();
                    let step = move || {
                        for datagram in datagrams {
                            let _ = quic.receive(now, datagram, &mut Vec::new());
                        }
                        quic
                    };
                    quic = run_step(helpers, is_long, step).await.map_err(failed)?;
                }
                Err(QuicFailure::Session(OutgoingError::Handshake(error))) => return Err(failed(error)),
                Err(failure) => return Err(failure),
            }
        }
        let Some(agreed) = session.agreed().map(AgreedSession::of_quic) else {
            return Err(failed(HandshakeError::Closed));
        };
        helpers.figures.established(&agreed);
        if let Some(verification) = &self.verification {
            let chain = agreed.certificates.as_deref().map(<[Vec<u8>]>::to_vec).unwrap_or_default();
            let verified = verification.run(chain, clock::since_1970(), pending(), helpers).await;
            if let Err(error) = verified {
                quic.inner().close(loops::now(), VarInt::from_u32(CLOSED), bytes::Bytes::new());
                poll_fn(|context| Poll::Ready(socket.transmit(&mut quic, loops::now(), context))).await;
                return Err(QuicFailure::Session(error));
            }
        }
        Ok(EstablishedQuic { quic, socket, window })
    }
}

/// The error of a session that has failed.
fn reason(session: &QuicSession, error: &str) -> HandshakeError {
    session.failure().map_or_else(|| HandshakeError::Quic(error.to_owned()), HandshakeError::Failed)
}

/// Whether the server takes no connection of QUIC, so that TCP should be tried (RFC 9114 section 3.1). What TLS finds is none of
/// these.
fn is_refusal(lost: &ConnectionError) -> bool {
    match lost {
        ConnectionError::VersionMismatch | ConnectionError::Reset => true,
        ConnectionError::ConnectionClosed(close) => close.error_code == TransportErrorCode::CONNECTION_REFUSED,
        _ => false,
    }
}

/// Polls for the next step of a handshake.
fn poll(
    quic: &mut QuicConnection,
    socket: &QuicSocket,
    session: &QuicSession,
    deadline: &mut Deadline,
    context: &mut Context<'_>,
) -> Poll<Result<HandshakeProgress, QuicFailure>> {
    let now = loops::now();
    quic.advance(now);
    while let Some(event) = quic.next_event() {
        match event {
            Event::Connected => return Poll::Ready(Ok(HandshakeProgress::Complete)),
            Event::ConnectionLost { reason: lost } => {
                // The server learns what was wrong.
                socket.transmit(quic, now, context);
                if is_refusal(&lost) {
                    return Poll::Ready(Err(QuicFailure::Refused(lost)));
                }
                let error = match lost {
                    ConnectionError::TimedOut => HandshakeError::TimedOut,
                    lost => reason(session, &lost.to_string()),
                };
                return Poll::Ready(Err(QuicFailure::Session(OutgoingError::Handshake(error))));
            }
            _ => {}
        }
    }
    if socket.transmit(quic, now, context) {
        context.waker().wake_by_ref();
    }
    let mut received = Vec::new();
    match socket.poll_receive(context, |datagram| received.push(datagram)) {
        Poll::Ready(Err(error)) => return Poll::Ready(Err(QuicFailure::Unreachable(error))),
        Poll::Ready(Ok(())) => return Poll::Ready(Ok(HandshakeProgress::Received(received))),
        Poll::Pending => {}
    }
    if let Some(until) = quic.deadline()
        && deadline.poll_instant(until, context).is_ready()
    {
        context.waker().wake_by_ref();
    }
    Poll::Pending
}
