//! The response to a request of the server itself: its head, and its body to the end.

use std::time::Instant;

use freerun_proto::body::BodyDecoder;
use freerun_proto::chunked::ChunkStep;
use freerun_proto::response::{Framing, HeadKind, RequestKind, ResponseHead, ResponseParser};
use freerun_runtime::loops;
use freerun_runtime::timer;
use freerun_transport::{TlsStream, Transport};

use super::error::HttpClientError;

/// The fewest bytes that there is room for when more are received.
const ROOM: usize = 4 << 10;

/// The head of a response, with its text.
#[derive(Debug)]
pub struct ReceivedHead {
    head: ResponseHead,
    text: Vec<u8>,
}

impl ReceivedHead {
    /// The status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of the first field of that name, in any case.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.head.value(&self.text, name.as_bytes())
    }

    /// The names and values of all fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.head.fields.iter().map(|field| (field.name.of(&self.text), field.value.of(&self.text)))
    }
}

/// A response that has come to its end.
#[derive(Debug)]
pub struct WholeResponse {
    /// The head.
    pub head: ReceivedHead,
    /// The body, without its transfer coding.
    pub body: Vec<u8>,
}

/// A response whose head has come. Its connection is closed when this is dropped.
#[derive(Debug)]
pub struct OutgoingResponse {
    /// The head.
    pub head: ReceivedHead,
    /// Bytes that were received and not decoded yet.
    input: Vec<u8>,
    decoder: BodyDecoder,
    transport: Transport,
    deadline: Instant,
    max_body: usize,
}

impl OutgoingResponse {
    /// Waits for the head of the response to a request that was sent, and passes over interim responses. The caller limits
    /// the time for it; `deadline` is the end of the time for the body.
    pub(super) async fn begin(
        transport: Transport,
        asked: RequestKind,
        deadline: Instant,
        (max_head, max_body): (usize, usize),
    ) -> Result<OutgoingResponse, HttpClientError> {
        let mut parser = ResponseParser::new(HeadKind::Http, max_head);
        let mut input = Vec::new();
        loop {
            if !receive(&transport, &mut input).await? {
                return Err(HttpClientError::Closed);
            }
            while let Some(head) = parser.advance(&input).map_err(HttpClientError::Head)? {
                let rest = input.split_off(head.len);
                let text = std::mem::replace(&mut input, rest);
                if !head.is_interim() {
                    let decoder = Framing::of(&head, asked).decoder();
                    let head = ReceivedHead { head, text };
                    return Ok(OutgoingResponse { head, input, decoder, transport, deadline, max_body });
                }
            }
        }
    }

    /// Waits for the end of the response, and returns its body.
    ///
    /// # Errors
    /// The body is not complete in time, is longer than the limit, or violates its coding; or the connection broke.
    pub async fn body(mut self) -> Result<WholeResponse, HttpClientError> {
        let left = self.deadline.saturating_duration_since(loops::now());
        let body = timer::timeout(left, self.decode()).await;
        let body = body.unwrap_or(Err(HttpClientError::TimedOut))?;
        Ok(WholeResponse { head: self.head, body })
    }

    async fn decode(&mut self) -> Result<Vec<u8>, HttpClientError> {
        let mut body = Vec::new();
        loop {
            if self.advance(&mut body)? {
                return Ok(body);
            }
            if !receive(&self.transport, &mut self.input).await? {
                // Whoever is between the two can end the connection. Only the server can end the session (RFC 9112, 9.8).
                let is_of_server = self.transport.established().is_none_or(TlsStream::is_notified);
                let is_done = self.decoder.is_done_when_closed() && is_of_server;
                return if is_done { Ok(body) } else { Err(HttpClientError::Closed) };
            }
        }
    }

    /// Decodes the bytes that have come. Returns whether the body is complete.
    fn advance(&mut self, body: &mut Vec<u8>) -> Result<bool, HttpClientError> {
        let mut consumed = 0;
        let is_done = loop {
            let rest = &self.input[consumed..];
            match self.decoder.step(rest).map_err(|_| HttpClientError::Chunked)? {
                ChunkStep::Done(_) => break true,
                ChunkStep::More => break self.decoder.is_done(),
                ChunkStep::Data(range) => {
                    if body.len() + range.len() > self.max_body {
                        return Err(HttpClientError::TooLarge);
                    }
                    consumed += range.end;
                    body.extend_from_slice(&rest[range]);
                }
            }
        };
        self.input.clear();
        Ok(is_done)
    }
}

/// Receives bytes behind those that are there; `false` at the end of the stream.
async fn receive(transport: &Transport, input: &mut Vec<u8>) -> Result<bool, HttpClientError> {
    input.reserve(ROOM);
    match transport.read(input).await {
        Ok(received) => Ok(received > 0),
        Err(error) => Err(HttpClientError::Broken("recv()", error)),
    }
}
