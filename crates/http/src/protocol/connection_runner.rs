//! The futures that open connections and serve their requests. One connection after the other uses such a future.

use std::rc::Rc;

use freerun_runtime::timer::Timer;

use crate::connection::idle::Keep;
use crate::message::scratch::RequestScratch;
use crate::protocol::connection_task::Driver;
use crate::protocol::h1::{self, Continuation};
use crate::protocol::h2;
use crate::protocol::opening::{Decision, open};
use crate::protocol::runner_pool::{Post, Runner, RunnerPool};
use crate::request::ClientConnection;

/// A connection to serve, with its driver. An unused runner holds neither: it and the driver would keep each other.
pub(super) type ConnectionWork = (Rc<Driver>, Rc<ClientConnection>);

/// The continuation of a connection, with its driver.
pub(super) type ConnectionAnswer = (Rc<Driver>, Next);

/// A future that opens connections and serves requests.
pub(super) type ConnectionRunner = Runner<ConnectionWork, ConnectionAnswer>;

/// The continuation of a connection without the runner.
pub(super) enum Next {
    /// HTTP/1 has decided, or the opening has decided in the same way.
    Http1(Continuation),
    /// The connection speaks HTTP/2.
    Http2(Box<h2::Serve>),
}

/// The number of unused runners that a loop keeps.
const KEPT_RUNNERS: usize = 32;

/// A pool for the runners of a loop.
pub(super) fn pool() -> RunnerPool<ConnectionWork, ConnectionAnswer> {
    RunnerPool::new(KEPT_RUNNERS, |post| Box::pin(serve(post)))
}

/// Serves one connection after the other: each is opened if it has had no request, and served until it has none.
async fn serve(post: Rc<Post<ConnectionWork, ConnectionAnswer>>) {
    let mut scratch = RequestScratch::default();
    loop {
        let (driver, connection) = post.work().await;
        let (mut timer, mut buffer) = (Timer::default(), Vec::new());
        // An event has announced the first byte of a request that comes after a rest. In other cases bytes may have come
        // since the loop last looked for changes of files.
        let mut is_announced = connection.polls.take_rest() && connection.transport.tls().is_none();
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
        post.answer((driver, next));
    }
}
