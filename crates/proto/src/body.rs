//! The body of an HTTP/1 message, in either direction: which of the bytes that come are its own, and where it ends. RFC 9112
//! sections 6 and 7.

use crate::Error;
use crate::chunked::{ChunkedDecoder, Step};

/// Finds the bytes of a body in what comes.
///
/// Bytes go in by [`BodyDecoder::step`], places in them come out: nothing is copied, and nothing is kept but where the decoder
/// stands (and trailers, until the body is over).
#[derive(Debug)]
pub enum BodyDecoder {
    /// So many bytes are still to come.
    Length(u64),
    /// The chunked coding.
    Chunked(Box<ChunkedDecoder>),
    /// Everything until the peer closes: a response alone can be delimited like that.
    UntilClose,
}

impl BodyDecoder {
    /// A decoder before the first byte of a chunked body.
    pub fn chunked() -> BodyDecoder {
        BodyDecoder::Chunked(Box::default())
    }

    /// Looks at the next piece of the body. What a step says belongs to the body is not to be given again; behind
    /// [`Step::Done`] stands what belongs to the next message.
    ///
    /// # Errors
    /// [`Error::Chunked`] for a coding that is violated, now and from now on: nobody knows where the body ends.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<Step, Error> {
        match self {
            BodyDecoder::Length(0) => Ok(Step::Done(0)),
            _ if input.is_empty() => Ok(Step::More),
            BodyDecoder::Length(left) => {
                let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                debug_assert!(take > 0, "a step that finds data finds some");
                *left -= take as u64;
                Ok(Step::Data(0..take))
            }
            BodyDecoder::Chunked(decoder) => decoder.step(input),
            BodyDecoder::UntilClose => Ok(Step::Data(0..input.len())),
        }
    }

    /// Whether the body is complete, as far as its bytes tell: one that lasts until the peer closes never is.
    #[inline]
    pub fn is_done(&self) -> bool {
        match self {
            BodyDecoder::Length(left) => *left == 0,
            BodyDecoder::Chunked(decoder) => decoder.is_done(),
            BodyDecoder::UntilClose => false,
        }
    }

    /// Whether the body is complete now that the peer has closed, and everything it sent was looked at: RFC 9112 section 8.
    pub fn is_done_when_closed(&self) -> bool {
        matches!(self, BodyDecoder::UntilClose) || self.is_done()
    }

    /// Bytes still to come, where that is known.
    #[inline]
    pub const fn remaining(&self) -> Option<u64> {
        match self {
            BodyDecoder::Length(left) => Some(*left),
            BodyDecoder::Chunked(_) | BodyDecoder::UntilClose => None,
        }
    }

    /// Bytes that certainly belong to the body and come next: a reader may expect at least that many.
    pub fn expected(&self) -> u64 {
        match self {
            BodyDecoder::Length(left) => *left,
            BodyDecoder::Chunked(decoder) => decoder.left_in_chunk(),
            BodyDecoder::UntilClose => 0,
        }
    }

    /// The trailer fields of a chunked body, once it is complete.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let decoder = if let BodyDecoder::Chunked(decoder) = self { Some(decoder) } else { None };
        decoder.into_iter().flat_map(|decoder| decoder.trailers())
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
