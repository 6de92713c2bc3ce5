//! How the next server is chosen.

mod avail;
mod round_robin;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::group::{Query, Tried};
use crate::lease::Lease;
use crate::peer::Peer;
use round_robin::RoundRobin;

/// What [`Method::LeastTime`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Time to the response's head.
    Header,
    /// Time to the response's end.
    LastByte,
}

/// What decides between two servers drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Two {
    /// The one with fewer connections for its weight.
    LeastConn,
    /// The one that is faster.
    LeastTime(Measure),
}

/// How the next server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// `least_conn`
    LeastConn,
    /// `ip_hash`
    IpHash,
    /// `hash key`
    Hash,
    /// `hash key consistent`
    ConsistentHash,
    /// `random`
    Random,
    /// `random two …`
    RandomTwo(Two),
    /// `least_time header | last_byte [inflight]`
    LeastTime {
        /// The time that counts.
        measure: Measure,
        /// Whether requests that are on their way count as well.
        inflight: bool,
    },
}

/// A server that could be asked now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// Its place in [`Tier::peers`].
    pub index: usize,
    /// Its share: see [`avail::SCALE`].
    pub weight: u32,
}

pub(crate) type Candidates = SmallVec<[Candidate; 16]>;

/// Servers that are asked alike: the primary ones, or those for need.
#[derive(Debug)]
pub struct Tier {
    /// The servers, in the order of the configuration.
    pub peers: Vec<Arc<Peer>>,
    turns: RoundRobin,
}

impl Tier {
    /// The servers, with the turns going on where `before` was.
    pub(crate) fn new(_method: Method, peers: Vec<Arc<Peer>>, before: Option<&Tier>) -> Tier {
        let turns = RoundRobin::new(&peers, before.map(|tier| (&tier.turns, &*tier.peers)));
        Tier { peers, turns }
    }

    /// Chooses one and counts the connection.
    pub(crate) fn pick(&self, _method: Method, query: &Query<'_>, tried: &Tried) -> Option<Lease> {
        let mut candidates: Candidates = (0..self.peers.len())
            .filter_map(|index| {
                let peer = &self.peers[index];
                let weight = if tried.has(peer) { None } else { peer.weight(query.now) }?;
                Some(Candidate { index, weight })
            })
            .collect();
        // Another loop may take the last connection of the one that was chosen; each round has one candidate less.
        loop {
            let chosen = self.turns.next(&candidates)?;
            let peer = &self.peers[chosen.index];
            if let Some(lease) = peer.acquire(query.now) {
                return Some(lease);
            }
            candidates.retain(|candidate| candidate.index != chosen.index);
        }
    }
}
