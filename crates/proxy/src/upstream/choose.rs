//! The choice of a server for a request: what the directives look at is found in the request, and the group asked.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use freerun_http::request::response::{Field, Response};
use freerun_http::request::{Address, Request};
use freerun_upstream::Bound;
use freerun_upstream::Method;
use freerun_upstream::idle::{Count, KeepAlive, Scope};
use freerun_upstream::random::Random;
use freerun_upstream::{Lease, NoPeer, Peer, Query, Tried, now};

use crate::exchange::target::{Pick, Servers};
use crate::upstream::Upstream;
use crate::upstream::ntlm::Tie;

thread_local! {
    /// Each loop has its own random numbers.
    static RANDOM: RefCell<Random> = RefCell::new(Random::seeded(RandomState::new().hash_one(0)));
}

fn number() -> u64 {
    RANDOM.with_borrow_mut(Random::number)
}

impl Upstream {
    /// What the group's method looks at.
    fn key<'r>(&'r self, request: &'r Request) -> Cow<'r, [u8]> {
        match self.group.settings.method {
            Method::IpHash => match request.peer() {
                Address::Ip(address) => match address.ip() {
                    IpAddr::V4(ip) => ip.octets().to_vec().into(),
                    IpAddr::V6(ip) => ip.octets().to_vec().into(),
                },
                Address::Unix(_) => Cow::default(),
            },
            Method::Hash | Method::ConsistentHash => {
                self.choice.key.as_ref().map(|key| key.render(request)).unwrap_or_default()
            }
            _ => Cow::default(),
        }
    }
}

impl Upstream {
    /// What ties the client's connection to one of the servers (`ntlm`), if it is.
    fn tie(&self, request: &Request) -> Option<Rc<Tie>> {
        if self.choice.ntlm { Tie::of(request, &self.group) } else { None }
    }

    /// A number, where it plays a part.
    fn random(&self) -> u64 {
        match self.group.settings.method {
            Method::Random | Method::RandomTwo(_) => number(),
            _ => 0,
        }
    }
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

    fn pick<'a>(&'a self, request: &'a Request, tried: &'a mut Tried) -> Pick<'a> {
        let now_is = now();
        let key = self.key(request);
        let tie = self.tie(request);
        let server = tie.as_ref().and_then(|tie| tie.server()).map(Bound::Id);
        let ties = self.choice.sticky.as_ref().and_then(|sticky| sticky.ties(request, now_is));
        let sticky = server.or_else(|| ties.as_ref().map(|ties| ties.bound()));
        let query = Query { now: now_is, key: &key, sticky, random: self.random() };
        let waits = self.group.settings.queue.is_some();
        if !waits || self.group.waiting() == 0 {
            match self.group.pick(&query, tried) {
                Err(NoPeer::Wait) if waits => {}
                answer => return Pick::Now(tied(tie.as_deref(), answer)),
            }
        }
        Pick::Later(Box::pin(async move {
            let sticky = server.or_else(|| ties.as_ref().map(|ties| ties.bound()));
            let query = Query { now: now_is, key: &key, sticky, random: 0 };
            let answer = self.group.pick_or_wait(&query, &mut Random::seeded(number()), tried, now).await;
            tied(tie.as_deref(), answer)
        }))
    }

    fn keepalive(&self) -> (&KeepAlive, &Arc<Count>) {
        (&self.keepalive, &self.idle)
    }

    fn tied_scope(&self, request: &Request, scope: &dyn Fn() -> Scope) -> Option<Scope> {
        self.tie(request).map(|tie| tie.scope(scope()))
    }

    fn answered(&self, request: &Request, peer: &Peer, _head: &[Field], response: &mut Response) {
        if let Some(sticky) = &self.choice.sticky {
            sticky.answered(request, peer, response, now());
        }
    }
}
