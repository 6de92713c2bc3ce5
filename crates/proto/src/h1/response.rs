//! The states that send a response: how the client learns where it ends, and the bytes around the pieces of its body.

use super::persistence::{CloseReason, Persistence};
use crate::Version;
use crate::chunked::{CHUNK_END, ChunkHead, LAST_CHUNK};
use crate::encode::field;

/// The mark of the end of a response's body (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFraming {
    /// There is no body (HEAD, 204, 304).
    None,
    /// The length marks the end.
    Length,
    /// A last chunk marks the end (RFC 9112 section 7.1).
    Chunked,
    /// The end of the carrier marks the end: the connection's, which is closed, or the end of a stream in a protocol that
    /// frames its content itself (HTTP/2, HTTP/3).
    UntilEnd,
}

/// The way to end a connection whose response is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutSignal {
    /// The connection is closed: the client learns from the response itself that it is not whole.
    Close,
    /// The connection is reset: a usual end would look like the end of the response.
    Reset,
}

/// The properties of a response that decide how it is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseFacts {
    /// The version of the request.
    pub version: Version,
    /// The status.
    pub status: u16,
    /// Whether the client has asked for the head alone (HEAD).
    pub is_head: bool,
    /// Whether HTTP ends on the connection with the response's head (101, or a success of CONNECT).
    pub upgrades: bool,
    /// Whether the length of the body is known.
    pub has_length: bool,
    /// Whether fields follow the body.
    pub has_trailers: bool,
    /// Whether chunks are allowed (`chunked_transfer_encoding`); they need HTTP/1.1.
    pub may_chunk: bool,
    /// Whether a handler, or the status, demands that the connection is closed.
    pub closes: bool,
}

impl ResponseFacts {
    /// Whether there is no body: after HEAD, and with some statuses. A status below 200 that does not upgrade may have one:
    /// `return 199 text` is sent with its text, as in nginx.
    #[inline]
    const fn is_bodiless(&self) -> bool {
        self.is_head || matches!(self.status, 204 | 304) || self.upgrades
    }

    /// Decides about a response of HTTP/1. A response whose end only the connection can mark closes it.
    #[inline]
    pub fn frame(&self, persistence: &mut Persistence) -> ResponseFraming {
        if self.closes {
            persistence.close(CloseReason::Response);
        }
        let may_chunk = self.may_chunk && self.version >= Version::Http11;
        let framing = if self.is_bodiless() {
            ResponseFraming::None
        } else if self.has_length && !(may_chunk && self.has_trailers) {
            ResponseFraming::Length
        } else if may_chunk {
            ResponseFraming::Chunked
        } else {
            persistence.close(CloseReason::EndsBody);
            ResponseFraming::UntilEnd
        };
        if matches!(self.version, Version::Http09) {
            persistence.close(CloseReason::Version09);
        }
        framing
    }

    /// Decides about a response on a stream of a protocol that frames its content itself.
    pub fn frame_on_stream(&self, persistence: &mut Persistence) -> ResponseFraming {
        if self.closes {
            persistence.close(CloseReason::Response);
        }
        if self.is_bodiless() {
            ResponseFraming::None
        } else if self.has_length && !self.has_trailers {
            ResponseFraming::Length
        } else {
            ResponseFraming::UntilEnd
        }
    }
}

impl ResponseFraming {
    /// The way to end the connection when the response is cut short: it must not look complete. A client of HTTP/0.9 gets
    /// no head, so it has not learnt the length.
    pub const fn cut(self, version: Version) -> CutSignal {
        match self {
            _ if matches!(version, Version::Http09) => CutSignal::Reset,
            ResponseFraming::UntilEnd => CutSignal::Reset,
            ResponseFraming::None | ResponseFraming::Length | ResponseFraming::Chunked => CutSignal::Close,
        }
    }
}

/// The error of a body that is longer or shorter than its head has announced. The client would take the bytes beyond it for
/// the next response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body has another length than announced")]
pub struct LengthMismatch;

/// The body of a response that is being sent in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseBody {
    framing: ResponseFraming,
    /// The number of bytes that are still to be sent, if it was announced.
    owed: Option<u64>,
    /// Whether a chunk was begun.
    has_chunks: bool,
}

impl ResponseBody {
    /// A body before its first piece. `length` is its length, if that is known; it counts where the head announces it.
    pub fn new(framing: ResponseFraming, length: Option<u64>) -> ResponseBody {
        ResponseBody { framing, owed: length.filter(|_| framing == ResponseFraming::Length), has_chunks: false }
    }

    /// Whether the body is sent in chunks.
    pub fn is_chunked(&self) -> bool {
        self.framing == ResponseFraming::Chunked
    }

    /// Whether the announced bytes have all been sent, so that nothing follows.
    pub fn is_complete(&self) -> bool {
        self.owed == Some(0)
    }

    /// Begins a piece of `len` bytes, which is not empty: counts it, and appends the bytes that stand before it.
    ///
    /// # Errors
    /// The body is longer than announced.
    pub fn begin_piece(&mut self, len: u64, out: &mut Vec<u8>) -> Result<(), LengthMismatch> {
        debug_assert!(len > 0 || self.framing != ResponseFraming::Chunked, "an empty chunk would end the body");
        if let Some(owed) = &mut self.owed {
            *owed = owed.checked_sub(len).ok_or(LengthMismatch)?;
        }
        if self.is_chunked() {
            self.has_chunks = true;
            out.extend_from_slice(ChunkHead::new(len).as_bytes());
        }
        Ok(())
    }

    /// Ends a piece: appends the bytes that stand behind it.
    pub fn end_piece(&self, out: &mut Vec<u8>) {
        if self.is_chunked() {
            out.extend_from_slice(CHUNK_END);
        }
    }

    /// Ends the body. The last chunk is written apart ([`write_last_chunk`]).
    ///
    /// # Errors
    /// The body is shorter than announced.
    pub fn end(&self) -> Result<(), LengthMismatch> {
        if self.owed.is_some_and(|owed| owed > 0) { Err(LengthMismatch) } else { Ok(()) }
    }

    /// The part of the bytes that have not been sent which a client may have of a body that is cut short. The end of the last
    /// chunk is not part of it: the client must find nothing that it could take for more of the framing.
    pub fn of_cut<'o>(&self, unsent: &'o [u8]) -> &'o [u8] {
        if self.has_chunks { unsent.strip_suffix(CHUNK_END).unwrap_or(unsent) } else { unsent }
    }
}

/// Appends the last chunk with the trailer fields.
pub fn write_last_chunk<'f>(trailers: impl IntoIterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
    let mut trailers = trailers.into_iter().peekable();
    if trailers.peek().is_none() {
        return out.extend_from_slice(LAST_CHUNK);
    }
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        field(out, name, value);
    }
    out.extend_from_slice(b"\r\n");
}
