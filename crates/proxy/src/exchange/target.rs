//! Where a request goes: what the directive of a member says for it, and the servers that can be asked.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Field, LocalBoxFuture, Response};
use freerun_upstream::pool::{Count, KeepAlive, Pool};
use freerun_upstream::{Lease, NoPeer, Peer, Tried};
use smallvec::SmallVec;

/// What a request is passed to: the value of `proxy_pass` for this request.
#[derive(Debug, Default)]
pub struct Target {
    whom: Option<Arc<UpstreamTarget>>,
    /// What is asked for, for protocols with a request line; the log shows it behind the address.
    pub uri: Uri,
}

/// What is asked for: without memory of its own where it is as short as most.
pub type Uri = SmallVec<[u8; 48]>;

/// Who is asked: the same for all requests, where the directive has no variables.
#[derive(Debug, Default)]
pub struct UpstreamTarget {
    /// With its `://`, for the log: `http://`, `fastcgi://`.
    pub scheme: &'static str,
    /// The group's name, or the address as it was written: `$proxy_host`.
    pub host: Bytes,
    /// The port as written or the protocol's own: `$proxy_port`.
    pub port: Bytes,
    /// The servers that can be asked; `None` in tests of what does not need any.
    pub servers: Option<Arc<dyn Servers>>,
}

impl Target {
    /// This is asked for, of these servers.
    pub fn new(whom: Arc<UpstreamTarget>, uri: Uri) -> Target {
        Target { whom: Some(whom), uri }
    }

    /// Who is asked: nobody, of a target that is none.
    pub fn whom(&self) -> &UpstreamTarget {
        static NOBODY: UpstreamTarget =
            UpstreamTarget { scheme: "", host: Bytes::new(), port: Bytes::new(), servers: None };
        self.whom.as_deref().unwrap_or(&NOBODY)
    }
}

impl Clone for Target {
    fn clone(&self) -> Target {
        // A copy of the bytes in one go, where the array's own way is one by one.
        Target { whom: self.whom.clone(), uri: Uri::from_slice(&self.uri) }
    }
}

impl fmt::Debug for dyn Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Servers({})", self.name())
    }
}

/// What a request is passed to, at once or later: a name that variables have given has to be looked up. An error is logged
/// already, and is the answer: 500 for a text that names no server, for example.
pub enum TargetLookup<'r> {
    /// It is known, or there is none.
    Now(Result<Target, Outcome>),
    /// It has to be looked up; giving up waiting is dropping it.
    Later(LocalBoxFuture<'r, Result<Target, Outcome>>),
}

/// A group of servers as one configuration has it: `upstream name { … }`, or what a `proxy_pass` to an address makes.
pub trait Servers: Send + Sync {
    /// The group's name.
    fn name(&self) -> &str;

    /// Chooses a server that was not tried yet, by all that the group's directives look at: `hash`, `sticky`, `queue`.
    fn pick<'a>(&'a self, request: &'a Request, tried: &'a mut Tried) -> Pick<'a>;

    /// How idle connections are kept, and the count that this is held against.
    fn keepalive(&self) -> (&KeepAlive, &Arc<Count>);

    /// The client's own connections to the server that was chosen, where its connection is tied to that (`ntlm`). `None`: it is
    /// not tied.
    fn tied_pool(&self, _request: &Request) -> Option<Rc<Pool>> {
        None
    }

    /// A server has answered with this head; `response` is what the client is going to get: `sticky` learns, and sets its
    /// cookie.
    fn answered(&self, _request: &Request, _peer: &Peer, _head: &[Field], _response: &mut Response) {}
}

/// A choice, at once or later.
pub enum Pick<'a> {
    /// It is made, or cannot be.
    Now(Result<Lease, NoPeer>),
    /// The request waits for a server (`queue`); giving up waiting is dropping it.
    Later(LocalBoxFuture<'a, Result<Lease, NoPeer>>),
}
