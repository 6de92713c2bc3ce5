//! The futures that serve requests, each of which is used by one connection after the other.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use crate::protocol::h1::requests::serve;
use crate::protocol::h1::upgraded::Upgraded;
use crate::protocol::h1::{Driver, Keep};
use crate::request::Connection;

/// A future that serves requests: some kilobytes of state, used by one connection after the other.
pub struct RequestRunner {
    pub(super) post: Rc<Post>,
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
}

/// The place where a [`RequestRunner`] gets its work, and leaves the result.
pub(super) struct Post {
    pub(super) driver: Rc<Driver>,
    pub(super) connection: Cell<Option<Rc<Connection>>>,
    /// How long to wait for the next request, or `None` when the connection is to be closed.
    pub(super) answer: Cell<Option<Option<Keep>>>,
    /// The protocol that follows instead of a next request.
    pub(super) upgraded: Cell<Option<Box<Upgraded>>>,
}

/// How many unused runners a loop keeps.
const KEPT_RUNNERS: usize = 32;

/// The unused runners of a loop.
#[derive(Default)]
pub struct RunnerPool(RefCell<Vec<RequestRunner>>);

impl RunnerPool {
    pub(super) fn take(&self, driver: &Rc<Driver>, connection: &Rc<Connection>) -> RequestRunner {
        let runner = self.0.borrow_mut().pop().unwrap_or_else(|| {
            let (connection, answer, upgraded) = Default::default();
            let post = Rc::new(Post { driver: driver.clone(), connection, answer, upgraded });
            let future = Box::pin(serve(post.clone()));
            RequestRunner { post, future }
        });
        runner.post.connection.set(Some(connection.clone()));
        runner
    }

    /// Drops all runners.
    pub(super) fn clear(&self) {
        self.0.take();
    }

    /// Takes back a runner that has given its answer, so that it holds no part of the connection any more.
    pub(super) fn give_back(&self, runner: RequestRunner) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_RUNNERS {
            kept.push(runner);
        }
    }
}
