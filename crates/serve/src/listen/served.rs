//! The listening sockets of a generation, each with what a service has at the addresses that it receives connections of.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::ListenSpec;
use super::addresses::{Address, sockets};
use crate::address;

/// A listening socket with what a service has at its addresses, such as virtual servers.
#[derive(Debug)]
pub struct Listen<V> {
    /// The specification of the socket.
    pub spec: Arc<ListenSpec>,
    /// What is at the address itself.
    pub servers: Arc<V>,
    /// What is at more specific addresses with the same port, which share a wildcard's socket.
    pub specific: HashMap<IpAddr, Arc<V>>,
}

impl<V> Listen<V> {
    /// The sockets of these addresses; `servers` has what is at each of them, in their order.
    pub fn of<P>(addresses: &[Address<P>], servers: &[Arc<V>]) -> Vec<Arc<Listen<V>>> {
        debug_assert_eq!(addresses.len(), servers.len());
        let socket = |(own, covered): (usize, Vec<usize>)| {
            let at = |place: &usize| Some((addresses[*place].spec.ip?.ip(), servers[*place].clone()));
            let specific = covered.iter().filter_map(at).collect();
            Arc::new(Listen { spec: Arc::new(addresses[own].spec.clone()), servers: servers[own].clone(), specific })
        };
        sockets(addresses).into_iter().map(socket).collect()
    }

    /// What is at all of the socket's addresses.
    pub fn all(&self) -> impl Iterator<Item = &Arc<V>> {
        [&self.servers].into_iter().chain(self.specific.values())
    }

    /// What is there for a connection to this local address.
    pub fn servers_for(&self, local: &address::Address) -> &Arc<V> {
        match local {
            address::Address::Ip(address) if !self.specific.is_empty() => {
                self.specific.get(&address.ip().to_canonical()).unwrap_or(&self.servers)
            }
            _ => &self.servers,
        }
    }
}
