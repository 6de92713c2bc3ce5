//! A cache with many entries and a server that starts again: how long until it knows what it has?

use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::error::{Doing, Error, Result};
use crate::interrupt::{pause, wait_for};
use crate::origin::{Origin, ask_all};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{NOTHING, short, short_or_nothing};
use crate::status;

/// Connections that fill the cache.
const CONNECTIONS: usize = 32;
/// The number of entries that are requested again after each start.
const SAMPLE: usize = 1_000;
/// The time that the index may take to be there.
const LIMIT: Duration = Duration::from_secs(240);
/// The time that the server may take to write down its stored entries.
const SETTLE: Duration = Duration::from_secs(120);
/// The wait of nginx's loader before it begins, in seconds.
const LOADER_DELAY: f64 = 60.0;

/// The lines of the cache. nginx's loader gets as much to do at once as helps it.
fn lines(spec: Spec) -> Spec {
    let http = "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=bench:256m max_size=100g inactive=7d use_temp_path=off \
                loader_files=100000 loader_threshold=10s loader_sleep=1ms;\n";
    let passing = format!("{}proxy_cache bench;\nproxy_cache_valid 200 1d;\n", spec.passing);
    Spec { http: http.into(), passing, main: "error_log @DIR@/notices.log notice;\n".into(), ..spec }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let entries = if bench.options.quick { 20_000 } else { 1_000_000 };
    let origin = Origin::start(bench, &[], "location /e/ { return 200 \"a small object\\n\"; }\n")?;
    let mut report = Report {
        name: "cache-restart",
        method: format!(
            "{entries} small objects are stored, then the server is stopped and started again. Warm: from the start of the process until its index \
             has all of them (freerun: as its status says; nginx: when its cache loader ends, which begins {LOADER_DELAY} s after the start and has \
             `loader_files=100000 loader_threshold=10s loader_sleep=1ms`, with the usual ones it takes minutes more). Then {SAMPLE} entries are \
             asked for; those that reach the origin count as lost. freerun also after SIGKILL, and after a reload."
        ),
        ..Report::default()
    };
    let mut table = Table::new(
        "",
        &["server", "start after", "entries", "warm after s", "of it reading s", "first answer after s", "lost %"],
    );
    let root = bench.scratch.folder("data")?;
    for kind in [Kind::Nginx, Kind::Freerun] {
        let spec = lines(Spec::new(kind, "", &root).workers(2).proxy(origin.address()));
        if !bench.options.wants(&spec.name) {
            continue;
        }
        match one(bench, &spec, &origin, entries, &mut table, &mut report.goals) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
            Ok(()) => {}
        }
    }
    report.tables.push(table);
    Ok(report)
}

fn path(number: usize) -> String {
    format!("/e/{number}")
}

fn one(
    bench: &Bench,
    spec: &Spec,
    origin: &Origin,
    entries: usize,
    table: &mut Table,
    goals: &mut Vec<Goal>,
) -> Result<()> {
    let mut server = Server::start(bench, spec, &Placement::default())?;
    let begin = Instant::now();
    let failed = ask_all(server.address, CONNECTIONS, entries, path)?;
    bench.say(&format!("{}: {entries} objects in {:.0} s, {failed} failed", spec.name, begin.elapsed().as_secs_f64()));
    if spec.kind == Kind::Freerun {
        let all = wait_for(SETTLE, Duration::from_millis(200), || {
            Ok(known(&server).filter(|count| *count >= entries as u64))
        })?;
        if all.is_none() {
            let count = known(&server);
            return Err(Error::Failed(format!("{count:?} of {entries} objects were stored")));
        }
    }
    let ways: &[&str] = if spec.kind == Kind::Freerun { &["stop", "SIGKILL", "reload"] } else { &["stop"] };
    for way in ways {
        let started = match *way {
            "reload" => {
                server.rewrite(bench, 1)?;
                let now = Instant::now();
                server.reload()?;
                now
            }
            _ => {
                if *way == "SIGKILL" {
                    server.process.kill();
                }
                server.stop();
                // What is pending goes to the disk first, so that it does not count as starting.
                pause(Duration::from_secs(1))?;
                let now = Instant::now();
                server = Server::start(bench, spec, &Placement::default())?;
                now
            }
        };
        let first = ask_all(server.address, 1, 1, path).map(|_| started.elapsed().as_secs_f64())?;
        let (warm, reading) = match spec.kind {
            Kind::Freerun => (warm(&server, entries, started)?, None),
            _ => {
                let ended = loader_ended(&server, started)?;
                (ended, ended.map(|ended| (ended - LOADER_DELAY).max(0.0)))
            }
        };
        let (failed, asked) = origin.during(|| {
            let step = (entries / SAMPLE).max(1);
            ask_all(server.address, 8, SAMPLE.min(entries), |number| path(number * step))
        })?;
        let lost = asked as f64 * 100.0 / SAMPLE as f64;
        if failed > 0 {
            return Err(Error::Failed(format!("{failed} requests failed after {way}")));
        }
        let count = known(&server).map_or_else(|| NOTHING.into(), |count| count.to_string());
        table.row(vec![
            spec.name.clone(),
            (*way).to_owned(),
            count,
            short_or_nothing(warm),
            short_or_nothing(reading),
            short(first),
            short(lost),
        ]);
        bench.say(&format!("{}, {way}: warm after {} s, {lost} % lost", spec.name, short_or_nothing(warm)));
        if spec.kind == Kind::Freerun {
            match *way {
                "reload" => goals.push(Goal::at_most("a reload loses nothing (%)", Some(lost), 0.0)),
                _ => goals.push(Goal::at_most(format!("warm in less than 2 s after {way}"), warm, 2.0)),
            }
        }
    }
    server.stop();
    Ok(())
}

/// The number of entries that freerun reports.
fn known(server: &Server) -> Option<u64> {
    status::of(server)?.cache_entries
}

/// The time from `started` until all entries were known.
fn warm(server: &Server, entries: usize, started: Instant) -> Result<Option<f64>> {
    wait_for(LIMIT, Duration::from_millis(10), || {
        let all = known(server).is_some_and(|count| count >= entries as u64);
        Ok(all.then(|| started.elapsed().as_secs_f64()))
    })
}

/// The time from `started` until nginx's loader had ended.
fn loader_ended(server: &Server, started: Instant) -> Result<Option<f64>> {
    let log = server.folder.join("notices.log");
    let before = ended(&std::fs::read_to_string(&log).doing(log.display())?);
    wait_for(LIMIT, Duration::from_millis(50), || {
        let text = std::fs::read_to_string(&log).doing(log.display())?;
        Ok((ended(&text) > before).then(|| started.elapsed().as_secs_f64()))
    })
}

/// The number of processes that have ended by themselves: only the loader does that.
fn ended(log: &str) -> usize {
    log.lines().filter(|line| line.contains("exited with code 0")).count()
}
