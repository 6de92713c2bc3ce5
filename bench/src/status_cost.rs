//! The figures that are there without a directive, and traces that a sampler leaves out: what do they cost a request?

use crate::bench::Bench;
use crate::configs::OK_PATH;
use crate::error::Result;
use crate::grid::{Grid, Sample};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::NOTHING;
use crate::wrk::{Target, WrkLoad};

/// Name of a case, its path, and the file's size (none: no file).
const CASES: [(&str, &str, Option<u64>); 2] = [("return 200", OK_PATH, None), ("1 KB", "/1k.bin", Some(1_000))];

/// Number of wrk's connections.
const CONNECTIONS: usize = 32;

/// As it comes: the requests of each server are counted.
const COUNTED: &str = "freerun";

/// Without these counters.
const UNCOUNTED: &str = "freerun uncounted";

/// A request is left out by the sampler, and has its identifiers for upstream servers.
const UNSAMPLED: &str = "freerun unsampled";

/// The directives of `http` for it. Nobody listens at the collector's address, and nothing is sent there.
const SAMPLER: &str = "otel_exporter { endpoint 127.0.0.1:9; }\nmap $request_method $sampled { default 0; }\n\
                       otel_trace $sampled;\notel_trace_context propagate;\n";

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(9), bench.options.seconds(1.0, 3.0).ceil());
    for (_, path, size) in CASES {
        if let Some(size) = size {
            bench.scratch.file(path.trim_start_matches('/'), size)?;
        }
    }
    let root = bench.scratch.folder("data")?;
    let with = |variant: &str, http: &str| Spec { http: http.to_owned(), ..Spec::new(Kind::Freerun, variant, &root) };
    let specs = [with("", ""), with("uncounted", "status_servers off;\n"), with("unsampled", SAMPLER)];
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    let load = |path: &str| WrkLoad {
        threads: 1,
        connections: CONNECTIONS,
        seconds,
        target: Target::Path(path.to_owned()),
        close: false,
        cores: client_cores.clone(),
    };
    let loads = |_: &Server| CASES.iter().map(|(case, path, _)| ((*case).to_owned(), load(path))).collect();
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
    Ok(Report {
        name: "status-cost",
        method: format!(
            "One worker pinned to one core, wrk with one thread and {CONNECTIONS} connections pinned to the other, keep-alive; \
             {rounds} rounds of {seconds} s each, configurations in turn; median (min–max), ratios are medians of each round's. \
             `{COUNTED}` is as it comes, `{UNCOUNTED}` has `status_servers off`, and `{UNSAMPLED}` is as it comes with \
             `otel_trace $sampled`, where `$sampled` is 0, and `otel_trace_context propagate`."
        ),
        notes,
        tables: CASES.map(|(case, ..)| table(&grid, case)).into(),
        goals: CASES.into_iter().flat_map(|(case, ..)| goals(&grid, case)).collect(),
    })
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

fn table(grid: &Grid, case: &str) -> Table {
    let head = ["configuration", "CPU µs/request", "× uncounted", "× as it comes", "requests/s"];
    let mut table = Table::new(case, &head);
    for name in [UNCOUNTED, COUNTED, UNSAMPLED] {
        table.row(vec![
            name.to_owned(),
            grid.series(name, case, cpu).cell(),
            thousandths(grid.ratio(name, UNCOUNTED, case, cpu)),
            thousandths(grid.ratio(name, COUNTED, case, cpu)),
            grid.series(name, case, |sample| sample.outcome.rate()).cell(),
        ]);
    }
    table
}

/// A ratio to the accuracy that the goals need.
fn thousandths(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| NOTHING.into(), |ratio| format!("{ratio:.3}"))
}

fn goals(grid: &Grid, case: &str) -> [Goal; 2] {
    [
        Goal::at_most(
            format!("{case}: counting takes at most 1 % of a request's CPU"),
            grid.ratio(COUNTED, UNCOUNTED, case, cpu),
            1.01,
        ),
        Goal::at_most(
            format!("{case}: an unsampled request costs at most 0.5 % more"),
            grid.ratio(UNSAMPLED, COUNTED, case, cpu),
            1.005,
        ),
    ]
}
