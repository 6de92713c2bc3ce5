//! Datagrams through a proxy: what an exchange costs, and a flow in one direction; and what a flood of clients does.

mod bulk;
mod ends;
pub mod flood;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use self::bulk::Flow;
use self::ends::{Backend, Does};
use crate::bench::Bench;
use crate::configs::load_stream;
use crate::error::Result;
use crate::grid::{Grid, Sample, Work};
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::wrk::Outcome;

/// The clients of an exchange, how many of them wait for an answer at a time, and the sizes of question and answer.
const CLIENTS: usize = 1_000;
const AT_ONCE: usize = 64;
const QUESTION: usize = 40;
const ANSWER: usize = 120;

/// The cases: the name, further lines of the server, and how many times nginx's datagrams a CPU second there have to be.
const KEPT: (&str, &str, f64) = ("sessions that are kept", "proxy_timeout 60s;\n", 2.0);
const SINGLE: (&str, &str, f64) =
    ("a session for each exchange", "proxy_timeout 5s;\nproxy_responses 1;\nproxy_requests 1;\n", 2.0);
const UP: (&str, &str, f64) = ("bulk from a client", "proxy_timeout 60s;\n", 3.0);
const DOWN: (&str, &str, f64) = ("bulk to a client", "proxy_timeout 60s;\n", 3.0);

/// A proxy of datagrams. The address listens for connections, too, so that it can be seen that the proxy has started.
fn spec(kind: Kind, (lines, more): (&str, &str), backend: SocketAddr, bench: &Bench) -> Result<Spec> {
    let module = load_stream(kind)?;
    let whole = format!(
        "{module}worker_processes 1;\nworker_rlimit_nofile 60000;\nevents {{ worker_connections 50000; }}\nstream {{\n{more}\
         server {{\nlisten @ADDRESS@;\nreturn OK;\n}}\n\
         server {{\nlisten @ADDRESS@ udp;\nproxy_pass {backend};\n{lines}}}\n}}\n"
    );
    let root = bench.scratch.folder("data")?;
    Ok(Spec { whole: Some(whole), ..Spec::new(kind, "", &root) })
}

/// The load that a proxy is measured under.
enum Load {
    /// Questions and answers.
    Exchange { seconds: f64, cores: Vec<usize> },
    /// A flow.
    Bulk { seconds: f64, cores: Vec<usize>, flow: Rc<Flow> },
}

impl Work for Load {
    fn run(&self, _: &Bench, server: &Server) -> Result<Outcome> {
        match self {
            Load::Exchange { seconds, cores } => on_cores(cores, || {
                let clients: Vec<usize> = (0..CLIENTS).collect();
                let end = Instant::now() + Duration::from_secs_f64(*seconds);
                let found =
                    ends::exchange(server.address, &clients, AT_ONCE, &[1; QUESTION], |_| Instant::now() >= end)?;
                // Each exchange is two datagrams.
                let (requests, errors) = (2.0 * found.answers as f64, found.lost as f64);
                Ok(Outcome { requests, errors, seconds: found.took.as_secs_f64(), ..Outcome::default() })
            })?,
            Load::Bulk { seconds, cores, flow } => {
                on_cores(cores, || flow.run(server.address, Duration::from_secs_f64(*seconds)))?
            }
        }
    }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0));
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let mut report = Report {
        name: "udp",
        method: format!(
            "Datagrams through `proxy_pass` of stream, the proxy's one worker pinned to one core, clients and the server behind it to \
             the other; {rounds} rounds of {seconds} s each, proxies in turn; median (min–max), ratios are medians of each round's. \
             Exchanges: {CLIENTS} clients, each with an address of its own, {AT_ONCE} of which wait for an answer at a time, {QUESTION} \
             bytes and {ANSWER} back. Bulk: one client, datagrams of {} bytes that are sent {} at a time, at most {} of them on their \
             way. Datagrams that arrived are counted; CPU time is the proxy's alone.",
            bulk::SIZE,
            bulk::RUN,
            bulk::UNDER_WAY,
        ),
        ..Report::default()
    };
    for case in [KEPT, SINGLE] {
        let backend = on_cores(&client_cores, || Backend::start(Does::Answers(ANSWER)))??;
        let load = || Load::Exchange { seconds, cores: client_cores.clone() };
        measure(bench, &placement, case, backend.address, rounds, load, &mut report)?;
    }
    for (case, start) in [(UP, Flow::up as fn() -> Result<Flow>), (DOWN, Flow::down)] {
        let flow = Rc::new(on_cores(&client_cores, start)??);
        let load = || Load::Bulk { seconds, cores: client_cores.clone(), flow: flow.clone() };
        measure(bench, &placement, case, flow.backend(), rounds, load, &mut report)?;
    }
    Ok(report)
}

fn measure(
    bench: &Bench,
    placement: &Placement,
    (name, lines, goal): (&str, &str, f64),
    backend: SocketAddr,
    rounds: usize,
    load: impl Fn() -> Load,
    report: &mut Report,
) -> Result<()> {
    let specs = [Kind::Nginx, Kind::Freerun].map(|kind| spec(kind, (lines, ""), backend, bench));
    let specs: Vec<Spec> = specs.into_iter().collect::<Result<_>>()?;
    let (servers, mut failures) = start_all(bench, &specs, placement)?;
    report.notes.append(&mut failures);
    let grid = Grid::fill(bench, &servers, rounds, &mut report.notes, |_| vec![(name.to_owned(), load())])?;
    let mut table =
        Table::new(name, &["proxy", "datagrams per CPU second", "× nginx", "CPU µs/datagram", "datagrams/s"]);
    for server in &servers {
        let own = server.spec.name.as_str();
        table.row(vec![
            own.to_owned(),
            grid.series(own, name, per_second).cell(),
            grid.ratio_cell(own, "nginx", name, per_second),
            grid.series(own, name, |sample| sample.cpu_us).cell(),
            grid.series(own, name, |sample| sample.outcome.rate()).cell(),
        ]);
    }
    report.tables.push(table);
    let ratio = grid.ratio("freerun", "nginx", name, per_second);
    report.goals.push(Goal::at_least(format!("{name}: {goal} times nginx's datagrams a CPU second"), ratio, goal));
    servers.into_iter().for_each(Server::stop);
    Ok(())
}

fn per_second(sample: &Sample) -> f64 {
    1e6 / sample.cpu_us
}
