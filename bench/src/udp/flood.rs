//! More clients than there may be sessions: memory stays bounded, and the newest clients are served.

use std::net::Ipv4Addr;

use super::ends::{Backend, Does, End, exchange_by};
use super::spec;
use crate::bench::Bench;
use crate::error::Result;
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::Kind;
use crate::stats::short_or_nothing;

/// The number of clients that ask once, and the limit of sessions.
const CLIENTS: usize = 50_000;
const SESSIONS: usize = 10_000;

/// The number of clients that wait for an answer at a time.
const AT_ONCE: usize = 64;

/// The most times that a client asks, until it has an answer.
const TRIES: usize = 3;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let backend = on_cores(&client_cores, || Backend::start(Does::Answers(120)))??;
    let limit = format!("udp_sessions {SESSIONS};\n");
    let server = Server::start(
        bench,
        &spec(Kind::Freerun, ("proxy_timeout 600s;\n", &limit), backend.address, bench)?,
        &placement,
    )?;
    let memory = || server.process.memory().rss as f64;
    let (question, everybody) = ([1; 40], (0..CLIENTS).collect::<Vec<_>>());
    let before = memory();
    let (first, full, after, again) = on_cores(&client_cores, || {
        let mut end = End::bind(Ipv4Addr::UNSPECIFIED, false)?;
        let mut ask = |clients: &[usize], said: &mut Vec<Option<u16>>| {
            said.resize(CLIENTS, None);
            // An answer may be lost on a busy machine: a client without an answer asks again.
            for _ in 0..TRIES {
                let left: Vec<usize> = clients.iter().copied().filter(|client| said[*client].is_none()).collect();
                let count = left.len() as u64;
                let mut enough = |asked| asked >= count;
                let found = exchange_by(&mut end, server.address, &left, AT_ONCE, &question, &mut enough)?;
                said.iter_mut().zip(found.said).filter(|(_, now)| now.is_some()).for_each(|(said, now)| *said = now);
            }
            Ok::<_, crate::error::Error>(())
        };
        let (mut first, mut again) = (Vec::new(), Vec::new());
        ask(&everybody[..SESSIONS], &mut first)?;
        let full = memory();
        ask(&everybody[SESSIONS..], &mut first)?;
        let after = memory();
        // A client with a session still comes from the same port at the server behind the proxy. The newest asks first.
        // A client that has lost its session takes the place of the oldest. In the other order that would be the next
        // client to ask, and so on.
        let newest: Vec<usize> = everybody[CLIENTS - SESSIONS..].iter().rev().copied().collect();
        ask(&newest, &mut again)?;
        Ok::<_, crate::error::Error>((first, full, after, again))
    })??;
    let answered = first.iter().flatten().count();
    let newest = CLIENTS - SESSIONS..CLIENTS;
    let same = newest.filter(|client| first[*client].is_some() && first[*client] == again[*client]).count();
    let each = (full - before) / SESSIONS as f64;
    let mut table = Table::new("", &["", "value"]);
    table.row(vec![format!("answers to {CLIENTS} clients"), answered.to_string()]);
    table.row(vec![format!("of the newest {SESSIONS}, those that still have their session"), same.to_string()]);
    table.row(vec![format!("bytes of each of the first {SESSIONS} sessions"), short_or_nothing(Some(each))]);
    table
        .row(vec!["memory after all of them, times that after the first".into(), short_or_nothing(Some(after / full))]);
    server.stop();
    Ok(Report {
        name: "udp-flood",
        method: format!(
            "{CLIENTS} clients, each with an address of its own, ask once, {AT_ONCE} at a time, through a proxy that may have {SESSIONS} \
             sessions (`udp_sessions`); then the newest {SESSIONS} ask again. Resident memory (RSS) of all processes; kernel memory is \
             not in it. One worker on one core, clients and the server behind it on the other."
        ),
        tables: vec![table],
        goals: vec![
            Goal::at_least("all clients are answered", Some(answered as f64), CLIENTS as f64),
            // A session that others have pushed out is rare: the order is exact on each loop.
            Goal::at_least(
                "the newest are served by the sessions that they had",
                Some(same as f64),
                SESSIONS as f64 * 0.99,
            ),
            Goal::at_most("memory after all of them, times that after the first 10,000", Some(after / full), 1.1),
        ],
        notes: Vec::new(),
    })
}
