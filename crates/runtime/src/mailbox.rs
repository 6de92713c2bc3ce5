//! The way for other threads to reach a loop: a queue of the tasks that they have woken, and an eventfd. The eventfd
//! wakes the loop itself while it waits for events.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::woken_task::WokenPlace;

/// The data of epoll events of [`Mailbox::bell`]: no place of a table has this number.
pub(crate) const BELL: u64 = u64::MAX;

/// The mailbox of a loop. The mailbox outlives the loop if a thread may still wake one of its tasks.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// The number of the loop, from 1.
    pub(crate) id: u64,
    /// The loop's epoll instance.
    pub(crate) epoll: OwnedFd,
    /// An eventfd(2) in the epoll instance.
    bell: OwnedFd,
    /// The loop waits for events, or is about to.
    asleep: AtomicBool,
    /// Tasks that other threads have woken, each at most once.
    pub(crate) woken: SegQueue<WokenPlace>,
    /// Places of the table of descriptors that other threads have left.
    pub(crate) left: SegQueue<u32>,
}

impl Mailbox {
    /// Makes a mailbox with its epoll instance.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn new() -> io::Result<Mailbox> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), flags)?;
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        debug_assert!(id != 0, "the number 0 means that a thread has no loop");
        Ok(Mailbox { id, epoll, bell, asleep: AtomicBool::new(false), woken: SegQueue::new(), left: SegQueue::new() })
    }

    /// Has the loop poll a task. For other threads.
    pub(crate) fn post(&self, woken: WokenPlace) {
        self.woken.push(woken);
        // Either this sees that the loop sleeps, or the loop sees the pushed task before it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            // The count is never read, and it takes 2^64 calls to overflow it.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// To be called before the loop waits: from here on it is woken for posted tasks. Returns whether it may wait,
    /// because no task was posted before.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.woken.is_empty()
    }

    /// To be called when the loop has waited.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
