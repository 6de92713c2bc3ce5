//! `gunzip`: unpacks what is stored packed for clients that do not accept gzip.
//!
//! A few bytes can unpack to very many. They are unpacked only as fast as the client takes them, a bounded piece at a time.

use std::io;
use std::mem;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use freerun_conf::{Buffers, group, settings};
use freerun_http::content::response::{Body, LocalBoxFuture, Response, Source};
use freerun_http::log_error;
use freerun_http::module::{Filter, Module, Slot};
use freerun_http::request::Request;

use super::compress::gzip::{self, GzipSettings};

settings! {
    /// Unpacking responses.
    #[module = "gunzip"]
    pub struct GunzipSettings {
        /// Unpacks responses that are packed with gzip for clients that do not accept it.
        gunzip: bool = "off", in HTTP | SERVER | LOCATION;
        /// Number and size of the buffers for unpacked bytes.
        gunzip_buffers: Buffers = "32 4k", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("one piece of at most 64 KB is unpacked at a time, when the one before was sent");
    }
}

/// The module.
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
    response.weaken();
    let source = mem::replace(&mut response.body, Body::Empty).into_source(request);
    response.body = Body::Source(Box::new(Unpacked::new(request, source)));
}

/// The most that is unpacked at once.
const PIECE: usize = 64 * 1024;
/// What is unpacked before others have their turn, for a client that takes it all at once. About a millisecond.
const TURN: usize = 4 * PIECE;

/// A body on its way through the decoder.
struct Unpacked {
    /// For the log.
    request: Box<Request>,
    source: Box<dyn Source>,
    /// What was read and is still packed.
    packed: Bytes,
    decoder: Decompress,
    /// Whether a member of the file (RFC 1952 section 2.2) has ended and no other has begun.
    between: bool,
    ended: bool,
    in_this_turn: usize,
}

impl Unpacked {
    fn new(request: &Request, source: Box<dyn Source>) -> Unpacked {
        Unpacked {
            request: request.fork(),
            source,
            packed: Bytes::new(),
            decoder: Decompress::new_gzip(WINDOW),
            between: false,
            ended: false,
            in_this_turn: 0,
        }
    }

    async fn step(&mut self) -> io::Result<Option<Bytes>> {
        if self.in_this_turn >= TURN {
            self.in_this_turn = 0;
            tokio::task::yield_now().await;
        }
        let mut out = Vec::with_capacity(PIECE);
        loop {
            if self.packed.is_empty() {
                match self.source.next().await? {
                    Some(piece) => self.packed = piece,
                    None if self.between => return Ok(None),
                    None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                }
            }
            if mem::take(&mut self.between) {
                self.decoder = Decompress::new_gzip(WINDOW);
            }
            let before = self.decoder.total_in();
            let status = self.decoder.decompress_vec(&self.packed, &mut out, FlushDecompress::None)?;
            let used = usize::try_from(self.decoder.total_in() - before).unwrap_or(usize::MAX);
            drop(self.packed.split_to(used.min(self.packed.len())));
            self.between = status == Status::StreamEnd;
            if !out.is_empty() {
                self.in_this_turn += out.len();
                return Ok(Some(out.into()));
            }
            if used == 0 && !self.between {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
        }
    }
}

/// Binary logarithm of the largest window that the format has.
const WINDOW: u8 = 15;

impl Source for Unpacked {
    fn next(&mut self) -> LocalBoxFuture<'_, io::Result<Option<Bytes>>> {
        Box::pin(async {
            if self.ended {
                return Ok(None);
            }
            let result = self.step().await;
            self.ended = !matches!(result, Ok(Some(_)));
            if let Err(error) = &result {
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => log_error!(self.request, Error, "gzip data ends before its end"),
                    _ => log_error!(self.request, Error, "inflate() failed: {error}"),
                }
            }
            result
        })
    }

    fn remaining(&self) -> Option<u64> {
        self.ended.then_some(0)
    }
}
