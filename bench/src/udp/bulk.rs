//! A flow of datagrams in one direction.

use std::cell::RefCell;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::ends::{Backend, Does, End, count, to_address};
use crate::error::{Error, Result};
use crate::wrk::Outcome;

/// The bytes of each datagram, as many as fit a packet of most networks.
pub const SIZE: usize = 1_200;

/// The number of datagrams that are sent with one call: the kernel takes them apart.
pub const RUN: usize = 16;

/// The number of datagrams that may be on their way. They fit the buffer of a socket with the system's settings.
pub const UNDER_WAY: u64 = 64;

/// The time without any arrival after which datagrams on their way count as lost.
const PATIENCE: Duration = Duration::from_millis(20);

/// A flow, with the server behind the proxy.
pub enum Flow {
    /// From a client to the server.
    Up(Backend),
    /// From the server to a client, which has asked for it.
    Down(RefCell<End>, SocketAddr),
}

impl Flow {
    /// Starts the server of a flow from a client.
    pub fn up() -> Result<Flow> {
        Ok(Flow::Up(Backend::start(Does::Counts)?))
    }

    /// Starts the server of a flow to a client.
    pub fn down() -> Result<Flow> {
        let end = End::bind(Ipv4Addr::LOCALHOST, true)?;
        let address = end.address()?;
        Ok(Flow::Down(RefCell::new(end), address))
    }

    /// The server's address.
    pub fn backend(&self) -> SocketAddr {
        match self {
            Flow::Up(backend) => backend.address,
            Flow::Down(_, address) => *address,
        }
    }

    /// Sends through `proxy` for so long; counts what arrived.
    pub fn run(&self, proxy: SocketAddr, length: Duration) -> Result<Outcome> {
        match self {
            Flow::Up(backend) => send(&mut End::bind(Ipv4Addr::LOCALHOST, false)?, proxy, &backend.got, length),
            Flow::Down(end, _) => down(&mut end.borrow_mut(), proxy, length),
        }
    }
}

/// Sends to `to` so that no more than [`UNDER_WAY`] are on their way, by the number of those that have arrived.
fn send(end: &mut End, to: SocketAddr, got: &AtomicU64, length: Duration) -> Result<Outcome> {
    let bytes = vec![7; SIZE * RUN];
    let parts = [IoSlice::new(&bytes)];
    let run = freerun_sys::datagrams::Message { segment: Some(SIZE as u16), ..to_address(&parts, to) };
    let (began, first) = (Instant::now(), got.load(Relaxed));
    let (mut sent, mut lost) = (0_u64, 0_u64);
    let (mut seen, mut since) = (first, began);
    while began.elapsed() < length {
        let now = got.load(Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        let under_way = sent - lost - (now - first).min(sent - lost);
        if under_way + RUN as u64 <= UNDER_WAY {
            if end.send(&[run]) == 1 {
                sent += RUN as u64;
            }
        } else if since.elapsed() > PATIENCE {
            lost += under_way;
            since = Instant::now();
        } else {
            // The end that counts is on this core.
            std::thread::yield_now();
        }
        crate::interrupt::check()?;
    }
    let arrived = got.load(Relaxed) - first;
    Ok(Outcome { requests: arrived as f64, seconds: began.elapsed().as_secs_f64(), errors: 0.0, ..Outcome::default() })
}

/// A client asks, and the server sends to where it was asked from.
fn down(server: &mut End, proxy: SocketAddr, length: Duration) -> Result<Outcome> {
    while server.receive(Duration::ZERO).is_some() {}
    let mut client = End::bind(Ipv4Addr::LOCALHOST, true)?;
    let parts = [IoSlice::new(b"more")];
    client.send(&[to_address(&parts, proxy)]);
    let asked = server.receive(Duration::from_secs(5)).and_then(|received| received.get(0)?.from);
    let to = asked.ok_or_else(|| Error::Failed("the server was not asked".into()))?;
    let (got, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let (counter, ends) = (got.clone(), stop.clone());
    let reader = std::thread::spawn(move || {
        while !ends.load(Relaxed) {
            let Some(received) = client.receive(PATIENCE) else { continue };
            counter.fetch_add(received.iter().map(|one| count(one.bytes, one.segment)).sum(), Relaxed);
        }
    });
    let outcome = send(server, to, &got, length);
    stop.store(true, Relaxed);
    let _ = reader.join();
    outcome
}
