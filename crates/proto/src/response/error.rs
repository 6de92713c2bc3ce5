//! Errors in the messages that an upstream sends.

/// A violation of its protocol by an upstream, whichever protocol that is.
///
/// The texts are the words that nginx writes to its error log, without the `while reading …` and the request's context
/// that follow them there. The client gets 502 if nothing was sent to it yet, or a response that is cut off.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The first line is not a status line.
    #[error("upstream sent no valid HTTP/1.0 header")]
    NoHead,
    /// The head is longer than its buffer (`proxy_buffer_size`).
    #[error("upstream sent too big header")]
    TooBig,
    /// There are more fields than [`super::MAX_RESPONSE_FIELDS`].
    #[error("upstream sent too many header lines")]
    TooManyFields,
    /// A line is not a field line; the text ends with the invalid byte.
    #[error("upstream sent invalid header: \"{0}...\"")]
    Line(String),
    /// `Content-Length` is not a decimal number below 2^63.
    #[error("upstream sent invalid \"Content-Length\" header: \"{0}\"")]
    ContentLength(String),
    /// A field that decides about framing came twice: these are both lines.
    #[error("upstream sent duplicate header line: \"{line}\", previous value: \"{previous}\"")]
    Duplicate {
        /// The second line.
        line: String,
        /// The first line.
        previous: String,
    },
    /// The head has both `Content-Length` and `Transfer-Encoding`.
    #[error("upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time")]
    LengthAndEncoding,
    /// The head has a transfer coding other than `chunked`.
    #[error("upstream sent unknown \"Transfer-Encoding\": \"{0}\"")]
    TransferEncoding(String),
    /// The `Status` of a CGI response is not a number of three digits from 200 on, nor 101.
    #[error("upstream sent invalid status \"{0}\"")]
    Status(String),
    /// A chunked body has a bad size, line end, extension or trailer.
    #[error("upstream sent invalid chunked response")]
    Chunked,
    /// The connection was closed before the response was complete.
    #[error("upstream prematurely closed connection")]
    Closed,
    /// A FastCGI record has another protocol version than 1.
    #[error("upstream sent unsupported FastCGI protocol version: {0}")]
    FastCgiVersion(u8),
    /// A FastCGI record has a type that a responder does not send.
    #[error("upstream sent invalid FastCGI record type: {0}")]
    FastCgiType(u8),
    /// A FastCGI record has the id of another request: this one.
    #[error("upstream sent unexpected FastCGI request id {}", id_byte(*.0))]
    FastCgiId(u16),
    /// The FastCGI request ended without a head.
    #[error("upstream sent unexpected FastCGI record: 3")]
    FastCgiNoHead,
    /// The output of the FastCGI application ended before its head, or its body, was complete.
    #[error("upstream prematurely closed FastCGI stdout")]
    FastCgiEnd,
    /// The first line is not one of memcached's protocol.
    #[error("memcached sent invalid response: \"{0}\"")]
    MemcachedResponse(String),
    /// A memcached value has another key than the requested one.
    #[error("memcached sent invalid key in response \"{line}\" for key \"{key}\"")]
    MemcachedKey {
        /// The line.
        line: String,
        /// The requested key.
        key: String,
    },
    /// The flags of a memcached value are not a number.
    #[error("memcached sent invalid flags in response \"{line}\" for key \"{key}\"")]
    MemcachedFlags {
        /// The line.
        line: String,
        /// The requested key.
        key: String,
    },
    /// The length of a memcached value is not a number.
    #[error("memcached sent invalid length in response \"{line}\" for key \"{key}\"")]
    MemcachedLength {
        /// The line.
        line: String,
        /// The requested key.
        key: String,
    },
    /// The bytes behind a memcached value are not the end of the response.
    #[error("memcached sent invalid trailer")]
    MemcachedTrailer,
}

/// The byte of an id that differs from the id that was sent, in nginx's words.
fn id_byte(id: u16) -> String {
    let [high, low] = id.to_be_bytes();
    if high == 0 { format!("low byte: {low}") } else { format!("high byte: {high}") }
}

/// The most bytes of an upstream's message that an error repeats.
const MAX_SHOWN: usize = 512;

/// Bytes of an upstream as text for the log, bounded; bytes that are not ASCII text are escaped.
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
