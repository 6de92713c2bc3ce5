//! Clients that keep their connections and ask for one small thing at a fixed rate, each time when it is due, whether the
//! former answers have come or not.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::connection::{Connection, PIECE};
use super::poller::{Poller, Ready};
use crate::error::{Doing, Error, Result};
use crate::interrupt;
use crate::stats::Latencies;

/// The time that an answer may take before it has failed.
const LIMIT: Duration = Duration::from_secs(10);

/// Longest sleep.
const STEP: Duration = Duration::from_millis(50);

/// The thread's slice in nanoseconds where it may not come before all others; see `probe`.
const SLICE: u64 = 100_000;

/// The request, its rate, and the connections.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The server.
    pub server: SocketAddr,
    /// TLS, or none.
    pub tls: Option<Arc<ClientConfig>>,
    /// The path; the answer has to be 200.
    pub path: &'static str,
    /// Requests a second.
    pub rate: f64,
    /// Connections, which take turns.
    pub connections: usize,
}

/// Connections on which one request has been answered each.
#[derive(Debug)]
pub struct Steady {
    pace: Pace,
    request: Vec<u8>,
    poller: Poller,
    lines: Vec<Line>,
    /// The connections that are waiting for something to do, the longest wait first.
    idle: VecDeque<usize>,
    buffer: Vec<u8>,
    latencies: Vec<Duration>,
    failed: usize,
}

/// A connection; none where it failed and is opened again when it is needed.
#[derive(Debug)]
struct Line {
    connection: Option<Connection>,
    /// The time when the unanswered request was due.
    due: Option<Instant>,
}

/// Clients under way.
#[derive(Debug)]
pub struct Running(JoinHandle<io::Result<(Vec<Duration>, usize)>>);

impl Steady {
    /// Opens the connections, all at once, and waits until one request has been answered on each.
    pub fn prepare(pace: Pace) -> Result<Steady> {
        let request = format!("GET {} HTTP/1.1\r\nHost: bench\r\n\r\n", pace.path).into_bytes();
        let lines = (0..pace.connections).map(|_| Line { connection: None, due: None }).collect();
        let mut steady = Steady {
            pace,
            request,
            poller: Poller::new().doing("prepare clients")?,
            lines,
            idle: VecDeque::new(),
            buffer: vec![0; PIECE],
            latencies: Vec::new(),
            failed: 0,
        };
        let begin = Instant::now();
        for index in 0..steady.lines.len() {
            steady.ask(index, begin);
        }
        steady.settle(begin + LIMIT).doing("prepare clients")?;
        interrupt::check()?;
        match steady.failed {
            0 => {
                steady.latencies.clear();
                Ok(steady)
            }
            failed => Err(Error::Failed(format!("{failed} of {} first requests failed", steady.lines.len()))),
        }
    }

    /// Begins to ask, for `length`.
    pub fn start(self, length: Duration) -> Result<Running> {
        let drive = move || self.drive(length);
        Ok(Running(thread::Builder::new().name("steady".into()).spawn(drive).doing("start a thread")?))
    }

    fn drive(mut self, length: Duration) -> io::Result<(Vec<Duration>, usize)> {
        // As in `probe`: what is measured is the server, not how long this thread waits for a core.
        if freerun_sys::schedule::set_first().is_err() {
            let _ = freerun_sys::schedule::set_slice(SLICE);
        }
        let begin = Instant::now();
        let end = begin + length;
        let (mut asked, mut waiting) = (0_u32, VecDeque::new());
        while interrupt::check().is_ok() {
            let due = begin + Duration::from_secs_f64(f64::from(asked) / self.pace.rate);
            let now = Instant::now();
            if due < end && due <= now {
                asked += 1;
                waiting.push_back(due);
            }
            while !waiting.is_empty()
                && let Some(index) = self.idle.pop_front()
                && let Some(due) = waiting.pop_front()
            {
                self.ask(index, due);
            }
            if due < end {
                self.wait(due.saturating_duration_since(now).min(STEP))?;
            } else if waiting.is_empty() || now > end + LIMIT {
                break;
            } else {
                self.wait(STEP)?;
            }
        }
        self.settle(Instant::now() + LIMIT)?;
        self.failed += waiting.len();
        self.latencies.extend(waiting.iter().map(Instant::elapsed));
        Ok((self.latencies, self.failed))
    }

    /// Waits for the answers that are still to come, until `end` at most; then they have failed.
    fn settle(&mut self, end: Instant) -> io::Result<()> {
        while self.idle.len() < self.lines.len() && Instant::now() < end && interrupt::check().is_ok() {
            self.wait(STEP)?;
        }
        for index in 0..self.lines.len() {
            if self.lines[index].due.is_some() {
                self.lines[index].connection = None;
                self.answered(index, false);
            }
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        let mut ready = Vec::new();
        self.poller.wait(limit, &mut ready)?;
        for Ready { index, hung_up } in ready {
            self.advance(index, hung_up);
        }
        Ok(())
    }

    /// Sends the request that was due then.
    fn ask(&mut self, index: usize, due: Instant) {
        let line = &mut self.lines[index];
        line.due = Some(due);
        let sent = match &mut line.connection {
            Some(connection) => connection.send(&self.request),
            None => Connection::open(self.pace.server, None, self.pace.tls.as_ref()).and_then(|mut connection| {
                connection.send(&self.request)?;
                self.poller.add(connection.socket(), index)?;
                line.connection = Some(connection);
                Ok(())
            }),
        };
        if sent.is_err() {
            line.connection = None;
            self.answered(index, false);
        }
    }

    fn advance(&mut self, index: usize, hung_up: bool) {
        let line = &mut self.lines[index];
        let Some(connection) = &mut line.connection else { return };
        let status = connection.advance(hung_up, &mut self.buffer).map(|()| connection.take_status());
        let ended = connection.has_ended() || status.is_err();
        if ended {
            line.connection = None;
        }
        match status {
            Ok(Some(status)) => self.answered(index, status == 200),
            // A server may close a connection on which nothing was asked.
            _ if ended && line.due.is_some() => self.answered(index, false),
            _ => {}
        }
    }

    fn answered(&mut self, index: usize, well: bool) {
        if let Some(due) = self.lines[index].due.take() {
            self.latencies.push(due.elapsed());
            self.failed += usize::from(!well);
            self.idle.push_back(index);
        }
    }
}

impl Running {
    /// Waits for the end. The times are from the moment when each request was due to the end of its answer. The number
    /// counts requests that were not answered with 200, or not within ten seconds (their times are in, too).
    pub fn finish(self) -> Result<(Latencies, usize)> {
        let found = self.0.join().map_err(|_| Error::Failed("a client panicked".into()))?;
        let (latencies, failed) = found.map_err(|error| match error.kind() {
            ErrorKind::Interrupted => Error::Interrupted,
            _ => Error::Failed(format!("the clients: {error}")),
        })?;
        interrupt::check()?;
        Ok((Latencies::new(latencies), failed))
    }
}
