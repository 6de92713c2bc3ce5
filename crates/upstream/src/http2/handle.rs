//! The handle of a connection that the pool holds.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freerun_runtime::loops;
use freerun_transport::Transport;
use rustc_hash::FxHashMap;

use super::connection::Http2State;
use super::drive::Drive;
use crate::exchange::status::ConnectionStatus;
use crate::pool::MultiplexedConnection;
use crate::pool::new_connection::NewConnection;

thread_local! {
    /// The connections of this loop, by their numbers.
    static CONNECTIONS: RefCell<FxHashMap<u64, Weak<Http2State>>> = RefCell::default();
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// A handle of a connection. The connection itself stays on the loop that has begun it. The handle may be dropped on
/// any thread: then the connection is closed as soon as no stream is left.
pub struct Http2Connection {
    status: Arc<ConnectionStatus>,
    number: u64,
}

impl fmt::Debug for Http2Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Http2Connection({})", self.status.streams.load(Relaxed))
    }
}

impl Http2Connection {
    /// Begins a connection on this byte stream, to a server that speaks HTTP/2, and starts its task on this loop.
    /// `making` learns the number of streams when the server has said it.
    pub fn begin(transport: Transport, making: Option<NewConnection>) -> Http2Connection {
        let inner = Rc::new(Http2State::new(transport));
        let status = inner.status.clone();
        let number = NUMBER.replace(NUMBER.get() + 1);
        CONNECTIONS.with_borrow_mut(|connections| connections.insert(number, Rc::downgrade(&inner)));
        loops::spawn(
            0,
            "on a connection of HTTP/2 to an upstream server",
            Drive::new(inner, making, ConnectionGuard(number)),
        );
        Http2Connection { status, number }
    }

    /// The connection, if this is its loop and it has not ended.
    pub(super) fn inner(&self) -> Option<Rc<Http2State>> {
        CONNECTIONS
            .with_borrow(|connections| connections.get(&self.number)?.upgrade())
            .filter(|inner| Arc::ptr_eq(&inner.status, &self.status))
    }
}

impl MultiplexedConnection for Http2Connection {
    fn streams(&self) -> usize {
        self.status.streams.load(Relaxed)
    }
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.status.leave();
    }
}

/// Removes a connection from the list of its loop when its task ends.
pub(super) struct ConnectionGuard(u64);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // At the end of the thread there may be no table.
        let _ = CONNECTIONS.try_with(|connections| connections.borrow_mut().remove(&self.0));
    }
}
