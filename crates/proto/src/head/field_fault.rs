//! Faults that make a request of HTTP/2 or HTTP/3 malformed.

use std::fmt;

use super::pseudo::Pseudo;
use crate::{HeaderId, Status};

/// The most bytes of a client's text that an error keeps for the log.
const MOST_SHOWN: usize = 256;

/// A part of what a client has sent, for the log: the first 256 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogExcerpt(Box<[u8]>);

impl From<&[u8]> for LogExcerpt {
    fn from(text: &[u8]) -> LogExcerpt {
        LogExcerpt(text[..text.len().min(MOST_SHOWN)].into())
    }
}

impl fmt::Display for LogExcerpt {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&String::from_utf8_lossy(&self.0), to)
    }
}

/// The first thing that is wrong with a request of HTTP/2 or HTTP/3 (RFC 9113 section 8.1.1): it is answered with 400.
///
/// The texts are the words that nginx writes to its error log (level `info`), without ` while reading client request
/// headers` behind them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldFault {
    /// A name is empty, or has an upper-case letter, a colon, a space or a control character (RFC 9113 section 8.2.1).
    #[error("client sent invalid header name: \"{0}\"")]
    Name(LogExcerpt),
    /// A value has a NUL or the end of a line.
    #[error("client sent header \"{name}\" with invalid value: \"{value}\"")]
    Value {
        /// The name.
        name: LogExcerpt,
        /// The value.
        value: LogExcerpt,
    },
    /// A value begins or ends with a space or a tab (RFC 9113 section 8.2.1).
    #[error("client sent header \"{name}\" with white space around its value: \"{value}\"")]
    SpaceAround {
        /// The name.
        name: LogExcerpt,
        /// The value.
        value: LogExcerpt,
    },
    /// A field that may occur once occurs again.
    #[error("client sent duplicate header line: \"{name}: {value}\", previous value: \"{name}: {previous}\"")]
    Duplicate {
        /// The name.
        name: LogExcerpt,
        /// The value of the field that is one too many.
        value: LogExcerpt,
        /// The value of the first field.
        previous: LogExcerpt,
    },
    /// There are more fields than `max_headers`.
    #[error("client sent too many header lines")]
    TooManyHeaders,
    /// A field that says something of a connection (RFC 9113 section 8.2.2).
    #[error("client sent \"{}\" header", .0.name())]
    OfConnection(HeaderId),
    /// A `TE` that is not `trailers` (RFC 9113 section 8.2.2).
    #[error("client sent invalid \"TE\" header: \"{0}\"")]
    Te(LogExcerpt),
    /// A pseudo-header field that no request has.
    #[error("client sent unknown pseudo-header \"{0}\"")]
    UnknownPseudo(LogExcerpt),
    /// A pseudo-header field behind another field.
    #[error("client sent pseudo-header \"{}\" after a header", .0.name())]
    LatePseudo(Pseudo),
    /// A pseudo-header field for the second time.
    #[error("client sent duplicate {} header", .0.name())]
    DuplicatePseudo(Pseudo),
    /// A pseudo-header field is missing.
    #[error("client sent no {} header", .0.name())]
    NoPseudo(Pseudo),
    /// A pseudo-header field is empty.
    #[error("client sent empty {} header", .0.name())]
    EmptyPseudo(Pseudo),
    /// The method has other bytes than upper-case letters, `-` and `_`.
    #[error("client sent invalid method: \"{0}\"")]
    Method(LogExcerpt),
    /// Another pseudo-header field is not what it has to be.
    #[error("client sent invalid {} header: \"{value}\"", .which.name())]
    Pseudo {
        /// The field.
        which: Pseudo,
        /// Its value.
        value: LogExcerpt,
    },
    /// `:protocol` with another method than CONNECT (RFC 8441 section 4).
    #[error("client sent :protocol header without CONNECT method")]
    ProtocolWithoutConnect,
    /// `:authority` or `Host` is not a host.
    #[error("client sent invalid host header")]
    Host,
    /// There is neither `:authority` nor `Host`.
    #[error("client sent neither \":authority\" nor \"Host\" header")]
    NoHost,
    /// `:authority` and `Host` are not the same.
    #[error("client sent \":authority\" and \"Host\" headers with different values")]
    OtherHost,
    /// `Content-Length` is not a decimal number, or too large.
    #[error("client sent invalid \"Content-Length\" header")]
    ContentLength,
    /// The request ends before the body has come that `Content-Length` announces.
    #[error("client prematurely closed stream")]
    EndsEarly,
    /// The head is larger than it may be, or has no room in a buffer with offsets of 32 bits.
    #[error("client sent too large header")]
    TooLarge,
}

impl FieldFault {
    /// The status of the answer.
    pub const fn status(&self) -> Status {
        Status::BAD_REQUEST
    }

    /// Whether it shows only when all fields have been read: the request line is known then, and the host is too if there
    /// is one.
    pub const fn is_of_the_whole_head(&self) -> bool {
        matches!(self, FieldFault::NoHost | FieldFault::ContentLength | FieldFault::EndsEarly)
    }
}
