//! Sessions of TCP through a proxy: what does passing bytes on cost, and what does an idle session?

pub mod load;
pub mod upstream;

use std::net::{SocketAddr, TcpStream};

use self::load::{SessionLoad, Use, connect, exchange};
use crate::bench::Bench;
use crate::configs::load_stream;
use crate::connections::{Growth, settled};
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Grid;
use crate::interrupt::check;
use crate::process::{Placement, raise_limit};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::Series;
use crate::warm;

/// The cases: a name, what is counted, what connections are for, how many there are.
const CASES: [(&str, Use, usize); 5] = [
    ("bulk, 1 session (MiB)", Use::Bulk, 1),
    ("bulk, 1,000 sessions (MiB)", Use::Bulk, 1_000),
    ("64 bytes to and fro, 1 session (exchanges)", Use::PingPong, 1),
    ("64 bytes to and fro, 1,000 sessions (exchanges)", Use::PingPong, 1_000),
    ("a connection for each exchange of 64 bytes", Use::Short, 1),
];

/// The largest CPU time, as a multiple of nginx's.
const LIMIT: f64 = 0.9;

/// The number of idle sessions: a proxy has two sockets for each, and this process has one; 20,000 is a common limit.
const IDLE: usize = 9_000;

/// Descriptors needed besides.
const SPARE: u64 = 200;

/// The largest memory of an idle session, bytes.
const GOAL: f64 = 1536.0;

/// nginx and freerun.
const PROXY: &str = "@MODULE@worker_processes 1;\nevents { worker_connections 20000; }\nstream {
    server { listen @ADDRESS@; proxy_pass @BACK@; proxy_timeout 600s; }\n}\n";

/// HAProxy.
const HAPROXY: &str = "global\n    nbthread 1\n    maxconn 9900\n@USER@defaults\n    mode tcp\n    timeout connect 10s\n    \
     timeout client 600s\n    timeout server 600s\nfrontend clients\n    bind @ADDRESS@\n    default_backend back\nbackend back\n    \
     server back @BACK@\n";

/// The proxies.
fn specs(bench: &Bench, back: SocketAddr) -> Result<Vec<Spec>> {
    let root = bench.scratch.folder("data")?;
    let spec = |kind: Kind| {
        let text = match kind {
            Kind::Haproxy => HAPROXY.to_owned(),
            kind => PROXY.replace("@MODULE@", &load_stream(kind)?),
        };
        Ok(Spec { whole: Some(text.replace("@BACK@", &back.to_string())), ..Spec::new(kind, "", &root) })
    };
    [Kind::Nginx, Kind::Freerun, Kind::Haproxy].into_iter().map(spec).collect()
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 4.0));
    let (server_cores, client_cores) = bench.machine.pair();
    let back = upstream::start(&client_cores)?;
    let specs = specs(bench, back)?;
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    raise_limit()?;
    let loads = |_: &Server| {
        let load = |what, sessions| SessionLoad { what, sessions, seconds, cores: client_cores.clone() };
        CASES.iter().map(|(name, what, sessions)| ((*name).to_owned(), load(*what, *sessions))).collect()
    };
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
    let mut report = Report {
        name: "streams",
        method: format!(
            "Sessions of TCP through `proxy_pass` of stream (HAProxy: `mode tcp`) to a thread of this program's that echoes, or sends \
             without end; the proxy's one worker pinned to one core, upstream and client to the other, which is the limit of the rate; \
             {rounds} rounds of {seconds} s each, proxies in turn; median (min–max), ratios are medians of each round's. CPU time is \
             the proxy's alone. Then {IDLE} sessions in which nobody says anything any more: growth of the proxy's resident (RSS) and \
             proportional (PSS) memory against that after 64 sessions that have ended; kernel memory is not in it."
        ),
        notes,
        ..Report::default()
    };
    for (name, ..) in CASES {
        report.tables.push(warm::table(&grid, &servers, name, name));
        let cpu = grid.ratio("freerun", "nginx", name, |sample| sample.cpu_us);
        report.goals.push(Goal::at_most(format!("{name}: CPU at most {LIMIT} times nginx's"), cpu, LIMIT));
    }
    for (name, ..) in &CASES[..2] {
        let cpu = grid.ratio("freerun", "haproxy", name, |sample| sample.cpu_us);
        report.goals.push(Goal::at_most(format!("{name}: CPU at most HAProxy's"), cpu, 1.0));
    }
    drop(servers);
    idle(bench, &specs, &placement, &mut report)?;
    Ok(report)
}

fn idle(bench: &Bench, specs: &[Spec], placement: &Placement, report: &mut Report) -> Result<()> {
    let count = if bench.options.quick { 1_000 } else { IDLE };
    let open_files = raise_limit()?;
    let needed = 2 * count as u64 + SPARE;
    if open_files < needed {
        report.notes.push(format!("{count} sessions need {needed} open files, the limit is {open_files}: ulimit -n"));
        return Ok(());
    }
    let head = ["proxy", "RSS bytes/session", "PSS bytes/session"];
    let mut table = Table::new(format!("{count} idle sessions"), &head);
    for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
        let mut growth = Vec::new();
        for _ in 0..bench.options.runs(3) {
            match measure(bench, spec, count, placement) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
                Ok(one) => growth.push(one),
            }
        }
        let each = |figure: fn(&Growth) -> f64| growth.iter().map(figure).collect::<Series>();
        let rss = each(|growth| growth.each(|memory| memory.rss));
        table.row(vec![spec.name.clone(), rss.cell(), each(|growth| growth.each(|memory| memory.pss)).cell()]);
        if spec.kind == Kind::Freerun {
            report.goals.push(Goal::at_most("bytes of each idle session, at most 1.5 KiB", rss.median(), GOAL));
        }
    }
    report.tables.push(table);
    Ok(())
}

fn measure(bench: &Bench, spec: &Spec, count: usize, placement: &Placement) -> Result<Growth> {
    let server = Server::start(bench, spec, placement)?;
    drop(open(server.address, 64)?);
    let before = settled(&server)?;
    let sessions = open(server.address, count)?;
    let with = settled(&server)?;
    bench.say(&format!("{:12} {} -> {} KiB", spec.name, before.rss / 1024, with.rss / 1024));
    drop(sessions);
    server.stop();
    Ok(Growth { before, with, count })
}

/// Opens sessions. Each has exchanged a message.
fn open(proxy: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        check()?;
        let mut stream = connect(proxy, index)?;
        exchange(&mut stream).doing("exchange a message")?;
        all.push(stream);
    }
    Ok(all)
}
