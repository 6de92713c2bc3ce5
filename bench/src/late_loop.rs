//! A worker, or loop, is held up for half a second again and again, while new connections come: how long does the
//! slowest of them wait? freerun's loops are held up by `debug_block_loop`, which only builds with debug assertions
//! have; nginx's processes by SIGSTOP.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::Bench;
use crate::error::Result;
use crate::interrupt::pause;
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, short_or_nothing};

/// The ways to share the address: name, `accept_mutex`, `reuseport`.
const WAYS: [(&str, Option<bool>, bool); 3] =
    [("default", None, false), ("accept_mutex on", Some(true), false), ("reuseport", None, true)];

/// Loops, or worker processes.
const WORKERS: usize = 4;

/// The time for which a loop is held up, and the time until the next one is.
const HELD: Duration = Duration::from_millis(500);
const REST: Duration = Duration::from_millis(500);

/// The time between two new connections: 200 a second.
const BETWEEN: Duration = Duration::from_millis(5);

/// The longest time of an answer that is counted at all.
const LIMIT: Duration = Duration::from_secs(10);

/// No connection may wait for longer, in milliseconds.
const GOAL: f64 = 50.0;

/// The path that holds up a loop of freerun.
const HOLD: &str = "/hold";

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let times = bench.options.runs(10);
    let mut report = Report {
        name: "late-loop",
        method: format!(
            "{WORKERS} workers, of which one is held up for {HELD:?}, {times} times with {REST:?} in between: in freerun by a request \
             with `debug_block_loop` (a build with debug assertions), in nginx by SIGSTOP for the first worker process. 200 new \
             connections a second meanwhile, each with one request for `return 200`; times from connecting to the answer."
        ),
        ..Report::default()
    };
    let root = bench.scratch.folder("data")?;
    let both = |(way, accept_mutex, reuseport)| {
        [Kind::Nginx, Kind::Freerun].map(|kind| {
            let hold = format!("location = {HOLD} {{ debug_block_loop {}ms; empty_gif; }}", HELD.as_millis());
            let lines = if kind == Kind::Freerun { hold } else { String::new() };
            Spec { accept_mutex, reuseport, lines, ..Spec::new(kind, way, &root).workers(WORKERS) }
        })
    };
    let specs: Vec<Spec> = WAYS.into_iter().flat_map(both).collect();
    let (servers, notes) = start_all(bench, &specs, &Placement::default())?;
    report.notes = notes;
    let mut table =
        Table::new("", &["server", "connections", "p50 ms", "p99 ms", "worst ms", "over 50 ms", "not answered"]);
    for server in &servers {
        let (latencies, failed) = one(server, times)?;
        let ms = |percent| latencies.percentile_ms(percent);
        let over = latencies.over(Duration::from_millis(GOAL as u64));
        table.row(vec![
            server.spec.name.clone(),
            latencies.count().to_string(),
            short_or_nothing(ms(50.0)),
            short_or_nothing(ms(99.0)),
            short_or_nothing(ms(100.0)),
            over.to_string(),
            failed.to_string(),
        ]);
        bench.say(&format!("{:24} {latencies}", server.spec.name));
        if server.spec.kind == Kind::Freerun {
            report.goals.push(Goal::at_most(format!("{}: worst ms", server.spec.name), ms(100.0), GOAL));
        }
    }
    report.tables.push(table);
    Ok(report)
}

/// Holds up a worker of the server again and again, while connections come. Answers how long these took, and how many had no answer.
fn one(server: &Server, times: usize) -> Result<(Latencies, usize)> {
    let address = server.address;
    let lasts = (HELD + REST) * u32::try_from(times).unwrap_or(1);
    let clients = thread::spawn(move || {
        let begun = Instant::now();
        let mut all = Vec::new();
        while begun.elapsed() < lasts {
            // Whoever waits must not keep the others from coming.
            all.push(thread::spawn(move || ask(address, "/ok")));
            thread::sleep((BETWEEN * all.len() as u32).saturating_sub(begun.elapsed()));
        }
        all.into_iter().map(|one| one.join().ok().flatten()).collect::<Vec<_>>()
    });
    for _ in 0..times {
        pause(REST)?;
        hold(server)?;
    }
    let all = clients.join().unwrap_or_default();
    let failed = all.iter().filter(|one| one.is_none()).count();
    Ok((Latencies::new(all.into_iter().flatten().collect()), failed))
}

/// Holds up one worker.
fn hold(server: &Server) -> Result<()> {
    if server.spec.kind == Kind::Freerun {
        ask(server.address, HOLD);
        return Ok(());
    }
    let first = server.workers().first().and_then(|pid| Pid::from_raw(*pid));
    let signal = |signal| first.map(|pid| kill_process(pid, signal));
    signal(Signal::STOP);
    let paused = pause(HELD);
    signal(Signal::CONT);
    paused
}

/// Asks once, over a connection of its own. Answers how long that took.
fn ask(address: SocketAddr, path: &str) -> Option<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    answer.starts_with(b"HTTP/1.1 200 ").then(|| begun.elapsed())
}
