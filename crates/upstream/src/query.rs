//! The input of a choice, and the reasons why none could be made.

use smallvec::SmallVec;

use crate::clock::Millis;

/// The reason why no server was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPeer {
    /// No server can be asked: `no live upstreams`.
    NoneLive,
    /// All servers that could be asked were tried.
    AllTried,
    /// No server can be asked, as with [`NoPeer::NoneLive`], but some only have as many connections as they may, and
    /// the group has a queue that takes the request.
    Wait,
}

/// The input of a choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// The current time.
    pub now: Millis,
    /// The key: the value of `hash`, or the client's address for `ip_hash`: 4 or 16 bytes, anything else as it is
    /// (`unix:`).
    pub key: &'a [u8],
    /// The server that the client is bound to.
    pub sticky: Option<ClientBinding<'a>>,
    /// A random number, a new one for each query.
    pub random: u64,
}

/// The way in which a client is bound to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientBinding<'a> {
    /// By the server's route, or by the value that stands for its address.
    Route(&'a [u8]),
    /// By the server's number, learned before.
    Id(u32),
}

/// The servers that one request has been sent to.
#[derive(Debug, Clone, Default)]
pub struct TriedServers {
    /// The numbers of the servers, sorted, so that trying all servers of a large group takes no linear search for each
    /// of them.
    ids: SmallVec<[u32; 4]>,
}

impl TriedServers {
    /// An empty set.
    pub fn new() -> TriedServers {
        TriedServers::default()
    }

    /// Number of servers that were tried.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    pub(crate) fn add(&mut self, id: u32) {
        if let Err(place) = self.ids.binary_search(&id) {
            self.ids.insert(place, id);
        }
    }
}
