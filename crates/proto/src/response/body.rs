//! How the body of a response is delimited, and its bytes: RFC 9112 section 6.3.

use crate::chunked::{ChunkedDecoder, Step};
use crate::{Method, Version};

use super::error::ReplyError;
use super::parser::ResponseHead;

/// What the request was, as far as it decides how the response is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Asked {
    /// HEAD: no body, whatever the head says.
    Head,
    /// CONNECT: a success is a tunnel.
    Connect,
    /// Anything else.
    #[default]
    Other,
}

impl Asked {
    /// For a request of that method (the one sent to the upstream, which is not always the client's).
    pub const fn by(method: Method) -> Asked {
        match method {
            Method::Head => Asked::Head,
            Method::Connect => Asked::Connect,
            _ => Asked::Other,
        }
    }
}

/// How a response's body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is none.
    None,
    /// This many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// All bytes until the upstream closes.
    UntilClose,
    /// None: the connection is no longer HTTP (101, or a success of CONNECT).
    Tunnel,
}

impl Framing {
    /// The framing of the body behind a head.
    pub const fn of(head: &ResponseHead, asked: Asked) -> Framing {
        match (head.status, asked) {
            (101, _) | (200..=299, Asked::Connect) => Framing::Tunnel,
            (100..=199 | 204 | 304, _) | (_, Asked::Head) => Framing::None,
            _ if head.chunked => Framing::Chunked,
            _ => match head.content_length {
                Some(length) => Framing::Length(length),
                None => Framing::UntilClose,
            },
        }
    }

    /// Whether the connection can serve another request once the body has ended: RFC 9112 section 9.3. A chunked response of
    /// HTTP/1.0 is the last one, since its framing may have been made by a proxy that knows no chunks (section 6.1).
    pub const fn keeps(self, head: &ResponseHead) -> bool {
        let persistent = match head.version {
            Version::Http11 => !head.close,
            _ => head.keep_alive && !head.close && !head.chunked,
        };
        persistent && !matches!(self, Framing::UntilClose | Framing::Tunnel)
    }
}

/// Finds the bytes of a body in what comes.
#[derive(Debug)]
pub enum BodyDecoder {
    /// So many bytes are still to come.
    Length(u64),
    /// The chunked coding.
    Chunked(Box<ChunkedDecoder>),
    /// Everything until the upstream closes.
    UntilClose,
}

impl BodyDecoder {
    /// A decoder before the first byte of a body.
    pub fn new(framing: Framing) -> BodyDecoder {
        match framing {
            Framing::None | Framing::Tunnel => BodyDecoder::Length(0),
            Framing::Length(length) => BodyDecoder::Length(length),
            Framing::Chunked => BodyDecoder::Chunked(Box::default()),
            Framing::UntilClose => BodyDecoder::UntilClose,
        }
    }

    /// Looks at the next piece of the body. What a step says belongs to the body is not to be given again.
    ///
    /// # Errors
    /// [`ReplyError::Chunked`]; the decoder must not be used further.
    pub fn step(&mut self, input: &[u8]) -> Result<Step, ReplyError> {
        match self {
            BodyDecoder::Length(0) => Ok(Step::Done(0)),
            _ if input.is_empty() => Ok(Step::More),
            BodyDecoder::Length(left) => {
                let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= take as u64;
                Ok(Step::Data(0..take))
            }
            BodyDecoder::Chunked(decoder) => decoder.step(input).map_err(|_| ReplyError::Chunked),
            BodyDecoder::UntilClose => Ok(Step::Data(0..input.len())),
        }
    }

    /// The upstream has closed, and everything it sent was looked at.
    ///
    /// # Errors
    /// [`ReplyError::Closed`]: the body is not complete.
    pub fn closed(&self) -> Result<(), ReplyError> {
        let complete = match self {
            BodyDecoder::Length(left) => *left == 0,
            BodyDecoder::Chunked(decoder) => decoder.is_done(),
            BodyDecoder::UntilClose => true,
        };
        if complete { Ok(()) } else { Err(ReplyError::Closed) }
    }

    /// Bytes still to come, where that is known.
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
