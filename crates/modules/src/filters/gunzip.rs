//! `gunzip`: decompresses responses for clients that do not accept gzip.
//!
//! A few bytes can decompress to very many. They are decompressed only as fast as the client takes them, a bounded
//! piece at a time.

use std::io;
use std::mem;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use freerun_conf::{Buffers, group, settings};
use freerun_http::files::read_error::ReadError;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};

use super::compress::gzip::{self, GzipSettings};

settings! {
    /// Decompression of responses.
    #[module = "gunzip"]
    pub struct GunzipSettings {
        /// Decompresses responses that are compressed with gzip for clients that do not accept it.
        gunzip: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("of a file that is cut, or has something else behind its end, all that could be unpacked is sent before the connection is closed");
        /// Number and size of the buffers for decompressed bytes.
        gunzip_buffers: Buffers = "32 4k", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("one piece of at most 64 KB is unpacked at a time, when the one before was sent");
    }
}

/// The module `gunzip`.
pub static MODULE: Module = Module {
    name: "gunzip",
    groups: &[group::<GunzipSettings>()],
    filters: &[Filter { slot: Slot::Gunzip, wanted: |settings| settings.get::<GunzipSettings>().gunzip, run }],
    ..Module::EMPTY
};

fn run(request: &mut Request, response: &mut Response) {
    if !response.field(b"Content-Encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case(b"gzip")) {
        return;
    }
    response.vary |= request.settings().get::<GzipSettings>().gzip_vary;
    if !request.is_subrequest() && gzip::accepted(request, response) {
        return;
    }
    response.remove(b"Content-Encoding");
    response.content_changes(Change::CODING);
    let source = mem::replace(&mut response.body, Body::Empty).into_source(request);
    response.body = Body::Source(Box::new(GunzipSource::new(request, source)));
}

/// The most bytes of output at once.
const PIECE: usize = 64 * 1024;
/// The bytes of output before the task yields, if the client takes them all at once. This takes about a millisecond.
const TURN: usize = 4 * PIECE;

/// The cost of the beginning of a member, in bytes of a turn: a decoder is made for it.
const MEMBER: usize = 8 * 1024;

/// A body that passes through the decoder.
struct GunzipSource {
    /// The request, for the log.
    request: Box<Request>,
    members: Members,
    ended: bool,
}

impl GunzipSource {
    fn new(request: &Request, source: Box<dyn BodySource>) -> GunzipSource {
        GunzipSource { request: request.fork(), members: Members::new(source), ended: false }
    }
}

/// The members of a file (RFC 1952 section 2.2), one after the other.
struct Members {
    source: Box<dyn BodySource>,
    /// The bytes that were read and are still compressed.
    packed: Bytes,
    decoder: Decompress,
    /// Whether a member has ended and no other has begun.
    between: bool,
    in_this_turn: usize,
}

impl Members {
    fn new(source: Box<dyn BodySource>) -> Members {
        let decoder = Decompress::new_gzip(WINDOW);
        Members { source, packed: Bytes::new(), decoder, between: false, in_this_turn: 0 }
    }

    /// The next piece. Very many compressed bytes may give no output, so that both input and output count in a turn.
    async fn step(&mut self) -> Result<Option<Bytes>, SourceError> {
        let mut out = Vec::with_capacity(PIECE);
        loop {
            if self.in_this_turn >= TURN {
                self.in_this_turn = 0;
                freerun_runtime::loops::after_events().await;
            }
            if self.packed.is_empty() {
                if !out.is_empty() {
                    break;
                }
                match self.source.next().await? {
                    Some(piece) => self.packed = piece,
                    None if self.between => return Ok(None),
                    None => return Err(SourceError::Short),
                }
            }
            if mem::take(&mut self.between) {
                self.decoder = Decompress::new_gzip(WINDOW);
                self.in_this_turn += MEMBER;
            }
            let (before, had) = (self.decoder.total_in(), out.len());
            let status = match self.decoder.decompress_vec(&self.packed, &mut out, FlushDecompress::None) {
                Ok(status) => status,
                // The bytes before are good: the next call returns the error again.
                Err(_) if had > 0 => break,
                Err(error) => return Err(io::Error::from(error).into()),
            };
            let used = usize::try_from(self.decoder.total_in() - before).unwrap_or(usize::MAX);
            drop(self.packed.split_to(used.min(self.packed.len())));
            self.between = status == Status::StreamEnd;
            self.in_this_turn += used + out.len() - had;
            if out.len() == out.capacity() {
                break;
            }
            if used == 0 && out.len() == had && !self.between {
                return Err(SourceError::Malformed);
            }
        }
        if out.len() < PIECE / 2 {
            // The consumer may keep it for a while.
            out.shrink_to_fit();
        }
        Ok(Some(out.into()))
    }
}

/// The binary logarithm of the largest window of the format.
const WINDOW: u8 = 15;

impl BodySource for GunzipSource {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            if self.ended {
                return Ok(None);
            }
            let result = self.members.step().await;
            self.ended = !matches!(result, Ok(Some(_)));
            if let Err(error) = &result {
                match error {
                    SourceError::Short | SourceError::Read(ReadError::Truncated) => {
                        log_error!(self.request, Error, "gzip data ends before its end")
                    }
                    _ => log_error!(self.request, Error, "inflate() failed: {error}"),
                }
            }
            result
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        self.members.source.ahead()
    }

    fn is_urgent(&self) -> bool {
        self.members.source.is_urgent()
    }

    fn remaining(&self) -> Option<u64> {
        self.ended.then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::test_source::Repeated;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// The text, and how often the task yielded.
    fn unpack(packed: Vec<u8>, times: usize) -> (Vec<u8>, usize) {
        let mut members = Members::new(Box::new(Repeated(packed.into(), times)));
        let (mut text, mut turns) = (Vec::new(), 0);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let mut step = pin!(members.step());
            let piece = loop {
                match step.as_mut().poll(&mut context) {
                    Poll::Ready(piece) => break piece.unwrap(),
                    Poll::Pending => turns += 1,
                }
            };
            match piece {
                Some(piece) => text.extend_from_slice(&piece),
                None => return (text, turns),
            }
        }
    }

    #[test]
    fn members_follow_each_other() {
        let packed = [member(b"one "), member(b""), member(b"two ")].concat();
        assert_eq!(unpack(packed, 2).0, b"one two one two ");
        let zeros = unpack(member(&vec![0; 3 * TURN]), 1);
        assert!(zeros.0.len() == 3 * TURN && zeros.1 >= 2, "{} bytes, {} turns", zeros.0.len(), zeros.1);
    }

    #[test]
    fn members_that_are_empty_leave_others_their_turn() {
        let (text, turns) = unpack(member(b"").repeat(1000), 10);
        assert!(text.is_empty() && turns >= 100, "{turns} turns");
    }
}
