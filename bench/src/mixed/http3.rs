//! The seed's benchmark over HTTP/3: the cached load, and bystanders of clients that read cold files.

use std::time::Duration;

use super::{CACHED, CONNECTIONS, FILE, MixedFigures, SETTLE, SlowDisk, WORKERS, one, warm_up};
use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::cgroup::ControlGroup;
use crate::configs::OK_PATH;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::disturbance;
use crate::http3::client::ClientSettings;
use crate::http3::load::{self, H3Load, RequestCount};
use crate::http3::probe::H3Probe;
use crate::probe::{self, Pace};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::scratch::forget;
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, Series, short_or_nothing};
use crate::status;
use crate::wrk::WrkOutcome;

/// Clients that read cold files.
const READERS: usize = 64;

/// Requests a second of the bystanders, in each version of HTTP.
const BYSTANDERS: f64 = 50.0;

/// The length of the bystanders' answer.
const OK_SIZE: u64 = 2;

/// The window of each stream of the clients.
const WINDOW: u32 = 8 << 20;

/// The p99 that bystanders may have, in milliseconds.
const BYSTANDER_MS: f64 = 10.0;

/// The bystanders of one round.
struct Bystanders {
    http1: Latencies,
    http3: Latencies,
    /// Files a second that the readers got.
    files: f64,
    longest_stall_ms: Option<f64>,
    strangers: f64,
}

/// A server's name, and its figures in each round.
type Rounds<T> = Vec<(String, Vec<T>)>;

fn note<T>(rounds: &mut Rounds<T>, name: &str, figures: T) {
    match rounds.iter_mut().find(|(known, _)| known == name) {
        Some((_, list)) => list.push(figures),
        None => rounds.push((name.to_owned(), vec![figures])),
    }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(3), bench.options.seconds(5.0, 15.0).ceil());
    let disk = SlowDisk::prepare(bench)?;
    let specs = specs(bench)?;
    let (mut mixed, mut bystanders, mut notes) = (Rounds::new(), Rounds::new(), Vec::new());
    for round in 0..rounds {
        for (index, spec) in specs.iter().enumerate().filter(|(_, spec)| bench.options.wants(&spec.name)) {
            let number = 1 + 2 * (round * specs.len() + index);
            let mut failed = |error| match error {
                Error::Interrupted => Err(Error::Interrupted),
                error => {
                    notes.push(format!("{} in round {round}: {error}", spec.name));
                    Ok(())
                }
            };
            match one(bench, spec, &disk.group(number)?, &disk, seconds, &cached_over_http3) {
                Ok(figures) => note(&mut mixed, &spec.name, figures),
                Err(error) => failed(error)?,
            }
            match beside_readers(bench, spec, &disk.group(number + 1)?, &disk, seconds) {
                Ok(figures) => note(&mut bystanders, &spec.name, figures),
                Err(error) => failed(error)?,
            }
        }
    }
    let strangers = mixed.iter().flat_map(|(_, list)| list).map(|one: &MixedFigures| one.strangers);
    let strangers = strangers.chain(bystanders.iter().flat_map(|(_, list)| list).map(|one: &Bystanders| one.strangers));
    notes.extend(disturbance(&strangers.collect::<Vec<_>>()));
    let mut cached = super::table(&mixed);
    cached.title = format!(
        "{} connections of HTTP/3 ask for the cached file, {} of HTTP/1.1 for random ones",
        CONNECTIONS.1, CONNECTIONS.0
    );
    Ok(Report {
        name: "mixed-http3",
        method: format!(
            "As in `mixed`, with the cached load over HTTP/3: {}; {WORKERS} workers; {rounds} rounds of {seconds} s with a fresh server and \
             an empty page cache each. Readers: {READERS} connections of HTTP/3 ask for random files. Bystanders: `return 200`, {BYSTANDERS} \
             times a second over HTTP/1.1 and as often over HTTP/3, each at its time. Longest stall: of freerun's loops, without the \
             time for which they had no processor.",
            disk.words,
        ),
        goals: goals(&mixed, &bystanders),
        tables: vec![cached, bystander_table(&bystanders)],
        notes,
    })
}

/// Servers that speak HTTP/1.1 in the clear and HTTP/3 at the same address.
fn specs(bench: &Bench) -> Result<Vec<Spec>> {
    let files = certificates::prepare(bench, Key::EcdsaP256)?;
    let root = bench.scratch.folder("data")?;
    let lines = format!(
        "listen @ADDRESS@ quic reuseport;\nssl_certificate {};\nssl_certificate_key {};\n",
        files.certificate.display(),
        files.key.display()
    );
    let spec = |kind, variant, aio: Option<&'static str>| Spec {
        aio,
        accept_mutex: Some(false),
        max_chunk: Some("512k"),
        lines: lines.clone(),
        ..Spec::new(kind, variant, &root).workers(WORKERS)
    };
    Ok(vec![spec(Kind::Nginx, "", None), spec(Kind::Nginx, "threads", Some("threads")), spec(Kind::Freerun, "", None)])
}

fn load(server: &Server, settings: ClientSettings, connections: usize, seconds: f64) -> H3Load {
    H3Load {
        server: server.address,
        settings,
        size: FILE,
        connections,
        streams: 1,
        requests: RequestCount::Endless,
        length: Duration::from_secs_f64(seconds),
        cores: Vec::new(),
    }
}

fn cached_over_http3(_: &Bench, server: &Server, seconds: f64) -> Result<WrkOutcome> {
    load::run(&load(server, ClientSettings::new(CACHED, FILE, WINDOW)?, CONNECTIONS.1, seconds))
}

/// Measures the bystanders of clients that read cold files.
fn beside_readers(
    bench: &Bench,
    spec: &Spec,
    group: &ControlGroup,
    disk: &SlowDisk,
    seconds: f64,
) -> Result<Bystanders> {
    forget(&disk.files)?;
    let watch = Watch::start();
    let server = Server::start(bench, spec, &Placement { cores: Vec::new(), cgroups: group.entries() })?;
    warm_up(&server)?;
    let pace = Pace { path: OK_PATH.into(), rate: BYSTANDERS, length: Duration::from_secs_f64(seconds) };
    let http1 = probe::prepare(server.address, pace)?;
    let http3 = H3Probe::prepare(server.address, &ClientSettings::new(OK_PATH, OK_SIZE, WINDOW)?)?;
    let paths: Vec<String> = (0..disk.files.len() - 1).map(|index| format!("/random/{index}.bin")).collect();
    let readers = load(&server, ClientSettings::random(&paths, FILE, WINDOW)?, READERS, SETTLE + seconds + 1.0);
    let reading = std::thread::Builder::new().name("readers".into()).spawn(move || load::run(&readers));
    let reading = reading.doing("start a thread")?;
    crate::interrupt::pause(Duration::from_secs_f64(SETTLE))?;
    let (http1, http3) = (http1.start()?, http3.start(BYSTANDERS, Duration::from_secs_f64(seconds))?);
    let (http1, _) = http1.finish();
    let http3 = http3.finish()?;
    let read = reading.join().map_err(|_| Error::Failed("the readers panicked".into()))??;
    let longest_stall_ms = status::of(&server).and_then(|status| status.longest_stall_of_its_own_ms);
    bench.say(&format!("{:20} {:.1} files/s; HTTP/1.1 {http1}; HTTP/3 {http3}", spec.name, read.rate()));
    server.stop();
    Ok(Bystanders { http1, http3, files: read.rate(), longest_stall_ms, strangers: watch.strangers() })
}

fn bystander_table(rounds: &Rounds<Bystanders>) -> Table {
    let head = [
        "server",
        "files/s of the readers",
        "HTTP/1.1 p50 ms",
        "p99 ms",
        "max ms",
        "HTTP/3 p50 ms",
        "p99 ms",
        "max ms",
        "longest stall ms",
    ];
    let title = format!("bystanders of {READERS} connections of HTTP/3 that read random files");
    let mut table = Table::new(title, &head);
    for (name, list) in rounds {
        let mut row = vec![name.clone(), list.iter().map(|one| one.files).collect::<Series>().cell()];
        let versions: [fn(&Bystanders) -> &Latencies; 2] = [|one| &one.http1, |one| &one.http3];
        for latencies in versions {
            let cell = |percent| {
                let times = list.iter().filter_map(|one| latencies(one).percentile_ms(percent));
                times.collect::<Series>().cell()
            };
            row.extend([50.0, 99.0, 100.0].map(cell));
        }
        row.push(short_or_nothing(list.iter().filter_map(|one| one.longest_stall_ms).collect::<Series>().max()));
        table.row(row);
    }
    table
}

fn goals(mixed: &Rounds<MixedFigures>, bystanders: &Rounds<Bystanders>) -> Vec<Goal> {
    let kept = mixed.iter().find(|(name, _)| name == "freerun");
    let kept = kept.and_then(|(_, list)| list.iter().map(|one| one.kept() * 100.0).collect::<Series>().median());
    let own = bystanders.iter().find(|(name, _)| name == "freerun").map_or(&[][..], |(_, list)| list);
    let p99 = |latencies: fn(&Bystanders) -> &Latencies| {
        own.iter().filter_map(|one| latencies(one).percentile_ms(99.0)).collect::<Series>().median()
    };
    vec![
        Goal::at_least("freerun keeps at least 90 % of its cached rate", kept, 90.0),
        Goal::at_most("bystanders' p99 over HTTP/1.1 at most 10 ms", p99(|one| &one.http1), BYSTANDER_MS),
        Goal::at_most("bystanders' p99 over HTTP/3 at most 10 ms", p99(|one| &one.http3), BYSTANDER_MS),
    ]
}
