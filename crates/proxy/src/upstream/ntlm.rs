//! `ntlm`: upstream connections that belong to one client connection.
//!
//! NTLM and Negotiate (RFC 4559) authenticate a connection, not a request: the server treats all requests on a
//! connection as the authenticated user's until it ends. From the first request with such credentials on, all requests
//! of the client's connection to the group are sent to one server. Their connection to it serves no other client, and
//! is closed with the client's.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use freerun_http::request::Request;
use freerun_proto::HeaderId;
use freerun_upstream::pool::Pool;
use freerun_upstream::{Group, GroupState, Peer};

/// The schemes of credentials that authenticate a connection.
const SCHEMES: [&[u8]; 2] = [b"NTLM", b"Negotiate"];

/// The groups that a client's connection is tied to, kept with the connection.
#[derive(Default)]
struct Ties(RefCell<Vec<(Arc<GroupState>, Rc<Tie>)>>);

/// The tie of a client's connection to a server of a group.
#[derive(Default)]
pub struct Tie(RefCell<Option<TiedServer>>);

/// The server that was asked last.
struct TiedServer {
    peer: Arc<Peer>,
    /// The client's own connections to the server, while they are idle. For each of the settings of TLS that its
    /// requests had, there are as many as requests were in flight at a time.
    pool: Rc<Pool>,
}

impl Tie {
    /// The tie of the request's connection to this group: the existing one, or a new one if the request shows
    /// credentials.
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
        let tie = Rc::new(Tie::default());
        connection.state::<Ties>().0.borrow_mut().push((group.state().clone(), tie.clone()));
        Some(tie)
    }

    /// The number of the server that was asked last.
    pub(super) fn server(&self) -> Option<u32> {
        self.0.borrow().as_ref().map(|tied| tied.peer.id)
    }

    /// Ties the connection to this server. Connections to another server are closed.
    pub(super) fn chosen(&self, peer: &Arc<Peer>) {
        let mut tied = self.0.borrow_mut();
        if tied.as_ref().is_none_or(|before| before.peer.id != peer.id) {
            *tied = Some(TiedServer { peer: peer.clone(), pool: Rc::new(peer.pool.branch()) });
        }
    }

    /// The client's own connections to this server, which was chosen for one of its requests. If another of its requests
    /// has tied the connection to another server since, the request has a pool for itself, because no other client may
    /// use its connection either.
    pub(super) fn pool(&self, peer: &Peer) -> Rc<Pool> {
        match &*self.0.borrow() {
            Some(tied) if tied.peer.id == peer.id => tied.pool.clone(),
            _ => Rc::new(peer.pool.branch()),
        }
    }
}

fn shows_credentials(authorization: &[u8]) -> bool {
    SCHEMES
        .iter()
        .any(|scheme| authorization.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use freerun_upstream::{GroupSettings, PeerSpec, UpstreamAddress};

    use super::*;

    /// Requests of one connection that are in flight at a time may be answered by different servers.
    #[test]
    fn a_server_gets_the_connections_that_lead_to_it_and_no_others() {
        let spec = |port| PeerSpec {
            address: UpstreamAddress::Ip(([127, 0, 0, 1], port).into()),
            server: "s".into(),
            settings: Default::default(),
        };
        let group = Group::new("g", GroupSettings::default(), Arc::default(), vec![spec(1), spec(2)]);
        let peers: Vec<Arc<Peer>> = group.peers().peers().cloned().collect();
        let tie = Tie::default();
        tie.chosen(&peers[0]);
        let first = tie.pool(&peers[0]);
        tie.chosen(&peers[0]);
        assert!(Rc::ptr_eq(&first, &tie.pool(&peers[0])));
        tie.chosen(&peers[1]);
        let second = tie.pool(&peers[1]);
        let late = tie.pool(&peers[0]);
        assert!(!Rc::ptr_eq(&late, &second) && !Rc::ptr_eq(&late, &tie.pool(&peers[0])));
        assert!(Rc::ptr_eq(&second, &tie.pool(&peers[1])));
        assert_eq!(tie.server(), Some(peers[1].id));
    }

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
