//! A path through a network: a relay of TCP connections that delivers bytes later, and only a limited number in a
//! second. It needs no permissions, unlike the kernel's own (tc-netem(8)), and no packets are lost.

use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Properties of a path, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The delay until bytes arrive: half a round trip.
    pub delay: Duration,
    /// The most bytes a second; `None` is as many as come.
    pub rate: Option<u64>,
    /// The time that bytes may wait in front of the narrowest place before the relay stops reading; it counts only with
    /// a rate. The buffers of the kernel between the sender and the relay hold some milliseconds more.
    pub queue: Duration,
}

impl Path {
    /// A path with this round trip, and no other limit.
    pub fn round_trip(time: Duration) -> Path {
        Path { delay: time / 2, rate: None, queue: Duration::ZERO }
    }

    /// A path with this round trip, this rate in bytes a second, and a queue of 10 ms.
    pub fn narrow(time: Duration, rate: u64) -> Path {
        Path { delay: time / 2, rate: Some(rate), queue: Duration::from_millis(10) }
    }
}

/// The most bytes that are under way on a path without a rate, in one direction of one connection.
const UNDER_WAY: usize = 256 << 20;
/// The time that the content of the receive buffers takes with a rate, in milliseconds, and their bounds in bytes. The
/// kernel doubles the requested size, for its own needs.
const NARROW: (u64, usize, usize) = (4, 4 << 10, 32 << 10);
/// The largest piece that is passed on at once, in bytes.
const PIECE: usize = 64 << 10;

/// A listening socket whose connections lead to a server over a path. When it is dropped, it ends.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<RelayState>,
}

#[derive(Debug)]
struct RelayState {
    to: SocketAddr,
    path: Mutex<Path>,
    /// Connections end at once.
    is_cut: AtomicBool,
    /// Nothing arrives.
    is_held: AtomicBool,
    ended: AtomicBool,
    /// The numbers of bytes that were delivered to the server, and to clients.
    delivered: [AtomicU64; 2],
    sockets: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Listening fails.
    #[track_caller]
    pub fn new(to: SocketAddr, path: Path) -> Relay {
        let listener = listen(&path).unwrap_or_else(|error| panic!("a relay: {error}"));
        let address = listener.local_addr().expect("an address");
        let (delivered, sockets) = ([AtomicU64::new(0), AtomicU64::new(0)], Mutex::default());
        let [is_cut, is_held, ended] = [const { AtomicBool::new(false) }; 3];
        let shared = Arc::new(RelayState { to, path: Mutex::new(path), is_cut, is_held, ended, delivered, sockets });
        let accepting = shared.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                // Without a server behind it, the client's connection ends at once.
                if let Ok(server) = connect(accepting.to, &accepting.path()) {
                    let _ = carry(&accepting, client, server);
                }
            }
        });
        Relay { address, shared }
    }

    /// The address to connect to instead of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections, and new ones at once, until [`Relay::heal`].
    pub fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
        self.shared.end_connections();
    }

    /// Delivers nothing any more, without a sign of it, until [`Relay::heal`].
    pub fn hold(&self) {
        self.shared.is_held.store(true, Ordering::SeqCst);
    }

    /// Ends [`Relay::cut`] and [`Relay::hold`]. What was held arrives.
    pub fn heal(&self) {
        self.shared.is_cut.store(false, Ordering::SeqCst);
        self.shared.is_held.store(false, Ordering::SeqCst);
    }

    /// Changes the delay of bytes that come from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.path.lock().unwrap_or_else(PoisonError::into_inner).delay = delay;
    }

    /// The number of bytes that were delivered to the server so far.
    pub fn up(&self) -> u64 {
        self.shared.delivered[0].load(Ordering::SeqCst)
    }

    /// The number of bytes that were delivered to clients so far.
    pub fn down(&self) -> u64 {
        self.shared.delivered[1].load(Ordering::SeqCst)
    }
}

impl RelayState {
    fn path(&self) -> Path {
        *self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_connections(&self) {
        for socket in self.sockets.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.end_connections();
        // Whoever waits for a connection sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

fn listen(path: &Path) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if let Some(rate) = path.rate {
        // Connections that are accepted have it from here.
        socket.set_recv_buffer_size(narrow(rate))?;
    }
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// The receive buffers of a path with this rate.
fn narrow(rate: u64) -> usize {
    let (millis, least, most) = NARROW;
    usize::try_from(rate * millis / 1000).unwrap_or(most).clamp(least, most)
}

fn connect(to: SocketAddr, path: &Path) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    if let Some(rate) = path.rate {
        socket.set_recv_buffer_size(narrow(rate))?;
    }
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Carries a connection in both directions, on threads of their own.
fn carry(shared: &Arc<RelayState>, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    {
        let mut sockets = shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever cuts the connections afterwards finds these.
        if shared.is_cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        sockets.extend([client.try_clone()?, server.try_clone()?]);
    }
    let ways = [(client.try_clone()?, server.try_clone()?), (server, client)];
    for (way, (from, to)) in ways.into_iter().enumerate() {
        let (pieces, come) = channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let (taking, counted) = (shared.clone(), waiting.clone());
        thread::spawn(move || take(from, &taking, &pieces, &counted));
        let shared = shared.clone();
        thread::spawn(move || deliver(to, &come, &waiting, &shared, way));
    }
    Ok(())
}

/// Bytes, and when they arrive; without bytes, the end.
type DelayedBytes = (Instant, Vec<u8>);

fn take(mut from: TcpStream, shared: &RelayState, pieces: &Sender<DelayedBytes>, waiting: &AtomicU64) {
    let path = shared.path();
    // A millisecond's worth, so that bytes arrive as evenly as on a real path.
    let most = path.rate.map_or(PIECE, |rate| usize::try_from(rate / 1000).unwrap_or(PIECE).clamp(1460, PIECE));
    let mut buffer = vec![0; most];
    // When the narrowest place has passed on all that has come.
    let mut free = Instant::now();
    loop {
        match path.rate {
            Some(_) => thread::sleep(free.saturating_duration_since(Instant::now() + path.queue)),
            None => {
                while waiting.load(Ordering::SeqCst) > UNDER_WAY as u64 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        free = free.max(Instant::now());
        if let Some(rate) = path.rate {
            free += Duration::from_secs_f64(count as f64 / rate as f64);
        }
        waiting.fetch_add(count as u64, Ordering::SeqCst);
        if pieces.send((free + shared.path().delay, buffer[..count].to_vec())).is_err() || count == 0 {
            // Who does not take any more is not to be sent more.
            let _ = from.shutdown(Shutdown::Read);
            return;
        }
    }
}

fn deliver(mut to: TcpStream, pieces: &Receiver<DelayedBytes>, waiting: &AtomicU64, shared: &RelayState, way: usize) {
    while let Ok((due, bytes)) = pieces.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        while shared.is_held.load(Ordering::SeqCst) && !shared.ended.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        waiting.fetch_sub(bytes.len() as u64, Ordering::SeqCst);
        shared.delivered[way].fetch_add(bytes.len() as u64, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionEnd, TestClient, TestUpstream, ok};

    #[test]
    fn bytes_arrive_whole_and_not_before_their_time() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|place| (place * 31 + place / 253) as u8).collect();
        let body = content.clone();
        let upstream =
            TestUpstream::answering(move |request| if request.target() == "/end" { Vec::new() } else { ok(&body) });
        let to = upstream.address().parse().expect("an address");
        let delay = Duration::from_millis(40);
        for rate in [None, Some(30_000_000)] {
            let relay = Relay::new(to, Path { delay, rate, queue: Duration::from_millis(5) });
            let begun = Instant::now();
            let mut client = TestClient::connect(relay.address());
            assert!(client.get("/").body == content);
            let least = 2 * delay + rate.map_or(Duration::ZERO, |_| Duration::from_millis(90));
            assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
            crate::eventually("what was delivered is counted", || relay.down() > 3_000_000 && relay.up() > 30);
            client.send("GET /end HTTP/1.1\r\n\r\n");
            assert_eq!(client.ending(), ConnectionEnd::Closed);
        }
    }

    #[test]
    fn a_path_is_held_up_cut_and_healed() {
        let upstream = TestUpstream::answering(|_| ok("hello"));
        let relay = Relay::new(upstream.address().parse().expect("an address"), Path::round_trip(Duration::ZERO));
        let mut client = TestClient::connect(relay.address());
        assert_eq!(client.get("/").text(), "hello");
        relay.hold();
        client.send("GET /held HTTP/1.1\r\n\r\n");
        client.set_timeout(Duration::from_millis(100));
        assert!(client.try_response("GET").is_err(), "nothing arrives");
        relay.heal();
        client.set_timeout(crate::PATIENCE);
        assert_eq!(client.response().text(), "hello");
        relay.cut();
        assert_ne!(client.ending(), ConnectionEnd::Silent);
        assert_ne!(TestClient::connect(relay.address()).ending(), ConnectionEnd::Silent);
        relay.heal();
        assert_eq!(TestClient::connect(relay.address()).get("/").text(), "hello");
    }

    #[test]
    fn connections_end_with_the_relay() {
        let upstream = TestUpstream::answering(|_| ok("hello"));
        let relay = Relay::new(upstream.address().parse().expect("an address"), Path::round_trip(Duration::ZERO));
        let mut client = TestClient::connect(relay.address());
        assert_eq!(client.get("/").text(), "hello");
        let address = relay.address();
        drop(relay);
        assert_ne!(client.ending(), ConnectionEnd::Silent);
        assert!(crate::within(crate::PATIENCE, || TcpStream::connect(address).is_err()));
    }
}
