//! The state that waits for the head of a request.

use crate::head::{HeadParser, HeadRules, Progress};
use crate::{RequestError, RequestHead, Version};

/// The state between two requests, and in a head that is not complete. The empty lines before a request line are skipped (RFC
/// 9112 section 2.2).
#[derive(Debug, Default)]
pub struct ExpectHead {
    parser: HeadParser,
}

/// The result of an input that ends while a head is awaited: the client has closed, or it is silent for too long.
#[derive(Debug)]
pub enum HeadEnd {
    /// No byte has come: there is no request, and the connection ends between two requests.
    Nothing,
    /// The head as far as it has come. The log names the request, which gets no response.
    Cut(Box<RequestHead>),
}

impl ExpectHead {
    /// The state before the first byte of a head, in the memory of a head that is not needed any more.
    #[inline]
    pub fn new(memory: Option<Box<RequestHead>>) -> ExpectHead {
        ExpectHead { parser: memory.map_or_else(HeadParser::new, HeadParser::reusing) }
    }

    /// Whether a request is pipelined: it is not the first one of its connection, and some of its bytes have come with the
    /// request before it. `received` is the number of these bytes.
    #[inline]
    pub const fn is_pipelined(serial: u64, received: usize) -> bool {
        serial > 1 && received > 0
    }

    /// Takes all bytes that have come since the request before; the buffer only grows between the calls.
    ///
    /// # Errors
    /// See [`HeadParser::advance`]. [`ExpectHead::into_faulty_head`] gives the part that was understood.
    #[inline]
    pub fn receive(&mut self, buffer: &[u8], rules: &HeadRules) -> Result<Progress, RequestError> {
        if buffer.is_empty() {
            return Ok(Progress::Partial);
        }
        self.parser.advance(buffer, rules)
    }

    /// The head, once it is complete.
    #[inline]
    pub fn into_head(self) -> Box<RequestHead> {
        self.parser.into_head()
    }

    /// The part of a wrong head that was understood. A request line that was not understood is answered with a head, unlike a
    /// request of HTTP/0.9.
    pub fn into_faulty_head(self) -> Box<RequestHead> {
        let mut head = self.parser.into_head();
        if head.version == Version::Http09 {
            head.version = Version::Http10;
        }
        head
    }

    /// Ends the state because no more bytes come.
    pub fn end(self, buffer: &[u8]) -> HeadEnd {
        if buffer.is_empty() { HeadEnd::Nothing } else { HeadEnd::Cut(self.parser.into_cut_head(buffer)) }
    }
}
