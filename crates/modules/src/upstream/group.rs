//! A group with all that requests need of it.

use std::sync::Arc;

use freerun_http::zones::ZoneTable;
use freerun_upstream::group::GroupState;
use freerun_upstream::idle::{Count, KeepAlive};
use freerun_upstream::place::Place;
use freerun_upstream::{Group, GroupSettings, PeerSettings, PeerSpec};

use super::methods::Choice;
use super::server::Server;

/// What goes on over reloads: kept by the group's name.
#[derive(Debug, Default)]
struct Lasting {
    group: Arc<GroupState>,
    idle: Arc<Count>,
}

/// A group of servers, declared by an `upstream` block or implied by an address.
#[derive(Debug)]
pub struct Upstream {
    /// The servers, and how one is chosen.
    pub group: Group,
    /// How connections are kept.
    pub keepalive: KeepAlive,
    /// How many are idle, for [`Idle::put`](freerun_upstream::idle::Idle::put).
    pub idle: Arc<Count>,
    /// Whether an `upstream` block declares it.
    pub declared: bool,
    /// What a choice depends on, apart from the servers.
    pub choice: Choice,
    servers: Vec<Server>,
}

impl Upstream {
    /// A group of these servers.
    pub(super) fn new(
        name: &str,
        declared: bool,
        (settings, choice): (GroupSettings, Choice),
        keepalive: KeepAlive,
        servers: Vec<Server>,
        zones: &mut ZoneTable,
    ) -> Upstream {
        let kind = if declared { "upstream" } else { "address" };
        let lasting: Arc<Lasting> = zones.keep(&format!("{kind} {name}"), Lasting::default);
        let peers = servers.iter().flat_map(peers).collect();
        let group = Group::new(name, settings, lasting.group.clone(), peers);
        Upstream { group, keepalive, idle: lasting.idle.clone(), declared, choice, servers }
    }

    /// Its name: that of the block, or host and port.
    pub fn name(&self) -> &Arc<str> {
        &self.group.name
    }

    /// Its servers as they are written.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }
}

/// The servers that a written one stands for, as far as its addresses are known.
fn peers(server: &Server) -> Vec<PeerSpec> {
    match &server.place {
        Place::Address(address) => {
            vec![PeerSpec { address: address.clone(), server: server.text.clone(), settings: server.settings.clone() }]
        }
        Place::Name(_) => Vec::new(),
    }
}

/// A server for an address without parameters.
pub(super) fn plain(place: Place) -> Server {
    let text = place.to_string().into();
    Server { place, text, settings: PeerSettings::default(), resolve: false, service: None }
}
