//! The first message of a TLS connection, read without a TLS library: what a client offers (RFC 8446 section 4.1.2).
//!
//! A server has to know the name that the client asks for before it can choose certificates, and `ssl_preread` has to
//! know it without any certificate. [`HelloReader`] is given the bytes of the connection so far, and says when the
//! ClientHello is whole. It reads the record layer ([`records`], RFC 8446 section 5.1) and the message with its
//! extensions ([`hello`]). Extensions are in RFC 8446 section 4.2, RFC 6066 section 3, RFC 7301 section 3.1 and RFC
//! 8422 section 5.1. What is refused, and the alert for it ([`alert`], RFC 8446 section 6), is what nginx on OpenSSL 3
//! was seen to do. Whether the offers fit the server's settings is not judged here.
//!
//! [`names`] prints the offers as nginx's variables, [`fingerprint`] as JA3 and JA4, and [`preread`] is what
//! `ssl_preread` wants to know, which forgives more.

pub mod alert;
pub mod fingerprint;
pub mod hello;
mod lists;
pub mod names;
pub mod preread;
pub mod records;

#[cfg(test)]
mod tests;

pub use alert::{Alert, HelloError};
pub use fingerprint::Ja4;
pub use hello::{ClientHello, ExtensionType, located_extensions};
pub use lists::{AlpnProtocols, Extensions, KeyShareGroups, U16s, is_grease};
pub use preread::{Preread, PrereadReader};
pub use records::{MessageReader, RawMessage, is_whole_message, message_bytes, replace_in_messages};

/// Version 1.3 of TLS, as it stands in `supported_versions`.
pub const TLS_1_3: u16 = 0x0304;
/// Version 1.2 of TLS.
pub const TLS_1_2: u16 = 0x0303;

/// Whether a connection that begins with this byte speaks TLS: a handshake record, or the length of a hello of SSLv2,
/// whose high bit is set. On a listening socket with `ssl`, nginx takes everything else for plain HTTP (497).
pub const fn is_tls(first: u8) -> bool {
    first == records::HANDSHAKE || first & records::SSLV2_BIT != 0
}

/// Progress of a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelloProgress {
    /// More bytes are needed; there are fewer than [`records::MAX_INPUT`] so far.
    NeedMore,
    /// The message is whole.
    Hello(ReceivedHello),
}

/// A whole ClientHello, with where its message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedHello {
    /// The message.
    pub raw: RawMessage,
    /// The contents, as spans into the message.
    pub hello: ClientHello,
}

impl ReceivedHello {
    /// The bytes that the spans of [`ReceivedHello::hello`] are about; `input` is what [`HelloReader::advance`] was given.
    pub fn message<'m>(&'m self, input: &'m [u8]) -> &'m [u8] {
        self.raw.bytes(input)
    }

    /// Everything that was received, `input`, with the message in as few records as possible.
    pub fn reframed(&self, input: Vec<u8>) -> Vec<u8> {
        self.raw.reframed(input)
    }
}

/// Reads a ClientHello from the bytes of a connection.
///
/// Its answer does not depend on how the bytes were cut into pieces: each error is reported at the byte that makes it
/// certain. Bytes behind the message are not looked at.
#[derive(Debug, Default)]
pub struct HelloReader {
    records: MessageReader,
}

impl HelloReader {
    /// A reader for a connection that has sent nothing yet.
    pub fn new() -> HelloReader {
        HelloReader::default()
    }

    /// Reads on. `input` is everything since the first byte of the connection, so that it only grows between calls; what
    /// was read before is not read again.
    ///
    /// # Errors
    /// See [`HelloError`], which knows the alert to be sent. A reader that has failed is not asked again.
    pub fn advance(&mut self, input: &[u8]) -> Result<HelloProgress, HelloError> {
        let Some(raw) = self.records.advance(input)? else { return Ok(HelloProgress::NeedMore) };
        let hello = ClientHello::parse(raw.bytes(input))?;
        Ok(HelloProgress::Hello(ReceivedHello { raw, hello }))
    }
}
