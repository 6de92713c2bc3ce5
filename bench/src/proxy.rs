//! A reverse proxy between wrk and what answers from memory: what does passing a request on cost, and are the
//! connections to the upstream used again?

use crate::bench::Bench;
use crate::canned;
use crate::client::Client;
use crate::error::{Doing, Error, Result};
use crate::grid::{Grid, Sample};
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::short_or_nothing;
use crate::warm;
use crate::wrk::{self, Load, Target};
use std::net::SocketAddr;
use std::time::Duration;

/// Name of a case, its path, wrk's connections: what an nginx answers.
const FILE_CASES: [(&str, &str, usize); 3] =
    [("1 KB file", "/1k.bin", 32), ("100 KB", "/100k.bin", 16), ("4 MB", "/4m.bin", 8)];

/// The same, of what a server answers that does nothing else ([`canned`]). An nginx that sends 1 KB needs as long as the proxy: it would
/// set the pace, and the proxy's core be busy to 70 to 90 %.
const TEXT_CASE: (&str, &str, usize) = ("1 KB", "/1k.text", 32);

/// The upstream's files and their sizes.
const FILES: [(&str, u64); 3] = [("1k.bin", 1_000), ("100k.bin", 100_000), ("4m.bin", 4_000_000)];

/// Bytes of [`TEXT_CASE`].
const TEXT_SIZE: usize = 1_000;

/// Where the upstream tells how many connections and requests it has had.
const FIGURES: &str = "/figures";

/// Loops of the proxies whose connections to the upstream are counted.
const LOOPS: usize = 4;

/// How long an answer of the upstream's figures may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (name, size) in FILES {
        bench.scratch.file(name, size)?;
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let load = |path: &str, connections| Load {
        threads: 1,
        connections,
        seconds,
        target: Target::Path(path.to_owned()),
        close: false,
        cores: client_cores.clone(),
    };
    let case = |(name, path, connections): (&str, &str, usize)| (name.to_owned(), load(path, connections));
    let canned = on_cores(&client_cores, || canned::start(TEXT_SIZE)).and_then(|address| address)?;
    let (servers, mut notes) = start_all(bench, &specs(bench, "", canned)?, &placement)?;
    let text = Grid::fill(bench, &servers, rounds, &mut notes, |_| vec![case(TEXT_CASE)])?;
    let (title, _, connections) = TEXT_CASE;
    let mut tables = vec![warm::table(&text, &servers, title, &format!("{title}, {connections} connections"))];
    servers.into_iter().for_each(Server::stop);

    let upstream = start_upstream(bench, &client_cores)?;
    let (servers, mut further) = start_all(bench, &specs(bench, "", upstream.address)?, &placement)?;
    notes.append(&mut further);
    let files = Grid::fill(bench, &servers, rounds, &mut notes, |_| FILE_CASES.map(case).into())?;
    for (title, _, connections) in FILE_CASES {
        tables.push(warm::table(&files, &servers, title, &format!("{title}, {connections} connections")));
    }
    servers.into_iter().for_each(Server::stop);
    let mut report = Report {
        name: "proxy",
        method: format!(
            "What is answered from memory, through a proxy over kept connections (`keepalive 256`, HAProxy: `http-reuse always`): \
             `1 KB` by a thread that does nothing else, the others are files of an nginx of one worker (for `1 KB file` the proxy's \
             core is not full); keep-alive towards the client; the proxy's one worker pinned to one core, upstream and wrk (one \
             thread) to the other; {rounds} rounds of {seconds} s each, proxies in turn; median (min–max), ratios are medians of each \
             round's. CPU time is the proxy's alone."
        ),
        tables,
        goals: goals(&text, &files),
        notes,
    };
    reuse(bench, &upstream, &load("/1k.bin", 64), &mut report)?;
    Ok(report)
}

/// The proxies, named with `variant`.
fn specs(bench: &Bench, variant: &str, upstream: SocketAddr) -> Result<[Spec; 3]> {
    let root = bench.scratch.folder("data")?;
    Ok([Kind::Nginx, Kind::Freerun, Kind::Haproxy].map(|kind| Spec::new(kind, variant, &root).proxy(upstream)))
}

/// The server behind the proxies, on the clients' core.
pub fn start_upstream(bench: &Bench, cores: &[usize]) -> Result<Server> {
    let root = bench.scratch.folder("data")?;
    let mut spec = Spec::new(Kind::Nginx, "", &root).lines("", format!("location = {FIGURES} {{ stub_status; }}\n"));
    spec.name = "upstream".into();
    spec.connections = 16_384;
    Server::start(bench, &spec, &Placement { cores: cores.to_vec(), cgroups: Vec::new() })
}

fn goals(text: &Grid, files: &Grid) -> Vec<Goal> {
    let cpu = |sample: &Sample| sample.cpu_us;
    let rate = |sample: &Sample| sample.outcome.rate();
    let mut goals = Vec::new();
    for (grid, case, limit) in
        [(text, "1 KB", 0.9), (files, "1 KB file", 0.9), (files, "100 KB", 1.0), (files, "4 MB", 1.0)]
    {
        let text = format!("{case}: CPU per request at most {limit} times nginx's");
        goals.push(Goal::at_most(text, grid.ratio("freerun", "nginx", case, cpu), limit));
        let text = format!("{case}: at least nginx's rate");
        goals.push(Goal::at_least(text, grid.ratio("freerun", "nginx", case, rate), 1.0));
        let text = format!("{case}: CPU per request at most HAProxy's");
        goals.push(Goal::at_most(text, grid.ratio("freerun", "haproxy", case, cpu), 1.0));
    }
    goals
}

/// How many requests came on connections that had been used before, with several loops.
fn reuse(bench: &Bench, upstream: &Server, load: &Load, report: &mut Report) -> Result<()> {
    let specs = specs(bench, &format!("{LOOPS} workers"), upstream.address)?.map(|spec| spec.workers(LOOPS));
    let (servers, mut notes) = start_all(bench, &specs, &Placement::default())?;
    let title = format!("Connections to the upstream, {LOOPS} workers, 64 clients, 1 KB");
    let mut table = Table::new(title, &["server", "requests", "connections", "on a used connection %"]);
    let folder = bench.scratch.folder("servers")?;
    for server in &servers {
        let before = figures(upstream)?;
        wrk::run(bench.wrk()?, &folder, server.address, load)?;
        let after = figures(upstream)?;
        let (connections, requests) = (after.0 - before.0, after.1 - before.1);
        let used = (1.0 - connections / requests.max(1.0)) * 100.0;
        let name = &server.spec.name;
        table.row(vec![
            name.clone(),
            format!("{requests:.0}"),
            format!("{connections:.0}"),
            short_or_nothing(Some(used)),
        ]);
        if server.spec.kind == Kind::Freerun {
            let text = format!("upstream connections used again, {LOOPS} loops: over 99 %");
            report.goals.push(Goal::at_least(text, Some(used), 99.0));
        }
    }
    report.tables.push(table);
    report.notes.append(&mut notes);
    Ok(())
}

/// Connections accepted and requests answered so far; asking adds one of each.
fn figures(upstream: &Server) -> Result<(f64, f64)> {
    let reply = Client::connect(upstream.address, None, LIMIT).and_then(|mut client| client.get(FIGURES));
    let text = String::from_utf8_lossy(&reply.doing("ask the upstream for its figures")?.body).into_owned();
    parse(&text).ok_or_else(|| Error::Failed(format!("figures of the upstream: {text}")))
}

/// The third line of `stub_status`: accepted, handled, requests.
fn parse(text: &str) -> Option<(f64, f64)> {
    let mut numbers = text.lines().nth(2)?.split_ascii_whitespace().map(str::parse);
    let accepted = numbers.next()?.ok()?;
    Some((accepted, numbers.nth(1)?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_first_and_third_number() {
        let text = "Active connections: 1 \nserver accepts handled requests\n 16 15 31070 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(parse(text), Some((16.0, 31_070.0)));
        assert_eq!(parse("Active"), None);
    }
}
