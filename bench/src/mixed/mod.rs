//! The seed's benchmark, "Boosting NGINX Performance 9x with Thread Pools": clients that ask for one cached file while
//! others keep a slow disk busy.

pub mod http3;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::cgroup::{ControlGroup, Disk, Limits};
use crate::client::Client;
use crate::configs::OK_PATH;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::disturbance;
use crate::probe::{self, Pace};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::scratch::forget;
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, Series, short_or_nothing};
use crate::status::{self, Status};
use crate::wrk::{self, Target, Wrk, WrkLoad, WrkOutcome};

/// Bytes of each file.
const FILE: u64 = 4_000_000;
/// The data set in memory limits.
const TIMES: u64 = 5;
/// Connections that ask for random files, and for the cached one.
const CONNECTIONS: (usize, usize) = (200, 50);
/// The number of workers of each server.
const WORKERS: usize = 2;
/// The cached file.
const CACHED: &str = "/cached.bin";
/// Uninvolved `return 200` requests a second while both loads run.
const PROBE_RATE: f64 = 20.0;
/// Seconds for which both loads run before the measurement.
const SETTLE: f64 = 4.0;
/// Requests a second that a rate of none counts as in a ratio.
const NONE: f64 = 0.1;
/// The longest stall that is allowed, in milliseconds.
const STALL_MS: f64 = 50.0;

/// The figures of one server in one round.
struct MixedFigures {
    alone: WrkOutcome,
    mixed: WrkOutcome,
    /// Bytes a second read from the disk.
    bytes: f64,
    /// Operations a second on the disk.
    ios: f64,
    /// Part of the disk's limit that was used: of the bytes or of the operations, whichever is more.
    disk: f64,
    probe: Latencies,
    status: Option<Status>,
    /// Part of the machine that other processes used, in percent.
    strangers: f64,
}

impl MixedFigures {
    fn kept(&self) -> f64 {
        self.mixed.rate() / self.alone.rate()
    }
}

/// The disk with its files, and what a server may have of it.
struct SlowDisk {
    limits: Limits,
    disk: Disk,
    /// The random files, and then the cached one.
    files: Vec<PathBuf>,
    /// The files and the limits in words.
    words: String,
}

impl SlowDisk {
    fn prepare(bench: &Bench) -> Result<SlowDisk> {
        let memory = if bench.options.quick { 200_000_000 } else { 400_000_000 };
        let limits = Limits { memory, read_bytes: 100_000_000, read_ios: 400 };
        let disk = Disk::of(bench.scratch.path())?;
        // Fails early, before the data is made, where cgroups cannot be used.
        let version = ControlGroup::create(&group_name(0), &limits, disk)?.describe();
        let count = usize::try_from(memory * TIMES / FILE).unwrap_or(0);
        bench.say(&format!("{count} files of {} MB in {}", FILE / 1_000_000, bench.scratch.path().display()));
        let mut files: Vec<PathBuf> =
            (0..count).map(|index| bench.scratch.file(&format!("random/{index}.bin"), FILE)).collect::<Result<_>>()?;
        files.push(bench.scratch.file(CACHED.trim_start_matches('/'), FILE)?);
        let words = format!(
            "{count} files of 4 MB; {version}: {} MB of memory for the server and its page cache, disk {disk} limited to {} MB/s and {} \
             reads/s",
            memory / 1_000_000,
            limits.read_bytes / 1_000_000,
            limits.read_ios,
        );
        Ok(SlowDisk { limits, disk, files, words })
    }

    /// A group of processes with these limits; its number is not used again.
    fn group(&self, number: usize) -> Result<ControlGroup> {
        ControlGroup::create(&group_name(number), &self.limits, self.disk)
    }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(3), bench.options.seconds(5.0, 15.0).ceil());
    let disk = SlowDisk::prepare(bench)?;
    let specs = specs(bench)?;
    let mut shown: Vec<(String, Vec<MixedFigures>)> = Vec::new();
    let mut notes = Vec::new();
    for round in 0..rounds {
        for (index, spec) in specs.iter().enumerate().filter(|(_, spec)| bench.options.wants(&spec.name)) {
            let group = disk.group(1 + round * specs.len() + index)?;
            match one(bench, spec, &group, &disk, seconds, &cached_over_http1) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => notes.push(format!("{} not measured in round {round}: {error}", spec.name)),
                Ok(one) => match shown.iter_mut().find(|(name, _)| *name == spec.name) {
                    Some((_, list)) => list.push(one),
                    None => shown.push((spec.name.clone(), vec![one])),
                },
            }
        }
    }
    let strangers: Vec<f64> = shown.iter().flat_map(|(_, list)| list).map(|one| one.strangers).collect();
    notes.extend(disturbance(&strangers));
    for (name, list) in &shown {
        let mounts =
            list.last().and_then(|one| one.status.as_ref()).map(|status| status.mounts.clone()).unwrap_or_default();
        notes.extend(mounts.iter().map(|mount| format!("{name}, last round: {mount}")));
    }
    Ok(Report {
        name: "mixed",
        method: format!(
            "{}; {} workers; {} wrk connections ask for random files, {} for one cached file; {rounds} rounds of {seconds} s with \
             a fresh server and an empty page cache each. \"Alone\" is the cached load without the random one. Latencies are wrk's, of \
             answers that came. Uninvolved: `return 200`, {PROBE_RATE} times a second, each at its time, whether the former were answered or not.",
            disk.words, WORKERS, CONNECTIONS.0, CONNECTIONS.1,
        ),
        tables: vec![table(&shown)],
        goals: goals(&shown),
        notes,
    })
}

fn group_name(index: usize) -> String {
    format!("freerun-bench-{}-{index}", std::process::id())
}

/// The servers, each with and without a pool.
fn specs(bench: &Bench) -> Result<Vec<Spec>> {
    let root = bench.scratch.folder("data")?;
    let spec = |kind, variant, aio: Option<&'static str>| Spec {
        aio,
        accept_mutex: Some(false),
        max_chunk: Some("512k"),
        ..Spec::new(kind, variant, &root).workers(WORKERS)
    };
    Ok(vec![
        spec(Kind::Nginx, "", None),
        spec(Kind::Nginx, "threads", Some("threads")),
        spec(Kind::Freerun, "", None),
        spec(Kind::Freerun, "always", Some("threads always")),
        spec(Kind::Freerun, "off", Some("off")),
    ])
}

fn load(connections: usize, seconds: f64, target: Target) -> WrkLoad {
    WrkLoad { threads: 1, connections, seconds, target, close: false, cores: Vec::new() }
}

/// The load of the cached file, for a number of seconds.
type CachedLoad = dyn Fn(&Bench, &Server, f64) -> Result<WrkOutcome>;

fn cached_over_http1(bench: &Bench, server: &Server, seconds: f64) -> Result<WrkOutcome> {
    let load = load(CONNECTIONS.1, seconds, Target::Path(CACHED.into()));
    wrk::run(bench.wrk()?, &bench.scratch.folder("servers")?, server.address, &load)
}

/// Asks for the cached file until it is in the cache.
fn warm_up(server: &Server) -> Result<()> {
    for _ in 0..2 {
        let reply =
            Client::connect(server.address, None, Duration::from_secs(30)).and_then(|mut client| client.get(CACHED));
        let reply = reply.doing("ask for the cached file")?;
        if reply.status != 200 || reply.body.len() as u64 != FILE {
            return Err(Error::Failed(format!("the cached file was answered with {}", reply.status)));
        }
    }
    Ok(())
}

/// Measures a server: the cached load alone, and then beside the random one.
fn one(
    bench: &Bench,
    spec: &Spec,
    group: &ControlGroup,
    disk: &SlowDisk,
    seconds: f64,
    cached: &CachedLoad,
) -> Result<MixedFigures> {
    let SlowDisk { limits, files, .. } = disk;
    forget(files)?;
    let watch = Watch::start();
    let placement = Placement { cores: Vec::new(), cgroups: group.entries() };
    let server = Server::start(bench, spec, &placement)?;
    let folder = bench.scratch.folder("servers")?;
    let wrk = bench.wrk()?;
    warm_up(&server)?;
    let alone = cached(bench, &server, (seconds / 2.0).ceil())?;

    let pace = Pace { path: OK_PATH.into(), rate: PROBE_RATE, length: Duration::from_secs_f64(seconds) };
    let probe = probe::prepare(server.address, pace)?;
    let random = Target::Random(files.len() - 1);
    let busy = Wrk::start(wrk, &folder, server.address, &load(CONNECTIONS.0, SETTLE + seconds + 5.0, random))?;
    // The cached load goes on meanwhile: a file that nobody asks for would leave the cache.
    cached(bench, &server, SETTLE)?;
    let (start, before) = (Instant::now(), group.io()?);
    let probe = probe.start()?;
    let mixed = cached(bench, &server, seconds);
    let (after, passed) = (group.io()?, start.elapsed().as_secs_f64());
    let (probe, _) = probe.finish();
    drop(busy);
    let mixed = mixed?;
    let bytes = (after.bytes - before.bytes) as f64 / passed;
    let ios = (after.ios - before.ios) as f64 / passed;
    let status = status::of(&server);
    bench.say(&format!(
        "{:20} alone {:.0}/s, with the disk busy {:.0}/s; disk {:.0} MB/s, {ios:.0} reads/s; return 200 {probe}",
        spec.name,
        alone.rate(),
        mixed.rate(),
        bytes / 1e6,
    ));
    server.stop();
    let disk = (bytes / limits.read_bytes as f64).max(ios / limits.read_ios as f64);
    Ok(MixedFigures { alone, mixed, bytes, ios, disk, probe, status, strangers: watch.strangers() })
}

fn table(shown: &[(String, Vec<MixedFigures>)]) -> Table {
    let head = [
        "server",
        "alone requests/s",
        "with the disk busy",
        "kept %",
        "p50 ms",
        "p99 ms",
        "disk MB/s",
        "disk reads/s",
        "disk, % of its limit",
        "uninvolved p99 ms",
        "uninvolved max ms",
        "stalls",
        "longest poll ms",
    ];
    let mut table = Table::new("", &head);
    for (name, list) in shown {
        let series = |figure: &dyn Fn(&MixedFigures) -> f64| list.iter().map(figure).collect::<Series>();
        let maybe = |figure: &dyn Fn(&MixedFigures) -> Option<f64>| list.iter().filter_map(figure).collect::<Series>();
        // A round without an answer has no latency.
        let latency = |figure: &dyn Fn(&WrkOutcome) -> f64| {
            maybe(&|shown| (shown.mixed.requests > 0.0).then(|| figure(&shown.mixed))).cell()
        };
        let own = |figure: &dyn Fn(&Status) -> Option<f64>| {
            short_or_nothing(maybe(&|shown| figure(shown.status.as_ref()?)).max())
        };
        table.row(vec![
            name.clone(),
            series(&|shown| shown.alone.rate()).cell(),
            series(&|shown| shown.mixed.rate()).cell(),
            series(&|shown| shown.kept() * 100.0).cell(),
            latency(&|mixed| mixed.p50_ms),
            latency(&|mixed| mixed.p99_ms),
            series(&|shown| shown.bytes / 1e6).cell(),
            series(&|shown| shown.ios).cell(),
            series(&|shown| shown.disk * 100.0).cell(),
            maybe(&|shown| shown.probe.percentile_ms(99.0)).cell(),
            maybe(&|shown| shown.probe.percentile_ms(100.0)).cell(),
            own(&|status| status.stalls.map(|count| count as f64)),
            own(&|status| status.longest_poll_ms),
        ]);
    }
    table
}

fn goals(shown: &[(String, Vec<MixedFigures>)]) -> Vec<Goal> {
    let list = |wanted: &str| {
        shown.iter().find(|(name, _)| name == wanted).map(|(_, list)| list.as_slice()).unwrap_or_default()
    };
    let median =
        |name: &str, figure: &dyn Fn(&MixedFigures) -> f64| list(name).iter().map(figure).collect::<Series>().median();
    let rate = |name| median(name, &|shown| shown.mixed.rate());
    let times = rate("freerun").zip(rate("nginx threads")).map(|(own, other)| own / other.max(NONE));
    let longest = list("freerun").iter().filter_map(|shown| shown.status.as_ref()?.longest_poll_ms).collect::<Series>();
    vec![
        Goal::at_least(
            "freerun keeps at least 75 % of its cached rate",
            median("freerun", &|shown| shown.kept() * 100.0),
            75.0,
        ),
        Goal::at_least("at least 20 times the cached rate of nginx with `aio threads`", times, 20.0),
        Goal::at_least(
            "the disk stays at 90 % of its limit or more",
            median("freerun", &|shown| shown.disk * 100.0),
            90.0,
        ),
        Goal::at_most("no stall over 50 ms (longest poll)", longest.max(), STALL_MS),
    ]
}
