//! The addresses that the servers of a service listen on, each with its servers.

use std::collections::HashMap;

use freerun_conf::{Cx, Problem};

use super::setting::{ListenPlace, ListenProtocols, ListenSetting};
use super::{ListenKey, ListenSpec};

/// An address with its servers, which are numbers in the order of the configuration.
pub struct ListenAddress<P> {
    /// The specification of the socket.
    pub spec: ListenSpec,
    /// The `listen` with socket options that fixed the specification.
    fixed: Option<ListenPlace>,
    default: Option<(usize, ListenPlace)>,
    /// The last `listen`.
    last: ListenPlace,
    /// The protocols that any `listen` of the address names.
    pub protocols: P,
    /// Its servers; at least one.
    pub servers: Vec<usize>,
}

impl<P> ListenAddress<P> {
    /// `default_server`, or the first server.
    pub fn default_server(&self) -> usize {
        self.default.map_or(self.servers[0], |(server, _)| server)
    }

    /// The wildcard address of the same port, family and protocol, if the configuration has it.
    fn covering(&self, all: &[ListenAddress<P>]) -> Option<usize> {
        let ip = self.spec.ip?;
        if self.spec.is_wildcard() {
            return None;
        }
        all.iter().position(|other| {
            other.spec.is_wildcard()
                && other.spec.protocol == self.spec.protocol
                && other.spec.ip.is_some_and(|wild| wild.port() == ip.port() && wild.is_ipv4() == ip.is_ipv4())
        })
    }
}

/// Gathers the addresses of these servers; each comes with its `listen` directives.
///
/// # Errors
/// As many problems as are collected: directives that contradict each other, in nginx's words.
pub fn gather<'s, P: ListenProtocols>(
    servers: impl Iterator<Item = &'s [ListenSetting<P>]>,
    cx: &mut Cx,
) -> Result<Vec<ListenAddress<P>>, Problem> {
    let mut order: Vec<ListenAddress<P>> = Vec::new();
    let mut by_key: HashMap<ListenKey, usize> = HashMap::new();
    for (index, listens) in servers.enumerate() {
        for (spec, listen) in listens.iter().flat_map(|listen| listen.specs.iter().map(move |spec| (spec, listen))) {
            let fail = |message: String, first: ListenPlace| {
                listen.written.problem(Problem::new(message)).first_at(first.place)
            };
            let slot = *by_key.entry(spec.key()).or_insert_with(|| {
                let protocols = P::default();
                let (spec, last, servers) = (spec.clone(), listen.written, Vec::new());
                order.push(ListenAddress { spec, fixed: None, default: None, last, protocols, servers });
                order.len() - 1
            });
            let address = &mut order[slot];
            if address.servers.last() == Some(&index) {
                cx.report(fail(format!("a duplicate listen {}", spec.name), address.last))?;
                continue;
            }
            let protocols = listen.protocols.of_address();
            if !address.servers.is_empty() && protocols != P::default() && protocols != address.protocols {
                // What one of them says holds for all.
                let problem = Problem::warning(format!("protocol options redefined for {}", spec.name));
                cx.warn(listen.written.problem(problem));
            }
            address.protocols = address.protocols.and(protocols);
            if listen.has_options {
                if let Some(fixed) = address.fixed.filter(|_| address.spec != *spec) {
                    cx.report(fail(format!("duplicate listen options for {}", spec.name), fixed))?;
                }
                address.fixed.get_or_insert(listen.written);
                address.spec = spec.clone();
            }
            if listen.default_server {
                if let Some((_, default)) = address.default {
                    cx.report(fail(format!("a duplicate default server for {}", address.spec.name), default))?;
                }
                address.default = Some((index, listen.written));
            }
            address.last = listen.written;
            address.servers.push(index);
        }
    }
    debug_assert!(order.iter().all(|address| !address.servers.is_empty()), "nobody answers at an address");
    Ok(order)
}

/// The addresses that have sockets of their own, each with the addresses that share its socket. A wildcard socket receives
/// the connections of the addresses that it covers, and binding these as well would fail. All are places in `addresses`.
pub fn sockets<P>(addresses: &[ListenAddress<P>]) -> Vec<(usize, Vec<usize>)> {
    let shared = |address: &ListenAddress<P>| if address.fixed.is_some() { None } else { address.covering(addresses) };
    let mut sockets = Vec::new();
    let mut covered: HashMap<usize, Vec<usize>> = HashMap::new();
    for (place, address) in addresses.iter().enumerate() {
        match shared(address) {
            Some(by) => covered.entry(by).or_default().push(place),
            None => sockets.push(place),
        }
    }
    let sockets = sockets.into_iter().map(|place| (place, covered.remove(&place).unwrap_or_default())).collect();
    debug_assert!(covered.is_empty(), "addresses share a socket that there is not");
    sockets
}
