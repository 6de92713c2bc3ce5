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
use freerun_upstream::health::{Checked, Watch};
use freerun_upstream::random::Random;
use freerun_upstream::{Peer, now};
use tokio::sync::Notify;

use super::{Check, Checks, Known, Named};
use crate::loop_state::LoopState;
use crate::shared::Shared;

/// The interval at which groups are checked for changed servers.
const LOOK: Duration = Duration::from_millis(500);

/// The key of a server's check, whose state is kept over a reload while it stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The key of the check.
    check: Arc<str>,
    /// The number of the server.
    server: u32,
}

impl Key {
    /// The key of this check of this server.
    pub(super) fn new(check: &Arc<str>, peer: &Peer) -> Key {
        Key { check: check.clone(), server: peer.id }
    }

    /// The index of the loop that runs the check: one that has always been there, so that a check goes on when loops are added.
    pub(super) fn loop_index(&self, shared: &Shared) -> usize {
        let loops = shared.loops.load().fewest.max(1);
        (BuildHasherDefault::<DefaultHasher>::default().hash_one(self) % loops as u64) as usize
    }
}

struct Running<C> {
    named: RefCell<Arc<Named<C>>>,
    peer: RefCell<Arc<Peer>>,
    stop: Notify,
}

/// The checks that a loop runs.
pub(super) struct Watcher<C: Check> {
    running: RefCell<HashMap<Key, Rc<Running<C>>>>,
    /// The checks that were prepared before their generation took requests.
    prepared: RefCell<HashMap<Key, Watch>>,
    looking: Cell<bool>,
    /// The number of the generation, and how often its groups changed.
    seen: RefCell<(u64, u64)>,
    local: C::Local,
}

impl<C: Check> Default for Watcher<C> {
    fn default() -> Watcher<C> {
        let (running, prepared, looking, seen) = Default::default();
        Watcher { running, prepared, looking, seen, local: C::Local::default() }
    }
}

impl<C: Check> Watcher<C> {
    /// Keeps checks that begin soon.
    pub(super) fn prepare(&self, watches: Vec<(Key, Watch)>) {
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

    /// Starts and ends checks, so that they match the configuration and the current servers of the groups.
    fn look(self: &Rc<Self>, loop_state: &Rc<LoopState>) {
        let checks = checks::<C>(loop_state);
        let all = checks.as_ref().map(|checks| &*checks.0).unwrap_or_default();
        let changes = all.iter().filter_map(|named| named.check.group()).map(|group| group.group.replaced()).sum();
        let seen = (loop_state.generation().number, changes);
        if *self.seen.borrow() == seen {
            return;
        }
        *self.seen.borrow_mut() = seen;
        let mut old = self.running.take();
        let mut begun = Vec::new();
        for named in all {
            let Some(group) = named.check.group() else { continue };
            for peer in group.group.peers().peers().filter(|peer| !peer.settings.down) {
                let key = Key::new(&named.key, peer);
                if Some(key.loop_index(&loop_state.shared)) != loops::index()
                    || self.running.borrow().contains_key(&key)
                {
                    continue;
                }
                let running = match old.remove(&key) {
                    Some(running) => {
                        running.named.replace(named.clone());
                        running.peer.replace(peer.clone());
                        running
                    }
                    None => {
                        if named.check.checking().rules.mandatory {
                            begun.push(key.clone());
                        }
                        self.start(&key, named, peer, loop_state)
                    }
                };
                self.running.borrow_mut().insert(key, running);
            }
        }
        for ended in old.values() {
            ended.stop.notify_one();
        }
        let is_mandatory = |running: &Running<C>| running.named.borrow().check.checking().rules.mandatory;
        let ended: Vec<Key> =
            old.iter().filter(|(_, running)| is_mandatory(running)).map(|(key, _)| key.clone()).collect();
        if !(ended.is_empty() && begun.is_empty())
            && let Some(known) = loop_state.generation().parts.get::<Known<C>>()
        {
            known.change(&ended, &begun);
        }
    }

    fn start(
        self: &Rc<Self>,
        key: &Key,
        named: &Arc<Named<C>>,
        peer: &Arc<Peer>,
        loop_state: &Rc<LoopState>,
    ) -> Rc<Running<C>> {
        let prepared = self.prepared.borrow_mut().remove(key);
        let watch = prepared.unwrap_or_else(|| Watch::new(peer.live().clone(), named.check.checking().rules));
        let running = Rc::new(Running {
            named: RefCell::new(named.clone()),
            peer: RefCell::new(peer.clone()),
            stop: Notify::new(),
        });
        let (watcher, loop_state, task) = (self.clone(), loop_state.clone(), running.clone());
        loops::spawn(0, "checking a server", async move {
            tokio::select! {
                () = task.stop.notified() => {}
                () = watcher.run(&task, watch, &loop_state) => {}
            }
        });
        running
    }

    async fn run(&self, running: &Running<C>, mut watch: Watch, loop_state: &Rc<LoopState>) {
        let mut kept = C::Kept::default();
        let mut random = Random::seeded(RandomState::new().hash_one(0));
        loop {
            let (named, peer) = (running.named.borrow().clone(), running.peer.borrow().clone());
            let check = &named.check;
            let jitter = check.checking().jitter.as_millis() as u64;
            freerun_runtime::timer::sleep(Duration::from_millis(random.below(jitter + 1))).await;
            let answer = check.check(&peer, &mut kept, loop_state, &self.local).await;
            if watch.observe(answer.is_ok(), now()) {
                let name = &peer.name;
                let group = check.group().map(|group| group.name().clone()).unwrap_or_default();
                let log = &loop_state.generation().error_log;
                let about = format_args!("health check {}of peer {name} in upstream \"{group}\"", check.shown());
                match (watch.state(), answer) {
                    (Checked::Unhealthy, Err(what)) => {
                        log.write(Level::Warn, None, format_args!("peer is unhealthy while {what}, {about}"));
                    }
                    _ => log.write(Level::Notice, None, format_args!("peer is healthy, {about}")),
                }
            }
            drop((named, peer));
            let interval = running.named.borrow().check.checking().interval;
            freerun_runtime::timer::sleep(interval).await;
        }
    }
}

/// The checks of the loop's generation; `None` if there are none.
fn checks<C: Check>(loop_state: &Rc<LoopState>) -> Option<Arc<Checks<C>>> {
    loop_state.generation().parts.get::<Checks<C>>().filter(|checks| !checks.0.is_empty())
}
