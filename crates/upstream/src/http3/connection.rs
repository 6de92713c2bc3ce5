//! State that the task of a connection shares with the owners of its streams.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Context;

use freerun_proto::h3::{H3Config, H3Connection, H3ErrorCode, StreamId};
use freerun_proto::role::Role;
use freerun_quic::http3::Http3Streams;
use freerun_runtime::loops;
use rustc_hash::FxHashMap;

use super::handle::EstablishedQuic;
use super::memory::{ReceiveWindow, UnacknowledgedBytes};
use super::socket::QuicSocket;
use super::stream::OpenStream;
use crate::exchange::limits::{BLOCK_LIMITS, MOST_STREAMS};
use crate::exchange::loss::LossReason;
use crate::exchange::record::ExchangeFault;
use crate::exchange::state::StreamState;
use crate::exchange::status::ConnectionStatus;

/// The size of the table of fields that the server may fill, in bytes. No stream waits for its entries.
const DECODER_TABLE: u32 = 4096;

/// The size of the table of fields that this side fills.
const ENCODER_TABLE: u32 = 4096;

/// The limits for the silence of a server, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct SilenceLimits {
    /// The silence with requests before the server is asked by a PING: servers forget connections that are silent for long.
    pub(super) ping: u64,
    /// The silence of a server that has something to acknowledge, after which no further request is sent on the connection. It is
    /// longer than QUIC needs to send lost packets twice.
    pub(super) doubt: u64,
    /// The silence of a server that has something to acknowledge, after which the connection is lost. Nobody says that a server has
    /// gone if another process takes its packets.
    pub(super) loss: u64,
}

const SILENCE: SilenceLimits = SilenceLimits { ping: 5_000, doubt: 3_000, loss: 10_000 };

const _: () = assert!(SILENCE.doubt < SILENCE.loss, "requests go elsewhere before the connection is lost");

/// A connection.
pub(super) struct Http3State {
    pub(super) socket: QuicSocket,
    streams: RefCell<Http3Streams>,
    /// The streams that have begun and whose owners have not left them, by their numbers.
    open: RefCell<FxHashMap<u64, Rc<OpenStream>>>,
    /// Streams that the server lets this side begin, in the order of their numbers.
    free: RefCell<VecDeque<StreamId>>,
    /// Exchanges that wait for a stream.
    waiting: RefCell<Vec<Rc<StreamState>>>,
    /// Streams whose readers want more.
    wanting: RefCell<Vec<StreamId>>,
    pub(super) status: Arc<ConnectionStatus>,
    /// The task is being polled, and looks itself at what is to be done.
    pub(super) is_polled: Cell<bool>,
    is_woken: Cell<bool>,
    /// Moment at which a datagram came from the server the last time, in milliseconds.
    pub(super) heard: Cell<u64>,
    /// Moment since when the server has something to acknowledge and nothing has come from it, in milliseconds.
    unanswered: Cell<Option<u64>>,
    /// The server has been silent for so long that no further request is sent.
    is_doubted: Cell<bool>,
    pub(super) silence: Cell<SilenceLimits>,
    /// Number of streams that the server has turned out to take, if it refuses more.
    taken: Cell<usize>,
    lost: RefCell<Option<LossReason>>,
    /// Number of bytes that were given to QUIC since no stream was open.
    written: Cell<u64>,
    unacknowledged: UnacknowledgedBytes,
    _window: ReceiveWindow,
}

impl Http3State {
    pub(super) fn new(established: EstablishedQuic) -> Http3State {
        let EstablishedQuic { quic, socket, window } = established;
        let machine = H3Connection::new(&H3Config {
            role: Role::Client,
            max_streams: MOST_STREAMS as u32,
            decoder_table: DECODER_TABLE,
            blocked_streams: 0,
            encoder_table: ENCODER_TABLE,
            encoder_blocked_streams: 0,
            connect_protocol: false,
            limits: BLOCK_LIMITS,
            now: loops::millis(),
        });
        let (open, free, waiting, wanting, is_polled, is_woken, lost) = Default::default();
        Http3State {
            socket,
            streams: RefCell::new(Http3Streams::new(quic, machine)),
            open,
            free,
            waiting,
            wanting,
            status: Arc::new(ConnectionStatus::new(1)),
            is_polled,
            is_woken,
            heard: Cell::new(loops::millis()),
            unanswered: Cell::new(None),
            is_doubted: Cell::new(false),
            silence: Cell::new(SILENCE),
            taken: Cell::new(MOST_STREAMS),
            lost,
            written: Cell::new(0),
            unacknowledged: UnacknowledgedBytes::default(),
            _window: window,
        }
    }

    /// Uses the streams, and has the task do what comes of it.
    pub(super) fn with<T>(&self, with: impl FnOnce(&mut Http3Streams) -> T) -> T {
        let result = with(&mut self.streams.borrow_mut());
        self.wake();
        result
    }

    /// Uses the streams in a way that leaves nothing to do.
    pub(super) fn look<T>(&self, with: impl FnOnce(&mut Http3Streams) -> T) -> T {
        with(&mut self.streams.borrow_mut())
    }

    /// Wakes the task.
    pub(super) fn wake(&self) {
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

    // ---- the silence of the server -------------------------------------------------------------------------------------

    /// Notes that a datagram has come from the server.
    pub(super) fn note_heard(&self) {
        self.heard.set(loops::millis());
        self.unanswered.set(None);
    }

    /// Notes that something is sent that the server has to acknowledge.
    fn note_sent(&self) {
        if self.unanswered.get().is_none() {
            self.unanswered.set(Some(loops::millis()));
        }
    }

    /// Asks the server whether it is there. Its answer changes [`Http3State::heard`].
    pub(super) fn ask(&self) {
        self.note_sent();
        self.with(|streams| streams.quic.inner().ping());
    }

    /// Looks how long the server has been silent: no further request is sent to a server that seems to have gone. Returns when to
    /// look again, in milliseconds. `None`: the connection is lost.
    pub(super) fn judge_silence(&self, now: u64) -> Option<u64> {
        let SilenceLimits { doubt, loss, .. } = self.silence.get();
        let Some(since) = self.unanswered.get() else { return Some(u64::MAX) };
        if now >= since.saturating_add(doubt) && !self.is_doubted.replace(true) {
            self.tell_streams();
            self.wake_waiting();
        }
        let next = since.saturating_add(if self.is_doubted.get() { loss } else { doubt });
        (now < next).then_some(next)
    }

    // ---- streams -------------------------------------------------------------------------------------------------------

    /// Opens streams, as many as the server allows and a connection carries, and wakes those who wait for one.
    pub(super) fn open_streams(&self) {
        let mut free = self.free.borrow_mut();
        while free.len() + self.open.borrow().len() < MOST_STREAMS
            && let Some(id) = self.look(Http3Streams::open)
        {
            free.push_back(id);
        }
        let has_any = !free.is_empty();
        drop(free);
        self.tell_streams();
        if has_any {
            self.wake_waiting();
        }
    }

    /// Whether an exchange can begin a stream, or never will.
    pub(super) fn may_begin(&self) -> bool {
        !self.free.borrow().is_empty() || self.is_ending()
    }

    /// Whether the connection takes no further stream.
    pub(super) fn is_ending(&self) -> bool {
        self.is_doubted.get() || self.lost.borrow().is_some() || self.look(|streams| !streams.machine.can_open())
    }

    /// Begins a stream. `None`: there is none for now.
    pub(super) fn begin(&self, state: &Rc<StreamState>) -> Option<Rc<OpenStream>> {
        let id = self.free.borrow_mut().pop_front()?;
        let has_begun = self.look(|streams| streams.machine.open(id));
        debug_assert!(has_begun, "the number of a new stream is free");
        let stream = Rc::new(OpenStream::new(id, state.clone()));
        let before = self.open.borrow_mut().insert(id.0, stream.clone());
        debug_assert!(before.is_none(), "a stream begins once");
        Some(stream)
    }

    /// Has an exchange woken when there is a stream for it.
    pub(super) fn wait(&self, state: &Rc<StreamState>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|other| Rc::ptr_eq(other, state)) {
            waiting.push(state.clone());
        }
    }

    /// Forgets an exchange that waits for a stream no more.
    pub(super) fn forget_waiting(&self, state: &Rc<StreamState>) {
        self.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, state));
    }

    /// Whether the server has to say something: an exchange has a stream or waits for one, or something is not acknowledged.
    pub(super) fn awaits_server(&self) -> bool {
        self.used() > 0 || !self.waiting.borrow().is_empty() || self.unanswered.get().is_some()
    }

    fn wake_waiting(&self) {
        let waiting = self.waiting.take();
        waiting.iter().for_each(|state| state.wake_writer());
    }

    /// The stream with this number, if its owner has not left it.
    pub(super) fn stream(&self, id: StreamId) -> Option<Rc<OpenStream>> {
        self.open.borrow().get(&id.0).cloned()
    }

    /// The numbers of the streams whose owners have not left them.
    pub(super) fn open_ids(&self) -> Vec<StreamId> {
        self.open.borrow().keys().copied().map(StreamId).collect()
    }

    /// Number of streams whose owners have not left them.
    pub(super) fn used(&self) -> usize {
        self.open.borrow().len()
    }

    /// Notes that the owner of a stream does not use it any more. What is not complete is given up.
    pub(super) fn leave(&self, stream: &OpenStream) {
        let left = self.open.borrow_mut().remove(&stream.id.0);
        debug_assert!(left.is_some(), "a stream is left twice");
        if !stream.is_complete() {
            self.give_up(stream.id, H3ErrorCode::H3_REQUEST_CANCELLED);
        }
        self.with(|streams| streams.machine.release(stream.id));
        self.open_streams();
    }

    /// Gives up both halves of a stream.
    pub(super) fn give_up(&self, id: StreamId, code: H3ErrorCode) {
        self.with(|streams| {
            // A client may reset as many as it likes.
            let _ = streams.machine.reset(id, loops::millis());
            streams.reset(id, code);
            streams.stop(id, code);
        });
    }

    /// Has the task go on with a stream whose reader has room again.
    pub(super) fn want(&self, id: StreamId) {
        self.wanting.borrow_mut().push(id);
        self.wake();
    }

    /// Takes the streams whose readers want more.
    pub(super) fn take_wanting(&self) -> Vec<StreamId> {
        self.wanting.take()
    }

    /// Breaks the streams off at which the server has not looked, and says so to their owners.
    pub(super) fn break_unprocessed(&self) {
        while let Some(id) = self.look(|streams| streams.machine.take_unprocessed()) {
            self.give_up(id, H3ErrorCode::H3_REQUEST_CANCELLED);
            self.stream(id).into_iter().for_each(|stream| stream.broken(&ExchangeFault::GoneAway(0)));
        }
        self.wake_waiting();
    }

    /// Notes that the server has refused a stream: it takes no more than those that it has. If there are none, this
    /// connection is of no use any more.
    pub(super) fn refused(&self) {
        let open = self.look(|streams| streams.machine.open_streams());
        self.taken.set(open.min(self.taken.get()));
        self.tell_streams();
    }

    /// Notes that bytes were given to QUIC.
    pub(super) fn wrote(&self, bytes: usize) {
        self.note_sent();
        self.written.set(self.written.get().saturating_add(bytes as u64));
    }

    /// Lets the bytes that QUIC keeps for the server follow the congestion window, within the bound for all connections.
    pub(super) fn follow_window(&self) {
        if self.used() == 0 {
            self.written.set(0);
            return self.unacknowledged.set(0);
        }
        let others = self.unacknowledged.of_others();
        self.unacknowledged.set(self.look(|streams| streams.follow_window(others, self.written.get())));
    }

    /// Publishes how many streams it carries at a time. While the server is about to allow further ones, that is one.
    pub(super) fn tell_streams(&self) -> usize {
        let allowed = self.free.borrow().len() + self.used();
        let streams = if self.is_ending() { 0 } else { allowed.max(1).min(self.taken.get()) };
        self.status.streams.store(streams, Relaxed);
        streams
    }

    /// Notes that the connection carries nothing any more, and says so to the owners of its streams.
    pub(super) fn lose(&self, why: LossReason) {
        self.status.streams.store(0, Relaxed);
        self.lost.borrow_mut().get_or_insert_with(|| why.clone());
        let streams: Vec<_> = self.open.borrow().values().cloned().collect();
        streams.iter().for_each(|stream| stream.lost(&why));
        self.wake_waiting();
    }
}
