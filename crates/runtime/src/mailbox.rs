//! How other threads reach a loop: what they have woken, and what wakes the loop itself while it waits for events.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, epoll, eventfd};

/// What the epoll instance says of [`Mailbox::bell`]: no place of a table has this number.
pub(crate) const BELL: u64 = u64::MAX;

/// Which table of the loop a task is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What the loop itself waits for.
    Root,
    /// Tasks of all kinds.
    Single,
    /// Those of one kind.
    Own,
}

/// A task that was woken: the place that it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Woken {
    /// The table that it is in.
    pub(crate) kind: Kind,
    /// Its place there.
    pub(crate) index: u32,
}

/// One for each loop. It outlives the loop where somebody may still want to wake one of its tasks.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Of the loop; from 1.
    pub(crate) id: u64,
    /// The loop's epoll instance.
    pub(crate) epoll: OwnedFd,
    /// An eventfd(2) in it.
    bell: OwnedFd,
    /// The loop waits for events, or is about to.
    asleep: AtomicBool,
    /// Tasks that other threads have woken: each once at most.
    pub(crate) woken: SegQueue<Woken>,
    /// Places of the table of descriptors that other threads have left.
    pub(crate) left: SegQueue<u32>,
}

impl Mailbox {
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn new() -> io::Result<Mailbox> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), flags)?;
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Ok(Mailbox { id, epoll, bell, asleep: AtomicBool::new(false), woken: SegQueue::new(), left: SegQueue::new() })
    }

    /// Has the loop poll a task. For other threads.
    pub(crate) fn post(&self, woken: Woken) {
        self.woken.push(woken);
        // Either this sees that the loop sleeps, or the loop sees what was pushed before it does.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            // Its count is never read, and 2^64 calls do not come.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// To be called before the loop waits: from here on it is woken for what is posted. Whether it may wait: nothing was posted
    /// before.
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
