//! The memory of idle connections of HTTP/3.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::client::{ClientSettings, H3Connection, LoadProgress};
use super::wire::Wire;
use super::{FREERUN, PLAIN_NGINX, SMALL, WINDOW};
use crate::bench::Bench;
use crate::connections::{Growth, settled};
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::{Placement, raise_limit};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::Spec;
use crate::stats::{Series, short_or_nothing};

/// Connections that are opened at a time.
const AT_A_TIME: usize = 32;

/// The time that one answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The most connections that may fail and are tried again: nginx refuses one in thousands because of its transport parameters,
/// which the client fills with random ones.
const MOST_FAILED: usize = 20;

/// Descriptors this process needs besides the idle connections.
const SPARE: u64 = 200;

/// Adds the table and the goal to `report`.
pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = if bench.options.quick { 1_000 } else { 10_000 };
    let rounds = bench.options.runs(3).min(3);
    let open_files = raise_limit()?;
    if open_files < count as u64 + SPARE {
        let needed = count as u64 + SPARE;
        let text = format!("{count} connections need {needed} open files, the limit is {open_files}: ulimit -n");
        return Err(Error::Setup(text));
    }
    report.method += &format!(
        "Idle connections: {count} have one answer of 1 KB each and stay open; growth of the memory of the server's processes that is \
         written to and belongs to one of them alone, measured when it no longer changes, against the server after some such \
         connections; {rounds} rounds with a fresh server each. "
    );
    let head = ["server", "private KiB/connection", "PSS KiB/connection", "RSS KiB/connection"];
    let mut table = Table::new(format!("{count} idle connections"), &head);
    let mut medians = Vec::new();
    for spec in super::specs(bench)?.iter().filter(|spec| bench.options.wants(&spec.name)) {
        let mut found = Vec::new();
        for _ in 0..rounds {
            match grow(bench, spec, count) {
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
        medians.push((spec.name.clone(), private.median()));
        table.row(vec![
            spec.name.clone(),
            private.cell(),
            short_or_nothing(series(&|growth| growth.each(|memory| memory.pss) / 1024.0).median()),
            short_or_nothing(series(&|growth| growth.each(|memory| memory.rss) / 1024.0).median()),
        ]);
    }
    let median = |name: &str| medians.iter().find(|(known, _)| known == name).and_then(|(_, median)| *median);
    let ratio = median(FREERUN).zip(median(PLAIN_NGINX)).map(|(own, nginx)| own / nginx);
    report.goals.push(Goal::at_most("idle connections: memory at most nginx's", ratio, 1.0));
    report.tables.push(table);
    Ok(())
}

fn grow(bench: &Bench, spec: &Spec, count: usize) -> Result<Growth> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    drop(open(server.address, 64)?);
    let before = settled(&server)?;
    let connections = open(server.address, count)?;
    let with = settled(&server)?;
    let growth = Growth { before, with, count: connections.len() };
    let each = growth.each(|memory| memory.private_dirty) / 1024.0;
    bench.say(&format!("{:12} {count} idle connections: {each:.2} KiB each", spec.name));
    server.stop();
    Ok(growth)
}

/// Opens connections, each with one answer. Afterwards nothing happens on them.
fn open(server: SocketAddr, count: usize) -> Result<Vec<H3Connection>> {
    let settings = ClientSettings::new(SMALL.0, SMALL.1, WINDOW)?;
    let (mut wire, mut progress) = (Wire::new(), LoadProgress::default());
    let (mut all, mut failed) = (Vec::with_capacity(count), 0);
    while all.len() < count {
        interrupt::check()?;
        let wanted = AT_A_TIME.min(count - all.len());
        // A port is of one address.
        let source = Ipv4Addr::new(127, 0, 0, u8::try_from(2 + all.len() / 5_000).unwrap_or(2));
        let mut opening = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            opening.push(H3Connection::begin(server, Some(source), &settings, (1, 1)).doing("connect")?);
        }
        let end = Instant::now() + LIMIT;
        while opening.iter().any(|connection| !connection.is_done()) {
            for connection in &mut opening {
                let Err(error) = connection.advance(&mut wire, &mut progress) else { continue };
                failed += 1;
                if failed > MOST_FAILED {
                    return Err(error).doing("an answer");
                }
                *connection = H3Connection::begin(server, Some(source), &settings, (1, 1)).doing("connect")?;
            }
            if Instant::now() > end {
                return Err(Error::Failed("no answer in time".into()));
            }
            interrupt::pause(Duration::from_micros(200))?;
        }
        // The acknowledgements of the last packets.
        for connection in &mut opening {
            connection.advance(&mut wire, &mut progress).doing("an answer")?;
        }
        all.append(&mut opening);
    }
    // Packets of the servers that come after a while: keys are confirmed, connection IDs are given.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        for connection in &mut all {
            connection.advance(&mut wire, &mut progress).doing("a connection that rests")?;
        }
        interrupt::pause(Duration::from_millis(20))?;
    }
    Ok(all)
}
