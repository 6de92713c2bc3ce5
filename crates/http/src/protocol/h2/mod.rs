//! The driver of HTTP/2: the requests of a connection at the same time, each as a task of its own.
//!
//! The machine in [`freerun_proto::h2`] knows the protocol; here are the bytes, the time, and the requests. The task of a
//! connection reads and writes; tasks of requests leave what they send in the machine, and the connection's task writes it
//! together.

mod preface;
mod request;
mod runner;
mod serve;
mod shared;
mod sink;
mod stream;

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use freerun_proto::RequestHead;

use crate::http_loop::HttpLoop;
use crate::protocol::h2::runner::RunnerPool;
use crate::protocol::h2::shared::Shared;

pub use preface::{Seen, read as read_preface};
pub use request::RequestTask;
pub use serve::Serve;

/// How many heads of requests a loop keeps the memory of.
const KEPT_HEADS: usize = 128;

/// Starts the task of a request; it is polled at once, as a part of the current poll.
pub type Start = Rc<dyn Fn(u64, RequestTask)>;

/// The state that the connections of HTTP/2 share on a loop.
pub struct Driver {
    http: Rc<HttpLoop>,
    start: Start,
    /// The unused runners.
    runners: RunnerPool,
    /// The memory for heads of requests.
    heads: RefCell<Vec<Box<RequestHead>>>,
    /// The buffer that all connections read into.
    read: RefCell<Vec<u8>>,
    /// The connections.
    connections: RefCell<Vec<Weak<Shared>>>,
}

impl Driver {
    /// The driver of one loop. `start` starts the tasks of requests.
    pub fn new(http: Rc<HttpLoop>, start: Start) -> Rc<Driver> {
        let (runners, heads, read, connections) = Default::default();
        Rc::new(Driver { http, start, runners, heads, read, connections })
    }

    /// Asks the clients of all connections to begin no further streams, because the worker is shutting down.
    pub fn drain(&self) {
        let connections: Vec<_> = self.connections.borrow().iter().filter_map(Weak::upgrade).collect();
        connections.iter().for_each(|shared| shared.announce_end());
    }

    /// Memory for the head of a request, if there is any.
    fn spare_head(&self) -> Option<Box<RequestHead>> {
        self.heads.borrow_mut().pop()
    }

    /// Keeps the memory of a head for a later request.
    fn keep_head(&self, head: Option<Box<RequestHead>>) {
        let mut heads = self.heads.borrow_mut();
        if heads.len() < KEPT_HEADS {
            heads.extend(head);
        }
    }

    /// Adds a connection to those that are asked.
    fn enter(&self, shared: &Rc<Shared>) {
        let mut connections = self.connections.borrow_mut();
        // Connections that are gone are forgotten from time to time, so that each costs little.
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
        }
        connections.push(Rc::downgrade(shared));
    }
}
