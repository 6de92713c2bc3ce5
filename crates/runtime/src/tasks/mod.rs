//! The tasks of a loop: a task is a place in a table, used again by the next one, and the tasks that are ready are
//! polled in a row.
//!
//! There are tasks of all kinds, in boxes ([`loops::spawn`](crate::loops::spawn)), and a few kinds with thousands of
//! tasks in a loop: its connections, a kind for each service. They come after the others, first the short tasks, then
//! the tasks at [`LongWork`]. Each row has a part for these all the same.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::mailbox::Mailbox;
use crate::stalls::{self, Activity, Row};
use crate::turn;
use crate::woken_task::{TableKind, WokenPlace};

/// Number of kinds of tasks that a loop has besides the single ones: a kind for each service.
const KINDS: usize = 4;

/// The bits of a place in a table; those above them say which of the kinds it is.
const PLACE_BITS: u32 = 30;

/// Number of tasks of these kinds that are polled before other tasks of the loop, such as the task that accepts, get
/// their turn.
const TURN: usize = 16;

/// Number of these that are tasks at long work, if there are enough: they go on however many short ones there are. The
/// loop asks the kernel for events before more of them, because short work may have come meanwhile.
const LONG_PART: usize = 4;

/// Number of tasks that a search looks at in a row.
const LOOKED_AT: usize = 1024;

/// The most tasks that are dropped in a row because they end before their time.
const ENDED_AT_ONCE: usize = 64;

/// Number of single tasks that are polled before: each of them serves many connections, except for mirrored requests
/// and the like.
const SINGLES: usize = 64;

/// Number of times that the tasks of an ending loop are dropped: the tasks of the loop, the tasks that they start while
/// they are dropped, and so on.
const ENDS: usize = 4;

const _: () = assert!(KINDS << PLACE_BITS <= 1 << u32::BITS, "a number has room for a kind and a place");
const _: () = assert!(LONG_PART < TURN, "short work has a part of each turn, too");

/// The tasks of one kind on a loop; at most [`KINDS`] kinds on each thread.
pub struct Tasks<F>(Rc<TasksInner<F>>);

impl<F> Clone for Tasks<F> {
    fn clone(&self) -> Self {
        Tasks(self.0.clone())
    }
}

/// A task that is one of a kind.
pub(crate) type Single = Pin<Box<dyn Future<Output = ()>>>;

struct TasksInner<F> {
    table: RefCell<TaskTable<F>>,
    mailbox: Arc<Mailbox>,
    kind: TableKind,
    /// The number of the kind, in the bits above [`PLACE_BITS`].
    base: u32,
    step: &'static str,
}

/// A table of tasks. The code that starts tasks bounds it: connections by `worker_connections`.
///
/// Invariants: each place is free (in `free`, once, without a future), rests (with a future and a waker), or is being polled
/// (without either, and not in `free`). A place that is given to a second task would end the first one, and with it a
/// connection.
struct TaskTable<F> {
    places: Vec<TaskPlace<F>>,
    free: Vec<u32>,
}

struct TaskPlace<F> {
    /// Taken out while it is polled.
    future: Option<F>,
    /// The activity for stall reports.
    activity: Activity,
    bell: Arc<Bell>,
    /// The waker of the bell; taken out while it is used, which saves counting references.
    waker: Option<Waker>,
}

/// The state that wakes the task in one place. It stays with the place: a late call wakes the next task there in vain.
struct Bell {
    mailbox: Arc<Mailbox>,
    woken: WokenPlace,
    /// The place is in one of the queues.
    rung: AtomicBool,
    /// The task is at long work, as of the end of its last poll.
    long: AtomicBool,
}

/// The places woken on this thread.
struct ReadyPlaces {
    /// The loop that they belong to: [`Mailbox::id`]; 0 if no loop runs.
    id: Cell<u64>,
    root: Cell<bool>,
    single: RefCell<VecDeque<u32>>,
    short: RefCell<VecDeque<u32>>,
    long: RefCell<VecDeque<u32>>,
    /// The task that is being polled is at long work.
    at_long: Cell<bool>,
}

/// The operations of this thread's loop on tasks of one of its own kinds.
trait Polls {
    fn is_long(&self, index: u32) -> bool;
    fn poll_one(&self, index: u32, row: &mut Row<'_>);
    /// Notes that the loop is ending.
    fn end(&self);
}

thread_local! {
    static READY: ReadyPlaces =
        const {
            ReadyPlaces {
                id: Cell::new(0),
                root: Cell::new(false),
                single: RefCell::new(VecDeque::new()),
                short: RefCell::new(VecDeque::new()),
                long: RefCell::new(VecDeque::new()),
                at_long: Cell::new(false),
            }
        };
    static SINGLE: RefCell<Option<Tasks<Single>>> = const { RefCell::new(None) };
    static OWN: RefCell<[Option<Rc<dyn Polls>>; KINDS]> = const { RefCell::new([const { None }; KINDS]) };
}

/// The kind of a task that was woken, and its place in the table of this kind.
fn split(index: u32) -> (usize, u32) {
    ((index >> PLACE_BITS) as usize, index & ((1 << PLACE_BITS) - 1))
}

impl ReadyPlaces {
    fn push(&self, woken: WokenPlace, long: bool) {
        let queue = match woken.kind {
            TableKind::Root => return self.root.set(true),
            TableKind::Single => &self.single,
            TableKind::Own if long => &self.long,
            TableKind::Own => &self.short,
        };
        queue.borrow_mut().push_back(woken.index);
    }

    /// The task that is polled next, in a turn that has `left` polls left, `long_left` of them for long work.
    fn pop(&self, left: usize, long_left: &mut usize) -> Option<u32> {
        let short = || self.short.borrow_mut().pop_front();
        let mut long = || {
            let left = long_left.checked_sub(1)?;
            let next = self.long.borrow_mut().pop_front()?;
            *long_left = left;
            Some(next)
        };
        if left > LONG_PART { short().or_else(long) } else { long().or_else(short) }
    }

    fn clear(&self) {
        self.root.set(false);
        [&self.single, &self.short, &self.long].into_iter().for_each(|queue| queue.borrow_mut().clear());
    }
}

/// A guard that a task holds while it does work that takes long anyway, such as sending to a slow client. Others are
/// polled before it, so that thousands of such tasks at once hold up no new request. To be made and dropped in polls of
/// the same task; elsewhere it does nothing.
#[derive(Debug)]
pub struct LongWork(());

impl LongWork {
    /// Begins long work, which counts from the end of this poll on.
    pub fn begin() -> LongWork {
        READY.with(|ready| ready.at_long.set(true));
        LongWork(())
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        // The thread may be ending.
        let _ = READY.try_with(|ready| ready.at_long.set(false));
    }
}

impl Bell {
    fn new(mailbox: &Arc<Mailbox>, kind: TableKind, index: u32) -> Arc<Bell> {
        let no = || AtomicBool::new(false);
        Arc::new(Bell { mailbox: mailbox.clone(), woken: WokenPlace { kind, index }, rung: no(), long: no() })
    }

    /// To be called before the task is polled: later wake-ups then count again.
    fn answer(&self) {
        // This is not a mere store. The poll could read a value that another thread is about to change before that
        // thread sees the store. That thread would assume that the bell is still rung, since a store may be reordered
        // after the loads that follow it.
        self.rung.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let here = READY.try_with(|ready| {
            let own = ready.id.get() == self.mailbox.id;
            if own {
                ready.push(self.woken, self.long.load(Ordering::Relaxed));
            }
            own
        });
        // This is another thread, or a thread that is ending.
        if here != Ok(true) {
            self.mailbox.post(self.woken);
        }
    }
}

/// Prepares this thread for the tasks of a loop.
pub(crate) fn set_up(mailbox: &Arc<Mailbox>) {
    READY.with(|ready| {
        debug_assert!(ready.id.get() == 0 && mailbox.id != 0, "a thread has one loop at a time");
        ready.id.set(mailbox.id);
        ready.clear();
    });
    SINGLE.set(Some(Tasks(TasksInner::new(mailbox.clone(), TableKind::Single, 0, "task"))));
}

/// Drops the tasks of this thread's loop, which is ending.
pub(crate) fn tear_down() {
    // Each task may start others to the last; those are never polled.
    let (own, single) = (OWN.with_borrow(Clone::clone), SINGLE.with_borrow(Clone::clone));
    own.into_iter().flatten().for_each(|own| own.end());
    if let Some(single) = single {
        single.0.end();
    }
    drop((OWN.take(), SINGLE.take()));
    READY.with(|ready| {
        debug_assert!(ready.id.get() != 0, "the tasks of no loop end");
        ready.id.set(0);
        ready.clear();
    });
}

/// Whether a loop runs on this thread.
pub(crate) fn on_a_loop() -> bool {
    READY.with(|ready| ready.id.get() != 0)
}

/// Starts a task.
///
/// # Panics
/// Outside a loop's thread.
pub(crate) fn spawn(activity: Activity, future: Single) {
    let single = SINGLE.with_borrow(Clone::clone).expect("tasks are started on a loop's thread");
    let index = single.0.put(activity, future);
    single.0.ring(index);
}

/// The future that the loop itself runs.
pub(crate) struct Root(Arc<Bell>);

impl Root {
    /// Makes the root, which is polled first of all.
    pub(crate) fn new(mailbox: &Arc<Mailbox>) -> Root {
        let bell = Bell::new(mailbox, TableKind::Root, 0);
        bell.wake_by_ref();
        Root(bell)
    }

    /// The root's waker.
    pub(crate) fn waker(&self) -> Waker {
        self.0.clone().into()
    }

    /// Whether the root was woken since the last call.
    pub(crate) fn is_woken(&self) -> bool {
        let woken = READY.with(|ready| ready.root.take());
        if woken {
            self.0.answer();
        }
        woken
    }
}

/// Takes the tasks that other threads have woken.
pub(crate) fn take_from_others(mailbox: &Mailbox) {
    while let Some(woken) = mailbox.woken.pop() {
        let (kind, place) = split(woken.index);
        let is_long = |own: &[Option<Rc<dyn Polls>>; KINDS]| own[kind].as_ref().is_some_and(|own| own.is_long(place));
        let long = woken.kind == TableKind::Own && OWN.with_borrow(is_long);
        READY.with(|ready| ready.push(woken, long));
    }
}

/// The kinds of tasks that wait to be polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitingKinds {
    /// No tasks.
    Nobody,
    /// Only tasks at long work.
    LongWork,
    /// Other tasks, or both kinds.
    Others,
}

/// The kinds of tasks that wait to be polled.
pub(crate) fn waiting() -> WaitingKinds {
    READY.with(|ready| {
        let others = [&ready.single, &ready.short];
        if ready.root.get() || others.iter().any(|queue| !queue.borrow().is_empty()) {
            WaitingKinds::Others
        } else if ready.long.borrow().is_empty() {
            WaitingKinds::Nobody
        } else {
            WaitingKinds::LongWork
        }
    })
}

/// Polls single tasks that are ready now, and a turn of the others.
pub(crate) fn turn(row: &mut Row<'_>) {
    let ready = READY.with(|ready| ready.single.borrow().len()).min(SINGLES);
    if ready > 0
        && let Some(single) = SINGLE.with_borrow(Clone::clone)
    {
        for _ in 0..ready {
            let Some(index) = READY.with(|ready| ready.single.borrow_mut().pop_front()) else { break };
            turn::fill_budget();
            single.0.poll_one(index, row);
        }
    }
    let mut own: (usize, Option<Rc<dyn Polls>>) = (0, None);
    turn::fill_budget();
    let mut long_left = LONG_PART;
    for left in (1..=TURN).rev() {
        let Some(index) = READY.with(|ready| ready.pop(left, &mut long_left)) else { break };
        let (kind, place) = split(index);
        if own.0 != kind || own.1.is_none() {
            own = (kind, OWN.with_borrow(|own| own[kind].clone()));
        }
        if let Some(own) = &own.1 {
            own.poll_one(place, row);
        }
        if !turn::has_budget() {
            break;
        }
    }
}

impl<F: Future<Output = ()> + Unpin + 'static> Tasks<F> {
    /// Prepares this loop for tasks of this kind, which stall reports call `step`. A panic in one of them ends that
    /// task alone.
    ///
    /// # Panics
    /// Outside a loop's thread, or if the loop has [`KINDS`] kinds already.
    pub fn new(step: &'static str) -> Tasks<F> {
        let mailbox = SINGLE.with_borrow(|single| single.as_ref().map(|single| single.0.mailbox.clone()));
        let mailbox = mailbox.expect("a loop's tasks are on its thread");
        OWN.with_borrow_mut(|own| {
            let number = own.iter().position(Option::is_none).expect("a loop has few kinds of tasks");
            let inner = TasksInner::new(mailbox, TableKind::Own, (number as u32) << PLACE_BITS, step);
            own[number] = Some(inner.clone());
            Tasks(inner)
        })
    }

    /// Starts a task; it is polled soon.
    pub fn start(&self, number: u64, future: F) {
        let index = self.0.put(self.0.activity(number), future);
        self.0.ring(index);
    }

    /// Takes up to `most` tasks out for which `is_wanted` is true, of the next few from `from` on: they end when the caller drops
    /// them. A task that is being polled is not looked at. Returns them, and where to go on; `None` behind the last one.
    pub fn take_some(
        &self,
        from: usize,
        most: usize,
        mut is_wanted: impl FnMut(&F) -> bool,
    ) -> (Vec<F>, Option<usize>) {
        let mut taken = Vec::new();
        let mut table = self.0.table.borrow_mut();
        let TaskTable { places, free } = &mut *table;
        let len = places.len();
        debug_assert!(most > 0, "nothing would ever be taken");
        let end = len.min(from.saturating_add(LOOKED_AT));
        for (index, place) in places.iter_mut().enumerate().take(end).skip(from) {
            if taken.len() == most {
                return (taken, Some(index));
            }
            if let Some(future) = place.future.take_if(|future| is_wanted(future)) {
                taken.push(future);
                place.bell.long.store(false, Ordering::Relaxed);
                // The table has no more places than a `u32` can number.
                free.extend(u32::try_from(index));
                debug_assert!(free.len() <= len, "a place is free twice");
            }
        }
        (taken, Some(end).filter(|end| *end < len))
    }

    /// Wakes all tasks.
    pub fn wake_all(&self) {
        let bells: Vec<_> = {
            let table = self.0.table.borrow();
            table.places.iter().filter(|place| place.future.is_some()).map(|place| place.bell.clone()).collect()
        };
        bells.iter().for_each(|bell| bell.wake_by_ref());
    }

    /// Ends the tasks for which `is_wanted` is true, a few at a time; `give_way` lets others have their turn.
    pub async fn end_where(&self, mut is_wanted: impl FnMut(&F) -> bool, give_way: impl AsyncFn()) {
        let mut from = Some(0);
        while let Some(first) = from {
            let (ended, next) = self.take_some(first, ENDED_AT_ONCE, &mut is_wanted);
            from = next;
            drop(ended);
            give_way().await;
        }
    }

    /// Starts a task and polls it within the current poll, as a part of it. Call it as the last step of that poll, or
    /// several times one after the other.
    pub fn start_now(&self, number: u64, future: F) {
        let index = self.0.put(self.0.activity(number), future);
        stalls::note(number, self.0.step);
        if let Some(taken) = self.0.take(index) {
            self.0.poll(index, taken);
        }
    }
}

impl<F: Future<Output = ()> + Unpin> TasksInner<F> {
    fn new(mailbox: Arc<Mailbox>, kind: TableKind, base: u32, step: &'static str) -> Rc<TasksInner<F>> {
        let table = RefCell::new(TaskTable { places: Vec::new(), free: Vec::new() });
        Rc::new(TasksInner { table, mailbox, kind, base, step })
    }

    fn activity(&self, connection: u64) -> Activity {
        Activity { connection, step: self.step }
    }

    fn put(&self, activity: Activity, future: F) -> u32 {
        let mut table = self.table.borrow_mut();
        if let Some(index) = table.free.pop()
            && let Some(place) = table.places.get_mut(index as usize)
        {
            debug_assert!(place.future.is_none() && place.waker.is_some(), "place {index} has a task already");
            place.future = Some(future);
            place.activity = activity;
            return index;
        }
        let index = u32::try_from(table.places.len()).unwrap_or(u32::MAX);
        debug_assert!(index >> PLACE_BITS == 0, "a loop has less than 2^{PLACE_BITS} tasks of a kind");
        let bell = Bell::new(&self.mailbox, self.kind, self.base | index);
        let waker = Some(Waker::from(bell.clone()));
        table.places.push(TaskPlace { future: Some(future), activity, bell, waker });
        index
    }

    fn ring(&self, index: u32) {
        let bell = self.table.borrow().places.get(index as usize).map(|place| place.bell.clone());
        if let Some(bell) = bell {
            bell.wake_by_ref();
        }
    }

    /// Takes the future in this place out to be polled. [`TasksInner::poll`] puts it back, or frees the place.
    fn take(&self, index: u32) -> Option<TakenTask<F>> {
        let mut table = self.table.borrow_mut();
        let place = table.places.get_mut(index as usize)?;
        place.bell.answer();
        let future = place.future.take()?;
        debug_assert!(place.waker.is_some(), "a task that rests has its waker");
        let waker = place.waker.take().unwrap_or_else(|| Waker::from(place.bell.clone()));
        Some(TakenTask { future, activity: place.activity, waker, long: place.bell.long.load(Ordering::Relaxed) })
    }

    fn poll(&self, index: u32, taken: TakenTask<F>) {
        let TakenTask { mut future, waker, long, .. } = taken;
        let outer = READY.with(|ready| ready.at_long.replace(long));
        let mut context = Context::from_waker(&waker);
        let poll = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(&mut context)));
        let rest = if let Ok(Poll::Pending) = poll {
            Some(future)
        } else {
            // The panic hook has reported a panic; the other tasks go on.
            drop(catch_unwind(AssertUnwindSafe(|| drop(future))));
            None
        };
        let long = READY.with(|ready| ready.at_long.replace(outer));
        let mut table = self.table.borrow_mut();
        if rest.is_none() && (index as usize) < table.places.len() {
            table.free.push(index);
            debug_assert!(table.free.len() <= table.places.len(), "a place is free twice");
        }
        if let Some(place) = table.places.get_mut(index as usize) {
            debug_assert!(place.future.is_none() && place.waker.is_none(), "place {index} was given away meanwhile");
            place.bell.long.store(long && rest.is_some(), Ordering::Relaxed);
            place.future = rest;
            place.waker = Some(waker);
        }
    }
}

impl<F: Future<Output = ()> + Unpin> Polls for TasksInner<F> {
    fn is_long(&self, index: u32) -> bool {
        self.table.borrow().places.get(index as usize).is_some_and(|place| place.bell.long.load(Ordering::Relaxed))
    }

    fn poll_one(&self, index: u32, row: &mut Row<'_>) {
        if let Some(taken) = self.take(index) {
            row.poll(taken.activity, || self.poll(index, taken));
        }
    }

    fn end(&self) {
        // The tasks may own values that own this table, and each may start another one to the last.
        for _ in 0..ENDS {
            // The free places are gone with the others.
            let TaskTable { places, free: _ } =
                std::mem::replace(&mut *self.table.borrow_mut(), TaskTable { places: Vec::new(), free: Vec::new() });
            if places.is_empty() {
                break;
            }
            drop(places);
        }
    }
}

struct TakenTask<F> {
    future: F,
    activity: Activity,
    waker: Waker,
    long: bool,
}

#[cfg(test)]
mod tests;
