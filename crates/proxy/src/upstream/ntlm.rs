//! `ntlm`: upstream connections that belong to one client connection.
//!
//! NTLM and Negotiate (RFC 4559) authenticate a connection, not a request: who has shown its credentials on it is known to the
//! server until the connection ends. From the first request with such credentials on, all requests of the client's connection
//! to the group are sent to one server over a connection that nobody else is given, and which is closed with the client's.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use freerun_http::request::Request;
use freerun_proto::HeaderId;
use freerun_upstream::GroupState;
use freerun_upstream::pool::Scope;
use freerun_upstream::{Group, Peer};

/// What the credentials begin with that are meant for a connection.
const SCHEMES: [&[u8]; 2] = [b"NTLM", b"Negotiate"];

/// The groups that a client's connection is tied to: kept with the connection.
#[derive(Default)]
struct Ties(RefCell<Vec<(Arc<GroupState>, Rc<Tie>)>>);

/// What ties a client's connection to a server of a group.
pub struct Tie {
    /// The client connection's number.
    client: u64,
    way: RefCell<Way>,
}

/// Where idle connections of the tie are.
#[derive(Default)]
struct Way {
    /// The server that was asked last.
    peer: Option<Arc<Peer>>,
    /// There is more than one if `bind` has changed meanwhile.
    scopes: Vec<Scope>,
}

impl Way {
    /// Closes them. They are as many as requests of the client's connection were on their way at a time.
    fn end(&mut self) {
        let Way { peer, scopes } = std::mem::take(self);
        if let Some(peer) = peer {
            for scope in scopes {
                peer.pool.close(scope);
            }
        }
    }
}

impl Tie {
    /// That of the request's connection to this group: the one there is, or a new one if the request shows credentials.
    pub(super) fn of(request: &Request, group: &Group) -> Option<Rc<Tie>> {
        let is_this = |(state, _): &&(Arc<GroupState>, Rc<Tie>)| Arc::ptr_eq(state, group.state());
        let connection = &request.client;
        let ties = connection.find_state::<Ties>();
        if let Some((_, tie)) = ties.as_ref().and_then(|ties| ties.0.borrow().iter().find(is_this).cloned()) {
            return Some(tie);
        }
        if !shows_credentials(request.head.value(HeaderId::Authorization)?) {
            return None;
        }
        let tie = Rc::new(Tie { client: connection.number, way: RefCell::default() });
        connection.state::<Ties>().0.borrow_mut().push((group.state().clone(), tie.clone()));
        Some(tie)
    }

    /// The number of the server that was asked last.
    pub(super) fn server(&self) -> Option<u32> {
        self.way.borrow().peer.as_ref().map(|peer| peer.id)
    }

    /// This server is asked.
    pub(super) fn chosen(&self, peer: &Arc<Peer>) {
        let mut way = self.way.borrow_mut();
        if way.peer.as_ref().is_none_or(|before| before.id != peer.id) {
            way.end();
            way.peer = Some(peer.clone());
        }
    }

    /// The scope of the tie's own connections, among those that `scope` would be for otherwise.
    pub fn scope(&self, scope: Scope) -> Scope {
        let own = Scope::of((self.client, scope));
        let mut way = self.way.borrow_mut();
        if !way.scopes.contains(&own) {
            way.scopes.push(own);
        }
        own
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        self.way.get_mut().end();
    }
}

fn shows_credentials(authorization: &[u8]) -> bool {
    SCHEMES
        .iter()
        .any(|scheme| authorization.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_connection() {
        for (value, want) in [
            ("NTLM TlRMTVNTUAAB", true),
            ("ntlm x", true),
            ("Negotiate YII=", true),
            ("Basic TlRMTQ==", false),
            ("NTL", false),
            ("", false),
        ] {
            assert_eq!(shows_credentials(value.as_bytes()), want, "{value}");
        }
    }
}
