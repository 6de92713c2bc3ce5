//! The choice of a server for a request: the server that its client is bound to comes first, then the group's method.

use std::rc::Rc;
use std::sync::Arc;

use freerun_http::request::Request;
use freerun_http::request::response::{Field, Response};
use freerun_upstream::pool::{IdleCount, KeepAlive, Pool};
use freerun_upstream::{ClientBinding, Lease, NoPeer, Peer, TriedServers, now};

use crate::exchange::target::{Pick, Servers};
use crate::upstream::Upstream;
use crate::upstream::ntlm::Tie;

/// The tie of the client's connection to one of the servers (`ntlm`), if there is one.
fn tie(upstream: &Upstream, request: &Request) -> Option<Rc<Tie>> {
    if upstream.extra.ntlm { Tie::of(request, &upstream.group) } else { None }
}

/// Remembers the server, if the client's connection is tied to it.
fn tied(tie: Option<&Tie>, picked: Result<Lease, NoPeer>) -> Result<Lease, NoPeer> {
    if let (Some(tie), Ok(lease)) = (tie, &picked) {
        tie.chosen(lease.peer());
    }
    picked
}

impl Servers for Upstream {
    fn name(&self) -> &str {
        &self.group.name
    }

    fn pick<'a>(&'a self, request: &'a Request, tried: &'a mut TriedServers) -> Pick<'a> {
        let asking = self.asking(request);
        let tie = tie(self, request);
        let server = tie.as_ref().and_then(|tie| tie.server()).map(ClientBinding::Id);
        let ties = self.extra.sticky.as_ref().and_then(|sticky| sticky.ties(request, asking.now));
        let bound = server.or_else(|| ties.as_ref().map(|ties| ties.bound()));
        if let Some(answer) = self.pick_now(&asking, bound, tried) {
            return Pick::Now(tied(tie.as_deref(), answer));
        }
        Pick::Later(Box::pin(async move {
            let bound = server.or_else(|| ties.as_ref().map(|ties| ties.bound()));
            let answer = self.pick_later(&asking, bound, tried).await;
            tied(tie.as_deref(), answer)
        }))
    }

    fn keepalive(&self) -> (&KeepAlive, &Arc<IdleCount>) {
        (&self.keepalive, &self.kept)
    }

    fn tied_pool(&self, request: &Request, peer: &Peer) -> Option<Rc<Pool>> {
        Some(tie(self, request)?.pool(peer))
    }

    fn answered(&self, request: &Request, peer: &Peer, _head: &[Field], response: &mut Response) {
        if let Some(sticky) = &self.extra.sticky {
            sticky.answered(request, peer, response, now());
        }
    }
}
