//! The cost of an access log. A log that cannot be written must cost nothing more.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::bench::Bench;
use crate::configs::OK_PATH;
use crate::error::{ErrorContext, Result};
use crate::grid::{Grid, Sample};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::wrk::WrkLoad;

/// Without a log: what the others are compared with.
const OFF: &str = "off";
/// The ways of logging: name, what `access_log` says (`@LOGS@` is a folder), whether nginx is measured with it too. On a pipe
/// that nobody reads nginx would stop.
const WAYS: [(&str, &str, bool); 7] = [
    (OFF, "off", true),
    ("on", "@LOGS@/plain", true),
    ("buffer", "@LOGS@/buffered combined buffer=64k flush=1s", true),
    ("gzip", "@LOGS@/packed combined gzip=1 flush=1s", true),
    ("variables", "@LOGS@/by-$server_port", true),
    ("full disk", "/dev/full", true),
    ("hanging disk", "@LOGS@/pipe", false),
];

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    let root = bench.scratch.folder("data")?;
    let mut specs = Vec::new();
    let mut pipes = Vec::new();
    for kind in [Kind::Nginx, Kind::Freerun] {
        for (way, log, both) in WAYS {
            if kind == Kind::Nginx && !both {
                continue;
            }
            let logs = bench.scratch.folder(&format!("servers/logs-{}", kind.name()))?;
            fs::set_permissions(&logs, fs::Permissions::from_mode(0o777)).doing(logs.display())?;
            if way == "hanging disk" {
                pipes.push(pipe(&logs.join("pipe"))?);
            }
            let log = log.replace("@LOGS@", &logs.display().to_string());
            specs.push(Spec { access_log: log, ..Spec::new(kind, way, &root) });
        }
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    let load = WrkLoad::kept(OK_PATH, seconds, client_cores);
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, |_| vec![(CASE.to_owned(), load.clone())])?;
    let mut report = Report {
        name: "log",
        method: format!(
            "`return 200 \"OK\"`, 32 keep-alive connections, one worker pinned to one core (freerun's log thread with it), wrk pinned to \
             the other; {rounds} rounds of {seconds} s each, servers in turn; median (min–max), ratios to the same server without a \
             log are medians of each round's. The full disk is /dev/full, the hanging one a pipe that nobody reads."
        ),
        notes,
        ..Report::default()
    };
    report.tables.push(table(&grid, &servers));
    report.goals = goals(&grid);
    drop(pipes);
    Ok(report)
}

const CASE: &str = "return 200";

/// A pipe, held open so that opening it does not wait.
fn pipe(path: &Path) -> Result<File> {
    let _ = fs::remove_file(path);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666), 0)
        .map_err(std::io::Error::from)
        .doing(path.display())?;
    OpenOptions::new().read(true).write(true).open(path).doing(path.display())
}

fn without(name: &str) -> String {
    format!("{} {OFF}", name.split(' ').next().unwrap_or(name))
}

fn table(grid: &Grid, servers: &[Server]) -> Table {
    let head = ["server, access_log", "CPU µs/request", "× off", "requests/s", "× off", "p99 ms"];
    let mut table = Table::new("", &head);
    for name in servers.iter().map(|server| server.spec.name.as_str()).filter(|name| grid.has(name, CASE)) {
        let off = without(name);
        table.row(vec![
            name.to_owned(),
            grid.series(name, CASE, cpu).cell(),
            grid.ratio_cell(name, &off, CASE, cpu),
            grid.series(name, CASE, rate).cell(),
            grid.ratio_cell(name, &off, CASE, rate),
            grid.series(name, CASE, |sample| sample.outcome.p99_ms).cell(),
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
    let goal = |(way, limit): (&str, f64)| {
        let text = format!("access_log {way}: at least {limit} times the rate without a log");
        let ratio = grid.ratio(&format!("freerun {way}"), &format!("freerun {OFF}"), CASE, rate);
        Goal::at_least(text, ratio, limit)
    };
    [("on", 0.95), ("buffer", 0.95), ("full disk", 0.95), ("hanging disk", 0.95)].into_iter().map(goal).collect()
}
