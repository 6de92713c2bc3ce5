//! State that the task of a connection shares with the owners of its streams.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Context;

use freerun_proto::h2::frame::{DEFAULT_FRAME_SIZE, LARGEST_WINDOW};
use freerun_proto::h2::{self, Config, ErrorCode, Role, Slot};
use freerun_runtime::loops;
use freerun_transport::Transport;

use crate::exchange::limits::{BLOCK_LIMITS, MOST_STREAMS};
use crate::exchange::loss::LossReason;
use crate::exchange::record::ExchangeFault;
use crate::exchange::state::StreamState;
use crate::exchange::status::ConnectionStatus;

/// The window that each stream begins with, in bytes: so much of a response comes before anybody has read of it.
const WINDOW: u32 = 64 * 1024 - 1;

/// The largest window of a stream whose reader keeps up, in bytes. As much has to be kept when the reader stops.
const LARGEST_STREAM_WINDOW: u32 = 1024 * 1024;

/// The longest silence of a server that has requests, before a PING tests it, and its time to answer; in milliseconds.
const PATIENCE: (u64, u64) = (30_000, 15_000);

const _: () = assert!(WINDOW <= LARGEST_STREAM_WINDOW && LARGEST_STREAM_WINDOW < LARGEST_WINDOW, "windows grow");

/// A connection.
pub(super) struct Http2State {
    pub(super) transport: Transport,
    machine: RefCell<h2::Connection>,
    /// The streams that have begun and whose owners have not left them, by their slots.
    streams: RefCell<Vec<Option<Rc<StreamState>>>>,
    pub(super) status: Arc<ConnectionStatus>,
    /// The task is being polled, and looks itself at what is to be written.
    pub(super) is_polled: Cell<bool>,
    is_woken: Cell<bool>,
    /// Moment at which bytes came from the server the last time, in milliseconds.
    pub(super) heard: Cell<u64>,
    /// The longest silence of the server, and its time to answer; in milliseconds.
    pub(super) patience: Cell<(u64, u64)>,
    /// Number of streams that the server has turned out to take, if it refuses more.
    taken: Cell<usize>,
    lost: RefCell<Option<LossReason>>,
}

impl Http2State {
    pub(super) fn new(transport: Transport) -> Http2State {
        let mut machine = h2::Connection::new(&Config {
            role: Role::Client,
            max_streams: MOST_STREAMS as u32,
            initial_window: WINDOW,
            chunk: DEFAULT_FRAME_SIZE,
            connect_protocol: false,
            limits: BLOCK_LIMITS,
            now: loops::millis(),
        });
        machine.limit_windows(LARGEST_STREAM_WINDOW);
        // Nothing beyond the first request is sent before the server's settings have come.
        let streams = AtomicUsize::new(1);
        let (is_left, task) = Default::default();
        Http2State {
            transport,
            machine: RefCell::new(machine),
            streams: RefCell::default(),
            status: Arc::new(ConnectionStatus { streams, is_left, task }),
            is_polled: Cell::new(false),
            is_woken: Cell::new(false),
            heard: Cell::new(loops::millis()),
            patience: Cell::new(PATIENCE),
            taken: Cell::new(MOST_STREAMS),
            lost: RefCell::new(None),
        }
    }

    /// Uses the machine, and has the task write what comes of it.
    pub(super) fn with<T>(&self, with: impl FnOnce(&mut h2::Connection) -> T) -> T {
        let result = with(&mut self.machine.borrow_mut());
        self.wake();
        result
    }

    /// Uses the machine in a way that gives nothing to write.
    pub(super) fn look<T>(&self, with: impl FnOnce(&mut h2::Connection) -> T) -> T {
        with(&mut self.machine.borrow_mut())
    }

    fn wake(&self) {
        if !self.is_polled.get()
            && !self.is_woken.replace(true)
            && let Some(task) = self.status.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Notes the task of the connection, and that it looks at everything now.
    pub(super) fn task_looks(&self, context: &Context<'_>) {
        self.is_woken.set(false);
        let task = self.status.task.get_or_init(|| context.waker().clone());
        debug_assert!(task.will_wake(context.waker()), "a task keeps its place");
    }

    /// Reason why it carries nothing any more.
    pub(super) fn lost(&self) -> Option<LossReason> {
        self.lost.borrow().clone()
    }

    // ---- streams -------------------------------------------------------------------------------------------------------

    /// Begins a stream. `None`: the server takes none.
    pub(super) fn open(&self, state: &Rc<StreamState>) -> Option<Slot> {
        let slot = self.look(h2::Connection::open)?;
        let mut streams = self.streams.borrow_mut();
        if streams.len() <= slot.index() {
            streams.resize_with(slot.index() + 1, || None);
        }
        debug_assert!(streams[slot.index()].is_none(), "the owner of the stream before has not left it");
        streams[slot.index()] = Some(state.clone());
        Some(slot)
    }

    /// The stream in this slot, if its owner has not left it.
    pub(super) fn stream(&self, slot: Slot) -> Option<Rc<StreamState>> {
        self.streams.borrow().get(slot.index())?.clone()
    }

    /// Notes that the owner of a stream does not use it any more. What is not complete is given up.
    pub(super) fn leave(&self, slot: Slot) {
        let stream = self.streams.borrow_mut().get_mut(slot.index()).and_then(Option::take);
        debug_assert!(stream.is_some(), "a stream is left twice");
        drop(stream);
        self.with(|machine| {
            // A client may reset as many as it likes.
            let _ = machine.reset(slot, ErrorCode::CANCEL, loops::millis());
            machine.release(slot);
        });
    }

    /// Wakes the owners of streams that have room again, or have ended.
    pub(super) fn wake_streams(&self) {
        while let Some(slot) = self.look(h2::Connection::take_woken) {
            self.stream(slot).into_iter().for_each(|state| state.wake_writer());
        }
    }

    /// Breaks the streams off at which the server has not looked, and says so to their owners.
    pub(super) fn break_unprocessed(&self, code: ErrorCode) {
        while let Some(slot) = self.look(h2::Connection::take_unprocessed) {
            self.stream(slot).into_iter().for_each(|state| state.broken(&ExchangeFault::GoneAway(code.0)));
        }
    }

    /// Notes that the server has refused a stream: it takes no more than those that it has. If there are none, this
    /// connection is of no use any more.
    pub(super) fn refused(&self) {
        let open = self.look(|machine| machine.open_streams());
        self.taken.set(open.min(self.taken.get()));
        self.tell_streams();
    }

    /// Resets a stream on which the server has sent something wrong.
    pub(super) fn reset(&self, slot: Slot, how: String) {
        // A client may reset as many as it likes.
        let _ = self.look(|machine| machine.reset(slot, ErrorCode::PROTOCOL_ERROR, loops::millis()));
        self.stream(slot).into_iter().for_each(|state| state.broken(&ExchangeFault::Invalid(how.clone())));
    }

    /// Publishes how many streams it carries at a time.
    pub(super) fn tell_streams(&self) -> usize {
        let streams = self.look(|machine| {
            let is_over =
                self.lost.borrow().is_some() || machine.is_ending() || machine.last_stream() >= LARGEST_WINDOW - 2;
            match (is_over, machine.knows_peer()) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => {
                    let allowed = machine.peer_settings().max_concurrent_streams;
                    usize::try_from(allowed).unwrap_or(usize::MAX).min(self.taken.get())
                }
            }
        });
        self.status.streams.store(streams, Relaxed);
        streams
    }

    /// Notes that the connection carries nothing any more, and says so to the owners of its streams.
    pub(super) fn lose(&self, why: LossReason) {
        self.status.streams.store(0, Relaxed);
        self.lost.borrow_mut().get_or_insert_with(|| why.clone());
        let streams: Vec<_> = self.streams.borrow().iter().flatten().cloned().collect();
        streams.iter().for_each(|state| state.lost(&why));
    }
}
