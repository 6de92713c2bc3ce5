//! The state of one loop that does not depend on what it serves. All of it belongs to the loop's thread.

pub mod admission;
pub mod clock;
pub mod module_states;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use freerun_runtime::log::Level;
use freerun_runtime::loops::{self, LoopStats, Stall};

use self::admission::Admission;
use self::clock::Clock;
use self::module_states::ModuleStates;
use crate::configuration::generation::Generation;
use crate::loops::idle_since_accept::Silent;
use crate::loops::shared::SharedState;
use crate::loops::shed_order::ShedOrder;

/// The state of one loop.
pub struct LoopState {
    /// The number of the loop.
    pub index: usize,
    /// The statistics of the loop.
    pub stats: Arc<LoopStats>,
    /// The order to give connections to other loops.
    pub shedding: Arc<ShedOrder>,
    /// The connections of the loop from which nothing has come yet.
    pub silent: Silent,
    /// The state that all loops share.
    pub shared: Arc<SharedState>,
    /// The limit of connections.
    pub admission: Admission,
    /// Times in the format of header fields.
    pub clock: Clock,
    /// The states of modules on this loop.
    pub modules: ModuleStates,
    generation: RefCell<Arc<Generation>>,
    draining: Cell<bool>,
    /// Requests that go on are cut off.
    is_cut: Cell<bool>,
    drained: Cell<bool>,
}

impl LoopState {
    /// Makes the state of this thread's loop.
    pub(crate) fn new(index: usize, stats: Arc<LoopStats>, shared: Arc<SharedState>) -> Rc<LoopState> {
        let loops = shared.loops.load();
        let shedding = loops.shedding.get(index).cloned().unwrap_or_default();
        let silent = Silent::new(loops.silent.get(index).cloned().unwrap_or_default());
        drop(loops);
        let generation = shared.generation.load_full();
        let state = Rc::new(LoopState {
            index,
            admission: Admission::new(shared.connections, stats.clone()),
            clock: Clock::default(),
            modules: ModuleStates::default(),
            stats,
            shedding,
            silent,
            shared,
            generation: RefCell::new(generation),
            draining: Cell::new(false),
            is_cut: Cell::new(false),
            drained: Cell::new(false),
        });
        let weak = Rc::downgrade(&state);
        loops::set_stall_report(Box::new(move |stall| {
            let Some(state) = weak.upgrade() else { return };
            let Stall { took, ran, without_processor, activity } = *stall;
            let connection = (activity.connection > 0).then_some(activity.connection);
            // Who reads this has to know whether the server did too much, was blocked, or had no processor.
            state.generation().error_log.write_and_keep(
                Level::Warn,
                connection,
                format_args!(
                    "event loop {index} stalled for {} ms in \"{}\": it ran for {} ms and had no processor for {} ms",
                    took.as_millis(),
                    activity.step,
                    ran.as_millis(),
                    without_processor.as_millis()
                ),
            );
        }));
        state
    }

    /// The generation that new requests begin with.
    pub fn generation(&self) -> Arc<Generation> {
        self.generation.borrow().clone()
    }

    /// The number of that generation.
    pub fn generation_number(&self) -> u64 {
        self.generation.borrow().number
    }

    /// Has new requests begin with this generation.
    pub(crate) fn set_generation(&self, generation: Arc<Generation>) {
        *self.generation.borrow_mut() = generation;
    }

    /// Whether this loop takes no new connections, although others do ([`DrainedLoops`](crate::loops::drained_loops::DrainedLoops)).
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.drained.get()
    }

    /// Looks whether this loop takes new connections. Returns whether that has changed.
    pub(crate) fn look_whether_drained(&self) -> bool {
        let drained = self.shared.drained.has(self.index);
        self.drained.replace(drained) != drained
    }

    /// Whether the worker is shutting down.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether requests that go on are cut off, because the time of a worker that is shutting down is up.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Has requests that go on cut off.
    pub(crate) fn set_cut(&self) {
        self.is_cut.set(true);
    }

    /// Notes that the worker is shutting down from now on.
    pub(crate) fn set_draining(&self) {
        self.draining.set(true);
    }
}
