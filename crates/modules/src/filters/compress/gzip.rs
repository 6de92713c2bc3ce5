//! The coding `gzip`: `gzip` and its directives.
//!
//! A complete body is compressed by libdeflate, which is two to four times as fast as zlib at the same size, or by
//! `deflate` if the body is small. A body that comes piece by piece is compressed by zlib-rs.

use std::cell::RefCell;
use std::io;

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress};
use freerun_conf::{
    Buffers, Cx, Flags, Node, Problem, Setting, Shape, Size, Value, group, keyword_enum, settings, text_of,
};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::request::response::{Body, Response};
use freerun_http::values::media_types::MediaTypes;
use freerun_http::variables::{Variable, VariableTable};
use freerun_proto::{HeaderId, Status, Version, date};
use freerun_runtime::log::clock;
use libdeflater::{CompressionLvl, Compressor};

use super::accept_encoding;
use super::coding::{Coding, Encoder, Params, Plan};
use super::deflate::{self, Effort, Small};

keyword_enum! {
    /// A condition of `gzip_proxied`.
    pub enum ProxiedConditions {
        /// No response to a proxy is compressed.
        Off = "off",
        /// `Expires` forbids caching the response.
        Expired = "expired",
        /// The response has `Cache-Control: no-cache`.
        NoCache = "no-cache",
        /// The response has `Cache-Control: no-store`.
        NoStore = "no-store",
        /// The response has `Cache-Control: private`.
        Private = "private",
        /// There is no `Last-Modified`.
        NoLastModified = "no_last_modified",
        /// There is no `ETag`.
        NoEtag = "no_etag",
        /// The request has `Authorization`.
        Auth = "auth",
        /// All responses to proxies are compressed.
        Any = "any",
    }
}

keyword_enum! {
    /// The oldest version that gets compressed responses: `gzip_http_version`.
    pub enum HttpVersion {
        /// HTTP/1.0
        Http10 = "1.0",
        /// HTTP/1.1
        Http11 = "1.1",
    }
}

settings! {
    /// Compression of responses with gzip.
    #[module = "gzip"]
    pub struct GzipSettings {
        /// Compresses responses with gzip for clients that accept it.
        ///
        /// With several codings on (`zstd`, `brotli`, `gzip`), the one to which `Accept-Encoding` gives the highest
        /// quality is used, and among equals the first of that list. The compressed form of a file that is kept open,
        /// or whose content is kept (see `open_file_cache`), is itself kept for at most one second, with any coding.
        gzip: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// The compression level, from 1 to 9.
        ///
        /// The output has about the same size as with that level of zlib, in half the time or less.
        gzip_comp_level: CompLevel<1, 9> = "1", in HTTP | SERVER | LOCATION;
        /// The shortest response that is compressed, if its length is known.
        gzip_min_length: Size = "20", in HTTP | SERVER | LOCATION;
        /// Media types, besides `text/html`, of the responses that are compressed; `*` is all.
        gzip_types: MediaTypes, in HTTP | SERVER | LOCATION;
        /// The responses that are compressed for requests that come through a proxy (with the field `Via`).
        gzip_proxied: ProxiedSetting = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("an `Expires` that `add_header` made counts as one that `expires` made");
        /// Whether responses that are compressed only for some clients have `Vary: Accept-Encoding`. It applies to all
        /// codings, to `gunzip` and to precompressed files.
        gzip_vary: bool = "off", in HTTP | SERVER | LOCATION;
        /// Expressions for `User-Agent`; clients that match one get no responses compressed with gzip.
        ///
        /// `msie6` stands for Internet Explorer 4 to 6, but not 6 with SV1.
        gzip_disable: Disable, in HTTP | SERVER | LOCATION;
        /// The oldest version of HTTP with which clients get responses compressed with gzip.
        gzip_http_version: HttpVersion = "1.1", in HTTP | SERVER | LOCATION;
        /// Number and size of the buffers for compressed bytes.
        gzip_buffers: Buffers = "32 4k", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("buffers are as large as what they hold");
        /// The size of the window in which the encoder looks for repetitions.
        gzip_window: GzipWindow = "32k", in HTTP | SERVER | LOCATION, fidelity = NoEffect("it always is 32k");
        /// The size of the encoder's hash table.
        gzip_hash: Hash = "128k", in HTTP | SERVER | LOCATION, fidelity = NoEffect("encoders size their own tables");
        /// Whether the encoder passes every piece on at once.
        gzip_no_buffer: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("what a source holds back for 10 ms is given on at once, and nothing else needs to be");
        /// The number of bytes that are gathered before compression begins.
        postpone_gzipping: Size = "0", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("a response whose length is known is packed as a whole, others as they come");
    }
}

/// A level between two limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompLevel<const MIN: u8, const MAX: u8>(pub u8);

impl<const MIN: u8, const MAX: u8> Value for CompLevel<MIN, MAX> {
    const SHAPE: Shape = Shape::exactly(1, "level");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let number = u64::parse(directive, cx)?;
        let level = u8::try_from(number).ok().filter(|level| (MIN..=MAX).contains(level));
        level.map(CompLevel).ok_or_else(|| {
            Problem::new(format!("value must be between {MIN} and {MAX}"))
                .at_node(directive)
                .at(directive.args[0].place)
        })
    }
}

/// Parses a size that is one of the powers of two in `choices`.
pub(super) fn power_of_two(directive: &Node, cx: &mut Cx, choices: &str) -> Result<Size, Problem> {
    let size = Size::parse(directive, cx)?;
    let names: Vec<&str> = choices.split([',', ' ']).filter(|name| !name.is_empty() && *name != "or").collect();
    if names.iter().any(|name| freerun_conf::parse_size(name) == Some(size.0)) {
        return Ok(size);
    }
    Err(Problem::directive(directive, &format!("must be {choices}")).at(directive.args[0].place))
}

/// The value of `gzip_window`, which has no effect.
#[derive(Debug, Clone, Copy)]
pub struct GzipWindow;

impl Value for GzipWindow {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        power_of_two(directive, cx, "512, 1k, 2k, 4k, 8k, 16k, or 32k").map(|_| GzipWindow)
    }
}

/// The value of `gzip_hash`, which has no effect.
#[derive(Debug, Clone, Copy)]
pub struct Hash;

impl Value for Hash {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        power_of_two(directive, cx, "512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k").map(|_| Hash)
    }
}

/// The words of all `gzip_proxied` directives of one level.
#[derive(Debug, Clone, Default)]
pub struct ProxiedSetting(Flags<ProxiedConditions>);

impl Setting for ProxiedSetting {
    const SHAPE: Shape = <Flags<ProxiedConditions> as Setting>::SHAPE;

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        Flags::set(previous.map(|ProxiedSetting(flags)| flags), directive, cx).map(ProxiedSetting)
    }
}

impl ProxiedSetting {
    fn has(&self, word: ProxiedConditions) -> bool {
        self.0.contains(word)
    }

    /// Whether a response to a proxy may be compressed. Each word restricts only the field that it names: a response
    /// with neither `Expires` nor `Cache-Control` is compressed unless another word forbids it.
    fn allows(&self, request: &Request, response: &Response) -> bool {
        if self.has(ProxiedConditions::Off) {
            return false;
        }
        if self.has(ProxiedConditions::Any)
            || self.has(ProxiedConditions::Auth) && request.head.value(HeaderId::Authorization).is_some()
        {
            return true;
        }
        if let Some(expires) = response.field(b"Expires") {
            let now = clock::now().secs;
            return self.has(ProxiedConditions::Expired)
                && date::parse_http_date(expires).is_none_or(|time| time < now);
        }
        if response.field(b"Cache-Control").is_some() {
            let says = |word: &[u8]| {
                let fields = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"Cache-Control"));
                fields
                    .flat_map(|(_, value)| value.split(|byte| *byte == b','))
                    .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
            };
            return self.has(ProxiedConditions::NoCache) && says(b"no-cache")
                || self.has(ProxiedConditions::NoStore) && says(b"no-store")
                || self.has(ProxiedConditions::Private) && says(b"private");
        }
        // The date of a file does not count here, because nginx adds it later.
        !(self.has(ProxiedConditions::NoLastModified) && response.field(b"Last-Modified").is_some()
            || self.has(ProxiedConditions::NoEtag) && response.etag.is_some())
    }
}

/// The value of `gzip_disable`: clients that get no compressed responses.
#[derive(Debug, Clone, Default)]
pub struct Disable {
    msie6: bool,
    patterns: Vec<Pattern>,
}

impl Setting for Disable {
    const SHAPE: Shape = Shape::at_least(1, "regex … | msie6");

    fn set(previous: Option<Self>, directive: &Node, _: &mut Cx) -> Result<Self, Problem> {
        let mut disable = previous.unwrap_or_default();
        for word in &directive.args {
            match word.text.as_str() {
                "msie6" => disable.msie6 = true,
                // This word is for a module that watches the memory of the process.
                "degradation" => {}
                text => {
                    // The groups of the expression are not used as variables.
                    let pattern = Pattern::new(text, true, &mut VariableTable::default());
                    let problem = |error| Problem::new(error).at_node(directive).at(word.place);
                    disable.patterns.push(pattern.map_err(problem)?);
                }
            }
        }
        Ok(disable)
    }
}

impl Disable {
    fn concerns(&self, request: &Request) -> bool {
        if !self.msie6 && self.patterns.is_empty() {
            return false;
        }
        let Some(agent) = request.head.value(HeaderId::UserAgent) else { return false };
        self.msie6 && is_msie6(agent)
            || self.patterns.iter().any(|pattern| match pattern.is_match(agent) {
                Ok(matches) => matches,
                Err(error) => {
                    log_error!(request, Alert, "{error} on \"{}\"", text_of(agent));
                    true
                }
            })
    }
}

/// Whether it is Internet Explorer 4 to 6; version 6 with Service Pack 2 says `SV1` and can decompress.
fn is_msie6(agent: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(agent, b"MSIE ") else { return false };
    match agent.get(at + 5..) {
        Some([b'4' | b'5', b'.', _, ..]) => true,
        Some([b'6', b'.', rest @ ..]) if !rest.is_empty() => memchr::memmem::find(rest, b"SV1").is_none(),
        _ => false,
    }
}

/// The module `gzip`: the settings and the variable.
pub static MODULE: Module = Module {
    name: "gzip",
    groups: &[group::<GzipSettings>()],
    variables: &[Variable::named(
        "gzip_ratio",
        "How many times smaller the response has become by the coding `gzip`.",
        |request, _| super::ratio(request, &CODING),
    )
    .kept()],
    ..Module::EMPTY
};

/// The coding `gzip`.
pub static CODING: Coding = Coding {
    name: "gzip",
    plan: |settings| {
        let settings = settings.get::<GzipSettings>();
        settings.gzip.then_some(Plan {
            params: Params { level: settings.gzip_comp_level.0, window: 15 },
            min_length: settings.gzip_min_length.0,
            types: &settings.gzip_types,
        })
    },
    allows,
    whole,
    begin: |params, _| Ok(Box::new(GzipStream(Compress::new_gzip(Compression::new(STREAM[index(params)]), 15)))),
    block: 0,
    cost: |level| [4, 4, 4, 12, 12, 12, 15, 15, 20][usize::from(level.clamp(1, 9)) - 1],
};

/// Whether the client gets an existing gzip body: it accepts gzip, and nginx's further conditions are met.
pub fn accepted(request: &Request, response: &Response) -> bool {
    let field = request.head.value(HeaderId::AcceptEncoding).unwrap_or_default();
    accept_encoding::quality(field, CODING.name) > 0 && allows(request, response)
}

/// Whether the request, and for proxies the response, meets the conditions besides the acceptance of gzip.
fn allows(request: &Request, response: &Response) -> bool {
    let settings = request.settings().get::<GzipSettings>();
    allows_client(request, settings)
        && (request.head.value(HeaderId::Via).is_none() || settings.gzip_proxied.allows(request, response))
}

/// Whether the request meets the conditions, before there is a response: a file's own fields restrict nothing.
pub fn allows_request(request: &Request) -> bool {
    allows(request, &Response::new(Status::OK, Bytes::new(), Body::Empty))
}

fn allows_client(request: &Request, settings: &GzipSettings) -> bool {
    let oldest = match settings.gzip_http_version {
        HttpVersion::Http10 => Version::Http10,
        HttpVersion::Http11 => Version::Http11,
    };
    request.head.version() >= oldest && !settings.gzip_disable.concerns(request)
}

/// libdeflate's level for each level of zlib: the fastest whose output is never more than 2 % larger than zlib's, and
/// mostly smaller. It was measured with documentation and source code of 1 KB to 1 MB.
const WHOLE: [i32; 9] = [1, 1, 1, 3, 5, 5, 6, 6, 7];
/// zlib-rs's level for each level of zlib. Its level 1 is faster, but its output is a fifth larger.
const STREAM: [u32; 9] = [2, 2, 3, 3, 5, 5, 6, 6, 9];

/// For each level of zlib, the length up to which a body is small, and the effort for it. With these, compression takes
/// less time than libdeflate, and the output is at most 2 % larger than zlib's for each sort of text. The figures are
/// processor time with source code, documentation, HTML, JSON, CSS, JavaScript, XML and SVG, in pieces of 0.5 to 32 KB.
const SMALL: [(usize, Effort); 9] = {
    const LAZY: Effort = Effort::Chains { depth: 8, good: 32 };
    const HARD: Effort = Effort::Chains { depth: 64, good: 130 };
    [
        (deflate::MAX, Effort::Fast),
        // libdeflate's first level takes three quarters of the time of any encoder that compresses as well.
        (0, Effort::Fast),
        (0, Effort::Fast),
        (1 << 10, LAZY),
        (4 << 10, LAZY),
        (4 << 10, LAZY),
        (2 << 10, HARD),
        (2 << 10, HARD),
        (2 << 10, HARD),
    ]
};

fn index(params: Params) -> usize {
    usize::from(params.level.clamp(1, 9)) - 1
}

/// The state that a thread keeps for compressing complete bodies: the encoder of each level in use, and room for the
/// result.
#[derive(Default)]
struct IdleCompressors {
    compressors: [Option<Compressor>; 8],
    small: Small,
    room: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<IdleCompressors> = RefCell::default();
}

fn whole(params: Params, body: &[u8]) -> io::Result<Bytes> {
    let level = WHOLE[index(params)];
    let (most, effort) = SMALL[index(params)];
    KEPT.with_borrow_mut(|kept| {
        let IdleCompressors { compressors, small, room } = kept;
        if body.len() <= most
            && let Some(packed) = small.gzip(body, effort)
        {
            return Ok(packed.into());
        }
        let kept = compressors.get_mut(level as usize).ok_or_else(|| io::Error::other("no such level"))?;
        let compressor = match kept {
            Some(compressor) => compressor,
            None => {
                let level = CompressionLvl::new(level).map_err(|_| io::Error::other("no such level"))?;
                kept.insert(Compressor::new(level))
            }
        };
        let bound = compressor.gzip_compress_bound(body.len());
        if room.len() < bound {
            room.resize(bound, 0);
        }
        let len = compressor.gzip_compress(body, room).map_err(io::Error::other)?;
        Ok(Bytes::copy_from_slice(&room[..len]))
    })
}

struct GzipStream(Compress);

impl GzipStream {
    fn run(&mut self, mut input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            out.reserve(input.len() / 4 + 256);
            let before = self.0.total_in();
            let status = self.0.compress_vec(input, out, flush).map_err(io::Error::other)?;
            input = &input[usize::try_from(self.0.total_in() - before).map_err(io::Error::other)?..];
            // If there is room left, there is no more output.
            if status == flate2::Status::StreamEnd || input.is_empty() && out.len() < out.capacity() {
                return Ok(());
            }
        }
    }
}

impl Encoder for GzipStream {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.run(piece, FlushCompress::None, out)
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(b"", FlushCompress::Sync, out)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(b"", FlushCompress::Finish, out)
    }
}
