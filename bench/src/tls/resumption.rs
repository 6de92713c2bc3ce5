//! The share of connections that resume a session of another worker, or a session from before a reload.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::client::{self, SessionUse, Sessions, TlsVersion};
use super::handshakes::{self, HandshakeFigures, LoadEnd};
use crate::bench::Bench;
use crate::certificates::Key;
use crate::client::Client;
use crate::configs::{GENERATION_PATH, OK_PATH};
use crate::error::{Error, Result};
use crate::interrupt::wait_for;
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::Series;
use crate::status;

/// Of nginx's documentation: a cache that all workers share, of 4,000 sessions for each megabyte.
const SESSION_CACHE: &str = "ssl_session_cache shared:bench:10m;\n";
/// Worker processes or event loops.
const WORKERS: usize = 4;
/// Sessions that are there before a reload.
const SESSIONS: usize = 200;
/// Connections at a time.
const AT_A_TIME: usize = 16;
/// The time that a reload may take to be seen, and the former workers to end.
const LIMIT: Duration = Duration::from_secs(10);
/// The least part of connections that resume a session, in percent.
const GOAL: f64 = 99.0;

/// The server's store of sessions: name, lines of `http`.
const PLACES: [(&str, &str); 2] = [("tickets", ""), ("the server's cache", "ssl_session_tickets off;\n")];

/// Adds the table and the goals to `report`.
pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let (rounds, count) = (bench.options.runs(1), if bench.options.quick { 400 } else { 4_000 });
    report.method += &format!(
        "Sessions: {WORKERS} workers, which share the connections evenly (`reuseport`); {SESSIONS} connections with full handshakes, then \
         {count} that resume the sessions, each of them once; then {SESSIONS} after a reload with those from before it."
    );
    let head = ["server", "version", "sessions in", "resumed %", "resumed after a reload %", "failed"];
    let mut table = Table::new(format!("sessions, {WORKERS} workers"), &head);
    let mut own = [Series::default(), Series::default()];
    for version in [TlsVersion::Tls13, TlsVersion::Tls12] {
        for (place, lines) in PLACES {
            let http = format!("{SESSION_CACHE}{lines}");
            let specs = super::specs(bench, &[Key::EcdsaP256], &http)?;
            for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
                let spec = Spec { reuseport: true, ..spec.clone().workers(WORKERS) };
                let (mut resumed, mut later, mut failed) = (Series::default(), Series::default(), 0);
                for _ in 0..rounds {
                    match one(bench, &spec, version, count) {
                        Ok((before, after)) => {
                            resumed.push(before.resumed_share());
                            later.push(after.resumed_share());
                            failed += before.failed + after.failed;
                        }
                        Err(Error::Interrupted) => return Err(Error::Interrupted),
                        Err(error) => report.notes.push(format!("{}, sessions in {place}: {error}", spec.name)),
                    }
                }
                if spec.kind == Kind::Freerun {
                    // The worst of all cases.
                    own[0].extend(resumed.min());
                    own[1].extend(later.min());
                }
                if resumed.median().is_some() {
                    let name = [spec.name.clone(), version.to_string(), place.to_owned()];
                    table.row([name.to_vec(), vec![resumed.cell(), later.cell(), failed.to_string()]].concat());
                }
            }
        }
    }
    report.tables.push(table);
    for (text, series) in ["resumed sessions, % of connections", "the same after a reload"].into_iter().zip(&own) {
        report.goals.push(Goal::at_least(format!("{text}, at least {GOAL}"), series.min(), GOAL));
    }
    Ok(())
}

/// The results of connections before and after a reload.
fn one(bench: &Bench, spec: &Spec, version: TlsVersion, count: usize) -> Result<(HandshakeFigures, HandshakeFigures)> {
    let server = Server::start(bench, spec, &Placement::default())?;
    let sessions = Arc::<Sessions>::default();
    let load = |resuming, count| -> Result<handshakes::HandshakeLoad> {
        Ok(handshakes::HandshakeLoad {
            server: *server.secure.first().ok_or_else(|| Error::Failed("no address for TLS".into()))?,
            tls: client::settings(version, resuming)?,
            path: OK_PATH.to_owned(),
            at_a_time: AT_A_TIME,
            until: LoadEnd::Count(count),
            threads: 1,
            cores: Vec::new(),
        })
    };
    handshakes::run(&load(SessionUse::Later(&sessions), SESSIONS)?)?;
    if sessions.count() < SESSIONS {
        return Err(Error::Failed(format!("{} sessions of {SESSIONS} connections", sessions.count())));
    }
    let before = handshakes::run(&load(SessionUse::Now(&sessions), count)?)?;
    if let Some(status) = status::of(&server)
        && status.accepted.contains(&0)
    {
        return Err(Error::Failed(format!("the loops accepted {:?} connections", status.accepted)));
    }
    reload(bench, &server)?;
    if sessions.count() < SESSIONS {
        return Err(Error::Failed(format!("{} sessions were left before the reload", sessions.count())));
    }
    let after = handshakes::run(&load(SessionUse::Now(&sessions), SESSIONS)?)?;
    bench.say(&format!(
        "{:12} {version}: {:.1} % resumed, {:.1} % after a reload",
        spec.name,
        before.resumed_share(),
        after.resumed_share()
    ));
    server.stop();
    Ok((before, after))
}

/// Has the server read its configuration again, and waits until nothing of the former one takes connections. freerun's
/// worker stays, and answers each request as the newest configuration says.
fn reload(bench: &Bench, server: &Server) -> Result<()> {
    let mut former = BTreeSet::new();
    if server.spec.kind == Kind::Nginx {
        former.extend(server.workers());
    }
    server.rewrite(bench, 1)?;
    server.reload()?;
    let changed = wait_for(LIMIT, Duration::from_millis(50), || {
        let reply = Client::connect(server.address, None, LIMIT).and_then(|mut client| client.get(GENERATION_PATH));
        let new = reply.is_ok_and(|reply| reply.body == b"1");
        Ok((new && server.workers().iter().all(|pid| !former.contains(pid))).then_some(()))
    })?;
    changed.ok_or_else(|| Error::Failed("the configuration is not read again, or former workers stay".into()))
}
