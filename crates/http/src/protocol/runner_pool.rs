//! Futures that do one piece of work after the other, and the pool that keeps the unused ones of a loop.
//!
//! Such a future holds some kilobytes of state. It is made once and used again, so a connection or a request that begins
//! allocates nothing for it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The future of a runner, which never ends.
pub(super) type RunnerFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The place where a runner gets its work, and leaves the answer. `W` is the work, `A` the answer.
pub(super) struct Post<W, A> {
    work: Cell<Option<W>>,
    answer: Cell<Option<A>>,
}

impl<W, A> Post<W, A> {
    /// Waits for the next piece of work.
    pub(super) async fn work(&self) -> W {
        poll_fn(|_| match self.work.take() {
            Some(work) => Poll::Ready(work),
            None => Poll::Pending,
        })
        .await
    }

    /// Leaves the answer to the last piece of work.
    pub(super) fn answer(&self, answer: A) {
        let left = self.work.take();
        debug_assert!(left.is_none(), "the answer comes before the work was taken");
        self.answer.set(Some(answer));
    }
}

/// A future that does one piece of work after the other.
pub(super) struct Runner<W, A> {
    post: Rc<Post<W, A>>,
    future: RunnerFuture,
}

impl<W, A> Runner<W, A> {
    /// Polls the piece of work; ready with its answer. After a panic the runner is of no use any more.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<A> {
        let ended = self.future.as_mut().poll(context);
        debug_assert!(ended.is_pending(), "a runner waits for its next piece of work");
        match self.post.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

/// The unused runners of a loop.
pub(super) struct RunnerPool<W, A> {
    unused: RefCell<Vec<Runner<W, A>>>,
    /// The largest number of unused runners.
    most: usize,
    /// Makes the future of a new runner, which takes its work from this post.
    make: fn(Rc<Post<W, A>>) -> RunnerFuture,
}

impl<W, A> RunnerPool<W, A> {
    /// An empty pool, which keeps at most this number of unused runners. `make` makes the future of a new one.
    pub(super) fn new(most: usize, make: fn(Rc<Post<W, A>>) -> RunnerFuture) -> Self {
        RunnerPool { unused: RefCell::default(), most, make }
    }

    /// A runner that begins with this piece of work when it is polled.
    #[inline]
    pub(super) fn take(&self, work: W) -> Runner<W, A> {
        let runner = self.unused.borrow_mut().pop().unwrap_or_else(|| {
            let post = Rc::new(Post { work: Cell::new(None), answer: Cell::new(None) });
            let future = (self.make)(post.clone());
            Runner { post, future }
        });
        let before = runner.post.work.replace(Some(work));
        debug_assert!(before.is_none(), "an unused runner has work");
        runner
    }

    /// Takes back a runner that has given its answer, so that it holds nothing of its work any more.
    #[inline]
    pub(super) fn give_back(&self, runner: Runner<W, A>) {
        let mut unused = self.unused.borrow_mut();
        if unused.len() < self.most {
            unused.push(runner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A runner that answers each number with the sum of all its numbers. It waits once before it does so.
    fn adds(post: Rc<Post<u32, u32>>) -> RunnerFuture {
        Box::pin(async move {
            let mut sum = 0;
            loop {
                sum += post.work().await;
                freerun_runtime::loops::yield_now().await;
                post.answer(sum);
            }
        })
    }

    #[test]
    fn runners_are_used_again_and_no_more_are_kept_than_there_is_room_for() {
        let context = &mut Context::from_waker(Waker::noop());
        let pool = RunnerPool::new(1, adds);
        let (mut first, mut second) = (pool.take(1), pool.take(10));
        for (runner, answer) in [(&mut first, 1), (&mut second, 10)] {
            assert_eq!(runner.poll(context), Poll::Pending);
            assert_eq!(runner.poll(context), Poll::Ready(answer));
        }
        pool.give_back(first);
        pool.give_back(second);
        let (mut again, mut new) = (pool.take(5), pool.take(7));
        for (runner, answer) in [(&mut again, 6), (&mut new, 7)] {
            assert_eq!(runner.poll(context), Poll::Pending);
            assert_eq!(runner.poll(context), Poll::Ready(answer));
        }
    }
}
