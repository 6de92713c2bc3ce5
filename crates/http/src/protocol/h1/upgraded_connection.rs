//! A connection that has left HTTP: the protocol after `101 Switching Protocols` (RFC 9110 section 7.8).
//!
//! It holds nothing of the state that serves requests, except the data that the log needs at the end.

use std::rc::Rc;
use std::task::{Context, Poll};

use freerun_runtime::{buffers, loops};

use crate::connection::takeover::Takeover;
use crate::connection::tunnel_end::TunnelEnd;
use crate::finish;
use crate::protocol::h1::tunnel_request::TunnelRequest;
use crate::request::ClientConnection;
use crate::request::Request;

/// A takeover, and the kept part of the request that led to it.
pub struct UpgradedConnection {
    takeover: Box<dyn Takeover<Request>>,
    client: Rc<ClientConnection>,
    /// `None` at the end.
    request: Option<TunnelRequest>,
}

impl UpgradedConnection {
    /// Takes the data for the log out of the request, whose response has been sent.
    pub fn new(
        mut takeover: Box<dyn Takeover<Request>>,
        client: &Rc<ClientConnection>,
        request: &mut Request,
    ) -> UpgradedConnection {
        takeover.begin(request.body.unused(&request.head.buffer).to_vec());
        let packed = TunnelRequest::of(request);
        buffers::give_back(std::mem::take(&mut request.head.buffer));
        UpgradedConnection { takeover, client: client.clone(), request: Some(packed) }
    }

    /// The number of the generation that the request has begun with.
    pub fn generation(&self) -> Option<u64> {
        self.request.as_ref().map(TunnelRequest::generation)
    }

    /// Polls the takeover; ready when it is over and the connection is to be closed.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loops::note(self.client.number, "tunnelling");
        let transport = &self.client.transport;
        self.takeover.poll(TunnelEnd::Transport(transport), context).map(|is_in_order| {
            if !is_in_order {
                transport.cut_on_close();
            }
        })
    }
}

impl Drop for UpgradedConnection {
    fn drop(&mut self) {
        let Some(packed) = self.request.take() else { return };
        let mut request = packed.unpack(&self.client);
        let sent = self.takeover.end(&request);
        request.sent.bytes += sent;
        request.sent.body_bytes += sent;
        finish::finish(&mut request);
    }
}
