//! The definition of a coding: its name, its settings, and its encoder.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_http::request::Request;
use freerun_http::request::response::Response;
use freerun_http::values::media_types::MediaTypes;

/// A content coding (RFC 9110 section 8.4.1) with which responses can be compressed.
pub struct Coding {
    /// The token of the coding in `Accept-Encoding` and `Content-Encoding`.
    pub name: &'static str,
    /// The plan in the settings of a location; `None` where the coding is off.
    pub plan: fn(&SettingsSet) -> Option<Plan<'_>>,
    /// The coding's own conditions, in addition to the conditions of the plan and of `Accept-Encoding`.
    pub allows: fn(&Request, &Response) -> bool,
    /// Compresses a complete body.
    pub whole: fn(Params, &[u8]) -> io::Result<Bytes>,
    /// Begins to compress a body that comes in pieces; the length is given if it is known.
    pub begin: fn(Params, Option<u64>) -> io::Result<Box<dyn Encoder>>,
    /// The cost of a byte at this level, in nanoseconds, rounded up: it decides what a loop does itself.
    pub cost: fn(u8) -> u32,
    /// The number of bytes that an encoder may gather before it works on all of them at once; 0 if it works on each
    /// piece as it comes.
    pub block: usize,
}

/// The parameters of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    /// The level, within the coding's limits.
    pub level: u8,
    /// The binary logarithm of the window's size, for codings where it can be chosen.
    pub window: u8,
}

/// The responses that are compressed, and the parameters.
pub struct Plan<'s> {
    /// The parameters of compression.
    pub params: Params,
    /// The shortest body that is compressed, if the length is known.
    pub min_length: u64,
    /// The media types of responses that are compressed.
    pub types: &'s MediaTypes,
}

/// An encoder that compresses a body piece by piece.
pub trait Encoder: Send {
    /// Takes the next piece and appends the output that is ready to `out`.
    ///
    /// # Errors
    /// The encoder failed; the response cannot be completed.
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends all output that was held back, so that the client can decompress everything fed so far.
    ///
    /// # Errors
    /// The encoder failed; the response cannot be completed.
    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// Ends the body and appends the rest of the output.
    ///
    /// # Errors
    /// The encoder failed; the response cannot be completed.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

/// The longest work that is done on a loop at once. A round trip to the pool costs about 10 µs, in the worst of a
/// hundred cases 50 µs. That is too much for work that takes a few times as long. A loop that is busy for longer delays
/// other requests.
pub const INLINE: Duration = Duration::from_micros(300);

impl Coding {
    /// The approximate time for compressing `len` bytes.
    pub fn estimate(&self, params: Params, len: usize) -> Duration {
        Duration::from_nanos(u64::from((self.cost)(params.level)).saturating_mul(len as u64))
    }
}
