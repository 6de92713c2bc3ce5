//! A connection with many large streams, and another client that asks for little: how long does that client wait?

use std::time::Duration;

use crate::bench::Bench;
use crate::configs::OK_PATH;
use crate::error::{Error, Result};
use crate::grid::disturbance;
use crate::h2load::{Load, Until, Version};
use crate::probe::{self, Pace};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Http2, Kind, Spec};
use crate::stats::Series;

/// The streams of the one connection.
const STREAMS: usize = 100;
/// The size of each response.
const SIZE: u64 = 4_000_000;
/// The requests of the other client in a second.
const RATE: f64 = 50.0;
/// The largest 99th percentile of its latencies, in milliseconds.
const GOAL_MS: f64 = 5.0;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 5.0).ceil());
    bench.scratch.file("4m.bin", SIZE)?;
    let mut report = Report {
        name: "http2-fairness",
        method: format!(
            "One connection of HTTP/2 over TLS asks for {STREAMS} files of {} MB at a time, another client for `return 200` {RATE} times \
             a second over HTTP/1.1, each time when it is due; one worker pinned to one core, the clients on the other; {rounds} rounds \
             of {seconds} s each, servers in turn.",
            SIZE / 1_000_000
        ),
        ..Report::default()
    };
    let (mut found, mut disturbed) = (Vec::new(), Vec::new());
    for kind in [Kind::Nginx, Kind::Freerun] {
        let spec = Spec { http2: Http2::OverTls, ..super::spec(bench, kind)? };
        if bench.options.wants(&spec.name) {
            found.push((spec, [(); 4].map(|()| Series::default())));
        }
    }
    let (server_cores, client_cores) = bench.machine.pair();
    for _ in 0..rounds {
        for (spec, series) in &mut found {
            let watch = Watch::start();
            let placement = Placement { cores: server_cores.clone(), cgroups: Vec::new() };
            let server = Server::start(bench, spec, &placement)?;
            match one(bench, &server, seconds, &client_cores) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
                Ok(figures) => series.iter_mut().zip(figures).for_each(|(series, figure)| series.push(figure)),
            }
            disturbed.push(watch.strangers());
            server.stop();
        }
    }
    report.notes.extend(disturbance(&disturbed));
    let mut table = Table::new("", &["server", "p50 ms", "p99 ms", "max ms", "the other connection, MB/s"]);
    for (spec, series) in &found {
        table.row(std::iter::once(spec.name.clone()).chain(series.iter().map(Series::cell)).collect());
    }
    report.tables.push(table);
    let p99 = found.iter().find(|(spec, _)| spec.name == "freerun").and_then(|(_, series)| series[1].median());
    report.goals.push(Goal::at_most(format!("p99 at most {GOAL_MS} ms"), p99, GOAL_MS));
    Ok(report)
}

fn one(bench: &Bench, server: &Server, seconds: f64, cores: &[usize]) -> Result<[f64; 4]> {
    let length = Duration::from_secs_f64(seconds);
    let probe = probe::prepare(server.address, Pace { path: OK_PATH.into(), rate: RATE, length })?;
    let load = Load {
        version: Version::Http2,
        secure: true,
        path: "/4m.bin".into(),
        connections: 1,
        streams: STREAMS,
        // It begins before the other client and ends after it.
        until: Until::Seconds(seconds + 2.0),
        body: None,
        cores: cores.to_vec(),
    };
    let address = *server.secure.first().ok_or_else(|| Error::Failed("no address for TLS".into()))?;
    let bulk = load.start(bench, address)?;
    crate::interrupt::pause(Duration::from_secs(1))?;
    let (latencies, failed) = crate::process::on_cores(cores, || probe.start())??.finish();
    let bulk = bulk.finish()?;
    if failed > 0 {
        return Err(Error::Failed(format!("{failed} requests failed")));
    }
    bench.say(&format!("{:12} {latencies}", server.spec.name));
    let at = |percent| latencies.percentile_ms(percent).unwrap_or(f64::NAN);
    Ok([at(50.0), at(99.0), at(100.0), bulk.rate() * SIZE as f64 / 1e6])
}
