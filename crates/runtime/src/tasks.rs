//! Tasks of one kind, of which a loop has thousands: all of them in one task of the runtime.
//!
//! A task of the runtime is an allocation of its own, aligned to 128 bytes, which malloc serves badly, and each of its polls
//! goes through the runtime's queues. Here a task is a place in a table, used again by the next one, and what is ready is
//! polled in a row: first what is short, then what is [`LongWork`], of which each row has a part all the same.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use crossbeam_queue::SegQueue;

use crate::loops::{self, Activity};

/// How many tasks are polled before other tasks of the loop, such as the one that accepts, have their turn.
const TURN: usize = 16;

/// How many of them are tasks at long work, if so many are ready: however many short ones there are, these go on.
const LONG_PART: usize = 4;

/// How long tasks are polled before the kernel is asked for events, in nanoseconds. The runtime by itself asks after 61 of its
/// own polls, each of which is a turn here: with a thousand connections that all have much to send, a new request was not
/// seen for a second.
const UNASKED: u64 = 1_000_000;

/// The tasks of one kind on a loop; at most one kind on each thread.
pub struct Tasks<F>(Rc<Inner<F>>);

impl<F> Clone for Tasks<F> {
    fn clone(&self) -> Self {
        Tasks(self.0.clone())
    }
}

struct Inner<F> {
    table: RefCell<Table<F>>,
    mailbox: Arc<Mailbox>,
    step: &'static str,
}

/// Bounded by whoever starts tasks: connections by `worker_connections`.
struct Table<F> {
    places: Vec<Place<F>>,
    free: Vec<u32>,
}

struct Place<F> {
    /// Taken out while it is polled.
    future: Option<F>,
    /// For stall reports.
    number: u64,
    bell: Arc<Bell>,
    /// Of the bell; taken out while it is used, which spares counting it.
    waker: Option<Waker>,
}

/// What wakes the task in one place. It stays with the place: a late call wakes the next task there for nothing.
struct Bell {
    mailbox: Arc<Mailbox>,
    index: u32,
    /// The place is in one of the queues.
    rung: AtomicBool,
    /// The task there is at long work, as it was at the end of its last poll.
    long: AtomicBool,
}

/// How other threads reach the tasks of a loop.
struct Mailbox {
    id: u64,
    /// Places that other threads have woken: each once at most.
    woken: SegQueue<u32>,
    /// Wakes the runner.
    runner: OnceLock<Waker>,
}

/// The places woken on this thread.
struct Ready {
    /// Whose they are: [`Mailbox::id`].
    id: Cell<u64>,
    short: RefCell<VecDeque<u32>>,
    long: RefCell<VecDeque<u32>>,
    /// The task that is being polled is at long work.
    at_long: Cell<bool>,
    /// The runner runs, or will run without being woken again.
    awake: Cell<bool>,
    /// When the kernel was last asked for events on behalf of these tasks.
    asked: Cell<u64>,
}

thread_local! {
    static READY: Ready =
        const {
            Ready {
                id: Cell::new(0),
                short: RefCell::new(VecDeque::new()),
                long: RefCell::new(VecDeque::new()),
                at_long: Cell::new(false),
                awake: Cell::new(false),
                asked: Cell::new(0),
            }
        };
}

impl Ready {
    fn push(&self, index: u32, long: bool) {
        let queue = if long { &self.long } else { &self.short };
        queue.borrow_mut().push_back(index);
    }

    /// Whose poll is next in a turn of which so many are left.
    fn pop(&self, left: usize) -> Option<u32> {
        let (first, then) = if left > LONG_PART { (&self.short, &self.long) } else { (&self.long, &self.short) };
        let next = first.borrow_mut().pop_front();
        next.or_else(|| then.borrow_mut().pop_front())
    }

    fn is_empty(&self) -> bool {
        self.short.borrow().is_empty() && self.long.borrow().is_empty()
    }
}

/// What a task holds while it does what takes long anyway, such as sending to a client that has to be waited for: others are
/// polled before it, so that thousands of such tasks that are ready at once hold up no new request. To be made and dropped in
/// polls of the same task; elsewhere it does nothing.
#[derive(Debug)]
pub struct LongWork(());

impl LongWork {
    /// From the end of this poll on.
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
                ready.push(self.index, self.long.load(Ordering::Relaxed));
            }
            (own, own && ready.awake.replace(true))
        });
        match here {
            Ok((true, true)) => return,
            Ok((true, false)) => {}
            // Another thread, or one that is ending.
            _ => self.mailbox.woken.push(self.index),
        }
        if let Some(runner) = self.mailbox.runner.get() {
            runner.wake_by_ref();
        }
    }
}

impl<F: Future<Output = ()> + Unpin + 'static> Tasks<F> {
    /// Prepares this thread for tasks of this kind, which stall reports call `step`. What panics in one of them ends that
    /// task alone.
    ///
    /// # Panics
    /// Outside a loop's thread.
    pub fn new(step: &'static str) -> Tasks<F> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox { id, woken: SegQueue::new(), runner: OnceLock::new() });
        READY.with(|ready| {
            ready.id.set(id);
            ready.short.borrow_mut().clear();
            ready.long.borrow_mut().clear();
            ready.awake.set(true);
        });
        let table = RefCell::new(Table { places: Vec::new(), free: Vec::new() });
        let inner = Rc::new(Inner { table, mailbox, step });
        tokio::task::spawn_local(Runner(inner.clone()));
        Tasks(inner)
    }

    /// Starts a task; it is polled soon.
    pub fn start(&self, number: u64, future: F) {
        let index = self.0.put(number, future);
        self.0.ring(index);
    }

    /// Starts a task and polls it within the poll that is going on, as a part of it: to be called as its last step, or several
    /// times one after the other.
    pub fn start_now(&self, number: u64, future: F) {
        let index = self.0.put(number, future);
        loops::note(number, self.0.step);
        if let Some(taken) = self.0.take(index) {
            self.0.poll(index, taken);
        }
    }
}

impl<F: Future<Output = ()> + Unpin> Inner<F> {
    fn put(&self, number: u64, future: F) -> u32 {
        let mut table = self.table.borrow_mut();
        if let Some(index) = table.free.pop()
            && let Some(place) = table.places.get_mut(index as usize)
        {
            place.future = Some(future);
            place.number = number;
            return index;
        }
        let index = u32::try_from(table.places.len()).unwrap_or(u32::MAX);
        let (mailbox, no) = (self.mailbox.clone(), || AtomicBool::new(false));
        let bell = Arc::new(Bell { mailbox, index, rung: no(), long: no() });
        let waker = Some(Waker::from(bell.clone()));
        table.places.push(Place { future: Some(future), number, bell, waker });
        index
    }

    fn ring(&self, index: u32) {
        let bell = self.table.borrow().places.get(index as usize).map(|place| place.bell.clone());
        if let Some(bell) = bell {
            bell.wake_by_ref();
        }
    }

    fn is_long(&self, index: u32) -> bool {
        self.table.borrow().places.get(index as usize).is_some_and(|place| place.bell.long.load(Ordering::Relaxed))
    }

    /// What is to be polled in this place. [`Inner::poll`] puts it back, or gives the place back.
    fn take(&self, index: u32) -> Option<Taken<F>> {
        let mut table = self.table.borrow_mut();
        let place = table.places.get_mut(index as usize)?;
        // What wakes it from here on wakes it again.
        place.bell.rung.store(false, Ordering::Release);
        let future = place.future.take()?;
        let waker = place.waker.take().unwrap_or_else(|| Waker::from(place.bell.clone()));
        Some(Taken { future, number: place.number, waker, long: place.bell.long.load(Ordering::Relaxed) })
    }

    fn poll(&self, index: u32, taken: Taken<F>) {
        let Taken { mut future, waker, long, .. } = taken;
        let outer = READY.with(|ready| ready.at_long.replace(long));
        let mut context = Context::from_waker(&waker);
        let poll = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(&mut context)));
        let rest = if let Ok(Poll::Pending) = poll {
            Some(future)
        } else {
            // The panic hook has told of a panic; the other tasks go on.
            drop(catch_unwind(AssertUnwindSafe(|| drop(future))));
            None
        };
        let long = READY.with(|ready| ready.at_long.replace(outer));
        let mut table = self.table.borrow_mut();
        if rest.is_none() {
            table.free.push(index);
        }
        if let Some(place) = table.places.get_mut(index as usize) {
            place.bell.long.store(long && rest.is_some(), Ordering::Relaxed);
            place.future = rest;
            place.waker = Some(waker);
        }
    }
}

struct Taken<F> {
    future: F,
    number: u64,
    waker: Waker,
    long: bool,
}

/// The runtime's task in which all of them run.
struct Runner<F: Future<Output = ()> + Unpin>(Rc<Inner<F>>);

impl<F: Future<Output = ()> + Unpin> Future for Runner<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let inner = &*self.0;
        // The waker of a task stays the same one.
        inner.mailbox.runner.get_or_init(|| context.waker().clone());
        READY.with(|ready| {
            ready.awake.set(true);
            while let Some(index) = inner.mailbox.woken.pop() {
                ready.push(index, inner.is_long(index));
            }
            let mut left = TURN;
            let mut now = 0;
            loops::timed_in_a_row(|row| {
                while left > 0 && tokio::task::coop::has_budget_remaining() {
                    let Some(index) = ready.pop(left) else { break };
                    if let Some(taken) = inner.take(index) {
                        let activity = Activity { connection: taken.number, step: inner.step };
                        row.poll(activity, || inner.poll(index, taken));
                    }
                    left -= 1;
                }
                now = row.now();
            });
            if ready.is_empty() {
                ready.awake.set(false);
                ready.asked.set(now);
            } else if now.saturating_sub(ready.asked.get()) < UNASKED {
                context.waker().wake_by_ref();
            } else {
                ready.asked.set(now);
                // The runtime wakes this after it has asked.
                let _ = pin!(tokio::task::yield_now()).poll(context);
            }
        });
        Poll::Pending
    }
}

impl<F: Future<Output = ()> + Unpin> Drop for Runner<F> {
    fn drop(&mut self) {
        // The loop is ending. The tasks may hold on to what holds on to this table.
        let places = std::mem::take(&mut self.0.table.borrow_mut().places);
        drop(places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::LoopHandle;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A task made of a closure.
    struct Job(Box<dyn Steps>);

    trait Steps {
        fn step(&mut self, context: &mut Context<'_>) -> Poll<()>;
    }

    impl<F: FnMut(&mut Context<'_>) -> Poll<()> + Send> Steps for F {
        fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
            self(context)
        }
    }

    impl Future for Job {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.0.step(context)
        }
    }

    fn job(poll: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static) -> Job {
        Job(Box::new(poll))
    }

    /// A task that sends its waker at its first poll and its number at the second one.
    fn two_polls(number: u64, wakers: &Sender<Waker>, done: &Sender<u64>) -> Job {
        let (wakers, done, mut first) = (wakers.clone(), done.clone(), true);
        job(move |context| {
            if std::mem::take(&mut first) {
                wakers.send(context.waker().clone()).unwrap();
                return Poll::Pending;
            }
            done.send(number).unwrap();
            Poll::Ready(())
        })
    }

    fn on_a_loop(test: impl FnOnce(Tasks<Job>) + Send + 'static) -> LoopHandle {
        let handle = LoopHandle::start(0, None).unwrap();
        handle.tell(move || test(Tasks::new("testing")));
        handle
    }

    #[test]
    fn tasks_are_woken_by_other_threads_and_more_often_than_they_need() {
        let (wakers, woken): (_, Receiver<Waker>) = channel();
        let (done, finished) = channel();
        const TASKS: u64 = 100;
        let handle = on_a_loop(move |tasks| {
            for number in 0..TASKS {
                tasks.start(number, two_polls(number, &wakers, &done));
            }
        });
        let wakers: Vec<Waker> = woken.iter().take(TASKS as usize).collect();
        for waker in &wakers {
            waker.wake_by_ref();
            waker.wake_by_ref();
        }
        let mut all: Vec<u64> = finished.iter().take(TASKS as usize).collect();
        all.sort_unstable();
        assert_eq!(all, (0..TASKS).collect::<Vec<_>>());
        // The tasks are over: nothing happens.
        wakers.iter().for_each(Waker::wake_by_ref);
        handle.stop();
        wakers.iter().for_each(Waker::wake_by_ref);
    }

    #[test]
    fn a_place_is_used_again_and_a_panic_ends_one_task_alone() {
        let (send, receive) = channel();
        let (done, finished) = channel();
        let handle = on_a_loop(move |tasks| {
            tasks.start(1, job(|_| panic!("a task that panics, as this test wants")));
            let mut yields = 3;
            let inner = tasks.clone();
            tasks.start(
                2,
                job(move |context| {
                    if yields > 0 {
                        yields -= 1;
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                }),
            );
            let (wakers, _keep) = channel();
            std::mem::forget(_keep);
            crate::loops::spawn(0, "looking", async move {
                while inner.0.table.borrow().free.len() < 2 {
                    crate::loops::yield_now().await;
                }
                inner.start_now(3, two_polls(3, &wakers, &done));
                inner.start(4, two_polls(4, &wakers, &done));
                send.send(inner.0.table.borrow().places.len()).unwrap();
            });
        });
        assert_eq!(receive.recv().unwrap(), 2);
        handle.stop();
        // What was not over was dropped with the loop.
        assert!(finished.recv().is_err());
    }

    #[test]
    fn events_are_seen_while_others_always_go_on() {
        use std::io::Write as _;
        use std::os::fd::OwnedFd;
        use std::os::unix::net::UnixStream;

        let (done, finished) = channel();
        let handle = on_a_loop(move |tasks| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let fd = Arc::new(OwnedFd::from(ours));
            let polls = Rc::new(Cell::new(0_u32));
            crate::loops::spawn(0, "waiting for an event", async move {
                let registered = freerun_sys::registered::register(fd, tokio::io::Interest::READABLE).unwrap();
                let hog = polls.clone();
                // As long as a connection that has much to send.
                struct Hog(Rc<Cell<u32>>);
                impl Steps for Hog {
                    fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
                        let start = std::time::Instant::now();
                        while start.elapsed() < std::time::Duration::from_nanos(UNASKED / 4) {
                            std::hint::spin_loop();
                        }
                        self.0.set(self.0.get() + 1);
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
                for number in 0..4 {
                    tasks.start(number, Job(Box::new(Hog(hog.clone()))));
                }
                while polls.get() < 100 {
                    crate::loops::yield_now().await;
                }
                let before = polls.get();
                theirs.write_all(b"x").unwrap();
                registered.readable().await.unwrap().retain_ready();
                done.send(polls.get() - before).unwrap();
            });
        });
        let polls = finished.recv().unwrap();
        assert!(polls <= 10 * TURN as u32, "{polls} polls before the event was seen");
        handle.stop();
    }

    /// A task that is polled twice, at long work in between or not, and then says its number.
    struct Twice {
        number: u64,
        is_long: bool,
        polled: bool,
        long: Option<LongWork>,
        wakers: Rc<RefCell<Vec<Waker>>>,
        order: Rc<RefCell<Vec<u64>>>,
    }

    impl Steps for Twice {
        fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.polled, true) {
                self.order.borrow_mut().push(self.number);
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            self.long = Some(LongWork::begin());
            if !self.is_long {
                self.long = None;
            }
            Poll::Pending
        }
    }

    /// In which order as many long tasks as short ones are polled, which are woken at once: first all of the long ones.
    fn order(each: u64, by_another_thread: bool) -> Vec<u64> {
        let (done, finished) = channel();
        let handle = on_a_loop(move |tasks| {
            let (wakers, order) = (Rc::<RefCell<Vec<Waker>>>::default(), Rc::<RefCell<Vec<u64>>>::default());
            crate::loops::spawn(0, "waking", async move {
                // The second time in the places of the first one.
                for _ in 0..2 {
                    order.borrow_mut().clear();
                    for number in 0..2 * each {
                        let (wakers, order) = (wakers.clone(), order.clone());
                        let is_long = number < each;
                        let task = Twice { number, is_long, polled: false, long: None, wakers, order };
                        tasks.start(number, Job(Box::new(task)));
                    }
                    while wakers.borrow().len() < 2 * each as usize {
                        crate::loops::yield_now().await;
                    }
                    let all = wakers.take();
                    let wake = move || all.into_iter().for_each(Waker::wake);
                    match by_another_thread {
                        true => std::thread::spawn(wake).join().unwrap(),
                        false => wake(),
                    }
                    while order.borrow().len() < 2 * each as usize {
                        crate::loops::yield_now().await;
                    }
                }
                done.send(order.take()).unwrap();
            });
        });
        let order = finished.recv().unwrap();
        handle.stop();
        order
    }

    #[test]
    fn what_is_short_comes_first_and_long_work_goes_on_all_the_same() {
        for by_another_thread in [false, true] {
            const EACH: u64 = 3 * TURN as u64;
            let order = order(EACH, by_another_thread);
            let (long, short): (Vec<u64>, Vec<u64>) = order.iter().partition(|number| **number < EACH);
            assert!(long.is_sorted() && short.is_sorted(), "{order:?}");
            for turn in order.chunks(TURN).take(EACH as usize / (TURN - LONG_PART)) {
                assert_eq!(turn.iter().filter(|number| **number < EACH).count(), LONG_PART, "{order:?}");
                assert!(turn.iter().take(TURN - LONG_PART).all(|number| *number >= EACH), "{order:?}");
            }
        }
    }

    #[test]
    fn one_that_always_goes_on_does_not_keep_others_waiting() {
        let (done, finished) = channel();
        let handle = on_a_loop(move |tasks| {
            tasks.start(
                1,
                job(|context| {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }),
            );
            crate::loops::spawn(0, "another one", async move {
                for _ in 0..10 {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                done.send(()).unwrap();
            });
        });
        finished.recv().unwrap();
        handle.stop();
    }
}
