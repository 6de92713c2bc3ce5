//! Decisions about the head of a response, made once for every protocol.

use freerun_proto::h1::{ResponseFacts, ResponseFraming};

use crate::request::Request;
use crate::request::response::Response;

/// The decisions about a response, before a protocol encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseDecision {
    /// The mark of the end of the body.
    pub framing: ResponseFraming,
    /// Whether HTTP ends on the connection with this head (101, or a success of CONNECT).
    pub upgrades: bool,
}

impl ResponseDecision {
    /// Whether the body is sent in chunks of HTTP/1.
    #[inline]
    pub fn is_chunked(&self) -> bool {
        self.framing == ResponseFraming::Chunked
    }
}

/// Decides about a response; `upgrades` is whether it ends HTTP on the connection. The request notes the status that is
/// sent.
#[inline]
pub fn decide(request: &mut Request, response: &Response, upgrades: bool) -> ResponseDecision {
    request.sent.status = Some(response.sent_status());
    let facts = ResponseFacts {
        version: request.head.version(),
        status: response.status.code(),
        is_head: request.is_head(),
        upgrades,
        has_length: response.length().is_some(),
        has_trailers: response.has_trailers(),
        may_chunk: request.core().chunked_transfer_encoding,
        closes: response.close,
    };
    let persistence = &mut request.answered.persistence;
    let is_stream = request.client.is_multiplexed();
    let framing = if is_stream { facts.frame_on_stream(persistence) } else { facts.frame(persistence) };
    ResponseDecision { framing, upgrades }
}
