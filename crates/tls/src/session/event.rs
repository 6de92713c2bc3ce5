//! What a session reports.

use super::{Failure, Version};
use crate::load::{KeyKind, SignatureAlgorithm};

/// What a step has done.
#[derive(Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many of the received bytes are used up. The others are given to the next step again, as they are now, with what
    /// has been received since behind them.
    pub consumed: usize,
    /// Why the step has ended.
    pub event: Event,
}

/// Why a step has ended. In each case what is in the output is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// All that was received is done with; there has to be more of it for another step.
    NeedsInput,
    /// The handshake is complete, or the client has sent early data, which may be answered before it is. This comes once.
    Established,
    /// So many bytes of plaintext were written. It is 0 if there is plaintext, but no room for it.
    Plaintext(usize),
    /// The peer has sent `close_notify`; no plaintext comes any more. Plaintext may still be sent.
    PeerClosed,
    /// The session is over; what is in the output (an alert, in most cases) is still to be sent.
    Failed(Failure),
}

/// What peers have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed<'a> {
    /// The protocol's version.
    pub version: Version,
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
    /// The session's id. In TLS 1.2 it is the one that the server has named. In TLS 1.3 each ticket has one, and this is the
    /// last ticket's: what stands in the ticket if the server keeps the session itself, otherwise the ticket's SHA-256, as
    /// OpenSSL's clients have it. A client does not know it.
    pub session_id: Option<&'a [u8]>,
    /// Whether the handshake is not complete yet. The plaintext so far is early data then, and somebody who has seen it on its
    /// way may send it to another server once more.
    pub early_data: bool,
}

/// What is kept of the certificate that a server has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The kind of its key, by which the server has signed.
    pub key: KeyKind,
    /// How it is signed itself.
    pub signature: SignatureAlgorithm,
}

impl Shown {
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

/// What a server's session began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A full handshake, under which the server has signed with a key of this kind.
    Signed(KeyKind),
    /// The ticket that the client has kept of an earlier session.
    Ticket,
    /// An earlier session that the server has kept itself.
    Store,
}

/// What was encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encrypted {
    /// How many bytes of the plaintext were encrypted.
    pub taken: usize,
    /// How many bytes were written for it.
    pub written: usize,
}
