//! The listening sockets of one loop.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::accept::{self, Accepting, Bound, Listener};
use crate::generation::Generation;
use crate::loop_local::LoopLocal;
use crate::loop_services::LoopServices;
use crate::shared::Shared;

thread_local! {
    static LOOP_LISTENERS: RefCell<Option<Rc<LoopListeners>>> = const { RefCell::new(None) };
}

/// Calls `job` with the listeners of this thread's loop, if the thread has one.
pub(crate) fn of_this_loop(job: impl FnOnce(&LoopListeners)) {
    if let Some(listeners) = LOOP_LISTENERS.with_borrow(Clone::clone) {
        job(&listeners);
    }
}

/// Sends a job to the services of a loop; `false` if that loop does not exist, or has ended.
pub fn tell(shared: &Shared, index: usize, job: impl FnOnce(&LoopServices) + Send + 'static) -> bool {
    let remote = shared.remotes.get(index);
    remote.is_some_and(|remote| remote.tell(move || of_this_loop(|listeners| job(&listeners.services))))
}

/// The listening sockets that one loop accepts from.
pub(crate) struct LoopListeners {
    services: Rc<LoopServices>,
    accepting: RefCell<Vec<Rc<Accepting>>>,
}

impl LoopListeners {
    /// Makes the listeners of this thread's loop, without any socket yet.
    pub(crate) fn begin(services: Rc<LoopServices>) {
        LOOP_LISTENERS.set(Some(Rc::new(LoopListeners { services, accepting: RefCell::default() })));
    }

    /// Makes a generation the one that new requests begin with, and accepts from exactly these sockets.
    pub(crate) fn install(&self, generation: Arc<Generation>, wanted: Vec<Bound>) {
        let (services, loop_state) = (&self.services, &self.services.loop_state);
        let mut accepting = self.accepting.borrow_mut();
        // Before the configuration changes: connections that wait at a removed address are served by the old one.
        accepting.retain(|accepting| {
            let keep = wanted.iter().any(|(wanted, ..)| accepting.listener.spec.is(wanted));
            if !keep {
                accepting.end(services);
            }
            keep
        });
        loop_state.set_generation(generation);
        services.all().for_each(|service| service.renew());
        loop_state.modules.hand_over();
        for (spec, fds, between) in wanted {
            if accepting.iter().any(|known| known.listener.spec.is(&spec)) || fds.is_empty() {
                continue;
            }
            let Some(service) = services.of(&spec) else {
                debug_assert!(false, "{} names a service that the worker does not have", spec.name);
                continue;
            };
            let shard = spec.reuseport && fds.len() > 1;
            let fd = fds[if shard { loop_state.index % fds.len() } else { 0 }].clone();
            let only_loop = shard.then_some(loop_state.index);
            let listener = Listener { spec: LoopLocal::new(spec), fd, between, only_loop, service };
            match Accepting::start(services, listener) {
                Ok(started) => accepting.push(started),
                Err(error) => accept::log_failure(loop_state, &error),
            }
        }
    }

    /// Stops accepting, and drains the services.
    pub(crate) fn drain(&self) {
        self.services.loop_state.set_draining();
        for accepting in self.accepting.borrow_mut().drain(..) {
            accepting.end(&self.services);
        }
        self.services.all().for_each(|service| service.drain());
    }

    /// Has the modules hand over the data that they have gathered, such as buffered lines of logs.
    pub(crate) fn hand_over(&self) {
        self.services.loop_state.modules.hand_over();
    }
}
