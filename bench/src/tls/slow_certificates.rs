//! Certificates whose names have variables, on a disk that is slow: does an uninvolved request wait?

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::client::{self, Resuming, Version};
use super::handshakes::{self, Until};
use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::configs::OK_PATH;
use crate::error::{Doing, Error, Result};
use crate::fixture::{self, Fixture};
use crate::grid::disturbance;
use crate::interrupt::pause;
use crate::probe::{self, Pace};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Certificate, Kind, Spec};
use crate::stats::{Latencies, Series};

/// The time that the way to a file takes, in milliseconds.
const DELAY_MS: u32 = 200;
/// Handshakes at a time.
const AT_A_TIME: usize = 8;
/// Uninvolved requests a second.
const RATE: f64 = 50.0;
/// The largest p99 of the uninvolved request, in milliseconds.
const GOAL_MS: f64 = 10.0;

/// The figures of one server.
struct Found {
    latencies: Latencies,
    failed: usize,
    handshakes: f64,
    strangers: f64,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(3), bench.options.seconds(4.0, 10.0));
    let program = fixture::program()?;
    let commands = ["file way/there 1".to_owned(), format!("delay lookup {DELAY_MS} way")];
    let fixture = Fixture::mount(bench, &program, &commands)?;
    let files = files(bench, &fixture.path)?;
    let root = bench.scratch.folder("data")?;
    let spec = |kind| Spec { secure: vec![files.clone()], ..Spec::new(kind, "", &root) };
    let mut report = Report {
        name: "tls-slow-certificates",
        method: format!(
            "`ssl_certificate` and its key with `$ssl_server_name` in their names, on a FUSE file system on which each open takes \
             {DELAY_MS} ms; {AT_A_TIME} clients at a time shake hands, another asks for `return 200` without TLS {RATE} times a second for \
             {seconds} s (each at its time, whether the former were answered or not). One worker, pinned to one core; {rounds} round(s), a \
             fresh server each."
        ),
        ..Report::default()
    };
    let head = ["server", "p50 ms", "p99 ms", "max ms", "not answered", "handshakes/s"];
    let mut table = Table::new("", &head);
    for spec in [spec(Kind::Nginx), spec(Kind::Freerun)].iter().filter(|spec| bench.options.wants(&spec.name)) {
        let mut all = Vec::new();
        for _ in 0..rounds {
            match one(bench, spec, seconds) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
                Ok(found) => all.push(found),
            }
        }
        let series =
            |percent| -> Series { all.iter().filter_map(|found| found.latencies.percentile_ms(percent)).collect() };
        if spec.kind == Kind::Freerun {
            let text = format!("p99 of the uninvolved request at most {GOAL_MS} ms");
            report.goals.push(Goal::at_most(text, series(99.0).median(), GOAL_MS));
        }
        let strangers: Vec<f64> = all.iter().map(|found| found.strangers).collect();
        report.notes.extend(disturbance(&strangers).map(|note| format!("{}: {note}", spec.name)));
        table.row(vec![
            spec.name.clone(),
            series(50.0).cell(),
            series(99.0).cell(),
            series(100.0).cell(),
            all.iter().map(|found| found.failed).sum::<usize>().to_string(),
            all.iter().map(|found| found.handshakes).collect::<Series>().cell(),
        ]);
    }
    report.tables.push(table);
    Ok(report)
}

/// The names of a certificate and its key, which lead over the slow file system. The workers' user may read both.
fn files(bench: &Bench, slow: &Path) -> Result<Certificate> {
    let Some(name) = handshake_name() else { return Err(Error::Setup("the client's name is no host's".into())) };
    let folder = bench.scratch.folder(&format!("computed/{name}"))?;
    let made = certificates::make(bench.machine.program("openssl")?, &folder, Key::EcdsaP256)?;
    fs::set_permissions(&made.key, Permissions::from_mode(0o644)).doing(made.key.display())?;
    // The fixture's files have contents of its own, so the way leads through one of its folders and back to the disk. The
    // kernel asks the file system for that folder each time.
    let way = slow.join("way");
    let up = way.components().filter(|part| matches!(part, Component::Normal(_))).map(|_| "..").collect::<PathBuf>();
    let through = |file: &Path| {
        let named = file.display().to_string().replace(&format!("computed/{name}/"), "computed/$ssl_server_name/");
        way.join(&up).join(named.trim_start_matches('/'))
    };
    Ok(Certificate { certificate: through(&made.certificate), key: through(&made.key) })
}

/// The name that the client asks for.
fn handshake_name() -> Option<String> {
    match client::name() {
        rustls::pki_types::ServerName::DnsName(name) => Some(name.as_ref().to_owned()),
        _ => None,
    }
}

fn one(bench: &Bench, spec: &Spec, seconds: f64) -> Result<Found> {
    let (cores, client_cores) = bench.machine.pair();
    let watch = Watch::start();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    let length = Duration::from_secs_f64(seconds);
    let probe = probe::prepare(server.address, Pace { path: OK_PATH.into(), rate: RATE, length })?;
    let load = handshakes::Load {
        server: server.secure[0],
        tls: client::settings(Version::Tls13, Resuming::Never)?,
        path: None,
        pace: handshakes::Pace::AtATime(AT_A_TIME),
        until: Until::Time(length + Duration::from_secs(1)),
        threads: 1,
        cores: client_cores,
    };
    let running = handshakes::start(&load)?;
    let waited = pause(Duration::from_millis(500));
    let (latencies, failed) = probe.start()?.finish();
    let found = running.finish()?;
    waited?;
    let strangers = watch.strangers();
    bench.say(&format!("{:8} {latencies}, {} handshakes", spec.name, found.done));
    server.stop();
    if found.done == 0 {
        return Err(Error::Failed(found.complaint.unwrap_or_else(|| "no handshake".into())));
    }
    Ok(Found { latencies, failed, handshakes: found.done as f64 / found.time.as_secs_f64(), strangers })
}
