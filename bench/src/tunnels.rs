//! Connections that were upgraded, a WebSocket's for example, and then stay idle: what does each cost, and what does a
//! reload do to them?

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::bench::Bench;
use crate::client::Client;
use crate::configs::GENERATION_PATH;
use crate::connections::{Growth, settled};
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt::{check, wait_for};
use crate::process::{Placement, raise_limit};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Series, short_or_nothing};

/// A proxy holds two sockets for each, and so does this process: 20,000 is a common limit of open files.
const COUNT: usize = 9_000;
/// Descriptors needed besides.
const SPARE: u64 = 200;
/// The time that an answer, or one byte on its way through, may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Longest head of a request or an answer.
const MAX_HEAD: usize = 8 * 1024;

/// The largest memory of an idle tunnel, bytes.
const GOAL: f64 = 2048.0;

/// Figures of one proxy.
struct TunnelFigures {
    name: String,
    growth: Vec<Growth>,
    /// After a reload: tunnels that still carry a byte each way, and the number of worker processes.
    alive: usize,
    workers: usize,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let count = if bench.options.quick { 1_000 } else { COUNT };
    let open_files = raise_limit()?;
    let needed = 2 * count as u64 + SPARE;
    if open_files < needed {
        return Err(Error::Setup(format!(
            "{count} tunnels need {needed} open files, the limit is {open_files}: ulimit -n"
        )));
    }
    let rounds = bench.options.runs(3);
    let (upstream, opened) = start_upstream()?;
    let root = bench.scratch.folder("data")?;
    let upgrade =
        "proxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection upgrade;\nproxy_read_timeout 600s;\n";
    let specs = [Kind::Nginx, Kind::Freerun].map(|kind| Spec {
        connections: 19_500,
        passing: upgrade.to_owned(),
        ..Spec::new(kind, "", &root).proxy(upstream)
    });
    let mut report = Report {
        name: "tunnels",
        method: format!(
            "{count} clients ask for an upgrade and are answered 101 by an upstream of this program's; then nobody says anything. Growth \
             of the resident (RSS) and proportional (PSS) memory of all of the proxy's processes, against the proxy after some such \
             tunnels that have ended; {rounds} rounds with a fresh proxy each. Then the configuration is changed and read again, and one \
             byte sent through each tunnel each way. Kernel memory is not in it."
        ),
        ..Report::default()
    };
    let mut results: Vec<TunnelFigures> = Vec::new();
    for _ in 0..rounds {
        for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
            match measure(bench, spec, count, &opened) {
                Ok((growth, alive, workers)) => match results.iter_mut().find(|found| found.name == spec.name) {
                    Some(found) => {
                        found.growth.push(growth);
                        found.alive = found.alive.min(alive);
                        found.workers = found.workers.max(workers);
                    }
                    None => {
                        results.push(TunnelFigures { name: spec.name.clone(), growth: vec![growth], alive, workers })
                    }
                },
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
            }
            // The numbers belong to a proxy that failed.
            while opened.try_recv().is_ok() {}
        }
    }
    report.tables.push(table(&results, count));
    let own = results.iter().find(|found| found.name == "freerun");
    let each = own.and_then(|found| bytes(found).median());
    report.goals.push(Goal::at_most("bytes of each idle tunnel, at most 2 KiB", each, GOAL));
    let alive = own.map(|found| found.alive as f64);
    report.goals.push(Goal::at_least("tunnels that outlive a reload: all", alive, count as f64));
    Ok(report)
}

fn bytes(found: &TunnelFigures) -> Series {
    found.growth.iter().map(|growth| growth.each(|memory| memory.rss)).collect()
}

fn table(results: &[TunnelFigures], count: usize) -> Table {
    let head = ["proxy", "RSS bytes/tunnel", "PSS bytes/tunnel", "alive after a reload", "worker processes then"];
    let mut table = Table::new(format!("{count} idle tunnels"), &head);
    for found in results {
        let pss: Series = found.growth.iter().map(|growth| growth.each(|memory| memory.pss)).collect();
        table.row(vec![
            found.name.clone(),
            bytes(found).cell(),
            pss.cell(),
            short_or_nothing(Some(found.alive as f64)),
            found.workers.to_string(),
        ]);
    }
    table
}

fn measure(
    bench: &Bench,
    spec: &Spec,
    count: usize,
    opened: &mpsc::Receiver<TcpStream>,
) -> Result<(Growth, usize, usize)> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    drop(open(server.address, 64, opened)?);
    let before = settled(&server)?;
    let mut tunnels = open(server.address, count, opened)?;
    let with = settled(&server)?;
    server.rewrite(bench, 1)?;
    server.reload()?;
    let changed = wait_for(LIMIT, Duration::from_millis(50), || {
        let reply = Client::connect(server.address, None, LIMIT).and_then(|mut client| client.get(GENERATION_PATH));
        Ok(reply.ok().filter(|reply| reply.body == b"1").map(|_| ()))
    })?;
    if changed.is_none() {
        return Err(Error::Failed("the configuration is not read again".into()));
    }
    let alive = tunnels.iter_mut().filter_map(|(client, upstream)| passes(client, upstream).ok()).count();
    let workers = server.workers().len();
    bench.say(&format!("{:12} {} -> {} KiB, {alive} of {count} alive", spec.name, before.rss / 1024, with.rss / 1024));
    server.stop();
    Ok((Growth { before, with, count }, alive, workers))
}

/// A byte each way.
fn passes(client: &mut TcpStream, upstream: &mut TcpStream) -> io::Result<()> {
    let mut byte = [0];
    client.write_all(b"c")?;
    upstream.read_exact(&mut byte)?;
    upstream.write_all(b"u")?;
    client.read_exact(&mut byte)
}

/// Opens tunnels, one after the other; both ends of each.
fn open(proxy: SocketAddr, count: usize, opened: &mpsc::Receiver<TcpStream>) -> Result<Vec<(TcpStream, TcpStream)>> {
    let request = b"GET /tunnel HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        check()?;
        let source = Ipv4Addr::new(127, 0, 0, 2 + (index % 4) as u8);
        let mut client = Client::connect(proxy, Some(source), LIMIT).doing("connect")?.into_stream();
        client.write_all(request).doing("ask for an upgrade")?;
        let head = read_head(&mut client).doing("an answer")?;
        if !head.starts_with(b"HTTP/1.1 101 ") {
            return Err(Error::Failed(format!("answered {}", String::from_utf8_lossy(&head))));
        }
        let upstream = opened.recv_timeout(LIMIT).map_err(|error| Error::Failed(error.to_string()))?;
        all.push((client, upstream));
    }
    Ok(all)
}

/// Reads up to the empty line, and not a byte further.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
        if head.len() > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

/// A server that answers every request with 101 and hands over the connection. Its thread ends with this process.
fn start_upstream() -> Result<(SocketAddr, mpsc::Receiver<TcpStream>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("listen")?;
    let address = listener.local_addr().doing("listen")?;
    let (sender, opened) = mpsc::channel();
    let accept = move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let answered = stream.set_read_timeout(Some(LIMIT)).and_then(|()| read_head(&mut stream)).and_then(|_| {
                stream
                    .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            });
            if answered.is_ok() && sender.send(stream).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("upstream".into()).spawn(accept).doing("start a thread")?;
    Ok((address, opened))
}
