//! The three ways of sharing a listening address among workers, as in "Socket Sharding in NGINX Release 1.9.1".

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bench::Bench;
use crate::configs::OK_PATH;
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

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    let mut numbers = vec![bench.machine.cores, 4];
    numbers.dedup();
    let mut report = Report {
        name: "sharding",
        method: format!(
            "`return 200 \"OK\"`, 100 connections from wrk with as many threads as cores, nothing pinned, servers and clients on the \
             same {} cores; {rounds} rounds of {seconds} s, servers in turn. The default of nginx since 1.11.3 is `accept_mutex off`; \
             in the article of 2015 it was `on`. Mean and deviation of the latency are wrk's. The share is each worker process' (freerun: \
             loop thread's) part of the CPU time.",
            bench.machine.cores
        ),
        ..Report::default()
    };
    for workers in numbers {
        one_number(bench, workers, rounds, seconds, &mut report)?;
    }
    Ok(report)
}

fn one_number(bench: &Bench, workers: usize, rounds: usize, seconds: f64, report: &mut Report) -> Result<()> {
    let root = bench.scratch.folder("data")?;
    let spec = |kind| {
        WAYS.map(|(way, accept_mutex, reuseport)| Spec {
            accept_mutex,
            reuseport,
            ..Spec::new(kind, way, &root).workers(workers)
        })
    };
    let specs: Vec<Spec> = [Kind::Nginx, Kind::Freerun].into_iter().flat_map(spec).collect();
    let (servers, mut notes) = start_all(bench, &specs, &Placement::default())?;
    let mut results: BTreeMap<(&str, String), Vec<Shared>> = BTreeMap::new();
    for _ in 0..rounds {
        for server in &servers {
            for (name, close) in LOADS {
                let load = Load {
                    threads: bench.machine.cores,
                    connections: 100,
                    seconds,
                    target: Target::Path(OK_PATH.into()),
                    close,
                    cores: Vec::new(),
                };
                let before = shares(server);
                let sample = match measure(bench, server, &load) {
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => {
                        notes.push(format!("{}, {name}, {workers} workers: {error}", server.spec.name));
                        continue;
                    }
                    Ok(sample) => sample,
                };
                let parts = parts(&before, &shares(server), workers);
                let outcome = sample.outcome;
                let (rate, mean) = (outcome.rate(), outcome.mean_ms);
                bench.say(&format!(
                    "{:24} {workers} {name:28} {rate:9.0}/s mean {mean:.3} ms, {parts:.0?} %",
                    server.spec.name
                ));
                results.entry((name, server.spec.name.clone())).or_default().push(Shared { sample, parts });
            }
        }
    }
    for (name, _) in LOADS {
        report.tables.push(table(&servers, &results, name, workers));
        let rate = |server: &str| results.get(&(name, server.to_owned())).map(|list| rates(list));
        let ratio = rate("freerun reuseport")
            .zip(rate("nginx reuseport"))
            .and_then(|(own, other)| Some(own.median()? / other.median()?));
        report.goals.push(Goal::at_least(format!("{name}, {workers} workers: reuseport at least nginx's"), ratio, 1.0));
    }
    for server in &servers {
        if let Some(status) = status::of(server).filter(|status| !status.accepted.is_empty()) {
            let name = &server.spec.name;
            notes.push(format!("{name}, {workers} loops: connections accepted by each loop {:?}", status.accepted));
        }
    }
    let strangers: Vec<f64> = results.values().flatten().map(|shared| shared.sample.strangers).collect();
    notes.extend(disturbance(&strangers));
    report.notes.append(&mut notes);
    Ok(())
}

fn rates(list: &[Shared]) -> Series {
    list.iter().map(|shared| shared.sample.outcome.rate()).collect()
}

fn table(servers: &[Server], results: &BTreeMap<(&str, String), Vec<Shared>>, load: &str, workers: usize) -> Table {
    let head = [
        "server",
        "requests/s",
        "× nginx default",
        "mean ms",
        "deviation ms",
        "CPU µs/request",
        "share of each worker %",
    ];
    let mut table = Table::new(format!("{load}, {workers} workers"), &head);
    let reference = results.get(&(load, "nginx default".to_owned())).and_then(|list| rates(list).median());
    for server in servers {
        let Some(list) = results.get(&(load, server.spec.name.clone())) else { continue };
        let series =
            |figure: &dyn Fn(&Sample) -> f64| list.iter().map(|shared| figure(&shared.sample)).collect::<Series>();
        let shares = list
            .last()
            .map(|shared| shared.parts.iter().map(|part| format!("{part:.0}")).collect::<Vec<_>>().join(" "));
        let rate = rates(list);
        table.row(vec![
            server.spec.name.clone(),
            rate.cell(),
            crate::stats::short_or_nothing(rate.median().zip(reference).map(|(own, other)| own / other)),
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
