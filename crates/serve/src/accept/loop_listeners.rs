//! The listening sockets of one loop.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use freerun_runtime::{loops, timer};

use crate::accept::receive::Receiving;
use crate::accept::{self, Accepting, Bound, Listener};
use crate::background::Background;
use crate::generation::Generation;
use crate::listen::{ListenSpec, Protocol};
use crate::loop_local::LoopLocal;
use crate::loop_services::LoopServices;
use crate::shared::Shared;

/// How often, and how many times, it is looked whether all sockets of the worker are closed. A loop may be late.
const CLOSING_STEP: Duration = Duration::from_millis(1);
const CLOSING: usize = 1000;

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

/// The services of this thread's loop, if the thread has one.
pub fn services_of_this_loop() -> Option<Rc<LoopServices>> {
    LOOP_LISTENERS.with_borrow(|listeners| listeners.as_ref().map(|listeners| listeners.services.clone()))
}

/// The listening sockets that one loop accepts from.
pub(crate) struct LoopListeners {
    services: Rc<LoopServices>,
    accepting: RefCell<Vec<Rc<Accepting>>>,
    receiving: RefCell<Vec<Rc<Receiving>>>,
}

impl LoopListeners {
    /// Makes the listeners of this thread's loop, without any socket yet.
    pub(crate) fn begin(services: Rc<LoopServices>) {
        LOOP_LISTENERS.set(Some(Rc::new(LoopListeners {
            services,
            accepting: RefCell::default(),
            receiving: RefCell::default(),
        })));
    }

    /// Makes a generation the one that new requests begin with, and accepts from exactly these sockets.
    pub(crate) fn install(&self, generation: Arc<Generation>, wanted: Vec<Bound>) {
        let (services, loop_state) = (&self.services, &self.services.loop_state);
        self.look_whether_drained();
        let mut accepting = self.accepting.borrow_mut();
        // Before the configuration changes: connections that wait at a removed address are served by the old one.
        accepting.retain(|accepting| {
            let keep = wanted.iter().any(|(wanted, ..)| accepting.listener.spec.is(wanted));
            if !keep {
                accepting.end(services);
            }
            keep
        });
        // Sockets are replaced and not closed if only their options have changed: sessions go on.
        let mut receiving = self.receiving.borrow_mut();
        receiving.retain(|receiving| {
            let keep = wanted.iter().any(|(wanted, ..)| receiving.listener.is_at(wanted));
            if !keep {
                receiving.end();
            }
            keep
        });
        loop_state.set_generation(generation);
        services.all().for_each(|service| service.renew());
        loop_state.modules.hand_over();
        for (spec, fds, between) in wanted {
            if spec.protocol == Protocol::Datagram {
                self.receive(&mut receiving, spec, &fds);
                continue;
            }
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

    /// Looks whether this loop takes new connections, and has the tasks that accept them know.
    pub(crate) fn look_whether_drained(&self) {
        if self.services.loop_state.look_whether_drained() {
            self.accepting.borrow().iter().for_each(|accepting| accepting.listener.between.look.notify_waiters());
        }
    }

    /// Receives datagrams from this loop's part of the sockets of an address.
    fn receive(&self, receiving: &mut Vec<Rc<Receiving>>, spec: Arc<ListenSpec>, fds: &[Arc<OwnedFd>]) {
        let loop_state = &self.services.loop_state;
        let own = spec.socket_of(loop_state.index, loop_state.shared.loops.len(), fds.len());
        let Some(fd) = own.and_then(|own| fds.get(own)) else { return };
        if let Some(known) = receiving.iter().find(|receiving| receiving.listener.is_at(&spec)) {
            if !known.listener.spec().is(&spec) {
                known.replace(LoopLocal::new(spec), fd.clone());
            }
            return;
        }
        let Some(service) = self.services.of(&spec) else {
            debug_assert!(false, "{} names a service that the worker does not have", spec.name);
            return;
        };
        receiving.push(Receiving::start(loop_state, LoopLocal::new(spec), fd.clone(), service));
    }

    /// Stops accepting, and drains the services as soon as all sockets of the worker are closed, those that only other loops
    /// accept from as well: a client that is told to go connects anew at once, and what waits in a socket that is closed is
    /// reset. `heard` is dropped after that.
    pub(crate) fn drain(&self, sockets: Arc<[Weak<OwnedFd>]>, heard: Background) {
        self.services.loop_state.set_draining();
        self.accepting.take().iter().for_each(|accepting| accepting.end(&self.services));
        self.receiving.take().iter().for_each(|receiving| receiving.drain());
        let services = self.services.clone();
        loops::spawn(0, "draining", async move {
            for _ in 0..CLOSING {
                if sockets.iter().all(|socket| socket.strong_count() == 0) {
                    break;
                }
                timer::sleep(CLOSING_STEP).await;
            }
            services.all().for_each(|service| service.drain());
            drop(heard);
        });
    }

    /// Ends the tunnels of requests that began with this generation.
    pub(crate) fn end_tunnels(&self, generation: u64) {
        self.services.all().for_each(|service| service.end_tunnels(generation));
    }

    /// Has the modules hand over the data that they have gathered, such as buffered lines of logs.
    pub(crate) fn hand_over(&self) {
        self.services.loop_state.modules.hand_over();
    }
}
