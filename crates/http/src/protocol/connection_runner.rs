//! The futures that open connections and serve their requests. One connection after the other uses such a future.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use freerun_runtime::timer::Timer;

use crate::connection::idle::Keep;
use crate::message::scratch::RequestScratch;
use crate::protocol::connection_task::Driver;
use crate::protocol::h1::{self, Continuation};
use crate::protocol::h2;
use crate::protocol::opening::{Decision, open};
use crate::request::ClientConnection;

/// A future that opens connections and serves requests: some kilobytes of state, used by one connection after the other.
pub(super) struct ConnectionRunner {
    pub(super) post: Rc<Post>,
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
}

/// A connection to serve, with its driver.
pub(super) type Work = (Rc<Driver>, Rc<ClientConnection>);

/// The continuation of a connection without the runner.
pub(super) enum Next {
    /// HTTP/1 has decided, or the opening has decided in the same way.
    Http1(Continuation),
    /// The connection speaks HTTP/2.
    Http2(Box<h2::Serve>),
}

/// The place where a [`ConnectionRunner`] gets its work, and leaves the result.
#[derive(Default)]
pub(super) struct Post {
    /// The connection to serve. It comes with its driver, so that an unused runner holds neither: they would keep each other.
    work: Cell<Option<Work>>,
    /// The continuation, with the driver.
    pub(super) answer: Cell<Option<(Rc<Driver>, Next)>>,
}

/// The number of unused runners that a loop keeps.
const KEPT_RUNNERS: usize = 32;

/// The unused runners of a loop.
#[derive(Default)]
pub(super) struct RunnerPool(RefCell<Vec<ConnectionRunner>>);

impl RunnerPool {
    pub(super) fn take(&self, work: Work) -> ConnectionRunner {
        let runner = self.0.borrow_mut().pop().unwrap_or_else(|| {
            let post = Rc::new(Post::default());
            let future = Box::pin(serve(post.clone()));
            ConnectionRunner { post, future }
        });
        runner.post.work.set(Some(work));
        runner
    }

    /// Takes back a runner that has given its answer, so that it holds neither the connection nor the driver any more.
    pub(super) fn give_back(&self, runner: ConnectionRunner) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_RUNNERS {
            kept.push(runner);
        }
    }
}

/// Serves one connection after the other: each is opened if it has had no request, and served until it has none.
async fn serve(post: Rc<Post>) {
    let mut scratch = RequestScratch::default();
    loop {
        let work = std::future::poll_fn(|_| match post.work.take() {
            Some(work) => Poll::Ready(work),
            None => Poll::Pending,
        });
        let (driver, connection) = work.await;
        let (mut timer, mut buffer) = (Timer::default(), Vec::new());
        // An event has announced the first byte of a request that comes after a rest. In other cases bytes may have come
        // since the loop last looked for changes of files.
        let mut is_announced = connection.rested.take() && connection.transport.tls().is_none();
        let opened = match connection.requests.get() {
            0 => {
                let opened = open(&driver.http, &driver.first_reads, &connection, &mut timer, &mut buffer).await;
                is_announced &= connection.proxied().is_none();
                opened
            }
            _ => Decision::Http1,
        };
        let next = match opened {
            Decision::Http1 => {
                let requests = h1::requests(&driver.http, &connection, &mut timer, buffer, is_announced, &mut scratch);
                Next::Http1(requests.await)
            }
            Decision::Http2 => {
                let http2 = h2::Serve::new(&driver.h2, connection.clone(), buffer);
                http2.map_or(Next::Http1(Continuation::Close), Next::Http2)
            }
            Decision::Wait(time) => Next::Http1(Continuation::Idle(Keep::at_most(time))),
            Decision::Close => Next::Http1(Continuation::Close),
        };
        drop(timer);
        drop(connection);
        post.answer.set(Some((driver, next)));
    }
}
