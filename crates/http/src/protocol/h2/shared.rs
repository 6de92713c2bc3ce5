//! The state that the task of a connection shares with the tasks of its requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use freerun_proto::h2::{self, ErrorCode, Slot};
use freerun_runtime::loops;

use crate::protocol::h2::H2Driver;
use crate::protocol::h2::stream::H2Stream;
use crate::request::ClientConnection;

/// Places for the streams of a connection.
pub(super) type StreamPlaces = Vec<Option<Rc<H2Stream>>>;

/// A connection of HTTP/2.
pub(super) struct SharedConnection {
    pub(super) connection: Rc<ClientConnection>,
    pub(super) driver: Rc<H2Driver>,
    machine: RefCell<h2::Connection>,
    /// The streams whose requests have not ended, by their slots.
    streams: RefCell<StreamPlaces>,
    /// The task of the connection.
    task: RefCell<Option<Waker>>,
    /// The task of the connection is being polled, and looks itself at what is to be written.
    pub(super) is_polled: Cell<bool>,
    /// Another task has left something to write.
    is_woken: Cell<bool>,
    /// The connection's progress when a stream was given up that the client's windows had held up for too long.
    pub(super) stalled_at: Cell<Option<u64>>,
}

impl SharedConnection {
    pub(super) fn new(
        driver: &Rc<H2Driver>,
        connection: Rc<ClientConnection>,
        machine: h2::Connection,
    ) -> Rc<SharedConnection> {
        let (streams, task, is_polled, is_woken, stalled_at) = Default::default();
        let machine = RefCell::new(machine);
        let driver = driver.clone();
        Rc::new(SharedConnection { connection, driver, machine, streams, task, is_polled, is_woken, stalled_at })
    }

    /// Uses the machine, and has the connection's task write what comes of it.
    pub(super) fn with<T>(&self, with: impl FnOnce(&mut h2::Connection) -> T) -> T {
        let result = with(&mut self.machine.borrow_mut());
        self.wake();
        result
    }

    /// Uses the machine in a way that gives nothing to write.
    pub(super) fn look<T>(&self, with: impl FnOnce(&mut h2::Connection) -> T) -> T {
        with(&mut self.machine.borrow_mut())
    }

    /// Wakes the connection's task.
    fn wake(&self) {
        if self.is_polled.get() || self.is_woken.replace(true) {
            return;
        }
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Notes which task serves the connection, and that it looks at everything now.
    pub(super) fn task_looks(&self, context: &Context<'_>) {
        self.is_woken.set(false);
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            *task = Some(context.waker().clone());
        }
    }

    /// Asks the client to begin no further stream.
    pub(super) fn announce_end(&self) {
        self.with(h2::Connection::announce_end);
    }

    /// Enters the stream of a request.
    pub(super) fn enter(&self, slot: Slot, stream: Rc<H2Stream>) {
        let mut streams = self.streams.borrow_mut();
        if streams.capacity() == 0 {
            *streams = self.driver.spare_places();
        }
        if streams.len() <= slot.index() {
            streams.resize_with(slot.index() + 1, || None);
        }
        streams[slot.index()] = Some(stream);
    }

    /// The stream in this slot, if its request has not ended.
    pub(super) fn stream(&self, slot: Slot) -> Option<Rc<H2Stream>> {
        self.streams.borrow().get(slot.index())?.clone()
    }

    /// Notes that a request has ended.
    pub(super) fn release(&self, slot: Slot) {
        let stream = self.streams.borrow_mut().get_mut(slot.index()).and_then(Option::take);
        drop(stream);
        self.with(|machine| machine.release(slot));
    }

    /// Resets a stream.
    pub(super) fn reset(&self, slot: Slot, code: ErrorCode) {
        let stream = self.stream(slot);
        // Too many resets are noticed by the connection's task.
        let _ = self.with(|machine| machine.reset(slot, code, loops::millis()));
        if let Some(stream) = stream {
            stream.leave();
        }
    }

    /// Tells the streams that may go on.
    pub(super) fn wake_streams(&self) {
        loop {
            let Some(slot) = self.look(h2::Connection::take_woken) else { return };
            let Some(stream) = self.stream(slot) else { continue };
            if self.look(|machine| machine.is_reset(slot)) { stream.leave() } else { stream.has_room() }
        }
    }

    /// Tells all streams that the connection has ended.
    pub(super) fn leave(&self) {
        let streams: Vec<_> = self.streams.borrow().iter().flatten().cloned().collect();
        streams.iter().for_each(|stream| stream.leave());
    }

    /// Tells all streams that the connection has failed, which is logged.
    pub(super) fn fail(&self) {
        let streams: Vec<_> = self.streams.borrow().iter().flatten().cloned().collect();
        streams.iter().for_each(|stream| stream.fail());
    }

    /// Leaves memory that is not needed while there is no stream to connections that have some.
    pub(super) fn rest(&self) {
        self.machine.borrow_mut().release_memory(&mut self.driver.spare.borrow_mut());
        self.driver.keep_places(self.streams.take());
    }

    /// Gives up what only makes the next messages shorter, if nothing has come since this time, in milliseconds; whether
    /// there was anything.
    pub(super) fn hibernate(&self, since: u64) -> bool {
        self.machine.borrow_mut().hibernate(since)
    }

    /// Takes memory that another connection has left, before anything is done after [`SharedConnection::rest`].
    pub(super) fn resume(&self) {
        self.machine.borrow_mut().reuse_memory(&mut self.driver.spare.borrow_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::h2::Serve;

    #[test]
    fn what_an_idle_connection_holds_fits_classes_of_the_allocator() {
        // With the two counts of an `Rc`. The next larger classes of mimalloc are 640 and 160 bytes.
        let shared = size_of::<SharedConnection>() + 2 * size_of::<usize>();
        assert!(shared <= 512, "{shared}");
        assert!(size_of::<Serve>() <= 128, "{}", size_of::<Serve>());
    }
}
