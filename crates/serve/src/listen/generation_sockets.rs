//! The listening sockets of a generation, each with what a service has at the addresses that it receives connections of.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use super::ListenSpec;
use super::addresses::{ListenAddress, sockets};
use super::setting::ListenProtocols;
use crate::listen::address;

/// A listening socket with what a service has at its addresses, such as virtual servers.
#[derive(Debug)]
pub struct Listen<V> {
    /// The specification of the socket.
    pub spec: Arc<ListenSpec>,
    /// The servers at the address itself.
    pub servers: Arc<V>,
    /// The servers at more specific addresses with the same port, which share a wildcard's socket.
    pub specific: HashMap<IpAddr, Arc<V>>,
    /// Whether connections to any of its addresses may begin with a TLS handshake, or have TLS in any case (QUIC).
    pub tls: bool,
}

impl<V> Listen<V> {
    /// The servers at all of the socket's addresses.
    pub fn all(&self) -> impl Iterator<Item = &Arc<V>> {
        [&self.servers].into_iter().chain(self.specific.values())
    }

    /// The servers for a connection to this local address.
    pub fn servers_for(&self, local: &address::Address) -> &Arc<V> {
        match local {
            address::Address::Ip(address) if !self.specific.is_empty() => {
                self.specific.get(&address.ip().to_canonical()).unwrap_or(&self.servers)
            }
            _ => &self.servers,
        }
    }
}

/// The most sockets that are looked through for one. Of more, as a range of ports makes thousands, it is found by its name.
const FEW: usize = 8;

/// The listening sockets of a service in a generation, in the order of the configuration.
#[derive(Debug)]
pub struct Listens<V> {
    all: Vec<Arc<Listen<V>>>,
    /// The places of sockets, by the names of those for streams and of those for datagrams, if there are more than [`FEW`].
    places: [HashMap<String, usize>; 2],
}

// Not derived, because that would demand the trait of what is at the addresses.
impl<V> Default for Listens<V> {
    fn default() -> Listens<V> {
        Listens { all: Vec::new(), places: Default::default() }
    }
}

impl<V> Deref for Listens<V> {
    type Target = [Arc<Listen<V>>];

    fn deref(&self) -> &[Arc<Listen<V>>] {
        &self.all
    }
}

impl<V> Listens<V> {
    /// The sockets of these addresses; `servers` has what is at each of them, in their order.
    pub fn of<P: ListenProtocols>(addresses: &[ListenAddress<P>], servers: &[Arc<V>]) -> Listens<V> {
        debug_assert_eq!(addresses.len(), servers.len());
        let socket = |(own, covered): (usize, Vec<usize>)| {
            let tls = [own].iter().chain(&covered).any(|place| addresses[*place].protocols.tls());
            let at = |place: &usize| Some((addresses[*place].spec.ip?.ip(), servers[*place].clone()));
            let specific = covered.iter().filter_map(at).collect();
            let (spec, servers) = (Arc::new(addresses[own].spec.clone()), servers[own].clone());
            Arc::new(Listen { spec, servers, specific, tls })
        };
        let all: Vec<_> = sockets(addresses).into_iter().map(socket).collect();
        let mut places: [HashMap<String, usize>; 2] = Default::default();
        for (place, listen) in all.iter().enumerate().filter(|_| all.len() > FEW) {
            places[listen.spec.protocol as usize].entry(listen.spec.name.clone()).or_insert(place);
        }
        Listens { all, places }
    }

    /// The socket with this specification.
    pub fn find(&self, spec: &ListenSpec) -> Option<&Arc<Listen<V>>> {
        if self.all.len() <= FEW {
            return self.iter().find(|listen| listen.spec.is_same_socket(spec));
        }
        self.places[spec.protocol as usize].get(&spec.name).map(|place| &self.all[*place])
    }

    /// Whether connections to the socket with this specification may begin with a TLS handshake.
    pub fn has_tls(&self, spec: &ListenSpec) -> bool {
        self.find(spec).is_some_and(|listen| listen.tls)
    }
}
