//! The coding `br` (RFC 7932): `brotli` and its directives, with the names of the module ngx_brotli. It uses Google's
//! encoder in C. The encoder in Rust takes 1.3 times as long for large bodies, and fifty times as long for small ones
//! at levels 5 to 9.

use std::io::{self, Write};

use brotlic::{BrotliEncoder, BrotliEncoderOptions, CompressorWriter, Quality, SetParameterError, WindowSize};
use freerun_conf::{Buffers, Cx, Node, Problem, Shape, Size, Value, group, settings};
use freerun_http::module::Module;
use freerun_http::values::media_types::MediaTypes;
use freerun_http::variables::Variable;

use super::coding::{Coding, Encoder, Params, Plan};
use super::gzip::{CompLevel, power_of_two};

settings! {
    /// Compression of responses with brotli.
    #[module = "brotli"]
    pub struct BrotliSettings {
        /// Compresses responses with brotli for clients that accept `br`.
        brotli: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// The compression level, from 0 to 11.
        brotli_comp_level: CompLevel<0, 11> = "6", in HTTP | SERVER | LOCATION;
        /// The shortest response that is compressed, if its length is known.
        brotli_min_length: Size = "20", in HTTP | SERVER | LOCATION;
        /// Media types, besides `text/html`, of the responses that are compressed; `*` is all.
        brotli_types: MediaTypes, in HTTP | SERVER | LOCATION;
        /// The size of the window in which the encoder looks for repetitions.
        brotli_window: BrotliWindow = "512k", in HTTP | SERVER | LOCATION;
        /// Number and size of the buffers for compressed bytes.
        brotli_buffers: Buffers = "32 4k", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("buffers are as large as what they hold; ngx_brotli does not use them either");
    }
}

/// The value of `brotli_window`: the binary logarithm of the window's size.
#[derive(Debug, Clone, Copy)]
pub struct BrotliWindow(pub u8);

impl Value for BrotliWindow {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let choices = "1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m";
        power_of_two(directive, cx, choices).map(|size| BrotliWindow(size.0.ilog2() as u8))
    }
}

/// The module `brotli`: the settings and the variable.
pub static MODULE: Module = Module {
    name: "brotli",
    groups: &[group::<BrotliSettings>()],
    variables: &[Variable::named(
        "brotli_ratio",
        "How many times smaller the response has become by the coding `br`.",
        |request, _| super::ratio(request, &CODING),
    )],
    ..Module::EMPTY
};

/// The coding `br`.
pub static CODING: Coding = Coding {
    name: "br",
    plan: |settings| {
        let settings = settings.get::<BrotliSettings>();
        settings.brotli.then_some(Plan {
            params: Params { level: settings.brotli_comp_level.0, window: settings.brotli_window.0 },
            min_length: settings.brotli_min_length.0,
            types: &settings.brotli_types,
        })
    },
    allows: |_, _| true,
    whole: |params, body| {
        let mut stream =
            BrotliStream(CompressorWriter::with_encoder(encoder(params, Some(body.len() as u64))?, Vec::new()));
        let mut out = Vec::new();
        stream.feed(body, &mut out)?;
        stream.end(&mut out)?;
        Ok(out.into())
    },
    begin: |params, length| {
        Ok(Box::new(BrotliStream(CompressorWriter::with_encoder(encoder(params, length)?, Vec::new()))))
    },
    // A meta-block (RFC 7932 section 9.2), which is written when it is complete.
    block: 1 << 24,
    cost: |level| [4, 5, 8, 10, 16, 24, 28, 45, 60, 80, 1000, 2000][usize::from(level.min(11))],
};

/// The smallest window of the format.
const MIN_WINDOW: u8 = 10;
/// The largest window that the encoder supports.
const MAX_WINDOW: u8 = 24;

fn encoder(params: Params, length: Option<u64>) -> io::Result<BrotliEncoder> {
    // A window larger than the body costs memory and gains nothing.
    let needed = length.map_or(MAX_WINDOW, |length| (length.max(1).ilog2() + 2).min(MAX_WINDOW.into()) as u8);
    let window = params.window.min(needed).max(MIN_WINDOW);
    let refused = |_: SetParameterError| io::Error::other("the encoder refuses its parameters");
    BrotliEncoderOptions::new()
        .quality(Quality::new(params.level).map_err(refused)?)
        .window_size(WindowSize::new(window).map_err(refused)?)
        .size_hint(length.and_then(|length| u32::try_from(length).ok()).unwrap_or(0))
        .build()
        .map_err(refused)
}

struct BrotliStream(CompressorWriter<Vec<u8>>);

impl BrotliStream {
    fn give(&mut self, out: &mut Vec<u8>) {
        out.append(self.0.get_mut());
    }
}

impl Encoder for BrotliStream {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(piece)?;
        self.give(out);
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.flush()?;
        self.give(out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let writer = CompressorWriter::new(Vec::new());
        let rest = std::mem::replace(&mut self.0, writer).into_inner();
        out.append(&mut rest.map_err(brotlic::IntoInnerError::into_error)?);
        Ok(())
    }
}
