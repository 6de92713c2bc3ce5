//! The cost of a connection: opened for one request, or kept open and idle.

use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::Duration;

use crate::bench::Bench;
use crate::cgroup::CpuShare;
use crate::client::Client;
use crate::configs::OK_PATH;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Grid;
use crate::interrupt::{pause, wait_for};
use crate::process::{Memory, Placement, raise_limit};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::{Series, short_or_nothing};
use crate::warm;
use crate::wrk::WrkLoad;

/// Path of the small file.
const FILE: &str = "/1k.bin";
/// Its size.
const SIZE: u64 = 1_000;
/// Threads that open connections.
const OPENERS: usize = 4;
/// The time that one answer may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Connections a server may hold.
const CONNECTIONS: usize = 16_384;
/// Descriptors this process needs besides the idle connections.
const SPARE: u64 = 200;

/// The share of its core that a server gets where each connection has one request. Opening connections costs the client
/// more than answering them costs a server: with a whole core, the client would be measured.
const SHARE: f64 = 0.35;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    bench.scratch.file(FILE.trim_start_matches('/'), SIZE)?;
    let root = bench.scratch.folder("data")?;
    let specs = [Kind::Nginx, Kind::Freerun, Kind::H2o, Kind::Lighttpd]
        .map(|kind| Spec { connections: CONNECTIONS, ..Spec::new(kind, "", &root) });
    let mut report = Report { name: "connections", ..Report::default() };
    one_request_each(bench, &specs, &mut report)?;
    idle(bench, &specs, &mut report)?;
    Ok(report)
}

fn one_request_each(bench: &Bench, specs: &[Spec], report: &mut Report) -> Result<()> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    let (server_cores, client_cores) = bench.machine.pair();
    // Outlives the servers.
    let share = CpuShare::create(&format!("freerun-bench-{}", std::process::id()), SHARE);
    let cgroups = share.as_ref().map_or_else(Vec::new, CpuShare::entries);
    let (servers, mut notes) = start_all(bench, specs, &Placement { cores: server_cores, cgroups })?;
    if share.is_none() {
        notes.push("no cgroup for a part of a core could be made: the client's core limits the rates".to_owned());
    }
    let load = |path: &str| WrkLoad { close: true, ..WrkLoad::kept(path, seconds, client_cores.clone()) };
    let (ok, file) = ("return 200, connection closed", "1 KB, connection closed");
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, |server| {
        let mut cases = vec![(file.to_owned(), load(FILE))];
        if warm::has_return(server.spec.kind) {
            cases.push((ok.to_owned(), load(OK_PATH)));
        }
        cases
    })?;
    let part = match share {
        Some(_) => format!("{} % (so that the server is the limit) of ", SHARE * 100.0),
        None => String::new(),
    };
    report.method += &format!(
        "One request per connection (`Connection: close`), 32 at a time, one worker on {part}one core, wrk on the other; {rounds} \
         rounds of {seconds} s, servers in turn. "
    );
    for case in [ok, file] {
        report.tables.push(warm::table(&grid, &servers, case, case));
        let ratio = grid.ratio("freerun", "nginx", case, |sample| sample.outcome.rate());
        report.goals.push(Goal::at_least(format!("{case}: at least nginx's rate"), ratio, 1.0));
    }
    report.notes.append(&mut notes);
    Ok(())
}

/// Memory before and with the idle connections.
pub struct Growth {
    /// Before there were any.
    pub before: Memory,
    /// With all of them.
    pub with: Memory,
    /// The number of connections.
    pub count: usize,
}

impl Growth {
    /// A figure's growth for each of them.
    pub fn each(&self, figure: impl Fn(Memory) -> u64) -> f64 {
        (figure(self.with) as f64 - figure(self.before) as f64) / self.count as f64
    }
}

fn idle(bench: &Bench, specs: &[Spec], report: &mut Report) -> Result<()> {
    let count = if bench.options.quick { 2_000 } else { 10_000 };
    let open_files = raise_limit()?;
    if open_files < count as u64 + SPARE {
        let text = format!(
            "{count} idle connections need {} open files, the limit is {open_files}: ulimit -n",
            count as u64 + SPARE
        );
        return Err(Error::Setup(text));
    }
    let rounds = bench.options.runs(3);
    let mut table = Table::new(
        format!("{count} idle keep-alive connections"),
        &[
            "server",
            "connections",
            "RSS before KiB",
            "RSS with them KiB",
            "RSS bytes/connection",
            "PSS bytes/connection",
        ],
    );
    report.method += &format!(
        "Then {count} connections from several loopback addresses send one request each for the 1 KB file and stay open; growth of \
         the resident (RSS) and proportional (PSS) memory of all of the server's processes, measured when it no longer changes, \
         against the server after some warming requests; {rounds} rounds with a fresh server each. Kernel memory is not in it."
    );
    let mut results: Vec<(String, Vec<Growth>)> = Vec::new();
    for _ in 0..rounds {
        for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
            match grow(bench, spec, count) {
                Ok(growth) => match results.iter_mut().find(|(name, _)| *name == spec.name) {
                    Some((_, list)) => list.push(growth),
                    None => results.push((spec.name.clone(), vec![growth])),
                },
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}, idle connections: {error}", spec.name)),
            }
        }
    }
    for (name, list) in &results {
        let series = |figure: &dyn Fn(&Growth) -> f64| list.iter().map(figure).collect::<Series>();
        let each = series(&|growth| growth.each(|memory| memory.rss));
        if name == "freerun" {
            report.goals.push(Goal::at_most("bytes of each idle connection, at most 1 KiB", each.median(), 1024.0));
        }
        table.row(vec![
            name.clone(),
            short_or_nothing(series(&|growth| growth.count as f64).median()),
            short_or_nothing(series(&|growth| growth.before.rss as f64 / 1024.0).median()),
            short_or_nothing(series(&|growth| growth.with.rss as f64 / 1024.0).median()),
            each.cell(),
            series(&|growth| growth.each(|memory| memory.pss)).cell(),
        ]);
    }
    if !report.goals.iter().any(|goal| goal.text.starts_with("bytes")) {
        report.goals.push(Goal::at_most("bytes of each idle connection, at most 1 KiB", None, 1024.0));
    }
    report.tables.push(table);
    Ok(())
}

fn grow(bench: &Bench, spec: &Spec, count: usize) -> Result<Growth> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    // lighttpd takes half as many connections as it may have open files, and 20,000 is a common limit of those.
    let count = if spec.kind == Kind::Lighttpd { count.min(9_000) } else { count };
    drop(open(&server, 64)?);
    let before = settled(&server)?;
    let connections = open(&server, count)?;
    let with = settled(&server)?;
    let held = connections.len();
    drop(connections);
    bench.say(&format!("{:12} {} -> {} KiB with {held}", spec.name, before.rss / 1024, with.rss / 1024));
    server.stop();
    Ok(Growth { before, with, count: held })
}

/// Opens connections, each from one of several loopback addresses, and has one request answered on each.
pub fn open(server: &Server, count: usize) -> Result<Vec<TcpStream>> {
    let address = server.address;
    let opener = |index: usize| {
        let share = (count + OPENERS - 1 - index) / OPENERS;
        thread::spawn(move || -> Result<Vec<TcpStream>> {
            let mut streams = Vec::with_capacity(share);
            let source = Ipv4Addr::new(127, 0, 0, 2 + index as u8);
            for _ in 0..share {
                crate::interrupt::check()?;
                let mut client = Client::connect(address, Some(source), LIMIT).doing("connect")?;
                let reply = client.get(FILE).doing("an answer")?;
                if reply.status != 200 || reply.body.len() as u64 != SIZE || reply.closes {
                    return Err(Error::Failed(format!("answered {} instead of the file, keep-alive", reply.status)));
                }
                streams.push(client.into_stream());
            }
            Ok(streams)
        })
    };
    let threads: Vec<_> = (0..OPENERS).map(opener).collect();
    let mut all = Vec::with_capacity(count);
    for thread in threads {
        all.extend(thread.join().map_err(|_| Error::Failed("a client panicked".into()))??);
    }
    Ok(all)
}

/// The server's memory when it no longer changes.
pub fn settled(server: &Server) -> Result<Memory> {
    pause(Duration::from_secs(1))?;
    let mut last = server.process.memory();
    let same = wait_for(Duration::from_secs(8), Duration::from_millis(700), || {
        let now = server.process.memory();
        Ok((now.rss.abs_diff(last.rss) < 64 * 1024).then_some(now).or_else(|| {
            last = now;
            None
        }))
    })?;
    Ok(same.unwrap_or(last))
}
