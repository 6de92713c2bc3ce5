//! Files in memory, keep-alive, one core for the server and one for the client: what does a request cost?

use crate::bench::Bench;
use crate::configs::OK_PATH;
use crate::error::Result;
use crate::grid::{Grid, Sample};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::wrk::{Target, WrkLoad};

/// Name of a case, its path, the file's size (none: no file), wrk's connections.
const CASES: [(&str, &str, Option<u64>, usize); 4] = [
    ("return 200", OK_PATH, None, 32),
    ("1 KB", "/1k.bin", Some(1_000), 32),
    ("100 KB", "/100k.bin", Some(100_000), 16),
    ("4 MB", "/4m.bin", Some(4_000_000), 8),
];

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (_, path, size, _) in CASES {
        if let Some(size) = size {
            bench.scratch.file(path.trim_start_matches('/'), size)?;
        }
    }
    let root = bench.scratch.folder("data")?;
    let specs = [
        Spec::new(Kind::Nginx, "", &root),
        Spec::new(Kind::Nginx, "threads", &root).aio("threads"),
        Spec::new(Kind::Freerun, "", &root),
        Spec::new(Kind::H2o, "", &root),
        Spec::new(Kind::Lighttpd, "", &root),
    ];
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    let loads = |server: &Server| {
        let answers = CASES.iter().filter(|(_, _, size, _)| size.is_some() || has_return(server.spec.kind));
        answers
            .map(|(case, path, _, connections)| ((*case).to_owned(), load(path, *connections, seconds, &client_cores)))
            .collect()
    };
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
    let mut report = Report {
        name: "warm",
        method: format!(
            "Files in the page cache, keep-alive, one worker pinned to one core, wrk with one thread pinned to the other; \
             {rounds} rounds of {seconds} s each, servers in turn; median (min–max), ratios are medians of each round's."
        ),
        notes,
        ..Report::default()
    };
    for (case, _, _, connections) in CASES {
        report.tables.push(table(&grid, &servers, case, &format!("{case}, {connections} connections")));
    }
    report.goals = goals(&grid);
    Ok(report)
}

/// Whether the server's configuration has `location = /ok`.
pub fn has_return(kind: Kind) -> bool {
    matches!(kind, Kind::Nginx | Kind::Freerun)
}

fn load(path: &str, connections: usize, seconds: f64, cores: &[usize]) -> WrkLoad {
    WrkLoad {
        threads: 1,
        connections,
        seconds,
        target: Target::Path(path.to_owned()),
        close: false,
        cores: cores.to_vec(),
    }
}

/// The table of one case.
pub fn table(grid: &Grid, servers: &[Server], case: &str, title: &str) -> Table {
    let head = ["server", "CPU µs/request", "× nginx", "requests/s", "× nginx", "p50 ms", "p99 ms"];
    let mut table = Table::new(title, &head);
    for name in names(grid, servers, case) {
        table.row(cells(grid, name, case));
    }
    table
}

/// The servers that the case was measured with.
pub fn names<'s>(grid: &Grid, servers: &'s [Server], case: &str) -> impl Iterator<Item = &'s str> {
    servers.iter().map(|server| server.spec.name.as_str()).filter(move |name| grid.has(name, case))
}

/// The cells of a server in a table: its name, processor time and rate, both also compared with nginx, and latencies.
pub fn cells(grid: &Grid, name: &str, case: &str) -> Vec<String> {
    vec![
        name.to_owned(),
        grid.series(name, case, cpu).cell(),
        grid.ratio_cell(name, "nginx", case, cpu),
        grid.series(name, case, |sample| sample.outcome.rate()).cell(),
        grid.ratio_cell(name, "nginx", case, |sample| sample.outcome.rate()),
        grid.series(name, case, |sample| sample.outcome.p50_ms).cell(),
        grid.series(name, case, |sample| sample.outcome.p99_ms).cell(),
    ]
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

fn goals(grid: &Grid) -> Vec<Goal> {
    let limits = [
        ("1 KB", "nginx", 0.6),
        ("1 KB", "h2o", 1.0),
        ("1 KB", "lighttpd", 1.0),
        ("100 KB", "nginx", 0.9),
        ("4 MB", "nginx", 1.05),
        ("4 MB", "nginx threads", 0.7),
    ];
    let goal = |(case, other, limit)| {
        let text = format!("{case}: CPU per request at most {limit} times that of {other}");
        Goal::at_most(text, grid.ratio("freerun", other, case, cpu), limit)
    };
    limits.into_iter().map(goal).collect()
}
