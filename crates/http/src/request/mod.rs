//! One request on its way: what came in, where it was routed, and what became of it.

pub mod generation;
pub mod handler;
pub mod location;
pub mod response;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::{BodyFraming, Method, Version};
pub use freerun_serve::Address;
use freerun_serve::loop_local::LoopLocal;

use self::generation::{LoopGeneration, ServedBy};
use self::location::{Location, Server};
use crate::body::ClientBody;
use crate::connection;

use crate::message::Field;
pub use crate::message::head::Head;
use crate::message::persistence::{CloseReason, Persistence};
pub use crate::message::states::{State, States};
use crate::regex::Captures;
use crate::settings::core::CoreSettings;
use crate::variables::Values;

/// A client connection of the request path.
pub type Connection = connection::Connection<ServedBy>;

/// What requests ask of the connection that they came on.
pub type Facts = connection::Facts<ServedBy>;

/// What a request sees of its client.
pub type ClientStream = connection::client::ClientStream<ServedBy>;

/// Parts of the head of a response that go with another one.
#[derive(Debug, Default)]
pub struct Carried {
    /// `Location`
    pub location: Option<Bytes>,
    /// Media type and character set, of a response that was replaced by another URI's (`X-Accel-Redirect`).
    pub content_type: Option<(Bytes, Option<Bytes>)>,
    /// Further fields.
    pub fields: Vec<Field>,
}

/// What was sent, for the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// Status of the response, 0 before there is one.
    pub status: u16,
    /// All bytes.
    pub bytes: u64,
    /// Bytes of the body, with chunk framing not counted.
    pub body_bytes: u64,
    /// Whether the whole response went out.
    pub complete: bool,
}

/// How often a request may start again with another URI before it is answered with 500.
pub const MAX_INTERNAL_REDIRECTS: u8 = 10;

/// A request.
pub struct Request {
    /// Its client.
    pub client: ClientStream,
    /// The configuration it began with, and ends with.
    pub generation: Rc<LoopGeneration>,
    /// The virtual server.
    pub server: LoopLocal<Server>,
    /// The location that answers, or the server's own settings before one is chosen.
    pub location: LoopLocal<Location>,
    /// The head as it came.
    pub head: Head,
    /// The method, as handlers see it: an error page is fetched with GET.
    pub method: Method,
    /// The decoded, normalised path: `$uri`.
    pub path: Vec<u8>,
    /// What follows the `?`: `$args`.
    pub args: Option<Vec<u8>>,
    /// The server name asked for, lower case, without port: `$host`.
    pub host: Option<String>,
    /// Whether a file's name is being made.
    pub naming_file: Cell<bool>,
    /// Captures of regular expressions.
    pub captures: Captures,
    /// Number of the request on its connection, from 1: `$connection_requests`.
    pub serial: u64,
    /// When its first byte was seen.
    pub started: Instant,
    /// Status that an error page has to be sent with.
    pub forced_status: Option<u16>,
    /// Whether a `rewrite` changed the path, so that it is not the one that the location was chosen for.
    pub rewritten_here: bool,
    /// Whether path and arguments are those of the request line: nothing was rewritten, and it is not another request than
    /// the client's. Then a proxy may pass on the request line's URI as it came.
    pub uri_kept: bool,
    /// `try_files` has found a file behind the `alias` of a regular expression, which has no path of its own: the request's
    /// path comes behind it from then on.
    pub path_behind_alias: bool,
    /// Whether the body was refused for its length, or nothing is known of it. What comes in its place is not refused in turn.
    pub body_judged: bool,
    /// Whether it is not followed again, because `recursive_error_pages` was off where it was.
    pub last_error_page: bool,
    /// What the error that an error page replaced had in its head, and goes with the page.
    pub carried: Carried,
    /// Whether the URI was changed inside the server.
    pub internal: bool,
    /// How many internal redirects are left.
    pub redirects_left: u8,
    /// Whether bytes of it had come with the request before: `$pipe`.
    pub pipelined: bool,
    /// Whether the connection can be used again afterwards, as far as known.
    pub persistence: Persistence,
    /// The request body.
    pub body: ClientBody,
    /// What was sent.
    pub sent: Sent,
    /// Whether its log lines are being written.
    pub is_logged: bool,
    /// The number behind `$request_id`, given at first use.
    pub id: Cell<Option<u64>>,
    /// The fields of the response's head as they were sent, but for the server's own `Server` and `Date`, for `$sent_http_…`; kept only where a log may ask.
    pub sent_head: Vec<u8>,
    /// `Location` as it was before the server's own address was put before it, until that is sent; kept where `sent_head` is.
    pub sent_location: Option<Bytes>,
    /// The fields that were sent after the body, for `$sent_trailer_…`.
    pub sent_trailers: Vec<Field>,
    /// How deep it is in subrequests: 0 is the client's own request.
    pub depth: u8,
    /// In a subrequest: the method that the client's request has (`$request_method`), while its own is GET.
    pub main_method: Option<Method>,
    /// Whether `error_page` is not asked, because an error is an answer like any other to whoever made this subrequest.
    pub plain_errors: bool,
    /// The values of `WWW-Authenticate`, once a request was refused for want of credentials: none as a rule, which takes
    /// no memory. They go with the answer, error page or not.
    pub challenges: Vec<Bytes>,
    /// The upstream server that it is passed to, as the log names it.
    pub passed_to: Option<Rc<dyn fmt::Display>>,
    /// In a subrequest: the body of the client's request is not meant for it.
    pub without_body: bool,
    /// What modules keep with this request alone.
    pub own: States,
    /// The client's address, where it is not that of the connection.
    pub(crate) real_peer: Option<Rc<Address>>,
    pub(crate) shared: OnceCell<Rc<States>>,
}

impl Request {
    /// A request as it comes in, before it is routed: at the own level of a server.
    // Inline, so that it is made where it stays.
    #[inline(always)]
    pub fn new(
        client: ClientStream,
        generation: Rc<LoopGeneration>,
        (server, location): (LoopLocal<Server>, LoopLocal<Location>),
        head: Head,
        serial: u64,
        started: Instant,
    ) -> Request {
        Request {
            client,
            location,
            generation,
            server,
            method: head.parsed.method,
            path: Vec::new(),
            args: None,
            host: None,
            naming_file: Cell::new(false),
            captures: Captures::default(),
            serial,
            started,
            forced_status: None,
            rewritten_here: false,
            uri_kept: true,
            path_behind_alias: false,
            body_judged: false,
            last_error_page: false,
            carried: Carried::default(),
            internal: false,
            redirects_left: MAX_INTERNAL_REDIRECTS,
            pipelined: false,
            persistence: Persistence::Closed(CloseReason::BadHead),
            body: ClientBody::new(head.parsed.body, head.parsed.len as usize, head.parsed.expect_continue),
            sent: Sent::default(),
            id: Cell::new(None),
            is_logged: false,
            sent_head: Vec::new(),
            sent_location: None,
            sent_trailers: Vec::new(),
            depth: 0,
            main_method: None,
            plain_errors: false,
            challenges: Vec::new(),
            passed_to: None,
            without_body: false,
            own: States::default(),
            real_peer: None,
            shared: OnceCell::new(),
            head,
        }
    }

    /// The client's address: the connection's, or what was learned about it from a proxy that is trusted.
    pub fn peer(&self) -> &Address {
        self.real_peer.as_deref().unwrap_or(&self.client.peer)
    }

    /// Says what the client's address really is, for all that comes after.
    pub fn set_peer(&mut self, peer: Address) {
        self.real_peer = Some(Rc::new(peer));
    }

    /// Whether [`Request::set_peer`] was called.
    pub fn has_real_peer(&self) -> bool {
        self.real_peer.is_some()
    }

    /// A number that stands for the client, for sharing a thread pool fairly: the same for all its connections.
    pub fn client_key(&self) -> u64 {
        self.peer().key()
    }

    /// The merged settings at the place where the request is now.
    pub fn settings(&self) -> &SettingsSet {
        &self.location.settings
    }

    /// Of these the core's.
    pub fn core(&self) -> &CoreSettings {
        &self.location.core
    }

    /// What modules keep with the client's request and all its subrequests together.
    pub fn shared(&self) -> &Rc<States> {
        self.shared.get_or_init(Rc::default)
    }

    /// What a module keeps there, if there is something.
    pub fn find_shared<T: 'static>(&self) -> Option<Rc<T>> {
        self.shared.get()?.find()
    }

    /// The values of variables that `set`, captures and maps give: those of the client's request and all its subrequests.
    pub fn values(&self) -> &Values {
        self.captures.values()
    }

    /// Whether it was made by the server for another request, and not sent by the client.
    pub fn is_subrequest(&self) -> bool {
        self.depth > 0
    }

    /// A request like this one, for a subrequest, or to evaluate variables while the response of this one is written: the
    /// same head, connection and configuration; no body, nothing sent, and module state that is shared.
    pub fn fork(&self) -> Box<Request> {
        let head_len = (self.head.parsed.len as usize).min(self.head.buffer.len());
        let mut parsed = self.head.parsed.clone();
        parsed.body = BodyFraming::None;
        parsed.expect_continue = false;
        let head = Head { buffer: self.head.buffer[..head_len].to_vec(), parsed };
        let (client, generation) = (self.client.clone(), self.generation.clone());
        let place = (self.server.clone(), self.location.clone());
        let mut fork = Request::new(client, generation, place, head, self.serial, self.started);
        fork.method = self.method;
        fork.path.clone_from(&self.path);
        fork.args.clone_from(&self.args);
        fork.host.clone_from(&self.host);
        self.values();
        fork.captures.clone_from(&self.captures);
        fork.rewritten_here = self.rewritten_here;
        fork.uri_kept = self.uri_kept;
        fork.path_behind_alias = self.path_behind_alias;
        fork.forced_status = self.forced_status;
        fork.body_judged = self.body_judged;
        fork.internal = self.internal;
        fork.pipelined = self.pipelined;
        fork.persistence = self.persistence;
        fork.sent = self.sent;
        fork.id.set(self.id.get());
        fork.depth = self.depth;
        fork.main_method = self.main_method;
        fork.without_body = self.without_body;
        fork.real_peer.clone_from(&self.real_peer);
        fork.shared = OnceCell::from(self.shared().clone());
        Box::new(fork)
    }

    /// Whether all that is left of its body has come, and the body's length is known.
    pub fn has_whole_body(&self) -> bool {
        self.body.is_here(&self.head.buffer)
    }

    /// Whether only the head of the response is wanted.
    pub fn is_head(&self) -> bool {
        self.head.parsed.method == Method::Head
    }

    /// Whether the client speaks HTTP/1.1.
    pub fn is_http11(&self) -> bool {
        self.head.parsed.version == Version::Http11
    }
}
