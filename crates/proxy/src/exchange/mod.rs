//! A request and its response as bytes, in the protocol of a member of the family.
//!
//! An [`Exchange`] is one try to have a request answered: it makes the bytes of the request, understands those of the response, and
//! neither waits nor knows of sockets. All else (choosing a server, connections, timeouts, retries, buffering, what is logged)
//! is done in `client/`. `family.rs` is what a member (`proxy_pass`, `fastcgi_pass`, …) is to `client/` and `cached/`, `target.rs`
//! where a request goes. `http1.rs` is the exchange of HTTP/1, which uwsgi and SCGI use too; `reply.rs` reads the responses of
//! all that answer in HTTP or CGI over a plain stream, into `fields.rs`; `gather.rs` puts small pieces of bodies together.

pub mod family;
pub mod fields;
pub mod gather;
pub mod http1;
pub mod reply;
pub mod target;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use freerun_http::request::Request;
use freerun_http::request::response::Field;
use freerun_runtime::log::Level;

use crate::exchange::fields::HeadFields;
use crate::exchange::target::Target;

/// What the log says where a body is longer than its `Content-Length`.
pub const TOO_MUCH: &str = "upstream sent more data than specified in \"Content-Length\" header";

/// What it says of bytes behind the last chunk.
pub const BEHIND_LAST_CHUNK: &str = "upstream sent data after final chunk";

/// How long the body of the request to the upstream is going to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPlan {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// It is passed on as it comes, and its length is not known: chunked, or whatever the protocol has for it.
    Unknown,
}

/// Where a try goes.
#[derive(Debug, Clone, Copy)]
pub struct To<'a> {
    /// What the request is passed to.
    pub target: &'a Target,
    /// The peer that was chosen, as `$upstream_addr` has it: `127.0.0.1:80`, `unix:/path`.
    pub peer: &'a str,
    /// The peer as its `server` directive has it: the name for `Host` where nothing else says one.
    pub server: &'a str,
}

/// A response's head (an interim one of 1xx, too) in the terms of HTTP.
#[derive(Debug, Clone, Default)]
pub struct UpstreamHead {
    /// The status; 200 where the protocol has none and the response says none.
    pub status: u16,
    /// The reason phrase; empty where there is none.
    pub reason: Bytes,
    /// The fields, in the order they came, with those that speak of the connection.
    pub fields: HeadFields,
    /// Bytes of the body that follows, where the head says so. Nothing follows (HEAD, 204, 304): 0.
    pub length: Option<u64>,
    /// Bytes that the head took.
    pub bytes: usize,
}

/// What comes of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyStep {
    /// The next bytes of it; never empty.
    Data(Bytes),
    /// The input is used up: more has to be read.
    More,
    /// The body is complete. What is left in the input is no part of it.
    End,
}

/// What is wrong with what an upstream sent. The text is the log's; `client/` appends what it was doing (`while reading
/// response header from upstream`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not the protocol, or it is ambiguous: `upstream sent invalid header`, for example.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// The head is larger than the protocol's own limit. (The limit of `proxy_buffer_size` is looked at in `client/`.)
    #[error("upstream sent too big header")]
    TooBig,
    /// The connection ended where more had to come.
    #[error("upstream prematurely closed connection")]
    Cut,
    /// The request cannot be said in this protocol (a parameter that is too long); nothing was sent. The text is logged, the
    /// answer is 500 and no other peer is tried.
    #[error("{0}")]
    Request(Cow<'static, str>),
}

impl Fault {
    /// A fixed text.
    pub const fn invalid(text: &'static str) -> Fault {
        Fault::Invalid(Cow::Borrowed(text))
    }
}

/// One try to have a request answered, in one protocol. The calls come in this order: `begin`; for the request's body
/// `before_piece`, the piece itself (which the caller sends), `after_piece`, and again; `body_end`; and independently of
/// these, as soon as bytes come, `head` until it has returned one that is not 1xx, then `body` until its end.
pub trait Exchange {
    /// Appends what stands before the request's body: head, or begin record and parameters. Called once.
    ///
    /// # Errors
    /// [`Fault::Request`].
    fn begin(&mut self, request: &Request, to: &To<'_>, body: BodyPlan, out: &mut Vec<u8>) -> Result<(), Fault>;

    /// Appends what stands before a piece of the body with `len` bytes (from 1 on): the line of a chunk, the head of a
    /// record.
    fn before_piece(&mut self, _len: usize, _out: &mut Vec<u8>) {}

    /// Appends what stands behind a piece.
    fn after_piece(&mut self, _out: &mut Vec<u8>) {}

    /// The most bytes that one piece may have.
    fn max_piece(&self) -> usize {
        usize::MAX
    }

    /// Appends what ends the body (the last chunk, an empty record). Called once, even when there is no body.
    fn body_end(&mut self, _out: &mut Vec<u8>) {}

    /// Takes the next head out of `input`: `None` while it is not complete (`input` keeps the bytes of it; what belongs to
    /// no head, such as error output between records, may be taken out). 1xx come as heads of their own, with 101 as the
    /// last one.
    ///
    /// # Errors
    /// What is wrong with it.
    fn head(&mut self, input: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault>;

    /// Takes the next bytes of the body out of `input`.
    ///
    /// # Errors
    /// What is wrong with its framing.
    fn body(&mut self, input: &mut BytesMut) -> Result<BodyStep, Fault>;

    /// Whether all of the body was taken, after `body` or `head`, though nobody has asked for [`BodyStep::End`] yet.
    fn is_done(&self) -> bool {
        false
    }

    /// The upstream has ended its side, in the head or in the body: whether that may be (a body that ends with the
    /// connection).
    ///
    /// # Errors
    /// [`Fault::Cut`], mostly.
    fn closed(&mut self) -> Result<(), Fault>;

    /// After the end: whether the connection can serve another request.
    fn reusable(&self) -> bool;

    /// How many bytes of the body are still to come, where that is known.
    fn remaining(&self) -> Option<u64> {
        None
    }

    /// After the end: what the log says of more than there should be, which is not left in the input, or which the protocol has
    /// words of its own for; and how grave that is.
    fn surplus(&self) -> Option<(Level, &'static str)> {
        None
    }

    /// After the end: what the log says of bytes that are left in the input behind a body whose length the head did not say.
    fn behind_end(&self) -> Option<&'static str> {
        None
    }

    /// How many bytes the protocol may have between what is left of the body and the end of the response, if the connection can be
    /// used again then: where the body's length is known, so much more is read.
    fn framing(&self) -> usize {
        0
    }

    /// The fields that came after the body.
    fn take_trailers(&mut self) -> Vec<Field> {
        Vec::new()
    }

    /// What the application has to say in the error log (FastCGI's error output), since it was last asked; without the
    /// line's end. It is logged as `FastCGI sent in stderr: "…"`.
    fn take_error_output(&mut self) -> Option<Bytes> {
        None
    }
}
