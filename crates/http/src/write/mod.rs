//! Writing a response: its head, then its body, by the cheapest way that cannot wait.

pub mod beside;
pub mod body;
pub mod file;
pub mod gone;
pub mod head;
pub mod pace;
pub mod writer;

use std::io;

use crate::content::response::{Body, Response};
use crate::request::Request;

/// Why a response was not written whole. The connection is closed then: a response is cut short, never padded or
/// ended as if it were complete.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The client went away, or its connection broke.
    #[error("{0}")]
    Client(#[from] io::Error),
    /// The client took nothing for `send_timeout`.
    #[error("client timed out")]
    TimedOut,
    /// The body could not be made or read; it is logged already.
    #[error("the body could not be completed")]
    Body,
}

/// Writes a response; one that ends HTTP on the connection (101), if `upgrades`. What was sent is noted in the request, whatever happens.
///
/// # Errors
/// The response is not complete, and the connection is of no further use.
pub async fn write(request: &mut Request, mut response: Box<Response>, upgrades: bool) -> Result<(), WriteError> {
    let mut out = freerun_runtime::buffers::take_to_send();
    let (framing, fields) = head::serialise(request, &response, upgrades, &mut out);
    if request.generation.keeps_sent_head {
        request.sent_head.clear();
        request.sent_head.extend_from_slice(&out[fields..]);
        request.sent_location = None;
    }
    request.connection.responding.set(true);
    let body = std::mem::replace(&mut response.body, Body::Empty);
    let (trailers, late_trailers) = (std::mem::take(&mut response.trailers), response.late_trailers);
    // What the head was made of keeps the buffer that it came in from another server: not for as long as the body takes.
    drop(response);
    let result = body::write(request, &mut out, body, framing, trailers, late_trailers).await;
    freerun_runtime::buffers::give_back_sent(out);
    if result.is_err() && framing == head::Framing::Close {
        request.connection.transport.reset_on_close();
    }
    request.sent.complete = result.is_ok();
    result
}
