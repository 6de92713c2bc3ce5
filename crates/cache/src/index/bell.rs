//! How loops wake the cache's thread: never more often than it has to be.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};
use std::thread::Thread;

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    thread: OnceLock<Thread>,
    /// It sleeps until something happens.
    idle: AtomicBool,
    /// It was told to hurry and has not looked yet.
    urgent: AtomicBool,
}

impl Bell {
    /// The thread that is woken; the first one counts.
    pub(crate) fn answer_to(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Something was put down for it: wakes it if it has nothing to do; otherwise it comes by soon.
    pub(crate) fn ring(&self) {
        if self.idle.load(SeqCst) && self.idle.swap(false, AcqRel) {
            self.wake();
        }
    }

    /// Somebody is about to need what it does.
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

    /// The thread looks now.
    pub(crate) fn looked(&self) {
        self.idle.store(false, SeqCst);
        self.urgent.store(false, SeqCst);
    }

    /// The thread goes to sleep. It has to look once more after this.
    pub(crate) fn rest(&self) {
        self.idle.store(true, SeqCst);
    }
}
