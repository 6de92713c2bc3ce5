//! A connection that has left HTTP: what came after `101 Switching Protocols` (RFC 9110 section 7.8).
//!
//! Nothing of what serves requests is held meanwhile, but what the log wants to know at the end.

use std::task::{Context, Poll};

use crate::finish;
use crate::request::Request;

/// What goes on with a connection after the response that ended HTTP on it.
pub trait Takeover {
    /// Called before all else: what the client has sent behind its request already.
    fn begin(&mut self, rest: Vec<u8>);

    /// Goes on, between the connection of `request` and whatever else there is; ready when it is over.
    fn poll(&mut self, request: &Request, context: &mut Context<'_>) -> Poll<()>;

    /// Bytes that were sent to the client.
    fn sent(&self) -> u64;
}

/// A takeover, and the request that led to it.
pub struct Left {
    takeover: Box<dyn Takeover>,
    request: Box<Request>,
}

impl Left {
    /// Takes what is needed for the log out of the request, whose response has been sent.
    pub fn new(mut takeover: Box<dyn Takeover>, request: &mut Request) -> Left {
        let used = request.body.used().min(request.head.buffer.len());
        takeover.begin(request.head.buffer[used..].to_vec());
        Left { takeover, request: request.leave() }
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.takeover.poll(&self.request, context)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let sent = self.takeover.sent();
        self.request.sent.bytes += sent;
        self.request.sent.body_bytes += sent;
        finish::finish(&mut self.request);
    }
}
