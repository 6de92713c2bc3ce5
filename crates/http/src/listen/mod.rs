//! Listening addresses: what `listen` says, what is bound, and which servers answer there.

pub mod accept;
pub mod rescue;
pub mod setting;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::request::Address;
use crate::request::location::Server;
use crate::route::names::NameTable;

pub use setting::{Keepalive, ListenSpec};

/// The servers of one address: found by name, else the default one.
#[derive(Debug)]
pub struct Servers {
    /// By name.
    pub names: NameTable,
    /// `default_server`, or the first one.
    pub default: Arc<Server>,
    /// Whether connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
}

/// A listening socket of a generation.
#[derive(Debug)]
pub struct Listen {
    /// How it is bound.
    pub spec: Arc<ListenSpec>,
    /// The servers of the address itself.
    pub servers: Arc<Servers>,
    /// Servers of more specific addresses with the same port, which share a wildcard's socket.
    pub specific: HashMap<IpAddr, Arc<Servers>>,
}

impl Listen {
    /// The servers for a connection to this local address.
    pub fn servers_for(&self, local: &Address) -> &Arc<Servers> {
        match local {
            Address::Ip(address) if !self.specific.is_empty() => {
                self.specific.get(&address.ip().to_canonical()).unwrap_or(&self.servers)
            }
            _ => &self.servers,
        }
    }
}
