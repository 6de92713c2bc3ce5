//! A listening socket for datagrams on one loop: what comes is given to a service
//! ([`Service::datagrams`](crate::accept::service::Service::datagrams)), and what its sessions send is gathered until the end of
//! the loop's turn.

pub mod client_key;
pub mod datagram_copy;
pub mod directory;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use freerun_runtime::log::{Errno as ShowErrno, Level};
use freerun_runtime::loops;
use freerun_runtime::net::udp::{DatagramTarget, Datagrams, Runs, SendQueue, UnsentDatagrams};
use rustix::io::Errno;

use self::directory::{Directory, SocketPart};
use crate::listen::ListenSpec;
use crate::loops::local::LoopLocal;
use crate::loops::state::LoopState;

/// The most tasks that wait for the socket to take datagrams again. Each is a session; those beyond lose datagrams instead,
/// as a network without room does.
const MOST_WAITING: usize = 4096;

/// Number of waiting tasks, the last ones, among which a task looks for itself before it waits once more.
const WAITING_LOOKED_AT: usize = 16;

/// The least time between two lines in the log about datagrams that a socket could not send, in milliseconds. A sender with
/// invented addresses may choose addresses that nothing can be sent to.
const BETWEEN_LINES: u64 = 1000;

/// A listening socket for datagrams, as one loop has it. It stays the same over a reload that changes only options.
pub struct DatagramListener {
    spec: RefCell<LoopLocal<ListenSpec>>,
    socket: RefCell<Rc<Datagrams>>,
    queue: RefCell<SendQueue>,
    /// The task that sends what is queued.
    sender: RefCell<Option<Waker>>,
    /// Whether the socket was full when datagrams were last sent.
    full: Cell<bool>,
    /// Tasks that wait for room.
    waiting: RefCell<Vec<Waker>>,
    /// Number of datagrams that could not be sent.
    lost: Cell<u64>,
    /// The loop that logs and counts it.
    loop_state: OnceCell<Rc<LoopState>>,
    /// The time from which on the log gets a line again, and the number of datagrams that it has no line about.
    untold: Cell<(u64, usize)>,
    /// Whether nothing is sent any more.
    ended: Cell<bool>,
    /// Facts that other loops share about the clients here, if there are others.
    shared: Option<SharedPart>,
    /// Its place among the sockets of the address.
    place: Cell<SocketPlace>,
    /// Whether the loop reads it.
    is_read: Cell<bool>,
    /// The number of connections of QUIC at the address, on all loops.
    connections: OnceCell<Arc<AtomicUsize>>,
}

/// The place of a socket among the sockets of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketPlace {
    /// The number of the socket: they are counted in the order in which they were bound, as the kernel counts them.
    pub number: usize,
    /// The number of sockets of the address.
    pub sockets: usize,
}

impl SocketPlace {
    /// The place of an address's only socket.
    pub const ALONE: SocketPlace = SocketPlace { number: 0, sockets: 1 };
}

/// Facts that other loops share about the clients at a loop's socket.
#[derive(Clone)]
pub struct SharedPart {
    /// All that is known of the address.
    pub directory: Arc<Directory>,
    /// The socket's part in the directory.
    pub part: Arc<SocketPart>,
}

impl DatagramListener {
    /// Takes over a loop's socket for this address; `shared` is what other loops know of it, if there are others.
    pub fn new(spec: LoopLocal<ListenSpec>, fd: Arc<OwnedFd>, shared: Option<SharedPart>) -> Rc<DatagramListener> {
        let socket = RefCell::new(socket(&spec, fd));
        let (queue, sender, full, waiting, lost, ended) = Default::default();
        let (loop_state, untold, connections) = Default::default();
        let spec = RefCell::new(spec);
        let place = Cell::new(SocketPlace::ALONE);
        let is_read = Cell::new(true);
        Rc::new(DatagramListener {
            spec,
            socket,
            queue,
            sender,
            full,
            waiting,
            lost,
            loop_state,
            untold,
            ended,
            shared,
            place,
            is_read,
            connections,
        })
    }

    /// Has what cannot be sent logged and counted by this loop.
    pub(crate) fn tell(&self, loop_state: &Rc<LoopState>) {
        let _ = self.loop_state.set(loop_state.clone());
    }

    /// Has connections of QUIC counted here.
    pub(crate) fn count_connections(&self, connections: &Arc<AtomicUsize>) {
        let _ = self.connections.set(connections.clone());
    }

    /// The number of connections of QUIC at the address, which all of its loops count together.
    pub fn connections(&self) -> Arc<AtomicUsize> {
        self.connections.get_or_init(Default::default).clone()
    }

    /// The specification of the socket.
    pub fn spec(&self) -> LoopLocal<ListenSpec> {
        self.spec.borrow().clone()
    }

    /// Facts that other loops share about the clients here, if there are others.
    pub fn shared(&self) -> Option<&SharedPart> {
        self.shared.as_ref()
    }

    /// Its place among the sockets of the address. A reload may change their number, and no socket's own.
    pub fn place(&self) -> SocketPlace {
        self.place.get()
    }

    /// Whether the loop reads the socket. Another one may do so since a reload.
    pub fn is_read(&self) -> bool {
        self.is_read.get()
    }

    /// Notes that another loop reads the socket. What is still sent goes by a descriptor of its own: this loop may have to read
    /// the socket again, and a descriptor is registered once.
    pub(crate) fn set_unread(&self) {
        self.is_read.set(false);
        self.send_by_own_descriptor();
    }

    /// Sends by a descriptor of its own, which nobody reads.
    pub(crate) fn send_by_own_descriptor(&self) {
        let own = self.socket().as_fd().try_clone_to_owned();
        if let Ok(own) = own {
            self.replace(self.spec(), Arc::new(own));
        }
    }

    /// Notes the socket's place among the sockets of the address.
    pub(crate) fn set_place(&self, place: SocketPlace) {
        debug_assert!(place.number < place.sockets, "{} has no socket {}", self.spec.borrow().name, place.number);
        self.place.set(place);
    }

    /// The socket.
    pub fn socket(&self) -> Rc<Datagrams> {
        self.socket.borrow().clone()
    }

    /// Uses another descriptor of the socket, whose options have changed.
    pub(crate) fn replace(&self, spec: LoopLocal<ListenSpec>, fd: Arc<OwnedFd>) {
        *self.socket.borrow_mut() = socket(&spec, fd);
        *self.spec.borrow_mut() = spec;
        self.full.set(false);
        self.waiting.take().into_iter().for_each(Waker::wake);
        self.wake_sender();
    }

    /// The address of this machine that a client has sent to, by what the kernel says of its datagram: to be sent from in
    /// return. `None`: the address that the socket is bound to.
    pub fn source(&self, to: Option<IpAddr>) -> Option<IpAddr> {
        to.filter(|_| self.spec.borrow().is_wildcard())
    }

    /// Sends a datagram to a client, or several of `segment` bytes each that follow each other in `bytes`: soon, with
    /// datagrams of other sessions. When there is no room, they are lost, as in a network that has none.
    pub fn send(&self, target: DatagramTarget, bytes: &[u8], segment: Option<usize>) {
        debug_assert!(self.full.get() || self.waiting.borrow().is_empty(), "sessions wait for room that is there");
        let count = || segment.filter(|segment| *segment > 0).map_or(1, |segment| bytes.len().div_ceil(segment));
        if self.ended.get() {
            return self.lose(count());
        }
        let mut queue = self.queue.borrow_mut();
        if SendQueue::is_long(bytes.len()) && queue.is_empty() && !self.full.get() {
            let mut runs = Runs::default();
            runs.push(target, bytes, segment);
            self.socket.borrow().send(&runs, |unsent| {
                if unsent.error.kind() == io::ErrorKind::WouldBlock {
                    self.full.set(true);
                }
                self.failed(&unsent);
            });
            if self.full.get() {
                self.wake_sender();
            }
            return;
        }
        if queue.is_full() && !self.full.get() {
            self.flush(&mut queue);
        }
        let was_empty = queue.is_empty();
        if !queue.push(target, bytes, segment) {
            self.lose(count());
        }
        drop(queue);
        if was_empty {
            self.wake_sender();
        }
    }

    /// Waits until the socket takes datagrams. A session that has something to send asks this before it reads what it
    /// would send, which thus waits in the kernel.
    pub fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if !self.full.get() || self.ended.get() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if waiting.iter().rev().take(WAITING_LOOKED_AT).any(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        if waiting.len() >= MOST_WAITING {
            return Poll::Ready(());
        }
        waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// Number of datagrams to clients that could not be sent.
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }

    fn lose(&self, count: usize) {
        self.lost.set(self.lost.get() + count as u64);
        if let Some(loop_state) = self.loop_state.get() {
            let shared = &loop_state.shared;
            let lost =
                if self.spec.borrow().quic { &shared.quic.lost_to_clients } else { &shared.sessions.lost_to_clients };
            lost.add_n(count as u64);
        }
    }

    /// Counts datagrams from clients that are lost: there is no room for them, or they could not be passed on.
    pub fn lose_from_clients(&self, count: u64) {
        if let Some(loop_state) = self.loop_state.get() {
            let shared = &loop_state.shared;
            let lost = if self.spec.borrow().quic {
                &shared.quic.lost_from_clients
            } else {
                &shared.sessions.lost_from_clients
            };
            lost.add_n(count);
        }
    }

    /// Counts datagrams that could not be sent, and logs why, unless the socket is only full.
    fn failed(&self, unsent: &UnsentDatagrams) {
        if self.spec.borrow().quic && Errno::from_io_error(&unsent.error) == Some(Errno::MSGSIZE) {
            // It was sent to find out whether the way takes it.
            return;
        }
        self.lose(unsent.count);
        let (Some(loop_state), Some(to)) = (self.loop_state.get(), unsent.target.to) else { return };
        if unsent.error.kind() == io::ErrorKind::WouldBlock {
            return;
        }
        let (now, (next, untold)) = (loops::millis(), self.untold.get());
        if now < next {
            self.untold.set((next, untold + unsent.count));
            return;
        }
        self.untold.set((now + BETWEEN_LINES, 0));
        let (spec, error) = (self.spec(), ShowErrno(&unsent.error));
        let (doing, client) = if spec.quic { ("", "client") } else { ("proxying and ", "udp client") };
        let what = format_args!("sendmmsg() failed ({error}) while {doing}sending to client");
        let about = format_args!("{client}: {}, server: {}", to.ip(), spec.name);
        let log = &loop_state.generation().error_log;
        match untold {
            0 => log.write(Level::Alert, None, format_args!("{what}, {about}")),
            more => log.write(Level::Alert, None, format_args!("{what}, {about}; {more} more datagrams before")),
        }
    }

    fn wake_sender(&self) {
        let sender = self.sender.take();
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    fn flush(&self, queue: &mut SendQueue) {
        let done = queue.flush(&self.socket.borrow(), |unsent| self.failed(&unsent));
        self.full.set(!done);
    }

    /// Sends what is queued, when it is there and the socket has room for it, until the listener has ended.
    pub(crate) fn poll_send(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.ended.get() {
                let lost = self.queue.borrow_mut().clear();
                self.lose(lost);
                return Poll::Ready(());
            }
            if self.full.get() {
                let socket = self.socket();
                match socket.poll_writable(context) {
                    Poll::Pending => {
                        // The socket may be replaced, or the listener may end.
                        self.sender.replace(Some(context.waker().clone()));
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(())) => {
                        self.full.set(false);
                        self.waiting.take().into_iter().for_each(Waker::wake);
                    }
                    Poll::Ready(Err(_)) => {
                        // The loop is going away.
                        self.queue.borrow_mut().clear();
                        return Poll::Ready(());
                    }
                }
            }
            let mut queue = self.queue.borrow_mut();
            if queue.is_empty() {
                self.sender.replace(Some(context.waker().clone()));
                return Poll::Pending;
            }
            self.flush(&mut queue);
        }
    }

    /// Sends what is queued as far as the socket has room, and nothing after it.
    pub fn end(&self) {
        let mut queue = self.queue.borrow_mut();
        self.flush(&mut queue);
        drop(queue);
        self.ended.set(true);
        self.waiting.take().into_iter().for_each(Waker::wake);
        self.wake_sender();
    }

    /// Whether the address is not listened on any more.
    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }
}

/// The loop's end of the socket: the kernel is to name the address that was asked, if there may be several, and to give
/// datagrams of one client together.
fn socket(spec: &ListenSpec, fd: Arc<OwnedFd>) -> Rc<Datagrams> {
    // A socket that another program has bound may not have them. Without these options answers leave from the address that the
    // kernel chooses.
    let _ = spec.datagram_options().apply(&fd, spec.ip.is_some_and(|address| address.is_ipv6()));
    Rc::new(Datagrams::new(fd))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use freerun_runtime::loops;

    use super::*;
    use crate::listen::Protocol;

    fn listener(address: &str) -> (Rc<DatagramListener>, SocketAddr) {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let spec = ListenSpec::new("stream", Some(address), address.to_string());
        let spec = ListenSpec { protocol: Protocol::Datagram, ..spec };
        (DatagramListener::new(LoopLocal::new(Arc::new(spec)), Arc::new(socket.into()), None), address)
    }

    fn client() -> (UdpSocket, DatagramTarget) {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_nonblocking(true).unwrap();
        let target = DatagramTarget { to: Some(client.local_addr().unwrap()), ..DatagramTarget::default() };
        (client, target)
    }

    #[test]
    fn what_sessions_send_leaves_together_and_in_order() {
        loops::block_on(async {
            let ((listener, address), (client, target)) = (listener("127.0.0.1:0"), client());
            let sending = listener.clone();
            loops::spawn(0, "sending datagrams", async move {
                std::future::poll_fn(|context| sending.poll_send(context)).await;
            });
            loops::yield_now().await;
            let long = vec![b'x'; 20_000];
            listener.send(target, b"one", None);
            listener.send(target, &long, None);
            listener.send(target, b"twothree!", Some(3));
            let mut buffer = vec![0; 30_000];
            assert!(client.recv(&mut buffer).is_err(), "nothing leaves before the others have had their turn");
            loops::yield_now().await;
            let mut got = Vec::new();
            while let Ok((len, from)) = client.recv_from(&mut buffer) {
                assert_eq!(from, address);
                got.push(buffer[..len].to_vec());
            }
            assert_eq!(got, [&b"one"[..], &long, b"two", b"thr", b"ee!"]);
            assert_eq!(listener.lost(), 0);
            // Alone, what is long leaves at once.
            listener.send(target, &long, None);
            assert_eq!(client.recv(&mut buffer).unwrap(), long.len());
            listener.send(target, b"last", None);
            listener.end();
            assert_eq!(client.recv(&mut buffer).unwrap(), 4);
            listener.send(target, b"nothing after the end", None);
            loops::yield_now().await;
            assert!(client.recv(&mut buffer).is_err());
            assert!(listener.has_ended());
        })
        .unwrap();
    }

    #[test]
    fn while_the_socket_is_full_sessions_wait_and_what_is_too_much_is_lost() {
        // On the loopback interface a UDP socket is never full; a Unix socket is when its peer does not read.
        loops::block_on(async {
            let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            let spec = ListenSpec::new("stream", Some("127.0.0.1:9".parse().unwrap()), "127.0.0.1:9".to_owned());
            let spec = ListenSpec { protocol: Protocol::Datagram, ..spec };
            let listener = DatagramListener::new(LoopLocal::new(Arc::new(spec)), Arc::new(ours.into()), None);
            let sending = listener.clone();
            loops::spawn(0, "sending datagrams", async move {
                std::future::poll_fn(|context| sending.poll_send(context)).await;
            });
            loops::yield_now().await;
            let has_room = || std::future::poll_fn(|context| Poll::Ready(listener.poll_room(context).is_ready()));
            assert!(has_room().await);
            let text = [b'x'; 3000];
            let mut sent = 0;
            // The sizes differ, so that none joins another one.
            while listener.lost() == 0 {
                listener.send(DatagramTarget::default(), &text[..1000 + sent % 2000], None);
                sent += 1;
                loops::yield_now().await;
            }
            assert!(!has_room().await);
            let mut got = 0;
            while got < sent - 1 {
                while theirs.recv(&mut [0; 3000]).is_ok() {
                    got += 1;
                }
                loops::yield_now().await;
            }
            // The session that has waited is woken.
            std::future::poll_fn(|context| listener.poll_room(context)).await;
            assert_eq!((got, listener.lost()), (sent - 1, 1));
        })
        .unwrap();
    }

    #[test]
    fn the_address_to_answer_from_matters_where_there_are_several() {
        let (asked, to) = ("127.0.0.9".parse().ok(), |listener: Rc<DatagramListener>, to| listener.source(to));
        assert_eq!(to(listener("0.0.0.0:0").0, asked), asked);
        assert_eq!(to(listener("127.0.0.1:0").0, asked), None);
    }
}
