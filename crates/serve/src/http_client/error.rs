//! Reasons for which there is no response.

use std::io;

use freerun_proto::response::ReplyError;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::connect::ConnectError;

use crate::tls::handshake::outgoing_session::OutgoingError;

/// Reason for which there is no response, or no complete one.
#[derive(Debug, thiserror::Error)]
pub enum HttpClientError {
    /// There is no address to connect to.
    #[error("the host has no address")]
    NoAddress,
    /// No connection could be made to the last address.
    #[error("connecting to {0}: {error}", error = .1.io())]
    Connect(UpstreamAddress, ConnectError),
    /// The last address has not accepted a connection in time.
    #[error("connecting to {0}: no answer in time")]
    ConnectTimedOut(UpstreamAddress),
    /// There is no session of TLS, or the server's certificate is not trusted.
    #[error("TLS: {0}")]
    Tls(OutgoingError),
    /// The connection broke in this system call.
    #[error("{0} failed: {1}")]
    Broken(&'static str, io::Error),
    /// The exchange took too long.
    #[error("no response in time")]
    TimedOut,
    /// The server closed the connection before its response was complete.
    #[error("the connection was closed before the response was complete")]
    Closed,
    /// The head is none of HTTP/1, or it is too long.
    #[error("{0}")]
    Head(ReplyError),
    /// The chunked coding of the body is violated.
    #[error("the chunked coding of the response is invalid")]
    Chunked,
    /// The body is longer than the limit.
    #[error("the body of the response: length limit exceeded")]
    TooLarge,
    /// The loop that was to send the request has ended.
    #[error("the server is shutting down")]
    NoLoop,
}
