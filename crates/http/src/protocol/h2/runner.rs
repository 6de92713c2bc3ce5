//! The futures that serve requests of streams, each of which is used by one request after the other.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use freerun_proto::RequestHead;

use crate::http_loop::HttpLoop;
use crate::message::scratch::RequestScratch;
use crate::protocol::multiplexed::{self, Arrived};
use crate::request::ClientStream;

/// A request to serve.
pub(super) struct Work {
    pub(super) http: Rc<HttpLoop>,
    pub(super) client: ClientStream,
    pub(super) arrived: Arrived,
}

/// The place where a [`RequestRunner`] gets its work, and says that it is done.
#[derive(Default)]
pub(super) struct Post {
    work: Cell<Option<Work>>,
    /// The memory of the head of the last request.
    pub(super) spare: Cell<Option<Box<RequestHead>>>,
    pub(super) is_done: Cell<bool>,
}

/// A future that serves requests: some kilobytes of state, used by one request after the other.
pub(super) struct RequestRunner {
    pub(super) post: Rc<Post>,
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
}

/// How many unused runners a loop keeps.
const KEPT: usize = 128;

/// The unused runners of a loop.
#[derive(Default)]
pub(super) struct RunnerPool(RefCell<Vec<RequestRunner>>);

impl RunnerPool {
    /// A runner that begins with this request when it is polled.
    pub(super) fn take(&self, work: Work) -> RequestRunner {
        let runner = self.0.borrow_mut().pop().unwrap_or_else(|| {
            let post = Rc::new(Post::default());
            let future = Box::pin(serve(post.clone()));
            RequestRunner { post, future }
        });
        runner.post.is_done.set(false);
        runner.post.work.set(Some(work));
        runner
    }

    /// Takes back a runner that is done.
    pub(super) fn give_back(&self, runner: RequestRunner) {
        debug_assert!(runner.post.is_done.get(), "it still serves a request");
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT {
            kept.push(runner);
        }
    }
}

/// Serves one request after the other.
async fn serve(post: Rc<Post>) {
    let mut scratch = RequestScratch::default();
    loop {
        let work = poll_fn(|_| match post.work.take() {
            Some(work) => Poll::Ready(work),
            None => Poll::Pending,
        });
        let Work { http, client, arrived } = work.await;
        multiplexed::serve(http, client, arrived, &mut scratch).await;
        post.spare.set(scratch.head());
        post.is_done.set(true);
    }
}
