//! wrk(1) as the load, with a script that prints its figures as JSON.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::{Placement, Process};

/// Marks the line of figures in wrk's output.
const MARK: &str = "FIGURES ";

/// The time that wrk may take to end after its time.
const GRACE: Duration = Duration::from_secs(15);

/// The load that wrk makes.
#[derive(Debug, Clone)]
pub struct WrkLoad {
    /// Its threads.
    pub threads: usize,
    /// Its connections, shared by the threads.
    pub connections: usize,
    /// The time that it goes on.
    pub seconds: f64,
    /// The paths that it requests.
    pub target: Target,
    /// Send `Connection: close` with each request.
    pub close: bool,
    /// The cores it may use; empty for all.
    pub cores: Vec<usize>,
}

impl WrkLoad {
    /// 32 connections that are kept and ask for one path, from one thread.
    pub fn kept(path: &str, seconds: f64, cores: Vec<usize>) -> WrkLoad {
        WrkLoad { threads: 1, connections: 32, seconds, target: Target::Path(path.to_owned()), close: false, cores }
    }
}

/// The paths that a load requests.
#[derive(Debug, Clone)]
pub enum Target {
    /// A single path.
    Path(String),
    /// `/random/N.bin` with N random below the number.
    Random(usize),
    /// A path, in a content coding.
    Coded(String, &'static str),
    /// A path over TLS, at this address instead of the server's.
    Secure(SocketAddr, String),
    /// A path and a host, with a random number below the count in the place of `%d`.
    Numbered {
        /// The path.
        path: &'static str,
        /// The host.
        host: &'static str,
        /// The number of numbers.
        count: usize,
    },
    /// A random one of these paths each time; the first word names the load.
    List(&'static str, Vec<String>),
}

/// A wrk under way.
#[derive(Debug)]
pub struct Wrk {
    process: Process,
    length: Duration,
}

/// The figures of a run of wrk. The times are wrk's: of completed requests only.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WrkOutcome {
    /// Completed requests.
    pub requests: f64,
    /// Seconds.
    pub seconds: f64,
    /// Errors: connecting, reading, writing, statuses over 399.
    pub errors: f64,
    /// Mean latency, milliseconds.
    pub mean_ms: f64,
    /// Standard deviation of the latency, milliseconds.
    pub stdev_ms: f64,
    /// Median latency, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the latency, milliseconds.
    pub p99_ms: f64,
    /// Bytes of bodies; 0 where they are not counted.
    pub bytes: f64,
    /// The load of the client's cores in percent; it is measured without wrk.
    pub client: Option<f64>,
}

impl WrkOutcome {
    /// Completed requests a second.
    pub fn rate(&self) -> f64 {
        self.requests / self.seconds
    }
}

impl Wrk {
    /// Starts `program` on `server`; its script goes into `folder`.
    pub fn start(program: &Path, folder: &Path, server: SocketAddr, load: &WrkLoad) -> Result<Wrk> {
        let whole = load.seconds.ceil().max(1.0);
        let script: PathBuf = folder.join(match load.target {
            Target::Path(_) | Target::Coded(..) | Target::Secure(..) => "path.lua".to_owned(),
            Target::Random(_) => "random.lua".to_owned(),
            Target::Numbered { .. } => "numbered.lua".to_owned(),
            Target::List(name, _) => format!("{name}.lua"),
        });
        fs::write(&script, script_for(&load.target)).doing(script.display())?;
        let url = match &load.target {
            Target::Path(path) | Target::Coded(path, _) => format!("http://{server}{path}"),
            Target::Secure(address, path) => format!("https://{address}{path}"),
            Target::Random(_) | Target::List(..) | Target::Numbered { .. } => format!("http://{server}/"),
        };
        let mut args: Vec<String> = Vec::new();
        args.extend([format!("-t{}", load.threads.min(load.connections)), format!("-c{}", load.connections)]);
        args.extend([format!("-d{whole}s"), "--timeout".into(), "60s".into(), "--latency".into()]);
        args.extend(["-s".into(), script.display().to_string()]);
        if load.close {
            args.extend(["-H".into(), "Connection: close".into()]);
        }
        if let Target::Coded(_, coding) = load.target {
            args.extend(["-H".into(), format!("Accept-Encoding: {coding}")]);
        }
        args.push(url);
        let placement = Placement { cores: load.cores.clone(), cgroups: Vec::new() };
        let process = Process::start_piped(program, &args, &placement)?;
        Ok(Wrk { process, length: Duration::from_secs_f64(whole) })
    }

    /// Waits for the end and reads the figures.
    pub fn finish(mut self) -> Result<WrkOutcome> {
        interrupt::pause(self.length)?;
        if !self.process.wait(GRACE)? {
            return Err(Error::Failed("wrk does not end".into()));
        }
        let mut text = String::new();
        if let Some(mut output) = self.process.output() {
            output.read_to_string(&mut text).doing("read wrk's output")?;
        }
        parse(&text).ok_or_else(|| Error::Failed(format!("wrk failed: {}", text.trim())))
    }
}

/// Runs wrk from beginning to end.
pub fn run(program: &Path, folder: &Path, server: SocketAddr, load: &WrkLoad) -> Result<WrkOutcome> {
    Wrk::start(program, folder, server, load)?.finish()
}

fn script_for(target: &Target) -> String {
    let random = match target {
        Target::Path(_) | Target::Coded(..) | Target::Secure(..) => String::new(),
        Target::List(_, paths) => {
            let paths: Vec<String> = paths.iter().map(|path| format!("{path:?}")).collect();
            format!(
                "local paths = {{{}}}\n\
                 local threads = 0\n\
                 function setup(thread) thread:set(\"number\", threads) threads = threads + 1 end\n\
                 function init(args) math.randomseed(os.time() * 31 + number * 7919) end\n\
                 function request() return wrk.format(\"GET\", paths[math.random(#paths)]) end\n",
                paths.join(",")
            )
        }
        Target::Numbered { path, host, count } => format!(
            "function init(args) math.randomseed(os.time()) end\n\
             local function numbered(text, n) return (text:gsub(\"%%d\", n)) end\n\
             function request()\n\
             local n = tostring(math.random(0, {count} - 1))\n\
             return wrk.format(\"GET\", numbered(\"{path}\", n), {{ Host = numbered(\"{host}\", n) }})\n\
             end\n"
        ),
        Target::Random(count) => format!(
            "local threads = 0\n\
             function setup(thread) thread:set(\"number\", threads) threads = threads + 1 end\n\
             function init(args) math.randomseed(os.time() * 31 + number * 7919) end\n\
             function request() return wrk.format(\"GET\", \"/random/\" .. math.random(0, {count} - 1) .. \".bin\") end\n"
        ),
    };
    // A mean of nothing is not a number, which JSON lacks.
    format!(
        "{random}\
         local function n(x) if x ~= x or x == math.huge then return 0 end return x end\n\
         function done(summary, latency, requests)\n\
         local e = summary.errors\n\
         io.write(string.format('\\n{MARK}{{\"requests\":%.0f,\"us\":%.0f,\"errors\":%.0f,\"mean\":%.3f,\"stdev\":%.3f,\
         \"p50\":%.3f,\"p99\":%.3f}}\\n', summary.requests, summary.duration, e.connect + e.read + e.write + e.status,\n\
         n(latency.mean), n(latency.stdev), n(latency:percentile(50)), n(latency:percentile(99))))\n\
         end\n"
    )
}

fn parse(text: &str) -> Option<WrkOutcome> {
    let figures: Value = serde_json::from_str(text.lines().find_map(|line| line.strip_prefix(MARK))?).ok()?;
    let get = |name: &str| figures.get(name).and_then(Value::as_f64);
    let ms = |name: &str| get(name).map(|us| us / 1000.0);
    Some(WrkOutcome {
        requests: get("requests")?,
        seconds: get("us")? / 1e6,
        errors: get("errors")?,
        mean_ms: ms("mean")?,
        stdev_ms: ms("stdev")?,
        p50_ms: ms("p50")?,
        p99_ms: ms("p99")?,
        ..WrkOutcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_other_output() {
        let text = "Running 1s test\n  Latency 1ms\n\nFIGURES {\"requests\":10,\"us\":2000000,\"errors\":1,\
                    \"mean\":1500.0,\"stdev\":0.0,\"p50\":1000.0,\"p99\":9000.0}\n";
        let outcome = parse(text).unwrap();
        assert_eq!((outcome.rate(), outcome.errors, outcome.mean_ms, outcome.p99_ms), (5.0, 1.0, 1.5, 9.0));
        assert_eq!(parse("unable to connect"), None);
        assert_eq!(parse("FIGURES {"), None);
    }
}
