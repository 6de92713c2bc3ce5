//! Floods of full handshakes: how long do the clients wait that have their connections already?

use std::collections::BTreeMap;
use std::time::Duration;

use super::client::{self, Resuming, Version};
use super::handshakes::{self, Found, Pace, Until};
use super::steady::{self, Steady};
use crate::bench::Bench;
use crate::certificates::Key;
use crate::configs::OK_PATH;
use crate::error::{Error, Result};
use crate::grid::disturbance;
use crate::interrupt;
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, Series, short_or_nothing};
use crate::status::{self, Status};

/// The kinds of keys.
const KEYS: [Key; 3] = [Key::Rsa2048, Key::Rsa4096, Key::EcdsaP256];
/// The versions.
const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];
/// The floods, in percent of what the server could do at most.
const LEVELS: [f64; 3] = [50.0, 100.0, 150.0];
/// The flood that is too much.
const TOO_MUCH: f64 = 150.0;
/// Handshakes at a time that are enough to find out what a server can do at most.
const ENOUGH: usize = 64;
/// Most handshakes at a time in a flood: less than the 511 connections that may wait to be accepted (`listen … backlog`).
const MOST: usize = 400;
/// Requests a second of the clients that keep their connections, of those with TLS and of those without.
const RATE: f64 = 500.0;
/// Their connections, of each kind.
const CONNECTIONS: usize = 64;
/// The time that a flood is under way before their times count.
const SETTLE: Duration = Duration::from_millis(500);
/// The 99th percentile that is good enough for them, milliseconds.
const GOAL_P99_MS: f64 = 3.0;
/// The time that an event loop may be busy with one thing, milliseconds.
const GOAL_STALL_MS: f64 = 10.0;

/// The figures of a server under one flood.
struct Level {
    /// Handshakes a second that were due.
    planned: f64,
    flood: Found,
    plain: (Latencies, usize),
    tls: (Latencies, usize),
}

/// The figures of a server in one round.
struct Shown {
    most: Found,
    levels: Vec<Level>,
    status: Option<Status>,
    /// Part of the machine that other processes used, in percent.
    strangers: f64,
}

/// By server, one a round; `None` where it failed.
type Results = BTreeMap<&'static str, Vec<Option<Shown>>>;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(3), bench.options.seconds(1.0, 5.0));
    let cores = bench.machine.cores;
    let mut report = Report {
        name: "tls-handshakes",
        method: format!(
            "{cores} workers on {cores} cores, which the clients share. First as many full handshakes as the server can do, {ENOUGH} at a \
             time (\"at most\"); then floods of {} % of that, each handshake at its time unless {MOST} are under way, for {seconds} s each. \
             The client (rustls, one thread for each core; with X25519 and AES-128-GCM; it verifies nothing, resumes nothing) closes a \
             connection when its handshake is over; its latency counts from when it was due. Meanwhile {CONNECTIONS} kept connections \
             without and {CONNECTIONS} with TLS ask for `return 200`, {RATE} times a second each, each request at its time, whether the \
             former were answered or not; their latency counts from when the request was due. {rounds} round(s) with a fresh server each.",
            LEVELS.map(|level| level.to_string()).join(", "),
        ),
        ..Report::default()
    };
    let mut strangers = Vec::new();
    for key in KEYS {
        for version in VERSIONS {
            let specs = super::specs(bench, &[key], "")?;
            let mut results = Results::new();
            for _ in 0..rounds {
                for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
                    let shown = match one(bench, &spec.clone().workers(cores), (key, version), seconds) {
                        Err(Error::Interrupted) => return Err(Error::Interrupted),
                        Err(error) => {
                            report.notes.push(format!("{}, {key}, {version}: {error}", spec.name));
                            None
                        }
                        Ok(shown) => Some(shown),
                    };
                    strangers.extend(shown.as_ref().map(|shown| shown.strangers));
                    results.entry(spec.kind.name()).or_default().push(shown);
                }
            }
            let title = format!("{key}, {version}");
            report.tables.push(table_of_handshakes(&results, &title, cores));
            report.tables.push(table_of_others(&results, &title));
            report.goals.extend(goals(&results, &title));
            report.notes.extend(complaints(&results, &title));
        }
    }
    report.notes.extend(disturbance(&strangers));
    Ok(report)
}

fn one(bench: &Bench, spec: &Spec, (key, version): (Key, Version), seconds: f64) -> Result<Shown> {
    let watch = Watch::start();
    let server = Server::start(bench, spec, &Placement::default())?;
    let address = *server.secure.first().ok_or_else(|| Error::Failed("no address for TLS".into()))?;
    let length = Duration::from_secs_f64(seconds);
    let load = handshakes::Load {
        server: address,
        tls: client::settings(version, Resuming::Never)?,
        path: None,
        pace: Pace::AtATime(ENOUGH),
        until: Until::Time(length),
        threads: bench.machine.cores,
        cores: Vec::new(),
    };
    let most = handshakes::run(&load)?;
    if most.done == 0 {
        return Err(Error::Failed(most.complaint.unwrap_or_else(|| "no handshake".into())));
    }
    bench.say(&format!("{:12} {key}, {version}: {:.0}/s at most", spec.name, most.rate()));
    let mut levels = Vec::new();
    for level in LEVELS {
        let planned = most.rate() * level / 100.0;
        let pace = Pace::Rate { rate: planned, most: MOST };
        let kept = |server, tls| {
            Steady::prepare(steady::Pace { server, tls, path: OK_PATH, rate: RATE, connections: CONNECTIONS })
        };
        let (plain, tls) = (kept(server.address, None)?, kept(address, Some(load.tls.clone()))?);
        let flood = handshakes::start(&handshakes::Load { pace, until: Until::Time(SETTLE + length), ..load.clone() })?;
        interrupt::pause(SETTLE)?;
        let (plain, tls) = (plain.start(length)?, tls.start(length)?);
        let (flood, plain, tls) = (flood.finish()?, plain.finish()?, tls.finish()?);
        bench.say(&format!(
            "{:12} {level:.0} %: {:.0} of {planned:.0}/s; plain {}; TLS {}",
            spec.name,
            flood.rate(),
            plain.0,
            tls.0
        ));
        levels.push(Level { planned, flood, plain, tls });
    }
    let status = status::of(&server);
    server.stop();
    Ok(Shown { most, levels, status, strangers: watch.strangers() })
}

/// The servers that were measured at least once, nginx first.
fn measured(results: &Results) -> impl Iterator<Item = (&'static str, &[Option<Shown>])> {
    let list = |kind: Kind| Some((kind.name(), results.get(kind.name())?.as_slice()));
    let servers = [Kind::Nginx, Kind::Freerun].into_iter().filter_map(list);
    servers.filter(|(_, list)| list.iter().any(Option::is_some))
}

/// A figure of every round.
fn series(list: &[Option<Shown>], figure: impl Fn(&Shown) -> Option<f64>) -> Series {
    list.iter().flatten().filter_map(figure).collect()
}

/// The floods themselves.
fn table_of_handshakes(results: &Results, title: &str, cores: usize) -> Table {
    let head = [
        "server",
        "flood",
        "due/s",
        "handshakes/s",
        "× nginx",
        "handshake p50 ms",
        "p99 ms",
        "begun late p99 ms",
        "not begun %",
        "failed",
        "client's part of the machine %",
    ];
    let mut table = Table::new(format!("{title}: handshakes"), &head);
    for (name, list) in measured(results) {
        for level in std::iter::once(None).chain((0..LEVELS.len()).map(Some)) {
            let flood = |shown: &Shown| -> Option<Found> {
                match level {
                    None => Some(shown.most.clone()),
                    Some(level) => Some(shown.levels.get(level)?.flood.clone()),
                }
            };
            let rate = |shown: &Shown| Some(flood(shown)?.rate());
            let figure = |figure: &dyn Fn(&Found) -> Option<f64>| {
                short_or_nothing(series(list, |shown| figure(&flood(shown)?)).median())
            };
            table.row(vec![
                name.to_owned(),
                level.map_or_else(|| "at most".to_owned(), |level| format!("{} %", LEVELS[level])),
                short_or_nothing(series(list, |shown| Some(shown.levels.get(level?)?.planned)).median()),
                series(list, rate).cell(),
                short_or_nothing(ratio(results, name, &rate)),
                figure(&|flood| flood.handshakes.percentile_ms(50.0)),
                figure(&|flood| flood.handshakes.percentile_ms(99.0)),
                figure(&|flood| flood.late.percentile_ms(99.0)),
                figure(&|flood| level.map(|_| not_begun(flood))),
                figure(&|flood| Some(flood.failed as f64)),
                figure(&|flood| Some(flood.busy(cores))),
            ]);
        }
    }
    table
}

/// The clients that have their connections already.
fn table_of_others(results: &Results, title: &str) -> Table {
    let head = [
        "server",
        "flood",
        "plain p50 ms",
        "p99",
        "p99.9",
        "max",
        "TLS p50 ms",
        "p99",
        "p99.9",
        "max",
        "failed",
        "longest poll ms, all floods",
        "on a processor",
    ];
    let mut table = Table::new(format!("{title}: the others"), &head);
    for (name, list) in measured(results) {
        let longest = series(list, |shown| shown.status.as_ref()?.longest_poll_ms).max();
        let own = series(list, |shown| shown.status.as_ref()?.longest_stall_of_its_own_ms).max();
        for (index, level) in LEVELS.iter().enumerate() {
            let figure = |figure: &dyn Fn(&Level) -> Option<f64>| {
                short_or_nothing(series(list, |shown| figure(shown.levels.get(index)?)).median())
            };
            let percents = [50.0, 99.0, 99.9, 100.0];
            let mut row = vec![name.to_owned(), format!("{level} %")];
            row.extend(percents.map(|percent| figure(&|level| level.plain.0.percentile_ms(percent))));
            row.extend(percents.map(|percent| figure(&|level| level.tls.0.percentile_ms(percent))));
            row.push(figure(&|level| Some((level.plain.1 + level.tls.1) as f64)));
            row.push(short_or_nothing(longest));
            row.push(short_or_nothing(own));
            table.row(row);
        }
    }
    table
}

/// The part of a flood's handshakes that were due and did not begin, in percent.
fn not_begun(flood: &Found) -> f64 {
    flood.shed as f64 / (flood.shed + flood.done + flood.failed).max(1) as f64 * 100.0
}

/// The median of the rounds' ratios of a server's figure to nginx's.
fn ratio(results: &Results, name: &str, figure: &dyn Fn(&Shown) -> Option<f64>) -> Option<f64> {
    let pairs = results.get(name)?.iter().zip(results.get(Kind::Nginx.name())?);
    let ratios = pairs.filter_map(|(one, other)| Some(figure(one.as_ref()?)? / figure(other.as_ref()?)?));
    ratios.collect::<Series>().median()
}

fn goals(results: &Results, title: &str) -> Vec<Goal> {
    let own = results.get(Kind::Freerun.name()).map_or(&[][..], Vec::as_slice);
    let p99 = |level: usize, kind: fn(&Level) -> &Latencies| {
        series(own, |shown| kind(shown.levels.get(level)?).percentile_ms(99.0)).median()
    };
    let worst =
        (0..LEVELS.len()).flat_map(|level| [p99(level, |level| &level.plain.0), p99(level, |level| &level.tls.0)]);
    let worst: Series = worst.flatten().collect();
    let longest = series(own, |shown| shown.status.as_ref()?.longest_poll_ms);
    let last = LEVELS.iter().position(|level| *level == TOO_MUCH).unwrap_or_default();
    let rate = |figure: &dyn Fn(&Shown) -> Option<f64>| ratio(results, Kind::Freerun.name(), figure);
    let most = rate(&|shown| Some(shown.most.rate()));
    let flooded = rate(&|shown| Some(shown.levels.get(last)?.flood.rate()));
    vec![
        Goal::at_most(
            format!("{title}: p99 of the others at most {GOAL_P99_MS} ms, plain and TLS, in every flood"),
            worst.max(),
            GOAL_P99_MS,
        ),
        Goal::at_most(
            format!("{title}: no stall over {GOAL_STALL_MS} ms (longest poll)"),
            longest.max(),
            GOAL_STALL_MS,
        ),
        Goal::at_least(format!("{title}: at least as many handshakes/s as nginx, without other load"), most, 1.0),
        Goal::at_least(format!("{title}: at least as many handshakes/s as nginx, flood of {TOO_MUCH} %"), flooded, 1.0),
    ]
}

/// The first failure, if anything failed.
fn complaints(results: &Results, title: &str) -> Vec<String> {
    let complaint = |(name, list): (&str, &[Option<Shown>])| {
        let mut floods =
            list.iter().flatten().flat_map(|shown| shown.levels.iter().map(|level| &level.flood).chain([&shown.most]));
        let text = floods.find_map(|flood| flood.complaint.clone())?;
        Some(format!("{name}, {title}: some handshakes failed, the first with: {text}"))
    };
    measured(results).filter_map(complaint).collect()
}
