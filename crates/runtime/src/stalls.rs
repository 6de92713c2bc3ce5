//! Every poll of a task is timed. A poll that holds the loop for too long is a stall, which is counted and reported
//! with the task that ran.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::loop_stats::LoopStats;
use crate::thread_times::ThreadTimes;

/// A poll of a task that takes longer than this is a stall: counted, and logged with the task that ran.
pub const STALL: Duration = Duration::from_millis(10);

/// The activity in a poll, for the line that reports a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The connection's number, 0 for none.
    pub connection: u64,
    /// The step of the request, or the name of the task.
    pub step: &'static str,
}

/// A poll of a task that took longer than [`STALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Duration of the poll.
    pub took: Duration,
    /// Part of it in which the loop's thread ran, at most.
    pub ran: Duration,
    /// Part of it in which the loop's thread was ready and had no processor, at most; zero if the kernel does not count
    /// it.
    pub without_processor: Duration,
    /// Activity of the task.
    pub activity: Activity,
}

/// A function that is called on the loop's thread after a stall.
pub type StallReport = Box<dyn Fn(&Stall)>;

/// The state of a loop for the timing of its polls.
pub(crate) struct Local {
    stats: Arc<LoopStats>,
    report: RefCell<Option<StallReport>>,
}

thread_local! {
    static LOCAL: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
    /// The activity of the current poll.
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity { connection: 0, step: "start" }) };
}

/// Sets this thread up for a loop that has these figures.
pub(crate) fn set_up(stats: Arc<LoopStats>) -> Rc<Local> {
    let local = Rc::new(Local { stats, report: RefCell::new(None) });
    LOCAL.set(Some(local.clone()));
    local
}

/// Ends the timing of this thread's loop.
pub(crate) fn tear_down() {
    LOCAL.set(None);
}

fn local() -> Option<Rc<Local>> {
    LOCAL.with_borrow(Clone::clone)
}

/// The statistics of the loop that runs on this thread, if one does.
pub fn stats() -> Option<Arc<LoopStats>> {
    local().map(|local| local.stats.clone())
}

/// Notes the activity of the current poll, for stall reports.
pub fn note(connection: u64, step: &'static str) {
    ACTIVITY.set(Activity { connection, step });
}

/// Sets the function that is called on this loop after a stall.
pub fn set_stall_report(report: StallReport) {
    if let Some(local) = local() {
        *local.report.borrow_mut() = Some(report);
    }
}

impl Local {
    /// The statistics of the loop.
    pub(crate) fn stats(&self) -> &LoopStats {
        &self.stats
    }
}

/// Polls one after the other with nothing in between: the end of one is the start of the next, so that each costs one
/// reading of the clock.
pub(crate) struct Row<'l> {
    local: &'l Local,
    /// End of the last poll, in nanoseconds since [`epoch`](clock::epoch).
    last: u64,
    times: ThreadTimes,
}

impl<'l> Row<'l> {
    /// A row that begins now.
    pub(crate) fn new(local: &'l Local) -> Row<'l> {
        Row { local, last: clock::look(), times: ThreadTimes::of_this_thread() }
    }

    /// End of the last poll, in nanoseconds since [`epoch`](clock::epoch).
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Reads the clock, because other work was done since the last poll.
    pub(crate) fn look(&mut self) {
        self.last = clock::look();
    }

    /// Prepares for the next polls: what the thread does from here on counts for them.
    pub(crate) fn begin(&mut self) {
        if self.times.refresh(self.last) {
            // The thread may have lost its processor meanwhile: that is no part of a poll.
            self.look();
        }
    }

    /// Polls what is no task. It is not counted; other threads see for how long it goes on
    /// ([`LoopStats::in_poll_for`]).
    pub(crate) fn uncounted<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        self.local.stats.begin_poll(self.last);
        let answer = poll();
        self.local.stats.end_poll();
        self.look();
        answer
    }

    /// Times one poll of a task.
    pub(crate) fn poll<T>(&mut self, activity: Activity, poll: impl FnOnce() -> T) -> T {
        let Row { local, last: start, .. } = *self;
        ACTIVITY.set(activity);
        local.stats.begin_poll(start);
        let answer = poll();
        local.stats.end_poll();
        self.look();
        let took = Duration::from_nanos(self.last.saturating_sub(start));
        local.stats.polls.record_alone(took);
        if took > STALL {
            let times = self.times.since();
            let (ran, without_processor) = (times.ran.min(took), times.waited.min(took));
            let stall = Stall { took, ran, without_processor, activity: ACTIVITY.get() };
            local.stats.stalled(took, without_processor);
            if let Some(report) = &*local.report.borrow() {
                report(&stall);
            }
        }
        answer
    }
}
