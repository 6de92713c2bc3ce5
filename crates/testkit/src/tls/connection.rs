//! A connection that an [`Upstream`](crate::TestUpstream) with TLS has accepted.

use super::{TlsServer, version_name};
use rustls::{HandshakeKind, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Facts about the server under test, which is the client here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// The name that it has asked for (SNI).
    pub name: Option<String>,
    /// The version, as `$ssl_protocol` has it.
    pub version: String,
    /// The certificates that it has shown, in DER.
    pub certificates: Vec<Vec<u8>>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The protocol of ALPN.
    pub alpn: Option<String>,
}

/// A session over a connection.
#[derive(Debug)]
pub(crate) struct TlsConnection {
    pub(crate) stream: StreamOwned<ServerConnection, TcpStream>,
}

impl TlsConnection {
    pub(crate) fn new(server: &TlsServer, stream: TcpStream) -> TlsConnection {
        let session = ServerConnection::new(server.config.clone()).expect("a usable configuration");
        TlsConnection { stream: StreamOwned::new(session, stream) }
    }

    /// Reads plaintext; 0 if the client has closed the session or the connection.
    pub(crate) fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Finishes the handshake.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        while self.stream.conn.is_handshaking() {
            self.stream.conn.complete_io(&mut self.stream.sock)?;
        }
        Ok(())
    }

    /// Sends `close_notify`.
    pub(crate) fn notify(&mut self) {
        self.stream.conn.send_close_notify();
        // A client that has gone misses it.
        let _ = self.stream.flush();
    }

    pub(crate) fn visitor(&self) -> Visitor {
        let session = &self.stream.conn;
        let certificates = session.peer_certificates().unwrap_or_default();
        Visitor {
            name: session.server_name().map(str::to_owned),
            version: version_name(session.protocol_version()).to_owned(),
            certificates: certificates.iter().map(|certificate| certificate.to_vec()).collect(),
            resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
            alpn: session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        }
    }
}
