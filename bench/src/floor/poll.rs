//! The parts that the loops of all floors share: an epoll instance, a table of connections, and bytes that a socket did not take.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::SocketFlags;

/// The number of events that are taken at a time.
const EVENTS: usize = 256;

/// The events of a connection: it is asked about both ways once, and told of changes alone (epoll(7), `EPOLLET`).
const BOTH_WAYS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// An epoll instance, with the events of the last wait.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    /// An instance that watches nothing.
    pub fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches a socket for bytes, connections or datagrams, as long as there are any.
    pub fn watch(&self, socket: &impl AsFd) -> io::Result<()> {
        self.add(socket, EventFlags::IN)
    }

    /// Watches a connection for changes in both directions.
    pub fn watch_both_ways(&self, socket: &impl AsFd) -> io::Result<()> {
        self.add(socket, BOTH_WAYS)
    }

    fn add(&self, socket: &impl AsFd, flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(number(socket) as u64);
        Ok(epoll::add(&self.epoll, socket.as_fd(), data, flags)?)
    }

    /// Waits for events; returns how many there are.
    pub fn wait(&mut self) -> io::Result<usize> {
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.events.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// An event of the last wait: the socket's number, and what happened.
    pub fn event(&self, index: usize) -> (usize, EventFlags) {
        let event = &self.events[index];
        let (data, flags) = (event.data, event.flags);
        (data.u64() as usize, flags)
    }
}

/// The number of a socket's descriptor.
pub fn number(socket: &impl AsFd) -> usize {
    socket.as_fd().as_raw_fd().cast_unsigned() as usize
}

/// Values by the number of their descriptor.
pub struct Slots<T>(Vec<Option<T>>);

impl<T> Slots<T> {
    /// An empty table.
    pub fn new() -> Slots<T> {
        Slots(Vec::new())
    }

    /// Puts a value into its place.
    pub fn put(&mut self, number: usize, value: T) {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number] = Some(value);
    }

    /// The value in this place.
    pub fn get(&mut self, number: usize) -> Option<&mut T> {
        self.0.get_mut(number)?.as_mut()
    }

    /// Takes the value out of this place.
    pub fn take(&mut self, number: usize) -> Option<T> {
        self.0.get_mut(number)?.take()
    }
}

/// Listens at `address`. Its connections inherit that they send small pieces at once, and a congestion control that
/// does not pace: freerun chooses it for loopback addresses, too.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let socket = socket2::SockRef::from(&listener);
    socket.set_tcp_nodelay(true)?;
    // A kernel without Reno has nothing that paces less.
    let _ = socket.set_tcp_congestion(b"reno");
    Ok(listener)
}

/// Takes a connection that waits, if there is one. It does not block.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match rustix::net::accept_with(listener, SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC)) {
        Ok(socket) => Ok(Some(socket.into())),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a call would have waited.
pub fn would_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// Bytes for a connection that its socket had no room for yet.
#[derive(Default)]
pub struct PendingBytes {
    bytes: Vec<u8>,
    start: usize,
}

impl PendingBytes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Sends bytes, and keeps those that have no room. Returns whether all were taken.
    pub fn send(&mut self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<bool> {
        debug_assert!(self.is_empty(), "bytes would overtake others");
        let sent = match stream.write(bytes) {
            Ok(sent) => sent,
            Err(error) if would_wait(&error) => 0,
            Err(error) => return Err(error),
        };
        if sent < bytes.len() {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[sent..]);
            self.start = 0;
        }
        Ok(sent == bytes.len())
    }

    /// Sends what was kept. Returns whether all of it was taken.
    pub fn flush(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        while !self.is_empty() {
            match stream.write(&self.bytes[self.start..]) {
                Ok(sent) => self.start += sent,
                Err(error) if would_wait(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
