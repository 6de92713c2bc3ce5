//! A network for datagrams between clients and a server: it delays, loses, reorders, repeats and damages them, and gives
//! clients new ports. A seed decides what happens to each datagram.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Faults of a network, in each direction. Shares are of a thousand datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NetworkFaults {
    /// The beginning of the row of random numbers.
    pub seed: u64,
    /// The delay of every datagram: half a round trip.
    pub delay: Duration,
    /// The most bytes a second; `None` is as many as come.
    pub rate: Option<u64>,
    /// The time that datagrams may wait in front of the narrowest place; further ones are lost. It counts only with a rate.
    pub queue: Duration,
    /// The share of datagrams that are lost.
    pub lost: u32,
    /// The share of datagrams that arrive twice.
    pub repeated: u32,
    /// The share of datagrams with a changed byte.
    pub damaged: u32,
    /// The share of datagrams that are overtaken by others.
    pub overtaken: u32,
    /// The number of its datagrams after which each client gets a new port, again and again. It is larger than a handshake
    /// needs: QUIC allows no new port before (RFC 9000 section 9).
    pub rebind: Option<u32>,
}

/// The longest datagram.
const LONGEST: usize = 65_536;

/// The further delay of an overtaken datagram.
const OVERTAKEN_BY: Duration = Duration::from_millis(5);

/// The most clients.
const MOST_CLIENTS: usize = 256;

/// The most datagrams that are under way; further ones are lost.
const MOST_UNDER_WAY: usize = 100_000;

/// The longest time until the relay notices that it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Numbers of datagrams.
#[derive(Debug, Default)]
struct Counters {
    delivered: AtomicU64,
    lost: AtomicU64,
    repeated: AtomicU64,
    damaged: AtomicU64,
    overtaken: AtomicU64,
    rebound: AtomicU64,
}

/// Numbers of datagrams so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayedDatagrams {
    /// Arrived, repetitions included.
    pub delivered: u64,
    /// Lost.
    pub lost: u64,
    /// Repeated.
    pub repeated: u64,
    /// Damaged.
    pub damaged: u64,
    /// Overtaken by others.
    pub overtaken: u64,
    /// Number of new ports of clients.
    pub rebound: u64,
}

/// A socket that leads to a server over a network with faults. When it is dropped, it ends.
#[derive(Debug)]
pub struct DatagramRelay {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl DatagramRelay {
    /// A relay at a free port of 127.0.0.1.
    ///
    /// # Panics
    /// There is no port.
    pub fn new(to: SocketAddr, faults: NetworkFaults) -> DatagramRelay {
        let front = socket();
        let address = front.local_addr().expect("it is bound");
        let (ended, counters) = (Arc::new(AtomicBool::new(false)), Arc::new(Counters::default()));
        let (is_over, counted) = (ended.clone(), counters.clone());
        let run = move || Network::new(front, to, faults, counted).run(&is_over);
        DatagramRelay { address, ended, counters, thread: Some(std::thread::spawn(run)) }
    }

    /// The address to send to instead of the server's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The numbers of datagrams so far.
    pub fn so_far(&self) -> RelayedDatagrams {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { delivered, lost, repeated, damaged, overtaken, rebound } = &*self.counters;
        RelayedDatagrams {
            delivered: read(delivered),
            lost: read(lost),
            repeated: read(repeated),
            damaged: read(damaged),
            overtaken: read(overtaken),
            rebound: read(rebound),
        }
    }
}

impl Drop for DatagramRelay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.set_nonblocking(true).expect("a socket that does not wait");
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
    socket
}

/// A direction. Each has random numbers of its own, so that what happens in one does not depend on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RelayDirection {
    Up,
    Down,
}

/// A datagram under way. Datagrams are in the order of arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due: Instant,
    /// Makes datagrams that are due at the same time arrive in the order in which they came.
    number: u64,
    direction: RelayDirection,
    client: usize,
    bytes: Vec<u8>,
}

/// A client, and the socket that the server sees instead of its own.
struct RelayedClient {
    address: SocketAddr,
    back: UdpSocket,
    /// Number of datagrams that have come since it has this port.
    sent: u32,
}

struct Network {
    front: UdpSocket,
    to: SocketAddr,
    faults: NetworkFaults,
    counters: Arc<Counters>,
    clients: Vec<RelayedClient>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    number: u64,
    random: [u64; 2],
    /// The moment when the narrowest place has passed on all that has come.
    free: [Instant; 2],
}

impl Network {
    fn new(front: UdpSocket, to: SocketAddr, faults: NetworkFaults, counters: Arc<Counters>) -> Network {
        let seed =
            |number: u64| (faults.seed.wrapping_mul(2).wrapping_add(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (clients, under_way) = Default::default();
        let random = [seed(1), seed(2)];
        Network { front, to, faults, counters, clients, under_way, number: 0, random, free: [Instant::now(); 2] }
    }

    fn run(mut self, ended: &AtomicBool) {
        let mut buffer = vec![0; LONGEST];
        while !ended.load(Ordering::SeqCst) {
            self.deliver();
            self.take(&mut buffer);
            let due = self.under_way.peek().map(|Reverse(first)| first.due.saturating_duration_since(Instant::now()));
            let left = due.map_or(LOOK, |due| due.min(LOOK));
            let left = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            let sockets = std::iter::once(&self.front).chain(self.clients.iter().map(|client| &client.back));
            let mut waited: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
            let _ = poll(&mut waited, Some(&left));
        }
    }

    /// A random number below 1000, and some further bits (xorshift).
    fn random(&mut self, direction: RelayDirection) -> (u32, u64) {
        let state = &mut self.random[direction as usize];
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        ((*state >> 32) as u32 % 1000, *state)
    }

    /// Counts a datagram of a client, which may get a new port for it.
    fn note_sent(&mut self, client: usize) {
        let client = &mut self.clients[client];
        if self.faults.rebind.is_some_and(|most| client.sent >= most) {
            (client.back, client.sent) = (socket(), 0);
            self.counters.rebound.fetch_add(1, Ordering::Relaxed);
        }
        client.sent += 1;
    }

    /// Takes what has come at the sockets.
    fn take(&mut self, buffer: &mut [u8]) {
        while let Ok((length, from)) = self.front.recv_from(buffer) {
            let known = self.clients.iter().position(|client| client.address == from);
            let client = match known {
                Some(client) => client,
                None if self.clients.len() < MOST_CLIENTS => {
                    self.clients.push(RelayedClient { address: from, back: socket(), sent: 0 });
                    self.clients.len() - 1
                }
                None => continue,
            };
            self.note_sent(client);
            self.pass(RelayDirection::Up, client, &buffer[..length]);
        }
        for client in 0..self.clients.len() {
            while let Ok((length, _)) = self.clients[client].back.recv_from(buffer) {
                self.pass(RelayDirection::Down, client, &buffer[..length]);
            }
        }
    }

    /// Decides what happens to a datagram.
    fn pass(&mut self, direction: RelayDirection, client: usize, bytes: &[u8]) {
        let NetworkFaults { delay, rate, queue, lost, repeated, damaged, overtaken, .. } = self.faults;
        let counters = self.counters.clone();
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        // All are drawn for each datagram, so that the share of one fault does not change where another one strikes.
        let [is_lost, is_repeated, (damage, place), is_overtaken] = [(); 4].map(|()| self.random(direction));
        let mut due = now + delay;
        if let Some(rate) = rate {
            let free = &mut self.free[direction as usize];
            let begins = (*free).max(now);
            if begins - now > queue {
                count(&counters.lost);
                return;
            }
            *free = begins + Duration::from_secs_f64(bytes.len() as f64 / rate as f64);
            due = *free + delay;
        }
        if is_lost.0 < lost || self.under_way.len() >= MOST_UNDER_WAY {
            count(&counters.lost);
            return;
        }
        let mut bytes = bytes.to_vec();
        if damage < damaged && !bytes.is_empty() {
            let at = (place >> 20) as usize % bytes.len();
            bytes[at] ^= 1 << (place & 7);
            count(&counters.damaged);
        }
        if is_overtaken.0 < overtaken {
            due += OVERTAKEN_BY;
            count(&counters.overtaken);
        }
        if is_repeated.0 < repeated {
            count(&counters.repeated);
            self.enqueue(due, direction, client, bytes.clone());
        }
        self.enqueue(due, direction, client, bytes);
    }

    fn enqueue(&mut self, due: Instant, direction: RelayDirection, client: usize, bytes: Vec<u8>) {
        self.number += 1;
        self.under_way.push(Reverse(UnderWay { due, number: self.number, direction, client, bytes }));
    }

    /// Delivers what is due.
    fn deliver(&mut self) {
        let now = Instant::now();
        while self.under_way.peek().is_some_and(|Reverse(first)| first.due <= now) {
            let Some(Reverse(UnderWay { direction, client, bytes, .. })) = self.under_way.pop() else { return };
            let RelayedClient { address, back, .. } = &self.clients[client];
            // A full buffer, or an end that is gone, loses it.
            let _ = match direction {
                RelayDirection::Up => back.send_to(&bytes, self.to),
                RelayDirection::Down => self.front.send_to(&bytes, *address),
            };
            self.counters.delivered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datagrams;

    /// Sends numbered datagrams through a relay and returns those that have come, in their order.
    fn through(faults: NetworkFaults, count: u32) -> (Vec<Vec<u8>>, RelayedDatagrams) {
        let (server, client) = (Datagrams::new(), Datagrams::new());
        let relay = DatagramRelay::new(server.address(), faults);
        let mut come = Vec::new();
        let open = |sent: u32| {
            let so_far = relay.so_far();
            u64::from(sent) + so_far.repeated - so_far.delivered - so_far.lost
        };
        for number in 0..count {
            client.send(number.to_be_bytes(), relay.address());
            // The buffers of the kernel must not lose what the relay does not.
            crate::eventually("some are decided on", || open(number + 1) < 32);
            while come.len() as u64 + 32 < relay.so_far().delivered {
                come.push(server.receive().0);
            }
        }
        crate::eventually("all are decided on", || open(count) == 0);
        while (come.len() as u64) < relay.so_far().delivered {
            come.push(server.receive().0);
        }
        (come, relay.so_far())
    }

    #[test]
    fn a_network_without_faults_delivers_everything_in_order() {
        let (come, so_far) = through(NetworkFaults::default(), 100);
        assert_eq!(come, (0..100_u32).map(|number| number.to_be_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(so_far, RelayedDatagrams { delivered: 100, ..RelayedDatagrams::default() });
    }

    #[test]
    fn a_seed_decides_what_happens() {
        let faults = NetworkFaults { seed: 7, lost: 100, repeated: 100, damaged: 100, ..NetworkFaults::default() };
        let (first, so_far) = through(faults, 300);
        assert!(so_far.lost > 5 && so_far.repeated > 5 && so_far.damaged > 5, "{so_far:?}");
        assert_eq!(through(faults, 300), (first.clone(), so_far));
        assert_ne!(through(NetworkFaults { seed: 8, ..faults }, 300).0, first);
    }

    #[test]
    fn answers_find_their_way_back_after_a_change_of_the_port() {
        let rebind = Some(3);
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        client.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let relay = DatagramRelay::new(Datagrams::echo(), NetworkFaults { rebind, ..NetworkFaults::default() });
        let mut answers = Vec::new();
        let changed = || {
            client.send_to(b"hello", relay.address()).expect("a datagram that is sent");
            let mut answer = [0; 32];
            // An answer to the port before is lost.
            if let Ok(length) = client.recv(&mut answer) {
                answers.push(answer[..length].to_vec());
                answers.dedup();
            }
            answers.len() > 2
        };
        crate::eventually("two new ports", changed);
        assert!(relay.so_far().rebound >= 2 && answers.iter().all(|answer| answer.ends_with(b":hello")));
    }
}
