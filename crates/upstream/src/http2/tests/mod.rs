//! Connections to a server that does what a test wants.

mod ends;
mod exchanges;
mod peer;
mod sharing;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use freerun_proto::h2::{self, ErrorCode, Role};
use freerun_runtime::loops;

use super::{Http2Connection, Http2Stream};
use crate::exchange::record::{self, ExchangeFault, ResponseRecord};
use peer::{Peer, Seen, pair};

/// Runs a test on a loop.
fn run(test: impl Future<Output = ()>) {
    loops::block_on(test).unwrap();
}

/// The head of a request for `/`, as a record.
fn request(ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    record::request_head(&mut out, ends, |head| {
        head.field(b":method", if ends { b"GET" } else { b"POST" });
        head.field(b":scheme", b"http");
        head.field(b":authority", b"a");
        head.field(b":path", b"/");
        head.field(b"X-Name", b"x");
    });
    out
}

/// Begins a request without a body.
fn ask(stream: &Http2Stream) {
    let head = request(true);
    assert_eq!(stream.try_write(&head, &Bytes::new()).unwrap(), head.len());
}

/// Reads once.
async fn read(stream: &Http2Stream, input: &mut BytesMut, most: usize) -> io::Result<usize> {
    poll_fn(|context| stream.poll_read(context, input, most)).await
}

/// What has come of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Got {
    statuses: Vec<u16>,
    body: Vec<u8>,
    trailers: Vec<String>,
    broken: Option<ExchangeFault>,
}

impl Got {
    fn ok(body: &[u8]) -> Got {
        Got { statuses: vec![200], body: body.to_vec(), ..Got::default() }
    }
}

/// Reads a response to its end, so many bytes of the body at a time.
async fn response(stream: &Http2Stream, most: usize) -> io::Result<Got> {
    let (mut got, mut input) = (Got::default(), BytesMut::new());
    let mut left = 0;
    loop {
        if left > 0 {
            let part = input.split_to(left.min(input.len()));
            left -= part.len();
            got.body.extend_from_slice(&part);
        }
        let next = if left > 0 { None } else { record::next_response(&mut input).unwrap() };
        match next {
            None => {
                assert!(input.is_empty());
                if read(stream, &mut input, most).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Some(ResponseRecord::Head { ends, status, .. }) => {
                got.statuses.push(status);
                if ends {
                    return Ok(got);
                }
            }
            Some(ResponseRecord::Data(len)) => left = len,
            Some(ResponseRecord::Trailers(fields)) => {
                let text = |range| String::from_utf8_lossy(&fields.text[range]).into_owned();
                got.trailers = fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect();
                return Ok(got);
            }
            Some(ResponseRecord::End) => return Ok(got),
            Some(ResponseRecord::Broken(how)) => {
                got.broken = Some(how);
                return Ok(got);
            }
        }
    }
}

/// A connection with the server's settings, and the only stream of it.
async fn alone() -> (Http2Stream, Peer) {
    let (transport, peer) = pair();
    let connection = Http2Connection::begin(transport, None);
    (Http2Stream::alone(connection).unwrap(), peer)
}
