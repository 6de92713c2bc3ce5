//! h2load(1) as the load, for HTTP/2 and, to compare with it, HTTP/1.1.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use crate::bench::Bench;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Work;
use crate::interrupt;
use crate::process::{Placement, Process};
use crate::servers::Server;
use crate::wrk::WrkOutcome;

/// The time that h2load may take to end after its time.
const GRACE: Duration = Duration::from_secs(180);

/// The load that h2load makes, with one thread.
#[derive(Debug, Clone)]
pub struct H2Load {
    /// The version of HTTP.
    pub version: HttpVersion,
    /// Whether the server is asked at its address for TLS.
    pub secure: bool,
    /// The paths that it requests.
    pub path: String,
    /// Connections.
    pub connections: usize,
    /// Streams at a time on each.
    pub streams: usize,
    /// The requests in all, with which the load ends; `None` for as many as come in its time.
    pub requests: Option<usize>,
    /// The length of the load in seconds.
    pub seconds: f64,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// The cores it may use; empty for all.
    pub cores: Vec<usize>,
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
}

/// An h2load under way.
#[derive(Debug)]
pub struct RunningH2load {
    process: Process,
    length: Duration,
}

impl H2Load {
    /// Starts h2load on an address.
    pub fn start(&self, bench: &Bench, address: SocketAddr) -> Result<RunningH2load> {
        let mut args = vec!["-t1".to_owned(), format!("-c{}", self.connections), format!("-m{}", self.streams)];
        let seconds = self.seconds.ceil().max(1.0);
        args.push(self.requests.map_or_else(|| format!("-D{seconds}"), |requests| format!("-n{requests}")));
        args.extend_from_slice(&self.arguments);
        if self.version == HttpVersion::Http1 {
            args.push("--h1".into());
        }
        let scheme = if self.secure { "https" } else { "http" };
        args.push(format!("{scheme}://{address}{}", self.path));
        let placement = Placement { cores: self.cores.clone(), cgroups: Vec::new() };
        let process = Process::start_piped(bench.machine.program("h2load")?, &args, &placement)?;
        let least = if self.requests.is_some() { 0.0 } else { seconds };
        Ok(RunningH2load { process, length: Duration::from_secs_f64(least) })
    }
}

impl Work for H2Load {
    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome> {
        let address = match (self.secure, server.secure.first()) {
            (false, _) => server.address,
            (true, Some(address)) => *address,
            (true, None) => return Err(Error::Failed("no address for TLS".into())),
        };
        self.start(bench, address)?.finish()
    }
}

impl RunningH2load {
    /// Waits for the end and reads the figures.
    pub fn finish(mut self) -> Result<WrkOutcome> {
        interrupt::pause(self.length)?;
        if !self.process.wait(GRACE)? {
            return Err(Error::Failed("h2load does not end".into()));
        }
        let mut text = String::new();
        if let Some(mut output) = self.process.output() {
            output.read_to_string(&mut text).doing("read h2load's output")?;
        }
        parse(&text).ok_or_else(|| Error::Failed(format!("h2load failed: {}", text.trim())))
    }
}

/// Reads what h2load prints at its end. `None` if it does not say how many requests were answered, or if none was.
fn parse(text: &str) -> Option<WrkOutcome> {
    let after = |mark: &str| text.lines().find_map(|line| line.strip_prefix(mark));
    let (seconds, _) = after("finished in ")?.split_once(',')?;
    let requests = after("requests: ")?;
    let count = |what: &str| {
        let part = requests.split(", ").find_map(|part| part.strip_suffix(what))?;
        part.trim().parse::<f64>().ok()
    };
    let mut times = after("time for request:")?.split_whitespace();
    let (succeeded, mean) = (count("succeeded")?, times.nth(2)?);
    (succeeded > 0.0).then_some(())?;
    Some(WrkOutcome {
        requests: succeeded,
        seconds: milliseconds(seconds)? / 1000.0,
        errors: count("failed")?,
        mean_ms: milliseconds(mean)?,
        bytes: body_bytes(after("traffic:").unwrap_or_default()),
        ..WrkOutcome::default()
    })
}

/// The bytes of bodies in h2load's line about the traffic: `…, 3.81MB (4000000) data`; 0 if it does not say them.
fn body_bytes(traffic: &str) -> f64 {
    let data = traffic.trim_end().strip_suffix(") data").and_then(|rest| rest.rsplit_once('('));
    data.and_then(|(_, bytes)| bytes.parse().ok()).unwrap_or(0.0)
}

/// A time as h2load writes it: `12us`, `3.45ms`, `1.02s`, `2m`.
fn milliseconds(text: &str) -> Option<f64> {
    let units = [("us", 0.001), ("ms", 1.0), ("s", 1000.0), ("m", 60_000.0)];
    let (number, unit) = units.iter().find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_what_it_prints() {
        let text = "starting benchmark...\n\nfinished in 2.50s, 4.00 req/s, 1.20KB/s\n\
                    requests: 12 total, 12 started, 11 done, 10 succeeded, 1 failed, 1 errored, 0 timeout\n\
                    status codes: 10 2xx, 0 3xx, 1 4xx, 0 5xx\n\
                    traffic: 1.07KB (1100) total, 80B (80) headers (space savings 5.00%), 1.00KB (1000) data\n\
                    time for request:       65us      3.10ms       250us       200us    83.80%\n";
        let outcome = parse(text).unwrap();
        assert_eq!((outcome.requests, outcome.errors, outcome.rate(), outcome.mean_ms), (10.0, 1.0, 4.0, 0.25));
        assert_eq!(outcome.bytes, 1000.0);
        assert_eq!(parse(&text.replace("10 succeeded", "0 succeeded")), None);
        assert_eq!(parse("Could not connect to the host"), None);
    }

    #[test]
    fn times_have_units() {
        let times = ["500us", "3.45ms", "1.02s", "2m", "x"].map(milliseconds);
        assert_eq!(times, [Some(0.5), Some(3.45), Some(1020.0), Some(120_000.0), None]);
    }
}
