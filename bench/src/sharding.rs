//! The three ways of sharing a listening address among workers, as in "Socket Sharding in NGINX Release 1.9.1", for http and for
//! stream.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::bench::Bench;
use crate::configs::{OK_PATH, load_stream};
use crate::error::{Error, Result};
use crate::grid::{Sample, disturbance, measure};
use crate::process::{self, Placement};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::Series;
use crate::status;
use crate::wrk::{Load, Target};

/// The ways: name, `accept_mutex`, `reuseport`. nginx's default was the first until 1.11.3 and is the second since.
const WAYS: [(&str, Option<bool>, bool); 3] =
    [("default", None, false), ("accept_mutex on", Some(true), false), ("reuseport", None, true)];

/// The loads: name, whether each connection serves one request.
const LOADS: [(&str, bool); 2] = [("keep-alive", false), ("one request per connection", true)];

/// A measurement, with each worker's part of the CPU time.
struct Shared {
    sample: Sample,
    parts: Vec<f64>,
}

/// Measurements by load and server, one a round; `None` where it failed.
type Results = BTreeMap<(&'static str, String), Vec<Option<Shared>>>;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(20), bench.options.seconds(1.0, 1.0).ceil());
    let mut numbers = vec![bench.machine.cores, 4];
    numbers.dedup();
    let mut report = Report {
        name: "sharding",
        method: format!(
            "`return 200 \"OK\"`, directly and through `proxy_pass` of stream to one worker of nginx, 100 connections from wrk with as \
             many threads as cores, nothing pinned, servers and clients on the same {} cores; {rounds} rounds of {seconds} s, servers in turn, nginx and freerun one after the other for each way of sharing. \
             Goals are of the medians of the rounds' ratios: from round to round the machine differs by more than the servers do. \
             The default of nginx since 1.11.3 is `accept_mutex off`; in the article of 2015 it was `on`. Mean and deviation of the latency \
             are wrk's. The share is each worker process' (freerun: loop thread's) part of the CPU time.",
            bench.machine.cores
        ),
        ..Report::default()
    };
    // Sessions of stream lead to a server that answers as the http servers do.
    let root = bench.scratch.folder("data")?;
    let origin = Server::start(bench, &Spec::new(Kind::Nginx, "origin", &root), &Placement::default())?;
    for workers in numbers {
        for what in [What::Http, What::Stream(origin.address)] {
            one_number(bench, what, workers, (rounds, seconds), &mut report)?;
        }
    }
    Ok(report)
}

/// The purpose of the addresses.
#[derive(Clone, Copy)]
enum What {
    /// Answers of the server itself.
    Http,
    /// Sessions that are passed on to this server.
    Stream(SocketAddr),
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Http => "http",
            What::Stream(_) => "stream",
        }
    }

    /// The server that shares its address in this way.
    fn spec(self, kind: Kind, way: (&str, Option<bool>, bool), workers: usize, root: &Path) -> Result<Spec> {
        let (name, accept_mutex, reuseport) = way;
        let spec = Spec { accept_mutex, reuseport, ..Spec::new(kind, name, root).workers(workers) };
        let What::Stream(origin) = self else { return Ok(spec) };
        let module = load_stream(kind)?;
        let mutex = accept_mutex.map_or("", |on| if on { "accept_mutex on;" } else { "accept_mutex off;" });
        let reuseport = if reuseport { " reuseport" } else { "" };
        let whole = format!(
            "{module}worker_processes {workers};\nevents {{ worker_connections 4096; {mutex} }}\n\
             stream {{\nserver {{ listen @ADDRESS@{reuseport}; proxy_pass {origin}; }}\n}}\n"
        );
        Ok(Spec { whole: Some(whole), ..spec })
    }
}

fn one_number(
    bench: &Bench,
    what: What,
    workers: usize,
    (rounds, seconds): (usize, f64),
    report: &mut Report,
) -> Result<()> {
    let root = bench.scratch.folder("data")?;
    let both = |way| [Kind::Nginx, Kind::Freerun].map(|kind| what.spec(kind, way, workers, &root));
    let specs: Vec<Spec> = WAYS.into_iter().flat_map(both).collect::<Result<_>>()?;
    let (servers, mut notes) = start_all(bench, &specs, &Placement::default())?;
    let mut results: Results = BTreeMap::new();
    for _ in 0..rounds {
        for (name, close) in LOADS {
            for server in &servers {
                let load = Load {
                    threads: bench.machine.cores,
                    connections: 100,
                    seconds,
                    target: Target::Path(OK_PATH.into()),
                    close,
                    cores: Vec::new(),
                };
                let before = shares(server);
                let shared = match measure(bench, server, &load) {
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => {
                        notes.push(format!("{} {}, {name}, {workers} workers: {error}", what.name(), server.spec.name));
                        None
                    }
                    Ok(sample) => Some(Shared { sample, parts: parts(&before, &shares(server), workers) }),
                };
                if let Some(Shared { sample, parts }) = &shared {
                    let (rate, mean) = (sample.outcome.rate(), sample.outcome.mean_ms);
                    bench.say(&format!(
                        "{} {:24} {workers} {name:28} {rate:9.0}/s mean {mean:.3} ms, {parts:.0?} %",
                        what.name(),
                        server.spec.name
                    ));
                }
                results.entry((name, server.spec.name.clone())).or_default().push(shared);
            }
        }
    }
    for (name, _) in LOADS {
        report.tables.push(table(&servers, &results, name, &format!("{}, {name}, {workers} workers", what.name())));
        for (way, ..) in WAYS {
            let ratio = ratio(&results, name, &format!("freerun {way}"), &format!("nginx {way}"));
            let goal = format!("{}, {name}, {workers} workers: {way} at least nginx's", what.name());
            report.goals.push(Goal::at_least(goal, ratio, 1.0));
        }
    }
    for server in &servers {
        if let Some(status) = status::of(server).filter(|status| !status.accepted.is_empty()) {
            let name = &server.spec.name;
            notes.push(format!("{name}, {workers} loops: connections accepted by each loop {:?}", status.accepted));
        }
    }
    let strangers: Vec<f64> = results.values().flatten().flatten().map(|shared| shared.sample.strangers).collect();
    notes.extend(disturbance(&strangers));
    report.notes.append(&mut notes);
    Ok(())
}

/// The median of the rounds' ratios of two servers' rates.
fn ratio(results: &Results, load: &'static str, server: &str, other: &str) -> Option<f64> {
    let list = |server: &str| results.get(&(load, server.to_owned()));
    let pairs = list(server)?.iter().zip(list(other)?);
    let rate = |shared: &Option<Shared>| shared.as_ref().map(|shared| shared.sample.outcome.rate());
    pairs.filter_map(|(one, other)| Some(rate(one)? / rate(other)?)).collect::<Series>().median()
}

fn table(servers: &[Server], results: &Results, load: &'static str, title: &str) -> Table {
    let head = [
        "server",
        "requests/s",
        "× nginx default",
        "mean ms",
        "deviation ms",
        "CPU µs/request",
        "share of each worker %",
    ];
    let mut table = Table::new(title, &head);
    for server in servers {
        let Some(list) = results.get(&(load, server.spec.name.clone())) else { continue };
        let series = |figure: &dyn Fn(&Sample) -> f64| {
            list.iter().flatten().map(|shared| figure(&shared.sample)).collect::<Series>()
        };
        let shares = list
            .iter()
            .flatten()
            .last()
            .map(|shared| shared.parts.iter().map(|part| format!("{part:.0}")).collect::<Vec<_>>().join(" "));
        table.row(vec![
            server.spec.name.clone(),
            series(&|sample| sample.outcome.rate()).cell(),
            crate::stats::short_or_nothing(ratio(results, load, &server.spec.name, "nginx default")),
            series(&|sample| sample.outcome.mean_ms).cell(),
            series(&|sample| sample.outcome.stdev_ms).cell(),
            series(&|sample| sample.cpu_us).cell(),
            shares.unwrap_or_default(),
        ]);
    }
    table
}

/// CPU time of every thread of every worker process.
fn shares(server: &Server) -> BTreeMap<i32, Duration> {
    server.workers().into_iter().flat_map(process::threads).map(|(id, _, cpu)| (id, cpu)).collect()
}

/// Percentages of the `workers` busiest threads, in the order of their ids.
fn parts(before: &BTreeMap<i32, Duration>, after: &BTreeMap<i32, Duration>, workers: usize) -> Vec<f64> {
    let used = |(id, cpu): (&i32, &Duration)| {
        (*id, cpu.saturating_sub(before.get(id).copied().unwrap_or_default()).as_secs_f64())
    };
    let mut used: Vec<(i32, f64)> = after.iter().map(used).collect();
    used.sort_by(|one, other| other.1.total_cmp(&one.1));
    used.truncate(workers);
    used.sort_by_key(|(id, _)| *id);
    let total: f64 = used.iter().map(|(_, cpu)| cpu).sum();
    used.iter().map(|(_, cpu)| if total > 0.0 { cpu / total * 100.0 } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_the_busiest_threads_in_the_order_of_their_ids() {
        let times =
            |list: &[(i32, u64)]| list.iter().map(|(id, s)| (*id, Duration::from_secs(*s))).collect::<BTreeMap<_, _>>();
        let before = times(&[(1, 5), (2, 5), (3, 0)]);
        let after = times(&[(1, 8), (2, 6), (3, 0), (4, 0)]);
        assert_eq!(parts(&before, &after, 2), [75.0, 25.0]);
        assert_eq!(parts(&after, &after, 2), [0.0, 0.0]);
    }
}
