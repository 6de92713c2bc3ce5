//! A single request over its own connection.

use std::io::{self, IoSlice};
use std::time::Duration;

use freerun_runtime::files::SocketPaths;
use freerun_runtime::loops;
use freerun_runtime::timer::{self, Timer};
use freerun_transport::Transport;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::connect::{ConnectOptions, connect};

use super::error::HttpClientError;
use super::request::OutgoingRequest;
use super::response::OutgoingResponse;
use crate::tls::handshake::HandshakeHelpers;
use crate::tls::handshake::outgoing_session::OutgoingTls;

/// Bounds of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferLimits {
    /// The longest time from the first connection attempt to the last byte of the response.
    pub total: Duration,
    /// The longest time for one address to accept a connection.
    pub connect: Duration,
    /// The largest head of the response in bytes.
    pub head: usize,
    /// The largest body of the response in bytes.
    pub body: usize,
}

/// TLS with the server that a request goes to.
#[derive(Clone, Copy)]
pub struct ExchangeTls<'c> {
    /// The settings of the session, and the rules for the server's certificate.
    pub tls: &'c OutgoingTls,
    /// The pool where the certificate is verified, and the figures.
    pub helpers: HandshakeHelpers<'c>,
}

/// The client, as one request needs it. It runs on a loop.
#[derive(Clone, Copy)]
pub struct HttpClient<'c> {
    /// The bounds.
    pub limits: TransferLimits,
    /// TLS with the server, if it has TLS.
    pub tls: Option<ExchangeTls<'c>>,
    /// Lookup of the paths of Unix sockets.
    pub paths: SocketPaths<'c>,
}

impl HttpClient<'_> {
    /// Sends a request over a connection to the first of these addresses that accepts one, and waits for the head of the
    /// response.
    ///
    /// # Errors
    /// [`HttpClientError`].
    pub async fn send(
        &self,
        addresses: &[UpstreamAddress],
        request: &OutgoingRequest,
    ) -> Result<OutgoingResponse, HttpClientError> {
        let TransferLimits { total, head, body, .. } = self.limits;
        let deadline = loops::now() + total;
        let exchange = async {
            let transport = self.open(addresses).await?;
            write(&transport, &request.bytes()).await?;
            OutgoingResponse::begin(transport, request.kind(), deadline, (head, body)).await
        };
        timer::timeout(total, exchange).await.unwrap_or(Err(HttpClientError::TimedOut))
    }

    /// Opens a connection to the first of these addresses that accepts one, with TLS if there is TLS: for protocols other than
    /// HTTP/1.
    ///
    /// # Errors
    /// [`HttpClientError`].
    pub async fn open(&self, addresses: &[UpstreamAddress]) -> Result<Transport, HttpClientError> {
        let deadline = loops::now() + self.limits.total;
        let mut transport = self.connect(addresses).await?;
        if let Some(ExchangeTls { tls, helpers }) = self.tls {
            transport = transport.into_tls();
            let left = deadline.saturating_duration_since(loops::now());
            let opened = tls.open(&transport, &mut Timer::default(), left, helpers).await;
            opened.map_err(HttpClientError::Tls)?;
        }
        Ok(transport)
    }

    /// Connects to the first address that accepts a connection; otherwise the last error is returned.
    async fn connect(&self, addresses: &[UpstreamAddress]) -> Result<Transport, HttpClientError> {
        let mut last = HttpClientError::NoAddress;
        let options = ConnectOptions::default();
        for address in addresses {
            let connecting = connect(address, &options, self.paths);
            last = match timer::timeout(self.limits.connect, connecting).await {
                Ok(Ok(transport)) => return Ok(transport),
                Ok(Err(error)) => HttpClientError::Connect(address.clone(), error),
                Err(_) => HttpClientError::ConnectTimedOut(address.clone()),
            };
        }
        Err(last)
    }
}

/// Sends all of these bytes.
async fn write(transport: &Transport, mut rest: &[u8]) -> Result<(), HttpClientError> {
    let broken = |error| HttpClientError::Broken("send()", error);
    while !rest.is_empty() {
        match transport.try_write(&[IoSlice::new(rest)], false) {
            Ok(sent) => rest = &rest[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                transport.writable_after_full().await.map_err(broken)?;
            }
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(())
}
