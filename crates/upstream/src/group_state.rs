//! The state that all configurations share for a group of the same name.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use crate::address::UpstreamAddress;
use crate::clock::Millis;
use crate::live::Live;
use crate::queue::WaitingQueue;
use crate::saved_servers::{self, CarriedServers};

/// The identity of a server: its address and its index among the servers with that address, because one may be named
/// twice.
pub(crate) type ServerKey = (UpstreamAddress, usize);

/// The state of a group that is kept over reloads, by the group's name.
#[derive(Debug, Default)]
pub struct GroupState {
    lives: ArcSwap<HashMap<ServerKey, Weak<Live>>>,
    pub(crate) queue: WaitingQueue,
    /// Number of mandatory checks of the servers. Servers that are added later are held back until as many have ended.
    mandatory: AtomicU32,
    /// Whether a loop is about to eject a server.
    ejecting: AtomicBool,
    /// Facts that an old binary had about the servers. They count for the first state of each.
    carried: ArcSwap<CarriedServers>,
}

impl GroupState {
    /// Facts about the servers, as bytes for [`GroupState::restore`] in another process. `None`: there are no servers.
    pub fn save(&self, now: Millis) -> Option<Vec<u8>> {
        let mut saved = Vec::new();
        for (key, live) in self.lives.load().iter() {
            if let Some(live) = live.upgrade() {
                saved_servers::save(&mut saved, key, &live, now);
            }
        }
        (!saved.is_empty()).then_some(saved)
    }

    /// Has servers begin with what another process knew of them.
    pub fn restore(&self, saved: &[u8], now: Millis) {
        self.carried.store(Arc::new(saved_servers::read(saved, now)));
    }

    /// Calls `see` for all known servers.
    pub(crate) fn each(&self, mut see: impl FnMut(&Live)) {
        for live in self.lives.load().values() {
            if let Some(live) = live.upgrade() {
                see(&live);
            }
        }
    }

    /// Number of servers with connections in use that are not among the `current` ones, by their numbers.
    pub fn zombies(&self, current: &HashSet<u32>) -> usize {
        let mut count = 0;
        self.each(|live| count += usize::from(!current.contains(&live.id) && live.connections.load(Relaxed) > 0));
        count
    }

    /// Reports that a server has room again.
    pub(crate) fn released(&self) {
        self.queue.released();
    }

    /// Sets the number of mandatory checks for servers that are added later
    /// ([`Group::replace`](crate::group::Group::replace)): they are not chosen before that number of checks has ended.
    /// The caller takes care of the servers that exist already.
    pub fn hold_back(&self, checks: u32) {
        self.mandatory.store(checks, Relaxed);
    }

    /// For how many mandatory checks servers that are added later are held back.
    pub(crate) fn held_back(&self) -> u32 {
        self.mandatory.load(Relaxed)
    }

    /// The state of the servers at these addresses. An unknown server begins with a new state and is held back for
    /// `held` checks.
    pub(crate) fn lives(&self, keys: &[ServerKey], held: u32) -> Vec<Arc<Live>> {
        let mut found: Vec<Arc<Live>> = Vec::new();
        self.lives.rcu(|known| {
            let carried = self.carried.load();
            let new = |key| Arc::new(carried.get(key, held).unwrap_or_else(|| Live::held(held)));
            let find = |key| known.get(key).and_then(Weak::upgrade).unwrap_or_else(|| new(key));
            found = keys.iter().map(find).collect();
            let mut next: HashMap<ServerKey, Weak<Live>> = known
                .iter()
                .filter(|(_, live)| live.strong_count() > 0)
                .map(|(key, live)| (key.clone(), live.clone()))
                .collect();
            next.extend(keys.iter().cloned().zip(found.iter().map(Arc::downgrade)));
            next
        });
        self.forget_carried(keys);
        found
    }

    /// Forgets what an old binary knew of these servers: they have states now.
    fn forget_carried(&self, keys: &[ServerKey]) {
        if self.carried.load().servers.is_empty() {
            return;
        }
        self.carried.rcu(|carried| {
            let mut rest = CarriedServers::clone(carried);
            rest.servers.retain(|key, _| !keys.contains(key));
            rest
        });
    }

    /// Runs `what`, which only one loop at a time should run; does nothing if another loop is running it.
    pub(crate) fn alone(&self, what: impl FnOnce(&GroupState) -> bool) -> bool {
        if self.ejecting.swap(true, Acquire) {
            return false;
        }
        let _turn = EjectionTurn(&self.ejecting);
        what(self)
    }
}

/// The turn of a loop to eject a server. It ends with the value, also when a panic unwinds.
struct EjectionTurn<'g>(&'g AtomicBool);

impl Drop for EjectionTurn<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.load(Acquire), "two loops have had the turn");
        self.0.store(false, Release);
    }
}
