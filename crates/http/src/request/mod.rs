//! A request in progress: what was received, where it was routed, and the state of its response.

pub mod core_settings;
mod counts;
pub mod generation;
pub mod handler;
pub mod location;
pub mod observer;
pub(crate) mod processing_count;
pub mod representation;
pub mod response;
pub mod slice_begin;

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Instant;

use freerun_conf::SettingsSet;
use freerun_proto::{BodyFraming, HeaderId, Method, Status, Version};
pub use freerun_serve::Address;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::values::captures::{Captures, Values};

use self::core_settings::CoreSettings;
use self::generation::{LoopGeneration, ServedBy};
pub use self::location::MAX_INTERNAL_REDIRECTS;
use self::location::{Location, RequestPlace, Server};
use self::processing_count::ProcessingCount;
use crate::connection;
use crate::message::body::ClientBody;

pub use crate::message::head::Head;
pub use crate::message::request_target::{Arrival, Lineage, RequestTarget};
pub use crate::message::response_state::{CarriedHead, ResponseState, SentAmounts};
pub use freerun_serve::values::states::{ModuleState, States};

/// A client connection of the request path.
pub type ClientConnection = connection::Connection<ServedBy>;

/// The properties of a connection that requests ask for.
pub type ConnectionFacts = connection::Facts<ServedBy>;

/// The view that a request has of its client.
pub type ClientStream = connection::client::ClientView<ServedBy>;

/// A request. Its parts have types of their own, each with its way to be copied for a subrequest ([`Request::fork`]).
/// The state that a module keeps with it belongs to the module ([`Request::own`]).
pub struct Request {
    /// The client of the request.
    pub client: ClientStream,
    /// The configuration that the request begins and ends with.
    pub generation: Rc<LoopGeneration>,
    /// The head as it came.
    pub head: Head,
    /// The target of the request.
    pub asked: RequestTarget,
    /// Facts about the request's arrival.
    pub arrival: Arrival,
    /// The request that it was made for.
    pub lineage: Lineage,
    /// The position of the request in the configuration.
    pub place: RequestPlace,
    /// Whether the name of a file is being made, which may depend on itself.
    pub(crate) naming_file: Cell<bool>,
    /// Whether the handlers of its location have their turn, or had it. A script may answer before them.
    pub is_handled: bool,
    /// The captures of regular expressions.
    pub captures: Captures,
    /// The request body.
    pub body: ClientBody,
    /// The amounts that were sent.
    pub sent: SentAmounts,
    /// The data that goes with the response.
    pub answered: ResponseState,
    /// The zone that it is counted in.
    pub(crate) processing: ProcessingCount<Server>,
    /// The state that modules keep with this request alone.
    pub own: States,
    pub(crate) shared: OnceCell<Rc<States>>,
}

impl Request {
    /// A new request that has not been routed, at the own level of a server.
    // Inline, so that the request is made where it stays.
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
            generation,
            asked: RequestTarget::new(head.parsed.method),
            arrival: Arrival::new(serial, started),
            lineage: Lineage::default(),
            place: RequestPlace::new(server, location),
            naming_file: Cell::new(false),
            is_handled: false,
            captures: Captures::default(),
            body: ClientBody::new(head.parsed.body, head.parsed.len as usize, head.parsed.expect_continue),
            sent: SentAmounts::default(),
            answered: ResponseState::default(),
            processing: ProcessingCount::default(),
            own: States::default(),
            shared: OnceCell::new(),
            head,
        }
    }

    /// The client's address: the connection's, or the address that a trusted proxy has named.
    pub fn peer(&self) -> &Address {
        self.asked.real_peer.as_deref().unwrap_or_else(|| self.client.peer())
    }

    /// Sets the client's real address, for all later code.
    pub fn set_peer(&mut self, peer: Address) {
        self.asked.real_peer = Some(Rc::new(peer));
    }

    /// Whether [`Request::set_peer`] was called.
    pub fn has_real_peer(&self) -> bool {
        self.asked.real_peer.is_some()
    }

    /// A number that stands for the client, for sharing a thread pool fairly. It is the same for all connections of the
    /// client.
    pub fn client_key(&self) -> u64 {
        self.peer().key()
    }

    /// The merged settings at the place where the request is now.
    pub fn settings(&self) -> &SettingsSet {
        &self.place.location.settings
    }

    /// The core group of these settings.
    pub fn core(&self) -> &CoreSettings {
        &self.place.location.core
    }

    /// The state that modules keep with the client's request and all its subrequests together.
    pub fn shared(&self) -> &Rc<States> {
        self.shared.get_or_init(Rc::default)
    }

    /// The shared state of type `T` of a module, if there is one.
    pub fn find_shared<T: 'static>(&self) -> Option<Rc<T>> {
        self.shared.get()?.find()
    }

    /// The values of variables from `set`, captures and maps, shared by the client's request and all its subrequests.
    pub fn values(&self) -> &Values {
        self.captures.values()
    }

    /// Whether the server made the request for another one, so that no client has sent it.
    pub fn is_subrequest(&self) -> bool {
        self.lineage.depth > 0
    }

    /// A copy of this request, for a subrequest, or to evaluate variables while the response of this one is written. It
    /// has the same head, connection and configuration, no body, nothing sent, and module state that is shared.
    pub fn fork(&self) -> Box<Request> {
        self.values();
        Box::new(Request {
            client: self.client.clone(),
            generation: self.generation.clone(),
            head: self.head.without_body(),
            asked: self.asked.clone(),
            arrival: self.arrival.clone(),
            lineage: self.lineage.fork(),
            place: self.place.fork(),
            naming_file: Cell::new(false),
            is_handled: false,
            captures: self.captures.clone(),
            body: ClientBody::new(BodyFraming::None, self.head.parsed.len as usize, false),
            sent: self.sent,
            answered: self.answered.fork(),
            processing: ProcessingCount::default(),
            own: States::default(),
            shared: OnceCell::from(self.shared().clone()),
        })
    }

    /// Removes the fields of the head whose names `is_gone` is true for, for all later code. How the body is framed stays as
    /// the client has said it.
    pub fn remove_fields(&mut self, is_gone: impl FnMut(&[u8]) -> bool) {
        self.head.remove_fields(is_gone);
        self.find_host();
    }

    /// Gives the field of this name a value, for all later code: the first one gets it and the others are removed, or a field
    /// is added. How the body is framed stays as the client has said it.
    pub fn set_field(&mut self, name: &[u8], value: &[u8]) {
        let by = self.head.set_field(name, value);
        self.body.head_has_grown(by);
        if name.eq_ignore_ascii_case(b"host") {
            self.find_host();
        }
    }

    /// Takes over the host from the head, whose fields have changed.
    fn find_host(&mut self) {
        self.asked.host = self.head.host().map(|host| host.name(&self.head.buffer).into_owned());
    }

    /// Whether the whole rest of the body has come.
    pub fn has_whole_body(&self) -> bool {
        self.body.is_here(&self.head.buffer)
    }

    /// Whether some of the body, or its end, has come with what was read of the connection and has not been taken.
    pub fn has_more_body(&self) -> bool {
        self.body.has_more_here(&self.head.buffer)
    }

    /// Whether only the head of the response is wanted.
    pub fn is_head(&self) -> bool {
        self.head.parsed.method == Method::Head
    }

    /// Whether the client asks this server as its proxy for a tunnel (CONNECT): it shows who it is in
    /// `Proxy-Authorization` then (RFC 9110 section 11.7).
    pub fn is_connect(&self) -> bool {
        self.head.parsed.method == Method::Connect
    }

    /// The field with the client's credentials: `Authorization`, or `Proxy-Authorization` of CONNECT.
    pub fn authorization(&self) -> HeaderId {
        if self.is_connect() { HeaderId::ProxyAuthorization } else { HeaderId::Authorization }
    }

    /// The status that asks the client for its credentials: 401, or 407 for CONNECT.
    pub fn unauthorized(&self) -> Status {
        if self.is_connect() { Status::PROXY_AUTHENTICATION_REQUIRED } else { Status::UNAUTHORIZED }
    }

    /// Whether the client speaks HTTP/1.1 or a later version.
    pub fn is_http11(&self) -> bool {
        self.head.parsed.version >= Version::Http11
    }
}
