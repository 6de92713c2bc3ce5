//! What all configurations know together of a group that they call by the same name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use crate::address::UpstreamAddress;
use crate::live::Live;
use crate::queue::Queue;

/// Where a server stands among those with its address: the same one may be named twice.
pub(crate) type Key = (UpstreamAddress, usize);

/// What goes on over reloads: kept by the group's name.
#[derive(Debug, Default)]
pub struct GroupState {
    lives: ArcSwap<HashMap<Key, Weak<Live>>>,
    pub(crate) queue: Queue,
    /// How many mandatory checks the servers have: those that come later are held back for as many.
    mandatory: AtomicU32,
    /// Whether a loop is about to eject a server.
    ejecting: AtomicBool,
}

impl GroupState {
    /// All servers that are known.
    pub(crate) fn each(&self, mut see: impl FnMut(&Live)) {
        for live in self.lives.load().values() {
            if let Some(live) = live.upgrade() {
                see(&live);
            }
        }
    }

    /// A server has room again.
    pub(crate) fn released(&self) {
        self.queue.released();
    }

    /// Servers that come later ([`Group::replace`](crate::group::Group::replace)) are asked by nobody before so many mandatory checks have spoken. Those that
    /// are there already are the caller's business.
    pub fn hold_back(&self, checks: u32) {
        self.mandatory.store(checks, Relaxed);
    }

    /// For how many mandatory checks servers that come later are held back.
    pub(crate) fn held_back(&self) -> u32 {
        self.mandatory.load(Relaxed)
    }

    /// What is known of the servers at these addresses; those never heard of begin anew, held back for so many checks.
    pub(crate) fn lives(&self, keys: &[Key], held: u32) -> Vec<Arc<Live>> {
        let mut found: Vec<Arc<Live>> = Vec::new();
        self.lives.rcu(|known| {
            let new = || Arc::new(Live::held(held));
            found = keys.iter().map(|key| known.get(key).and_then(Weak::upgrade).unwrap_or_else(new)).collect();
            let mut next: HashMap<Key, Weak<Live>> = known
                .iter()
                .filter(|(_, live)| live.strong_count() > 0)
                .map(|(key, live)| (key.clone(), live.clone()))
                .collect();
            next.extend(keys.iter().cloned().zip(found.iter().map(Arc::downgrade)));
            next
        });
        found
    }
}
impl GroupState {
    /// Does something that only one loop at a time should do; not at all if another one is at it.
    pub(crate) fn alone(&self, what: impl FnOnce(&GroupState) -> bool) -> bool {
        if self.ejecting.swap(true, Acquire) {
            return false;
        }
        let done = what(self);
        self.ejecting.store(false, Release);
        done
    }
}
