//! Requests at a steady pace over HTTP/3: how long does an uninvolved one wait?

use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::{ClientSettings, H3Connection, LoadProgress};
use super::wire::Wire;
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::stats::Latencies;
use crate::tls::poller::Poller;

/// Number of connections: enough that every loop has some.
const CONNECTIONS: usize = 8;

/// Most requests at a time on each.
const STREAMS: usize = 100;

/// The time for the handshakes, and for the last answers.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest time between two looks at all connections.
const STEP: Duration = Duration::from_millis(2);

/// Connections ready to ask.
pub struct H3Probe {
    wire: Wire,
    poller: Poller,
    connections: Vec<H3Connection>,
    progress: LoadProgress,
}

/// A probe under way.
pub struct RunningH3Probe(JoinHandle<io::Result<Latencies>>);

impl H3Probe {
    /// Opens the connections and has one request answered on each, so that the server knows them before it gets busy.
    pub fn prepare(server: SocketAddr, settings: &ClientSettings) -> Result<H3Probe> {
        let poller = Poller::new().doing("prepare a probe")?;
        let begin = || H3Connection::begin(server, None, settings, (STREAMS, 1));
        let connections = (0..CONNECTIONS).map(|_| begin()).collect::<io::Result<Vec<_>>>().doing("connect")?;
        for (index, connection) in connections.iter().enumerate() {
            poller.add(connection.socket(), index).doing("prepare a probe")?;
        }
        let mut probe = H3Probe { wire: Wire::new(), poller, connections, progress: LoadProgress::default() };
        let end = Instant::now() + LIMIT;
        while probe.connections.iter().any(|connection| !connection.is_done()) {
            interrupt::check()?;
            probe.advance(STEP).doing("prepare a probe")?;
            if Instant::now() > end {
                return Err(Error::Failed("no answer over HTTP/3 in time".into()));
            }
        }
        probe.progress = LoadProgress::default();
        Ok(probe)
    }

    /// Starts asking at this rate, in requests a second, for `length`, whether the former requests were answered or not.
    pub fn start(mut self, rate: f64, length: Duration) -> Result<RunningH3Probe> {
        let thread = thread::Builder::new().name("http3-probe".into()).spawn(move || self.drive(rate, length));
        Ok(RunningH3Probe(thread.doing("start a thread")?))
    }

    fn drive(&mut self, rate: f64, length: Duration) -> io::Result<Latencies> {
        // What is measured is the server, not how long this thread waits for a core.
        let _ = freerun_sys::schedule::set_first();
        let (begin, mut asked) = (Instant::now(), 0_usize);
        let end = begin + length;
        loop {
            let now = Instant::now();
            let due = begin + Duration::from_secs_f64(asked as f64 / rate);
            let is_done = self.connections.iter().all(H3Connection::is_done);
            if interrupt::check().is_err() || now >= end && is_done || now >= end + LIMIT {
                break;
            }
            if due < end && due <= now {
                let index = asked % self.connections.len();
                asked += 1;
                self.connections[index].ask_once_more();
                self.connections[index].advance(&mut self.wire, &mut self.progress)?;
            }
            let wait = if due < end { due.saturating_duration_since(Instant::now()).min(STEP) } else { STEP };
            self.advance(wait)?;
        }
        // A request without an answer counts as long as it was waited for.
        let missing = asked.saturating_sub(self.progress.times.len());
        self.progress.times.extend(std::iter::repeat_n(LIMIT, missing));
        Ok(Latencies::new(std::mem::take(&mut self.progress.times)))
    }

    fn advance(&mut self, wait: Duration) -> io::Result<()> {
        let mut ready = Vec::new();
        self.poller.wait(wait, &mut ready)?;
        let now = Instant::now();
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let is_due = connection.deadline().is_some_and(|deadline| deadline <= now);
            if is_due || ready.iter().any(|ready| ready.index == index) {
                connection.advance(&mut self.wire, &mut self.progress)?;
            }
        }
        Ok(())
    }
}

impl RunningH3Probe {
    /// Waits for the end. The times from each request to the end of its answer.
    pub fn finish(self) -> Result<Latencies> {
        self.0.join().map_err(|_| Error::Failed("a probe panicked".into()))?.doing("requests over HTTP/3")
    }
}
