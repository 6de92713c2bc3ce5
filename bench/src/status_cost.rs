//! The cost of being watched: zones that count, a page and an exporter that ask, and long answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::Bench;
use crate::client::Client;
use crate::configs::{OK_PATH, STATUS_PATH};
use crate::error::{Doing, Error, Result};
use crate::grid::{Grid, Sample, Work};
use crate::interrupt;
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, short_or_nothing};
use crate::status;
use crate::wrk::{self, Load, Outcome};

/// Without zones and with nobody who watches: what the others are compared with.
const ALONE: &str = "alone";
/// With a zone for the server.
const ZONE: &str = "status_zone";
/// With the zone, and watched.
const WATCHED: &str = "watched";

const CASE: &str = "return 200";

/// The paths that a dashboard for the API requests, each second.
const API: [&str; 14] = [
    "nginx",
    "processes",
    "connections",
    "slabs/",
    "ssl",
    "workers/",
    "resolvers/",
    "http/requests",
    "http/server_zones/",
    "http/location_zones/",
    "http/caches/",
    "http/limit_conns/",
    "http/limit_reqs/",
    "http/upstreams/",
];

/// The path of the API's objects.
const API_PATH: &str = "/api/9/";
/// The location for it.
const API_LOCATION: &str = "location /api/ { api; }\n";

/// The page of `status` and dashboards ask this often.
const PAGE: Duration = Duration::from_secs(1);

/// Prometheus asks after as many of these.
const SCRAPE: usize = 5;

/// The zones of the long answers.
const ZONES: usize = 3_000;

/// The time that one answer may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(9), bench.options.seconds(1.0, 6.0).ceil());
    let asks = if bench.options.quick { 3 } else { 40 };
    let root = bench.scratch.folder("data")?;
    let spec =
        |variant: &str, zone: &str| Spec::new(Kind::Freerun, variant, &root).lines("", format!("{zone}{API_LOCATION}"));
    let zone = "status_zone main;\n";
    let specs = [spec(ALONE, ""), spec(ZONE, zone), spec(WATCHED, zone)];
    let (server_cores, client_cores) = bench.machine.pair();
    let (servers, mut notes) = start_all(bench, &specs, &Placement { cores: server_cores, cgroups: Vec::new() })?;
    let load = Load::kept(OK_PATH, seconds, client_cores);
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, |server| {
        vec![(CASE.to_owned(), Watched { load: load.clone(), is_watched: server.spec.name.ends_with(WATCHED) })]
    })?;
    drop(servers);
    let long = long_answers(bench, &root, asks)?;
    let mut report = Report {
        name: "status-cost",
        method: format!(
            "`return 200 \"OK\"`, 32 keep-alive connections, one worker pinned to one core, wrk and those who watch to the other; \
             {rounds} rounds of {seconds} s each, servers in turn; ratios are medians of each round's. \"{WATCHED}\": each second the \
             JSON of `status`, as its page asks for it, and {} objects of `api`, as dashboards do, and every {SCRAPE} s the text for \
             Prometheus; CPU time is all that the server has used, divided by wrk's requests. Then a server with {ZONES} zones, each \
             of which has counted a request: {asks} answers of each kind, one after the other, while another connection asks for \
             `return 200` without a pause. No processor is pinned.",
            API.len()
        ),
        notes,
        ..Report::default()
    };
    let mut table = Table::new("", &["server", "CPU µs/request", "× alone", "requests/s", "p99 ms"]);
    for spec in specs.iter().filter(|spec| grid.has(&spec.name, CASE)) {
        table.row(vec![
            spec.name.clone(),
            grid.series(&spec.name, CASE, cpu).cell(),
            grid.ratio_cell(&spec.name, &specs[0].name, CASE, cpu),
            grid.series(&spec.name, CASE, |sample| sample.outcome.rate()).cell(),
            grid.series(&spec.name, CASE, |sample| sample.outcome.p99_ms).cell(),
        ]);
    }
    report.tables.push(table);
    let ratio = |spec: &Spec| grid.ratio(&spec.name, &specs[0].name, CASE, cpu);
    report.goals = vec![
        Goal::at_most("a zone costs at most 2 % CPU time a request", ratio(&specs[1]), 1.02),
        Goal::at_most(
            "a zone, a page and an exporter that ask cost at most 2 % CPU time a request",
            ratio(&specs[2]),
            1.02,
        ),
    ];
    let head = ["answer", "KB", "ms (p50 / p99 / max)"];
    let mut table = Table::new(format!("{ZONES} zones"), &head);
    for (name, size, times) in &long.answers {
        let times = [50.0, 99.0, 100.0].map(|percent| short_or_nothing(times.percentile_ms(percent)));
        table.row(vec![(*name).to_owned(), (size / 1000).to_string(), times.join(" / ")]);
    }
    let others = [50.0, 99.0, 100.0].map(|percent| short_or_nothing(long.meanwhile.percentile_ms(percent)));
    table.row(vec!["`return 200` meanwhile".to_owned(), String::new(), others.join(" / ")]);
    report.tables.push(table);
    let medians = long.answers.iter().map(|(_, _, times)| times.percentile_ms(50.0));
    let slowest = medians.collect::<Option<Vec<f64>>>().and_then(|all| all.into_iter().max_by(f64::total_cmp));
    report.goals.extend([
        Goal::at_most(format!("{ZONES} zones are told within 50 ms (the slowest median)"), slowest, 50.0),
        Goal::at_least("each of these answers was made by the pool", Some(long.by_pool), 1.0),
        Goal::at_most("no turn of a loop took more than 10 ms of its own", Some(long.longest_turn_ms), 10.0),
    ]);
    Ok(report)
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

/// A load, with or without those who watch.
struct Watched {
    load: Load,
    is_watched: bool,
}

impl Work for Watched {
    fn run(&self, bench: &Bench, server: &Server) -> Result<Outcome> {
        let stop = Arc::new(AtomicBool::new(false));
        let watching = self.is_watched.then(|| {
            let (address, stop) = (server.address, stop.clone());
            on_cores(&self.load.cores, || thread::spawn(move || watch(address, &stop)))
        });
        let outcome = wrk::run(bench.wrk()?, &bench.scratch.folder("servers")?, server.address, &self.load);
        stop.store(true, Relaxed);
        if let Some(watching) = watching.transpose()? {
            let asked = watching.join().map_err(|_| Error::Failed("who watches has panicked".into()))?;
            asked.doing("watch the server")?;
        }
        outcome
    }
}

/// Asks as a page, a dashboard and Prometheus do, until it is stopped.
fn watch(server: SocketAddr, stop: &AtomicBool) -> std::io::Result<()> {
    let mut client = Client::connect(server, None, LIMIT)?;
    let mut ask = |path: &str| match client.get(path) {
        Ok(reply) if reply.status == 200 => Ok(()),
        Ok(reply) => Err(std::io::Error::other(format!("{path} is answered with {}", reply.status))),
        Err(error) => Err(error),
    };
    let begin = Instant::now();
    for turn in 0.. {
        ask(&format!("{STATUS_PATH}?format=json"))?;
        for object in API {
            ask(&format!("{API_PATH}{object}"))?;
        }
        if turn % SCRAPE == 0 {
            ask(&format!("{STATUS_PATH}?format=prometheus"))?;
        }
        let next = begin + PAGE * (turn as u32 + 1);
        while Instant::now() < next {
            if stop.load(Relaxed) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// The figures of the server with many zones.
struct Long {
    /// Of each kind: its name, bytes, times.
    answers: Vec<(&'static str, usize, Latencies)>,
    /// Of requests for something short.
    meanwhile: Latencies,
    /// Which part of the answers the pool for such work has made.
    by_pool: f64,
    /// The longest turn of a loop over 10 ms, without the time for which its thread had no processor.
    longest_turn_ms: f64,
}

fn long_answers(bench: &Bench, root: &std::path::Path, asks: usize) -> Result<Long> {
    let zones: String =
        (0..ZONES).map(|n| format!("location = /{n} {{ status_zone zone-{n}; return 200 yes; }}\n")).collect();
    let spec = Spec::new(Kind::Freerun, "zones", root).lines("", format!("{API_LOCATION}{zones}"));
    let server = Server::start(bench, &spec, &Placement::default())?;
    let mut client = Client::connect(server.address, None, LIMIT).doing("connect")?;
    for number in 0..ZONES {
        let reply = client.get(&format!("/{number}")).doing("ask")?;
        if reply.status != 200 {
            return Err(Error::Failed(format!("a zone is answered with {}", reply.status)));
        }
    }
    let before = by_pool(&mut client)?;
    let stop = Arc::new(AtomicBool::new(false));
    let meanwhile = {
        let (address, stop) = (server.address, stop.clone());
        thread::spawn(move || short_ones(address, &stop))
    };
    let kinds = [
        ("`status` as JSON", format!("{STATUS_PATH}?format=json")),
        ("`status` for Prometheus", format!("{STATUS_PATH}?format=prometheus")),
        ("`api`, all zones", format!("{API_PATH}http/location_zones/")),
        ("`api`, one field of each", format!("{API_PATH}http/location_zones/?fields=requests")),
    ];
    let mut answers = Vec::new();
    for (name, path) in &kinds {
        let (mut times, mut size) = (Vec::new(), 0);
        for _ in 0..asks {
            interrupt::check()?;
            let begin = Instant::now();
            let reply = client.get(path).doing(path)?;
            times.push(begin.elapsed());
            if reply.status != 200 || reply.body.len() < ZONES {
                return Err(Error::Failed(format!(
                    "{path} is answered with {}, {} bytes",
                    reply.status,
                    reply.body.len()
                )));
            }
            size = reply.body.len();
        }
        answers.push((*name, size, Latencies::new(times)));
    }
    stop.store(true, Relaxed);
    let meanwhile = meanwhile.join().map_err(|_| Error::Failed("a client has panicked".into()))?.doing("ask")?;
    // The pool also answers this question.
    let made = by_pool(&mut client)? - before - 1.0;
    let longest = status::of(&server).and_then(|status| status.longest_stall_of_its_own_ms);
    server.stop();
    let by_pool = made / (kinds.len() * asks) as f64;
    Ok(Long { answers, meanwhile, by_pool, longest_turn_ms: longest.unwrap_or(f64::INFINITY) })
}

/// The number of tasks that the pool for work with a processor has done.
fn by_pool(client: &mut Client) -> Result<f64> {
    let reply = client.get(&format!("{STATUS_PATH}?format=json")).doing("ask")?;
    let status: Value =
        serde_json::from_slice(&reply.body).map_err(|error| Error::Failed(format!("status: {error}")))?;
    let mut pools = status["pools"].as_array().into_iter().flatten();
    let served = pools.find(|pool| pool["name"] == "(cpu)").and_then(|pool| pool["served"].as_f64());
    served.ok_or_else(|| Error::Failed("status has no pool (cpu)".into()))
}

/// Asks for something short until it is stopped. Returns the time of each answer.
fn short_ones(server: SocketAddr, stop: &AtomicBool) -> std::io::Result<Latencies> {
    let mut client = Client::connect(server, None, LIMIT)?;
    let mut times = Vec::new();
    while !stop.load(Relaxed) {
        let begin = Instant::now();
        client.get(OK_PATH)?;
        times.push(begin.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    Ok(Latencies::new(times))
}
