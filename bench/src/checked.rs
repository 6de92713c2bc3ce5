//! Clients that ask again and again over kept connections and look at every answer: what a client notices of a change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client::Client;

/// The time that one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The answers that clients received.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerCounts {
    /// Answers that were as expected.
    pub answered: u64,
    /// A connection that could not be made, an answer on a fresh connection that was wrong, cut or missing.
    pub failed: u64,
    /// The same on a connection that had served a request before: a browser would try again, once.
    pub failed_reused: u64,
    /// Keep-alive connections found closed before the next request was sent.
    pub closed: u64,
}

impl AnswerCounts {
    fn add(&mut self, other: AnswerCounts) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.failed_reused += other.failed_reused;
        self.closed += other.closed;
    }
}

/// Starts a client that asks for these paths in turn until it is stopped. Bodies have to have the given length.
pub fn start(
    server: SocketAddr,
    index: usize,
    paths: Vec<(String, u64)>,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<AnswerCounts> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut seen = AnswerCounts::default();
        let mut client: Option<Client> = None;
        let mut turn = index;
        while !stop.load(Relaxed) && crate::interrupt::check().is_ok() {
            turn += 1;
            let (path, size) = &paths[turn % paths.len()];
            if client.as_ref().is_some_and(Client::is_closed) {
                seen.closed += 1;
                client = None;
            }
            let reused = client.is_some();
            let connection = client.take().map_or_else(|| Client::connect(server, None, ANSWER_LIMIT), Ok);
            let answer = connection.and_then(|mut connection| Ok((connection.get(path)?, connection)));
            match answer {
                Ok((reply, connection)) if reply.status == 200 && reply.body.len() as u64 == *size => {
                    seen.answered += 1;
                    client = (!reply.closes).then_some(connection);
                }
                _ => {
                    let failed = if reused { &mut seen.failed_reused } else { &mut seen.failed };
                    *failed += 1;
                    // A server that is gone would otherwise be asked without pause.
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
        seen
    })
}

/// Waits for clients that were told to stop.
pub fn all(clients: Vec<JoinHandle<AnswerCounts>>) -> AnswerCounts {
    let mut seen = AnswerCounts::default();
    for client in clients {
        seen.add(client.join().unwrap_or(AnswerCounts { failed: 1, ..AnswerCounts::default() }));
    }
    seen
}
