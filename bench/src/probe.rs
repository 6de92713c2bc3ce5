//! A client that asks for one small thing at a steady pace: how long does an uninvolved request wait?

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::error::{ErrorContext, Result};
use crate::stats::Latencies;

/// The time that one request may take before it counts as that long and its connection is given up.
const LIMIT: Duration = Duration::from_secs(10);

/// Seconds: the connections are enough for an answer that takes this long not to hold up a later request.
const SPREAD: f64 = 5.0;

/// Most connections.
const MAX_CONNECTIONS: usize = 256;

/// Stack of a connection's thread, in bytes.
const STACK: usize = 128 * 1024;

/// The slice of a connection's thread, in nanoseconds, where it may not come before all others: what the scheduler gives it short turns for, and
/// sooner. Where others run on its core, a thread with a slice as long as theirs finds out about an answer when one of theirs has ended:
/// milliseconds later.
const SLICE: u64 = 100_000;

/// The request, and its rate.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The path; the answer must be 200.
    pub path: String,
    /// Requests a second.
    pub rate: f64,
    /// The time to go on.
    pub length: Duration,
}

/// Connections ready to ask.
#[derive(Debug)]
pub struct Ready {
    server: SocketAddr,
    pace: Pace,
    clients: Vec<Client>,
}

/// A probe under way.
#[derive(Debug)]
pub struct Probe(Vec<JoinHandle<ProbeFigures>>);

/// The figures of a probe.
#[derive(Debug, Clone, Default)]
struct ProbeFigures {
    latencies: Vec<Duration>,
    failed: usize,
}

/// Opens the connections and has one request answered on each, so that the server knows them before it gets busy.
pub fn prepare(server: SocketAddr, pace: Pace) -> Result<Ready> {
    let connections = ((pace.rate * SPREAD).ceil() as usize).clamp(1, MAX_CONNECTIONS);
    let open = || -> io::Result<Client> {
        let mut client = Client::connect(server, None, LIMIT)?;
        client.get(&pace.path)?;
        Ok(client)
    };
    let clients = (0..connections).map(|_| open().doing("prepare the probe")).collect::<Result<_>>()?;
    Ok(Ready { server, pace, clients })
}

impl Ready {
    /// Starts asking. Each request is due at its time whether the former ones were answered or not: the requests take
    /// turns on as many keep-alive connections as that needs.
    pub fn start(self) -> Result<Probe> {
        let Ready { server, pace, clients } = self;
        let begin = Instant::now();
        let next = Arc::new(AtomicU32::new(0));
        let mut threads = Vec::with_capacity(clients.len());
        for client in clients {
            let (pace, next) = (pace.clone(), Arc::clone(&next));
            let thread = Builder::new().stack_size(STACK).spawn(move || ask(server, client, &pace, begin, &next));
            threads.push(thread.doing("start a thread")?);
        }
        Ok(Probe(threads))
    }
}

impl Probe {
    /// Waits for the end. The times are from the moment each request was due to the end of its answer. The number
    /// counts requests that were not answered with 200, or not within ten seconds (their times are in, too).
    pub fn finish(self) -> (Latencies, usize) {
        let mut all = ProbeFigures::default();
        for thread in self.0 {
            let found = thread.join().unwrap_or_default();
            all.latencies.extend(found.latencies);
            all.failed += found.failed;
        }
        (Latencies::new(all.latencies), all.failed)
    }
}

fn ask(server: SocketAddr, client: Client, pace: &Pace, begin: Instant, next: &AtomicU32) -> ProbeFigures {
    let mut found = ProbeFigures::default();
    // What is measured is the server, not how long this thread waits for a core that thousands of other clients want. Neither is to be had
    // in every sandbox.
    if freerun_sys::schedule::set_first().is_err() {
        let _ = freerun_sys::schedule::set_slice(SLICE);
    }
    let mut client = Some(client);
    while crate::interrupt::check().is_ok() {
        let offset = Duration::from_secs_f64(f64::from(next.fetch_add(1, Relaxed)) / pace.rate);
        if offset >= pace.length {
            break;
        }
        let due = begin + offset;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // A connection that the server closed while it was idle is not a failed request.
        let kept = client.take().filter(|client: &Client| !client.is_closed());
        let connection = kept.map_or_else(|| Client::connect(server, None, LIMIT), Ok);
        match connection.and_then(|mut connection| Ok((connection.get(&pace.path)?, connection))) {
            Ok((reply, connection)) => {
                found.failed += usize::from(reply.status != 200);
                client = (!reply.closes).then_some(connection);
            }
            Err(_) => found.failed += 1,
        }
        found.latencies.push(due.elapsed());
    }
    found
}
