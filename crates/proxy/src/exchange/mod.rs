//! A request and its response as bytes, in the protocol of a member of the family.
//!
//! An [`Exchange`] is one try to have a request answered: it makes the bytes of the request, parses the bytes of the
//! response, and neither waits nor knows of sockets. Everything else (choosing a server, connections, timeouts,
//! retries, buffering, logging) is done in `client/`.
//!
//! `family.rs` is the interface of a member (`proxy_pass`, `fastcgi_pass`, …) to `client/` and `cached/`; `target.rs`
//! is the target of a request. `http1.rs` is the exchange of HTTP/1, which uwsgi and SCGI use too; `http2.rs` is the
//! exchange of HTTP/2 and HTTP/3. `reply.rs` parses the responses of all members that answer in HTTP or CGI over a plain stream,
//! into `fields.rs`. `gather.rs` puts small pieces of bodies together.

pub mod family;
pub mod fields;
pub mod gather;
pub mod http1;
pub mod http2;
pub mod reply;
pub mod target;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use freerun_http::request::Request;
use freerun_http::request::response::Field;
use freerun_runtime::log::Level;

use crate::exchange::fields::HeadFields;
use crate::exchange::http2::UnprocessedReason;
use crate::exchange::target::PassTarget;

/// The text of the log line for a body that is longer than its `Content-Length`.
pub const TOO_MUCH: &str = "upstream sent more data than specified in \"Content-Length\" header";

/// The text of the log line for bytes after the last chunk.
pub const BEHIND_LAST_CHUNK: &str = "upstream sent data after final chunk";

/// The length of the request's body to the upstream server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPlan {
    /// There is no body.
    None,
    /// The body has this number of bytes.
    Length(u64),
    /// The body is streamed, and its length is not known: it is chunked, or framed by the means of the protocol.
    Unknown,
}

/// The destination of a try.
#[derive(Debug, Clone, Copy)]
pub struct To<'a> {
    /// The target that the request is passed to.
    pub target: &'a PassTarget,
    /// The chosen peer, as in `$upstream_addr`: `127.0.0.1:80`, `unix:/path`.
    pub peer: &'a str,
    /// The peer as written in its `server` directive: the name for `Host` where no other is given.
    pub server: &'a str,
}

/// A response's head (or an interim head of 1xx) in the terms of HTTP.
#[derive(Debug, Clone, Default)]
pub struct UpstreamHead {
    /// The status; 200 if the protocol has none and the response gives none.
    pub status: u16,
    /// The reason phrase; empty if there is none.
    pub reason: Bytes,
    /// The fields, in the order they came, including those about the connection.
    pub fields: HeadFields,
    /// The number of bytes of the body that follows, if the head tells it. If no body follows (HEAD, 204, 304): 0.
    pub length: Option<u64>,
    /// The number of bytes of the head.
    pub bytes: usize,
}

/// A step in reading a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyStep {
    /// The next bytes of the body; never empty.
    Data(Bytes),
    /// The input is used up: more has to be read.
    More,
    /// The body is complete. The bytes left in the input are not part of it.
    End,
}

/// The error in the bytes of an upstream server. The text is for the log; `client/` appends the stage (`while reading
/// response header from upstream`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes violate the protocol, or are ambiguous: `upstream sent invalid header`, for example.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// The head exceeds the protocol's own limit. (The limit of `proxy_buffer_size` is checked in `client/`.)
    #[error("upstream sent too big header")]
    TooBig,
    /// The connection ended too early.
    #[error("upstream prematurely closed connection")]
    Cut,
    /// The server has reset the stream of the exchange, with this code of HTTP/2 or HTTP/3.
    #[error("upstream rejected request with error {0}")]
    Reset(u32),
    /// The server has said that it has not looked at the request, which may be sent again in any case.
    #[error("{0}")]
    Unprocessed(UnprocessedReason),
    /// The request cannot be expressed in this protocol (a parameter is too long); nothing was sent. The text is
    /// logged, the answer is 500 and no other peer is tried.
    #[error("{0}")]
    Request(Cow<'static, str>),
}

impl Fault {
    /// An [`Invalid`](Fault::Invalid) fault with a fixed text.
    pub const fn invalid(text: &'static str) -> Fault {
        Fault::Invalid(Cow::Borrowed(text))
    }
}

/// A try to have a request answered, in one protocol.
///
/// First the caller calls `begin`. For each piece of the request's body it calls `before_piece`, sends the piece
/// itself, and calls `after_piece`; then it calls `body_end`. Independently of these, as soon as bytes come, it calls
/// `head` until it has returned a head other than 1xx, then `body` until its end.
pub trait Exchange {
    /// Appends the bytes before the request's body: the head, or the begin record and the parameters. Called once.
    ///
    /// # Errors
    /// [`Fault::Request`] if the request cannot be expressed in this protocol.
    fn begin(&mut self, request: &Request, to: &To<'_>, body: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault>;

    /// Appends the bytes before a piece of the body with `len` bytes (from 1 on): the line of a chunk, the head of a
    /// record.
    fn before_piece(&mut self, _len: usize, _out: &mut Vec<u8>) {}

    /// Announces that the next piece, which has `len` bytes, is the last one. Where that is known only later, or the length of
    /// the body was announced, it is not called.
    fn last_piece(&mut self, _len: usize) {}

    /// Appends the bytes after a piece.
    fn after_piece(&mut self, _out: &mut Vec<u8>) {}

    /// The most bytes that one piece may have.
    fn max_piece(&self) -> usize {
        usize::MAX
    }

    /// Appends the bytes that end the body (the last chunk, an empty record). Called once, even when there is no body.
    fn body_end(&mut self, _out: &mut Vec<u8>) {}

    /// Takes the next head out of `input`. 1xx come as heads of their own, with 101 as the last one.
    ///
    /// While the head is not complete, the result is `None` and `input` keeps its bytes. Bytes that belong to no head,
    /// such as error output between records, may be taken out nevertheless.
    ///
    /// # Errors
    /// The head is not valid.
    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault>;

    /// Takes the next bytes of the body out of `input`.
    ///
    /// # Errors
    /// The framing is not valid.
    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault>;

    /// Whether the whole body was taken, after `body` or `head`, even if [`BodyStep::End`] was not returned yet.
    fn is_done(&self) -> bool {
        false
    }

    /// Reports that the upstream server has closed its side, in the head or in the body. A body may end with the
    /// connection.
    ///
    /// # Errors
    /// [`Fault::Cut`] in most cases, if the end comes too early.
    fn closed(&mut self) -> Result<(), Fault>;

    /// Whether the connection can serve another request, after the end.
    fn reusable(&self) -> bool;

    /// The number of bytes of the body that are still to come, if known.
    fn remaining(&self) -> Option<u64> {
        None
    }

    /// The level and the text of the log line for surplus bytes, after the end of the response. There is one for bytes
    /// that are not left in the input, or if the protocol has its own text.
    fn surplus(&self) -> Option<(Level, &'static str)> {
        None
    }

    /// After the end: the text of the log line for bytes that are left in the input after a body whose length the head
    /// did not tell.
    fn behind_end(&self) -> Option<&'static str> {
        None
    }

    /// The most bytes that the protocol may have between the rest of the body and the end of the response, if the
    /// connection can be used again then. If the body's length is known, the caller reads this number of bytes more.
    fn framing(&self) -> usize {
        0
    }

    /// Whether trailer fields may come behind the body: after the head.
    fn may_have_trailers(&self) -> bool {
        self.remaining().is_none()
    }

    /// Takes the trailer fields.
    fn take_trailers(&mut self) -> Vec<Field> {
        Vec::new()
    }

    /// Takes the application's messages for the error log (FastCGI's error output) since the last call, without line
    /// ends. They are logged as `FastCGI sent in stderr: "…"`.
    fn take_error_output(&mut self) -> Option<Bytes> {
        None
    }
}
