//! Turns of orders: some run now, others wait.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::identifier::Identifier;

/// The most orders at a time: more would be of no use on one thread, and CAs count them.
const ORDERS: usize = 4;

/// The orders in progress. Two of them never have an identifier in common, because their answers to challenges would take
/// each other's place.
#[derive(Clone, Default)]
pub(crate) struct Turns(Rc<OrdersInProgress>);

#[derive(Default)]
struct OrdersInProgress {
    busy: RefCell<Vec<Vec<Identifier>>>,
    changed: Notify,
}

/// The turn of one order, until it is dropped.
pub(crate) struct Turn {
    turns: Turns,
    identifiers: Vec<Identifier>,
}

impl Turns {
    /// Waits for a turn.
    pub(crate) async fn take(&self, identifiers: &[Identifier]) -> Turn {
        loop {
            // Made before the look, so that no change between look and wait is missed.
            let changed = self.0.changed.notified();
            if let Some(turn) = self.attempt(identifiers) {
                return turn;
            }
            changed.await;
        }
    }

    fn attempt(&self, identifiers: &[Identifier]) -> Option<Turn> {
        let mut busy = self.0.busy.borrow_mut();
        if busy.len() >= ORDERS || busy.iter().flatten().any(|other| identifiers.contains(other)) {
            return None;
        }
        busy.push(identifiers.to_vec());
        Some(Turn { turns: self.clone(), identifiers: identifiers.to_vec() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let inner = &self.turns.0;
        let mut busy = inner.busy.borrow_mut();
        let at = busy.iter().position(|other| *other == self.identifiers);
        debug_assert!(at.is_some(), "an order ends that had no turn");
        if let Some(at) = at {
            busy.swap_remove(at);
        }
        inner.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Identifier> {
        names.iter().map(|name| Identifier::Dns((*name).to_owned())).collect()
    }

    #[test]
    fn orders_of_the_same_name_come_one_after_the_other() {
        let turns = Turns::default();
        let first = turns.attempt(&names(&["a", "b"])).expect("nobody else");
        assert!(turns.attempt(&names(&["b", "c"])).is_none());
        let second = turns.attempt(&names(&["c"])).expect("another name");
        drop(first);
        assert!(turns.attempt(&names(&["b", "c"])).is_none());
        drop(second);
        assert!(turns.attempt(&names(&["b", "c"])).is_some());
    }

    #[tokio::test]
    async fn there_are_a_few_at_a_time_and_who_waits_is_woken() {
        let turns = Turns::default();
        let mut taken = Vec::new();
        for at in 0..ORDERS {
            taken.push(turns.take(&names(&[&at.to_string()])).await);
        }
        assert!(turns.attempt(&names(&["more"])).is_none());
        let more = names(&["more"]);
        let waiting = turns.take(&more);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("a turn while all are taken"),
            () = std::future::ready(()) => {}
        }
        taken.pop();
        let _turn = waiting.await;
    }
}
