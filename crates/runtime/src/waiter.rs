//! The place of a task that waits for something that another task of its loop does.

use std::cell::RefCell;
use std::task::{Context, Waker};

/// The task that waits, if one does.
#[derive(Debug, Default)]
pub struct Waiter(RefCell<Option<Waker>>);

impl Waiter {
    /// Notes that the task of this context waits, in the place of any other.
    pub fn keep(&self, context: &Context<'_>) {
        let mut place = self.0.borrow_mut();
        match &mut *place {
            Some(waker) => waker.clone_from(context.waker()),
            None => *place = Some(context.waker().clone()),
        }
    }

    /// Wakes the task that waits.
    pub fn wake(&self) {
        // A waker may do anything, so it is called when nothing is borrowed.
        let waker = self.0.borrow_mut().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_last_task_that_waits_is_woken_once() {
        let (first, second) = (Arc::<Counted>::default(), Arc::<Counted>::default());
        let waiter = Waiter::default();
        waiter.wake();
        for counted in [&first, &second, &second] {
            waiter.keep(&Context::from_waker(&counted.clone().into()));
        }
        waiter.wake();
        waiter.wake();
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    }
}
