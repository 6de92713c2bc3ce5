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

/// The number of clients.
const COUNT: usize = 10_000;
/// A proxy holds a client's socket, a temporary file and for a while a socket of the upstream's for each of them.
const FILES_EACH: u64 = 3;
/// And how many there are where the limit of open files is too low: 20,000 is a common one.
const FEW: usize = 5_000;
/// Files a proxy needs besides.
const SPARE: u64 = 1_000;
/// The path that they request, and its length.
const FILE: (&str, u64) = ("/1m.bin", 1_000_000);
/// Bytes a second that each reads.
const PACE: usize = 10_000;
/// The time between two reads of each.
const READS: u32 = 5;
/// In how many groups they read, one after the other at equal distances: the bursts of all at once would be this program's.
const GROUPS: u32 = 200;
/// The number of turns over which the clients of a group begin to read, one after the other. It is about the number of
/// turns until the proxy gets requests for more. Else all of them would ask it at once.
const BEGINNINGS: usize = 12;
/// Their receive buffers, bytes: what a slow client has not read stays with the proxy.
const RECEIVE_BUFFER: usize = 16 * 1024;
/// The proxy's send buffers: otherwise the kernel takes the whole file.
const SEND_BUFFER: &str = "32k";
/// The time that one connection may take to open.
const LIMIT: Duration = Duration::from_secs(20);
/// Seconds for which they read what the kernel has for them already. It has taken up to 150 KB for each client before
/// that. A proxy that sends nothing meanwhile gets no requests for more before they have read that. Only after this
/// time it has to keep up with them.
const FROM_KERNEL: f64 = 20.0;
/// Requests a second of the clients that are not slow.
const PROBES: f64 = 200.0;
/// `proxy_buffer_size` and `proxy_buffers` as configured by default, in bytes: what each client may hold in memory.
const BUFFERS: f64 = 4096.0 + 8.0 * 4096.0;
/// The allowance for a connection and a request besides.
const ALLOWANCE: f64 = 16.0 * 1024.0;

/// Figures of one proxy in one round.
struct Found {
    peak: f64,
    /// Bytes that the slow clients have read in each phase.
    read: [f64; PHASES.len()],
    /// Of `return 200` and of the small file, in each phase.
    latencies: [[Latencies; 2]; PHASES.len()],
    failed: usize,
}

/// The phases of the measurement; see [`FROM_KERNEL`] for the last but one.
const PHASES: [&str; 4] = ["alone", "while slow clients come", "after they came", "among slow clients"];
/// The phases of [`PHASES`] that have goals.
const COMING: usize = 1;
const AMONG: usize = 3;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let open_files = raise_limit()?;
    let many = if open_files > FILES_EACH * COUNT as u64 + SPARE { COUNT } else { FEW };
    let count = if bench.options.quick { 500 } else { many };
    let (rounds, seconds) = (bench.options.runs(6), bench.options.seconds(3.0, 15.0));
    let pause = bench.options.seconds(2.0, FROM_KERNEL);
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
             have not read themselves yet, for {pause} s after that, in which the slow ones read what the kernel has taken for them (as good as nothing is asked of a proxy that has not sent to them while they came), \
             and for {seconds} s among them as they go on. At their pace the slow ones read {:.0} MB in {seconds} s. Memory is the highest resident set of all of the proxy's processes, over that \
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
            match on_cores(&client_cores, || measure(bench, spec, count, [seconds, pause])).and_then(|found| found) {
                Ok(found) => match results.iter_mut().find(|(name, _)| *name == spec.name) {
                    Some((_, list)) => list.push(found),
                    None => results.push((spec.name.clone(), vec![found])),
                },
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
            }
        }
    }
    report.tables.extend(tables(&results, count));
    let own = results.iter().find(|(name, _)| name == "freerun").map(|(_, list)| list);
    let peak = own.and_then(|list| list.iter().map(|found| found.peak).collect::<Series>().max());
    let text = "bytes of each slow client, at most the buffers and 16 KiB";
    report.goals.push(Goal::at_most(text, peak, BUFFERS + ALLOWANCE));
    let other = results.iter().find(|(name, _)| name == "nginx").map(|(_, list)| list);
    for (index, what) in ["return 200", "1 KB"].into_iter().enumerate() {
        for phase in [COMING, AMONG] {
            let p99 = |found: &Found| p99(&found.latencies[phase][index]);
            let median = |list: &Vec<Found>| list.iter().map(p99).collect::<Series>().median();
            let ratio = own.and_then(median).zip(other.and_then(median)).map(|(own, other)| own / other);
            report.goals.push(Goal::at_most(format!("{what} {}, p99: at most nginx's", PHASES[phase]), ratio, 1.0));
        }
    }
    let read = |list: &Vec<Found>| list.iter().map(|found| found.read[AMONG]).collect::<Series>().median();
    let ratio = own.and_then(read).zip(other.and_then(read)).map(|(own, other)| own / other);
    report.goals.push(Goal::at_least("bytes that slow clients get among the others: at least nginx's", ratio, 1.0));
    let failed = own.map(|list| list.iter().map(|found| found.failed).sum::<usize>() as f64);
    report.goals.push(Goal::at_most("failed requests: none", failed, 0.0));
    Ok(report)
}

/// The small file.
const SMALL: &str = "/1k.bin";

fn tables(results: &[(String, Vec<Found>)], count: usize) -> [Table; 2] {
    let series = |list: &[Found], figure: &dyn Fn(&Found) -> f64| list.iter().map(figure).collect::<Series>().cell();
    let mut memory = Table::new(format!("{count} slow clients"), &["proxy", "peak bytes/client", "failed"]);
    for (name, list) in results {
        let failed = list.iter().map(|found| found.failed).sum::<usize>() as f64;
        memory.row(vec![name.clone(), series(list, &|found| found.peak), short_or_nothing(Some(failed))]);
    }
    let head = ["when", "proxy", "read MB", "return 200 p99 ms", "1 KB p99 ms"];
    let mut times = Table::new("What they read, and how long others waited", &head);
    for (phase, when) in PHASES.iter().enumerate() {
        for (name, list) in results {
            let mut row = vec![(*when).to_owned(), name.clone(), series(list, &|found| found.read[phase] / 1e6)];
            row.extend((0..2).map(|what| series(list, &|found| p99(&found.latencies[phase][what]))));
            times.row(row);
        }
    }
    [memory, times]
}

fn measure(bench: &Bench, spec: &Spec, count: usize, [seconds, pause]: [f64; 2]) -> Result<Found> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    let alone = others(&server, seconds / 3.0, || Ok(()))?;
    let before = settled(&server)?;
    server.process.forget_peak()?;
    let mut crowd = None;
    let coming = others(&server, seconds, || {
        crowd = Some(Crowd::start(open(server.address, count)?)?);
        Ok(())
    })?;
    let read = || crowd.as_ref().map_or(0, |crowd| crowd.read.load(Relaxed));
    let first = read();
    let after = others(&server, pause, || Ok(()))?;
    let second = read();
    let among = others(&server, seconds, || Ok(()))?;
    let peak = server.process.peak();
    let (last, cut) = crowd.map_or(Ok((0, 0)), Crowd::stop)?;
    let peak = (peak as f64 - before.rss as f64) / count as f64;
    let read = [0, first, second - first, last - second].map(|bytes| bytes as f64);
    let phases = [alone, coming, after, among];
    let failed = cut + phases.iter().map(|(_, failed)| failed).sum::<usize>();
    bench.say(&format!("{:12} {peak:.0} bytes a client", spec.name));
    for ((when, read), ([ok, small], _)) in PHASES.iter().zip(read).zip(&phases) {
        bench.say(&format!("{when:>25}: {:.0} MB read; return 200: {ok}; 1 KB: {small}", read / 1e6));
    }
    server.stop();
    Ok(Found { peak, read, latencies: phases.map(|(latencies, _)| latencies), failed })
}

/// Asks for `return 200` and for the small file for `seconds` seconds, and does something else meanwhile.
fn others(server: &Server, seconds: f64, meanwhile: impl FnOnce() -> Result<()>) -> Result<([Latencies; 2], usize)> {
    let length = Duration::from_secs_f64(seconds);
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
