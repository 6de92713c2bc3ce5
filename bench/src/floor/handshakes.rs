//! The floor of a handshake: as many bytes each way as TLS 1.3 has, a key agreement and a signature; then an answer,
//! and the end of the connection.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};

use super::poll::{self, PendingBytes, Poll, Slots};
use super::records::{self, Signer};

/// The bytes of a client's first message.
pub const HELLO: usize = 250;

/// The bytes of a client's last message of a handshake, with its request.
pub const REQUEST: usize = 150;

/// The bytes of the answer, with two tickets for later sessions.
const ANSWER: usize = 600;

/// The bytes that are signed: those before a hash of the messages, and the hash (RFC 8446, section 4.4.3).
const TRANSCRIPT: usize = 64 + 33 + 1 + 32;

/// The kind of the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloorKey {
    /// RSA with 2048 bits.
    Rsa,
    /// ECDSA on the curve P-256.
    Ecdsa,
}

impl FloorKey {
    /// The bytes of the messages with which the server answers the first one, with a certificate of this kind that
    /// signs itself.
    pub fn flight(self) -> usize {
        match self {
            FloorKey::Rsa => 1_450,
            FloorKey::Ecdsa => 850,
        }
    }

    /// A new key.
    pub fn signer(self) -> io::Result<Signer> {
        match self {
            FloorKey::Rsa => Signer::rsa(),
            FloorKey::Ecdsa => Signer::ecdsa(),
        }
    }
}

struct HandshakeState {
    stream: TcpStream,
    received: usize,
}

/// Serves until an error of the listening socket.
pub fn serve(address: SocketAddr, key: FloorKey) -> io::Result<()> {
    let listener = poll::listen(address)?;
    let own = poll::number(&listener);
    let (mut poll, mut connections) = (Poll::new()?, Slots::new());
    let (signer, client) = (key.signer()?, records::client_key()?);
    let (flight, answer) = (vec![0; key.flight()], vec![0; ANSWER]);
    poll.watch(&listener)?;
    let mut buffer = [0; HELLO + REQUEST];
    loop {
        for index in 0..poll.wait()? {
            let (number, _) = poll.event(index);
            if number == own {
                if let Some(stream) = poll::accept(&listener)? {
                    poll.watch(&stream)?;
                    connections.put(poll::number(&stream), HandshakeState { stream, received: 0 });
                }
                continue;
            }
            let Some(connection) = connections.get(number) else { continue };
            let before = connection.received;
            match connection.stream.read(&mut buffer) {
                Err(error) if poll::would_wait(&error) => continue,
                Ok(count) if count > 0 => connection.received += count,
                _ => {
                    connections.take(number);
                    continue;
                }
            }
            if before < HELLO && connection.received >= HELLO {
                records::agree(&client)?;
                signer.sign(&[32; TRANSCRIPT])?;
                PendingBytes::default().send(&connection.stream, &flight)?;
            }
            if connection.received >= HELLO + REQUEST {
                // The socket of a new connection has room for it.
                PendingBytes::default().send(&connection.stream, &answer)?;
                connections.take(number);
            }
        }
    }
}
