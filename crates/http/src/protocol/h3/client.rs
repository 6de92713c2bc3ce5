//! A connection, as its task and the tasks of its requests share it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use freerun_proto::h3::{H3Config, H3Connection, H3ErrorCode, StreamId};
use freerun_proto::role::Role;
use freerun_quic::Dir;
use freerun_quic::connection::{Event, QuicConnection};
use freerun_quic::datagram::Datagram;
use freerun_quic::hello::HelloProgress;
use freerun_quic::http3::{OwnStreams, machine_id, quic_code};
use freerun_quic::pending::PendingConnection;
use freerun_runtime::loops;
use freerun_runtime::net::udp;
use freerun_runtime::waiter::Waiter;
use freerun_serve::Address;
use freerun_serve::tls::client_facts::CertificateHolder;
use freerun_tls::session::QuicSession;
use rustc_hash::FxBuildHasher;

use crate::connection::{CloseRequest, IdleConnection, IdleSince};
use crate::protocol::h3::H3Driver;
use crate::protocol::h3::socket::QuicSocket;
use crate::protocol::h3::stream::H3Stream;
use crate::protocol::h3::unread_rests::UnreadRests;
use crate::protocol::multiplexed::block_limits;
use crate::request::ConnectionFacts;
use crate::request::generation::ServedBy;
use crate::request::location::Location;
use crate::settings::http3::Http3Settings;
use crate::settings::server::ServerSettings;

/// The most bytes of datagrams that are kept while the handshake is on another thread.
const MOST_KEPT: usize = 96 << 10;

/// The size of the table of fields that clients may fill, in bytes, as in nginx.
pub(super) const DECODER_TABLE: u32 = 4096;

/// The most streams of a client that may wait for entries of that table.
pub(super) const BLOCKED_STREAMS: u16 = 16;

/// The size of the table of fields that this side fills.
const ENCODER_TABLE: u32 = 4096;

/// The room for opened streams that stays when there are none.
const SHORT_LIST: usize = 32;

/// Number of calls for datagrams of one connection before other tasks get their turn.
const CALLS: usize = 8;

/// The state of a connection, as far as QUIC is concerned.
enum QuicState {
    /// The settings are being chosen.
    Pending(Box<PendingConnection>),
    /// A step of its handshake runs, perhaps on another thread. Datagrams wait.
    Away(Vec<Datagram>),
    /// The handshake goes on, or is complete.
    Open(Box<QuicConnection>),
    /// The connection has ended.
    Over,
}

/// A client's connection.
pub(super) struct H3Client {
    pub(super) facts: Rc<ConnectionFacts>,
    pub(super) driver: Rc<H3Driver>,
    pub(super) socket: Rc<QuicSocket>,
    /// The place of the connection at its socket.
    place: u32,
    /// The connection ID that the client has chosen first, until the handshake is complete.
    first_id: RefCell<Vec<u8>>,
    /// The address that the client has moved to and has shown to have, if it has moved.
    peer: RefCell<Option<Rc<Address>>>,
    state: RefCell<QuicState>,
    session: RefCell<Option<QuicSession>>,
    /// The client has offered early data.
    offers_early: Cell<bool>,
    machine: RefCell<H3Connection>,
    /// The streams whose requests have not ended.
    pub(super) streams: RefCell<HashMap<u64, Rc<H3Stream>, FxBuildHasher>>,
    /// The unidirectional streams of this side.
    own: RefCell<OwnStreams>,
    /// Number of bytes of the process's budget that are counted for the connection.
    pub(super) claimed: Cell<u64>,
    /// Number of bytes of responses that QUIC was given since it had none.
    pub(super) written: Cell<u64>,
    /// Streams that QUIC has room for again.
    pub(super) writable: RefCell<Vec<StreamId>>,
    /// The stream that was given room last.
    pub(super) served: Cell<u64>,
    /// Streams whose readers want more.
    pub(super) wanting: RefCell<Vec<StreamId>>,
    /// The rest of what was received on streams that wait for entries of the table of fields, and whether the stream ends with it.
    /// Of requests without frames it is the beginning of the line, and whether the line was whole and the end is awaited.
    pub(super) blocked: RefCell<HashMap<u64, (Bytes, bool), FxBuildHasher>>,
    /// The streams whose responses were sent, and that the client has not acknowledged.
    pub(super) unacknowledged: RefCell<HashSet<u64, FxBuildHasher>>,
    /// The task of the connection.
    task: RefCell<Option<Waker>>,
    /// The task of the connection is being polled.
    is_polled: Cell<bool>,
    /// Another task has left something to do.
    is_woken: Cell<bool>,
    /// The connection has ended.
    is_over: Cell<bool>,
    /// The handshake is not complete.
    is_in_handshake: Cell<bool>,
    /// The streams that the client has opened and that nobody has looked at, unidirectional ones first.
    opened: RefCell<VecDeque<StreamId>>,
    /// The rests of answered requests.
    pub(super) rests: RefCell<UnreadRests>,
    gone: Waiter,
    idle_since: IdleSince,
    close_request: CloseRequest,
}

/// The address of a client. One of IPv4 at a socket of IPv6 is itself.
pub(super) fn client_address(from: SocketAddr) -> Address {
    Address::Ip((from.ip().to_canonical(), from.port()).into())
}

/// The machine of a connection with a server of these settings.
fn machine(entry: &Location) -> H3Connection {
    let settings = entry.settings.get::<Http3Settings>();
    H3Connection::new(&H3Config {
        role: Role::Server,
        max_streams: u32::try_from(settings.http3_max_concurrent_streams).unwrap_or(u32::MAX),
        decoder_table: DECODER_TABLE,
        blocked_streams: BLOCKED_STREAMS,
        encoder_table: ENCODER_TABLE,
        encoder_blocked_streams: 0,
        connect_protocol: settings.http3_extended_connect,
        limits: block_limits(entry.settings.get::<ServerSettings>()),
        now: loops::millis(),
    })
}

impl H3Client {
    /// A connection whose first datagram has come. `None` if no server answers at the socket.
    pub(super) fn new(
        driver: &Rc<H3Driver>,
        socket: &Rc<QuicSocket>,
        place: u32,
        facts: Rc<ConnectionFacts>,
        pending: Box<PendingConnection>,
    ) -> Option<Rc<H3Client>> {
        let (_, servers, _) = driver.http.servers_of(&facts, || facts.local())?;
        let machine = machine(&servers.entry);
        let (first_id, peer, session, offers_early, streams, own, unacknowledged, task) = Default::default();
        let (claimed, written, writable, served, wanting, blocked) = Default::default();
        let (is_polled, is_woken, is_over, gone, idle_since, close_request) = Default::default();
        Some(Rc::new(H3Client {
            facts,
            driver: driver.clone(),
            socket: socket.clone(),
            place,
            first_id,
            peer,
            state: RefCell::new(QuicState::Pending(pending)),
            session,
            offers_early,
            machine: RefCell::new(machine),
            streams,
            own,
            claimed,
            written,
            writable,
            served,
            wanting,
            blocked,
            unacknowledged,
            task,
            is_polled,
            is_woken,
            is_over,
            is_in_handshake: Cell::new(true),
            opened: Default::default(),
            rests: Default::default(),
            gone,
            idle_since,
            close_request,
        }))
    }

    /// Notes the connection ID that the client has chosen first.
    pub(super) fn set_first_id(&self, id: impl AsRef<[u8]>) {
        *self.first_id.borrow_mut() = id.as_ref().to_vec();
    }

    /// The address that the client has connected to.
    pub(super) fn local(&self) -> Address {
        self.facts.local()
    }

    /// The address of the client from now on, if it has moved.
    pub(super) fn peer(&self) -> Option<Rc<Address>> {
        self.peer.borrow().clone()
    }

    // ---- datagrams -------------------------------------------------------------------------------------------------

    /// Takes a datagram.
    pub(super) fn take(&self, datagram: Datagram) {
        let now = loops::now();
        let mut output = Vec::new();
        let answer = match &mut *self.state.borrow_mut() {
            QuicState::Pending(pending) => {
                pending.receive(now, datagram, &mut output);
                None
            }
            QuicState::Away(kept) => {
                if kept.iter().map(|one| one.bytes.len()).sum::<usize>() + datagram.bytes.len() <= MOST_KEPT {
                    kept.push(datagram);
                }
                None
            }
            QuicState::Open(quic) => quic.receive(now, datagram, &mut output),
            QuicState::Over => None,
        };
        if let Some(transmit) = answer {
            self.socket.answer_stranger(&transmit, &output);
        }
        self.wake();
    }

    /// Sends datagrams, as many as in one turn. Returns whether there may be more for now.
    pub(super) fn transmit(&self, now: Instant, context: &Context<'_>) -> bool {
        let mut output = self.driver.output.take();
        let mut has_more = true;
        for _ in 0..CALLS {
            if !self.socket.has_room(context) {
                // The task is woken when there is room again.
                has_more = false;
                break;
            }
            output.clear();
            let run = |quic: &mut QuicConnection| {
                let most = udp::most_in_run(quic.datagram_size());
                quic.transmit(now, most, &mut output)
            };
            let Some(transmit) = self.with_quic(run).flatten() else {
                has_more = false;
                break;
            };
            self.socket.send(&transmit, &output);
        }
        *self.driver.output.borrow_mut() = output;
        self.follow_move();
        has_more
    }

    /// Whether the next datagrams show if the client has the address that it has moved to. Requests that have come since wait
    /// for that.
    pub(super) fn is_moving(&self) -> bool {
        self.with_quic(|quic| quic.is_moving()) == Some(true)
    }

    /// Gives the next requests the address that the client has moved to.
    fn follow_move(&self) {
        let Some(Some(moved)) = self.with_quic(QuicConnection::take_move) else { return };
        self.facts.loop_state.shared.quic.migrated.add();
        *self.peer.borrow_mut() = Some(Rc::new(client_address(moved)));
    }

    // ---- the handshake -----------------------------------------------------------------------------------------------

    /// Ready when the ClientHello is whole, or will never be.
    pub(super) fn poll_hello(&self, context: &mut Context<'_>) -> Poll<HelloProgress> {
        self.task_looks(context);
        match &*self.state.borrow() {
            QuicState::Pending(pending) => match pending.progress() {
                HelloProgress::NeedMore => Poll::Pending,
                progress => Poll::Ready(progress),
            },
            _ => Poll::Ready(HelloProgress::Other),
        }
    }

    /// The ClientHello.
    pub(super) fn hello(&self) -> Option<Vec<u8>> {
        match &*self.state.borrow() {
            QuicState::Pending(pending) => Some(pending.hello().to_vec()),
            _ => None,
        }
    }

    /// Notes the session that the handshake is about, and whether the client would like to send early data.
    pub(super) fn set_session(&self, session: QuicSession, offers_early: bool) {
        *self.session.borrow_mut() = Some(session);
        self.offers_early.set(offers_early);
    }

    /// Whether the client has offered early data.
    pub(super) fn offers_early(&self) -> bool {
        self.offers_early.get()
    }

    /// Uses the settings of the server that the client has named.
    pub(super) fn set_settings(&self, entry: &Location) {
        *self.machine.borrow_mut() = machine(entry);
    }

    /// Takes the connection out, so that a step of its handshake can run.
    pub(super) fn take_pending(&self) -> Option<Box<PendingConnection>> {
        let before = self.state.replace(QuicState::Away(Vec::new()));
        match before {
            QuicState::Pending(pending) => Some(pending),
            other => {
                self.state.replace(other);
                None
            }
        }
    }

    /// Takes the connection back, whose handshake goes on.
    pub(super) fn opened(&self, quic: Box<QuicConnection>) {
        let before = self.state.replace(QuicState::Open(quic));
        let QuicState::Away(kept) = before else {
            debug_assert!(false, "a connection comes back that was not away");
            return;
        };
        kept.into_iter().for_each(|datagram| self.take(datagram));
    }

    /// The session, once there is one.
    pub(super) fn session(&self) -> Option<QuicSession> {
        self.session.borrow().clone()
    }

    /// Whether the client speaks HTTP/0.9 (`http3_hq`).
    pub(super) fn is_bare(&self) -> bool {
        self.facts
            .tls()
            .is_some_and(|facts| facts.agreed().is_some_and(|agreed| agreed.alpn.as_deref() == Some(b"hq-interop")))
    }

    /// Whether the handshake was completed.
    pub(super) fn is_established(&self) -> bool {
        self.facts.tls().is_some_and(|facts| facts.agreed().is_some_and(|agreed| !agreed.is_early))
    }

    /// Notes that the handshake has ended.
    pub(super) fn end_handshake(&self) {
        if self.is_in_handshake.replace(false) {
            self.socket.end_handshake();
        }
    }

    /// Forgets the connection ID that the client has chosen first: the client uses the IDs of this server.
    pub(super) fn forget_first_id(&self) {
        let id = self.first_id.take();
        if !id.is_empty() {
            self.socket.forget_first_id(&id);
        }
    }

    // ---- QUIC and the machine ----------------------------------------------------------------------------------------

    /// Uses the connection of QUIC, if it is here.
    pub(super) fn with_quic<T>(&self, with: impl FnOnce(&mut QuicConnection) -> T) -> Option<T> {
        match &mut *self.state.borrow_mut() {
            QuicState::Open(quic) => Some(with(quic)),
            QuicState::Pending(_) | QuicState::Away(_) | QuicState::Over => None,
        }
    }

    /// The next event of the connection.
    pub(super) fn next_event(&self) -> Option<Event> {
        self.with_quic(QuicConnection::next_event)?
    }

    /// Uses the machine.
    pub(super) fn machine<T>(&self, with: impl FnOnce(&mut H3Connection) -> T) -> T {
        with(&mut self.machine.borrow_mut())
    }

    /// Writes what the machine has for its own streams, as far as QUIC takes it.
    pub(super) fn write_own(&self) {
        // Before that it is not known whether the client speaks HTTP/3.
        if self.is_bare() || self.facts.tls().is_none_or(|facts| facts.agreed().is_none()) {
            return;
        }
        self.with_quic(|quic| self.own.borrow_mut().write(quic, &mut self.machine.borrow_mut()));
    }

    /// Asks the client to begin no further stream.
    pub(super) fn announce_end(&self) {
        self.machine(H3Connection::announce_end);
        self.wake();
    }

    /// Sends the client the number of the last stream that has begun.
    pub(super) fn finish(&self) {
        self.machine(H3Connection::finish);
        self.wake();
    }

    /// Ends the connection with this code.
    pub(super) fn close(&self, code: H3ErrorCode, reason: &str) {
        let reason = Bytes::copy_from_slice(reason.as_bytes());
        self.with_quic(|quic| quic.inner().close(loops::now(), quic_code(code), reason));
    }

    /// Ends the connection at once with this code: its socket is about to be closed, or its task has ended.
    pub(super) fn close_now(&self, code: H3ErrorCode) {
        self.close(code, "");
        let mut output = Vec::new();
        while let Some(transmit) = self.with_quic(|quic| quic.transmit(loops::now(), 1, &mut output)).flatten() {
            self.socket.send(&transmit, &output);
            output.clear();
        }
        self.over();
        self.wake();
    }

    /// Notes that the connection has ended: no stream of it goes on.
    pub(super) fn over(&self) {
        self.end_streams(H3Stream::leave);
    }

    /// Notes that the connection has failed, which is logged.
    pub(super) fn failed(&self) {
        self.end_streams(H3Stream::fail);
    }

    /// Whether the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Takes the streams of this direction that the client has opened out of QUIC, at most as many as it may open at a time.
    /// QUIC counts a stream from then on, so this comes before anything else is done with one.
    pub(super) fn take_opened(&self, direction: Dir) {
        let mut opened = self.opened.borrow_mut();
        while let Some(id) = self.with_quic(|quic| quic.inner().streams().accept(direction)).flatten() {
            match direction {
                Dir::Uni => opened.push_front(machine_id(id)),
                Dir::Bi => opened.push_back(machine_id(id)),
            }
        }
    }

    /// The next stream that the client has opened and that nobody has looked at; unidirectional ones first.
    pub(super) fn next_opened(&self) -> Option<StreamId> {
        let mut opened = self.opened.borrow_mut();
        let next = opened.pop_front();
        if opened.is_empty() && opened.capacity() > SHORT_LIST {
            // A client that has begun many streams at once may now wait for long.
            *opened = VecDeque::new();
        }
        next
    }

    fn end_streams(&self, end: impl Fn(&H3Stream)) {
        self.is_over.set(true);
        let streams: Vec<_> = self.streams.borrow().values().cloned().collect();
        streams.iter().for_each(|stream| end(stream));
        self.gone.wake();
    }

    /// Gives up the place of the connection at its socket. The connection has ended.
    pub(super) fn leave(&self) {
        self.over();
        self.claim(0);
        self.end_handshake();
        self.forget_first_id();
        self.state.replace(QuicState::Over);
        self.socket.leave(self.place);
    }

    // ---- the task ----------------------------------------------------------------------------------------------------

    /// Wakes the connection's task.
    pub(super) fn wake(&self) {
        if self.is_polled.get() || self.is_woken.replace(true) {
            return;
        }
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Wakes the connection's task, although it is being polled: it has left something to send.
    pub(super) fn wake_later(&self) {
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

    /// Notes whether the task is being polled: then nobody has to wake it.
    pub(super) fn set_polled(&self, is_polled: bool) {
        self.is_polled.set(is_polled);
    }
}

impl IdleConnection<ServedBy> for H3Client {
    fn facts(&self) -> &ConnectionFacts {
        &self.facts
    }

    fn local(&self) -> Address {
        H3Client::local(self)
    }

    fn idle_since(&self) -> &IdleSince {
        &self.idle_since
    }

    fn close_request(&self) -> &CloseRequest {
        &self.close_request
    }

    fn wake_to_close(&self) {
        self.wake();
    }
}

impl CertificateHolder for H3Client {
    async fn gone(&self) {
        std::future::poll_fn(|context| {
            if self.is_over.get() {
                return Poll::Ready(());
            }
            self.gone.keep(context);
            Poll::Pending
        })
        .await;
    }

    fn settle(&self, is_good: bool) {
        if let Some(session) = self.session() {
            session.settle(is_good);
        }
    }
}
