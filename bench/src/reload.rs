//! Many reloads under load: does a client notice, and what is left of the old configurations?

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::checked::{self, AnswerCounts};
use crate::client::Client;
use crate::configs::{GENERATION_PATH, OK_PATH};
use crate::error::{Error, Result};
use crate::grid::disturbance;
use crate::interrupt::{pause, wait_for};
use crate::process::{Memory, Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, short_or_nothing};

/// The small file of the load.
const FILE: &str = "/1k.bin";
/// Its size.
const FILE_SIZE: u64 = 1_000;
/// The file of the slow downloads: too large for the socket's buffers.
const LARGE: &str = "/32m.bin";
/// Its size.
const LARGE_SIZE: u64 = 32 << 20;
/// Connections under load.
const CLIENTS: usize = 8;
/// A slow download begins with each reload of this number.
const SLOW_EVERY: usize = 10;
/// The time that a reload may take to be seen.
const RELOAD_LIMIT: Duration = Duration::from_secs(10);
/// The time that one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// The figures of one server.
struct ReloadOutcome {
    seen: AnswerCounts,
    reload_ms: Latencies,
    most_workers: usize,
    all_workers: usize,
    before: Memory,
    after: Memory,
    peak: u64,
    slow: (usize, usize),
    strangers: f64,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    bench.scratch.file(FILE.trim_start_matches('/'), FILE_SIZE)?;
    bench.scratch.file(LARGE.trim_start_matches('/'), LARGE_SIZE)?;
    let root = bench.scratch.folder("data")?;
    let reloads = if bench.options.quick { 20 } else { 100 };
    let workers = bench.machine.cores;
    let mut report = Report {
        name: "reload",
        method: format!(
            "{reloads} reloads (a changed configuration and SIGHUP, the next one when the change is seen) while {CLIENTS} keep-alive \
             connections ask for a 1 KB file and `return 200` and check each answer; with every {SLOW_EVERY}th reload a download \
             begins that its client reads slowly until the reloads are over. {workers} workers. \"Closed\": keep-alive connections \
             that the server closed between two requests, which a client sees as a failure if it happens to send then. Memory is the \
             sum over the server's processes, before the reloads under load and two seconds after everything has ended."
        ),
        ..Report::default()
    };
    let head = [
        "server",
        "requests",
        "failed, fresh connection",
        "failed, reused connection",
        "closed",
        "reload seen after ms (p50 / max)",
        "workers at once (most)",
        "workers in all",
        "RSS before KiB",
        "RSS most KiB",
        "RSS after KiB",
        "slow downloads whole",
    ];
    let mut table = Table::new("", &head);
    let mut goals = [None; 3];
    for kind in [Kind::Nginx, Kind::Freerun] {
        let spec = Spec::new(kind, "", &root).workers(workers);
        if !bench.options.wants(&spec.name) {
            continue;
        }
        let outcome = match one(bench, &spec, reloads) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                report.notes.push(format!("{} not measured: {error}", spec.name));
                continue;
            }
            Ok(outcome) => outcome,
        };
        if kind == Kind::Freerun {
            let ReloadOutcome { seen, slow, all_workers, after, before, .. } = &outcome;
            let failed = (seen.failed + seen.failed_reused) as f64 + (slow.1 - slow.0) as f64;
            goals = [Some(failed), Some(*all_workers as f64), Some(after.rss as f64 / before.rss as f64)];
        }
        report.notes.extend(disturbance(&[outcome.strangers]).map(|note| format!("{}: {note}", spec.name)));
        table.row(row(&spec.name, &outcome));
    }
    report.tables.push(table);
    let [failed, workers, memory] = goals;
    report.goals = vec![
        Goal::at_most("no failed request", failed, 0.0),
        Goal::at_most("one worker process throughout", workers, 1.0),
        Goal::at_most("memory after over memory before, at most 1.1", memory, 1.1),
    ];
    Ok(report)
}

fn row(name: &str, outcome: &ReloadOutcome) -> Vec<String> {
    let ReloadOutcome { seen, reload_ms, most_workers, all_workers, before, after, peak, slow, .. } = outcome;
    let kib = |bytes: u64| (bytes / 1024).to_string();
    let [p50, max] = [50.0, 100.0].map(|percent| short_or_nothing(reload_ms.percentile_ms(percent)));
    vec![
        name.to_owned(),
        seen.answered.to_string(),
        seen.failed.to_string(),
        seen.failed_reused.to_string(),
        seen.closed.to_string(),
        format!("{p50} / {max}"),
        most_workers.to_string(),
        all_workers.to_string(),
        kib(before.rss),
        kib(*peak),
        kib(after.rss),
        format!("{} of {}", slow.0, slow.1),
    ]
}

fn one(bench: &Bench, spec: &Spec, reloads: usize) -> Result<ReloadOutcome> {
    let watch = Watch::start();
    let server = Server::start(bench, spec, &Placement::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let paths = [(FILE, FILE_SIZE), (OK_PATH, 2)].map(|(path, size)| (path.to_owned(), size));
    let clients: Vec<_> =
        (0..CLIENTS).map(|index| checked::start(server.address, index, paths.to_vec(), &stop)).collect();
    let mut slow: Vec<JoinHandle<bool>> = Vec::new();
    let result = reload_all(bench, &server, reloads, &over, &mut slow);
    // Whatever happened, the threads end before the server does.
    over.store(true, Relaxed);
    let whole = slow.into_iter().map(|thread| thread.join().unwrap_or(false)).collect::<Vec<_>>();
    stop.store(true, Relaxed);
    let seen = checked::all(clients);
    let (before, reload_ms, watched) = result?;
    pause(Duration::from_secs(2))?;
    let after = server.process.memory();
    let slow = (whole.iter().filter(|whole| **whole).count(), whole.len());
    let WorkerFigures { most_workers, all_workers, peak } = watched;
    bench.say(&format!("{}: {seen:?}, {reload_ms}, {most_workers} workers at once", spec.name));
    server.stop();
    Ok(ReloadOutcome {
        seen,
        reload_ms,
        most_workers,
        all_workers: all_workers.len(),
        before,
        after,
        peak,
        slow,
        strangers: watch.strangers(),
    })
}

/// The figures of the processes meanwhile.
#[derive(Debug, Default)]
struct WorkerFigures {
    most_workers: usize,
    all_workers: BTreeSet<i32>,
    peak: u64,
}

impl WorkerFigures {
    fn look(&mut self, server: &Server) {
        let workers = server.workers();
        self.most_workers = self.most_workers.max(workers.len());
        self.all_workers.extend(workers);
    }
}

fn reload_all(
    bench: &Bench,
    server: &Server,
    reloads: usize,
    over: &Arc<AtomicBool>,
    slow: &mut Vec<JoinHandle<bool>>,
) -> Result<(Memory, Latencies, WorkerFigures)> {
    pause(Duration::from_secs(2))?;
    let before = server.process.memory();
    let mut watched = WorkerFigures::default();
    let mut times = Vec::new();
    for generation in 1..=reloads {
        if generation % SLOW_EVERY == 1 {
            slow.push(start_slow(server.address, over));
        }
        server.rewrite(bench, generation)?;
        let start = Instant::now();
        server.reload()?;
        let seen = wait_for(RELOAD_LIMIT, Duration::from_millis(2), || {
            watched.look(server);
            let answer =
                Client::connect(server.address, None, ANSWER_LIMIT).and_then(|mut client| client.get(GENERATION_PATH));
            Ok(answer.ok().filter(|reply| reply.body == generation.to_string().as_bytes()).map(|_| ()))
        })?;
        if seen.is_none() {
            return Err(Error::Failed(format!("reload {generation} was not seen")));
        }
        times.push(start.elapsed());
        if generation % SLOW_EVERY == 0 {
            watched.peak = watched.peak.max(server.process.memory().rss);
        }
        pause(Duration::from_millis(20))?;
    }
    watched.look(server);
    Ok((before, Latencies::new(times), watched))
}

/// Downloads the large file in small sips until `over`, then in one go; answers whether it was whole.
fn start_slow(server: SocketAddr, over: &Arc<AtomicBool>) -> JoinHandle<bool> {
    let over = Arc::clone(over);
    thread::spawn(move || download(server, &over).is_ok_and(|count| count == LARGE_SIZE))
}

fn download(server: SocketAddr, over: &AtomicBool) -> io::Result<u64> {
    let mut client = Client::connect(server, None, ANSWER_LIMIT)?;
    client.send(LARGE)?;
    let length = client.head()?;
    let mut stream = client.into_reader();
    let mut buffer = vec![0; 256 * 1024];
    let mut count = 0;
    while count < length {
        let sip = if over.load(Relaxed) { buffer.len() } else { 1024 };
        let read = stream.read(&mut buffer[..sip])?;
        if read == 0 {
            break;
        }
        count += read as u64;
        if !over.load(Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(count)
}
