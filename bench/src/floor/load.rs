//! Clients of the floors that no other benchmark has: handshakes without TLS, and datagrams.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use freerun_sys::datagrams::DatagramDetail;
use rustix::event::epoll::EventFlags;

use super::datagrams::{BATCH, Batch, ROOM, connect};
use super::handshakes::{FloorKey, HELLO, REQUEST};
use super::poll::{self, Poll, Slots};
use crate::bench::Bench;
use crate::client::Client;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Work;
use crate::interrupt::check;
use crate::process::on_cores;
use crate::servers::Server;
use crate::streams::load::SessionLoad;
use crate::tls::handshakes::{self, HandshakeLoad};
use crate::wrk::{WrkLoad, WrkOutcome};

/// The time that a step may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The bytes of a datagram.
const MESSAGE: usize = 64;

/// The number of clients that send datagrams, and of datagrams that each has under way.
const CLIENTS: usize = 8;
const WINDOW: usize = 32;

/// The time after which datagrams that did not come back are lost.
const LOST: Duration = Duration::from_millis(50);

/// A load on a server or a floor.
pub enum FloorLoad {
    /// Requests on kept connections.
    Requests(WrkLoad),
    /// Sessions of stream.
    Sessions(SessionLoad),
    /// Full handshakes of TLS, each with a request.
    Tls(HandshakeLoad),
    /// As many bytes each way as a handshake and a request have.
    Bytes(BytesLoad),
    /// Datagrams to and fro.
    Datagrams(DatagramLoad),
}

/// Connections that exchange bytes as a handshake does.
#[derive(Debug, Clone)]
pub struct BytesLoad {
    /// The key, which decides how many bytes the server sends.
    pub key: FloorKey,
    /// The number of connections at a time.
    pub at_a_time: usize,
    /// The time that it goes on.
    pub seconds: f64,
    /// The cores of the client.
    pub cores: Vec<usize>,
}

/// Clients that each keep some datagrams under way.
#[derive(Debug, Clone)]
pub struct DatagramLoad {
    /// The time that it goes on.
    pub seconds: f64,
    /// The cores of the client.
    pub cores: Vec<usize>,
}

impl Work for FloorLoad {
    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome> {
        match self {
            FloorLoad::Requests(load) => load.run(bench, server),
            FloorLoad::Sessions(load) => load.run(bench, server),
            FloorLoad::Tls(load) => {
                let found = handshakes::run(load)?;
                match found.complaint {
                    Some(complaint) if found.done == 0 => Err(Error::Failed(complaint)),
                    _ => Ok(outcome(found.done as f64, found.time.as_secs_f64(), found.failed as f64)),
                }
            }
            FloorLoad::Bytes(load) => on_cores(&load.cores, || load.measure(server.address))?,
            FloorLoad::Datagrams(load) => on_cores(&load.cores, || load.measure(server.address))?,
        }
    }
}

fn outcome(requests: f64, seconds: f64, errors: f64) -> WrkOutcome {
    WrkOutcome { requests, seconds, errors, ..WrkOutcome::default() }
}

/// A connection under way, and the bytes that it has received.
struct BytesConnection {
    stream: TcpStream,
    received: usize,
}

impl BytesLoad {
    fn measure(&self, server: SocketAddr) -> Result<WrkOutcome> {
        let (began, time) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        let mut poll = Poll::new().doing("make an epoll instance")?;
        let (mut connections, mut opened, mut done) = (Slots::new(), 0, 0);
        for _ in 0..self.at_a_time {
            open(server, &mut opened, &poll, &mut connections)?;
        }
        let (request, mut piece) = ([0; REQUEST], [0; 4096]);
        while began.elapsed() < time {
            check()?;
            for index in 0..poll.wait().doing("wait for events")? {
                let (number, _) = poll.event(index);
                let Some(exchange) = connections.get(number) else { continue };
                let before = exchange.received;
                let ended = match exchange.stream.read(&mut piece) {
                    Ok(0) => true,
                    Ok(count) => {
                        exchange.received += count;
                        if before < self.key.flight() && exchange.received >= self.key.flight() {
                            exchange.stream.write_all(&request).doing("send")?;
                        }
                        false
                    }
                    Err(error) if poll::would_wait(&error) => false,
                    Err(error) => return Err(error).doing("receive"),
                };
                if ended {
                    connections.take(number);
                    done += 1;
                    open(server, &mut opened, &poll, &mut connections)?;
                }
            }
        }
        Ok(outcome(f64::from(done), began.elapsed().as_secs_f64(), 0.0))
    }
}

/// Opens a connection and sends the first message; one of a few source addresses has the ports for it.
fn open(server: SocketAddr, opened: &mut u8, poll: &Poll, connections: &mut Slots<BytesConnection>) -> Result<()> {
    *opened = opened.wrapping_add(1);
    let source = Ipv4Addr::new(127, 0, 0, 2 + *opened % 4);
    let mut stream = Client::connect(server, Some(source), LIMIT).doing("connect")?.into_stream();
    stream.write_all(&[0; HELLO]).doing("send")?;
    stream.set_nonblocking(true).doing("connect")?;
    poll.watch(&stream).doing("watch a connection")?;
    connections.put(poll::number(&stream), BytesConnection { stream, received: 0 });
    Ok(())
}

impl DatagramLoad {
    fn measure(&self, server: SocketAddr) -> Result<WrkOutcome> {
        let (began, time) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        let mut poll = Poll::new().doing("make an epoll instance")?;
        let mut clients = Slots::new();
        let mut numbers = Vec::new();
        // Wakes the loop when nothing comes back any more.
        let alarm = rustix::time::timerfd_create(
            rustix::time::TimerfdClockId::Monotonic,
            rustix::time::TimerfdFlags::NONBLOCK.union(rustix::time::TimerfdFlags::CLOEXEC),
        )
        .map_err(io::Error::from)
        .doing("make a timer")?;
        let step = rustix::time::Timespec { tv_sec: 0, tv_nsec: LOST.subsec_nanos().into() };
        let every = rustix::time::Itimerspec { it_interval: step, it_value: step };
        rustix::time::timerfd_settime(&alarm, rustix::time::TimerfdTimerFlags::empty(), &every)
            .map_err(io::Error::from)
            .doing("set a timer")?;
        poll.watch(&alarm).doing("watch a timer")?;
        for _ in 0..CLIENTS {
            let socket = connect(server).doing("make a socket")?;
            poll.watch(&socket).doing("watch a socket")?;
            numbers.push(poll::number(&socket));
            fill(&socket);
            clients.put(poll::number(&socket), (socket, true));
        }
        let mut batch = Batch::new();
        let (mut done, mut errors) = (0.0, 0.0);
        while began.elapsed() < time {
            check()?;
            for index in 0..poll.wait().doing("wait for events")? {
                let (number, flags) = poll.event(index);
                let Some((socket, answered)) = clients.get(number) else {
                    // The timer: clients that received nothing since the last time begin anew.
                    let _ = rustix::io::read(&alarm, &mut [0; 8]);
                    for number in &numbers {
                        if let Some((socket, answered)) = clients.get(*number)
                            && !std::mem::take(answered)
                        {
                            errors += 1.0;
                            fill(socket);
                        }
                    }
                    continue;
                };
                debug_assert!(flags.intersects(EventFlags::IN | EventFlags::ERR), "only datagrams are watched for");
                let count = batch.receive(socket, DatagramDetail::Bytes).doing("receive")?;
                batch.send(0..count, socket, None);
                *answered |= count > 0;
                done += count as f64;
            }
        }
        Ok(outcome(done, began.elapsed().as_secs_f64(), errors))
    }
}

/// Sends as many datagrams as a client may have under way.
fn fill(socket: &UdpSocket) {
    for _ in 0..WINDOW {
        // A datagram that has no room is lost, as others are.
        let _ = socket.send(&[b'd'; MESSAGE]);
    }
}

const _: () = assert!(WINDOW <= BATCH && MESSAGE <= ROOM, "what a client has under way fits into one call");
