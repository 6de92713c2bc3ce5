//! Decisions about the head of a response, made once for every protocol.

use freerun_proto::Version;
use freerun_proto::status;

use crate::message::persistence::{CloseReason, Persistence};
use crate::request::Request;
use crate::request::response::Response;

/// How the client learns where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body (HEAD, 204, 304).
    None,
    /// The length marks the end.
    Length,
    /// A last chunk marks the end (RFC 9112 section 7.1).
    Chunked,
    /// Closing the connection marks the end.
    Close,
    /// The protocol marks the end, as it frames its content (HTTP/2, HTTP/3).
    Stream,
}

/// The decisions about a response, before a protocol encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseDecision {
    /// How the client learns where the body ends.
    pub framing: Framing,
    /// Whether HTTP ends on the connection with this head (101, or a success of CONNECT).
    pub upgrades: bool,
    /// Whether the connection is kept for another request.
    pub persistence: Persistence,
}

impl ResponseDecision {
    /// Whether the body is sent in chunks of HTTP/1.
    #[inline]
    pub fn is_chunked(&self) -> bool {
        self.framing == Framing::Chunked
    }
}

/// Decides about a response; `upgrades` is whether it ends HTTP on the connection. The request notes the status that is
/// sent.
#[inline]
pub fn decide(request: &mut Request, response: &Response, upgrades: bool) -> ResponseDecision {
    request.sent.status = if response.special { status::sent_code(response.status) } else { response.status };
    if response.close {
        request.answered.persistence.close(CloseReason::Response);
    }
    // `return 199 text` is sent with its text, as in nginx.
    let bodiless = request.is_head() || matches!(response.status, 204 | 304) || upgrades;
    let multiplexed = request.client.is_multiplexed();
    let may_chunk = request.is_http11() && request.core().chunked_transfer_encoding && !multiplexed;
    let trailers = (may_chunk || multiplexed) && response.has_trailers();
    let framing = if bodiless {
        Framing::None
    } else if response.length().is_some() && !trailers {
        Framing::Length
    } else if multiplexed {
        Framing::Stream
    } else if may_chunk {
        Framing::Chunked
    } else {
        request.answered.persistence.close(CloseReason::EndsBody);
        Framing::Close
    };
    if request.head.version() == Version::Http09 {
        request.answered.persistence.close(CloseReason::Version09);
    }
    ResponseDecision { framing, upgrades, persistence: request.answered.persistence }
}
