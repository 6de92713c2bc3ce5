//! A load of handshakes: each on a connection of its own, as many at a time as are wanted.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use rustls::ClientConfig;

use super::connection::{BenchConnection, PIECE};
use super::poller::Poller;
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::on_cores;
use crate::stats::Latencies;

/// The time that a connection may take, before it has failed.
const LIMIT: Duration = Duration::from_secs(10);

/// The slice of a thread in nanoseconds: what the scheduler gives it short turns for, and sooner.
const SLICE: u64 = 100_000;

/// The time between a thread's looks for connections that take too long, and for a request to stop.
const STEP: Duration = Duration::from_millis(50);

/// The end of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadEnd {
    /// After this time; connections that are open then do not count.
    Time(Duration),
    /// The load ends when this number of connections has ended.
    Count(usize),
}

/// The work of the load.
#[derive(Debug, Clone)]
pub struct HandshakeLoad {
    /// The address that it connects to.
    pub server: SocketAddr,
    /// Its TLS.
    pub tls: Arc<ClientConfig>,
    /// The path that each connection asks for; the server answers with 200 and closes it.
    pub path: String,
    /// The number of connections at a time. The next one begins when one has ended.
    pub at_a_time: usize,
    /// The end of the load.
    pub until: LoadEnd,
    /// Its threads, which share the connections.
    pub threads: usize,
    /// The cores that it may use; empty for all.
    pub cores: Vec<usize>,
}

/// The figures of a load.
#[derive(Debug, Clone, Default)]
pub struct HandshakeFigures {
    /// Connections that came to their end as they should.
    pub done: usize,
    /// Handshakes of those that resumed a session.
    pub resumed: usize,
    /// Connections that failed.
    pub failed: usize,
    /// From the beginning of a connection to the end of its handshake, of those that came to their end.
    pub handshakes: Latencies,
    /// The duration of the load.
    pub time: Duration,
    /// The CPU time of the load's threads.
    pub cpu: Duration,
    /// The first failure.
    pub complaint: Option<String>,
}

impl HandshakeFigures {
    /// The load's CPU time as a part of what `cores` have, in percent.
    pub fn busy(&self, cores: usize) -> f64 {
        self.cpu.as_secs_f64() / self.time.as_secs_f64() / cores.max(1) as f64 * 100.0
    }

    /// The part of the connections that resumed a session, in percent; those that failed have not.
    pub fn resumed_share(&self) -> f64 {
        self.resumed as f64 / (self.done + self.failed).max(1) as f64 * 100.0
    }
}

/// A load under way.
#[derive(Debug)]
pub struct HandshakeRun(Vec<JoinHandle<io::Result<Part>>>);

/// Runs `load` from beginning to end.
pub fn run(load: &HandshakeLoad) -> Result<HandshakeFigures> {
    start(load)?.finish()
}

/// Starts `load`.
pub fn start(load: &HandshakeLoad) -> Result<HandshakeRun> {
    let begin = Instant::now();
    let spawn = || (0..load.threads).map(|index| spawn(Lane::new(load, index), begin)).collect::<Result<Vec<_>>>();
    Ok(HandshakeRun(on_cores(&load.cores, spawn)??))
}

fn spawn(lane: io::Result<Lane>, begin: Instant) -> Result<JoinHandle<io::Result<Part>>> {
    let lane = lane.doing("prepare a load")?;
    thread::Builder::new().name("handshakes".into()).spawn(move || lane.drive(begin)).doing("start a thread")
}

impl HandshakeRun {
    /// Waits for the end.
    pub fn finish(self) -> Result<HandshakeFigures> {
        let (mut found, mut latencies) = (HandshakeFigures::default(), Vec::new());
        for thread in self.0 {
            let part = thread.join().map_err(|_| Error::Failed("a client panicked".into()))?.doing("shake hands")?;
            found.done += part.found.done;
            found.resumed += part.found.resumed;
            found.failed += part.found.failed;
            found.time = found.time.max(part.found.time);
            found.cpu += part.found.cpu;
            found.complaint = found.complaint.or(part.found.complaint);
            latencies.extend(part.latencies);
        }
        interrupt::check()?;
        found.handshakes = Latencies::new(latencies);
        Ok(found)
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
struct Part {
    found: HandshakeFigures,
    latencies: Vec<Duration>,
}

/// A connection under way.
#[derive(Debug)]
struct Open {
    connection: BenchConnection,
    begun: Instant,
    established: Option<Duration>,
    answered: bool,
}

/// The work of one thread.
#[derive(Debug)]
struct Lane {
    server: SocketAddr,
    tls: Arc<ClientConfig>,
    request: Vec<u8>,
    until: LoadEnd,
    poller: Poller,
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    part: Part,
}

/// Share of `whole` for this thread, among `threads` threads.
fn share(whole: usize, index: usize, threads: usize) -> usize {
    (whole + threads - 1 - index) / threads
}

impl Lane {
    fn new(load: &HandshakeLoad, index: usize) -> io::Result<Lane> {
        let threads = load.threads;
        let most = share(load.at_a_time, index, threads);
        Ok(Lane {
            server: load.server,
            tls: Arc::clone(&load.tls),
            request: format!("GET {} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n", load.path).into_bytes(),
            until: match load.until {
                LoadEnd::Count(count) => LoadEnd::Count(share(count, index, threads)),
                time @ LoadEnd::Time(_) => time,
            },
            poller: Poller::new()?,
            open: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            part: Part::default(),
        })
    }

    fn drive(mut self, begin: Instant) -> io::Result<Part> {
        // On the servers' cores the load gets its turns soon, as clients elsewhere would, though no more time than its share.
        let _ = freerun_sys::schedule::set_slice(SLICE);
        let (mut started, mut looked) = (0, begin);
        let (mut ready, mut buffer) = (Vec::new(), vec![0; PIECE]);
        loop {
            let now = Instant::now();
            let wanted = match self.until {
                LoadEnd::Time(length) if now >= begin + length => break,
                LoadEnd::Count(count) if started >= count && self.free.len() == self.open.len() => break,
                LoadEnd::Count(count) => count - started,
                LoadEnd::Time(_) => usize::MAX,
            };
            if now >= looked + STEP {
                looked = now;
                if interrupt::check().is_err() {
                    break;
                }
                self.give_up(now);
            }
            let mut pause = STEP;
            if wanted > 0
                && let Some(index) = self.free.pop()
            {
                started += 1;
                self.begin(index, now);
                pause = Duration::ZERO;
            }
            self.poller.wait(pause, &mut ready)?;
            for ready in &ready {
                self.advance(ready.index, ready.hung_up, &mut buffer);
            }
        }
        self.part.found.time = match self.until {
            LoadEnd::Time(length) => length,
            LoadEnd::Count(_) => begin.elapsed(),
        };
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        self.part.found.cpu = Duration::new(cpu.tv_sec.cast_unsigned(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
        Ok(self.part)
    }

    fn begin(&mut self, index: usize, now: Instant) {
        let begun = BenchConnection::open(self.server, None, Some(&self.tls)).and_then(|mut connection| {
            connection.send(&self.request)?;
            self.poller.add(connection.socket(), index)?;
            Ok(Open { connection, begun: now, established: None, answered: false })
        });
        match begun {
            Ok(open) => self.open[index] = Some(open),
            Err(error) => {
                self.free.push(index);
                self.failed(&error);
            }
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.part.found.failed += 1;
        self.part.found.complaint.get_or_insert_with(|| error.to_string());
    }

    fn advance(&mut self, index: usize, hung_up: bool, buffer: &mut [u8]) {
        let Some(open) = self.open.get_mut(index).and_then(Option::as_mut) else { return };
        match step(open, hung_up, buffer) {
            Ok(false) => return,
            Ok(true) => {
                self.part.found.done += 1;
                self.part.found.resumed += usize::from(open.connection.is_resumed());
                self.part.latencies.extend(open.established);
            }
            Err(error) => self.failed(&error),
        }
        self.open[index] = None;
        self.free.push(index);
    }

    /// Ends the connections that take too long.
    fn give_up(&mut self, now: Instant) {
        for index in 0..self.open.len() {
            if self.open[index].as_ref().is_some_and(|open| now > open.begun + LIMIT) {
                self.open[index] = None;
                self.free.push(index);
                self.failed(&ErrorKind::TimedOut.into());
            }
        }
    }
}

/// Does what can be done on a connection; answers whether that was all.
fn step(open: &mut Open, hung_up: bool, buffer: &mut [u8]) -> io::Result<bool> {
    let Open { connection, begun, established, answered } = open;
    connection.advance(hung_up, buffer)?;
    if established.is_none() && connection.is_established() {
        *established = Some(begun.elapsed());
    }
    match connection.take_status() {
        Some(200) => *answered = true,
        Some(status) => return Err(io::Error::other(format!("answered {status}"))),
        None => {}
    }
    if connection.has_ended() && !*answered {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(connection.has_ended())
}
