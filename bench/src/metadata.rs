//! A file system on which every open, or every stat, is slow: does an uninvolved request wait?

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::bench::Bench;
use crate::client::Client;
use crate::configs::OK_PATH;
use crate::error::{Error, Result};
use crate::fixture::{self, Fixture};
use crate::grid::disturbance;
use crate::interrupt::pause;
use crate::probe::{self, Pace};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::scratch::Random;
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, Series, short_or_nothing};
use crate::status;

/// The slow operation: name, the fixture's operations.
const SLOW: [(&str, &[&str]); 2] = [("open", &["open"]), ("stat", &["lookup", "getattr"])];
/// The delay in milliseconds.
const DELAY_MS: u32 = 300;
/// Files on the fixture.
const FILES: u64 = 64;
/// Clients that read them.
const READERS: u64 = 4;
/// Uninvolved requests a second.
const RATE: f64 = 50.0;
/// The time that a reader waits for an answer.
const READER_LIMIT: Duration = Duration::from_secs(20);

/// The figures of one server.
struct Outcome {
    latencies: Latencies,
    failed: usize,
    files: usize,
    stalls: Option<u64>,
    /// Part of the machine that other processes used, in percent.
    strangers: f64,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let seconds = bench.options.seconds(4.0, 15.0);
    let rounds = bench.options.runs(1);
    let program = fixture::program()?;
    let mut report = Report {
        name: "metadata",
        method: format!(
            "A FUSE file system on which one kind of operation takes {DELAY_MS} ms; {READERS} keep-alive clients read files of it; another asks \
             for `return 200` {RATE} times a second for {seconds} s (each at its time, whether the former were answered or not). One worker, pinned to \
             one core; {rounds} round(s), a fresh server each."
        ),
        ..Report::default()
    };
    for case in SLOW {
        slow(bench, &program, case, (rounds, seconds), &mut report)?;
    }
    Ok(report)
}

fn slow(
    bench: &Bench,
    program: &std::path::Path,
    (title, operations): (&str, &[&str]),
    (rounds, seconds): (usize, f64),
    report: &mut Report,
) -> Result<()> {
    let mut commands = vec![format!("files f {FILES} 4096")];
    commands.extend(operations.iter().map(|operation| format!("delay {operation} {DELAY_MS} f")));
    let fixture = Fixture::mount(bench, program, &commands)?;
    let root = fixture.path.parent().unwrap_or(&fixture.path).to_owned();
    let specs = [
        Spec::new(Kind::Nginx, "", &root),
        Spec::new(Kind::Nginx, "threads", &root).aio("threads"),
        Spec::new(Kind::Freerun, "", &root),
    ];
    let head = ["server", "p50 ms", "p99 ms", "max ms", "not answered", "files read/s", "stalls"];
    let mut table = Table::new(format!("every {title} takes {DELAY_MS} ms"), &head);
    for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
        let mut outcomes = Vec::new();
        for _ in 0..rounds {
            match one(bench, spec, seconds) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}, slow {title}: {error}", spec.name)),
                Ok(outcome) => outcomes.push(outcome),
            }
        }
        let series = |figure: &dyn Fn(&Outcome) -> Option<f64>| outcomes.iter().filter_map(figure).collect::<Series>();
        let p99 = series(&|outcome| outcome.latencies.percentile_ms(99.0));
        if spec.kind == Kind::Freerun {
            let text = format!("slow {title}: p99 of the uninvolved request at most 10 ms");
            report.goals.push(Goal::at_most(text, p99.median(), 10.0));
        }
        let strangers: Vec<f64> = outcomes.iter().map(|outcome| outcome.strangers).collect();
        report.notes.extend(disturbance(&strangers).map(|note| format!("{}, slow {title}: {note}", spec.name)));
        if !outcomes.is_empty() {
            table.row(vec![
                spec.name.clone(),
                series(&|outcome| outcome.latencies.percentile_ms(50.0)).cell(),
                p99.cell(),
                series(&|outcome| outcome.latencies.percentile_ms(100.0)).cell(),
                outcomes.iter().map(|outcome| outcome.failed).sum::<usize>().to_string(),
                series(&|outcome| Some(outcome.files as f64 / seconds)).cell(),
                short_or_nothing(series(&|outcome| outcome.stalls.map(|count| count as f64)).max()),
            ]);
        }
    }
    report.tables.push(table);
    Ok(())
}

fn one(bench: &Bench, spec: &Spec, seconds: f64) -> Result<Outcome> {
    let (cores, _) = bench.machine.pair();
    let watch = Watch::start();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    let pace = Pace { path: OK_PATH.into(), rate: RATE, length: Duration::from_secs_f64(seconds) };
    let probe = probe::prepare(server.address, pace)?;
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS).map(|index| start_reader(server.address, index, &stop)).collect();
    let waited = pause(Duration::from_millis(500));
    let (latencies, failed) = probe.start()?.finish();
    stop.store(true, Relaxed);
    let files = readers.into_iter().map(|reader| reader.join().unwrap_or(0)).sum();
    waited?;
    let strangers = watch.strangers();
    let stalls = status::of(&server).and_then(|status| status.stalls);
    bench.say(&format!("{:16} {latencies}, {files} files", spec.name));
    server.stop();
    if files == 0 {
        return Err(Error::Failed("no file was read".into()));
    }
    Ok(Outcome { latencies, failed, files, stalls, strangers })
}

/// Reads files of the fixture one after the other; answers how many.
fn start_reader(server: SocketAddr, index: u64, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut random = Random::new(0x5eed + index * 7919);
        let mut client = None;
        let mut count = 0;
        while !stop.load(Relaxed) && crate::interrupt::check().is_ok() {
            let path = format!("/slow/f{}", random.next() % FILES);
            let connection = match client.take() {
                Some(client) => Ok(client),
                None => Client::connect(server, None, READER_LIMIT),
            };
            match connection.and_then(|mut connection| Ok((connection.get(&path)?, connection))) {
                Ok((reply, connection)) => {
                    count += usize::from(reply.status == 200);
                    client = (!reply.closes).then_some(connection);
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        count
    })
}
