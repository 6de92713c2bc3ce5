//! Runs the checks: each server is checked by one loop, as long as the configuration has the check and the group has
//! the server.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_upstream::health::{CheckedState, ServerCheck};
use freerun_upstream::random::Random;
use freerun_upstream::{Peer, now};
use tokio::sync::Notify;

use super::{Checks, GroupCheck, NamedCheck, RunningChecks};
use crate::accept::loop_listeners;
use crate::loops::shared::SharedState;
use crate::loops::state::LoopState;

/// The interval at which groups are checked for changed servers.
const LOOK: Duration = Duration::from_millis(500);

/// For how many milliseconds a loop waits for checks that another loop is to hand over. That one may be late.
const PATIENCE: u64 = 10_000;

/// The key of a server's check, whose state is kept over a reload while it stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CheckKey {
    /// The key of the check.
    check: Arc<str>,
    /// The number of the server.
    server: u32,
}

impl CheckKey {
    /// The key of this check of this server.
    pub(super) fn new(check: &Arc<str>, peer: &Peer) -> CheckKey {
        CheckKey { check: check.clone(), server: peer.id }
    }

    /// The index of the loop that runs the check: a loop that has always been there, so that a check stays where it is when
    /// loops are added.
    pub(super) fn loop_index(&self, shared: &SharedState) -> usize {
        one_of(BuildHasherDefault::<DefaultHasher>::default().hash_one(self), shared.loops.load().fewest)
    }
}

/// A number below `count`, by a hash: with a smaller count, only what had one of the numbers that are gone gets another one
/// (jump consistent hashing, Lamping and Veach).
fn one_of(mut hash: u64, count: usize) -> usize {
    let (mut number, mut next) = (0, 0_u64);
    while next < count as u64 {
        number = next;
        hash = hash.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((number + 1) as f64 * ((1_u64 << 31) as f64 / ((hash >> 33) + 1) as f64)) as u64;
    }
    number as usize
}

struct RunningCheck<C> {
    named: RefCell<Arc<NamedCheck<C>>>,
    peer: RefCell<Arc<Peer>>,
    /// The results so far; `None`: another loop goes on with the check.
    watch: RefCell<Option<ServerCheck>>,
    stop: Notify,
}

/// The checks that a loop runs.
pub(super) struct Watcher<C: GroupCheck> {
    running: RefCell<HashMap<CheckKey, Rc<RunningCheck<C>>>>,
    /// The checks that were prepared before their generation took requests.
    prepared: RefCell<HashMap<CheckKey, ServerCheck>>,
    looking: Cell<bool>,
    /// The time, in milliseconds, from which on there are checks that another loop is to hand over.
    awaits: Cell<Option<u64>>,
    /// The number of the generation, and how often its groups changed.
    seen: RefCell<(u64, u64)>,
    local: C::Local,
}

impl<C: GroupCheck> Default for Watcher<C> {
    fn default() -> Watcher<C> {
        let (running, prepared, looking, awaits, seen) = Default::default();
        Watcher { running, prepared, looking, awaits, seen, local: C::Local::default() }
    }
}

impl<C: GroupCheck> Watcher<C> {
    /// Keeps checks that begin soon.
    pub(super) fn prepare(&self, watches: Vec<(CheckKey, ServerCheck)>) {
        self.prepared.borrow_mut().extend(watches);
    }

    /// Starts the checks of a generation that has begun to take requests.
    pub(super) fn begin(self: &Rc<Self>, loop_state: &Rc<LoopState>) {
        self.look(loop_state);
        self.prepared.borrow_mut().clear();
        if self.looking.get() || self.running.borrow().is_empty() && checks::<C>(loop_state).is_none() {
            return;
        }
        self.looking.set(true);
        let (watcher, loop_state) = (self.clone(), loop_state.clone());
        loops::spawn(0, "looking after health checks", async move {
            while checks::<C>(&loop_state).is_some() {
                freerun_runtime::timer::sleep(LOOK).await;
                watcher.look(&loop_state);
            }
            watcher.looking.set(false);
        });
    }

    /// Starts, ends and hands over checks, so that they match the configuration, the current servers of the groups, and the
    /// loops that there are.
    fn look(self: &Rc<Self>, loop_state: &Rc<LoopState>) {
        let checks = checks::<C>(loop_state);
        let all = checks.as_ref().map(|checks| &*checks.0).unwrap_or_default();
        let changes = all.iter().filter_map(|named| named.check.group()).map(|group| group.group.replaced()).sum();
        let seen = (loop_state.generation().number, changes);
        let awaits = self.awaits.take();
        if *self.seen.borrow() == seen && awaits.is_none() {
            return;
        }
        *self.seen.borrow_mut() = seen;
        let known = loop_state.generation().parts.get::<RunningChecks<C>>();
        let mut old = self.running.take();
        let mut begun = Vec::new();
        let is_patient = awaits.is_none_or(|since| loops::millis().saturating_sub(since) < PATIENCE);
        for named in all {
            let Some(group) = named.check.group() else { continue };
            for peer in group.group.peers().peers().filter(|peer| !peer.settings.down) {
                let key = CheckKey::new(&named.key, peer);
                if self.running.borrow().contains_key(&key) {
                    continue;
                }
                let owner = key.loop_index(&loop_state.shared);
                if owner != loop_state.index {
                    if let Some(running) = old.remove(&key) {
                        hand_over(&running, key, owner, &loop_state.shared);
                    }
                    continue;
                }
                let running = match old.remove(&key) {
                    Some(running) => {
                        running.named.replace(named.clone());
                        running.peer.replace(peer.clone());
                        running
                    }
                    None => {
                        let prepared = self.prepared.borrow_mut().remove(&key);
                        // A second one would begin without what is known of the server: no request would get there.
                        let is_elsewhere = || known.as_ref().is_some_and(|known| known.has(&key));
                        if prepared.is_none() && is_patient && is_elsewhere() {
                            self.awaits.set(Some(awaits.unwrap_or_else(loops::millis)));
                            continue;
                        }
                        begun.push(key.clone());
                        let new = || ServerCheck::new(peer.live().clone(), named.check.checking().rules);
                        self.start(named, peer, prepared.unwrap_or_else(new), loop_state)
                    }
                };
                self.running.borrow_mut().insert(key, running);
            }
        }
        for ended in old.values() {
            ended.stop.notify_one();
        }
        let ended: Vec<CheckKey> = old.into_keys().collect();
        if !(ended.is_empty() && begun.is_empty())
            && let Some(known) = known
        {
            known.change(&ended, &begun);
        }
    }

    /// Goes on with a check that another loop has had, if the configuration still has it.
    fn take_over(self: &Rc<Self>, key: CheckKey, watch: ServerCheck, loop_state: &Rc<LoopState>) {
        let checks = checks::<C>(loop_state);
        let all = checks.as_ref().map(|checks| &*checks.0).unwrap_or_default();
        let place = all.iter().filter(|named| named.key == key.check).find_map(|named| {
            let peers = named.check.group()?.group.peers();
            let peer = peers.peers().find(|peer| peer.id == key.server && !peer.settings.down)?.clone();
            Some((named, peer))
        });
        match place {
            Some((named, peer)) if !self.running.borrow().contains_key(&key) => {
                let running = self.start(named, &peer, watch, loop_state);
                self.running.borrow_mut().insert(key, running);
            }
            Some(_) => {}
            None => {
                if let Some(known) = loop_state.generation().parts.get::<RunningChecks<C>>() {
                    known.change(&[key], &[]);
                }
            }
        }
    }

    fn start(
        self: &Rc<Self>,
        named: &Arc<NamedCheck<C>>,
        peer: &Arc<Peer>,
        watch: ServerCheck,
        loop_state: &Rc<LoopState>,
    ) -> Rc<RunningCheck<C>> {
        let running = Rc::new(RunningCheck {
            named: RefCell::new(named.clone()),
            peer: RefCell::new(peer.clone()),
            watch: RefCell::new(Some(watch)),
            stop: Notify::new(),
        });
        let (watcher, loop_state, task) = (self.clone(), loop_state.clone(), running.clone());
        loops::spawn(0, "checking a server", async move {
            tokio::select! {
                () = task.stop.notified() => {}
                () = watcher.run(&task, &loop_state) => {}
            }
        });
        running
    }

    async fn run(&self, running: &RunningCheck<C>, loop_state: &Rc<LoopState>) {
        let mut kept = C::Kept::default();
        let mut random = Random::seeded(RandomState::new().hash_one(0));
        loop {
            let (named, peer) = (running.named.borrow().clone(), running.peer.borrow().clone());
            let check = &named.check;
            let jitter = check.checking().jitter.as_millis() as u64;
            freerun_runtime::timer::sleep(Duration::from_millis(random.below(jitter + 1))).await;
            let answer = check.check(&peer, &mut kept, loop_state, &self.local).await;
            {
                let mut watch = running.watch.borrow_mut();
                let Some(watch) = &mut *watch else { return };
                if watch.observe(answer.is_ok(), now()) {
                    let name = &peer.name;
                    let group = check.group().map(|group| group.name().clone()).unwrap_or_default();
                    let log = &loop_state.generation().error_log;
                    let about = format_args!("health check {}of peer {name} in upstream \"{group}\"", check.shown());
                    match (watch.state(), answer) {
                        (CheckedState::Unhealthy, Err(what)) => {
                            log.write(Level::Warn, None, format_args!("peer is unhealthy while {what}, {about}"));
                        }
                        _ => log.write(Level::Notice, None, format_args!("peer is healthy, {about}")),
                    }
                }
            }
            drop((named, peer));
            let interval = running.named.borrow().check.checking().interval;
            freerun_runtime::timer::sleep(interval).await;
        }
    }
}

/// Stops a check on this loop, and has the loop with the index `to` go on with it.
fn hand_over<C: GroupCheck>(running: &RunningCheck<C>, key: CheckKey, to: usize, shared: &SharedState) {
    running.stop.notify_one();
    if let Some(watch) = running.watch.take() {
        loop_listeners::tell(shared, to, move |services| {
            services.loop_state.modules.get::<Watcher<C>>().take_over(key, watch, &services.loop_state);
        });
    }
}

/// The checks of the loop's generation; `None` if there are none.
fn checks<C: GroupCheck>(loop_state: &Rc<LoopState>) -> Option<Arc<Checks<C>>> {
    loop_state.generation().parts.get::<Checks<C>>().filter(|checks| !checks.0.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_fewer_numbers_only_what_had_one_of_the_others_gets_another_one() {
        let hashes = || (0..2000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for (more, fewer) in [(4, 3), (8, 2), (2, 1), (64, 63)] {
            let mut counts = vec![0; more];
            for hash in hashes() {
                let (before, after) = (one_of(hash, more), one_of(hash, fewer));
                assert!(after < fewer && (before == after || before >= fewer), "{before} {after}");
                counts[before] += 1;
            }
            assert!(counts.iter().all(|count| *count > 1000 / more), "{counts:?}");
        }
        assert_eq!((one_of(5, 0), one_of(5, 1)), (0, 0));
    }
}
