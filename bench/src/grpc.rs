//! Calls of gRPC through a proxy: what does passing one on cost?

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, target};
use crate::error::{Doing, Error, Result};
use crate::grid::{Grid, Work};
use crate::interrupt;
use crate::process::{Placement, Process};
use crate::report::{Goal, Report};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::warm;
use crate::wrk::Outcome;

/// The version of ghz, the client.
const VERSION: &str = "v0.120.0";

/// ghz' connections in each case.
const CONNECTIONS: [usize; 3] = [1, 10, 100];

/// The number of calls that are under way at a time, in all cases.
const CALLS: usize = 100;

/// The largest CPU time for each call, as a multiple of nginx's.
const LIMIT: f64 = 0.6;

/// The time that ghz may take to end after its time.
const GRACE: Duration = Duration::from_secs(20);

/// The time that Go may take to build ghz, in seconds.
const BUILDING: &str = "600";

/// The service that is called: its method takes and gives an empty message.
const PROTO: &str =
    "syntax = \"proto3\";\npackage bench;\nmessage Empty {}\nservice Service { rpc Call(Empty) returns (Empty); }\n";

/// The upstream server: an empty message of gRPC is five bytes, which are in a file.
const UPSTREAM: &str = "worker_processes 1;\nevents { worker_connections 8192; }\nhttp {\naccess_log off;\n@TEMPORARY@
    server {\nlisten @ADDRESS@ http2;\nkeepalive_requests 1000000000;\nkeepalive_timeout 600s;\nroot @ROOT@;
        location / { error_page 404 405 =200 /empty; log_not_found off; }
        location = /empty { default_type application/grpc; add_trailer grpc-status 0; }\n}\n}\n";

/// The proxies.
const PROXY: &str = "worker_processes 1;\nevents { worker_connections 8192; }\nhttp {\naccess_log off;\n@TEMPORARY@
    upstream back { server @BACK@; keepalive 128; keepalive_requests 1000000000; }
    server {\nlisten @ADDRESS@ http2;\nkeepalive_requests 1000000000;\nkeepalive_timeout 600s;
        location / { grpc_pass grpc://back; }\n}\n}\n";

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 4.0).ceil());
    let ghz = ghz(bench)?;
    let root = bench.scratch.folder("data")?;
    fs::write(root.join("empty"), [0; 5]).doing("write a message")?;
    let proto = bench.scratch.folder("servers")?.join("bench.proto");
    fs::write(&proto, PROTO).doing(proto.display())?;
    let (server_cores, client_cores) = bench.machine.pair();
    let mut back = Spec::new(Kind::Nginx, "", &root);
    (back.name, back.whole) = ("upstream".into(), Some(UPSTREAM.replace("@ROOT@", &root.display().to_string())));
    let back = Server::start(bench, &back, &Placement { cores: client_cores.clone(), cgroups: Vec::new() })?;
    let specs = [Kind::Nginx, Kind::Freerun].map(|kind| Spec {
        whole: Some(PROXY.replace("@BACK@", &back.address.to_string())),
        ..Spec::new(kind, "", &root)
    });
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    let loads = |_: &Server| {
        let load = |connections| Load {
            ghz: ghz.clone(),
            proto: proto.clone(),
            connections,
            seconds,
            cores: client_cores.clone(),
        };
        CONNECTIONS.iter().map(|connections| (case(*connections), load(*connections))).collect()
    };
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
    let mut report = Report {
        name: "grpc",
        method: format!(
            "Calls of gRPC with empty messages, in the clear, {CALLS} at a time over ghz' connections (ghz {VERSION}), through \
             `grpc_pass` with `keepalive 128` to an nginx that answers with a file of five bytes and a trailer; the proxy's one worker \
             pinned to one core, upstream and ghz to the other, which is the limit of the rate; {rounds} rounds of {seconds} s each, \
             proxies in turn; median (min–max), ratios are medians of each round's. CPU time is the proxy's alone."
        ),
        notes,
        ..Report::default()
    };
    for connections in CONNECTIONS {
        let case = case(connections);
        report.tables.push(warm::table(&grid, &servers, &case, &case));
        let cpu = grid.ratio("freerun", "nginx", &case, |sample| sample.cpu_us);
        report.goals.push(Goal::at_most(format!("{case}: CPU per call at most {LIMIT} times nginx's"), cpu, LIMIT));
    }
    Ok(report)
}

/// The name of a case.
fn case(connections: usize) -> String {
    format!("{connections} connection{}", if connections == 1 { "" } else { "s" })
}

/// The path of ghz, which Go builds at the first time.
fn ghz(bench: &Bench) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("GHZ") {
        return Ok(path.into());
    }
    let folder = target().join("ghz").join(VERSION);
    let program = folder.join("ghz");
    if !program.exists() {
        bench.say("building ghz");
        fs::create_dir_all(&folder).doing(folder.display())?;
        let folder = fs::canonicalize(&folder).doing(folder.display())?;
        let mut command = Command::new("timeout");
        command.args([BUILDING, "go", "install", &format!("github.com/bojand/ghz/cmd/ghz@{VERSION}")]);
        command.env("GOBIN", folder).env("GOTOOLCHAIN", "local").stdin(Stdio::null());
        if !command.status().doing("build ghz by Go")?.success() {
            return Err(Error::Setup("ghz cannot be built".into()));
        }
    }
    fs::canonicalize(&program).doing(program.display())
}

/// The load that ghz makes.
struct Load {
    ghz: PathBuf,
    proto: PathBuf,
    connections: usize,
    seconds: f64,
    cores: Vec<usize>,
}

impl Load {
    fn arguments(&self, server: SocketAddr, output: &str) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["--insecure", "--call", "bench.Service/Call", "-d", "{}", "--duration-stop", "wait", "-O", "json"]
                .map(ToOwned::to_owned)
                .to_vec();
        let pairs = [
            ("--proto", self.proto.display().to_string()),
            ("--connections", self.connections.to_string()),
            ("-c", CALLS.to_string()),
            ("-z", format!("{}s", self.seconds)),
            ("-o", output.to_owned()),
        ];
        arguments.extend(pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        arguments.push(server.to_string());
        arguments
    }
}

impl Work for Load {
    fn run(&self, bench: &Bench, server: &Server) -> Result<Outcome> {
        let folder = bench.scratch.folder("servers")?;
        let output = folder.join("ghz.json");
        let _ = fs::remove_file(&output);
        let placement = Placement { cores: self.cores.clone(), cgroups: Vec::new() };
        let arguments = self.arguments(server.address, &output.display().to_string());
        let mut process = Process::start(&self.ghz, &arguments, &placement, &folder.join("ghz.out"))?;
        interrupt::pause(Duration::from_secs_f64(self.seconds))?;
        if !process.wait(GRACE)? {
            return Err(Error::Failed("ghz does not end".into()));
        }
        let text = fs::read_to_string(&output).unwrap_or_default();
        parse(&text).ok_or_else(|| {
            Error::Failed(format!(
                "ghz failed: {}",
                fs::read_to_string(folder.join("ghz.out")).unwrap_or_default().trim()
            ))
        })
    }
}

/// The figures of ghz' report; its times are nanoseconds.
fn parse(text: &str) -> Option<Outcome> {
    let figures: Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| figures.get(name).and_then(Value::as_f64);
    let of = |percentage: u64| {
        let all = figures.get("latencyDistribution")?.as_array()?;
        let found = all.iter().find(|one| one.get("percentage").and_then(Value::as_u64) == Some(percentage))?;
        found.get("latency").and_then(Value::as_f64).map(|ns| ns / 1e6)
    };
    let requests = number("count")?;
    let good = figures.get("statusCodeDistribution")?.get("OK").and_then(Value::as_f64).unwrap_or(0.0);
    Some(Outcome {
        requests,
        seconds: number("total")? / 1e9,
        errors: requests - good,
        mean_ms: number("average")? / 1e6,
        p50_ms: of(50)?,
        p99_ms: of(99)?,
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_report() {
        let text = r#"{"count": 10, "total": 2000000000, "average": 1500000, "statusCodeDistribution": {"OK": 8, "Unavailable": 2},
                       "latencyDistribution": [{"percentage": 50, "latency": 1000000}, {"percentage": 99, "latency": 9000000}]}"#;
        let outcome = parse(text).unwrap();
        assert_eq!((outcome.rate(), outcome.errors, outcome.mean_ms), (5.0, 2.0, 1.5));
        assert_eq!((outcome.p50_ms, outcome.p99_ms), (1.0, 9.0));
        assert_eq!(parse("{}"), None);
    }
}
