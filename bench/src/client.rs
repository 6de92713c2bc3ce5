//! A small blocking HTTP/1.1 client that looks at every answer.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest answer head.
const MAX_HEAD: u64 = 64 * 1024;
/// Longest answer body.
const MAX_BODY: u64 = 64 << 20;

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer, read whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the server said that it closes the connection.
    pub closes: bool,
}

/// The mark of the end of a body.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Chunked,
    Length(u64),
    ToEnd,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Client {
    /// Connects to `server`, from `source` if given. Reading and writing wait at most `limit` each.
    pub fn connect(server: SocketAddr, source: Option<Ipv4Addr>, limit: Duration) -> io::Result<Client> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(server), socket2::Type::STREAM, None)?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        socket.connect_timeout(&server.into(), limit)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        Ok(Client { stream: BufReader::new(socket.into()) })
    }

    /// The connection's socket.
    pub fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    /// The bytes that the server sends from here on.
    pub fn into_reader(self) -> impl io::Read {
        self.stream
    }

    /// Whether the server has closed the connection, seen without sending anything.
    pub fn is_closed(&self) -> bool {
        let stream = self.stream.get_ref();
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let closed = match stream.peek(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        stream.set_nonblocking(false).is_err() || closed
    }

    /// Asks for `path` and reads the answer.
    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.send(path)?;
        self.read()
    }

    /// Asks for `path` in a content coding and reads the answer, whose body stays packed.
    pub fn get_coded(&mut self, path: &str, coding: &str) -> io::Result<Reply> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: {coding}\r\n\r\n");
        self.stream.get_mut().write_all(head.as_bytes())?;
        self.read()
    }

    /// Sends a request for `path`.
    pub fn send(&mut self, path: &str) -> io::Result<()> {
        self.stream.get_mut().write_all(format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(MAX_HEAD).read_line(&mut line)?;
        if line.ends_with('\n') { Ok(line.trim_end().to_owned()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads an answer.
    pub fn read(&mut self) -> io::Result<Reply> {
        let (mut reply, framing) = self.read_head()?;
        match framing {
            Framing::Chunked => self.chunks(&mut reply.body)?,
            Framing::Length(length) => self.body(length.min(MAX_BODY), &mut reply.body)?,
            Framing::ToEnd => {
                (&mut self.stream).take(MAX_BODY).read_to_end(&mut reply.body)?;
            }
        }
        Ok(reply)
    }

    /// Reads the head of an answer with status 200; what is left is the body, of the length answered.
    pub fn head(&mut self) -> io::Result<u64> {
        match self.read_head()? {
            (Reply { status: 200, .. }, Framing::Length(length)) => Ok(length),
            (reply, _) => Err(bad(&format!("answered {}", reply.status))),
        }
    }

    fn read_head(&mut self) -> io::Result<(Reply, Framing)> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| bad(&status))?;
        let mut reply = Reply { status, ..Reply::default() };
        let mut framing = Framing::ToEnd;
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => framing = Framing::Length(value.parse().map_err(|_| bad(&line))?),
                "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => framing = Framing::Chunked,
                "connection" => reply.closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        Ok((reply, framing))
    }

    fn body(&mut self, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
        let read = (&mut self.stream).take(length).read_to_end(body)?;
        if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let size = u64::from_str_radix(line.split(';').next().unwrap_or(""), 16).map_err(|_| bad(&line))?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(());
            }
            if size + body.len() as u64 > MAX_BODY {
                return Err(bad("body too long"));
            }
            self.body(size, body)?;
            self.line()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answer(text: &'static str) -> io::Result<Reply> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
        });
        let reply = Client::connect(address, None, Duration::from_secs(20))?.get("/x");
        server.join().unwrap();
        reply
    }

    #[test]
    fn bodies_end_by_length_by_chunks_or_with_the_connection() {
        let body = |text| answer(text).map(|reply| String::from_utf8(reply.body).unwrap());
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabXX").unwrap(), "ab");
        assert_eq!(
            body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n").unwrap(),
            "abc"
        );
        assert_eq!(body("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nrest").unwrap(), "rest");
    }

    #[test]
    fn an_answer_cut_short_is_an_error() {
        assert!(answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab").is_err());
        assert!(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab").is_err());
        assert!(answer("").is_err());
        assert!(answer("nonsense\r\n\r\n").is_err());
    }
}
