//! The connections of a loop at an address: which one a datagram belongs to, and those that begin.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::BytesMut;
use freerun_quic::connection_id::{
    self, ConnectionIds, ConnectionPlace, LoopPlace, MOST_LOOPS, MOST_PROCESSES, NO_PLACE,
};
use freerun_quic::datagram::Datagram;
use freerun_quic::keys::QuicKeys;
use freerun_quic::packet::{PacketHead, SMALLEST_INITIAL};
use freerun_quic::pending::{FirstDatagram, PendingConnection};
use freerun_quic::settings::{self, ConnectionSettings};
use freerun_quic::{ServerConfig, Transmit};
use freerun_runtime::loops;
use freerun_runtime::net::udp::{DatagramTarget, ReceivedDatagrams};
use freerun_serve::Address;
use freerun_serve::accept::datagrams::client_key::{ClientKey, FirstId};
use freerun_serve::accept::datagrams::{DatagramListener, SharedPart, SocketPlace};
use freerun_serve::accept::loop_listeners::{self, services_of_this_loop};
use freerun_serve::loops::message_boxes::{MessageBoxes, PROCESSES, PassedPacket};
use freerun_serve::loops::state::LoopState;
use freerun_tls::session::quic_without_session;

use crate::http_loop::HttpLoop;
use crate::protocol::h3::H3Driver;
use crate::protocol::h3::client::{H3Client, client_address};
use crate::protocol::h3::task::H3Task;
use crate::request::ConnectionFacts;
use crate::settings::http3::Http3Settings;

/// The most connections whose clients have not shown their addresses. Further clients are asked to show them first.
const MOST_UNVALIDATED: usize = 1024;

/// The part of `worker_connections` that such connections may take at most, so that a flood of them leaves room for others.
const UNVALIDATED_PART: usize = 4;

/// The most connections whose handshakes are not complete. Further ones are left out, as if their datagrams were lost.
const MOST_HANDSHAKES: usize = 8192;

/// Number of connections that begin in a turn of the loop: each costs as much as 0.1 ms. The kernel may give a loop two thousand
/// datagrams at once.
const MOST_BEGUN: u32 = 16;

/// The most first datagrams that wait for later turns. Further ones are left out.
const MOST_WAITING: usize = 1024;

/// The most answers in a second to datagrams that belong to no connection.
const MOST_ANSWERS: u32 = 1000;

/// The bit of a packet's first byte that a short header, and so a stateless reset, does not have.
const SHORT_HEADER: u8 = 0x80;

const _: () = assert!(PROCESSES == MOST_PROCESSES, "connection IDs name each process that may live");

/// The process that has passed a packet on, and the index of its loop.
type PacketSender = (u8, u16);

/// A client that is known by the connection ID that it has chosen.
struct FirstClient {
    /// The place of its connection.
    place: u32,
    /// The part of the address that has it counted among its clients.
    part: Option<SharedPart>,
}

/// A client's first datagram that waits for a later turn, and the part of the address that has the client counted meanwhile.
struct WaitingDatagram {
    datagram: Datagram,
    part: Option<(SharedPart, ClientKey)>,
}

/// The connections at an address, each in a place of its own.
#[derive(Default)]
struct ClientPlaces {
    clients: Vec<Option<Rc<H3Client>>>,
    free: Vec<u32>,
}

/// The sockets for QUIC that a loop has at an address.
pub(super) struct QuicSocket {
    /// The sockets in the order of their numbers, at least one: the first one sends. There are several where there were more
    /// loops before.
    listeners: RefCell<Vec<Rc<DatagramListener>>>,
    loop_state: Rc<LoopState>,
    keys: QuicKeys,
    /// The index of the loop.
    index: u16,
    /// The settings of connections that are not accepted yet.
    before: Arc<ServerConfig>,
    places: RefCell<ClientPlaces>,
    /// The connections by the IDs that their clients have chosen, until the handshake is complete. Clients choose these
    /// keys, so the table is hashed by a secret.
    first_ids: RefCell<HashMap<FirstId, FirstClient>>,
    /// Number of connections at the address, which all loops count together.
    connections: Arc<AtomicUsize>,
    /// Number of connections whose handshakes are not complete.
    handshakes: Cell<usize>,
    /// Number of connections that may still begin in this turn.
    may_begin: Cell<u32>,
    /// First datagrams of clients that wait for later turns.
    waiting: RefCell<VecDeque<WaitingDatagram>>,
    /// Whether a task takes the datagrams that wait.
    has_waiting_task: Cell<bool>,
    /// The second in which answers were sent, and their number.
    answers: Cell<(u64, u32)>,
}

impl QuicSocket {
    /// The connections of a loop at this socket. `None` if the library lacks what it needs, or there are too many loops.
    pub(super) fn new(
        listener: Rc<DatagramListener>,
        loop_state: &Rc<LoopState>,
        keys: QuicKeys,
    ) -> Option<Rc<QuicSocket>> {
        let index = u16::try_from(loop_state.index).ok().filter(|index| *index < MOST_LOOPS)?;
        let settings = ConnectionSettings::default();
        let before = settings::server(&keys, quic_without_session()?, settings.transport());
        let connections = listener.connections();
        let socket = Rc::new(QuicSocket {
            connections,
            listeners: RefCell::new(vec![listener]),
            loop_state: loop_state.clone(),
            keys,
            index,
            before,
            places: RefCell::default(),
            first_ids: RefCell::default(),
            handshakes: Cell::default(),
            may_begin: Cell::default(),
            waiting: RefCell::default(),
            has_waiting_task: Cell::default(),
            answers: Cell::default(),
        });
        socket.tell_ids();
        Some(socket)
    }

    /// Has other threads know the connection IDs that lead here: they may read the sockets while this loop is late.
    fn tell_ids(&self) {
        let ids = self.ids();
        let listeners = self.listeners.borrow();
        listeners.iter().filter_map(|listener| listener.shared()).for_each(|shared| shared.part.set_ids(ids.clone()));
    }

    /// The part of the address whose socket gets datagrams with this connection ID, if it is one of this loop. Otherwise the
    /// part of its first socket: another thread has passed them on. `None`: no other thread reads for this loop.
    fn part_for(&self, id: &[u8]) -> Option<SharedPart> {
        let listeners = self.listeners.borrow();
        let gets =
            |place: SocketPlace| id.first().is_some_and(|first| usize::from(*first) % place.sockets == place.number);
        let listener = listeners.iter().find(|listener| gets(listener.place())).unwrap_or(&listeners[0]);
        listener.shared().filter(|shared| !shared.directory.is_one()).cloned()
    }

    /// The socket that sends.
    fn listener(&self) -> Rc<DatagramListener> {
        self.listeners.borrow()[0].clone()
    }

    /// Takes another socket of the address, in the place of those that the loop does not read any more.
    pub(super) fn add(&self, listener: &Rc<DatagramListener>) {
        let mut listeners = self.listeners.borrow_mut();
        listeners.retain(|listener| listener.is_read());
        listeners.push(listener.clone());
        listeners.sort_by_key(|listener| listener.place().number);
        drop(listeners);
        self.tell_ids();
    }

    /// Whether this listening socket is one of them.
    pub(super) fn has(&self, listener: *const DatagramListener) -> bool {
        self.listeners.borrow().iter().any(|one| Rc::as_ptr(one) == listener)
    }

    /// The connection IDs that lead here, as long as the address has the sockets that it has now.
    fn ids(&self) -> ConnectionIds {
        let place = self.listener().place();
        let of = u8::try_from(place.sockets).unwrap_or(u8::MAX).max(1);
        let number = u8::try_from(place.number).unwrap_or(u8::MAX) % of;
        ConnectionIds::new(&self.keys, LoopPlace { process: self.process(), index: self.index, number, of })
    }

    /// The message boxes of the processes that serve the same sockets, if there may be several.
    fn boxes(&self) -> Option<&MessageBoxes> {
        self.loop_state.shared.boxes.get().map(|boxes| &**boxes)
    }

    /// The number of this process.
    fn process(&self) -> u8 {
        self.boxes().map_or(0, MessageBoxes::process)
    }

    /// Whether a connection with this place would be one of this loop.
    fn is_here(&self, place: &ConnectionPlace) -> bool {
        place.process == self.process() && place.index == self.index
    }

    /// The keys.
    pub(super) fn keys(&self) -> &QuicKeys {
        &self.keys
    }

    /// Whether the newest configuration listens at the address.
    pub(super) fn is_listened_at(&self, driver: &H3Driver) -> bool {
        driver.http.generation().http.listens.find(&self.listener().spec()).is_some()
    }

    /// All connections at these sockets.
    pub(super) fn clients(&self) -> Vec<Rc<H3Client>> {
        self.places.borrow().clients.iter().flatten().cloned().collect()
    }

    /// Begins a turn of the loop.
    pub(super) fn begin_turn(&self) {
        self.may_begin.set(MOST_BEGUN);
    }

    /// Gives each of the datagrams that were received together to its connection.
    pub(super) fn take(self: &Rc<Self>, driver: &Rc<H3Driver>, received: ReceivedDatagrams<'_>) {
        let Some(from) = received.from else { return };
        // Each has memory of its own, since connections keep parts of it.
        for one in received.each() {
            self.take_one(driver, Datagram { bytes: BytesMut::from(one.bytes), from, to: one.to, ecn: one.ecn });
        }
    }

    fn take_one(self: &Rc<Self>, driver: &Rc<H3Driver>, datagram: Datagram) {
        let Some(head) = PacketHead::parse(&datagram.bytes, connection_id::LENGTH) else { return };
        let place = self.ids().place(head.destination);
        if let Some(place) = place.filter(|place| !self.is_here(place) && place.place != NO_PLACE) {
            let is_passed_on = match self.boxes().filter(|boxes| boxes.may_live(place.process)) {
                Some(boxes) => self.pass_to_process(boxes, (place.process, place.index), &datagram, false),
                None => place.process == self.process() && self.pass_on(place.index, &datagram),
            };
            if is_passed_on {
                return;
            }
        }
        self.take_for(driver, place.filter(|place| self.is_here(place)), datagram, None);
    }

    /// Passes a datagram on to a loop of another process. It is done with then: what does not fit is lost.
    fn pass_to_process(
        &self,
        boxes: &MessageBoxes,
        (process, index): (u8, u16),
        datagram: &Datagram,
        is_returned: bool,
    ) -> bool {
        let listener = self.listener();
        let spec = listener.spec();
        let packet = PassedPacket {
            sender: self.process(),
            sender_loop: self.index,
            index,
            is_returned,
            address: spec.name.as_str().into(),
            from: datagram.from,
            to: datagram.to,
            ecn: datagram.ecn,
            bytes: &datagram.bytes,
        };
        if !boxes.pass_on(process, packet) {
            listener.lose_from_clients(1);
        }
        true
    }

    /// Takes a packet that another process has read.
    pub(super) fn take_packet(self: &Rc<Self>, driver: &Rc<H3Driver>, packet: &PassedPacket<'_>) {
        let PassedPacket { from, to, ecn, bytes, .. } = *packet;
        let Some(head) = PacketHead::parse(bytes, connection_id::LENGTH) else { return };
        let place = self.ids().place(head.destination).filter(|place| self.is_here(place));
        let sender = (!packet.is_returned).then_some((packet.sender, packet.sender_loop));
        self.take_for(driver, place, Datagram { bytes: BytesMut::from(bytes), from, to, ecn }, sender);
    }

    /// Gives a datagram to the connection at this place, or begins a connection with it. If another process has sent it, and it
    /// belongs to no connection of a process that is about to end, it goes back.
    fn take_for(
        self: &Rc<Self>,
        driver: &Rc<H3Driver>,
        place: Option<ConnectionPlace>,
        datagram: Datagram,
        sender: Option<PacketSender>,
    ) {
        let Some(head) = PacketHead::parse(&datagram.bytes, connection_id::LENGTH) else { return };
        let known = place.and_then(|place| self.client(place.place)).or_else(|| {
            head.version?;
            let place = self.first_ids.borrow().get(head.destination)?.place;
            self.client(place)
        });
        match known {
            Some(client) => client.take(datagram),
            None if head.is_initial && datagram.bytes.len() >= SMALLEST_INITIAL => {
                let sender = sender.filter(|_| self.loop_state.is_draining());
                if let Some((sender, boxes)) = sender.zip(self.boxes()) {
                    self.pass_to_process(boxes, sender, &datagram, true);
                    return;
                }
                if self.may_begin.get() == 0 {
                    return self.postpone(driver, datagram);
                }
                self.may_begin.set(self.may_begin.get() - 1);
                let id = FirstId::from_slice(head.destination);
                self.begin(driver, datagram, id);
            }
            None => self.answer(datagram),
        }
    }

    /// Gives a datagram to the loop with this index. False if there is none: the connection is not known any more.
    fn pass_on(&self, index: u16, datagram: &Datagram) -> bool {
        let name = self.listener().spec().name.clone();
        let Datagram { bytes, from, to, ecn } = datagram;
        let (bytes, from, to, ecn) = (bytes.clone(), *from, *to, *ecn);
        loop_listeners::pass_packet(&self.loop_state.shared, usize::from(index), move |services| {
            if let Some(driver) = HttpLoop::of(&services.loop_state).and_then(|http| H3Driver::of(&http)) {
                driver.take_passed_on(&name, Datagram { bytes, from, to, ecn });
            }
        })
    }

    /// Whether this is the address with this name.
    pub(super) fn is(&self, name: &str) -> bool {
        self.listeners.borrow()[0].spec().name == name
    }

    /// Takes a datagram that has come to another loop.
    pub(super) fn take_passed_on(self: &Rc<Self>, driver: &Rc<H3Driver>, datagram: Datagram) {
        if let Some(head) = PacketHead::parse(&datagram.bytes, connection_id::LENGTH) {
            let place = self.ids().place(head.destination).filter(|place| self.is_here(place));
            self.take_for(driver, place, datagram, None);
        }
    }

    fn client(&self, place: u32) -> Option<Rc<H3Client>> {
        self.places.borrow().clients.get(place as usize)?.clone()
    }

    /// Answers a datagram that belongs to no connection, if anything is to be answered: with the versions that are spoken,
    /// or with a stateless reset.
    fn answer(&self, datagram: Datagram) {
        if !self.may_answer() {
            return;
        }
        let endpoint = settings::endpoint(&self.keys, &self.ids(), 0);
        let mut output = Vec::new();
        if let FirstDatagram::Response(transmit) =
            PendingConnection::begin(endpoint, self.before.clone(), loops::now(), datagram, &mut output)
        {
            self.send_answer(&transmit, &output);
        }
    }

    /// Whether a datagram that belongs to no connection may be answered: their number in a second is limited.
    fn may_answer(&self) -> bool {
        let (second, count) = self.answers.get();
        let now = loops::millis() / 1000;
        let count = if second == now { count } else { 0 };
        if count < MOST_ANSWERS {
            self.answers.set((now, count + 1));
        }
        count < MOST_ANSWERS
    }

    /// Sends the answer to a datagram that belongs to no connection.
    fn send_answer(&self, transmit: &Transmit, bytes: &[u8]) {
        if bytes.first().is_some_and(|first| first & SHORT_HEADER == 0) {
            self.loop_state.shared.quic.resets.add();
        }
        self.send(transmit, bytes);
    }

    /// Sends the answer to a datagram whose connection ID names the place of a connection that does not know it: an earlier one
    /// had the place.
    pub(super) fn answer_stranger(&self, transmit: &Transmit, bytes: &[u8]) {
        if self.may_answer() {
            self.send_answer(transmit, bytes);
        }
    }

    /// Keeps a client's first datagram for a later turn.
    fn postpone(self: &Rc<Self>, driver: &Rc<H3Driver>, datagram: Datagram) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= MOST_WAITING {
            return self.listener().lose_from_clients(1);
        }
        let id =
            PacketHead::parse(&datagram.bytes, connection_id::LENGTH).map(|head| FirstId::from_slice(head.destination));
        let part = id.and_then(|id| Some((self.part_for(&id)?, ClientKey::FirstId(id))));
        part.iter().for_each(|(part, client)| part.note(client, true));
        waiting.push_back(WaitingDatagram { datagram, part });
        drop(waiting);
        if !self.has_waiting_task.replace(true) {
            let (socket, driver) = (self.clone(), driver.clone());
            loops::spawn(0, "beginning QUIC connections", async move {
                while !socket.waiting.borrow().is_empty() {
                    loops::yield_now().await;
                    socket.take_waiting(&driver);
                }
                socket.has_waiting_task.set(false);
            });
        }
    }

    /// Takes datagrams that wait, as many as in a turn.
    fn take_waiting(self: &Rc<Self>, driver: &Rc<H3Driver>) {
        self.begin_turn();
        for _ in 0..MOST_BEGUN {
            let first = self.waiting.borrow_mut().pop_front();
            let Some(WaitingDatagram { datagram, part }) = first else { return };
            if !self.listener().has_ended() {
                self.take_passed_on(driver, datagram);
            }
            part.iter().for_each(|(part, client)| part.note(client, false));
        }
    }

    /// Begins a connection.
    fn begin(self: &Rc<Self>, driver: &Rc<H3Driver>, datagram: Datagram, id: FirstId) {
        let state = &self.loop_state;
        let handshakes = self.handshakes.get();
        if state.is_draining() || handshakes >= MOST_HANDSHAKES {
            return self.listener().lose_from_clients(1);
        }
        let most_unvalidated = (state.admission.limit() / UNVALIDATED_PART).clamp(1, MOST_UNVALIDATED);
        if (handshakes >= most_unvalidated || self.wants_retry(driver)) && self.retry(&datagram) {
            return;
        }
        if state.admission.is_full() {
            if let Some(services) = services_of_this_loop() {
                services.make_room();
            }
            if state.admission.is_full() {
                state.shared.quic.refused.add();
                return self.listener().lose_from_clients(1);
            }
        }
        let Some(place) = self.reserve() else { return self.listener().lose_from_clients(1) };
        let (from, to) = (datagram.from, datagram.to);
        let endpoint = settings::endpoint(&self.keys, &self.ids(), place);
        let mut output = Vec::new();
        let pending = match PendingConnection::begin(endpoint, self.before.clone(), loops::now(), datagram, &mut output)
        {
            FirstDatagram::Pending(pending) => pending,
            FirstDatagram::Response(transmit) => {
                self.release(place);
                return self.send(&transmit, &output);
            }
            FirstDatagram::Nothing => return self.release(place),
        };
        let number = state.shared.next_connection();
        let peer = client_address(from);
        let facts = Rc::new(ConnectionFacts::new(number, peer, self.listener().spec(), state.clone()));
        if let Some(to) = to {
            facts.set_local(self.local(to));
        }
        let Some(client) = H3Client::new(driver, self, place, facts, pending) else {
            return self.release(place);
        };
        self.handshakes.set(handshakes + 1);
        self.note_first_id(id.clone(), place);
        client.set_first_id(id);
        self.places.borrow_mut().clients[place as usize] = Some(client.clone());
        self.connections.fetch_add(1, Relaxed);
        state.admission.begin();
        state.shared.quic.connections.add();
        state.shared.quic.open.add();
        (driver.start)(number, H3Task::new(client));
    }

    /// Asks a client to show that it has its address, unless it does. Returns whether the datagram needs nothing more.
    fn retry(&self, datagram: &Datagram) -> bool {
        let endpoint = settings::endpoint(&self.keys, &self.ids(), NO_PLACE);
        let mut output = Vec::new();
        let (settings, datagram) = (self.before.clone(), datagram.clone());
        match PendingConnection::begin(endpoint, settings, loops::now(), datagram, &mut output) {
            FirstDatagram::Pending(pending) => {
                if pending.is_validated() {
                    pending.ignore();
                    return false;
                }
                if let Some(transmit) = pending.retry(&mut output) {
                    self.loop_state.shared.quic.retries.add();
                    self.send(&transmit, &output);
                }
            }
            FirstDatagram::Response(transmit) => self.send(&transmit, &output),
            FirstDatagram::Nothing => {}
        }
        true
    }

    /// The address that a client has sent to, with the port of the socket.
    fn local(&self, to: IpAddr) -> Address {
        let port = self.listener().spec().ip.map_or(0, |address| address.port());
        Address::Ip(SocketAddr::new(to.to_canonical(), port))
    }

    /// Whether clients have to show their addresses in any case (`quic_retry`).
    fn wants_retry(&self, driver: &H3Driver) -> bool {
        let generation = driver.http.generation();
        let servers = generation.http.listens.find(&self.listener().spec());
        servers.is_some_and(|listen| listen.servers.default.entry.settings.get::<Http3Settings>().quic_retry)
    }

    /// Takes a place for a connection, if there is any.
    fn reserve(&self) -> Option<u32> {
        let ClientPlaces { clients, free } = &mut *self.places.borrow_mut();
        free.pop().or_else(|| {
            let place = u32::try_from(clients.len()).ok().filter(|place| *place < NO_PLACE)?;
            clients.push(None);
            Some(place)
        })
    }

    /// Gives a place back that no connection has.
    fn release(&self, place: u32) {
        let ClientPlaces { clients, free } = &mut *self.places.borrow_mut();
        debug_assert!(clients[place as usize].is_none() && !free.contains(&place), "a place is given back once");
        free.push(place);
    }

    /// Notes that the handshake of a connection has ended.
    pub(super) fn end_handshake(&self) {
        debug_assert!(self.handshakes.get() > 0, "a handshake ends that has not begun");
        self.handshakes.set(self.handshakes.get() - 1);
    }

    /// Notes the connection ID that a client has chosen first, and the place of its connection.
    fn note_first_id(&self, id: FirstId, place: u32) {
        let part = self.part_for(&id);
        part.iter().for_each(|part| part.note(&ClientKey::FirstId(id.clone()), true));
        let before = self.first_ids.borrow_mut().insert(id.clone(), FirstClient { place, part });
        debug_assert!(before.is_none(), "a client that is known begins no other connection");
    }

    /// Forgets the connection ID that a client has chosen first: its handshake is complete, or has failed.
    pub(super) fn forget_first_id(&self, id: &[u8]) {
        let known = self.first_ids.borrow_mut().remove(id);
        let part = known.and_then(|known| known.part);
        part.iter().for_each(|part| part.note(&ClientKey::FirstId(FirstId::from_slice(id)), false));
    }

    /// Forgets the connection in this place.
    pub(super) fn leave(&self, place: u32) {
        let left = self.places.borrow_mut().clients[place as usize].take();
        debug_assert!(left.is_some(), "a connection leaves once");
        self.connections.fetch_sub(1, Relaxed);
        self.release(place);
        drop(left);
    }

    /// Whether datagrams may be sent now, or the socket is full. The task of the context is woken when there is room.
    pub(super) fn has_room(&self, context: &std::task::Context<'_>) -> bool {
        self.listener().poll_room(context).is_ready()
    }

    /// Sends datagrams.
    pub(super) fn send(&self, transmit: &Transmit, bytes: &[u8]) {
        let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
        let target =
            DatagramTarget { to: Some(transmit.destination), from: self.listener().source(transmit.src_ip), ecn };
        self.listener().send(target, &bytes[..transmit.size], transmit.segment_size);
    }
}
