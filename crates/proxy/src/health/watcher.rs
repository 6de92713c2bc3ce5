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
use freerun_serve::loop_state::LoopState;
use freerun_upstream::health::{Checked, Watch};
use freerun_upstream::random::Random;
use freerun_upstream::{Peer, now};
use tokio::sync::Notify;

use crate::health::probe::{self, NoConnection};
use crate::health::{Check, Checks, Known};

/// The interval at which groups are checked for changed servers.
const LOOK: Duration = Duration::from_millis(500);

/// The key of a server's check, whose state is kept over a reload while it stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key of the check: [`Check::key`].
    check: Arc<str>,
    /// The number of the server.
    server: u32,
}

impl Key {
    /// The key of this check of this server.
    pub fn new(check: &Check, peer: &Peer) -> Key {
        Key { check: check.key.clone(), server: peer.id }
    }

    /// The index of the loop that runs the check, among so many.
    pub fn loop_index(&self, loops: usize) -> usize {
        (BuildHasherDefault::<DefaultHasher>::default().hash_one(self) % loops.max(1) as u64) as usize
    }
}

struct Running {
    check: RefCell<Arc<Check>>,
    peer: RefCell<Arc<Peer>>,
    stop: Notify,
}

/// The checks that a loop runs.
#[derive(Default)]
pub struct Watcher {
    running: RefCell<HashMap<Key, Rc<Running>>>,
    /// The checks that were prepared before their generation took requests.
    prepared: RefCell<HashMap<Key, Watch>>,
    looking: Cell<bool>,
    /// The number of the generation, and how often its groups changed.
    seen: RefCell<(u64, u64)>,
    no_connection: NoConnection,
}

impl Watcher {
    /// Keeps checks that begin soon.
    pub fn prepare(&self, watches: Vec<(Key, Watch)>) {
        self.prepared.borrow_mut().extend(watches);
    }

    /// Starts the checks of a generation that has begun to take requests.
    pub fn begin(self: &Rc<Self>, loop_state: &Rc<LoopState>) {
        self.look(loop_state);
        self.prepared.borrow_mut().clear();
        if self.looking.get() || self.running.borrow().is_empty() && checks(loop_state).is_none() {
            return;
        }
        self.looking.set(true);
        let (watcher, loop_state) = (self.clone(), loop_state.clone());
        loops::spawn(0, "looking after health checks", async move {
            while checks(&loop_state).is_some() {
                freerun_runtime::timer::sleep(LOOK).await;
                watcher.look(&loop_state);
            }
            watcher.looking.set(false);
        });
    }

    /// Starts and ends checks, so that they match the configuration and the current servers of the groups.
    fn look(self: &Rc<Self>, loop_state: &Rc<LoopState>) {
        let checks = checks(loop_state);
        let all = checks.as_ref().map(|checks| &*checks.0).unwrap_or_default();
        let changes = all.iter().filter_map(|check| check.group()).map(|group| group.group.replaced()).sum();
        let seen = (loop_state.generation().number, changes);
        if *self.seen.borrow() == seen {
            return;
        }
        *self.seen.borrow_mut() = seen;
        let mut old = self.running.take();
        let mut begun = Vec::new();
        for check in all {
            let Some(group) = check.group() else { continue };
            for peer in group.group.peers().peers().filter(|peer| !peer.settings.down) {
                let key = Key::new(check, peer);
                if Some(key.loop_index(loops::count())) != loops::index() || self.running.borrow().contains_key(&key) {
                    continue;
                }
                let running = match old.remove(&key) {
                    Some(running) => {
                        running.check.replace(check.clone());
                        running.peer.replace(peer.clone());
                        running
                    }
                    None => {
                        if check.rules.rules.mandatory {
                            begun.push(key.clone());
                        }
                        self.start(&key, check, peer, loop_state)
                    }
                };
                self.running.borrow_mut().insert(key, running);
            }
        }
        for ended in old.values() {
            ended.stop.notify_one();
        }
        let is_mandatory = |running: &Running| running.check.borrow().rules.rules.mandatory;
        let ended: Vec<Key> =
            old.iter().filter(|(_, running)| is_mandatory(running)).map(|(key, _)| key.clone()).collect();
        if !(ended.is_empty() && begun.is_empty())
            && let Some(known) = loop_state.generation().parts.get::<Known>()
        {
            known.change(&ended, &begun);
        }
    }

    fn start(
        self: &Rc<Self>,
        key: &Key,
        check: &Arc<Check>,
        peer: &Arc<Peer>,
        loop_state: &Rc<LoopState>,
    ) -> Rc<Running> {
        let prepared = self.prepared.borrow_mut().remove(key);
        let watch = prepared.unwrap_or_else(|| Watch::new(peer.live().clone(), check.rules.rules));
        let running = Rc::new(Running {
            check: RefCell::new(check.clone()),
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

    async fn run(&self, running: &Running, mut watch: Watch, loop_state: &Rc<LoopState>) {
        let mut kept = None;
        let mut random = Random::seeded(RandomState::new().hash_one(0));
        loop {
            let (check, peer) = (running.check.borrow().clone(), running.peer.borrow().clone());
            let jitter = Duration::from_millis(random.below(check.rules.jitter.as_millis() as u64 + 1));
            freerun_runtime::timer::sleep(jitter).await;
            let answer = probe::check(&check, &peer, &mut kept, loop_state, &self.no_connection).await;
            if watch.observe(answer.is_ok(), now()) {
                let (name, group) = (&peer.name, &check.name);
                let log = &loop_state.generation().error_log;
                let about = format_args!("health check \"{}\" of peer {name} in upstream \"{group}\"", check.rules.uri);
                match (watch.state(), answer) {
                    (Checked::Unhealthy, Err(what)) => {
                        log.write(Level::Warn, None, format_args!("peer is unhealthy while {what}, {about}"));
                    }
                    _ => log.write(Level::Notice, None, format_args!("peer is healthy, {about}")),
                }
            }
            drop((check, peer));
            let interval = running.check.borrow().rules.interval;
            freerun_runtime::timer::sleep(interval).await;
        }
    }
}

/// The checks of the loop's generation; `None` if there are none.
fn checks(loop_state: &Rc<LoopState>) -> Option<Arc<Checks>> {
    loop_state.generation().parts.get::<Checks>().filter(|checks| !checks.0.is_empty())
}
