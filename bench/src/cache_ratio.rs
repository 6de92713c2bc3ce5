//! A trace as a site has it, with scans, replayed: how many requests does each cache answer itself?

use freerun_cache::simulate::{Trace, lru, s3_fifo};

use crate::bench::Bench;
use crate::error::{Error, Result};
use crate::origin::{Origin, ask_all};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{short, short_or_nothing};

/// Bytes of a zone that an entry takes up, in both servers.
const ENTRY: u64 = 128;
/// Connections that replay the trace: few, so that its order stays nearly what it is.
const CONNECTIONS: usize = 8;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let trace = match bench.options.quick {
        true => Trace { objects: 80_000, requests: 40_000, scan_every: 4_000, scan: 1_000, ..Trace::standard() },
        false => Trace::standard(),
    };
    let requests = trace.requests();
    let held = trace.objects as u64 / 10;
    let origin = Origin::start(bench, &[], "location /t/ { return 200 \"a small object\\n\"; }\n")?;
    let mut report = Report {
        name: "cache-ratio",
        method: format!(
            "{} requests for {} objects by Zipf's law (exponent {}), and every {} of them a scan over {} objects that nobody else asks for, \
             replayed in order over {CONNECTIONS} connections. Each cache may have {held} entries, a tenth of the working set; the limit is that of \
             `keys_zone`, since nginx keeps to it at once, and to `max_size` only now and then. Hits are requests that the origin does not get. \
             The same trace is simulated with objects of 1 KB to 1 MB and a limit in bytes.",
            requests.len(),
            trace.objects,
            f64::from(trace.skew) / 100.0,
            trace.scan_every,
            trace.scan
        ),
        ..Report::default()
    };
    let mut table = Table::new("Replayed", &["server", "hits %", "origin requests", "failed", "entries at the end"]);
    let root = bench.scratch.folder("data")?;
    let mut ratios = Vec::new();
    for kind in [Kind::Nginx, Kind::Freerun] {
        let mut spec = Spec::new(kind, "", &root).workers(2).proxy(origin.address());
        if !bench.options.wants(&spec.name) {
            continue;
        }
        spec.http = format!(
            "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=bench:{} max_size=10g inactive=7d use_temp_path=off memory=0;\n",
            held * ENTRY
        );
        if kind == Kind::Nginx {
            spec.http = spec.http.replace(" memory=0", "");
        }
        spec.passing += "proxy_cache bench;\nproxy_cache_valid 200 1d;\n";
        match replay(bench, &spec, &origin, &requests) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => report.notes.push(format!("{} not measured: {error}", spec.name)),
            Ok((asked, failed, files)) => {
                let hits = 100.0 - asked as f64 * 100.0 / requests.len() as f64;
                bench.say(&format!("{:16} {hits:.1} % hits, {files} files at the end", spec.name));
                table.row(vec![
                    spec.name.clone(),
                    short(hits),
                    asked.to_string(),
                    failed.to_string(),
                    files.to_string(),
                ]);
                ratios.push((kind, hits));
            }
        }
    }
    report.tables.push(table);
    let of = |kind| ratios.iter().find(|(other, _)| *other == kind).map(|(_, hits)| *hits);
    let points = of(Kind::Freerun).zip(of(Kind::Nginx)).map(|(own, other)| own - other);
    report.goals.push(Goal::at_least("at least 5 points more object hits than nginx", points, 5.0));
    report.tables.push(simulated(&trace, &requests));
    Ok(report)
}

/// The number of requests to the origin, of failed requests, and of files at the end.
fn replay(bench: &Bench, spec: &Spec, origin: &Origin, requests: &[(u64, u64)]) -> Result<(u64, usize, usize)> {
    let server = Server::start(bench, spec, &Placement::default())?;
    let (failed, asked) = origin.during(|| {
        ask_all(server.address, CONNECTIONS, requests.len(), |number| format!("/t/{}", requests[number].0))
    })?;
    let files = files(&server.folder.join("cache"));
    server.stop();
    Ok((asked, failed, files))
}

/// The stored files below `folder`.
fn files(folder: &std::path::Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        count += if is_folder { files(&entry.path()) } else { usize::from(entry.file_name().len() == 32) };
    }
    count
}

/// The policies by themselves, at several sizes.
fn simulated(trace: &Trace, requests: &[(u64, u64)]) -> Table {
    let head = [
        "size, % of the working set",
        "freerun's policy, hits %",
        "LRU, hits %",
        "points",
        "freerun's policy, bytes %",
        "LRU, bytes %",
    ];
    let mut table = Table::new("Simulated, with sizes", &head);
    let whole = trace.working_set();
    for percent in [1, 5, 10, 20] {
        let capacity = whole / 100 * percent;
        let ours = s3_fifo(requests.iter().copied(), capacity);
        let theirs = lru(requests.iter().copied(), capacity);
        table.row(vec![
            percent.to_string(),
            short(ours.percent()),
            short(theirs.percent()),
            short_or_nothing(Some(ours.percent() - theirs.percent())),
            short(ours.percent_of_bytes()),
            short(theirs.percent_of_bytes()),
        ]);
    }
    table
}
