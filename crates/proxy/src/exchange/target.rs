//! The target of a request: the value of a member's directive for it, and the servers that can be asked.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Field, LocalBoxFuture, Response};
use freerun_upstream::pool::{IdleCount, KeepAlive, Pool};
use freerun_upstream::{Lease, NoPeer, Peer, TriedServers};
use smallvec::SmallVec;

/// The target that a request is passed to: the value of `proxy_pass` for this request.
#[derive(Debug, Default)]
pub struct PassTarget {
    upstream: Option<Arc<UpstreamTarget>>,
    /// The URI that is asked for, in protocols with a request line; the log shows it after the address.
    pub uri: Uri,
}

/// The URI that is asked for. A short one, as most are, needs no memory of its own.
pub type Uri = SmallVec<[u8; 48]>;

/// The upstream group of a target: the same for all requests, if the directive has no variables.
#[derive(Debug, Default)]
pub struct UpstreamTarget {
    /// The scheme with its `://`, for the log: `http://`, `fastcgi://`.
    pub scheme: &'static str,
    /// Whether connections to the servers have TLS.
    pub is_secure: bool,
    /// The group's name, or the address as it was written: `$proxy_host`.
    pub host: Bytes,
    /// The port as written, or the protocol's default: `$proxy_port`.
    pub port: Bytes,
    /// The servers that can be asked; `None` in tests that do not need any.
    pub servers: Option<Arc<dyn Servers>>,
}

impl PassTarget {
    /// A target with this URI at these servers.
    pub fn new(upstream: Arc<UpstreamTarget>, uri: Uri) -> PassTarget {
        PassTarget { upstream: Some(upstream), uri }
    }

    /// The upstream group; one without servers for a default target.
    pub fn upstream(&self) -> &UpstreamTarget {
        static NOBODY: UpstreamTarget =
            UpstreamTarget { scheme: "", is_secure: false, host: Bytes::new(), port: Bytes::new(), servers: None };
        self.upstream.as_deref().unwrap_or(&NOBODY)
    }
}

impl Clone for PassTarget {
    fn clone(&self) -> PassTarget {
        // This copies the bytes in one go, where the array's own way is one by one.
        PassTarget { upstream: self.upstream.clone(), uri: Uri::from_slice(&self.uri) }
    }
}

impl fmt::Debug for dyn Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Servers({})", self.name())
    }
}

/// The result of finding a request's target, now or later: a name that variables have given has to be looked up. An
/// error is logged already, and is the answer: 500 for a text that names no server, for example.
pub enum TargetLookup<'r> {
    /// The target is known, or there is none.
    Now(Result<PassTarget, Outcome>),
    /// The name has to be looked up; dropping the future gives it up.
    Later(LocalBoxFuture<'r, Result<PassTarget, Outcome>>),
}

/// A group of servers as one configuration has it: `upstream name { … }`, or the group made by a `proxy_pass` to an
/// address.
pub trait Servers: Send + Sync {
    /// The group's name.
    fn name(&self) -> &str;

    /// Chooses a server that was not tried yet, by all the group's directives: `hash`, `sticky`, `queue`.
    fn pick<'a>(&'a self, request: &'a Request, tried: &'a mut TriedServers) -> Pick<'a>;

    /// Limits for the connections that are kept, and the count of these connections.
    fn keepalive(&self) -> (&KeepAlive, &Arc<IdleCount>);

    /// The client's own connections to `peer`, the chosen server, if the client's connection is tied to servers (`ntlm`).
    /// `None`: it is not tied.
    fn tied_pool(&self, _request: &Request, _peer: &Peer) -> Option<Rc<Pool>> {
        None
    }

    /// Reports a server's answer with this head, so that `sticky` learns from it, or sets its cookie in `response`,
    /// which the client is going to get.
    fn answered(&self, _request: &Request, _peer: &Peer, _head: &[Field], _response: &mut Response) {}
}

/// The result of choosing a server, now or later.
pub enum Pick<'a> {
    /// The choice is made, or cannot be.
    Now(Result<Lease, NoPeer>),
    /// The request waits for a server (`queue`); dropping the future gives it up.
    Later(LocalBoxFuture<'a, Result<Lease, NoPeer>>),
}
