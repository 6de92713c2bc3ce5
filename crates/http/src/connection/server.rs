//! The futures that serve requests, which one connection after the other uses.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use crate::connection::takeover::Left;
use crate::connection::{Keep, serve};
use crate::request::Connection;

/// What serves requests: some kilobytes of state, which one connection after the other uses.
pub struct Server {
    pub(super) post: Rc<Post>,
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
}

/// Where a [`Server`] gets its work, and leaves what came of it.
#[derive(Default)]
pub(super) struct Post {
    pub(super) connection: Cell<Option<Rc<Connection>>>,
    /// How long to wait for the next request, or `None` when the connection is to be closed.
    pub(super) answer: Cell<Option<Option<Keep>>>,
    /// What goes on instead of a next request.
    pub(super) left: Cell<Option<Box<Left>>>,
}

/// How many unused servers a loop keeps.
const KEPT_SERVERS: usize = 32;

/// The unused servers of a loop.
#[derive(Default)]
pub struct Servers(RefCell<Vec<Server>>);

impl Servers {
    pub(super) fn take(&self, connection: &Rc<Connection>) -> Server {
        let server = self.0.borrow_mut().pop().unwrap_or_else(|| {
            let post = Rc::new(Post::default());
            let future = Box::pin(serve(post.clone()));
            Server { post, future }
        });
        server.post.connection.set(Some(connection.clone()));
        server
    }

    /// Only one that has given its answer: it holds nothing of the connection any more.
    pub(super) fn give_back(&self, server: Server) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_SERVERS {
            kept.push(server);
        }
    }
}
