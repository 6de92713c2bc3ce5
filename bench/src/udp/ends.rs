//! Both ends of what goes through a proxy of datagrams: clients with any number of addresses, and the server behind it.
//!
//! A single socket has all of a client's addresses, in 127.0.0.0/8. Each datagram leaves from another address, and the
//! kernel says which address an answer was sent to.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use freerun_sys::datagrams::{DatagramDetail, DatagramOptions, Message, Receiver, Sender};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Doing, Result};

/// The datagrams of one call.
pub const BATCH: usize = 64;

/// The room for what comes: what the kernel puts together is no longer.
const ROOM: usize = 65_536;

/// The time between a waiting end's looks for a request to stop.
const LOOK: Duration = Duration::from_millis(20);

/// A socket with batches.
pub struct End {
    socket: UdpSocket,
    sender: Sender,
    receiver: Receiver,
}

impl End {
    /// A socket at `address`, which gets several datagrams in one piece if `gro` is set.
    pub fn bind(address: Ipv4Addr, gro: bool) -> Result<End> {
        let socket = UdpSocket::bind((address, 0)).doing("bind a UDP socket")?;
        socket.set_nonblocking(true).doing("prepare a UDP socket")?;
        let options = DatagramOptions { destination: address.is_unspecified(), ecn: false, gro };
        options.apply(&socket, false).doing("prepare a UDP socket")?;
        // As much as an unprivileged process may ask for; the rest is the system's.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
        Ok(End { socket, sender: Sender::new(BATCH), receiver: Receiver::new(BATCH, ROOM) })
    }

    /// Its address.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.local_addr().doing("ask for an address")
    }

    /// Sends, as far as the socket takes it.
    pub fn send(&mut self, messages: &[Message<'_>]) -> usize {
        let mut sent = 0;
        while sent < messages.len() {
            match self.sender.send(&self.socket, &messages[sent..]) {
                Ok(more) => sent += more.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        sent
    }

    /// Waits up to `limit` for datagrams. `None`: there were none.
    pub fn receive(&mut self, limit: Duration) -> Option<&Receiver> {
        if self.receiver.receive(&self.socket, BATCH, DatagramDetail::All).is_err() {
            let mut wanted = [PollFd::new(&self.socket, PollFlags::IN)];
            let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
            let _ = poll(&mut wanted, Some(&limit));
            self.receiver.receive(&self.socket, BATCH, DatagramDetail::All).ok()?;
        }
        Some(&self.receiver)
    }
}

/// The number of datagrams that a piece consists of.
pub fn count(bytes: &[u8], segment: Option<usize>) -> u64 {
    segment.map_or(1, |segment| bytes.len().div_ceil(segment.max(1))) as u64
}

/// The server's use of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Answers each datagram with this number of bytes. The first two are the port that it came from.
    Answers(usize),
    /// Counts.
    Counts,
}

/// The server behind the proxy, in a thread of its own.
pub struct Backend {
    /// Its address.
    pub address: SocketAddr,
    /// The number of datagrams that it has got.
    pub got: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    /// Starts it, on the cores of this thread.
    pub fn start(does: Does) -> Result<Backend> {
        let mut end = End::bind(Ipv4Addr::LOCALHOST, does == Does::Counts)?;
        let address = end.address()?;
        let (got, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counter, ends) = (got.clone(), stop.clone());
        let serve = move || {
            while !ends.load(Relaxed) {
                let Some(received) = end.receive(LOOK) else { continue };
                let mut answers = Vec::with_capacity(BATCH);
                for one in received.iter() {
                    counter.fetch_add(count(one.bytes, one.segment), Relaxed);
                    if let (Does::Answers(len), Some(from)) = (does, one.from) {
                        let mut bytes = vec![0; len.max(2)];
                        bytes[..2].copy_from_slice(&from.port().to_be_bytes());
                        answers.push((bytes, from));
                    }
                }
                let parts: Vec<_> = answers.iter().map(|(bytes, _)| [IoSlice::new(bytes)]).collect();
                let messages: Vec<_> =
                    parts.iter().zip(&answers).map(|(parts, (_, to))| to_address(parts, *to)).collect();
                end.send(&messages);
            }
        };
        let thread = std::thread::Builder::new().name("backend".into()).spawn(serve).doing("start a thread")?;
        Ok(Backend { address, got, stop, thread: Some(thread) })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A datagram to an address.
pub fn to_address<'a>(parts: &'a [IoSlice<'a>], to: SocketAddr) -> Message<'a> {
    Message { parts, to: Some(to), from: None, ecn: 0, segment: None }
}

/// The address of a client by its number.
pub fn source(number: usize) -> IpAddr {
    let [_, a, b, c] = (number as u32 + 256).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 1 + a, b, c))
}

/// The number of a client by its address.
pub fn number(address: IpAddr) -> Option<usize> {
    let IpAddr::V4(address) = address else { return None };
    let [_, a, b, c] = address.octets();
    let number = u32::from_be_bytes([0, a.checked_sub(1)?, b, c]);
    (number as usize).checked_sub(256)
}

/// The figures of clients that ask in turn, each with one question at a time.
#[derive(Debug, Default)]
pub struct Exchanged {
    /// Answers.
    pub answers: u64,
    /// Questions that were not answered in time.
    pub lost: u64,
    /// The duration.
    pub took: Duration,
    /// The first two bytes of each client's last answer.
    pub said: Vec<Option<u16>>,
}

/// The time that an answer may take before another client asks instead.
const PATIENCE: Duration = Duration::from_millis(50);

/// Has the clients of these numbers ask `proxy`, one after the other, at most `at_once` of them at a time, until `enough`
/// says so of the number of questions.
pub fn exchange(
    proxy: SocketAddr,
    clients: &[usize],
    at_once: usize,
    question: &[u8],
    mut enough: impl FnMut(u64) -> bool,
) -> Result<Exchanged> {
    let mut end = End::bind(Ipv4Addr::UNSPECIFIED, false)?;
    exchange_by(&mut end, proxy, clients, at_once, question, &mut enough)
}

/// [`exchange`] with a socket that clients have already: they keep their addresses.
pub fn exchange_by(
    end: &mut End,
    proxy: SocketAddr,
    clients: &[usize],
    at_once: usize,
    question: &[u8],
    enough: &mut dyn FnMut(u64) -> bool,
) -> Result<Exchanged> {
    let most = clients.iter().max().map_or(0, |most| most + 1);
    let mut found = Exchanged { said: vec![None; most], ..Exchanged::default() };
    let parts = [IoSlice::new(question)];
    let (mut asked, mut under_way) = (0_u64, 0_usize);
    let began = Instant::now();
    loop {
        let is_over = clients.is_empty() || enough(asked);
        if is_over && under_way == 0 {
            break;
        }
        while !is_over && under_way < at_once {
            let more = (at_once - under_way).min(BATCH);
            let ask = |index: u64| {
                let client = clients[((asked + index) % clients.len() as u64) as usize];
                Message { from: Some(source(client)), ..to_address(&parts, proxy) }
            };
            let messages: Vec<_> = (0..more as u64).map(ask).collect();
            let sent = end.send(&messages);
            asked += sent as u64;
            under_way += sent;
            if sent < more {
                break;
            }
        }
        match end.receive(PATIENCE) {
            Some(received) => {
                for one in received.iter() {
                    under_way = under_way.saturating_sub(1);
                    found.answers += 1;
                    let said = one.bytes.get(..2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
                    if let Some(place) = one.to.and_then(number).and_then(|number| found.said.get_mut(number)) {
                        *place = said;
                    }
                }
            }
            None => {
                found.lost += under_way as u64;
                under_way = 0;
            }
        }
        crate::interrupt::check()?;
    }
    found.took = began.elapsed();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_an_address_of_its_own_and_gets_its_own_answer() {
        for client in [0, 1, 999, 65_535, 200_000] {
            assert_eq!(number(source(client)), Some(client));
        }
        let backend = Backend::start(Does::Answers(60)).unwrap();
        let clients: Vec<usize> = (0..100).collect();
        let found = exchange(backend.address, &clients, 10, &[1; 40], |asked| asked >= 300).unwrap();
        assert!(found.answers + found.lost >= 300);
        assert_eq!(found.said.iter().flatten().count(), 100);
        assert!(backend.got.load(Relaxed) >= 300);
    }
}
