//! `set_real_ip_from`: the proxies whose statements about a client's address are trusted.

use std::net::IpAddr;

use freerun_conf::{Cidr, Cx, Node, Problem, Shape, Value};

use crate::listen::address::Address;
use crate::listen::hosts::Hosts;

/// A trusted source of a client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedSource {
    /// Connections of Unix sockets.
    Unix,
    /// Connections from these addresses.
    Network(Cidr),
    /// Connections from the addresses of a name.
    Host(Vec<IpAddr>),
}

impl Value for TrustedSource {
    const SHAPE: Shape = Shape::exactly(1, "address | CIDR | name | unix:");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TrustedSource, Problem> {
        let word = &directive.args[0];
        if word.text == "unix:" {
            return Ok(TrustedSource::Unix);
        }
        if let Some(network) = Cidr::of_word(directive, word, cx) {
            return Ok(TrustedSource::Network(network));
        }
        let found = cx.extensions.get_or_default::<Hosts>().addresses(&word.text);
        if found.is_empty() {
            Err(Problem::new(format!("host not found in set_real_ip_from \"{}\"", word.text)).at(word.place))
        } else {
            Ok(TrustedSource::Host(found))
        }
    }
}

impl TrustedSource {
    /// Whether the connection's address is this trusted one.
    pub fn contains(&self, address: &Address) -> bool {
        match (self, address) {
            (TrustedSource::Unix, Address::Unix(_)) => true,
            (TrustedSource::Network(network), Address::Ip(address)) => network.contains(address.ip()),
            (TrustedSource::Host(addresses), Address::Ip(address)) => addresses.contains(&address.ip().to_canonical()),
            _ => false,
        }
    }
}
