//! The cost of TLS: handshakes, requests on kept connections, idle connections, and the share of resumed sessions.

pub mod client;
mod connection;
pub mod handshakes;
mod idle;
pub mod poller;
mod resumption;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::{SessionUse, Sessions, TlsVersion};
use handshakes::LoadEnd;

use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::configs::OK_PATH;
use crate::error::{Error, Result};
use crate::grid::{Grid, Sample, Work};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::{Series, short_or_nothing};
use crate::warm;
use crate::wrk::{self, Target, WrkOutcome};

/// The keys of the servers, in the order of [`Server::secure`].
const KEYS: [Key; 2] = [Key::Rsa2048, Key::EcdsaP256];
/// Which of them serves what is not about keys.
const ECDSA: usize = 1;
/// Connections at a time where each has one request.
const AT_A_TIME: usize = 32;
/// Full handshakes before resumed ones are measured, so that each connection has a session.
const FILLING: usize = 2 * AT_A_TIME;
/// The least part of handshakes, in percent, that has to be of the kind that a case is about.
const OF_A_KIND: f64 = 99.0;
/// Above this part of its core, in percent, the client has been the limit of a rate.
const CLIENT_LIMIT: f64 = 95.0;

/// A request on each connection: name, index of the key, version, whether sessions are resumed, path, the largest ratio
/// of CPU times.
const ONE_REQUEST: [(&str, usize, TlsVersion, bool, &str, f64); 5] = [
    ("full handshake, RSA-2048", 0, TlsVersion::Tls13, false, OK_PATH, 0.9),
    ("full handshake, ECDSA P-256", ECDSA, TlsVersion::Tls13, false, OK_PATH, 0.7),
    ("resumed TLS 1.3", ECDSA, TlsVersion::Tls13, true, OK_PATH, 0.7),
    ("resumed TLS 1.2", ECDSA, TlsVersion::Tls12, true, OK_PATH, 0.7),
    ("resumed TLS 1.3, 1 KB", ECDSA, TlsVersion::Tls13, true, "/1k.bin", 0.8),
];

/// Files on kept connections: name, path, size, connections, the largest ratio of CPU times.
const KEPT: [(&str, &str, u64, usize, f64); 3] = [
    ("1 KB", "/1k.bin", 1_000, 32, 0.75),
    ("100 KB", "/100k.bin", 100_000, 16, 1.0),
    ("4 MB", "/4m.bin", 4_000_000, 8, 1.0),
];

/// A load.
enum TlsCase {
    /// wrk on kept connections.
    Kept(wrk::WrkLoad),
    /// A request on each connection, and where sessions are resumed, the load that fills the store with them.
    Each(handshakes::HandshakeLoad, Option<(Arc<Sessions>, handshakes::HandshakeLoad)>),
}

impl Work for TlsCase {
    fn prepare(&self) -> Result<()> {
        if let TlsCase::Each(_, Some((sessions, filling))) = self
            && sessions.count() < FILLING
        {
            handshakes::run(filling)?;
        }
        Ok(())
    }

    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome> {
        let (load, filling) = match self {
            TlsCase::Kept(load) => return load.run(bench, server),
            TlsCase::Each(load, filling) => (load, filling),
        };
        let found = handshakes::run(load)?;
        if found.done == 0 {
            return Err(Error::Failed(found.complaint.unwrap_or_else(|| "no handshake".into())));
        }
        let of_a_kind = if filling.is_some() { found.resumed_share() } else { 100.0 - found.resumed_share() };
        if of_a_kind < OF_A_KIND {
            return Err(Error::Failed(format!("only {of_a_kind:.1} % of the handshakes were of the wanted kind")));
        }
        let latency = |percent| found.handshakes.percentile_ms(percent).unwrap_or(f64::NAN);
        Ok(WrkOutcome {
            requests: found.done as f64,
            seconds: found.time.as_secs_f64(),
            errors: found.failed as f64,
            p50_ms: latency(50.0),
            p99_ms: latency(99.0),
            client: Some(found.busy(load.cores.len())),
            ..WrkOutcome::default()
        })
    }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (_, path, size, ..) in KEPT {
        bench.scratch.file(path.trim_start_matches('/'), size)?;
    }
    let specs = specs(bench, &KEYS, "")?;
    let (server_cores, client_cores) = bench.machine.pair();
    let (servers, mut notes) = start_all(bench, &specs, &Placement { cores: server_cores, cgroups: Vec::new() })?;
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, |server| match cases(server, seconds, &client_cores) {
        Ok(cases) => cases,
        Err(error) => {
            bench.say(&format!("{}: {error}", server.spec.name));
            Vec::new()
        }
    })?;
    let mut report = Report {
        name: "tls",
        method: format!(
            "One worker pinned to one core, the client with one thread pinned to the other; {rounds} rounds of {seconds} s, servers in \
             turn. Handshakes: {AT_A_TIME} connections at a time of a client of our own (rustls, with X25519 and AES-128-GCM; it verifies \
             nothing), each with one request and `Connection: close`; its latency is that of connecting and shaking hands. Kept \
             connections: wrk with OpenSSL, TLS 1.3, ECDSA P-256. "
        ),
        ..Report::default()
    };
    for (case, ..) in ONE_REQUEST {
        report.tables.push(table_of_connections(&grid, &servers, case));
    }
    for (case, _, _, connections, _) in KEPT {
        report.tables.push(warm::table(&grid, &servers, case, &format!("{case}, {connections} kept connections")));
    }
    report.goals = goals(&grid);
    notes.extend(limited_by_client(&grid, &servers));
    report.notes = notes;
    // Idle connections and sessions are measured with servers of their own.
    drop(servers);
    idle::run(bench, &mut report)?;
    resumption::run(bench, &mut report)?;
    Ok(report)
}

/// nginx and freerun with certificates of these kinds, and lines of `http`.
fn specs(bench: &Bench, keys: &[Key], http: &str) -> Result<Vec<Spec>> {
    let root = bench.scratch.folder("data")?;
    let secure = keys.iter().map(|key| certificates::prepare(bench, *key)).collect::<Result<Vec<_>>>()?;
    let spec = |kind| Spec { secure: secure.clone(), http: http.to_owned(), ..Spec::new(kind, "", &root) };
    Ok([Kind::Nginx, Kind::Freerun].map(spec).to_vec())
}

fn cases(server: &Server, seconds: f64, cores: &[usize]) -> Result<Vec<(String, TlsCase)>> {
    let mut cases = Vec::new();
    for (name, key, version, resumed, path, _) in ONE_REQUEST {
        let sessions = resumed.then(Arc::<Sessions>::default);
        let resuming = sessions.as_ref().map_or(SessionUse::Never, SessionUse::Now);
        let load = handshakes::HandshakeLoad {
            server: server.secure[key],
            tls: client::settings(version, resuming)?,
            path: path.to_owned(),
            at_a_time: AT_A_TIME,
            until: LoadEnd::Time(std::time::Duration::from_secs_f64(seconds)),
            threads: 1,
            cores: cores.to_vec(),
        };
        let filling = match sessions {
            Some(sessions) => {
                let tls = client::settings(version, SessionUse::Later(&sessions))?;
                let filling = handshakes::HandshakeLoad { tls, until: LoadEnd::Count(FILLING), ..load.clone() };
                Some((sessions, filling))
            }
            None => None,
        };
        cases.push((name.to_owned(), TlsCase::Each(load, filling)));
    }
    for (name, path, _, connections, _) in KEPT {
        let load = wrk::WrkLoad {
            threads: 1,
            connections,
            seconds,
            target: Target::Secure(server.secure[ECDSA], path.to_owned()),
            close: false,
            cores: cores.to_vec(),
        };
        cases.push((name.to_owned(), TlsCase::Kept(load)));
    }
    Ok(cases)
}

fn table_of_connections(grid: &Grid, servers: &[Server], case: &str) -> Table {
    let head = [
        "server",
        "CPU µs/connection",
        "× nginx",
        "connections/s",
        "× nginx",
        "handshake p50 ms",
        "p99 ms",
        "client's core %",
    ];
    let mut table = Table::new(case, &head);
    for name in warm::names(grid, servers, case) {
        let mut row = warm::cells(grid, name, case);
        row.push(short_or_nothing(client_busy(grid, name, case)));
        table.row(row);
    }
    table
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

fn client_busy(grid: &Grid, server: &str, case: &str) -> Option<f64> {
    let busy: Series = grid.series(server, case, |sample| sample.outcome.client.unwrap_or(f64::NAN));
    busy.median()
}

/// A note that names the cases whose rate says more about the client than about the server.
fn limited_by_client(grid: &Grid, servers: &[Server]) -> Option<String> {
    let all = servers.iter().flat_map(|server| ONE_REQUEST.map(|(case, ..)| (server.spec.name.as_str(), case)));
    let limited: Vec<String> = all
        .filter(|(server, case)| client_busy(grid, server, case).is_some_and(|busy| busy > CLIENT_LIMIT))
        .map(|(server, case)| format!("{server} ({case})"))
        .collect();
    (!limited.is_empty()).then(|| format!("the client's core was the limit of these rates: {}", limited.join(", ")))
}

fn goals(grid: &Grid) -> Vec<Goal> {
    let each = ONE_REQUEST.map(|(case, .., limit)| (case, "connection", limit));
    let kept = KEPT.map(|(case, .., limit)| (case, "request", limit));
    let goal = |(case, what, limit): (&str, &str, f64)| {
        let text = format!("{case}: CPU per {what} at most {limit} times nginx's");
        Goal::at_most(text, grid.ratio("freerun", "nginx", case, cpu), limit)
    };
    each.into_iter().chain(kept).map(goal).collect()
}
