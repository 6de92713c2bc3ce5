//! A client's connection, plain or over TLS, that never waits.

use std::io::{self, BufRead as _, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::ClientConnection;
use rustls::{ClientConfig, HandshakeKind};
use socket2::{Domain, Socket, Type};

use super::client;

/// Longest head of an answer.
const MAX_HEAD: usize = 8 * 1024;

/// The bytes that one call reads at most, and so the size of the buffer that [`BenchConnection::advance`] is given.
pub const PIECE: usize = 16 * 1024;

/// A connection.
#[derive(Debug)]
pub struct BenchConnection {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// The bytes that are still to be sent of requests without TLS.
    unsent: Vec<u8>,
    answer: Answer,
    status: Option<u16>,
    ended: bool,
}

impl BenchConnection {
    /// Begins to connect to `server`, from `source` if given, over TLS if there are settings for it; sends what can be sent
    /// at once.
    pub fn open(
        server: SocketAddr,
        source: Option<Ipv4Addr>,
        tls: Option<&Arc<ClientConfig>>,
    ) -> io::Result<BenchConnection> {
        let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), None)?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
                return Err(error);
            }
            _ => {}
        }
        let tls = match tls {
            Some(settings) => {
                let tls = ClientConnection::new(Arc::clone(settings), client::name()).map_err(bad)?;
                Some(Box::new(tls))
            }
            None => None,
        };
        let unsent = Vec::new();
        let answer = Answer::default();
        let mut connection = BenchConnection { socket: socket.into(), tls, unsent, answer, status: None, ended: false };
        connection.flush()?;
        Ok(connection)
    }

    /// The socket, for epoll.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket alone; what is known of the TLS on it is forgotten.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Whether the handshake is over and all is sent that belongs to it.
    pub fn is_established(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking() && !tls.wants_write())
    }

    /// Whether the handshake resumed a session.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().and_then(|tls| tls.handshake_kind()) == Some(HandshakeKind::Resumed)
    }

    /// Whether the server has closed the connection.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Sends a request, as soon as there is a connection to send it on. The former one has been answered.
    pub fn send(&mut self, request: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(request)?,
            None => self.unsent.extend_from_slice(request),
        }
        self.flush()
    }

    /// The status of an answer that has come whole, once.
    pub fn take_status(&mut self) -> Option<u16> {
        self.status.take()
    }

    /// Sends and reads as much as possible. `hung_up` says that epoll has seen the server's end of the connection.
    /// Otherwise a read that does not fill `buffer` (of [`PIECE`] bytes) is the last one, since later bytes are an
    /// event of their own.
    pub fn advance(&mut self, hung_up: bool, buffer: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        loop {
            match self.socket.read(buffer) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => {
                    self.take(&buffer[..count])?;
                    if count < buffer.len() && !hung_up {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut send = || -> io::Result<()> {
            match &mut self.tls {
                Some(tls) => {
                    while tls.wants_write() {
                        tls.write_tls(&mut self.socket)?;
                    }
                }
                None => {
                    while !self.unsent.is_empty() {
                        let count = self.socket.write(&self.unsent)?;
                        self.unsent.drain(..count);
                    }
                }
            }
            Ok(())
        };
        match send() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            self.status = self.answer.feed(bytes)?.or(self.status);
            return Ok(());
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            let mut ready = tls.process_new_packets().map_err(bad)?.plaintext_bytes_to_read();
            while ready > 0 {
                let mut reader = tls.reader();
                let text = reader.fill_buf()?;
                let count = text.len();
                if count == 0 {
                    break;
                }
                self.status = self.answer.feed(text)?.or(self.status);
                reader.consume(count);
                ready = ready.saturating_sub(count);
            }
        }
        Ok(())
    }
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Reads an answer whose head tells its length, and keeps nothing of the body.
#[derive(Debug, Default)]
struct Answer {
    head: Vec<u8>,
    /// The status, and the bytes of the body that have not come yet; `None` until the head is complete.
    body: Option<(u16, u64)>,
}

impl Answer {
    /// Takes the next bytes; answers the status where they complete an answer. Nothing may follow it: the next request
    /// has not been sent.
    fn feed(&mut self, bytes: &[u8]) -> io::Result<Option<u16>> {
        let (status, left, arrived) = match self.body {
            Some((status, left)) => (status, left, bytes.len() as u64),
            None => {
                self.head.extend_from_slice(bytes);
                let Some(end) = self.head.windows(4).position(|window| window == b"\r\n\r\n") else {
                    return if self.head.len() > MAX_HEAD { Err(bad("the head has no end")) } else { Ok(None) };
                };
                let (status, length) =
                    parse(&self.head[..end]).ok_or_else(|| bad("not an answer of a known length"))?;
                let arrived = (self.head.len() - end - 4) as u64;
                self.head.clear();
                (status, length, arrived)
            }
        };
        match left.checked_sub(arrived) {
            None => Err(bad("more than the answer")),
            Some(0) => {
                self.body = None;
                Ok(Some(status))
            }
            Some(left) => {
                self.body = Some((status, left));
                Ok(None)
            }
        }
    }
}

/// The status and the length of the body.
fn parse(head: &[u8]) -> Option<(u16, u64)> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    })?;
    Some((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_the_last_byte_of_its_body_however_it_is_cut() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nX: y\r\n\r\nabc";
        for size in 1..=text.len() {
            let mut answer = Answer::default();
            let mut found = Vec::new();
            for _ in 0..2 {
                for piece in text.chunks(size) {
                    found.extend(answer.feed(piece).unwrap());
                }
            }
            assert_eq!(found, [200, 200], "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(Answer::default().feed(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(Answer::default().feed(b"SSH-2.0-x\r\n\r\n").is_err());
        assert!(Answer::default().feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab").is_err());
        assert!(Answer::default().feed(&[b'x'; MAX_HEAD + 1]).is_err());
    }
}
