//! Wake-ups of the cache's thread by loops: no more often than necessary.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::thread::Thread;

/// Wakes the cache's thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    thread: OnceLock<Thread>,
    /// The thread sleeps until something happens.
    idle: AtomicBool,
    /// The thread was told to hurry and has not looked yet.
    urgent: AtomicBool,
}

impl Bell {
    /// Sets the thread that is woken; the first call counts.
    pub(crate) fn answer_to(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Tells the thread that its queue has something: wakes it if it is idle; otherwise it looks soon anyway.
    pub(crate) fn ring(&self) {
        if self.idle.load(SeqCst) && self.idle.swap(false, AcqRel) {
            self.wake();
        }
    }

    /// Tells the thread to hurry, because a caller is about to need its work.
    pub(crate) fn urgent(&self) {
        if !self.urgent.load(Acquire) && !self.urgent.swap(true, AcqRel) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Notes that the thread looks now.
    pub(crate) fn looked(&self) {
        self.idle.store(false, SeqCst);
        self.urgent.store(false, SeqCst);
    }

    /// Notes that the thread goes to sleep. It has to look once more after this.
    pub(crate) fn rest(&self) {
        self.idle.store(true, SeqCst);
    }
}
