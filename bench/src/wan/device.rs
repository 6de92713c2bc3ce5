//! A TUN device in a network namespace of its own, and the thread that leads its packets over a modelled path.
//!
//! Client and server are in one namespace. Each sends to an address that stands for the other one behind the device:
//!
//! | from | to | changed to | to |
//! |---|---|---|---|
//! | client | far server | far client | server |
//! | server | far client | far server | client |
//!
//! Both addresses of a packet change by the same number in opposite directions, so the checksums of IP, TCP and UDP, which are
//! sums (RFC 1071), stay right.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tappers::linux::Tun;
use tappers::{DeviceState, Interface};

use super::path::{PathDirection, PathFigures, PathSettings};
use crate::error::{Error, ErrorContext, Result};
use crate::process::{on_cores, run};

/// The addresses, of the network for benchmarks (RFC 2544).
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The server as the client sees it, and the other way round.
pub const FAR_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 101);
const FAR_CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 102);
/// The difference between an address and its far one, in the last byte.
const FAR: u8 = 100;

/// The name of the device.
const NAME: &str = "path0";

/// The largest packet.
const MTU: usize = 1500;

/// The place of the two addresses in the head of a packet (RFC 791 section 3.1).
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const HEAD: usize = 20;

/// The longest time between two looks whether the path is still wanted.
const STEP: Duration = Duration::from_millis(20);

/// A device whose packets take a path.
pub struct PathDevice {
    /// Packets in a million that are dropped by chance, in each direction.
    losses: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<[PathFigures; 2]>>>,
}

/// Leads the calling thread, and all that it starts, into a network namespace of its own.
///
/// # Errors
/// The process may not do that; root may.
pub fn enter_namespace() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| Error::Setup(format!("a network namespace, which root may have: {error}")))
}

impl PathDevice {
    /// Sets the device up in this thread's namespace. TCP uses the congestion control `congestion` over it.
    pub fn start(settings: PathSettings, congestion: &str, cores: &[usize]) -> Result<PathDevice> {
        let name = Interface::new(NAME).doing("name a TUN device")?;
        let tun = Tun::create_named(name).doing("make a TUN device (/dev/net/tun)")?;
        tun.set_mtu(MTU).and_then(|()| tun.set_nonblocking(true)).doing("set a TUN device up")?;
        tun.set_state(DeviceState::Up).doing("set a TUN device up")?;
        let ip = |line: &str| run(Path::new("ip"), &line.split(' ').collect::<Vec<_>>(), Path::new("/"));
        ip("link set lo up")?;
        for (own, far) in [(SERVER, FAR_CLIENT), (CLIENT, FAR_SERVER)] {
            ip(&format!("addr add {own}/32 dev {NAME}"))?;
            ip(&format!("route add {far}/32 dev {NAME} src {own} congctl {congestion}"))?;
        }
        // A connection would begin with what former ones have learnt of the path.
        let metrics = "/proc/sys/net/ipv4/tcp_no_metrics_save";
        std::fs::write(metrics, "1").doing(metrics)?;
        let (losses, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut relay = Relay { tun, settings, losses: losses.clone(), stop: stop.clone() };
        let spawn = || std::thread::Builder::new().name("path".into()).spawn(move || relay.run());
        let thread = Some(on_cores(cores, spawn)?.doing("start a thread")?);
        Ok(PathDevice { losses, stop, thread })
    }

    /// Drops this number of packets in a million from now on, in each direction.
    pub fn set_losses(&self, losses: u64) {
        self.losses.store(losses, Relaxed);
    }

    /// Ends the path. Returns what has become of the packets to the server, and of those to the client.
    pub fn finish(mut self) -> Result<[PathFigures; 2]> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().ok_or_else(|| Error::Failed("no path".into()))?;
        thread.join().map_err(|_| Error::Failed("the path panicked".into()))?.doing("lead packets over a path")
    }
}

impl Drop for PathDevice {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// The work of the thread.
struct Relay {
    tun: Tun,
    settings: PathSettings,
    losses: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn run(&mut self) -> io::Result<[PathFigures; 2]> {
        let begin = Instant::now();
        let mut paths = [1, 2].map(|seed| PathDirection::new(self.settings, seed, begin));
        let mut buffer = [0; MTU];
        while !self.stop.load(Relaxed) {
            self.take(&mut paths, &mut buffer)?;
            let now = Instant::now();
            for path in &mut paths {
                while let Some(packet) = path.pop(now) {
                    match self.tun.send(&packet) {
                        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                }
            }
            let next = paths.iter().filter_map(PathDirection::next).min();
            let wait = next.map_or(STEP, |next| next.saturating_duration_since(now).min(STEP));
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.tun, PollFlags::IN)], Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(paths.map(|path| path.figures()))
    }

    /// Takes all packets that the kernel has sent.
    fn take(&self, paths: &mut [PathDirection; 2], buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let length = match self.tun.recv(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut packet = buffer[..length].to_vec();
            if let Some(direction) = turn(&mut packet) {
                paths[direction].push(Instant::now(), packet, self.losses.load(Relaxed));
            }
        }
    }
}

/// Gives a packet the addresses that it has behind the path. Returns its direction: 0 to the server, 1 to the client. `None` for
/// packets of nobody here.
fn turn(packet: &mut [u8]) -> Option<usize> {
    let head = packet.get(..HEAD).filter(|head| head[0] >> 4 == 4)?;
    let address = |at: usize| Ipv4Addr::from([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let direction = match (address(SOURCE), address(DESTINATION)) {
        (CLIENT, FAR_SERVER) => 0,
        (SERVER, FAR_CLIENT) => 1,
        _ => return None,
    };
    packet[SOURCE + 3] += FAR;
    packet[DESTINATION + 3] -= FAR;
    Some(direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
        [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0][..], &from.octets(), &to.octets()].concat()
    }

    fn sum(packet: &[u8]) -> u32 {
        packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum()
    }

    #[test]
    fn packets_come_from_the_far_side_with_the_same_checksums() {
        let cases = [
            (CLIENT, FAR_SERVER, Some((0, FAR_CLIENT, SERVER))),
            (SERVER, FAR_CLIENT, Some((1, FAR_SERVER, CLIENT))),
            (CLIENT, SERVER, None),
            (SERVER, FAR_SERVER, None),
        ];
        for (from, to, expected) in cases {
            let before = packet(from, to);
            let mut after = before.clone();
            let direction = turn(&mut after);
            assert_eq!(direction, expected.map(|(direction, ..)| direction));
            assert_eq!(sum(&after), sum(&before));
            if let Some((_, from, to)) = expected {
                assert_eq!(after, packet(from, to));
            }
        }
    }

    #[test]
    fn what_is_no_packet_of_ipv4_belongs_to_nobody() {
        assert_eq!(turn(&mut []), None);
        assert_eq!(turn(&mut [0x45; 19]), None);
        assert_eq!(turn(&mut [0x60; 40]), None);
    }
}
