//! The futures that serve requests, each of which is used by one connection after the other.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use crate::protocol::h1::requests::serve;
use crate::protocol::h1::upgraded::Upgraded;
use crate::protocol::h1::{Driver, Keep};
use crate::protocol::h2;
use crate::request::Connection;

/// A future that serves requests: some kilobytes of state, used by one connection after the other.
pub struct RequestRunner {
    pub(super) post: Rc<Post>,
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
}

/// A connection to serve, with its driver.
pub(super) type Work = (Rc<Driver>, Rc<Connection>);

/// The place where a [`RequestRunner`] gets its work, and leaves the result.
#[derive(Default)]
pub(super) struct Post {
    /// The connection to serve. It comes with its driver, so that an unused runner holds neither: they would keep each other.
    pub(super) work: Cell<Option<Work>>,
    /// How long to wait for the next request, or `None` when the connection is to be closed; with the driver.
    pub(super) answer: Cell<Option<(Rc<Driver>, Option<Keep>)>>,
    /// The protocol that follows instead of a next request.
    pub(super) upgraded: Cell<Option<Box<Upgraded>>>,
    /// The connection speaks HTTP/2.
    pub(super) http2: Cell<Option<Box<h2::Serve>>>,
}

/// How many unused runners a loop keeps.
const KEPT_RUNNERS: usize = 32;

/// The unused runners of a loop.
#[derive(Default)]
pub struct RunnerPool(RefCell<Vec<RequestRunner>>);

impl RunnerPool {
    pub(super) fn take(&self, work: Work) -> RequestRunner {
        let runner = self.0.borrow_mut().pop().unwrap_or_else(|| {
            let post = Rc::new(Post::default());
            let future = Box::pin(serve(post.clone()));
            RequestRunner { post, future }
        });
        runner.post.work.set(Some(work));
        runner
    }

    /// Takes back a runner that has given its answer, so that it holds neither the connection nor the driver any more.
    pub(super) fn give_back(&self, runner: RequestRunner) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_RUNNERS {
            kept.push(runner);
        }
    }
}
