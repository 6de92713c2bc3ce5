//! The services of one loop, and the way that connections take to them.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::{loops, timer};
use freerun_transport::Transport;
use rustix::io::Errno;

use crate::address::Address;
use crate::listen::ListenSpec;
use crate::loop_local::LoopLocal;
use crate::loop_state::LoopState;
use crate::service::{Accepted, Asked, MakeService, Service};
use crate::shared::Shared;

thread_local! {
    static LOOP_SERVICES: RefCell<Option<Rc<LoopServices>>> = const { RefCell::new(None) };
}

/// The services of this thread's loop, if the thread has one.
pub(crate) fn of_this_loop() -> Option<Rc<LoopServices>> {
    LOOP_SERVICES.with_borrow(Clone::clone)
}

/// Sends a job to the services of a loop; `false` if that loop does not exist, or has ended.
pub fn tell(shared: &Shared, index: usize, job: impl FnOnce(&Rc<LoopServices>) + Send + 'static) -> bool {
    shared.remotes.get(index).is_some_and(|remote| {
        remote.tell(move || {
            if let Some(services) = of_this_loop() {
                job(&services);
            }
        })
    })
}

/// The services of one loop: they share its state and its `worker_connections`.
pub struct LoopServices {
    /// The state of the loop.
    pub loop_state: Rc<LoopState>,
    all: Vec<Rc<dyn Service>>,
}

impl LoopServices {
    /// Makes the services of this thread's loop.
    pub(crate) fn begin(loop_state: &Rc<LoopState>, makers: &[MakeService]) -> Rc<LoopServices> {
        let all = makers.iter().map(|make| make(loop_state)).collect();
        let services = Rc::new(LoopServices { loop_state: loop_state.clone(), all });
        LOOP_SERVICES.set(Some(services.clone()));
        services
    }

    /// All services of the loop.
    pub fn all(&self) -> impl Iterator<Item = Rc<dyn Service>> + '_ {
        self.all.iter().cloned()
    }

    /// The service that a listening socket names.
    pub fn of(&self, listen: &ListenSpec) -> Option<Rc<dyn Service>> {
        self.all.iter().find(|service| service.name() == listen.service).cloned()
    }

    /// Hands a connection that was just accepted to a service: see [`Accepted`]. Returns whether the connection is
    /// still open.
    pub fn accepted(
        &self,
        service: Rc<dyn Service>,
        (fd, peer): (OwnedFd, Address),
        listen: &LoopLocal<ListenSpec>,
        now: bool,
    ) -> bool {
        let before = self.loop_state.admission.open();
        self.loop_state.admission.begin();
        let number = self.loop_state.shared.next_connection();
        service.accept(Accepted { number, transport: Transport::plain(fd), peer, listen: listen.clone(), now });
        self.loop_state.admission.open() > before
    }

    /// Whether another connection may be accepted. At the limit, the connection that has been idle longest is closed to
    /// make room, as in nginx.
    pub fn has_room(&self) -> bool {
        let admission = &self.loop_state.admission;
        if !admission.is_full() {
            return true;
        }
        let asked = self.close_oldest();
        admission.log_full(&self.loop_state.generation().error_log, asked == Asked::One);
        if let Asked::Later(time) = asked
            && admission.may_look_later()
        {
            let loop_state = self.loop_state.clone();
            loops::spawn(0, "waiting for room", async move {
                timer::sleep_until(time).await;
                loop_state.admission.look();
            });
        }
        false
    }

    /// Asks the services one after the other to close an idle connection, until one of them does.
    fn close_oldest(&self) -> Asked {
        let mut best = Asked::Nobody;
        for service in &self.all {
            best = match (service.close_oldest(), best) {
                (Asked::One, _) => return Asked::One,
                (Asked::Later(one), Asked::Later(other)) => Asked::Later(one.min(other)),
                (Asked::Nobody, best) => best,
                (later, _) => later,
            };
        }
        best
    }

    /// Handles a lack of descriptors or memory, which is logged once for each pause. Memory and descriptors that are
    /// kept only for speed are freed, and the connection that has been idle longest is closed.
    pub fn accept_failed(&self, error: Errno) {
        let level = if matches!(error, Errno::MFILE | Errno::NFILE) { Level::Crit } else { Level::Alert };
        let shown = io::Error::from(error);
        let log = &self.loop_state.generation().error_log;
        log.write(level, None, format_args!("accept4() failed ({})", ShowErrno(&shown)));
        self.all.iter().for_each(|service| service.give_back());
        self.close_oldest();
    }
}
