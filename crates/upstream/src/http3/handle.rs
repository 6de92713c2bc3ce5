//! The handle of a connection that the pool holds.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freerun_quic::connection::QuicConnection;
use freerun_runtime::loops;
use rustc_hash::FxHashMap;

use super::connection::Http3State;
use super::memory::ReceiveWindow;
use super::socket::QuicSocket;
use super::task::Http3Task;
use crate::exchange::status::ConnectionStatus;
use crate::pool::MultiplexedConnection;
use crate::pool::new_connection::NewConnection;

thread_local! {
    /// The connections of this loop, by their numbers.
    static CONNECTIONS: RefCell<FxHashMap<u64, Weak<Http3State>>> = RefCell::default();
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// A connection of QUIC whose handshake is complete, before HTTP/3 begins on it.
pub struct EstablishedQuic {
    /// The connection.
    pub quic: Box<QuicConnection>,
    /// Its socket.
    pub socket: QuicSocket,
    /// The bytes that the server may send before they are read.
    pub window: ReceiveWindow,
}

/// A handle of a connection. The connection itself stays on the loop that has begun it. The handle may be dropped on
/// any thread: then the connection is closed as soon as no stream is left.
pub struct Http3Connection {
    status: Arc<ConnectionStatus>,
    number: u64,
}

impl fmt::Debug for Http3Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Http3Connection({})", self.status.streams.load(Relaxed))
    }
}

impl Http3Connection {
    /// Begins HTTP/3 on a connection, and starts its task on this loop. `making` learns the number of streams with the task's
    /// first turn.
    pub fn begin(established: EstablishedQuic, making: Option<NewConnection>) -> Http3Connection {
        let inner = Rc::new(Http3State::new(established));
        inner.open_streams();
        let status = inner.status.clone();
        let number = NUMBER.replace(NUMBER.get() + 1);
        CONNECTIONS.with_borrow_mut(|connections| connections.insert(number, Rc::downgrade(&inner)));
        loops::spawn(
            0,
            "on a connection of HTTP/3 to an upstream server",
            Http3Task::new(inner, making, TableEntry(number)),
        );
        Http3Connection { status, number }
    }

    /// Changes the limits for the silence of the server.
    #[cfg(test)]
    pub(super) fn limit_silence(&self, limits: super::connection::SilenceLimits) {
        self.inner().into_iter().for_each(|inner| inner.silence.set(limits));
    }

    /// The connection, if this is its loop and it has not ended.
    pub(super) fn inner(&self) -> Option<Rc<Http3State>> {
        CONNECTIONS
            .with_borrow(|connections| connections.get(&self.number)?.upgrade())
            .filter(|inner| Arc::ptr_eq(&inner.status, &self.status))
    }
}

impl MultiplexedConnection for Http3Connection {
    fn streams(&self) -> usize {
        self.status.streams.load(Relaxed)
    }
}

impl Drop for Http3Connection {
    fn drop(&mut self) {
        self.status.leave();
    }
}

/// Removes a connection from the list of its loop when its task ends.
pub(super) struct TableEntry(u64);

impl Drop for TableEntry {
    fn drop(&mut self) {
        // At the end of the thread there may be no table.
        let _ = CONNECTIONS.try_with(|connections| connections.borrow_mut().remove(&self.0));
    }
}
