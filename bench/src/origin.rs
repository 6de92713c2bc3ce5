//! The server behind the caches that are compared: Debian's nginx, which counts what it is asked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::bench::Bench;
use crate::client::Client;
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::Placement;
use crate::servers::Server;
use crate::spec::{Kind, Spec};

/// The path that tells the number of its connections and requests.
const FIGURES: &str = "/figures";

/// The time that an answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A running origin.
#[derive(Debug)]
pub struct Origin {
    /// The server.
    pub server: Server,
}

impl Origin {
    /// Starts it on `cores`, with further lines of its server; `/` are the files of the scratch folder's `data`.
    pub fn start(bench: &Bench, cores: &[usize], lines: &str) -> Result<Origin> {
        let root = bench.scratch.folder("data")?;
        let lines = format!("location = {FIGURES} {{ stub_status; }}\n{lines}");
        let mut spec = Spec::new(Kind::Nginx, "", &root).lines("", lines);
        spec.name = "origin".into();
        spec.connections = 16_384;
        let placement = Placement { cores: cores.to_vec(), cgroups: Vec::new() };
        Ok(Origin { server: Server::start(bench, &spec, &placement)? })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// The number of requests that it has answered so far, including requests for its figures.
    pub fn requests(&self) -> Result<u64> {
        let reply = Client::connect(self.address(), None, LIMIT).and_then(|mut client| client.get(FIGURES));
        let text = String::from_utf8_lossy(&reply.doing("ask the origin for its figures")?.body).into_owned();
        parse(&text).ok_or_else(|| Error::Failed(format!("figures of the origin: {text}")))
    }

    /// The number of requests that `work` made it answer.
    pub fn during<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
        let before = self.requests()?;
        let done = work()?;
        // The last question is one of them.
        Ok((done, self.requests()?.saturating_sub(before + 1)))
    }
}

/// The third line of `stub_status`: accepted, handled, requests.
fn parse(text: &str) -> Option<u64> {
    text.lines().nth(2)?.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Asks `server` for these paths, in their order, on several connections at once. Returns the number of answers whose
/// status was not 200.
pub fn ask_all(
    server: SocketAddr,
    connections: usize,
    count: usize,
    path: impl Fn(usize) -> String + Sync,
) -> Result<usize> {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut client = None;
                while interrupt::check().is_ok() {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= count {
                        return;
                    }
                    let kept = client.take().map_or_else(|| Client::connect(server, None, LIMIT), Ok);
                    match kept.and_then(|mut kept: Client| Ok((kept.get(&path(number))?, kept))) {
                        Ok((reply, kept)) => {
                            failed.fetch_add(usize::from(reply.status != 200), Relaxed);
                            client = (!reply.closes).then_some(kept);
                        }
                        Err(_) => {
                            failed.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    interrupt::check()?;
    Ok(failed.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_third_number() {
        let text = "Active connections: 1 \nserver accepts handled requests\n 16 15 31070 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(parse(text), Some(31_070));
        assert_eq!(parse("Active"), None);
    }
}
