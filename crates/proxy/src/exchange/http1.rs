//! A request and its response over HTTP/1.

use bytes::BytesMut;
use freerun_http::request::Request;
use freerun_http::request::response::Field;
use freerun_proto::chunked::{CHUNK_END, ChunkHead, LAST_CHUNK};
use freerun_proto::response::{HeadKind, RequestKind};

use crate::exchange::reply::Reply;
use crate::exchange::{BEHIND_LAST_CHUNK, BodyPlan, BodyStep, Exchange, Fault, To, UpstreamHead};

/// Framing of a request's body, as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentBody {
    /// There is no body, or `Content-Length` tells its length.
    Plain,
    /// The body has `Transfer-Encoding: chunked`.
    Chunked,
}

/// The consequences of the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentHead {
    /// Framing of the body.
    pub body: SentBody,
    /// Whether it has told the server that this is the connection's last request.
    pub is_last: bool,
}

impl SentHead {
    /// A head that says nothing of a body in chunks, nor of the connection.
    pub const PLAIN: SentHead = SentHead { body: SentBody::Plain, is_last: false };
}

/// Appends the head of a request.
pub type WriteHead = fn(&Request, &To<'_>, BodyPlan, &mut Vec<u8>) -> Result<SentHead, Fault>;

/// An exchange over HTTP/1. `W` appends the head of the request.
pub struct HttpExchange<W> {
    write_head: W,
    sent: SentHead,
    reply: Reply,
}

impl<W> HttpExchange<W>
where
    W: FnMut(&Request, &To<'_>, BodyPlan, &mut Vec<u8>) -> Result<SentHead, Fault>,
{
    /// An exchange whose request has the method that `asked` was made of; the response's head may have `max_head`
    /// bytes.
    pub fn new(asked: RequestKind, max_head: usize, write_head: W) -> HttpExchange<W> {
        HttpExchange { write_head, sent: SentHead::PLAIN, reply: Reply::new(HeadKind::Http, asked, max_head) }
    }

    /// An exchange of a protocol that differs from HTTP only in the request's head (uwsgi, SCGI): the response is in
    /// HTTP or CGI, and the connection ends with it.
    pub fn cgi(asked: RequestKind, max_head: usize, write_head: W) -> HttpExchange<W> {
        HttpExchange { write_head, sent: SentHead::PLAIN, reply: Reply::new(HeadKind::HttpOrCgi, asked, max_head) }
    }
}

impl<W> Exchange for HttpExchange<W>
where
    W: FnMut(&Request, &To<'_>, BodyPlan, &mut Vec<u8>) -> Result<SentHead, Fault>,
{
    fn begin(&mut self, request: &Request, to: &To<'_>, body: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.sent = (self.write_head)(request, to, body, out)?;
        Ok(())
    }

    fn before_piece(&mut self, len: usize, out: &mut Vec<u8>) {
        if self.sent.body == SentBody::Chunked {
            out.extend_from_slice(ChunkHead::new(len as u64).as_bytes());
        }
    }

    fn after_piece(&mut self, out: &mut Vec<u8>) {
        if self.sent.body == SentBody::Chunked {
            out.extend_from_slice(CHUNK_END);
        }
    }

    fn body_end(&mut self, out: &mut Vec<u8>) {
        if self.sent.body == SentBody::Chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
    }

    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        self.reply.head(input)
    }

    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault> {
        self.reply.body(input)
    }

    fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    fn closed(&mut self) -> Result<(), Fault> {
        self.reply.closed()
    }

    fn reusable(&self) -> bool {
        !self.sent.is_last && self.reply.reusable()
    }

    fn remaining(&self) -> Option<u64> {
        self.reply.remaining()
    }

    fn behind_end(&self) -> Option<&'static str> {
        self.reply.is_http().then_some(BEHIND_LAST_CHUNK)
    }

    fn take_trailers(&mut self) -> Vec<Field> {
        self.reply.take_trailers()
    }
}
