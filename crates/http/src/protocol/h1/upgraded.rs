//! A connection that has left HTTP: what came after `101 Switching Protocols` (RFC 9110 section 7.8).
//!
//! Nothing of what serves requests is held meanwhile, but what the log wants to know at the end.

use std::rc::Rc;
use std::task::{Context, Poll};

use freerun_runtime::buffers;

use crate::connection::Connection;
use crate::finish;
use crate::protocol::h1::tunnel_request::TunnelRequest;
use crate::request::Request;

/// What goes on with a connection after the response that ended HTTP on it.
pub trait Takeover {
    /// Called before all else: what the client has sent behind its request already.
    fn begin(&mut self, rest: Vec<u8>);

    /// Goes on, between the client's connection and whatever else there is; ready when it is over.
    fn poll(&mut self, client: &Connection, context: &mut Context<'_>) -> Poll<()>;

    /// Called after all else, with the request that led to it, before the log has its line: what is to be known of the end.
    /// Returns how many bytes were sent to the client.
    fn end(&mut self, request: &Request) -> u64;
}

/// A takeover, and what is left of the request that led to it.
pub struct Upgraded {
    takeover: Box<dyn Takeover>,
    client: Rc<Connection>,
    /// `None` at the end.
    request: Option<TunnelRequest>,
}

impl Upgraded {
    /// Takes what is needed for the log out of the request, whose response has been sent.
    pub fn new(mut takeover: Box<dyn Takeover>, client: &Rc<Connection>, request: &mut Request) -> Upgraded {
        takeover.begin(request.head.buffer.get(request.body.used()..).unwrap_or_default().to_vec());
        let packed = TunnelRequest::of(request);
        buffers::give_back(std::mem::take(&mut request.head.buffer));
        Upgraded { takeover, client: client.clone(), request: Some(packed) }
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.takeover.poll(&self.client, context)
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        let Some(packed) = self.request.take() else { return };
        let mut request = packed.unpack(&self.client);
        let sent = self.takeover.end(&request);
        request.sent.bytes += sent;
        request.sent.body_bytes += sent;
        finish::finish(&mut request);
    }
}
