//! A reverse proxy between wrk and what answers from memory: what does passing a request on cost, and are the
//! connections to the upstream used again?

use crate::bench::Bench;
use crate::canned::{self, Pieces};
use crate::client::Client;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Grid;
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::short_or_nothing;
use crate::warm;
use crate::wrk::{self, Target, WrkLoad};
use std::net::SocketAddr;
use std::time::Duration;

/// The path that is requested.
struct ProxyCase {
    name: &'static str,
    path: &'static str,
    /// wrk's.
    connections: usize,
    /// The largest CPU time for each request, as a multiple of nginx's.
    limit: f64,
}

/// The answer of a server that does nothing else ([`canned`]), with one call. An nginx that sends 1 KB needs as long as
/// the proxy: it would set the pace, and the proxy's core be busy to 70 to 90 %.
const WHOLE: ProxyCase = ProxyCase { name: "1 KB", path: "/1k.text", connections: 32, limit: 0.9 };

/// The same answer, sent as nginx sends a file, the head before the body.
const IN_TWO: ProxyCase = ProxyCase { name: "1 KB in two pieces", path: "/1k.bin", connections: 32, limit: 0.9 };

/// The answer of an nginx.
const FILES: [ProxyCase; 2] = [
    ProxyCase { name: "100 KB", path: "/100k.bin", connections: 16, limit: 1.0 },
    ProxyCase { name: "4 MB", path: "/4m.bin", connections: 8, limit: 1.0 },
];

/// The upstream's files and their sizes.
const FILE_SIZES: [(&str, u64); 3] = [("1k.bin", 1_000), ("100k.bin", 100_000), ("4m.bin", 4_000_000)];

/// Bytes of [`WHOLE`] and [`IN_TWO`].
const SMALL: usize = 1_000;

/// The path where the upstream tells the number of its connections and requests.
const FIGURES: &str = "/figures";

/// Loops of the proxies whose connections to the upstream are counted.
const LOOPS: usize = 4;

/// The time that an answer of the upstream's figures may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (name, size) in FILE_SIZES {
        bench.scratch.file(name, size)?;
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let load = |path: &str, connections| WrkLoad {
        threads: 1,
        connections,
        seconds,
        target: Target::Path(path.to_owned()),
        close: false,
        cores: client_cores.clone(),
    };
    let canned = |pieces| on_cores(&client_cores, || canned::start(SMALL, pieces)).and_then(|address| address);
    let upstream = start_upstream(bench, &client_cores)?;
    let groups =
        [(canned(Pieces::One)?, &[WHOLE][..]), (canned(Pieces::HeadAndBody)?, &[IN_TWO]), (upstream.address, &FILES)];
    let (mut tables, mut goals, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (upstream, cases) in groups {
        let (servers, mut failures) = start_all(bench, &specs(bench, "", upstream)?, &placement)?;
        notes.append(&mut failures);
        let loads =
            |_: &Server| cases.iter().map(|case| (case.name.into(), load(case.path, case.connections))).collect();
        let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
        for case in cases {
            let title = format!("{}, {} connections", case.name, case.connections);
            tables.push(warm::table(&grid, &servers, case.name, &title));
            goals.extend(case.goals(&grid));
        }
        servers.into_iter().for_each(Server::stop);
    }
    let mut report = Report {
        name: "proxy",
        method: format!(
            "What is answered from memory, through a proxy over kept connections (`keepalive 256`, HAProxy: `http-reuse always`): \
             1 KB by a thread that does nothing else, with one call or the head before the body as nginx sends a file; 100 KB and 4 MB \
             are files of an nginx of one worker. Keep-alive towards the client; the proxy's one worker pinned to one core, upstream \
             and wrk (one thread) to the other; {rounds} rounds of {seconds} s each, proxies in turn; median (min–max), ratios are \
             medians of each round's. CPU time is the proxy's alone."
        ),
        tables,
        goals,
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

impl ProxyCase {
    fn goals(&self, grid: &Grid) -> [Goal; 3] {
        let ProxyCase { name, limit, .. } = self;
        let cpu = |other| grid.ratio("freerun", other, name, |sample| sample.cpu_us);
        let rate = grid.ratio("freerun", "nginx", name, |sample| sample.outcome.rate());
        [
            Goal::at_most(format!("{name}: CPU per request at most {limit} times nginx's"), cpu("nginx"), *limit),
            Goal::at_least(format!("{name}: at least nginx's rate"), rate, 1.0),
            Goal::at_most(format!("{name}: CPU per request at most HAProxy's"), cpu("haproxy"), 1.0),
        ]
    }
}

/// The number of requests that came on connections that had been used before, with several loops.
fn reuse(bench: &Bench, upstream: &Server, load: &WrkLoad, report: &mut Report) -> Result<()> {
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
