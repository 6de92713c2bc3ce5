//! What the engine asks of a member of the proxy family, and of the protocol that the member speaks.
//!
//! A member (`proxy_pass`, `fastcgi_pass`, …) is a [`Family`]: its directives behind one view, and a maker of exchanges. An
//! [`Exchange`] is one try to have a request answered, as bytes: it makes them, understands those that come, and neither
//! waits nor knows of sockets. All else (choosing a peer, connections, timeouts, retries, buffering, what is logged) is the
//! engine's.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_conf::{Flags, SettingsSet, keyword_enum};
use freerun_http::content::response::{Field, LocalBoxFuture, MakeTrailers, Response};
use freerun_http::module::Outcome;
use freerun_http::request::Request;
use freerun_http::settings::core::TempPath;
use freerun_proto::HeaderId;
use freerun_runtime::log::Level;
use freerun_upstream::connect::ConnectOptions;
use freerun_upstream::idle::{Count, KeepAlive};
use freerun_upstream::{Lease, NoPeer, Peer, Tried};
use smallvec::SmallVec;

use super::fields::HeadFields;
use super::http::exchange::{HttpExchange, WriteHead};
use super::settings::FamilySettings;
use crate::upstream::ntlm::Tie;

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

/// What a request is passed to: the value of `proxy_pass` for this request.
#[derive(Debug, Default)]
pub struct Target {
    whom: Option<Arc<Whom>>,
    /// What is asked for, for protocols with a request line; the log shows it behind the address.
    pub uri: Uri,
}

/// What is asked for: without memory of its own where it is as short as most.
pub type Uri = SmallVec<[u8; 48]>;

/// Who is asked: the same for all requests, where the directive has no variables.
#[derive(Debug, Default)]
pub struct Whom {
    /// With its `://`, for the log: `http://`, `fastcgi://`.
    pub scheme: &'static str,
    /// The group's name, or the address as it was written: `$proxy_host`.
    pub host: Bytes,
    /// The port as written or the protocol's own: `$proxy_port`.
    pub port: Bytes,
    /// The servers that can be asked; `None` in tests of what does not need any.
    pub servers: Option<Arc<dyn Servers>>,
}

impl Target {
    /// This is asked for, of these servers.
    pub fn new(whom: Arc<Whom>, uri: Uri) -> Target {
        Target { whom: Some(whom), uri }
    }

    /// Who is asked: nobody, of a target that is none.
    pub fn whom(&self) -> &Whom {
        static NOBODY: Whom = Whom { scheme: "", host: Bytes::new(), port: Bytes::new(), servers: None };
        self.whom.as_deref().unwrap_or(&NOBODY)
    }
}

impl Clone for Target {
    fn clone(&self) -> Target {
        // A copy of the bytes in one go, where the array's own way is one by one.
        Target { whom: self.whom.clone(), uri: Uri::from_slice(&self.uri) }
    }
}

impl fmt::Debug for dyn Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Servers({})", self.name())
    }
}

/// What a request is passed to, at once or later: a name that variables have given has to be looked up. An error is logged
/// already, and is the answer: 500 for a text that names no server, for example.
pub enum Aim<'r> {
    /// It is known, or there is none.
    Now(Result<Target, Outcome>),
    /// It has to be looked up; giving up waiting is dropping it.
    Later(LocalBoxFuture<'r, Result<Target, Outcome>>),
}

/// A group of servers as one configuration has it: `upstream name { … }`, or what a `proxy_pass` to an address makes.
pub trait Servers: Send + Sync {
    /// The group's name.
    fn name(&self) -> &str;

    /// Chooses a server that was not tried yet, by all that the group's directives look at: `hash`, `sticky`, `queue`.
    fn pick<'a>(&'a self, request: &'a Request, tried: &'a mut Tried) -> Pick<'a>;

    /// How idle connections are kept, and the count that this is held against.
    fn keepalive(&self) -> (&KeepAlive, &Arc<Count>);

    /// What ties the client's connection to one of the servers (`ntlm`), if it is.
    fn tie(&self, _request: &Request) -> Option<Rc<Tie>> {
        None
    }

    /// A server has answered with this head; `response` is what the client is going to get: `sticky` learns, and sets its
    /// cookie.
    fn answered(&self, _request: &Request, _peer: &Peer, _head: &[Field], _response: &mut Response) {}
}

/// A choice, at once or later.
pub enum Pick<'a> {
    /// It is made, or cannot be.
    Now(Result<Lease, NoPeer>),
    /// The request waits for a server (`queue`); giving up waiting is dropping it.
    Later(LocalBoxFuture<'a, Result<Lease, NoPeer>>),
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

/// What is wrong with what an upstream sent. The text is the log's; the engine appends what it was doing (`while reading
/// response header from upstream`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not the protocol, or it is ambiguous: `upstream sent invalid header`, for example.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// The head is larger than the protocol's own limit. (The limit of `proxy_buffer_size` is the engine's.)
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
/// `before_piece`, the piece itself (which the engine sends), `after_piece`, and again; `body_end`; and independently of
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

/// An exchange, in a place of its own where it is not the most frequent one.
pub enum Exchanging {
    /// Of `proxy`.
    Http(HttpExchange<WriteHead>),
    /// Of the other members.
    Boxed(Box<dyn Exchange>),
}

impl Deref for Exchanging {
    type Target = dyn Exchange;

    fn deref(&self) -> &(dyn Exchange + 'static) {
        match self {
            Exchanging::Http(exchange) => exchange,
            Exchanging::Boxed(exchange) => &**exchange,
        }
    }
}

impl DerefMut for Exchanging {
    fn deref_mut(&mut self) -> &mut (dyn Exchange + 'static) {
        match self {
            Exchanging::Http(exchange) => exchange,
            Exchanging::Boxed(exchange) => &mut **exchange,
        }
    }
}

keyword_enum! {
    /// When a request goes to the next server: `proxy_next_upstream`.
    pub enum NextUpstream {
        /// The connection failed, or broke before there was a head.
        Error = "error",
        /// It took too long.
        Timeout = "timeout",
        /// An empty or an invalid head.
        InvalidHeader = "invalid_header",
        /// Requests that are not idempotent are sent again, too.
        NonIdempotent = "non_idempotent",
        /// 500
        Http500 = "http_500",
        /// 502
        Http502 = "http_502",
        /// 503
        Http503 = "http_503",
        /// 504
        Http504 = "http_504",
        /// 403
        Http403 = "http_403",
        /// 404
        Http404 = "http_404",
        /// 429
        Http429 = "http_429",
        /// The server may not be asked: `proxy_allow_upstream`.
        Denied = "denied",
        /// Only for what is cached: somebody else is asking already.
        Updating = "updating",
        /// Never.
        Off = "off",
    }
}

impl NextUpstream {
    /// The condition that a status is.
    pub fn of_status(status: u16) -> Option<NextUpstream> {
        Some(match status {
            500 => NextUpstream::Http500,
            502 => NextUpstream::Http502,
            503 => NextUpstream::Http503,
            504 => NextUpstream::Http504,
            403 => NextUpstream::Http403,
            404 => NextUpstream::Http404,
            429 => NextUpstream::Http429,
            _ => return None,
        })
    }
}

/// What the engine reads of a member's directives, once for each request. Named as the directives are.
#[derive(Debug, Clone)]
pub struct Options {
    /// `proxy_connect_timeout`
    pub connect_timeout: Duration,
    /// `proxy_send_timeout`, between two writes.
    pub send_timeout: Duration,
    /// `proxy_read_timeout`, between two reads.
    pub read_timeout: Duration,
    /// `proxy_next_upstream`
    pub next_upstream: Flags<NextUpstream>,
    /// `proxy_next_upstream_tries`; 0: no limit.
    pub next_upstream_tries: u32,
    /// `proxy_next_upstream_timeout`; 0: no limit.
    pub next_upstream_timeout: Duration,
    /// `proxy_request_buffering`
    pub request_buffering: bool,
    /// `proxy_buffering`
    pub buffering: bool,
    /// `proxy_buffer_size`
    pub buffer_size: usize,
    /// `proxy_buffers`: number times size.
    pub buffers: usize,
    /// `proxy_max_temp_file_size`; 0: no file.
    pub max_temp_file_size: u64,
    /// `proxy_temp_file_write_size`
    pub temp_file_write_size: usize,
    /// `proxy_intercept_errors`
    pub intercept_errors: bool,
    /// `proxy_ignore_client_abort`
    pub ignore_client_abort: bool,
    /// `proxy_limit_rate` for this request, in bytes a second; 0: no limit.
    pub limit_rate: u64,
    /// `proxy_pass_trailers`: who passes them on.
    pub pass_trailers: Option<MakeTrailers>,
    /// `proxy_force_ranges`
    pub force_ranges: bool,
    /// Whether there is a `proxy_allow_upstream`.
    pub conditional: bool,
    /// `proxy_request_dynamic`
    pub request_dynamic: bool,
    /// `proxy_bind_dynamic`: `connect` is made anew for each try.
    pub bind_dynamic: bool,
    /// `proxy_bind` for this request, and `proxy_socket_*`. (`tcp_nodelay` is the engine's.)
    /// `None`: nothing of it is set.
    pub connect: Option<Box<ConnectOptions>>,
}

/// The body that is sent to the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBody {
    /// None (`proxy_pass_request_body off`).
    None,
    /// The client's.
    Client,
    /// This one (`proxy_set_body`).
    Set(Bytes),
}

/// What a member makes of a response's head.
pub enum Passed {
    /// The response for the client, without its body, which the engine puts in.
    Response(Box<Response>, Advice),
    /// It goes elsewhere inside the server (`X-Accel-Redirect`); the body of the upstream is not wanted.
    Elsewhere(Outcome),
}

/// What a response says about itself to the server (`X-Accel-…`), where that is not ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advice {
    /// `X-Accel-Buffering`
    pub buffering: Option<bool>,
    /// `X-Accel-Limit-Rate`, bytes a second to the client; 0: no limit.
    pub limit_rate: Option<u64>,
}

/// A member of the family. All its methods look at the settings of the place where the request is.
pub trait Family: Sync {
    /// The directives' prefix without its underscore: `proxy`, `fastcgi`.
    fn name(&self) -> &'static str;

    /// The directives that the engine reads.
    fn options(&self, request: &Request) -> Options;

    /// The member's part of the table that all share. What it lacks there has its default.
    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings;

    /// The directives that all members share, where the member has them all.
    fn shared<'s>(&self, settings: &'s SettingsSet) -> Option<&'s FamilySettings> {
        let _ = settings;
        None
    }

    /// `proxy_temp_path`: where a response goes that the client does not take as fast as it comes.
    fn temp_path<'s>(&self, settings: &'s SettingsSet) -> Option<&'s TempPath> {
        let _ = settings;
        None
    }

    /// What the request is passed to.
    fn target<'r>(&'r self, request: &'r Request) -> Aim<'r>;

    /// Appends the key of a response where `cache_key` says none: what is asked of whom. `false`: there is none.
    ///
    /// # Errors
    /// What is asked cannot be made out; it is logged.
    fn cache_key(&self, request: &Request, out: &mut Vec<u8>) -> Result<bool, Outcome> {
        let _ = (request, out);
        Ok(false)
    }

    /// Whether HEAD is passed on as GET where responses are cached: `cache_convert_head`.
    fn converts_head(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Whether the server is asked for a part of the response (`Range`) by the configuration itself.
    fn asks_for_part(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Which body goes there.
    fn body(&self, request: &Request) -> RequestBody {
        let _ = request;
        RequestBody::Client
    }

    /// A try. The target is that of [`Family::target`], and the response's head may have `max_head` bytes: what `buffer_size` says.
    fn exchange(&self, request: &Request, target: &Target, max_head: usize) -> Exchanging;

    /// What the client gets for a final response: fields are hidden, passed and changed here. `status` and all else that
    /// the engine may decide by has been looked at before (retries, `proxy_intercept_errors`).
    ///
    /// # Errors
    /// It cannot be passed on: 502, and the text is logged.
    fn respond(&self, request: &mut Request, target: &Target, head: UpstreamHead) -> Result<Passed, Fault>;

    /// Whether a field is kept from the client, be it in a head, an interim one or behind the body.
    fn hides(&self, request: &Request, id: HeaderId, name: &[u8]) -> bool {
        let _ = (request, id, name);
        false
    }

    /// Whether a body of unknown length can be passed on as it comes, in the way this request is passed on: by chunks. If
    /// not, it is read completely before, whatever `proxy_request_buffering` says.
    fn passes_unknown_length(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// The method that the upstream sees, for deciding what may be sent again (`proxy_method`); `GET` where the protocol
    /// has none.
    fn is_idempotent(&self, request: &Request) -> bool;

    /// Whether the client's request asks to leave the protocol, and was passed on as such (`Upgrade` in `proxy`): only
    /// then 101 is an answer.
    fn upgrades(&self, request: &Request) -> bool {
        let _ = request;
        false
    }
}
