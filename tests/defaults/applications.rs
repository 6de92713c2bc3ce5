//! Applications behind the server: each reads one request after the other in its protocol, and answers with the number of bytes
//! of the body.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// The protocol of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    FastCgi,
    Scgi,
    Uwsgi,
}

/// FastCGI's types of records that an application has to do with.
const FASTCGI_STDIN: u8 = 5;
const FASTCGI_STDOUT: u8 = 6;
const FASTCGI_END: u8 = 3;

/// Starts an application, which runs as long as the test does. Every answer has a body of this many bytes behind the number.
pub fn start(protocol: Protocol, padding: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(protocol, stream, padding));
        }
    });
    address
}

/// Locations `/proxy`, `/fastcgi`, `/scgi` and `/uwsgi`, each of which passes requests on to an application of its own, as
/// by [`start`], and has these further lines.
pub fn locations(padding: usize, further: impl Fn(&str) -> String) -> String {
    let of = |protocol, member: &str, scheme: &str| {
        let parameters = if member == "proxy" { String::new() } else { format!("include {member}_params;") };
        let (address, further) = (start(protocol, padding), further(member));
        format!("location /{member} {{ {member}_pass {scheme}{address}; {parameters} {further} }}\n")
    };
    [
        of(Protocol::Http, "proxy", "http://"),
        of(Protocol::FastCgi, "fastcgi", ""),
        of(Protocol::Scgi, "scgi", ""),
        of(Protocol::Uwsgi, "uwsgi", ""),
    ]
    .concat()
}

/// The names of the [`locations`].
pub const MEMBERS: [&str; 4] = ["proxy", "fastcgi", "scgi", "uwsgi"];

fn serve(protocol: Protocol, mut stream: TcpStream, padding: usize) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let count = match protocol {
        Protocol::Http => http(&mut input)?,
        Protocol::FastCgi => fastcgi(&mut input)?,
        Protocol::Scgi => scgi(&mut input)?,
        Protocol::Uwsgi => uwsgi(&mut input)?,
    };
    let mut body = format!("{count}\n").into_bytes();
    body.resize(body.len() + padding, b'.');
    let length = body.len();
    let mut answer = match protocol {
        Protocol::Http | Protocol::Uwsgi => format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n"),
        Protocol::FastCgi | Protocol::Scgi => format!("Status: 200 OK\r\nContent-Length: {length}\r\n\r\n"),
    }
    .into_bytes();
    answer.extend(body);
    if protocol == Protocol::FastCgi {
        let mut records = Vec::new();
        for part in answer.chunks(60_000) {
            records.extend(record(FASTCGI_STDOUT, part));
        }
        records.extend(record(FASTCGI_STDOUT, b""));
        records.extend(record(FASTCGI_END, &[0; 8]));
        answer = records;
    }
    stream.write_all(&answer).ok()
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a short record").to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

/// Reads past so many bytes, and returns their number.
fn skip(input: &mut impl Read, length: u64) -> Option<u64> {
    let read = std::io::copy(&mut input.take(length), &mut std::io::sink()).ok()?;
    (read == length).then_some(read)
}

fn until(input: &mut impl Read, end: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        input.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    Some(bytes)
}

fn http(input: &mut impl Read) -> Option<u64> {
    let head = String::from_utf8(until(input, b"\r\n\r\n")?).ok()?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    skip(input, length.map_or(Ok(0), |length| length.trim().parse()).ok()?)
}

fn fastcgi(input: &mut impl Read) -> Option<u64> {
    let mut count = 0;
    loop {
        let mut head = [0; 8];
        input.read_exact(&mut head).ok()?;
        let length = u64::from(u16::from_be_bytes([head[4], head[5]]));
        skip(input, length + u64::from(head[6]))?;
        match (head[1], length) {
            (FASTCGI_STDIN, 0) => return Some(count),
            (FASTCGI_STDIN, _) => count += length,
            _ => {}
        }
    }
}

fn scgi(input: &mut impl Read) -> Option<u64> {
    let length: u64 = String::from_utf8(until(input, b":")?).ok()?.trim_end_matches(':').parse().ok()?;
    let mut fields = vec![0; usize::try_from(length).ok()? + 1];
    input.read_exact(&mut fields).ok()?;
    // CONTENT_LENGTH comes first.
    let value = fields.split(|byte| *byte == 0).nth(1)?;
    skip(input, std::str::from_utf8(value).ok()?.parse().ok()?)
}

fn uwsgi(input: &mut impl Read) -> Option<u64> {
    let mut head = [0; 4];
    input.read_exact(&mut head).ok()?;
    let mut variables = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    input.read_exact(&mut variables).ok()?;
    let mut rest = &variables[..];
    let mut words = Vec::new();
    while let [low, high, after @ ..] = rest {
        let (word, after) = after.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        words.push(word);
        rest = after;
    }
    let length = words.chunks(2).find(|pair| pair[0] == b"CONTENT_LENGTH")?.get(1)?;
    skip(input, std::str::from_utf8(length).ok()?.parse().unwrap_or(0))
}
