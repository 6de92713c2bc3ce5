//! What a choice depends on, and why none could be made.

use smallvec::SmallVec;

use crate::clock::Millis;

/// Why no server was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPeer {
    /// None can be asked: `no live upstreams`.
    NoneLive,
    /// All that could be asked were.
    AllTried,
    /// As [`NoPeer::NoneLive`], but some only have as many connections as they may, and the group has a queue that takes
    /// the request.
    Wait,
}

/// What a choice depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<'a> {
    /// The time.
    pub now: Millis,
    /// What `hash` names, or the client's address for `ip_hash`: 4 or 16 bytes, anything else as it is (`unix:`).
    pub key: &'a [u8],
    /// To which server the client is bound.
    pub sticky: Option<Bound<'a>>,
    /// A random number, another one for each question.
    pub random: u64,
}

/// How a client is bound to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound<'a> {
    /// By the server's route, or by what stands for its address.
    Route(&'a [u8]),
    /// By its number, learned before.
    Id(u32),
}

/// The servers that one request has been sent to.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// In order, so that a large group of which nothing answers is not searched from one end to the other for each of its servers.
    ids: SmallVec<[u32; 4]>,
}

impl Tried {
    /// None yet.
    pub fn new() -> Tried {
        Tried::default()
    }

    /// How many.
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
