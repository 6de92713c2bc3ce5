//! A burst of clients' first packets, which a loop gets at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

use super::client::{ClientSettings, H3Connection};
use super::wire::{self, Wire};
use super::{FREERUN, SMALL, WINDOW};
use crate::bench::Bench;
use crate::configs::STATUS_PATH;
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt::{pause, wait_for};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::Kind;
use crate::stats::{short, short_or_nothing};
use crate::status;
use crate::tls::client::{self, SessionUse, TlsVersion};

/// Number of clients, and of first packets that leave as one run.
const CLIENTS: usize = 1_000;
const RUN: usize = 50;

/// The time until all connections have begun.
const LIMIT: Duration = Duration::from_secs(10);

/// The time above which a turn of a loop is a stall, in milliseconds.
const STALL: f64 = 10.0;

/// Adds the table and the goal to `report`.
pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.options.wants(FREERUN) {
        return Ok(());
    }
    report.method += &format!(
        "Burst: freerun is stopped (SIGSTOP) while {CLIENTS} first packets of as many clients come in runs of {RUN}, and goes on \
         then (`rcvbuf=4m`); the longest stall is that of a turn of its loop that took over {STALL} ms, without the time for which it \
         had no processor. "
    );
    let mut spec = super::spec(bench, Kind::Freerun, "", "")?;
    spec.whole = spec.whole.map(|text| text.replace(" quic;", " quic rcvbuf=4m;"));
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, &spec, &Placement { cores, cgroups: Vec::new() })?;
    let (runs, _clients) = first_packets(server.address)?;
    // The first request of all.
    figures(server.address)?;
    signal(&server, Signal::STOP)?;
    let mut wire = Wire::new();
    let socket = wire::socket(server.address, None).doing("a socket")?;
    for run in &runs {
        wire.output.clone_from(run);
        wire.send(&socket, run.len(), Some(run.len() / RUN));
    }
    pause(Duration::from_millis(100))?;
    signal(&server, Signal::CONT)?;
    let begun = |figures: &Value| figures.pointer("/quic/connections").and_then(Value::as_u64).unwrap_or(0);
    let begin = Instant::now();
    let all = wait_for(LIMIT, Duration::from_millis(20), || {
        let figures = figures(server.address)?;
        Ok((begun(&figures) >= CLIENTS as u64).then(|| (begin.elapsed(), figures)))
    })?;
    let (time, figures) = match all {
        Some((time, figures)) => (Some(time.as_secs_f64() * 1000.0), figures),
        None => (None, figures(server.address)?),
    };
    let found = status::read(&figures);
    let stall = found.longest_stall_of_its_own_ms;
    let mut table = Table::new(
        format!("{CLIENTS} connections that begin at once"),
        &["server", "connections begun", "all after ms", "longest turn ms", "longest stall ms"],
    );
    table.row(vec![
        spec.name.clone(),
        short(begun(&figures) as f64),
        short_or_nothing(time),
        short_or_nothing(found.longest_poll_ms),
        short_or_nothing(stall),
    ]);
    report.tables.push(table);
    let text = "burst: no turn of a loop takes 10 ms of its own, in ms";
    report.goals.push(Goal::at_most(text, stall, STALL));
    server.stop();
    Ok(())
}

/// The first packets of clients in runs, and the clients.
fn first_packets(server: SocketAddr) -> Result<(Vec<Vec<u8>>, Vec<H3Connection>)> {
    let settings = ClientSettings::new(SMALL.0, SMALL.1, WINDOW)?;
    let mut wire = Wire::new();
    let (mut runs, mut clients) = (Vec::new(), Vec::with_capacity(CLIENTS));
    for _ in 0..CLIENTS / RUN {
        let mut run = Vec::new();
        for _ in 0..RUN {
            let mut client = H3Connection::begin(server, None, &settings, (1, 1)).doing("connect")?;
            run.extend_from_slice(client.first_packet(&mut wire));
            clients.push(client);
        }
        runs.push(run);
    }
    Ok((runs, clients))
}

fn signal(server: &Server, signal: Signal) -> Result<()> {
    let mut pids = server.workers().into_iter().filter_map(Pid::from_raw);
    pids.try_for_each(|pid| kill_process(pid, signal).doing("signal a worker"))
}

/// The server's figures, over TLS.
fn figures(server: SocketAddr) -> Result<Value> {
    let session = ClientConnection::new(client::settings(TlsVersion::Tls13, SessionUse::Never)?, client::name());
    let session = session.map_err(|error| Error::Setup(error.to_string()))?;
    let mut stream = StreamOwned::new(session, TcpStream::connect(server).doing("connect")?);
    let request = format!("GET {STATUS_PATH} HTTP/1.0\r\nHost: bench\r\n\r\n");
    stream.write_all(request.as_bytes()).doing("ask for figures")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).doing("read figures")?;
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n").map_or(&[][..], |at| &answer[at + 4..]);
    serde_json::from_slice(body).map_err(|error| Error::Failed(format!("no figures: {error}")))
}
