//! The coding `zstd` (RFC 8878): `zstd` and its directives, with the names of the module zstd-nginx-module.

use std::cell::RefCell;
use std::io;

use ::zstd::bulk::Compressor;
use ::zstd::stream::raw::{CParameter, Encoder as RawEncoder, InBuffer, Operation, OutBuffer};
use bytes::Bytes;
use freerun_conf::{Buffers, Cx, Node, Problem, Shape, Size, Value, group, settings};
use freerun_http::module::Module;
use freerun_http::values::media_types::MediaTypes;
use freerun_http::variables::Variable;

use super::coding::{Coding, Encoder, Params, Plan};
use super::gzip::CompLevel;

settings! {
    /// Compression of responses with zstd.
    #[module = "zstd"]
    pub struct ZstdSettings {
        /// Compresses responses with zstd for clients that accept it.
        zstd: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// The compression level, from 1 to 22.
        zstd_comp_level: CompLevel<1, 22> = "1", in HTTP | SERVER | LOCATION,
            fidelity = Differs("no window is larger than 1 MB, which bounds the memory of the highest levels");
        /// The shortest response that is compressed, if its length is known.
        zstd_min_length: Size = "20", in HTTP | SERVER | LOCATION;
        /// Media types, besides `text/html`, of the responses that are compressed; `*` is all.
        zstd_types: MediaTypes, in HTTP | SERVER | LOCATION;
        /// Number and size of the buffers for compressed bytes.
        zstd_buffers: Buffers = "32 4k", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("buffers are as large as what they hold");
        /// Refused: no client can decompress a response made with a dictionary that only this server knows.
        zstd_dict_file: Option<NoDictionary>, in HTTP, fidelity = Differs("refused: no client can unpack the responses");
    }
}

/// The value of `zstd_dict_file`, which is refused.
#[derive(Debug, Clone, Copy)]
pub struct NoDictionary;

impl Value for NoDictionary {
    const SHAPE: Shape = Shape::exactly(1, "path");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Self, Problem> {
        let hint = "the content coding \"zstd\" has no way to tell a client which dictionary it needs";
        Err(Problem::directive(directive, "is not supported").hint(hint))
    }
}

/// The module `zstd`: the settings and the variable.
pub static MODULE: Module = Module {
    name: "zstd",
    groups: &[group::<ZstdSettings>()],
    variables: &[Variable::named(
        "zstd_ratio",
        "How many times smaller the response has become by the coding `zstd`.",
        |request, _| super::ratio(request, &CODING),
    )],
    ..Module::EMPTY
};

/// The coding `zstd`.
pub static CODING: Coding = Coding {
    name: "zstd",
    plan: |settings| {
        let settings = settings.get::<ZstdSettings>();
        settings.zstd.then_some(Plan {
            params: Params { level: settings.zstd_comp_level.0, window: MAX_WINDOW },
            min_length: settings.zstd_min_length.0,
            types: &settings.zstd_types,
        })
    },
    allows: |_, _| true,
    whole,
    begin: |params, length| {
        let mut encoder = RawEncoder::new(i32::from(params.level))?;
        encoder.set_parameter(CParameter::WindowLog(window(params, length)))?;
        encoder.set_pledged_src_size(length)?;
        Ok(Box::new(ZstdStream(encoder)))
    },
    block: 1 << 17,
    cost: |level| match level {
        0..=2 => 2,
        3..=4 => 4,
        5..=7 => 11,
        8..=12 => 30,
        13..=17 => 120,
        _ => 300,
    },
};

/// The binary logarithm of the largest window. RFC 9659 allows 8 MB; the highest levels need several times the window
/// in memory.
const MAX_WINDOW: u8 = 20;
/// The smallest window of the format.
const MIN_WINDOW: u32 = 10;

fn window(params: Params, length: Option<u64>) -> u32 {
    let needed = length.and_then(|length| length.max(1).checked_next_power_of_two()).map_or(u32::MAX, u64::ilog2);
    u32::from(params.window).min(needed).max(MIN_WINDOW)
}

/// The state that a thread keeps for compressing complete bodies: the encoder of the level used last.
type IdleCompressor = Option<(u8, Compressor<'static>)>;

thread_local! {
    static KEPT: RefCell<IdleCompressor> = const { RefCell::new(None) };
}

fn whole(params: Params, body: &[u8]) -> io::Result<Bytes> {
    KEPT.with_borrow_mut(|kept| {
        let (_, compressor) = match kept {
            Some(kept) if kept.0 == params.level => kept,
            _ => kept.insert((params.level, Compressor::new(i32::from(params.level))?)),
        };
        compressor.compress(body).map(Bytes::from)
    })
}

struct ZstdStream(RawEncoder<'static>);

impl ZstdStream {
    /// Makes the encoder write until `done` reports that no output is left.
    fn drain(
        &mut self,
        out: &mut Vec<u8>,
        mut step: impl FnMut(&mut RawEncoder<'static>, &mut OutBuffer<'_, [u8]>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut room = [0; 16 * 1024];
        loop {
            let mut buffer = OutBuffer::around(&mut room[..]);
            let done = step(&mut self.0, &mut buffer)?;
            out.extend_from_slice(buffer.as_slice());
            if done {
                return Ok(());
            }
        }
    }
}

impl Encoder for ZstdStream {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut input = InBuffer::around(piece);
        self.drain(out, |encoder, room| {
            encoder.run(&mut input, room)?;
            Ok(input.pos() == piece.len())
        })
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.drain(out, |encoder, room| Ok(encoder.flush(room)? == 0))
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.drain(out, |encoder, room| Ok(encoder.finish(room, true)? == 0))
    }
}
