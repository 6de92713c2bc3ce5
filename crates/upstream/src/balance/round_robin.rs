//! Smooth weighted round robin, as nginx documents it.
//!
//! In each step every candidate's account gets its weight; the largest account is chosen and pays the sum of all. Over
//! a cycle each candidate is chosen exactly as often as its weight says, and never twice in a row where that can be
//! avoided.
//!
//! Several loops choose at once. The accounts stand together behind a flag that is only ever *tried*: a loop that finds
//! it taken takes the next copy of the accounts. Then another loop is choosing within the same fraction of a
//! microsecond. Each copy gives exact turns to the loops that use it, so that all together are exact up to one cycle of
//! each copy, and no loop waits. With one loop, or little traffic, only the first copy is in use, and the order is
//! nginx's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use smallvec::SmallVec;

use crate::peer::Peer;

/// The number of copies of the accounts. If more loops choose at the same instant, one of them gets a server out of
/// turn.
const COPIES: usize = 8;

/// A server that could be asked now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// The index of the server in [`Tier::peers`](super::Tier::peers).
    pub index: usize,
    /// The weight of the server, in units of 1/256 of a configured weight: [`Peer::weight`] or [`Peer::full_weight`]. All
    /// choices share the accounts, so all have to use this unit.
    pub weight: u32,
}

pub(crate) type Candidates = SmallVec<[Candidate; 16]>;

/// A copy of the accounts. The loop that has taken the flag has exclusive use of them.
#[derive(Debug)]
#[repr(align(64))]
struct Copy {
    taken: AtomicBool,
    accounts: Box<[AtomicI64]>,
}

impl Copy {
    fn new(servers: usize) -> Copy {
        Copy { taken: AtomicBool::new(false), accounts: (0..servers).map(|_| AtomicI64::new(0)).collect() }
    }

    /// The candidate whose turn it is; `Err` if another loop is using this copy.
    fn next(&self, candidates: &Candidates) -> Result<Option<Candidate>, ()> {
        if self.taken.swap(true, Acquire) {
            return Err(());
        }
        let mut total = 0;
        let mut best: Option<(Candidate, i64)> = None;
        for candidate in candidates {
            debug_assert!(candidate.index < self.accounts.len(), "a server of another tier takes part");
            let Some(account) = self.accounts.get(candidate.index) else { continue };
            let weight = i64::from(candidate.weight);
            let credit = account.load(Relaxed) + weight;
            account.store(credit, Relaxed);
            total += weight;
            if best.is_none_or(|(_, most)| credit > most) {
                best = Some((*candidate, credit));
            }
        }
        if let Some((chosen, credit)) = best {
            self.accounts[chosen.index].store(credit - total, Relaxed);
        }
        self.taken.store(false, Release);
        Ok(best.map(|(chosen, _)| chosen))
    }
}

/// The round robin state of a tier.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    copies: [Copy; COPIES],
}

impl RoundRobin {
    /// Accounts for these servers; servers that were in `before` keep their accounts.
    pub(crate) fn new(peers: &[Arc<Peer>], before: Option<(&RoundRobin, &[Arc<Peer>])>) -> RoundRobin {
        let copies: [Copy; COPIES] = std::array::from_fn(|_| Copy::new(peers.len()));
        if let Some((turns, old)) = before {
            let old: std::collections::HashMap<u32, usize> =
                old.iter().enumerate().map(|(index, peer)| (peer.id, index)).collect();
            for (copy, before) in copies.iter().zip(&turns.copies) {
                for (account, peer) in copy.accounts.iter().zip(peers) {
                    let known = old.get(&peer.id).and_then(|&index| before.accounts.get(index));
                    // Even an account read in the middle of a choice is not far off.
                    account.store(known.map_or(0, |known| known.load(Relaxed)), Relaxed);
                }
            }
        }
        RoundRobin { copies }
    }

    /// The candidate whose turn it is.
    pub(crate) fn next(&self, candidates: &Candidates) -> Option<Candidate> {
        if candidates.len() < 2 {
            // A single candidate pays the same amount that it gets.
            return candidates.first().copied();
        }
        self.copies.iter().find_map(|copy| copy.next(candidates).ok()).unwrap_or_else(|| candidates.first().copied())
    }
}
