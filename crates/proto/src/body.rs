//! The body of an HTTP/1 message, in either direction: which of the received bytes belong to it, and where it ends. RFC
//! 9112 sections 6 and 7.

use crate::RequestError;
use crate::chunked::{ChunkStep, ChunkedDecoder};

/// Finds the bytes of a body in the received bytes.
///
/// [`BodyDecoder::step`] takes bytes and returns places in them: nothing is copied, and nothing is kept but the
/// decoder's state (and trailers, until the body is complete).
#[derive(Clone, Debug)]
pub enum BodyDecoder {
    /// A body with this number of bytes still to come.
    Length(u64),
    /// A body in the chunked coding.
    Chunked(Box<ChunkedDecoder>),
    /// A body that lasts until the peer closes: only a response can be delimited in this way.
    UntilClose,
}

impl BodyDecoder {
    /// A decoder before the first byte of a chunked body.
    pub fn chunked() -> BodyDecoder {
        BodyDecoder::Chunked(Box::default())
    }

    /// Decodes the next piece of the body. Bytes that a step has assigned to the body must not be given again; the
    /// bytes behind [`ChunkStep::Done`] belong to the next message. Of a body that is complete this is `ChunkStep::Done(0)`
    /// whatever the input is; otherwise a step without input is [`ChunkStep::More`].
    ///
    /// # Errors
    /// [`RequestError::Chunked`] if the coding is violated, now and from now on: the end of the body is then unknown.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkStep, RequestError> {
        match self {
            BodyDecoder::Length(0) => Ok(ChunkStep::Done(0)),
            BodyDecoder::Chunked(decoder) => decoder.step(input),
            _ if input.is_empty() => Ok(ChunkStep::More),
            BodyDecoder::Length(left) => {
                let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                debug_assert!(take > 0, "a step that finds data finds some");
                *left -= take as u64;
                Ok(ChunkStep::Data(0..take))
            }
            BodyDecoder::UntilClose => Ok(ChunkStep::Data(0..input.len())),
        }
    }

    /// Whether the body is complete, as far as its bytes tell: a body that lasts until the peer closes never is.
    #[inline]
    pub fn is_done(&self) -> bool {
        match self {
            BodyDecoder::Length(left) => *left == 0,
            BodyDecoder::Chunked(decoder) => decoder.is_done(),
            BodyDecoder::UntilClose => false,
        }
    }

    /// Whether the body is complete now that the peer has closed, and everything that it sent was decoded: RFC 9112
    /// section 8.
    pub fn is_done_when_closed(&self) -> bool {
        matches!(self, BodyDecoder::UntilClose) || self.is_done()
    }

    /// The bytes that are still to come, if their number is known.
    #[inline]
    pub const fn remaining(&self) -> Option<u64> {
        match self {
            BodyDecoder::Length(left) => Some(*left),
            BodyDecoder::Chunked(_) | BodyDecoder::UntilClose => None,
        }
    }

    /// The number of bytes that certainly belong to the body and come next: a reader may expect at least that many.
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
