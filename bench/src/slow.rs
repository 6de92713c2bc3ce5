//! Many clients that read slowly what a proxy has buffered: how much memory do they take, and who else notices them?

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::client::Client;
use crate::configs::OK_PATH;
use crate::connections::settled;
use crate::error::{Doing, Error, Result};
use crate::probe::{self, Pace};
use crate::process::{Placement, on_cores, raise_limit};
use crate::proxy::start_upstream;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, Series, short_or_nothing};

/// How many there are.
const COUNT: usize = 10_000;
/// A proxy holds a client's socket, a temporary file and for a while a socket of the upstream's for each of them.
const FILES_EACH: u64 = 3;
/// And how many there are where the limit of open files is too low: 20,000 is a common one.
const FEW: usize = 5_000;
/// Files a proxy needs besides.
const SPARE: u64 = 1_000;
/// What they ask for, and how long it is.
const FILE: (&str, u64) = ("/1m.bin", 1_000_000);
/// Bytes a second that each reads.
const PACE: usize = 10_000;
/// How often each reads.
const READS: u32 = 5;
/// In how many groups they read, one after the other at equal distances: the bursts of all at once would be this program's.
const GROUPS: u32 = 200;
/// Those of a group begin to read at so many of their turns, one after the other: about as many as it takes until the proxy is asked for
/// more. Else it would be asked by all of them at once.
const BEGINNINGS: usize = 12;
/// Their receive buffers, bytes: what a slow client has not read stays with the proxy.
const RECEIVE_BUFFER: usize = 16 * 1024;
/// The proxy's send buffers: otherwise the kernel takes the whole file.
const SEND_BUFFER: &str = "32k";
/// How long one connection may take to open.
const LIMIT: Duration = Duration::from_secs(20);
/// Requests a second of the clients that are not slow.
const PROBES: f64 = 200.0;
/// `proxy_buffer_size` and `proxy_buffers` as configured by default, in bytes: what each client may hold in memory.
const BUFFERS: f64 = 4096.0 + 8.0 * 4096.0;
/// What a connection and a request may cost besides.
const ALLOWANCE: f64 = 16.0 * 1024.0;

/// One proxy's figures of one round.
struct Found {
    peak: f64,
    /// Bytes that the slow clients have read while they came, and among the others.
    read: [f64; 2],
    alone: [Latencies; 2],
    /// While the slow clients come.
    coming: [Latencies; 2],
    among: [Latencies; 2],
    failed: usize,
}

/// The latencies of one of the phases.
type Phase = fn(&Found) -> &[Latencies; 2];

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let open_files = raise_limit()?;
    let many = if open_files > FILES_EACH * COUNT as u64 + SPARE { COUNT } else { FEW };
    let count = if bench.options.quick { 500 } else { many };
    let (rounds, seconds) = (bench.options.runs(6), bench.options.seconds(3.0, 15.0));
    bench.scratch.file(FILE.0.trim_start_matches('/'), FILE.1)?;
    bench.scratch.file(SMALL.trim_start_matches('/'), 1_000)?;
    let (_, client_cores) = bench.machine.pair();
    let upstream = start_upstream(bench, &client_cores)?;
    let root = bench.scratch.folder("data")?;
    let specs = [Kind::Nginx, Kind::Freerun].map(|kind| Spec {
        connections: 2 * count + 9_500,
        sndbuf: SEND_BUFFER,
        ..Spec::new(kind, "", &root).proxy(upstream.address)
    });
    let mut report = Report {
        name: "slow",
        method: format!(
            "{count} clients, each with a receive buffer of {} KiB, ask a proxy for a file of 1 MB that its upstream serves from memory, and \
             read {} KB a second, at moments of their own; the proxy's sockets have send buffers of 32 KiB, everything else is at its default. Meanwhile others ask for `return 200` and for 1 KB through \
             the same proxy, {PROBES} times a second each: for {seconds} s from the moment when the first slow one comes, of which the proxies read and keep for them what they \
             have not read themselves yet, and for {seconds} s after that. At their pace the slow ones read {:.0} MB in {seconds} s. Memory is the highest resident set of all of the proxy's processes, over that \
             before; {rounds} rounds with a fresh proxy each, which begin with nothing to be written to the disk; median (min–max); one worker on one core, all clients on the other, where those who are not slow come first (`SCHED_FIFO`, or short slices without the right to that).",
            RECEIVE_BUFFER / 1024,
            PACE / 1000,
            (count * PACE) as f64 * seconds / 1e6
        ),
        ..Report::default()
    };
    let mut results: Vec<(String, Vec<Found>)> = Vec::new();
    for _ in 0..rounds {
        for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
            // What former rounds have left to be written would be written in this one.
            rustix::fs::sync();
            // What the clients do must not take the proxy's core.
            match on_cores(&client_cores, || measure(bench, spec, count, seconds)).and_then(|found| found) {
                Ok(found) => match results.iter_mut().find(|(name, _)| *name == spec.name) {
                    Some((_, list)) => list.push(found),
                    None => results.push((spec.name.clone(), vec![found])),
                },
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
            }
        }
    }
    report.tables.push(table(&results, count));
    let own = results.iter().find(|(name, _)| name == "freerun").map(|(_, list)| list);
    let peak = own.and_then(|list| list.iter().map(|found| found.peak).collect::<Series>().max());
    let text = "bytes of each slow client, at most the buffers and 16 KiB";
    report.goals.push(Goal::at_most(text, peak, BUFFERS + ALLOWANCE));
    let other = results.iter().find(|(name, _)| name == "nginx").map(|(_, list)| list);
    for (index, what) in ["return 200", "1 KB"].into_iter().enumerate() {
        let phases: [(&str, Phase); 2] =
            [("while slow clients come", |found| &found.coming), ("among slow clients", |found| &found.among)];
        for (when, phase) in phases {
            let median =
                |list: &Vec<Found>| list.iter().map(|found| p99(&phase(found)[index])).collect::<Series>().median();
            let ratio = own.and_then(median).zip(other.and_then(median)).map(|(own, other)| own / other);
            report.goals.push(Goal::at_most(format!("{what} {when}, p99: at most nginx's"), ratio, 1.0));
        }
    }
    let read = |list: &Vec<Found>| list.iter().map(|found| found.read[1]).collect::<Series>().median();
    let ratio = own.and_then(read).zip(other.and_then(read)).map(|(own, other)| own / other);
    report.goals.push(Goal::at_least("bytes that slow clients get among the others: at least nginx's", ratio, 1.0));
    let failed = own.map(|list| list.iter().map(|found| found.failed).sum::<usize>() as f64);
    report.goals.push(Goal::at_most("failed requests: none", failed, 0.0));
    Ok(report)
}

/// The small file.
const SMALL: &str = "/1k.bin";

fn table(results: &[(String, Vec<Found>)], count: usize) -> Table {
    let head = [
        "proxy",
        "peak bytes/client",
        "read MB: while they come",
        "among them",
        "return 200 p99 ms: alone",
        "while they come",
        "among them",
        "1 KB p99 ms: alone",
        "while they come",
        "among them",
        "failed",
    ];
    let mut table = Table::new(format!("{count} slow clients"), &head);
    for (name, list) in results {
        let series = |figure: &dyn Fn(&Found) -> f64| list.iter().map(figure).collect::<Series>().cell();
        table.row(vec![
            name.clone(),
            series(&|found| found.peak),
            series(&|found| found.read[0] / 1e6),
            series(&|found| found.read[1] / 1e6),
            series(&|found| p99(&found.alone[0])),
            series(&|found| p99(&found.coming[0])),
            series(&|found| p99(&found.among[0])),
            series(&|found| p99(&found.alone[1])),
            series(&|found| p99(&found.coming[1])),
            series(&|found| p99(&found.among[1])),
            short_or_nothing(Some(list.iter().map(|found| found.failed).sum::<usize>() as f64)),
        ]);
    }
    table
}

fn measure(bench: &Bench, spec: &Spec, count: usize, seconds: f64) -> Result<Found> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    let (alone, _) = others(&server, Duration::from_secs_f64(seconds / 3.0), || Ok(()))?;
    let before = settled(&server)?;
    server.process.forget_peak()?;
    let mut crowd = None;
    let (coming, also) = others(&server, Duration::from_secs_f64(seconds), || {
        crowd = Some(Crowd::start(open(server.address, count)?)?);
        Ok(())
    })?;
    let early = crowd.as_ref().map_or(0, |crowd| crowd.read.load(Relaxed));
    let (among, failed) = others(&server, Duration::from_secs_f64(seconds), || Ok(()))?;
    let peak = server.process.peak();
    let (read, cut) = crowd.map_or(Ok((0, 0)), Crowd::stop)?;
    let peak = (peak as f64 - before.rss as f64) / count as f64;
    let read = [early, read - early].map(|bytes| bytes as f64);
    bench.say(&format!(
        "{:12} {peak:.0} bytes a client, {:.0} and {:.0} MB read",
        spec.name,
        read[0] / 1e6,
        read[1] / 1e6
    ));
    for (when, [ok, small]) in [("alone", &alone), ("while they come", &coming), ("among them", &among)] {
        bench.say(&format!("{when:>20}: return 200: {ok}; 1 KB: {small}"));
    }
    server.stop();
    Ok(Found { peak, read, alone, coming, among, failed: failed + also + cut })
}

/// Asks for `return 200` and for the small file for so long, and does something else meanwhile.
fn others(
    server: &Server,
    length: Duration,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<([Latencies; 2], usize)> {
    let pace = |path: &str| Pace { path: path.to_owned(), rate: PROBES, length };
    let ok = probe::prepare(server.address, pace(OK_PATH))?;
    let small = probe::prepare(server.address, pace(SMALL))?;
    let (ok, small) = (ok.start()?, small.start()?);
    let done = meanwhile();
    let ((ok, failed), (small, also)) = (ok.finish(), small.finish());
    done?;
    Ok(([ok, small], failed + also))
}

/// Opens the connections and sends the requests.
fn open(server: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        crate::interrupt::check()?;
        let source = Ipv4Addr::new(127, 0, 0, 2 + (index % 4) as u8);
        let mut client = Client::connect(server, Some(source), LIMIT).doing("connect")?;
        client.send(FILE.0).doing("ask for a file")?;
        let stream = client.into_stream();
        socket2::SockRef::from(&stream).set_recv_buffer_size(RECEIVE_BUFFER).doing("set a receive buffer")?;
        stream.set_nonblocking(true).doing("set a socket to non-blocking")?;
        all.push(stream);
    }
    Ok(all)
}

/// The slow clients: a thread that reads a little from each, over and over.
struct Crowd {
    thread: JoinHandle<usize>,
    over: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
}

impl Crowd {
    fn start(clients: Vec<TcpStream>) -> Result<Crowd> {
        let (over, read) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (flag, sum) = (over.clone(), read.clone());
        let thread = thread::Builder::new().name("slow".into()).spawn(move || read_slowly(clients, &flag, &sum));
        Ok(Crowd { thread: thread.doing("start a thread")?, over, read })
    }

    /// Bytes read, and how many clients were left by the proxy.
    fn stop(self) -> Result<(u64, usize)> {
        self.over.store(true, Relaxed);
        let cut = self.thread.join().map_err(|_| Error::Failed("a client panicked".into()))?;
        Ok((self.read.load(Relaxed), cut))
    }
}

fn read_slowly(clients: Vec<TcpStream>, over: &AtomicBool, sum: &AtomicU64) -> usize {
    let mut buffer = vec![0; PACE / READS as usize];
    let (mut cut, mut turn) = (0, 0);
    let mut groups: Vec<Vec<(usize, TcpStream)>> = (0..GROUPS).map(|_| Vec::new()).collect();
    for (index, client) in clients.into_iter().enumerate() {
        let (place, group) = (index / groups.len(), index % groups.len());
        groups[group].push((place % BEGINNINGS, client));
    }
    let step = Duration::from_secs(1) / READS / GROUPS;
    let mut next = Instant::now();
    while !over.load(Relaxed) {
        for group in &mut groups {
            group.retain_mut(|(first, client)| {
                let stays = turn < *first || read_some(client, &mut buffer, sum);
                cut += usize::from(!stays);
                stays
            });
            // Not sooner to make up for a turn that has taken longer.
            next = (next + step).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        turn += 1;
    }
    cut
}

/// Reads what there is, up to a buffer's length. Whether the proxy is still there.
fn read_some(client: &mut TcpStream, buffer: &mut [u8], sum: &AtomicU64) -> bool {
    match client.read(buffer) {
        Ok(0) => false,
        Ok(read) => {
            sum.fetch_add(read as u64, Relaxed);
            true
        }
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn p99(latencies: &Latencies) -> f64 {
    latencies.percentile_ms(99.0).unwrap_or(f64::NAN)
}
