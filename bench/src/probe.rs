//! A client that asks for one small thing at a steady pace: how long does an uninvolved request wait?

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::stats::Latencies;

/// How long one request may take before it counts as that long and its connection is given up.
const LIMIT: Duration = Duration::from_secs(10);

/// What is asked, and how often.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The path; the answer must be 200.
    pub path: String,
    /// Requests a second, over all connections.
    pub rate: f64,
    /// How long to go on.
    pub length: Duration,
    /// Keep-alive connections, which take turns.
    pub connections: u32,
}

/// A probe under way.
#[derive(Debug)]
pub struct Probe(Vec<JoinHandle<Found>>);

/// What a probe found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The time from the moment each request was *due* to the end of its answer: a request that its predecessor held up
    /// is counted with that wait.
    pub latencies: Vec<Duration>,
    /// Requests that were not answered with 200, or not within ten seconds.
    pub failed: usize,
}

impl Probe {
    /// Starts asking `server`.
    pub fn start(server: SocketAddr, pace: &Pace) -> Probe {
        let begin = Instant::now();
        let step = Duration::from_secs_f64(1.0 / pace.rate);
        let threads = (0..pace.connections).map(|index| {
            let pace = pace.clone();
            let first = begin + step * index;
            thread::spawn(move || ask(server, &pace, first, step * pace.connections))
        });
        Probe(threads.collect())
    }

    /// Waits for the end.
    pub fn finish(self) -> (Latencies, usize) {
        let mut all = Found::default();
        for thread in self.0 {
            let found = thread.join().unwrap_or_default();
            all.latencies.extend(found.latencies);
            all.failed += found.failed;
        }
        (Latencies::new(all.latencies), all.failed)
    }
}

fn ask(server: SocketAddr, pace: &Pace, mut due: Instant, step: Duration) -> Found {
    let mut found = Found::default();
    let mut client = None;
    let end = due + pace.length;
    while due < end && crate::interrupt::check().is_ok() {
        let now = Instant::now();
        if now > end + LIMIT {
            break;
        }
        thread::sleep(due.saturating_duration_since(now));
        let connection = match client.take() {
            Some(client) => Ok(client),
            None => Client::connect(server, None, LIMIT),
        };
        let answer = connection.and_then(|mut connection| {
            let reply = connection.get(&pace.path)?;
            Ok((connection, reply))
        });
        match answer {
            Ok((connection, reply)) => {
                found.failed += usize::from(reply.status != 200);
                client = (!reply.closes).then_some(connection);
            }
            Err(_) => found.failed += 1,
        }
        found.latencies.push(due.elapsed());
        due += step;
    }
    found
}
