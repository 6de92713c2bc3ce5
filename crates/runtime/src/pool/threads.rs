//! The threads of a pool: how they receive work without locks for the loops, how they sleep, start and end.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use freerun_sys::memory;
use rustix::thread::futex;
use rustix::time::Timespec;

use super::schedule::{Caps, Schedule};
use super::{MAX_THREADS, Tag};
use crate::stats::{Counter, Histogram};

/// Number of cancelled tasks that may lie in the inbox before a loop that cancels another one sorts the inbox itself
/// (only if it gets the lock at once). Without this, a pool whose threads all hang would collect them without end.
const INBOX_TIDY: usize = 256;

/// Number of letters that a loop sorts at a time: while all threads hang, the inbox may become as long as the queue.
const SORTED_BY_LOOP: usize = 1024;

/// The lowest priority of a thread, see setpriority(2).
const LOWEST_PRIORITY: i32 = 19;

/// A thread without a task for this long gives back the memory that its tasks have freed. An allocator does so only
/// while it gets requests for more, and the tasks of a burst may have left megabytes.
const REST_TIME: Duration = Duration::from_secs(2);

const WORDS: usize = MAX_THREADS / 64;

const QUEUED: u8 = 0;
const RUNNING: u8 = 1;
const CANCELLED: u8 = 2;

const _: () = assert!(MAX_THREADS.is_multiple_of(64), "each thread has a bit");
const _: () = assert!(INBOX_TIDY < SORTED_BY_LOOP, "a loop that tidies up gets rid of what made it do so");
const _: () = assert!(REST_TIME.as_secs() < super::IDLE_TIME.as_secs(), "a thread gives memory back before it ends");

/// The work of a task. `execute` runs on a pool thread; `deliver` follows after the pool's figures were brought up to
/// date.
pub(super) trait PoolWork: Send {
    /// Runs the task; false if it panicked.
    fn execute(&mut self) -> bool;
    fn deliver(self: Box<Self>);
}

pub(super) struct PoolJob {
    tag: Tag,
    sequence: u64,
    state: AtomicU8,
    since: Instant,
    /// Never contended: only the thread that moves `state` away from `QUEUED` locks it.
    work: Mutex<Option<Box<dyn PoolWork>>>,
}

impl PoolJob {
    fn take(&self, to: u8) -> Option<Box<dyn PoolWork>> {
        self.state.compare_exchange(QUEUED, to, SeqCst, SeqCst).ok()?;
        let work = lock(&self.work).take();
        debug_assert!(work.is_some(), "a task that waits has its work");
        work
    }
}

enum Letter {
    Submit(Arc<PoolJob>),
    Cancel(Arc<PoolJob>),
}

/// The state that the threads share.
///
/// Invariants: `live` is the number of used slots, and never more than [`MAX_THREADS`]. A sleeping thread (its bit in
/// [`PoolInner::idle`]) has a used slot and no token.
struct PoolState {
    schedule: Schedule<Arc<PoolJob>>,
    /// Which slots have a thread.
    used: Vec<bool>,
    live: usize,
}

#[derive(Default)]
pub(super) struct Figures {
    pub(super) threads: AtomicUsize,
    pub(super) active: AtomicUsize,
    pub(super) refused: Counter,
    pub(super) served: Counter,
    pub(super) cancelled: Counter,
    pub(super) panicked: Counter,
    pub(super) wait: Histogram,
    pub(super) service: Histogram,
}

pub(super) struct PoolInner {
    pub(super) name: Arc<str>,
    pub(super) limit: AtomicUsize,
    pub(super) max_queue: AtomicUsize,
    idle_time: Duration,
    nice: i32,
    /// Tasks accepted and not yet ended: waiting and running ones.
    pub(super) accepted: AtomicUsize,
    pub(super) figures: Figures,
    sequence: AtomicU64,
    closed: AtomicBool,
    inbox: SegQueue<Letter>,
    cancels: AtomicUsize,
    /// A thread was woken for new work, and has not looked into the inbox since.
    waking: AtomicBool,
    state: Mutex<PoolState>,
    /// A bit for each sleeping thread. A thread that clears a bit must give the sleeper its token.
    idle: [AtomicU64; WORDS],
    tokens: Box<[AtomicU32]>,
    pub(super) drained: tokio::sync::Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while one of these locks is held does not leave a half-way change; tasks run outside.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Manner of the work of a pool's threads.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// Number of threads that one mount, client or file may keep busy.
    pub(super) caps: fn(usize) -> Caps,
    /// Distance of their priority below the priority of the process, see setpriority(2).
    pub(super) nice: i32,
}

impl PoolInner {
    pub(super) fn start(
        name: &str,
        threads: usize,
        max_queue: usize,
        idle_time: Duration,
        manner: Manner,
    ) -> io::Result<Arc<PoolInner>> {
        let schedule = Schedule::new(threads, manner.caps);
        let inner = Arc::new(PoolInner {
            name: name.into(),
            limit: AtomicUsize::new(threads),
            max_queue: AtomicUsize::new(max_queue),
            idle_time,
            nice: manner.nice,
            accepted: AtomicUsize::new(0),
            figures: Figures::default(),
            sequence: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            inbox: SegQueue::new(),
            cancels: AtomicUsize::new(0),
            waking: AtomicBool::new(false),
            state: Mutex::new(PoolState { schedule, used: vec![false; MAX_THREADS], live: 0 }),
            idle: [const { AtomicU64::new(0) }; WORDS],
            tokens: (0..MAX_THREADS).map(|_| AtomicU32::new(0)).collect(),
            drained: tokio::sync::Notify::new(),
        });
        let slot = inner.reserve(&mut lock(&inner.state));
        if let Some(slot) = slot {
            inner.spawn_thread(slot)?;
        }
        Ok(inner)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    pub(super) fn live(&self) -> usize {
        self.figures.threads.load(SeqCst)
    }

    /// The number of threads that sleep and were not woken.
    #[cfg(test)]
    pub(super) fn sleeping(&self) -> u32 {
        self.idle.iter().map(|word| word.load(SeqCst).count_ones()).sum()
    }

    /// Holds a lock that keeps woken threads from going on, as long as the returned value exists.
    #[cfg(test)]
    pub(super) fn hold_up(&self) -> impl Sized + '_ {
        lock(&self.state)
    }

    #[cfg(test)]
    pub(super) fn inbox_len(&self) -> usize {
        self.inbox.len()
    }

    /// Counts a task in, or returns how many tasks wait if the pool takes no more.
    pub(super) fn admit(&self) -> Result<(), usize> {
        let threads = self.limit.load(Relaxed);
        let bound = threads.saturating_add(self.max_queue.load(Relaxed));
        let admitted = self.accepted.fetch_update(SeqCst, SeqCst, |now| (now < bound).then_some(now + 1));
        admitted.map(drop).map_err(|now| {
            self.figures.refused.add();
            now.saturating_sub(threads)
        })
    }

    /// Counts a task out, and wakes the threads of a closed pool when it was the last.
    fn release(&self) {
        let before = self.accepted.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a task is counted out twice");
        if before == 1 && self.is_closed() {
            self.wake_all();
        }
    }

    /// Takes an admitted task; `Err` if the pool is shut down.
    pub(super) fn submit(&self, tag: Tag, work: Box<dyn PoolWork>) -> Result<Arc<PoolJob>, Box<dyn PoolWork>> {
        // The threads of a closed pool end only when nothing is accepted any more, and this task was counted before.
        if self.is_closed() {
            self.release();
            return Err(work);
        }
        let job = Arc::new(PoolJob {
            tag,
            sequence: self.sequence.fetch_add(1, Relaxed),
            state: AtomicU8::new(QUEUED),
            since: Instant::now(),
            work: Mutex::new(Some(work)),
        });
        self.inbox.push(Letter::Submit(job.clone()));
        self.announce();
        Ok(job)
    }

    /// Withdraws a task that no thread has begun; false if one has. Its place in the queue is free at once.
    pub(super) fn cancel(&self, job: &Arc<PoolJob>) -> bool {
        let Some(work) = job.take(CANCELLED) else { return false };
        drop(work);
        self.figures.cancelled.add();
        self.inbox.push(Letter::Cancel(job.clone()));
        self.release();
        if self.cancels.fetch_add(1, Relaxed) >= INBOX_TIDY {
            match self.state.try_lock() {
                Ok(mut state) => self.sort(&mut state, SORTED_BY_LOOP),
                Err(TryLockError::Poisoned(poisoned)) => self.sort(&mut poisoned.into_inner(), SORTED_BY_LOOP),
                // A thread is working on it.
                Err(TryLockError::WouldBlock) => {}
            }
            self.wake_one();
        }
        true
    }

    /// Moves letters from the inbox into the schedule, at most so many.
    fn sort(&self, state: &mut PoolState, most: usize) {
        for _ in 0..most {
            let Some(letter) = self.inbox.pop() else {
                self.cancels.store(0, Relaxed);
                return;
            };
            match letter {
                Letter::Submit(job) if job.state.load(Acquire) == QUEUED => {
                    state.schedule.push(job.tag, job.sequence, job);
                }
                Letter::Submit(_) => {}
                Letter::Cancel(job) => {
                    state.schedule.remove(job.tag, job.sequence);
                }
            }
        }
    }

    /// Has a thread look into the inbox, unless one is about to. A caller that queues several tasks wakes one thread,
    /// and that thread wakes the next one when it sees more tasks than it takes. On a processor that they share with
    /// the loop, the first often does all of them, and others would have been woken in vain.
    pub(super) fn announce(&self) {
        while !self.waking.swap(true, SeqCst) {
            if self.wake_one() {
                return;
            }
            // All threads are at work, and look into the inbox before they sleep. One may have looked before a task
            // came from a loop that found the mark: then it is woken here.
            self.waking.store(false, SeqCst);
            fence(SeqCst);
            if self.inbox.is_empty() || !self.any_idle() {
                return;
            }
        }
    }

    /// Wakes the sleeping thread with the lowest number, so that the others may sleep until they end.
    fn wake_one(&self) -> bool {
        // This pairs with the fence in `sleep`: either the thread that falls asleep sees the letter, or its bit is seen
        // here.
        fence(SeqCst);
        for (index, word) in self.idle.iter().enumerate() {
            let mut bits = word.load(SeqCst);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                if word.fetch_and(!bit, SeqCst) & bit != 0 {
                    self.hand_token(index * 64 + bit.trailing_zeros() as usize);
                    return true;
                }
                bits = word.load(SeqCst);
            }
        }
        false
    }

    fn wake_all(&self) {
        while self.wake_one() {}
    }

    fn hand_token(&self, slot: usize) {
        debug_assert_eq!(self.tokens[slot].load(SeqCst), 0, "a thread is woken twice");
        self.tokens[slot].store(1, SeqCst);
        // Waking can fail only for a bad address.
        let _ = futex::wake(&self.tokens[slot], futex::Flags::PRIVATE, 1);
    }

    fn clear_idle(&self, slot: usize) -> bool {
        let bit = 1 << (slot % 64);
        self.idle[slot / 64].fetch_and(!bit, SeqCst) & bit != 0
    }

    fn set_idle(&self, slot: usize) {
        let before = self.idle[slot / 64].fetch_or(1 << (slot % 64), SeqCst);
        debug_assert!(before & 1 << (slot % 64) == 0, "thread {slot} sleeps twice");
    }

    fn any_idle(&self) -> bool {
        self.idle.iter().any(|word| word.load(SeqCst) != 0)
    }

    /// Takes a slot for one more thread if none sleeps and the limit allows it.
    fn reserve(&self, state: &mut PoolState) -> Option<usize> {
        let limit = self.limit.load(SeqCst);
        if state.live >= limit || self.any_idle() {
            return None;
        }
        let slot = state.used.iter().position(|used| !used)?;
        state.used[slot] = true;
        state.live += 1;
        debug_assert_eq!(state.live, state.used.iter().filter(|used| **used).count(), "a slot has two threads");
        self.figures.threads.store(state.live, SeqCst);
        Some(slot)
    }

    fn spawn_thread(self: &Arc<Self>, slot: usize) -> io::Result<()> {
        let inner = self.clone();
        let spawned = thread::Builder::new().name(format!("{}/{slot}", self.name)).spawn(move || inner.work(slot));
        if spawned.is_err() {
            self.vacate(&mut lock(&self.state), slot);
        }
        spawned.map(drop)
    }

    fn vacate(&self, state: &mut PoolState, slot: usize) {
        debug_assert!(state.used[slot] && state.live > 0, "thread {slot} ends twice");
        state.used[slot] = false;
        state.live -= 1;
        self.figures.threads.store(state.live, SeqCst);
        if state.live == 0 {
            self.drained.notify_waiters();
        }
    }

    /// Lowers the priority of this thread below the priority of the process. The thread that has started this one is no
    /// measure: it may be another one of this pool. The work is done all the same if this fails.
    fn lower_priority(&self) {
        let process = rustix::process::getpriority_process(Some(rustix::process::getpid())).unwrap_or(0);
        let _ = rustix::process::setpriority_process(None, (process + self.nice).min(LOWEST_PRIORITY));
    }

    /// The body of a thread, from its start to its end.
    fn work(self: Arc<Self>, slot: usize) {
        // Signals are for the main thread.
        freerun_sys::signals::block_all();
        if self.nice != 0 {
            self.lower_priority();
        }
        let mut ended = None;
        while let Some((job, work)) = self.next(slot, ended.take()) {
            self.run(&job, work);
            ended = Some(job.tag);
        }
    }

    /// Gives back the place of the task that ended and waits for the next one; `None` if the thread has to end.
    fn next(self: &Arc<Self>, slot: usize, mut ended: Option<Tag>) -> Option<(Arc<PoolJob>, Box<dyn PoolWork>)> {
        loop {
            let mut state = lock(&self.state);
            // This is not a mere store: a caller that has found the mark set has queued its task before the tasks that
            // are found here.
            self.waking.swap(false, SeqCst);
            if let Some(tag) = ended.take() {
                state.schedule.complete(tag);
            }
            self.sort(&mut state, usize::MAX);
            if self.is_over(slot) {
                self.end(state, slot);
                return None;
            }
            if let Some(found) = pick(&mut state) {
                let spare = self.reserve(&mut state);
                let more = state.schedule.has_ready();
                drop(state);
                if let Some(slot) = spare {
                    // If no further thread can be made, the existing ones have to do.
                    let _ = self.spawn_thread(slot);
                }
                if more {
                    self.wake_one();
                }
                return Some(found);
            }
            if !self.sleep(state, slot) {
                return None;
            }
        }
    }

    fn run(&self, job: &PoolJob, mut work: Box<dyn PoolWork>) {
        let begun = Instant::now();
        self.figures.wait.record(begun.duration_since(job.since));
        self.figures.active.fetch_add(1, SeqCst);
        let whole = work.execute();
        self.figures.service.record(begun.elapsed());
        if whole {
            self.figures.served.add();
        } else {
            self.figures.panicked.add();
        }
        let before = self.figures.active.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a task ends that never began");
        self.release();
        work.deliver();
    }

    /// Whether the thread of this slot has to end once it has no task.
    fn is_over(&self, slot: usize) -> bool {
        slot >= self.limit.load(SeqCst) || (self.is_closed() && self.accepted.load(SeqCst) == 0)
    }

    fn end(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState>, slot: usize) {
        self.vacate(&mut state, slot);
        // A wake-up may have come to this thread: another one has to look after the work.
        let spare = if self.is_closed() { None } else { self.reserve(&mut state) };
        let more = state.schedule.has_ready();
        drop(state);
        if let Some(slot) = spare {
            let _ = self.spawn_thread(slot);
        }
        if more || !self.inbox.is_empty() {
            self.wake_one();
        }
    }

    /// Sleeps until there may be work. False if the thread was not needed for long and is no longer counted.
    fn sleep(&self, state: MutexGuard<'_, PoolState>, slot: usize) -> bool {
        self.set_idle(slot);
        drop(state);
        let mut rested = false;
        loop {
            // This pairs with the fence in `wake_one`.
            fence(SeqCst);
            if !self.inbox.is_empty() || self.is_over(slot) {
                if !self.clear_idle(slot) {
                    self.take_token(slot, None);
                }
                return true;
            }
            let patience = if rested { self.idle_time } else { REST_TIME.min(self.idle_time) };
            if self.take_token(slot, Some(patience)) {
                return true;
            }
            if !rested {
                rested = true;
                memory::give_back_own();
                continue;
            }
            let mut state = lock(&self.state);
            if !self.clear_idle(slot) {
                drop(state);
                self.take_token(slot, None);
                return true;
            }
            // One sleeper stays: only pool threads start pool threads, so one has to exist to be woken.
            if self.any_idle() {
                self.vacate(&mut state, slot);
                return false;
            }
            self.set_idle(slot);
        }
    }

    /// Waits for the token that comes with a wake-up; false if it did not come in time.
    fn take_token(&self, slot: usize, patience: Option<Duration>) -> bool {
        let token = &self.tokens[slot];
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            if token.swap(0, SeqCst) == 1 {
                return true;
            }
            let left = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return false,
                left => left,
            };
            let timeout = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            // The wait was interrupted, timed out, or the value changed: the loop looks again in each case.
            let _ = futex::wait(token, futex::Flags::PRIVATE, 0, timeout.as_ref());
        }
    }

    /// Changes the number of threads and the length of the queue. Running tasks are not touched.
    pub(super) fn resize(self: &Arc<Self>, threads: usize, max_queue: usize) {
        self.max_queue.store(max_queue, SeqCst);
        if self.limit.swap(threads, SeqCst) == threads {
            return;
        }
        let mut state = lock(&self.state);
        state.schedule.resize(threads);
        let spare = if self.is_closed() { None } else { self.reserve(&mut state) };
        drop(state);
        if let Some(slot) = spare {
            let _ = self.spawn_thread(slot);
        }
        self.wake_all();
    }

    /// Takes no more tasks; the threads end when those accepted are done.
    pub(super) fn close(&self) {
        self.closed.store(true, SeqCst);
        self.wake_all();
    }
}

/// The next task that was not withdrawn.
fn pick(state: &mut PoolState) -> Option<(Arc<PoolJob>, Box<dyn PoolWork>)> {
    while let Some((tag, job)) = state.schedule.pick() {
        if let Some(work) = job.take(RUNNING) {
            return Some((job, work));
        }
        // The task was withdrawn, and the letter about that is still to be read.
        state.schedule.complete(tag);
    }
    None
}
