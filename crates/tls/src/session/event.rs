//! Reports of a session.

use super::{SessionFailure, TlsVersion};
use crate::load::{KeyKind, SignatureAlgorithm};

/// Result of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct StepProgress {
    /// The number of received bytes that are used up. The others are given to the next step again, as they are now,
    /// with what has been received since behind them.
    pub consumed: usize,
    /// The reason for which the step has ended.
    pub event: Event,
}

/// Reason for which a step has ended. In each case what is in the output is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// All that was received is done with; there has to be more of it for another step.
    NeedsInput,
    /// The handshake is complete, or the client has sent early data, which may be answered before it is. This comes once.
    Established,
    /// Number of bytes of plaintext that were written. It is 0 if there is plaintext, but no room for it.
    Plaintext(usize),
    /// The peer has sent `close_notify`; no plaintext comes any more. Plaintext may still be sent.
    PeerClosed,
    /// The session is over; what is in the output (an alert, in most cases) is still to be sent.
    Failed(SessionFailure),
}

/// Parameters that the peers have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionParameters<'a> {
    /// The protocol's version.
    pub version: TlsVersion,
    /// The cipher suite's name in OpenSSL.
    pub cipher: &'static str,
    /// The group's name in OpenSSL; empty if there was no key exchange.
    pub group: &'static str,
    /// The name that the client has asked for; a client does not keep it.
    pub server_name: Option<&'a str>,
    /// The protocol above TLS.
    pub alpn: Option<&'a [u8]>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The session's id. In TLS 1.2 the server has named it. In TLS 1.3 each ticket has one, and this is the last
    /// ticket's. If the server keeps the session itself, the id stands in the ticket; otherwise it is the ticket's
    /// SHA-256, as OpenSSL's clients have it. A client does not know it.
    pub session_id: Option<&'a [u8]>,
    /// Whether the handshake is not complete yet. The plaintext so far is early data then, and anybody on its way who
    /// records it may send it to another server once more.
    pub early_data: bool,
}

/// Facts about the certificate that a server has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The kind of its key, which the server has signed with.
    pub key: KeyKind,
    /// The algorithm that the certificate itself is signed with.
    pub signature: SignatureAlgorithm,
}

impl ShownCertificate {
    /// The algorithm of the key and its size, in the form that PROXY protocol headers have: `RSA2048`, `EC256`.
    pub fn key_name(&self) -> String {
        match self.key {
            KeyKind::Rsa(bits) => format!("RSA{bits}"),
            KeyKind::P256 => "EC256".to_owned(),
            KeyKind::P384 => "EC384".to_owned(),
            KeyKind::P521 => "EC521".to_owned(),
            KeyKind::Ed25519 => "ED25519".to_owned(),
            KeyKind::Other => String::new(),
        }
    }
}

/// Beginning of a server's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrigin {
    /// A full handshake, under which the server has signed with a key of this kind.
    Signed(KeyKind),
    /// The ticket that the client has kept of an earlier session.
    Ticket,
    /// An earlier session that the server has kept itself.
    Store,
}

/// Result of an encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptedCounts {
    /// The number of bytes of the plaintext that were encrypted.
    pub taken: usize,
    /// The number of bytes that were written for it.
    pub written: usize,
}
