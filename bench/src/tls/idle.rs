//! The memory of idle connections over TLS.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::client::{self, SessionUse, TlsVersion};
use super::connection::{BenchConnection, PIECE};
use super::poller::Poller;
use crate::bench::Bench;
use crate::certificates::Key;
use crate::connections::{Growth, settled};
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::{Placement, raise_limit};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::Spec;
use crate::stats::{Series, short_or_nothing};

/// The request of each connection before it is idle.
const FILE: &str = "/20k.bin";
/// Its size.
const SIZE: u64 = 20_000;
/// Threads that open connections.
const OPENERS: usize = 4;
/// The time that one answer may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Connections a server may hold.
const CONNECTIONS: usize = 16_384;
/// Descriptors this process needs besides the idle connections.
const SPARE: u64 = 200;
/// The largest memory of a connection, in KiB.
const GOAL: f64 = 5.0;

/// Adds the table and the goals to `report`.
pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = if bench.options.quick { 1_000 } else { 10_000 };
    let rounds = bench.options.runs(3);
    let open_files = raise_limit()?;
    if open_files < count as u64 + SPARE {
        let needed = count as u64 + SPARE;
        let text = format!("{count} connections need {needed} open files, the limit is {open_files}: ulimit -n");
        return Err(Error::Setup(text));
    }
    bench.scratch.file(FILE.trim_start_matches('/'), SIZE)?;
    report.method += &format!(
        "Idle connections: {count} have one answer of 20 KB each and stay open; growth of the memory of the server's processes that is \
         written to and belongs to one of them alone, measured when it no longer changes, against the server after some such \
         connections; {rounds} rounds with a fresh server each. "
    );
    let mut table = Table::new(
        format!("{count} idle connections"),
        &["server", "version", "private KiB/connection", "PSS KiB/connection", "RSS KiB/connection"],
    );
    for version in [TlsVersion::Tls13, TlsVersion::Tls12] {
        let mut own = None;
        for spec in super::specs(bench, &[Key::EcdsaP256], "")?.iter().filter(|spec| bench.options.wants(&spec.name)) {
            let spec = Spec { connections: CONNECTIONS, ..spec.clone() };
            let mut found = Vec::new();
            for _ in 0..rounds {
                match grow(bench, &spec, version, count) {
                    Ok(growth) => found.push(growth),
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => report.notes.push(format!("{}, idle connections: {error}", spec.name)),
                }
            }
            if found.is_empty() {
                continue;
            }
            let series = |figure: &dyn Fn(&Growth) -> f64| found.iter().map(figure).collect::<Series>();
            let private = series(&|growth| growth.each(|memory| memory.private_dirty) / 1024.0);
            if spec.name == "freerun" {
                own = private.median();
            }
            table.row(vec![
                spec.name.clone(),
                version.to_string(),
                private.cell(),
                short_or_nothing(series(&|growth| growth.each(|memory| memory.pss) / 1024.0).median()),
                short_or_nothing(series(&|growth| growth.each(|memory| memory.rss) / 1024.0).median()),
            ]);
        }
        let text = format!("KiB of each idle connection, {version}, at most {GOAL}");
        report.goals.push(Goal::at_most(text, own, GOAL));
    }
    report.tables.push(table);
    Ok(())
}

fn grow(bench: &Bench, spec: &Spec, version: TlsVersion, count: usize) -> Result<Growth> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    let address = *server.secure.first().ok_or_else(|| Error::Failed("no address for TLS".into()))?;
    let tls = client::settings(version, SessionUse::Never)?;
    drop(open(address, &tls, 64)?);
    let before = settled(&server)?;
    let connections = open(address, &tls, count)?;
    let with = settled(&server)?;
    let growth = Growth { before, with, count: connections.len() };
    let each = growth.each(|memory| memory.private_dirty) / 1024.0;
    bench.say(&format!("{:12} {version}, {count} idle connections: {each:.2} KiB each", spec.name));
    server.stop();
    Ok(growth)
}

/// Opens connections, each with one answer. Their TLS ends with that on this side, which keeps the sockets alone.
fn open(server: SocketAddr, tls: &Arc<ClientConfig>, count: usize) -> Result<Vec<TcpStream>> {
    let opener = |index: usize| {
        let share = (count + OPENERS - 1 - index) / OPENERS;
        let tls = Arc::clone(tls);
        thread::spawn(move || -> Result<Vec<TcpStream>> {
            let poller = Poller::new().doing("prepare clients")?;
            let source = Ipv4Addr::new(127, 0, 0, 2 + index as u8);
            let open = |_| {
                interrupt::check()?;
                ask(server, source, &tls, &poller).doing("an answer over TLS")
            };
            (0..share).map(open).collect()
        })
    };
    let threads: Vec<_> = (0..OPENERS).map(opener).collect();
    let mut all = Vec::with_capacity(count);
    for thread in threads {
        all.extend(thread.join().map_err(|_| Error::Failed("a client panicked".into()))??);
    }
    Ok(all)
}

/// A connection, after its answer.
fn ask(server: SocketAddr, source: Ipv4Addr, tls: &Arc<ClientConfig>, poller: &Poller) -> io::Result<TcpStream> {
    let mut connection = BenchConnection::open(server, Some(source), Some(tls))?;
    poller.add(connection.socket(), 0)?;
    connection.send(format!("GET {FILE} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?;
    let (end, mut ready, mut buffer) = (Instant::now() + LIMIT, Vec::new(), vec![0; PIECE]);
    loop {
        poller.wait(end.saturating_duration_since(Instant::now()), &mut ready)?;
        connection.advance(false, &mut buffer)?;
        match connection.take_status() {
            Some(200) => return Ok(connection.into_socket()),
            Some(status) => return Err(io::Error::other(format!("answered {status}"))),
            None if connection.has_ended() => return Err(ErrorKind::UnexpectedEof.into()),
            None if Instant::now() >= end => return Err(ErrorKind::TimedOut.into()),
            None => {}
        }
    }
}
