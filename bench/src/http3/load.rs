//! A load of HTTP/3 by one thread: connections that are kept, or one for each request.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::client::{ClientSettings, H3Connection, LoadProgress};
use super::wire::Wire;
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::on_cores;
use crate::stats::Latencies;
use crate::tls::poller::Poller;
use crate::wrk::WrkOutcome;

/// The slice of the thread in nanoseconds: what the scheduler gives it short turns for, and sooner.
const SLICE: u64 = 100_000;

/// The longest time between two looks at all connections.
const STEP: Duration = Duration::from_millis(20);

/// The load that a thread makes.
#[derive(Debug, Clone)]
pub struct H3Load {
    /// The server.
    pub server: SocketAddr,
    /// The requests.
    pub settings: ClientSettings,
    /// The size of a response's body.
    pub size: u64,
    /// Connections at a time.
    pub connections: usize,
    /// Streams at a time on each.
    pub streams: usize,
    /// The requests on each connection.
    pub requests: RequestCount,
    /// The longest time for the load.
    pub length: Duration,
    /// The cores it may use; empty for all.
    pub cores: Vec<usize>,
}

/// The requests on each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCount {
    /// Without end.
    Endless,
    /// A single one, and another connection follows.
    OneEach,
    /// Number of them; the load ends with the last.
    Until(usize),
}

/// Runs `load` from beginning to end.
pub fn run(load: &H3Load) -> Result<WrkOutcome> {
    let spawn = || {
        let load = load.clone();
        thread::Builder::new().name("http3".into()).spawn(move || H3Lane::new(&load)?.drive())
    };
    let thread = on_cores(&load.cores, spawn)?.doing("start a thread")?;
    let outcome = thread.join().map_err(|_| Error::Failed("a client panicked".into()))?.doing("a load of HTTP/3")?;
    interrupt::check()?;
    if outcome.requests == 0.0 {
        return Err(Error::Failed("no response".into()));
    }
    Ok(outcome)
}

/// The work of the thread.
struct H3Lane<'l> {
    load: &'l H3Load,
    poller: Poller,
    wire: Wire,
    connections: Vec<Option<H3Connection>>,
    progress: LoadProgress,
    handshakes: Vec<Duration>,
    ended: usize,
    failed: usize,
    complaint: Option<io::Error>,
}

impl<'l> H3Lane<'l> {
    fn new(load: &'l H3Load) -> io::Result<H3Lane<'l>> {
        Ok(H3Lane {
            load,
            poller: Poller::new()?,
            wire: Wire::new(),
            connections: (0..load.connections).map(|_| None).collect(),
            progress: LoadProgress::default(),
            handshakes: Vec::new(),
            ended: 0,
            failed: 0,
            complaint: None,
        })
    }

    fn drive(mut self) -> io::Result<WrkOutcome> {
        let _ = freerun_sys::schedule::set_slice(SLICE);
        let begin = Instant::now();
        let end = begin + self.load.length;
        let mut ready = Vec::new();
        for index in 0..self.connections.len() {
            self.begin(index)?;
        }
        let mut looked = begin;
        loop {
            let now = Instant::now();
            if now >= end || self.connections.iter().all(Option::is_none) || interrupt::check().is_err() {
                break;
            }
            let deadlines = self.connections.iter_mut().flatten().filter_map(H3Connection::deadline);
            let until = deadlines.min().unwrap_or(end).min(now + STEP);
            self.poller.wait(until.saturating_duration_since(now), &mut ready)?;
            let indices: Vec<usize> = ready.iter().map(|ready| ready.index).collect();
            for index in indices {
                self.advance(index)?;
            }
            let now = Instant::now();
            if ready.is_empty() || now >= looked + STEP {
                looked = now;
                for index in 0..self.connections.len() {
                    let connection = self.connections[index].as_mut();
                    if connection.and_then(H3Connection::deadline).is_some_and(|deadline| deadline <= now) {
                        self.advance(index)?;
                    }
                }
            }
        }
        if let Some(error) = self.complaint.filter(|_| self.failed > self.progress.done) {
            return Err(error);
        }
        let time = begin.elapsed();
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = Duration::new(cpu.tv_sec.cast_unsigned(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
        self.connections.into_iter().flatten().for_each(|connection| connection.close(&mut self.wire));
        let is_each = self.load.requests == RequestCount::OneEach;
        let times = Latencies::new(if is_each { self.handshakes } else { self.progress.times });
        let latency = |percent| times.percentile_ms(percent).unwrap_or(f64::NAN);
        Ok(WrkOutcome {
            // Of large files, parts count.
            requests: if is_each { self.ended as f64 } else { self.progress.bytes as f64 / self.load.size as f64 },
            seconds: time.as_secs_f64(),
            errors: self.failed as f64,
            p50_ms: latency(50.0),
            p99_ms: latency(99.0),
            bytes: self.progress.bytes as f64,
            client: Some(cpu.as_secs_f64() / time.as_secs_f64() * 100.0),
            ..WrkOutcome::default()
        })
    }

    fn begin(&mut self, index: usize) -> io::Result<()> {
        let H3Load { server, settings, streams, requests, .. } = self.load;
        let count = match requests {
            RequestCount::Endless => usize::MAX,
            RequestCount::OneEach => 1,
            RequestCount::Until(count) => *count,
        };
        let mut connection = H3Connection::begin(*server, None, settings, (*streams, count))?;
        self.poller.add(connection.socket(), index)?;
        connection.advance(&mut self.wire, &mut self.progress)?;
        self.connections[index] = Some(connection);
        Ok(())
    }

    fn advance(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        match connection.advance(&mut self.wire, &mut self.progress) {
            Ok(()) if !connection.is_done() => return Ok(()),
            Ok(()) => {
                self.ended += 1;
                self.handshakes.extend(connection.established);
                if let Some(connection) = self.connections[index].take() {
                    connection.close(&mut self.wire);
                }
                if matches!(self.load.requests, RequestCount::Until(_)) {
                    return Ok(());
                }
            }
            Err(error) => {
                self.failed += 1;
                self.complaint.get_or_insert(error);
            }
        }
        self.begin(index)
    }
}
