//! Connections of HTTP/3, or others to servers that cannot be reached by UDP: the first that is there.

use std::cell::Cell;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_runtime::deadline::Deadline;
use freerun_serve::tls::handshake::HandshakeHelpers;
use freerun_serve::tls::handshake::outgoing_quic::{HTTP3, QuicFailure};
use freerun_serve::tls::handshake::outgoing_session::OutgoingError;
use freerun_transport::Transport;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::connect::{ConnectOptions, connect_datagrams};
use freerun_upstream::http3::EstablishedQuic;
use freerun_upstream::http3::memory::ReceiveWindow;
use freerun_upstream::http3::socket::QuicSocket;
use freerun_upstream::udp::UdpReachability;

use crate::client::tls;
use crate::exchange::family::Family;
use crate::exchange::target::PassTarget;

/// The time after which a server that has not answered by UDP is asked by TCP, too (RFC 8305 section 8 has the same for
/// addresses).
const HEAD_START: Duration = Duration::from_millis(250);

/// The time that a server has to answer by UDP once it has refused a connection over TCP. It may speak QUIC alone, and its first
/// packets may have been lost: QUIC sends them again after a second (RFC 9002 section 6.2.2).
const AFTER_REFUSAL: Duration = Duration::from_secs(2);

/// A new connection to a server.
pub enum NewTransport {
    /// A connection of QUIC.
    Quic(Box<EstablishedQuic>),
    /// A byte stream, with TLS.
    Stream(Transport),
}

/// Reason why there is no connection of QUIC.
#[derive(Debug)]
pub enum QuicError {
    /// The server cannot be reached by UDP, or takes no connection of QUIC: another kind of connection may do.
    Unreachable,
    /// No connection can be made by this side, whatever the server is.
    Unavailable,
    /// The server's settings cannot be used: the line for the error log.
    Settings(String),
    /// There is no session.
    Session(OutgoingError),
}

/// A connection of QUIC that is to be made.
pub struct QuicTry<'t> {
    /// The member of the family.
    pub family: &'t dyn Family,
    /// The request that it is for.
    pub request: &'t Request,
    /// The target of the request.
    pub target: &'t PassTarget,
    /// The name of the server in `$upstream_addr`.
    pub server: &'t str,
    /// Its address.
    pub address: SocketAddr,
    /// The settings of the socket.
    pub options: ConnectOptions,
    /// Whether the server has answered.
    pub heard: Cell<bool>,
}

impl QuicTry<'_> {
    /// Makes the connection.
    ///
    /// # Errors
    /// [`QuicError`]
    async fn run(&self) -> Result<EstablishedQuic, QuicError> {
        let QuicTry { family, request, target, server, address, options, heard } = self;
        let window = ReceiveWindow::take().ok_or(QuicError::Unavailable)?;
        let services = &request.generation.services;
        let paths = services.socket_paths(request.client_key());
        let datagrams = connect_datagrams(&UpstreamAddress::Ip(*address), options, paths).await;
        // The connection over TCP finds out what is wrong with addresses.
        let socket = QuicSocket::new(datagrams.map_err(|_| QuicError::Unavailable)?, *address);
        let outgoing = tls::outgoing(*family, request, target, server, Some(HTTP3), pending).await;
        let outgoing = outgoing.map_err(QuicError::Settings)?;
        let helpers = HandshakeHelpers {
            pool: request.generation.pools.handshakes(),
            lane: request.place.location.identity,
            figures: &request.client.loop_state.shared.upstream_tls,
        };
        outgoing.open_quic(socket, window, heard, helpers).await.map_err(|failure| match failure {
            QuicFailure::Unreachable(_) | QuicFailure::Refused(_) => QuicError::Unreachable,
            QuicFailure::Session(error) => QuicError::Session(error),
        })
    }

    /// Makes a connection: of QUIC, or by `stream` if the server cannot be reached by UDP. What is found out about that is noted
    /// in `udp`: a server that does not answer at all may be anything.
    ///
    /// # Errors
    /// There is none. `failed` makes the error of an error of QUIC.
    pub async fn race<E>(
        &self,
        udp: &UdpReachability,
        stream: impl Future<Output = Result<Transport, E>>,
        failed: impl Fn(QuicError) -> E,
    ) -> Result<NewTransport, E> {
        let mut stream = pin!(async { stream.await.map(NewTransport::Stream) });
        let mut quic = Box::pin(self.run());
        let first = match Deadline::within(HEAD_START, quic.as_mut()).await {
            None if self.heard.get() => Some(quic.as_mut().await),
            first => first,
        };
        let made = match first {
            Some(made) => made,
            None => tokio::select! {
                biased;
                made = quic.as_mut() => made,
                made = stream.as_mut() => match made {
                    Ok(made) if self.heard.get() => return Ok(made),
                    Ok(made) => {
                        self.note_closed(udp);
                        return Ok(made);
                    }
                    Err(error) => {
                        let made = match Deadline::within(AFTER_REFUSAL, quic.as_mut()).await {
                            None if self.heard.get() => quic.as_mut().await,
                            None => return Err(error),
                            Some(made) => made,
                        };
                        match made {
                            Err(QuicError::Unreachable | QuicError::Unavailable) => return Err(error),
                            made => made,
                        }
                    }
                },
            },
        };
        match made {
            Ok(made) => {
                udp.open();
                Ok(NewTransport::Quic(Box::new(made)))
            }
            Err(QuicError::Unavailable) => stream.await,
            Err(QuicError::Unreachable) => {
                let made = stream.await?;
                self.note_closed(udp);
                Ok(made)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Notes that the server has answered by TCP, and not by UDP.
    fn note_closed(&self, udp: &UdpReachability) {
        if let Some(millis) = udp.close(freerun_upstream::now()) {
            let seconds = millis / 1000;
            log_error!(
                self.request,
                Warn,
                "upstream {} cannot be reached by UDP, it is asked by TCP for {seconds} s while connecting to upstream",
                self.address
            );
        }
    }
}
