//! The floor of a proxy: each connection has one to the server behind, and bytes go to and fro between the two.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};

use rustix::event::epoll::EventFlags;
use socket2::{Domain, Socket, Type};

use super::poll::{self, PendingBytes, Poll, Slots};

/// The most bytes that are received at once. With more of them the piece leaves the second cache of the processor
/// before it is sent; with fewer there are more calls.
const PIECE: usize = 64 * 1024;

/// A side of a pair.
struct RelaySide {
    stream: TcpStream,
    /// The number of the other side.
    other: usize,
    /// Bytes for this side.
    pending: PendingBytes,
    /// Whether this side may have bytes that were not received.
    is_readable: bool,
}

/// Serves until an error of the listening socket; `upstream` is the server behind.
pub fn serve(address: SocketAddr, upstream: SocketAddr) -> io::Result<()> {
    let listener = poll::listen(address)?;
    let own = poll::number(&listener);
    let (mut poll, mut sides) = (Poll::new()?, Slots::new());
    let mut piece = vec![0; PIECE];
    poll.watch(&listener)?;
    loop {
        for index in 0..poll.wait()? {
            let (number, flags) = poll.event(index);
            if number == own {
                if let Some(client) = poll::accept(&listener)? {
                    pair(&poll, &mut sides, client, connect(upstream)?)?;
                }
            } else if !turn(&mut sides, number, flags, &mut piece).unwrap_or(false)
                && let Some(side) = sides.take(number)
            {
                sides.take(side.other);
            }
        }
    }
}

/// Begins to connect. Over the loopback device this is done at once.
fn connect(upstream: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(upstream), Type::STREAM.nonblocking().cloexec(), None)?;
    match socket.connect(&upstream.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket.into()),
    }
}

fn pair(poll: &Poll, sides: &mut Slots<RelaySide>, client: TcpStream, upstream: TcpStream) -> io::Result<()> {
    let numbers = (poll::number(&client), poll::number(&upstream));
    for (stream, other) in [(client, numbers.1), (upstream, numbers.0)] {
        poll.watch_both_ways(&stream)?;
        let number = poll::number(&stream);
        sides.put(number, RelaySide { stream, other, pending: PendingBytes::default(), is_readable: false });
    }
    Ok(())
}

/// Goes on with a pair after an event of one side; returns whether it is still there.
fn turn(sides: &mut Slots<RelaySide>, number: usize, flags: EventFlags, piece: &mut [u8]) -> io::Result<bool> {
    let Some(side) = sides.get(number) else { return Ok(true) };
    let other = side.other;
    if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
        side.is_readable = true;
    }
    if flags.contains(EventFlags::OUT) && !side.pending.is_empty() && side.pending.flush(&side.stream)? {
        // The other side was not read for as long as this one was full.
        return Ok(pass(sides, other, number, piece)? && pass(sides, number, other, piece)?);
    }
    pass(sides, number, other, piece)
}

/// Passes on the bytes that are there; returns whether more may come.
fn pass(sides: &mut Slots<RelaySide>, from: usize, to: usize, piece: &mut [u8]) -> io::Result<bool> {
    loop {
        if !sides.get(to).is_some_and(|side| side.pending.is_empty()) {
            return Ok(true);
        }
        let Some(side) = sides.get(from) else { return Ok(false) };
        if !side.is_readable {
            return Ok(true);
        }
        let count = match side.stream.read(piece) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if poll::would_wait(&error) => {
                side.is_readable = false;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        // A short read has emptied the socket; another event tells of what comes later.
        side.is_readable = count == piece.len();
        let Some(side) = sides.get(to) else { return Ok(false) };
        side.pending.send(&side.stream, &piece[..count])?;
    }
}
