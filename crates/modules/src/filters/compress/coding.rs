//! What a coding is: its name, what the configuration says of it, and how it packs.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_http::request::Request;
use freerun_http::request::response::Response;
use freerun_http::values::media_types::MediaTypes;

/// A content coding (RFC 9110 section 8.4.1) that responses can be packed with.
pub struct Coding {
    /// Its token in `Accept-Encoding` and `Content-Encoding`.
    pub name: &'static str,
    /// What the settings of a location say of it; `None` where it is off.
    pub plan: fn(&SettingsSet) -> Option<Plan<'_>>,
    /// Conditions of its own, beside those of the plan and what the client accepts.
    pub allows: fn(&Request, &Response) -> bool,
    /// Packs a body that is there as a whole.
    pub whole: fn(Params, &[u8]) -> io::Result<Bytes>,
    /// Begins to pack a body that comes in pieces, of this length if it is known.
    pub begin: fn(Params, Option<u64>) -> io::Result<Box<dyn Encoder>>,
    /// What a byte costs at this level, in nanoseconds, rounded up: decides what a loop does itself.
    pub cost: fn(u8) -> u32,
    /// How many bytes an encoder may gather before it works on all of them at once; 0 if it works on each as it comes.
    pub block: usize,
}

/// How to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    /// The level, within the coding's limits.
    pub level: u8,
    /// Binary logarithm of the window's size, for codings that let it be chosen.
    pub window: u8,
}

/// Which responses are packed, and how.
pub struct Plan<'s> {
    /// How it is compressed.
    pub params: Params,
    /// Shorter ones are not, where the length is known.
    pub min_length: u64,
    /// Their media types.
    pub types: &'s MediaTypes,
}

/// Packs a body piece by piece.
pub trait Encoder: Send {
    /// Takes the next piece and appends what is ready to `out`.
    ///
    /// # Errors
    /// The encoder failed; the response cannot be completed.
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends all that was held back, so that the client can unpack everything fed so far.
    ///
    /// # Errors
    /// As above.
    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// The body is over: appends the rest.
    ///
    /// # Errors
    /// As above.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

/// What may be done on a loop at once. A hop to the pool and back costs about 10 µs, in the worst of a hundred 50 µs: for less
/// than some of those it is not worth it; and a loop that is away for longer is noticed by others.
pub const INLINE: Duration = Duration::from_micros(300);

impl Coding {
    /// What packing so many bytes takes, about.
    pub fn estimate(&self, params: Params, len: usize) -> Duration {
        Duration::from_nanos(u64::from((self.cost)(params.level)).saturating_mul(len as u64))
    }
}
