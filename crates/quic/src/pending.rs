//! A connection whose client has sent its first datagram: its settings are not chosen yet.

use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{ConnectionError, DatagramEvent, Endpoint, EndpointConfig, Incoming, ServerConfig, Transmit};

use crate::connection::QuicConnection;
use crate::datagram::Datagram;
use crate::hello::{HelloCollector, HelloProgress};

/// Result of the first datagram of a client.
pub enum FirstDatagram {
    /// The client begins a connection.
    Pending(Box<PendingConnection>),
    /// The datagram is answered at once, by the bytes in the output: with the versions that are spoken, a reset or an error.
    Response(Transmit),
    /// Nothing comes of it.
    Nothing,
}

/// A connection that has not been accepted yet.
pub struct PendingConnection {
    endpoint: Endpoint,
    /// `None` after it was used, see [`PendingConnection::accept`].
    incoming: Option<Incoming>,
    hello: HelloCollector,
}

/// Failure of a connection's beginning.
pub struct AcceptFailure {
    /// The reason.
    pub cause: ConnectionError,
    /// The datagram that tells the client, whose bytes are in the output.
    pub response: Option<Transmit>,
}

impl PendingConnection {
    /// Begins with a datagram that belongs to no connection. `config` are the settings of its endpoint, and `server` has the
    /// keys of tokens. Answers are appended to `output`, which is empty.
    pub fn begin(
        config: Arc<EndpointConfig>,
        server: Arc<ServerConfig>,
        now: Instant,
        datagram: Datagram,
        output: &mut Vec<u8>,
    ) -> FirstDatagram {
        debug_assert!(output.is_empty(), "an answer is a datagram of its own");
        // The size of the packets that the way takes is found out: the sockets of QUIC leave them whole.
        let mut endpoint = Endpoint::new(config, Some(server), true, None);
        let first = datagram.bytes.clone();
        match datagram.give(&mut endpoint, now, output) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let destination = crate::packet::PacketHead::parse(&first, 0).map(|head| head.destination.to_vec());
                let collector = destination.and_then(|destination| HelloCollector::new(&destination));
                let Some(mut hello) = collector else {
                    endpoint.ignore(incoming);
                    return FirstDatagram::Nothing;
                };
                hello.read(&first);
                if !hello.has_read() {
                    // The first packet was damaged, or is none. A client sends it again.
                    endpoint.ignore(incoming);
                    return FirstDatagram::Nothing;
                }
                FirstDatagram::Pending(Box::new(PendingConnection { endpoint, incoming: Some(incoming), hello }))
            }
            Some(DatagramEvent::Response(transmit)) => FirstDatagram::Response(transmit),
            Some(DatagramEvent::ConnectionEvent(..)) | None => FirstDatagram::Nothing,
        }
    }

    /// Takes a further datagram of the client.
    pub fn receive(&mut self, now: Instant, datagram: Datagram, output: &mut Vec<u8>) {
        if self.hello.progress() == HelloProgress::NeedMore {
            self.hello.read(&datagram.bytes);
        }
        // The endpoint keeps it until the connection is accepted.
        let event = datagram.give(&mut self.endpoint, now, output);
        if let Some(DatagramEvent::NewConnection(other)) = event {
            self.endpoint.ignore(other);
        }
    }

    /// The progress of reading the ClientHello.
    pub fn progress(&self) -> HelloProgress {
        self.hello.progress()
    }

    /// The ClientHello, once it is whole.
    pub fn hello(&self) -> &[u8] {
        self.hello.message()
    }

    /// Whether the client has shown that it has the address that its datagram came from.
    pub fn is_validated(&self) -> bool {
        self.incoming.as_ref().is_some_and(Incoming::remote_address_validated)
    }

    /// Asks the client to show that it has its address, by a Retry packet (RFC 9000 section 8.1.2). `None` if it has.
    pub fn retry(mut self, output: &mut Vec<u8>) -> Option<Transmit> {
        let incoming = self.incoming.take()?;
        match self.endpoint.retry(incoming, output) {
            Ok(transmit) => Some(transmit),
            Err(error) => {
                self.endpoint.ignore(error.into_incoming());
                None
            }
        }
    }

    /// Forgets the connection, without a word to the client.
    pub fn ignore(mut self) {
        if let Some(incoming) = self.incoming.take() {
            self.endpoint.ignore(incoming);
        }
    }

    /// Refuses the connection (CONNECTION_REFUSED, RFC 9000 section 20.1).
    pub fn refuse(mut self, output: &mut Vec<u8>) -> Option<Transmit> {
        let incoming = self.incoming.take()?;
        Some(self.endpoint.refuse(incoming, output))
    }

    /// Begins the handshake with the settings that were chosen. The server's signature is made here, which may take long.
    ///
    /// # Errors
    /// The handshake has failed already.
    pub fn accept(
        mut self,
        now: Instant,
        settings: Arc<ServerConfig>,
        output: &mut Vec<u8>,
    ) -> Result<Box<QuicConnection>, Box<AcceptFailure>> {
        let Some(incoming) = self.incoming.take() else {
            debug_assert!(false, "a connection begins once");
            return Err(Box::new(AcceptFailure { cause: ConnectionError::LocallyClosed, response: None }));
        };
        match self.endpoint.accept(incoming, now, output, Some(settings)) {
            Ok((handle, connection)) => Ok(Box::new(QuicConnection::new(self.endpoint, handle, connection))),
            Err(error) => Err(Box::new(AcceptFailure { cause: error.cause, response: error.response })),
        }
    }
}
