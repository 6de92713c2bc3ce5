//! Cost with growth: processor time of a request, and memory, with few and with many servers, locations, upstream
//! servers, cache objects, connections, certificates and zones.

mod dimension;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::dimension::Dimension;
use crate::bench::Bench;
use crate::canned::{self, Pieces};
use crate::client::Client;
use crate::connections::{open, settled};
use crate::error::{Error, ErrorContext, Result};
use crate::grid::{Work, measure};
use crate::interrupt::check;
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Series, short_or_nothing};
use crate::tls::client::{self, SessionUse, TlsVersion};
use crate::tls::handshakes::{self, HandshakeLoad, LoadEnd};
use crate::wrk::{Target, WrkLoad, WrkOutcome};

/// Bytes of an answer of the server behind.
const ANSWER: usize = 1_000;

/// Connections that ask.
const CONNECTIONS: usize = 32;

/// The time that one answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The time until the first answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The factor of noise: a cost may be measured larger by it than it is.
const NOISE: f64 = 1.05;

/// The measurements with one number.
#[derive(Debug, Clone, Default)]
struct Cost {
    count: usize,
    /// Processor time of a request, microseconds.
    cpu_us: Series,
    /// Proportional memory of all processes, bytes.
    memory: Series,
    /// Seconds until it answers.
    start: Series,
}

/// A load that grows with nothing.
enum GrowthLoad {
    Requests(WrkLoad),
    Handshakes(HandshakeLoad),
}

impl Work for GrowthLoad {
    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome> {
        match self {
            GrowthLoad::Requests(load) => load.run(bench, server),
            GrowthLoad::Handshakes(load) => {
                let found = handshakes::run(load)?;
                match found.complaint {
                    Some(complaint) if found.done == 0 => Err(Error::Failed(complaint)),
                    _ => Ok(WrkOutcome {
                        requests: found.done as f64,
                        seconds: found.time.as_secs_f64(),
                        errors: found.failed as f64,
                        ..WrkOutcome::default()
                    }),
                }
            }
        }
    }
}

/// The surroundings that all measurements have.
struct GrowthSetup {
    root: PathBuf,
    certificates: PathBuf,
    upstream: u16,
    seconds: f64,
    server_cores: Vec<usize>,
    client_cores: Vec<usize>,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(1), bench.options.seconds(1.0, 3.0).ceil());
    bench.scratch.file("1k.bin", 1_000)?;
    let (server_cores, client_cores) = bench.machine.pair();
    let upstream = on_cores(&client_cores, || canned::start_everywhere(ANSWER, Pieces::One))??;
    let root = bench.scratch.folder("data")?;
    let certificates = bench.scratch.folder("certificates")?;
    let place = GrowthSetup { root, certificates, upstream, seconds, server_cores, client_cores };
    let mut report = Report {
        name: "growth",
        method: format!(
            "For each number a fresh server with one worker on one core, wrk on the other with {CONNECTIONS} connections for {seconds} s; \
             each request is for a random one of the servers, locations, cache objects or zones. Certificates: full handshakes with \
             ECDSA P-256 and the name of one of them. Upstream servers: each at an address of its own, round robin, with `keepalive 64`. {rounds} round(s). CPU time of \
             a request or handshake; proportional memory (PSS) of all processes before the load, with idle connections and after filling \
             the cache. The last table has the growth from the smallest number to the largest, and the memory that each one more takes."
        ),
        ..Report::default()
    };
    let head =
        ["what", "count", "nginx µs", "freerun µs", "nginx MB", "freerun MB", "nginx start s", "freerun start s"];
    let mut all = Table::new("With so many", &head);
    let head = ["what", "from–to", "nginx CPU ×", "freerun CPU ×", "nginx bytes each", "freerun bytes each"];
    let mut slopes = Table::new("Growth", &head);
    for dimension in Dimension::ALL {
        let mut costs: [Vec<Cost>; 2] = [Vec::new(), Vec::new()];
        for count in dimension.counts(bench.options.quick) {
            for (kind, costs) in [Kind::Nginx, Kind::Freerun].into_iter().zip(&mut costs) {
                let mut cost = Cost { count: *count, ..Cost::default() };
                for _ in 0..rounds {
                    match place.cost(bench, dimension, *count, kind, &mut cost) {
                        Err(Error::Interrupted) => return Err(Error::Interrupted),
                        Err(error) => {
                            let note = format!("{}, {count} {}: {error}", kind.name(), dimension.name());
                            bench.say(&note);
                            report.notes.push(note);
                        }
                        Ok(()) => {}
                    }
                }
                costs.push(cost);
            }
        }
        let [nginx, freerun] = &costs;
        for (nginx, freerun) in nginx.iter().zip(freerun) {
            let cells = |figure: fn(&Cost) -> Option<f64>| [figure(nginx), figure(freerun)].map(short_or_nothing);
            let mut row = vec![dimension.name().to_owned(), nginx.count.to_string()];
            row.extend(cells(|cost| cost.cpu_us.median()));
            row.extend(cells(|cost| cost.memory.median().map(|bytes| bytes / 1e6)));
            row.extend(cells(|cost| cost.start.median()));
            all.row(row);
        }
        slope(dimension, nginx, freerun, &mut slopes, &mut report);
    }
    report.tables = vec![all, slopes];
    Ok(report)
}

/// Adds the growth from the smallest number to the largest.
fn slope(dimension: Dimension, nginx: &[Cost], freerun: &[Cost], table: &mut Table, report: &mut Report) {
    let ends = |costs: &[Cost]| Some((costs.first()?.clone(), costs.last()?.clone()));
    let cpu = |costs: &[Cost]| {
        let (first, last) = ends(costs)?;
        Some(last.cpu_us.median()? / first.cpu_us.median()?)
    };
    let bytes = |costs: &[Cost]| {
        let (first, last) = ends(costs)?;
        Some((last.memory.median()? - first.memory.median()?) / (last.count - first.count).max(1) as f64)
    };
    let range = ends(nginx).map_or_else(String::new, |(first, last)| format!("{}–{}", first.count, last.count));
    table.row(vec![
        dimension.name().to_owned(),
        range,
        short_or_nothing(cpu(nginx)),
        short_or_nothing(cpu(freerun)),
        short_or_nothing(bytes(nginx)),
        short_or_nothing(bytes(freerun)),
    ]);
    let part = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let name = dimension.name();
    let text = format!("{name}: CPU time grows by at most nginx's factor (and {NOISE} for noise)");
    report.goals.push(Goal::at_most(text, part(cpu(freerun), cpu(nginx)), NOISE));
    let text = format!("{name}: each takes at most as much memory as with nginx");
    report.goals.push(Goal::at_most(text, part(bytes(freerun), bytes(nginx)), NOISE));
}

impl GrowthSetup {
    /// Measures a server with `count` of a dimension.
    fn cost(&self, bench: &Bench, dimension: Dimension, count: usize, kind: Kind, cost: &mut Cost) -> Result<()> {
        if dimension == Dimension::Certificates {
            dimension::certificates(&self.certificates, count)?;
        }
        let text = dimension.configuration(count, &self.root, &self.certificates, self.upstream);
        let spec = Spec { whole: Some(text), ..Spec::new(kind, "growth", &self.root) };
        let began = Instant::now();
        let server = Server::start(bench, &spec, &Placement { cores: self.server_cores.clone(), cgroups: Vec::new() })?;
        answers(server.address)?;
        cost.start.push(began.elapsed().as_secs_f64());
        let mut idle = Vec::new();
        match dimension {
            Dimension::CacheObjects => fill(server.address, count)?,
            Dimension::Connections => idle = open(&server, count)?,
            _ => {}
        }
        let memory = settled(&server)?.pss as f64;
        cost.memory.push(memory);
        let sample = measure(bench, &server, &self.load(dimension, count, &server)?)?;
        cost.cpu_us.push(sample.cpu_us);
        bench.say(&format!(
            "{:8} {count:6} {:20} {:8.2} µs, {:8.1} MB, {} errors",
            kind.name(),
            dimension.name(),
            sample.cpu_us,
            memory / 1e6,
            sample.outcome.errors
        ));
        drop(idle);
        server.stop();
        Ok(())
    }

    fn load(&self, dimension: Dimension, count: usize, server: &Server) -> Result<GrowthLoad> {
        let (seconds, cores) = (self.seconds, self.client_cores.clone());
        if dimension == Dimension::Certificates {
            return Ok(GrowthLoad::Handshakes(HandshakeLoad {
                server: server.address,
                tls: client::settings(TlsVersion::Tls13, SessionUse::Never)?,
                path: "/".to_owned(),
                at_a_time: CONNECTIONS,
                until: LoadEnd::Time(Duration::from_secs_f64(seconds)),
                threads: 1,
                cores,
            }));
        }
        let (path, host) = dimension.request();
        let target = Target::Numbered { path, host, count };
        Ok(GrowthLoad::Requests(WrkLoad { threads: 1, connections: CONNECTIONS, seconds, target, close: false, cores }))
    }
}

/// Waits until the server answers something: it may listen before it has built its configuration.
fn answers(server: SocketAddr) -> Result<()> {
    let mut client = Client::connect(server, None, START_LIMIT).doing("connect")?;
    client.get("/").doing("wait for the first answer")?;
    Ok(())
}

/// Requests every object of the cache once.
fn fill(server: SocketAddr, count: usize) -> Result<()> {
    let mut client = Client::connect(server, None, LIMIT).doing("connect")?;
    for n in 0..count {
        check()?;
        let reply = client.get(&format!("/c{n}")).doing("fill the cache")?;
        if reply.status != 200 {
            return Err(Error::Failed(format!("answered {} while the cache is filled", reply.status)));
        }
    }
    Ok(())
}
