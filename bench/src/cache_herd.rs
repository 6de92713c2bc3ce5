//! Many clients at once for a large object that no cache has: how often is the origin asked, and when does each client get
//! its first byte?

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bench::Bench;
use crate::cache_hits::cached;
use crate::error::{Doing, Error, Result};
use crate::interrupt;
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::scratch::Random;
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::Series;

/// The time that the slowest client may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Bytes read at once; of the first read of a client.
const PIECE: usize = 64 * 1024;
const FIRST: usize = 4 * 1024;
/// Clients that are read from before those are looked at that have nothing yet.
const FEW: usize = 8;
/// Threads of the clients.
const THREADS: usize = 2;
/// Longest head.
const MAX_HEAD: usize = 16 * 1024;
/// Bytes that the origin sends at a time, and how often: 2 MB a second, evenly. (nginx's `limit_rate` would send a second's share at
/// once, and copying that a thousand times keeps two cores busy for longer than the first bytes take.)
const PACE: (usize, Duration) = (32 * 1024, Duration::from_millis(16));

/// The figures of one herd.
#[derive(Debug, Default)]
struct Seen {
    /// Of each client, from the moment the requests were sent to the first byte of the body.
    first: Vec<Duration>,
    /// Of each client, from the moment the requests were sent to the end of the body.
    end: Vec<Duration>,
    /// Clients that did not get the whole object, byte by byte.
    wrong: usize,
    /// Requests that the origin got.
    asked: u64,
}

impl Seen {
    fn earliest(&self) -> f64 {
        ms(self.first.iter().min())
    }

    fn latest(&self) -> f64 {
        ms(self.first.iter().max())
    }

    fn done(&self) -> f64 {
        ms(self.end.iter().max())
    }
}

fn ms(time: Option<&Duration>) -> f64 {
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (clients, size) = if bench.options.quick { (100, 1_000_000) } else { (1_000, 10_000_000) };
    let rounds = bench.options.runs(3);
    let root = bench.scratch.folder("data")?;
    let origin = Paced::start(size)?;
    let specs = [
        cached(Spec::new(Kind::Nginx, "", &root), ""),
        cached(Spec::new(Kind::Freerun, "", &root), ""),
        Spec::new(Kind::Varnish, "", &root),
    ]
    .map(|spec| spec.workers(2).proxy(origin.address));
    let (servers, notes) = start_all(bench, &specs, &Placement::default())?;
    let mut report = Report {
        name: "cache-herd",
        method: format!(
            "{clients} clients, connected before, ask at once for an object of {} MB that is in no cache, which the origin sends with 2 MB \
             a second; `proxy_cache_lock on`; 2 workers; {rounds} rounds, another object each. Times are from the moment the requests \
             were sent to the first byte of the body, and to the last one of the last client. Every byte is compared.",
            size / 1_000_000
        ),
        notes,
        ..Report::default()
    };
    let head = [
        "server",
        "origin requests",
        "first byte, first client ms",
        "last client ms",
        "spread ms",
        "all done ms",
        "wrong",
    ];
    let mut table = Table::new("", &head);
    for server in &servers {
        let mut rounds_seen = Vec::new();
        for round in 0..rounds {
            let path = format!("/herd-{}-{round}.bin", server.spec.name.replace(' ', "-"));
            let before = origin.asked.load(Relaxed);
            let mut seen = herd(server.address, &path, clients, &origin.body)?;
            seen.asked = (origin.asked.load(Relaxed) - before) as u64;
            bench.say(&format!(
                "{:16} {} requests, first bytes {:.1} to {:.1} ms",
                server.spec.name,
                seen.asked,
                seen.earliest(),
                seen.latest()
            ));
            rounds_seen.push(seen);
        }
        let series = |figure: &dyn Fn(&Seen) -> f64| rounds_seen.iter().map(figure).collect::<Series>();
        let asked = series(&|seen| seen.asked as f64);
        let spread = series(&|seen| seen.latest() - seen.earliest());
        let wrong: usize = rounds_seen.iter().map(|seen| seen.wrong).sum();
        if server.spec.kind == Kind::Freerun {
            report.goals = vec![
                Goal::at_most("one request to the origin (the most of a round)", asked.max(), 1.0),
                Goal::at_most(
                    "the last client's first byte at most 50 ms behind the first's (median)",
                    spread.median(),
                    50.0,
                ),
                Goal::at_most("no client gets a wrong byte", Some(wrong as f64), 0.0),
            ];
        }
        table.row(vec![
            server.spec.name.clone(),
            asked.cell(),
            series(&Seen::earliest).cell(),
            series(&Seen::latest).cell(),
            spread.cell(),
            series(&Seen::done).cell(),
            wrong.to_string(),
        ]);
    }
    report.tables.push(table);
    servers.into_iter().for_each(Server::stop);
    Ok(report)
}

/// An origin that sends one object to whoever asks for anything, at an even pace, and counts.
struct Paced {
    address: SocketAddr,
    body: Arc<Vec<u8>>,
    asked: Arc<AtomicUsize>,
}

impl Paced {
    /// Listens on a free port until the process ends.
    fn start(size: u64) -> Result<Paced> {
        let listener = TcpListener::bind("127.0.0.1:0").doing("listen")?;
        let address = listener.local_addr().doing("listen")?;
        let mut random = Random::new(size);
        let body: Vec<u8> = (0..size / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let (body, asked) = (Arc::new(body), Arc::new(AtomicUsize::new(0)));
        let (sent, count) = (body.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sent, count) = (sent.clone(), count.clone());
                std::thread::spawn(move || {
                    // A connection that ends is no error of the origin's.
                    let _ = answer(stream, &sent, &count);
                });
            }
        });
        Ok(Paced { address, body, asked })
    }
}

fn answer(mut stream: TcpStream, body: &[u8], count: &AtomicUsize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte)? == 0 || head.len() > MAX_HEAD {
                return Ok(());
            }
            head.push(byte[0]);
        }
        count.fetch_add(1, Relaxed);
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes())?;
        let begin = Instant::now();
        for (number, piece) in body.chunks(PACE.0).enumerate() {
            let due = PACE.1 * u32::try_from(number).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            stream.write_all(piece)?;
        }
    }
}

/// A client.
struct One {
    stream: TcpStream,
    head: Vec<u8>,
    in_body: bool,
    got: usize,
    first: Option<Duration>,
    end: Option<Duration>,
    failed: bool,
}

impl One {
    fn is_done(&self) -> bool {
        self.failed || self.end.is_some()
    }

    /// Takes what has come.
    fn take(&mut self, bytes: &[u8], body: &[u8], now: Duration) {
        let mut bytes = bytes;
        if !self.in_body {
            let had = self.head.len();
            self.head.extend_from_slice(bytes);
            match self.head.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => {
                    self.in_body = true;
                    self.failed |= !self.head.starts_with(b"HTTP/1.1 200");
                    bytes = &bytes[end + 4 - had..];
                    // Only bodies with a length are expected.
                    self.failed |=
                        !String::from_utf8_lossy(&self.head).to_ascii_lowercase().contains("content-length:");
                }
                None => {
                    self.failed |= self.head.len() > MAX_HEAD;
                    return;
                }
            }
        }
        if bytes.is_empty() {
            return;
        }
        self.first.get_or_insert(now);
        let until = self.got + bytes.len();
        self.failed |= body.get(self.got..until) != Some(bytes);
        self.got = until;
        if self.got == body.len() {
            self.end = Some(now);
        }
    }
}

/// Has `count` clients ask at once.
fn herd(server: SocketAddr, path: &str, count: usize, body: &[u8]) -> Result<Seen> {
    let connect = || -> std::io::Result<One> {
        let stream = TcpStream::connect(server)?;
        stream.set_nonblocking(true)?;
        Ok(One { stream, head: Vec::new(), in_body: false, got: 0, first: None, end: None, failed: false })
    };
    let mut clients: Vec<One> = (0..count).map(|_| connect().doing("connect")).collect::<Result<_>>()?;
    // The server has accepted them when it gets to the last one; a moment for that.
    interrupt::pause(Duration::from_millis(300))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for share in clients.chunks_mut(count.div_ceil(THREADS)) {
            let request = request.as_bytes();
            scope.spawn(move || serve(share, request, body, begin));
        }
    });
    interrupt::check()?;
    if clients.iter().all(|one| one.first.is_none()) {
        return Err(Error::Failed("no client got anything".into()));
    }
    Ok(Seen {
        first: clients.iter().filter_map(|one| one.first).collect(),
        end: clients.iter().filter_map(|one| one.end).collect(),
        wrong: clients.iter().filter(|one| one.failed || one.end.is_none()).count(),
        asked: 0,
    })
}

/// Sends the requests of some clients and reads their answers until all are complete. Clients without an answer so far
/// are looked at between any few others, so that their time does not contain the reading of other answers.
fn serve(clients: &mut [One], request: &[u8], body: &[u8], begin: Instant) {
    for one in clients.iter_mut() {
        one.failed |= one.stream.write_all(request).is_err();
    }
    let mut piece = vec![0; PIECE];
    let (wait, look) = (Timespec { tv_sec: 0, tv_nsec: 20_000_000 }, Timespec { tv_sec: 0, tv_nsec: 0 });
    while begin.elapsed() < LIMIT && interrupt::check().is_ok() {
        let waiting = all(clients, |one| !one.is_done());
        if waiting.is_empty() {
            return;
        }
        for few in ready(clients, &waiting, &wait).chunks(FEW) {
            for at in few {
                read(&mut clients[*at], &mut piece, body, begin);
            }
            let new = all(clients, |one| one.first.is_none() && !one.is_done());
            for at in ready(clients, &new, &look) {
                read(&mut clients[at], &mut piece[..FIRST], body, begin);
            }
        }
    }
}

fn all(clients: &[One], which: impl Fn(&One) -> bool) -> Vec<usize> {
    (0..clients.len()).filter(|at| which(&clients[*at])).collect()
}

/// The clients of `which` that have something to read.
fn ready(clients: &[One], which: &[usize], wait: &Timespec) -> Vec<usize> {
    let mut fds: Vec<PollFd<'_>> = which.iter().map(|at| PollFd::new(&clients[*at].stream, PollFlags::IN)).collect();
    // Nothing is ready after an error either.
    if fds.is_empty() || poll(&mut fds, Some(wait)).is_err() {
        return Vec::new();
    }
    which.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(at, _)| *at).collect()
}

fn read(one: &mut One, piece: &mut [u8], body: &[u8], begin: Instant) {
    match one.stream.read(piece) {
        Ok(0) => one.failed = true,
        Ok(count) => one.take(&piece[..count], body, begin.elapsed()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => one.failed = true,
    }
}
