//! The chunked transfer coding: RFC 9112 section 7.1.

use std::ops::Range;

use crate::RequestError;
use crate::ascii::{TOKEN, class};

/// The most bytes of a chunk's line: the size with leading zeros, and extensions, which are skipped.
pub const MAX_LINE: u32 = 4096;
/// The most bytes of all trailer fields of a body together.
pub const MAX_TRAILERS: usize = 8192;

/// The largest chunk: nginx counts in signed 64 bits.
const MAX_SIZE: u64 = i64::MAX as u64;

/// The result of [`ChunkedDecoder::step`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkStep {
    /// Bytes of the body, at this place of the input (never empty). The next step takes the input from the range's end.
    Data(Range<usize>),
    /// All of the input is used up and the body continues.
    More,
    /// The body is complete; this many bytes of the input belonged to it.
    Done(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChunkState {
    /// Before the first digit of a size.
    Start,
    /// In the digits.
    Size,
    /// In spaces after the digits.
    Space,
    /// In extensions.
    Extension,
    /// At the LF of a chunk's line.
    LineEnd,
    /// In a chunk's bytes.
    Data,
    /// At the CR after them.
    DataCr,
    /// At the LF after that.
    DataLf,
    /// At the first byte of a trailer line.
    Trailer,
    /// In a trailer line.
    TrailerLine,
    /// At the LF of a trailer line.
    TrailerLf,
    /// At the LF of the last, empty line.
    LastLf,
    /// Behind the end.
    Done,
    /// After an error: the meaning of the bytes is unknown.
    Failed,
}

/// Decodes a chunked body that comes in pieces, and returns places in the input instead of copies.
///
/// It is strict, as nginx is since 1.29.4: every line ends in CRLF, sizes are digits alone, spaces and tabs may follow
/// them, and trailer lines are fields.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: ChunkState,
    /// Bytes of this chunk that are still to come.
    left: u64,
    /// Bytes of the chunk's line so far.
    line: u32,
    /// The trailer lines with their line ends.
    trailers: Vec<u8>,
    /// The place where the current trailer line starts.
    trailer_start: usize,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder::new()
    }
}

impl ChunkedDecoder {
    /// A decoder before the first byte of a body.
    pub fn new() -> ChunkedDecoder {
        ChunkedDecoder { state: ChunkState::Start, left: 0, line: 0, trailers: Vec::new(), trailer_start: 0 }
    }

    /// The bytes of the current chunk that are still to come: a reader may expect at least that many.
    pub fn left_in_chunk(&self) -> u64 {
        if self.state == ChunkState::Data { self.left } else { 0 }
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// The trailer fields, once the body is complete.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.split(|&b| b == b'\n').filter_map(|line| {
            let at = memchr::memchr(b':', line)?;
            Some((&line[..at], line[at + 1..].trim_ascii()))
        })
    }

    /// Decodes the next piece of the body. Of a complete one the answer is `ChunkStep::Done(0)`, even without input.
    ///
    /// # Errors
    /// [`RequestError::Chunked`] if the coding is violated, a size is over 2^63 - 1, or a line or the trailers are too long:
    /// now and from now on. A caller that gave the bytes again could otherwise find an end in the middle of an invalid
    /// body.
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkStep, RequestError> {
        let mut i = 0;
        while self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                if i == input.len() {
                    return Ok(ChunkStep::More);
                }
                debug_assert!(self.left > 0, "a chunk without a byte to come");
                let rest = input.len() - i;
                let take = usize::try_from(self.left).map_or(rest, |left| left.min(rest));
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = ChunkState::DataCr;
                }
                return Ok(ChunkStep::Data(i..i + take));
            }
            let Some(&b) = input.get(i) else {
                return if self.state == ChunkState::Failed { Err(RequestError::Chunked) } else { Ok(ChunkStep::More) };
            };
            match self.frame(b) {
                Ok(state) => self.state = state,
                Err(error) => {
                    self.state = ChunkState::Failed;
                    return Err(error);
                }
            }
            i += 1;
        }
        debug_assert!(self.left == 0 && self.trailer_start == self.trailers.len(), "an end in the middle");
        Ok(ChunkStep::Done(i))
    }

    /// Takes one byte that is not of a chunk's content.
    fn frame(&mut self, b: u8) -> Result<ChunkState, RequestError> {
        match self.state {
            ChunkState::Start => {
                (self.left, self.line) = (digit(b).ok_or(RequestError::Chunked)?, 1);
                Ok(ChunkState::Size)
            }
            ChunkState::Size | ChunkState::Space | ChunkState::Extension => self.size_line(b),
            ChunkState::LineEnd => {
                expect(b, b'\n')?;
                Ok(if self.left == 0 { ChunkState::Trailer } else { ChunkState::Data })
            }
            ChunkState::DataCr => expect(b, b'\r').map(|()| ChunkState::DataLf),
            ChunkState::DataLf => expect(b, b'\n').map(|()| ChunkState::Start),
            ChunkState::Trailer if b == b'\r' => Ok(ChunkState::LastLf),
            ChunkState::Trailer | ChunkState::TrailerLine => {
                // Bytes of a line are checked when it is complete; a bare LF would end it too early.
                if b == b'\n' || self.trailers.len() >= MAX_TRAILERS {
                    return Err(RequestError::Chunked);
                }
                if b == b'\r' {
                    return Ok(ChunkState::TrailerLf);
                }
                self.trailers.push(b);
                Ok(ChunkState::TrailerLine)
            }
            ChunkState::TrailerLf => {
                expect(b, b'\n')?;
                check_trailer(&self.trailers[self.trailer_start..])?;
                self.trailers.push(b'\n');
                self.trailer_start = self.trailers.len();
                Ok(ChunkState::Trailer)
            }
            ChunkState::LastLf => expect(b, b'\n').map(|()| ChunkState::Done),
            // `step` does not call this in the first two states.
            ChunkState::Data | ChunkState::Done | ChunkState::Failed => Err(RequestError::Chunked),
        }
    }

    /// Takes one byte of a chunk's line behind its first.
    fn size_line(&mut self, b: u8) -> Result<ChunkState, RequestError> {
        self.line += 1;
        if self.line > MAX_LINE {
            return Err(RequestError::Chunked);
        }
        match (self.state, b) {
            (_, b'\r') => Ok(ChunkState::LineEnd),
            (ChunkState::Extension, b'\t' | b' '..=b'~' | 0x80..) => Ok(ChunkState::Extension),
            (ChunkState::Size | ChunkState::Space, b';') => Ok(ChunkState::Extension),
            (ChunkState::Size | ChunkState::Space, b' ' | b'\t') => Ok(ChunkState::Space),
            (ChunkState::Size, _) => {
                let digit = digit(b).ok_or(RequestError::Chunked)?;
                if self.left > MAX_SIZE >> 4 {
                    return Err(RequestError::Chunked);
                }
                self.left = self.left << 4 | digit;
                Ok(ChunkState::Size)
            }
            _ => Err(RequestError::Chunked),
        }
    }
}

fn expect(b: u8, wanted: u8) -> Result<(), RequestError> {
    if b == wanted { Ok(()) } else { Err(RequestError::Chunked) }
}

fn digit(b: u8) -> Option<u64> {
    (b as char).to_digit(16).map(u64::from)
}

/// A trailer line is a field: a token, a colon, no control characters but tabs.
fn check_trailer(line: &[u8]) -> Result<(), RequestError> {
    let name = line.iter().position(|&b| class(b) & TOKEN == 0).unwrap_or(line.len());
    let value = line.get(name + 1..).unwrap_or_default();
    let good =
        name > 0 && line.get(name) == Some(&b':') && value.iter().all(|&b| b == b'\t' || (b >= b' ' && b != 0x7f));
    if good { Ok(()) } else { Err(RequestError::Chunked) }
}

/// The bytes behind a chunk's content.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The last chunk and the end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The line before a chunk's content, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHead {
    bytes: [u8; 18],
    start: u8,
}

impl ChunkHead {
    /// The line for a chunk of `len` bytes. `len` must not be 0, which would end the body.
    pub fn new(len: u64) -> ChunkHead {
        let mut head = ChunkHead { bytes: *b"0000000000000000\r\n", start: 16 };
        let mut n = len;
        loop {
            head.start -= 1;
            head.bytes[usize::from(head.start)] = b"0123456789abcdef"[(n & 15) as usize];
            n >>= 4;
            if n == 0 {
                return head;
            }
        }
    }

    /// The line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

#[cfg(test)]
#[path = "chunked_tests.rs"]
mod tests;
