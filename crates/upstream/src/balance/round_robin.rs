//! Turns by weight: the smooth weighted round robin that nginx documents.
//!
//! Every candidate's account gets its weight, the largest account is chosen and pays the sum of all. Over a cycle each is chosen
//! exactly as often as its weight says, and never in a row when that can be avoided.
//!
//! The accounts stand together in an array under a lock that is only ever *tried*. A loop that finds it taken, which means that
//! another one is choosing in this very fraction of a microsecond, takes the next copy of the array. Each copy gives
//! exact turns to those who use it, so that all together are exact up to one cycle of each copy, and nobody waits. With
//! one loop, or little traffic, there is only the first copy in use, and the order is nginx's.

use std::sync::Arc;
use std::sync::Mutex;

use super::{Candidate, Candidates};
use crate::peer::Peer;

/// Copies of the accounts. With more loops than that choosing in the same instant, one of them gets a server without its turn.
const COPIES: usize = 8;

#[derive(Debug)]
pub(crate) struct RoundRobin {
    copies: [Mutex<Box<[i64]>>; COPIES],
}

impl RoundRobin {
    /// Accounts for these servers; those that were there before keep theirs.
    pub(crate) fn new(peers: &[Arc<Peer>], before: Option<(&RoundRobin, &[Arc<Peer>])>) -> RoundRobin {
        let mut first: Box<[i64]> = vec![0; peers.len()].into();
        if let Some((turns, old)) = before
            && let Ok(accounts) = turns.copies[0].try_lock()
        {
            for (account, peer) in first.iter_mut().zip(peers) {
                *account = old.iter().position(|other| other.id == peer.id).map_or(0, |index| accounts[index]);
            }
        }
        let mut copies = std::array::from_fn(|_| Mutex::new(vec![0; peers.len()].into()));
        copies[0] = Mutex::new(first);
        RoundRobin { copies }
    }

    /// The candidate whose turn it is.
    pub(crate) fn next(&self, candidates: &Candidates) -> Option<Candidate> {
        if candidates.len() < 2 {
            // Alone it pays what it gets.
            return candidates.first().copied();
        }
        for copy in &self.copies {
            if let Ok(mut accounts) = copy.try_lock() {
                return turn(&mut accounts, candidates);
            }
        }
        candidates.first().copied()
    }
}

fn turn(accounts: &mut [i64], candidates: &Candidates) -> Option<Candidate> {
    let mut total = 0;
    let mut best: Option<(Candidate, i64)> = None;
    for candidate in candidates {
        let account = accounts.get_mut(candidate.index)?;
        *account += i64::from(candidate.weight);
        total += i64::from(candidate.weight);
        if best.is_none_or(|(_, most)| *account > most) {
            best = Some((*candidate, *account));
        }
    }
    let (chosen, _) = best?;
    accounts[chosen.index] -= total;
    Some(chosen)
}
