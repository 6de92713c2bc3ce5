//! A server that answers every request with the same bytes and does little else. It stands behind the proxy that is
//! measured. A server that needs as long for a request as the proxy does, on the clients' core, would set the pace.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use socket2::{Domain, Socket, Type};

use crate::error::{ErrorContext, Result};

/// The listening socket's number; the numbers of connections begin behind it.
const LISTENER: u64 = 0;
/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// Events asked for at once.
const EVENTS: usize = 64;
/// Longest piece of requests read at once, bytes.
const PIECE: usize = 16 * 1024;
/// The end of a request without a body.
const END: &[u8] = b"\r\n\r\n";

/// The manner in which an answer is sent.
#[derive(Debug, Clone, Copy)]
pub enum Pieces {
    /// With one call.
    One,
    /// With a call for the head and one for the body.
    HeadAndBody,
}

/// Starts it on a thread that ends with this process and has the cores of the calling thread; a body of `size` bytes,
/// after a head like nginx's.
pub fn start(size: usize, pieces: Pieces) -> Result<SocketAddr> {
    serve_at(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("listen")?, size, pieces)
}

/// The same at one port of all loopback addresses (127.0.0.0/8); returns the port.
pub fn start_everywhere(size: usize, pieces: Pieces) -> Result<u16> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).doing("listen")?;
    // Nobody outside of this machine is to reach it.
    socket.bind_device(Some(b"lo")).doing("bind to the loopback device")?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into()).doing("listen")?;
    socket.listen(BACKLOG).doing("listen")?;
    Ok(serve_at(socket.into(), size, pieces)?.port())
}

fn serve_at(listener: TcpListener, size: usize, pieces: Pieces) -> Result<SocketAddr> {
    listener.set_nonblocking(true).doing("listen")?;
    let address = listener.local_addr().doing("listen")?;
    let poll = epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from).doing("create an epoll instance")?;
    watch(&poll, &listener, LISTENER).doing("listen")?;
    let answer = answer(size, pieces);
    let serve = move || serve(&poll, &listener, &answer).unwrap_or_else(|error| eprintln!("upstream: {error}"));
    thread::Builder::new().name("canned".into()).spawn(serve).doing("start a thread")?;
    Ok(address)
}

/// A head like nginx's, of a body of `size` bytes.
pub fn head(size: u64) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Tue, 24 Nov 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\n\
         Content-Length: {size}\r\nConnection: keep-alive\r\n\r\n"
    );
    head.into_bytes()
}

/// The bytes to send, a call each.
fn answer(size: usize, pieces: Pieces) -> Vec<Vec<u8>> {
    let (head, body) = (head(size as u64), vec![b'x'; size]);
    match pieces {
        Pieces::One => vec![[head, body].concat()],
        Pieces::HeadAndBody => vec![head, body],
    }
}

fn watch(poll: &OwnedFd, socket: &impl std::os::fd::AsFd, number: u64) -> io::Result<()> {
    Ok(epoll::add(poll, socket, EventData::new_u64(number), EventFlags::IN)?)
}

fn serve(poll: &OwnedFd, listener: &TcpListener, answer: &[Vec<u8>]) -> io::Result<()> {
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut events = Vec::with_capacity(EVENTS);
    let mut buffer = vec![0; PIECE];
    loop {
        events.clear();
        match epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let number = LISTENER + 1 + stream.as_raw_fd() as u64;
                watch(poll, &stream, number)?;
                connections.insert(number, Connection { stream, ended: 0 });
            } else if connections.get_mut(&number).is_some_and(|connection| !connection.turn(&mut buffer, answer)) {
                connections.remove(&number);
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// The number of bytes of [`END`] that the last piece ended with.
    ended: usize,
}

impl Connection {
    /// Reads the bytes that are there, and answers the requests that end in them. Returns whether the client is still
    /// there. Blocks until the answer is taken: if it is shorter than a socket's buffer, that is at once.
    fn turn(&mut self, buffer: &mut [u8], answer: &[Vec<u8>]) -> bool {
        match self.stream.read(buffer) {
            Ok(read) if read > 0 => {
                let mut pieces = answer.iter().cycle().take(ends(&mut self.ended, &buffer[..read]) * answer.len());
                pieces.all(|piece| self.stream.write_all(piece).is_ok())
            }
            _ => false,
        }
    }
}

/// The number of requests that end in `piece`; `ended` is the number of bytes of [`END`] before it, and afterwards.
fn ends(ended: &mut usize, piece: &[u8]) -> usize {
    let mut count = 0;
    for byte in piece {
        *ended = match *ended {
            part if *byte == END[part] => part + 1,
            // A return where a line feed was due may be the first of another pair.
            _ => usize::from(*byte == END[0]),
        };
        if *ended == END.len() {
            (count, *ended) = (count + 1, 0);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_wherever_its_pieces_do() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\r\n\r\n";
        for cut in 0..=text.len() {
            let mut ended = 0;
            let count = ends(&mut ended, &text[..cut]) + ends(&mut ended, &text[cut..]);
            assert_eq!((count, ended), (2, 0), "cut at {cut}");
        }
    }

    #[test]
    fn every_request_is_answered() {
        for pieces in [Pieces::One, Pieces::HeadAndBody] {
            let mut stream = TcpStream::connect(start(10, pieces).unwrap()).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n").unwrap();
            let expected = answer(10, Pieces::One).concat().repeat(2);
            let mut text = vec![0; expected.len()];
            stream.read_exact(&mut text).unwrap();
            assert_eq!(text, expected);
        }
    }
}
