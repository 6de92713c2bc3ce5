//! What can be wrong with what an upstream sent.

/// A violation of its protocol by an upstream, whichever protocol that is.
///
/// The texts are the words that nginx writes to its error log, without the `while reading …` and the request's context that
/// follow them there. The client gets 502 where nothing was sent to it yet, or a response that is cut.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// What comes is not a status line.
    #[error("upstream sent no valid HTTP/1.0 header")]
    NoHead,
    /// The head is longer than its buffer (`proxy_buffer_size`).
    #[error("upstream sent too big header")]
    TooBig,
    /// There are more fields than [`super::MAX_RESPONSE_FIELDS`].
    #[error("upstream sent too many header lines")]
    TooManyFields,
    /// A field line is none; the text ends with the byte that is wrong.
    #[error("upstream sent invalid header: \"{0}...\"")]
    Line(String),
    /// `Content-Length` is not a decimal number below 2^63.
    #[error("upstream sent invalid \"Content-Length\" header: \"{0}\"")]
    ContentLength(String),
    /// A field that decides about framing came twice: both lines.
    #[error("upstream sent duplicate header line: \"{line}\", previous value: \"{previous}\"")]
    Duplicate {
        /// The line that is too much.
        line: String,
        /// The one before it.
        previous: String,
    },
    /// Both `Content-Length` and `Transfer-Encoding`.
    #[error("upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time")]
    LengthAndEncoding,
    /// A transfer coding other than `chunked`.
    #[error("upstream sent unknown \"Transfer-Encoding\": \"{0}\"")]
    TransferEncoding(String),
    /// The `Status` of a CGI response is not a number of three digits from 200 on, nor 101.
    #[error("upstream sent invalid status \"{0}\"")]
    Status(String),
    /// More interim (1xx) responses than [`super::parser::MAX_INTERIM`] before the final one.
    #[error("upstream sent too many interim responses")]
    TooManyInterim,
    /// A chunked body with a bad size, line end, extension or trailer.
    #[error("upstream sent invalid chunked response")]
    Chunked,
    /// The connection was closed before the response was complete.
    #[error("upstream prematurely closed connection")]
    Closed,
    /// A FastCGI record of another protocol version than 1.
    #[error("upstream sent unsupported FastCGI protocol version: {0}")]
    FastCgiVersion(u8),
    /// A FastCGI record that a responder does not send.
    #[error("upstream sent invalid FastCGI record type: {0}")]
    FastCgiType(u8),
    /// A FastCGI record of another request than ours: its id.
    #[error("upstream sent unexpected FastCGI request id {}", id_byte(*.0))]
    FastCgiId(u16),
    /// The FastCGI request ended without a head.
    #[error("upstream sent unexpected FastCGI record: 3")]
    FastCgiNoHead,
    /// The output of the FastCGI application ended before its head, or its body, was complete.
    #[error("upstream prematurely closed FastCGI stdout")]
    FastCgiEnd,
    /// A memcached response that is none.
    #[error("memcached sent invalid response: \"{0}\"")]
    MemcachedResponse(String),
    /// A memcached value under another key than the one asked for.
    #[error("memcached sent invalid key in response \"{line}\" for key \"{key}\"")]
    MemcachedKey {
        /// The line.
        line: String,
        /// What was asked for.
        key: String,
    },
    /// A memcached value whose flags are no number.
    #[error("memcached sent invalid flags in response \"{line}\" for key \"{key}\"")]
    MemcachedFlags {
        /// The line.
        line: String,
        /// What was asked for.
        key: String,
    },
    /// A memcached value whose length is no number.
    #[error("memcached sent invalid length in response \"{line}\" for key \"{key}\"")]
    MemcachedLength {
        /// The line.
        line: String,
        /// What was asked for.
        key: String,
    },
    /// What follows a memcached value is not the end of the response.
    #[error("memcached sent invalid trailer")]
    MemcachedTrailer,
}

/// Which byte of an id is not as it was sent, in nginx's words.
fn id_byte(id: u16) -> String {
    let [high, low] = id.to_be_bytes();
    if high == 0 { format!("low byte: {low}") } else { format!("high byte: {high}") }
}

/// Bytes of what an upstream sent that a message repeats at most.
const MAX_SHOWN: usize = 512;

/// Bytes of an upstream as text for the log, bounded; what is not ASCII text is escaped.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_SHOWN)];
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' => text.push(byte as char),
            _ => {
                use std::fmt::Write;
                let _ = write!(text, "\\x{byte:02X}");
            }
        }
    }
    text
}
