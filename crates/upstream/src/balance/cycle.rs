//! Round robin of many servers that have the same weight: they are chosen in the order of the list, again and again.
//!
//! With equal weights this is the order of smooth weighted round robin, without an account for each server. A choice
//! looks at the servers from the next one on, up to the first that can be asked. With thousands of servers, looking at
//! all of them would take longer than the request.
//!
//! Accounts also remember which server has stood in for a failed server; here each further try moves the place on. Over
//! a few servers that is another order than nginx's, so they keep their accounts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::peer::Peer;

/// The number of times that a choice begins anew because another loop has chosen at the same instant. After these,
/// two loops take the same server, and each server still gets as many requests as the others.
const TRIES: usize = 8;

/// The least number of servers that have a cycle. Looking at fewer takes less than a microsecond.
const MANY: usize = 64;

/// The place in the order.
#[derive(Debug, Default)]
pub(crate) struct Cycle {
    /// The index of the server whose turn is next; always below the number of servers.
    next: AtomicUsize,
}

/// The answer about a server that might be next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerTurn {
    /// The server is chosen.
    Takes,
    /// The server cannot be asked now.
    Passes,
    /// The server has less than its weight, because it failed or starts slowly: accounts have to decide.
    Uneven,
}

/// The result of looking for the next server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CycleChoice {
    /// The server at this index.
    Index(usize),
    /// No server can be asked.
    None,
    /// See [`ServerTurn::Uneven`].
    Uneven,
}

impl Cycle {
    /// The order of these servers, if they are many and all have the same weight. It goes on where `before` was with its servers.
    pub(crate) fn new(peers: &[Arc<Peer>], before: Option<(&Cycle, &[Arc<Peer>])>) -> Option<Cycle> {
        let weight = peers.first().filter(|_| peers.len() >= MANY)?.full_weight();
        if peers.iter().any(|peer| peer.full_weight() != weight) {
            return None;
        }
        let next = before.and_then(|(cycle, old)| old.get(cycle.next.load(Relaxed)));
        let next = next.and_then(|next| peers.iter().position(|peer| peer.id == next.id));
        Some(Cycle { next: AtomicUsize::new(next.unwrap_or_default()) })
    }

    /// Chooses the first of `count` servers, from the one whose turn it is, that `turn` lets take it.
    pub(crate) fn choose(&self, count: usize, turn: impl Fn(usize) -> ServerTurn) -> CycleChoice {
        let mut choice = CycleChoice::None;
        for _ in 0..TRIES {
            let start = self.next.load(Relaxed);
            debug_assert!(start < count, "the place is beyond the servers");
            choice = CycleChoice::None;
            for index in (start..count).chain(0..start.min(count)) {
                match turn(index) {
                    ServerTurn::Takes => choice = CycleChoice::Index(index),
                    ServerTurn::Uneven => choice = CycleChoice::Uneven,
                    ServerTurn::Passes => continue,
                }
                break;
            }
            let CycleChoice::Index(index) = choice else { return choice };
            let next = if index + 1 < count { index + 1 } else { 0 };
            if self.next.compare_exchange(start, next, Relaxed, Relaxed).is_ok() {
                return choice;
            }
        }
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(usable: &[bool]) -> impl Fn(usize) -> ServerTurn {
        |index| if usable[index] { ServerTurn::Takes } else { ServerTurn::Passes }
    }

    #[test]
    fn servers_take_turns_and_those_that_cannot_be_asked_are_passed_over_fairly() {
        let cycle = Cycle::default();
        let order = |usable: &[bool]| -> Vec<usize> {
            let choose = |_| match cycle.choose(usable.len(), takes(usable)) {
                CycleChoice::Index(index) => index,
                other => panic!("{other:?}"),
            };
            (0..6).map(choose).collect()
        };
        assert_eq!(order(&[true; 3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(order(&[true, false, true]), [0, 2, 0, 2, 0, 2]);
        assert_eq!(order(&[false, false, true]), [2; 6]);
    }

    #[test]
    fn no_server_is_no_turn_and_an_uneven_one_is_left_to_accounts() {
        let cycle = Cycle::default();
        assert_eq!(cycle.choose(2, takes(&[false; 2])), CycleChoice::None);
        let uneven = |index| if index == 1 { ServerTurn::Uneven } else { ServerTurn::Takes };
        assert_eq!(cycle.choose(2, uneven), CycleChoice::Index(0));
        assert_eq!(cycle.choose(2, uneven), CycleChoice::Uneven);
    }
}
