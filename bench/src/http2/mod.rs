//! The cost of HTTP/2: small and large responses, with many streams and with one, in the clear and over TLS.

use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::configs::OK_PATH;
use crate::error::Result;
use crate::grid::{Grid, Sample};
use crate::h2load::{H2Load, HttpVersion};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::short_or_nothing;
use crate::warm::{self, has_return};

/// A load.
struct Case {
    name: &'static str,
    path: &'static str,
    /// The size of the file.
    size: Option<u64>,
    secure: bool,
    version: HttpVersion,
    connections: usize,
    streams: usize,
}

const fn case(name: &'static str, path: &'static str, size: Option<u64>, secure: bool, streams: usize) -> Case {
    let connections = if streams == 1 { 1 } else { 8 };
    Case { name, path, size, secure, version: HttpVersion::Http2, connections, streams }
}

/// All of them. Those with one connection and one stream are compared with HTTP/1.1.
const CASES: [Case; 10] = [
    case("return 200", OK_PATH, None, false, 32),
    case("return 200, TLS", OK_PATH, None, true, 32),
    case("1 KB", "/1k.bin", Some(1_000), false, 32),
    case("1 KB, TLS", "/1k.bin", Some(1_000), true, 32),
    case("100 KB", "/100k.bin", Some(100_000), false, 8),
    case("100 KB, TLS", "/100k.bin", Some(100_000), true, 8),
    case("4 MB", "/4m.bin", Some(4_000_000), false, 4),
    case("4 MB, TLS", "/4m.bin", Some(4_000_000), true, 4),
    case(ALONE, "/1k.bin", Some(1_000), false, 1),
    Case { version: HttpVersion::Http1, ..case(ALONE_HTTP1, "/1k.bin", Some(1_000), false, 1) },
];

/// A stream at a time on one connection, and the same with HTTP/1.1.
const ALONE: &str = "1 KB, one stream at a time";
const ALONE_HTTP1: &str = "1 KB, one connection of HTTP/1.1";

/// The largest ratios of CPU times to nginx's, by case.
const CPU_GOALS: [(&str, f64); 8] = [
    ("return 200", 0.4),
    ("return 200, TLS", 0.4),
    ("1 KB", 0.4),
    ("1 KB, TLS", 0.4),
    ("100 KB", 0.8),
    ("100 KB, TLS", 0.8),
    ("4 MB", 0.9),
    ("4 MB, TLS", 0.9),
];

/// The smallest ratios of rates to nginx's, by case.
const RATE_GOALS: [(&str, f64); 2] = [("return 200", 2.5), ("1 KB", 2.5)];

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for case in CASES {
        if let Some(size) = case.size {
            bench.scratch.file(case.path.trim_start_matches('/'), size)?;
        }
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let specs = [spec(bench, Kind::Nginx)?, spec(bench, Kind::Freerun)?, spec(bench, Kind::H2o)?];
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    let loads = |server: &Server| {
        // nginx 1.22 has one protocol at an address.
        let is_had = |case: &&Case| {
            let speaks = case.version == HttpVersion::Http2 || server.spec.kind != Kind::Nginx;
            speaks && (case.size.is_some() || has_return(server.spec.kind))
        };
        let all = CASES.iter().filter(is_had);
        all.map(|case| (case.name.to_owned(), load(case, seconds, &client_cores))).collect()
    };
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
    let mut report = Report {
        name: "http2",
        method: format!(
            "Files in the page cache, one worker pinned to one core, h2load with one thread pinned to the other; TLS 1.3 with ECDSA \
             P-256; {rounds} rounds of {seconds} s each, servers in turn; median (min–max), ratios are medians of each round's."
        ),
        notes,
        ..Report::default()
    };
    for case in CASES {
        let title = format!("{}: {} connections, {} streams each", case.name, case.connections, case.streams);
        report.tables.push(table(&grid, &servers, case.name, &title));
    }
    report.goals = goals(&grid);
    Ok(report)
}

/// A server that speaks HTTP/2 at both of its addresses.
fn spec(bench: &Bench, kind: Kind) -> Result<Spec> {
    let root = bench.scratch.folder("data")?;
    let secure = vec![certificates::prepare(bench, Key::EcdsaP256)?];
    Ok(Spec { secure, http2: true, ..Spec::new(kind, "", &root) })
}

fn load(case: &Case, seconds: f64, cores: &[usize]) -> H2Load {
    H2Load {
        requests: None,
        arguments: Vec::new(),
        version: case.version,
        secure: case.secure,
        path: case.path.to_owned(),
        connections: case.connections,
        streams: case.streams,
        seconds,
        cores: cores.to_vec(),
    }
}

fn table(grid: &Grid, servers: &[Server], case: &str, title: &str) -> Table {
    let head = ["server", "CPU µs/request", "× nginx", "requests/s", "× nginx", "mean ms"];
    let mut table = Table::new(title, &head);
    for name in warm::names(grid, servers, case) {
        table.row(vec![
            name.to_owned(),
            grid.series(name, case, cpu).cell(),
            grid.ratio_cell(name, "nginx", case, cpu),
            grid.series(name, case, rate).cell(),
            grid.ratio_cell(name, "nginx", case, rate),
            grid.series(name, case, |sample| sample.outcome.mean_ms).cell(),
        ]);
    }
    table
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

fn rate(sample: &Sample) -> f64 {
    sample.outcome.rate()
}

fn goals(grid: &Grid) -> Vec<Goal> {
    let cpu = CPU_GOALS.map(|(case, limit)| {
        let text = format!("{case}: CPU per request at most {limit} times that of nginx");
        Goal::at_most(text, grid.ratio("freerun", "nginx", case, cpu), limit)
    });
    let rates = RATE_GOALS.map(|(case, limit)| {
        let text = format!("{case}: requests a second at least {limit} times those of nginx");
        Goal::at_least(text, grid.ratio("freerun", "nginx", case, rate), limit)
    });
    let alone = |case| grid.series("freerun", case, rate).median();
    let ratio = alone(ALONE).zip(alone(ALONE_HTTP1)).map(|(http2, http1)| http2 / http1);
    let text = format!("{ALONE}: as many requests a second as HTTP/1.1 ({})", short_or_nothing(alone(ALONE_HTTP1)));
    cpu.into_iter().chain(rates).chain([Goal::at_least(text, ratio, 1.0)]).collect()
}
