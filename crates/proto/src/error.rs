//! Errors in the messages that a client sends.

use crate::{Span, Status};

/// A violation of the protocol by the peer.
///
/// The texts are the words nginx writes to its error log (level `info`), without the request's context that follows
/// them there. [`RequestError::status`] gives the status nginx answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The method has other bytes than upper-case letters, `-` and `_`.
    #[error("client sent invalid method while reading client request line")]
    Method,
    /// The request line is malformed.
    #[error("client sent invalid request while reading client request line")]
    RequestLine,
    /// The protocol version is not of the form `HTTP/digits.digits`, or has major version 0.
    #[error("client sent invalid version while reading client request line")]
    Version,
    /// The protocol's major version is 2 or more.
    #[error("client sent invalid version while reading client request line")]
    VersionNotSupported,
    /// An HTTP/0.9 request with another method than GET.
    #[error("client sent invalid method in HTTP/0.9 request while reading client request line")]
    SimpleMethod,
    /// The host of an absolute request target is not a host.
    #[error("client sent invalid host in request line")]
    TargetHost,
    /// The request line does not fit one large buffer.
    #[error("client sent too long URI while reading client request line")]
    UriTooLong,
    /// A header field does not fit one large buffer, or the head does not fit all of them.
    #[error("client sent too long header line")]
    HeaderTooLarge(Span),
    /// There are more fields than `max_headers`.
    #[error("client sent too many header lines")]
    TooManyHeaders,
    /// A header line is not `name: value`, has a control character, or a bad name that may not be ignored.
    #[error("client sent invalid header line")]
    HeaderLine(Span),
    /// A field that may occur once occurs again.
    #[error("client sent duplicate header line")]
    DuplicateHeader(Span),
    /// The `Host` field is not a host.
    #[error("client sent invalid host header")]
    HostHeader,
    /// An HTTP/1.1 request has no host.
    #[error("client sent HTTP/1.1 request without \"Host\" header")]
    HostMissing,
    /// `Content-Length` is not a decimal number, or too large.
    #[error("client sent invalid \"Content-Length\" header")]
    ContentLength,
    /// The head has both `Content-Length` and `Transfer-Encoding`.
    #[error("client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time")]
    LengthAndEncoding,
    /// The head of a request before HTTP/1.1 has `Transfer-Encoding`.
    #[error("client sent HTTP/1.0 request with \"Transfer-Encoding\" header")]
    EncodingInOldVersion,
    /// The head has a transfer coding other than `chunked`.
    #[error("client sent unknown \"Transfer-Encoding\"")]
    TransferEncoding,
    /// A chunked body has a bad size, line end, extension or trailer.
    #[error("client sent invalid chunked body")]
    Chunked,
    /// The request target cannot be turned into a path: bad escapes, a NUL, or a `..` above the root.
    #[error("client sent invalid request while reading client request line")]
    Uri,
}

impl RequestError {
    /// The status of the answer: 494 is nginx's own code for a head that is too large, sent to the client as 400.
    pub const fn status(self) -> Status {
        match self {
            RequestError::VersionNotSupported => Status::VERSION_NOT_SUPPORTED,
            RequestError::UriTooLong => Status::URI_TOO_LONG,
            RequestError::HeaderTooLarge(_) => Status::HEAD_TOO_LARGE,
            RequestError::TransferEncoding => Status::NOT_IMPLEMENTED,
            _ => Status::BAD_REQUEST,
        }
    }

    /// Whether the error shows only when all fields have been read.
    pub const fn is_of_the_whole_head(self) -> bool {
        matches!(
            self,
            RequestError::HostMissing
                | RequestError::ContentLength
                | RequestError::LengthAndEncoding
                | RequestError::EncodingInOldVersion
                | RequestError::TransferEncoding
        )
    }

    /// The line of the head that the error is about, if it is about one.
    pub const fn span(self) -> Option<Span> {
        match self {
            RequestError::HeaderTooLarge(s) | RequestError::HeaderLine(s) | RequestError::DuplicateHeader(s) => Some(s),
            _ => None,
        }
    }
}
