//! Thousands of servers, each with a certificate of its own: how long reading them takes, what memory they take, and how long
//! after a reload a changed one is shown.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::client::{self, Resuming, Version};
use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::error::{Doing, Error, Result};
use crate::interrupt::{check, pause, wait_for};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Certificate, Kind, Spec};
use crate::stats::Series;

/// The server whose certificate changes.
const CHANGED: usize = 7;
/// The time that a handshake or a reload may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest reload, in milliseconds.
const GOAL_MS: f64 = 500.0;

/// The figures of one server.
#[derive(Default)]
struct Found {
    check_ms: Series,
    start_mib: Series,
    reload_ms: Series,
    reloaded_mib: Series,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (count, rounds) = (if bench.options.quick { 100 } else { 3_000 }, bench.options.runs(5));
    let openssl = bench.machine.program("openssl")?;
    let folder = bench.scratch.folder("names")?;
    let mut files = Vec::with_capacity(count);
    for index in 0..count {
        check()?;
        let own = bench.scratch.folder(&format!("names/{index}"))?;
        files.push(certificates::make(openssl, &own, Key::EcdsaP256)?);
    }
    let spec = |kind| Spec { whole: Some(text(&files, bench)), ..Spec::new(kind, "", &folder) };
    let mut report = Report {
        name: "tls-names",
        method: format!(
            "{count} servers at one address, each with a certificate of its own (ECDSA P-256, self-signed); {rounds} rounds, servers in \
             turn. `-t`: the time of the process. Memory: PSS of all processes, a second after the start and after the reloads of the \
             round. Reload: one certificate and its key are replaced; from SIGHUP until a handshake shows the new one. {} workers. ",
            bench.machine.cores
        ),
        ..Report::default()
    };
    let kinds = [Kind::Nginx, Kind::Freerun].map(|kind| (spec(kind), Found::default()));
    let mut kinds: Vec<_> = kinds.into_iter().filter(|(spec, _)| bench.options.wants(&spec.name)).collect();
    let mut disturbed = Vec::new();
    for _ in 0..rounds {
        for (spec, found) in &mut kinds {
            let watch = Watch::start();
            match one(bench, spec, &files[CHANGED], found) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
                Ok(()) => disturbed.push(watch.strangers()),
            }
        }
    }
    report.notes.extend(crate::grid::disturbance(&disturbed));
    let head = ["server", "`-t` ms", "PSS after the start MiB", "reload seen after ms", "PSS after reloads MiB"];
    let mut table = Table::new(format!("{count} certificates"), &head);
    for (spec, found) in &kinds {
        let Found { check_ms, start_mib, reload_ms, reloaded_mib } = found;
        let cells = [check_ms, start_mib, reload_ms, reloaded_mib].map(Series::cell);
        table.row(std::iter::once(spec.name.clone()).chain(cells).collect());
    }
    report.tables.push(table);
    report.goals = goals(&kinds);
    Ok(report)
}

fn goals(kinds: &[(Spec, Found)]) -> Vec<Goal> {
    let of = |kind| kinds.iter().find(|(spec, _)| spec.kind == kind).map(|(_, found)| found);
    let (nginx, freerun) = (of(Kind::Nginx), of(Kind::Freerun));
    let ratio = |figure: fn(&Found) -> &Series| Some(figure(freerun?).median()? / figure(nginx?).median()?);
    vec![
        Goal::at_most("`-t` takes no longer than nginx's", ratio(|found| &found.check_ms), 1.0),
        Goal::at_most("memory after the start at most nginx's", ratio(|found| &found.start_mib), 1.0),
        Goal::at_most("memory after reloads at most nginx's", ratio(|found| &found.reloaded_mib), 1.0),
        Goal::at_most(
            format!("a reload is seen after at most {GOAL_MS} ms"),
            freerun.and_then(|found| found.reload_ms.median()),
            GOAL_MS,
        ),
    ]
}

/// The configuration of all servers.
fn text(files: &[Certificate], bench: &Bench) -> String {
    let mut servers = String::new();
    for (index, files) in files.iter().enumerate() {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        // Writing to a string does not fail.
        let _ = writeln!(
            servers,
            "server {{ listen @ADDRESS@ ssl; server_name n{index}.test; ssl_certificate {certificate}; \
             ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; return 200 {index}; }}"
        );
    }
    format!(
        "worker_processes {};\nevents {{ }}\nhttp {{\naccess_log off;\nserver_names_hash_max_size 16384;\n@TEMPORARY@{servers}}}\n",
        bench.machine.cores
    )
}

fn one(bench: &Bench, spec: &Spec, changed: &Certificate, found: &mut Found) -> Result<()> {
    let server = Server::start(bench, spec, &Placement::default())?;
    let tls = client::settings(Version::Tls13, Resuming::Never)?;
    pause(Duration::from_secs(1))?;
    found.start_mib.push(mib(&server));
    found.check_ms.push(checked(bench, &server)?);
    for _ in 0..3 {
        let before = shown(server.address, &tls).doing("shake hands")?;
        replace(bench.machine.program("openssl")?, changed)?;
        let begin = Instant::now();
        server.reload()?;
        let seen = wait_for(LIMIT, Duration::from_millis(2), || {
            Ok(shown(server.address, &tls).ok().filter(|now| *now != before))
        })?;
        let after = begin.elapsed();
        if seen.is_none() {
            return Err(Error::Failed("a reload was not seen".into()));
        }
        found.reload_ms.push(after.as_secs_f64() * 1000.0);
        pause(Duration::from_secs(1))?;
    }
    found.reloaded_mib.push(mib(&server));
    bench.say(&format!("{:8} -t {}, reload {}", spec.name, found.check_ms.cell(), found.reload_ms.cell()));
    server.stop();
    Ok(())
}

fn mib(server: &Server) -> f64 {
    server.process.memory().pss as f64 / f64::from(1 << 20)
}

/// The time that the program takes to check the server's configuration, in milliseconds.
fn checked(bench: &Bench, server: &Server) -> Result<f64> {
    let program = bench.program(server.spec.kind)?;
    let place = |name: &str| server.folder.join(name);
    let mut command = Command::new(&program);
    command
        .arg("-t")
        .arg("-c")
        .arg(place("nginx.conf"))
        .arg("-p")
        .arg(&server.folder)
        .arg("-e")
        .arg(place("error.log"));
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output().doing(program.display())?;
    let time = begin.elapsed();
    match output.status.success() {
        true => Ok(time.as_secs_f64() * 1000.0),
        false => Err(Error::Failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Puts another certificate and key in the place of these, each file at once.
fn replace(openssl: &Path, files: &Certificate) -> Result<()> {
    let new: PathBuf = files.certificate.with_file_name("new");
    fs::create_dir_all(&new).doing(new.display())?;
    let made = certificates::make(openssl, &new, Key::EcdsaP256)?;
    fs::rename(&made.key, &files.key).doing(files.key.display())?;
    fs::rename(&made.certificate, &files.certificate).doing(files.certificate.display())
}

/// The certificate that the server with the changing one shows.
fn shown(address: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let name = ServerName::try_from(format!("n{CHANGED}.test"))
        .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    let mut session = ClientConnection::new(tls.clone(), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    let first = session.peer_certificates().and_then(<[_]>::first);
    first.map(|first| first.to_vec()).ok_or_else(|| io::Error::from(ErrorKind::InvalidData))
}
