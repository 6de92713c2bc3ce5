//! Connections of HTTP/3, or others to servers that cannot be reached by UDP: the first that is there.

use std::cell::Cell;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

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
    /// None can be made, whatever the server is: another kind of connection may do.
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
            QuicFailure::Unreachable(_) => QuicError::Unavailable,
            QuicFailure::Session(error) => QuicError::Session(error),
        })
    }

    /// Makes a connection: of QUIC, or by `stream` if the server cannot be reached by UDP. What is found out about that is noted
    /// in `udp`.
    ///
    /// # Errors
    /// There is none. `failed` makes the error of an error of QUIC.
    pub async fn race<E>(
        &self,
        udp: &UdpReachability,
        stream: impl Future<Output = Result<Transport, E>>,
        failed: impl Fn(QuicError) -> E,
    ) -> Result<NewTransport, E> {
        let stream = async { stream.await.map(NewTransport::Stream) };
        let mut quic = Box::pin(self.run());
        let first = match Deadline::within(HEAD_START, quic.as_mut()).await {
            None if self.heard.get() => Some(quic.as_mut().await),
            first => first,
        };
        if let Some(made) = first {
            return match self.judge(made, udp) {
                Some(made) => made.map_err(failed),
                None => stream.await,
            };
        }
        let mut stream = pin!(stream);
        let made = tokio::select! {
            biased;
            made = quic.as_mut() => made,
            made = stream.as_mut() => {
                if !self.heard.get() {
                    if made.is_ok() {
                        udp.close(freerun_upstream::now());
                    }
                    return made;
                }
                match made {
                    Ok(made) => return Ok(made),
                    Err(_) => quic.as_mut().await,
                }
            }
        };
        match self.judge(made, udp) {
            Some(made) => made.map_err(failed),
            None => stream.await,
        }
    }

    /// The end of the try of QUIC, with what follows for the server. `None`: another kind of connection is to be made.
    fn judge(
        &self,
        made: Result<EstablishedQuic, QuicError>,
        udp: &UdpReachability,
    ) -> Option<Result<NewTransport, QuicError>> {
        match made {
            Ok(made) => {
                udp.open();
                Some(Ok(NewTransport::Quic(Box::new(made))))
            }
            Err(QuicError::Unavailable) => {
                udp.close(freerun_upstream::now());
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}
