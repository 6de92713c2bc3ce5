//! Clients of the proxies.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::upstream::{ECHO, SOURCE};
use crate::bench::Bench;
use crate::client::Client;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Work;
use crate::interrupt::check;
use crate::process::on_cores;
use crate::servers::Server;
use crate::wrk::WrkOutcome;

/// The time that a step may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The size of a message.
const MESSAGE: usize = 64;

/// The number of bytes that are read at a time.
const PIECE: usize = 256 * 1024;

/// The unit that bulk is counted in.
const MEBIBYTE: f64 = (1 << 20) as f64;

/// The number of events that are taken at a time.
const EVENTS: usize = 256;

/// The work of a client on its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Reads what comes without end.
    Bulk,
    /// Sends a message and waits until it is back, again and again.
    PingPong,
    /// Connects, sends a message, waits until it is back and closes, again and again.
    Short,
}

/// The load of a case.
#[derive(Debug, Clone)]
pub struct SessionLoad {
    /// The purpose of each connection.
    pub what: Use,
    /// The number of connections at a time.
    pub sessions: usize,
    /// The time that it goes on.
    pub seconds: f64,
    /// The cores of the client.
    pub cores: Vec<usize>,
}

impl Work for SessionLoad {
    fn run(&self, _: &Bench, server: &Server) -> Result<WrkOutcome> {
        on_cores(&self.cores, || self.measure(server.address))?
    }
}

impl SessionLoad {
    fn measure(&self, server: SocketAddr) -> Result<WrkOutcome> {
        let time = Duration::from_secs_f64(self.seconds);
        let (requests, mut times) = match self.what {
            Use::Short => short(server, time)?,
            what => sessions(server, what, self.sessions, time)?,
        };
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
        Ok(WrkOutcome { requests, seconds: self.seconds, p50_ms: at(0.5), p99_ms: at(0.99), ..WrkOutcome::default() })
    }
}

/// Opens a connection; one of a few source addresses has the ports for it.
pub fn connect(server: SocketAddr, index: usize) -> Result<TcpStream> {
    let source = Ipv4Addr::new(127, 0, 0, 2 + (index % 4) as u8);
    Ok(Client::connect(server, Some(source), LIMIT).doing("connect")?.into_stream())
}

/// An exchange of a message on a connection that waits.
pub fn exchange(stream: &mut TcpStream) -> io::Result<()> {
    let mut message = [ECHO; MESSAGE];
    stream.write_all(&message)?;
    stream.read_exact(&mut message)
}

fn short(server: SocketAddr, time: Duration) -> Result<(f64, Vec<f64>)> {
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        check()?;
        let start = Instant::now();
        let mut stream = connect(server, times.len())?;
        exchange(&mut stream).doing("exchange a message")?;
        drop(stream);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok((times.len() as f64, times))
}

/// A connection that is used all the time.
struct Session {
    stream: TcpStream,
    /// The number of bytes of the message that are missing.
    missing: usize,
    sent: Instant,
}

fn sessions(server: SocketAddr, what: Use, count: usize, time: Duration) -> Result<(f64, Vec<f64>)> {
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from).doing("make an epoll instance")?;
    let mut all = HashMap::new();
    for index in 0..count {
        check()?;
        let mut stream = connect(server, index)?;
        let first: &[u8] = if what == Use::Bulk { &[SOURCE] } else { &[ECHO; MESSAGE] };
        stream.write_all(first).doing("send")?;
        stream.set_nonblocking(true).doing("connect")?;
        let key = stream.as_raw_fd() as u64;
        let added = epoll::add(&epoll, &stream, EventData::new_u64(key), EventFlags::IN);
        added.map_err(io::Error::from).doing("watch a connection")?;
        all.insert(key, Session { stream, missing: MESSAGE, sent: Instant::now() });
    }
    let mut told: Vec<Event> = Vec::with_capacity(EVENTS);
    let mut buffer = vec![0; PIECE];
    let (mut done, mut times) = (0.0, Vec::new());
    let began = Instant::now();
    while began.elapsed() < time {
        check()?;
        told.clear();
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut told), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error)).doing("wait for events"),
        }
        for event in &told {
            let Some(session) = all.get_mut(&event.data.u64()) else { continue };
            let n = match session.stream.read(&mut buffer) {
                Ok(0) => return Err(Error::Failed("a connection was closed".into())),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error).doing("read"),
            };
            if what == Use::Bulk {
                done += n as f64 / MEBIBYTE;
                continue;
            }
            session.missing = session.missing.saturating_sub(n);
            if session.missing == 0 {
                done += 1.0;
                times.push(session.sent.elapsed().as_secs_f64() * 1e3);
                (session.missing, session.sent) = (MESSAGE, Instant::now());
                session.stream.write_all(&[ECHO; MESSAGE]).doing("send")?;
            }
        }
    }
    Ok((done, times))
}
