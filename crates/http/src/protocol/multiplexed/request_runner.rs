//! The futures that serve requests of streams, and the memory for the heads of requests. One request after the other uses
//! such a future. The connections of a loop share them, whatever protocol they speak.

use std::cell::RefCell;
use std::rc::Rc;

use freerun_proto::RequestHead;

use crate::http_loop::HttpLoop;
use crate::message::scratch::RequestScratch;
use crate::protocol::multiplexed::{self, ArrivedRequest, RequestTask};
use crate::protocol::runner_pool::{Post, Runner, RunnerPool};
use crate::request::ClientStream;

/// A request to serve.
pub struct RequestWork {
    /// The state of http on the loop.
    pub http: Rc<HttpLoop>,
    /// The client of the request.
    pub client: ClientStream,
    /// The request.
    pub arrived: ArrivedRequest,
}

/// The memory of a request's head, which a later request uses.
pub(super) type SpareHead = Option<Box<RequestHead>>;

/// A future that serves requests.
pub(super) type RequestRunner = Runner<RequestWork, SpareHead>;

/// The number of unused runners that a loop keeps.
const KEPT_RUNNERS: usize = 128;

/// Number of heads of requests whose memory a loop keeps.
const KEPT_HEADS: usize = 128;

/// Starts the task of a request; it is polled at once, as a part of the current poll.
pub type Start = Rc<dyn Fn(u64, RequestTask)>;

/// The futures for the requests of all streams of a loop.
pub struct RequestRunners {
    start: Start,
    /// The unused runners.
    runners: RunnerPool<RequestWork, SpareHead>,
    /// The memory for heads of requests.
    #[expect(clippy::vec_box, reason = "each is handed over in its box")]
    heads: RefCell<Vec<Box<RequestHead>>>,
}

impl RequestRunners {
    /// The runners of a loop. `start` starts the tasks of requests.
    pub fn new(start: Start) -> Rc<RequestRunners> {
        let runners = RunnerPool::new(KEPT_RUNNERS, |post| Box::pin(serve(post)));
        Rc::new(RequestRunners { start, runners, heads: RefCell::default() })
    }

    /// Starts the task of a request.
    pub(in crate::protocol) fn start(&self, number: u64, task: RequestTask) {
        (self.start)(number, task);
    }

    /// A runner for a request.
    pub(super) fn take(&self, work: RequestWork) -> RequestRunner {
        self.runners.take(work)
    }

    /// Takes back a runner whose request has ended.
    pub(super) fn give_back(&self, runner: RequestRunner) {
        self.runners.give_back(runner);
    }

    /// Memory for the head of a request, if there is any.
    pub(super) fn spare_head(&self) -> SpareHead {
        self.heads.borrow_mut().pop()
    }

    /// Keeps the memory of a head for a later request.
    pub(super) fn keep_head(&self, head: SpareHead) {
        let mut heads = self.heads.borrow_mut();
        if heads.len() < KEPT_HEADS {
            heads.extend(head);
        }
    }
}

/// Serves one request after the other.
async fn serve(post: Rc<Post<RequestWork, SpareHead>>) {
    let mut scratch = RequestScratch::default();
    loop {
        let RequestWork { http, client, arrived } = post.work().await;
        multiplexed::serve(&http, client, arrived, &mut scratch).await;
        post.answer(scratch.head());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size class of the allocator that holds a runner; the next one has 512 bytes more.
    const CLASS: usize = 3072;

    fn size_of_future<F: Future>(_: fn(Rc<Post<RequestWork, SpareHead>>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_runner_fits_into_its_class() {
        let size = size_of_future(serve);
        assert!(size <= CLASS, "{size}");
    }
}
