//! The memory of connections of HTTP/2 that are idle, and of streams whose client takes nothing.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use freerun_testkit::Client;
use freerun_testkit::http2::{Http2, setting};

use crate::bench::Bench;
use crate::connections::{Growth, settled};
use crate::error::{Error, Result};
use crate::interrupt::{self, pause};
use crate::origin::Origin;
use crate::process::{Placement, raise_limit};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::Series;

/// The file that each connection has asked for before it is idle.
const FILE: &str = "/1k.bin";
/// Its size.
const SIZE: u64 = 1_000;
/// The file that nobody takes.
const LARGE: &str = "/4m.bin";
/// Its size.
const LARGE_SIZE: u64 = 4_000_000;
/// Threads that open connections.
const OPENERS: usize = 4;
/// Connections a server may hold.
const CONNECTIONS: usize = 16_384;
/// Descriptors this process needs besides the idle connections.
const SPARE: u64 = 200;
/// The most that an idle connection of HTTP/2 may have above one of HTTP/1.1, in bytes.
const GOAL: f64 = 1.2 * 1024.0;
/// The streams that are held, on one connection.
const HELD: usize = 128;
/// The most that a held stream may have, in KiB: `proxy_buffers` and `proxy_buffer_size` are 36 by default, and the state of
/// the request comes on top.
const HELD_GOAL: f64 = 48.0;

/// The number of connections and streams that are opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    Http1,
    Http2,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    bench.scratch.file(FILE.trim_start_matches('/'), SIZE)?;
    bench.scratch.file(LARGE.trim_start_matches('/'), LARGE_SIZE)?;
    let mut report = Report { name: "http2-memory", ..Report::default() };
    idle(bench, &mut report)?;
    held(bench, &mut report)?;
    Ok(report)
}

fn idle(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = if bench.options.quick { 2_000 } else { 10_000 };
    let rounds = bench.options.runs(3);
    let open_files = raise_limit()?;
    if open_files < count as u64 + SPARE {
        let text = format!("{count} connections need {} open files: ulimit -n", count as u64 + SPARE);
        return Err(Error::Setup(text));
    }
    report.method += &format!(
        "{count} connections without TLS have one answer of 1 KB each and stay open; growth of the memory of the server's processes that \
         is written to and belongs to one of them alone, measured when they have rested for {} s and it no longer changes, against the server after some such \
         connections; {rounds} rounds with a fresh server each. ",
        REST.as_secs()
    );
    let mut table = Table::new(format!("{count} idle connections"), &["server", "protocol", "bytes/connection"]);
    let mut own = [None, None];
    for kind in [Kind::Nginx, Kind::Freerun] {
        let spec = Spec { connections: CONNECTIONS, ..super::spec(bench, kind)? };
        if !bench.options.wants(&spec.name) {
            continue;
        }
        for (place, opened) in [Opened::Http1, Opened::Http2].into_iter().enumerate() {
            if kind == Kind::Nginx && opened == Opened::Http1 {
                // It has one protocol at an address; its connections of HTTP/1.1 are in `connections`.
                continue;
            }
            let mut series = Series::default();
            for _ in 0..rounds {
                match grow(bench, &spec, opened, count) {
                    Ok(growth) => series.push(growth.each(|memory| memory.private_dirty)),
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => report.notes.push(format!("{}, idle connections: {error}", spec.name)),
                }
            }
            if kind == Kind::Freerun {
                own[place] = series.median();
            }
            let protocol = if opened == Opened::Http1 { "HTTP/1.1" } else { "HTTP/2" };
            table.row(vec![spec.name.clone(), protocol.to_owned(), series.cell()]);
        }
    }
    report.tables.push(table);
    let above = own[1].zip(own[0]).map(|(http2, http1)| http2 - http1);
    let text = format!("bytes of an idle connection of HTTP/2 above one of HTTP/1.1, at most {GOAL}");
    report.goals.push(Goal::at_most(text, above, GOAL));
    Ok(())
}

fn grow(bench: &Bench, spec: &Spec, opened: Opened, count: usize) -> Result<Growth> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    open(server.address, opened, 64).map(|_connections| ())?;
    let before = settled(&server)?;
    let connections = open(server.address, opened, count)?;
    pause(REST)?;
    let with = settled(&server)?;
    let growth = Growth { before, with, count };
    bench.say(&format!("{:12} {:.0} bytes each", spec.name, growth.each(|memory| memory.private_dirty)));
    drop(connections);
    server.stop();
    Ok(growth)
}

/// The time that connections rest before they count as idle. freerun has connections that are left alone for 5 to 10 s
/// give up memory, which goes back to the system 5 s later.
const REST: Duration = Duration::from_secs(17);

/// Opens connections, each with one answer.
fn open(address: SocketAddr, opened: Opened, count: usize) -> Result<Vec<Box<dyn Send>>> {
    let opener = |index: usize| {
        let share = (count + OPENERS - 1 - index) / OPENERS;
        thread::spawn(move || -> Result<Vec<Box<dyn Send>>> {
            let mut connections: Vec<Box<dyn Send>> = Vec::with_capacity(share);
            for _ in 0..share {
                interrupt::check()?;
                let mut client = Client::connect(address);
                let status = match opened {
                    Opened::Http1 => {
                        let status = client.get(FILE).status;
                        connections.push(Box::new(client));
                        status
                    }
                    Opened::Http2 => {
                        let mut http2 = Http2::new(client);
                        let status = http2.get(FILE).status;
                        connections.push(Box::new(http2));
                        status
                    }
                };
                if status != 200 {
                    return Err(Error::Failed(format!("answered {status} instead of the file")));
                }
            }
            Ok(connections)
        })
    };
    let threads: Vec<_> = (0..OPENERS).map(opener).collect();
    let mut all = Vec::with_capacity(count);
    for thread in threads {
        all.extend(thread.join().map_err(|_| Error::Failed("a client failed".into()))??);
    }
    Ok(all)
}

fn held(bench: &Bench, report: &mut Report) -> Result<()> {
    let rounds = bench.options.runs(3);
    report.method += &format!(
        "Then {HELD} streams of one connection, whose windows stay at 0, ask for proxied files of {} MB; growth of the same memory for each \
         stream.",
        LARGE_SIZE / 1_000_000
    );
    let (cores, other) = bench.machine.pair();
    let origin = Origin::start(bench, &other, "")?;
    let mut table = Table::new(format!("{HELD} streams with a window of 0"), &["server", "KiB/stream"]);
    let mut own = None;
    for kind in [Kind::Nginx, Kind::Freerun] {
        let spec = super::spec(bench, kind)?.proxy(origin.address());
        if !bench.options.wants(&spec.name) {
            continue;
        }
        let mut series = Series::default();
        for _ in 0..rounds {
            let server = Server::start(bench, &spec, &Placement { cores: cores.clone(), cgroups: Vec::new() })?;
            let address = server.address;
            // The first time of each path through the server is not what is asked.
            drop(Http2::new(Client::connect(address)).get(FILE));
            let before = settled(&server)?;
            let hold = move || {
                let mut http2 = Http2::with(Client::connect(address), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
                let streams: Vec<u32> = (0..HELD).map(|_| http2.ask_for(LARGE)).collect();
                let statuses: Vec<u16> = streams.iter().map(|stream| http2.head(*stream)).collect();
                (http2, statuses)
            };
            let held = thread::spawn(hold).join().map_err(|_| Error::Failed("a client failed".into()))?;
            if let Some(status) = held.1.iter().find(|status| **status != 200) {
                return Err(Error::Failed(format!("answered {status} instead of the file")));
            }
            let growth = Growth { before, with: settled(&server)?, count: HELD };
            let each = growth.each(|memory| memory.private_dirty) / 1024.0;
            bench.say(&format!("{:12} {each:.1} KiB for each held stream", spec.name));
            series.push(each);
            drop(held);
            server.stop();
        }
        if kind == Kind::Freerun {
            own = series.median();
        }
        table.row(vec![spec.name.clone(), series.cell()]);
    }
    report.tables.push(table);
    report.goals.push(Goal::at_most(
        format!("KiB of a stream with a window of 0, at most {HELD_GOAL}"),
        own,
        HELD_GOAL,
    ));
    Ok(())
}
