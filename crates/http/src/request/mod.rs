//! One request on its way: what came in, where it was routed, and what became of it.

pub mod core_settings;
pub mod generation;
pub mod handler;
pub mod location;
pub mod response;

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Instant;

use freerun_conf::SettingsSet;
use freerun_proto::{BodyFraming, Method, Version};
pub use freerun_serve::Address;
use freerun_serve::captures::{Captures, Values};
use freerun_serve::loop_local::LoopLocal;

use self::core_settings::CoreSettings;
use self::generation::{LoopGeneration, ServedBy};
pub use self::location::MAX_INTERNAL_REDIRECTS;
use self::location::{Location, Place, Server};
use crate::connection;
use crate::message::body::ClientBody;

pub use crate::message::answered::{Answered, Carried, Sent};
pub use crate::message::asked::{Arrival, Asked, Lineage};
pub use crate::message::head::Head;
pub use crate::message::states::{State, States};

/// A client connection of the request path.
pub type Connection = connection::Connection<ServedBy>;

/// What requests ask of the connection that they came on.
pub type Facts = connection::Facts<ServedBy>;

/// What a request sees of its client.
pub type ClientStream = connection::client::ClientStream<ServedBy>;

/// A request. What it consists of has its own types, each of which knows how it is copied for a subrequest
/// ([`Request::fork`]); what a module keeps with it is the module's ([`Request::own`]).
pub struct Request {
    /// Its client.
    pub client: ClientStream,
    /// The configuration it began with, and ends with.
    pub generation: Rc<LoopGeneration>,
    /// The head as it came.
    pub head: Head,
    /// What is asked for.
    pub asked: Asked,
    /// How it came.
    pub arrival: Arrival,
    /// Which request it was made for.
    pub lineage: Lineage,
    /// Where in the configuration it is.
    pub place: Place,
    /// Whether a file's name is being made, which may ask for itself.
    pub(crate) naming_file: Cell<bool>,
    /// Captures of regular expressions.
    pub captures: Captures,
    /// The request body.
    pub body: ClientBody,
    /// How much was sent.
    pub sent: Sent,
    /// What goes with the response.
    pub answered: Answered,
    /// What modules keep with this request alone.
    pub own: States,
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
            generation,
            asked: Asked::new(head.parsed.method),
            arrival: Arrival::new(serial, started),
            lineage: Lineage::default(),
            place: Place::new(server, location),
            naming_file: Cell::new(false),
            captures: Captures::default(),
            body: ClientBody::new(head.parsed.body, head.parsed.len as usize, head.parsed.expect_continue),
            sent: Sent::default(),
            answered: Answered::default(),
            own: States::default(),
            shared: OnceCell::new(),
            head,
        }
    }

    /// The client's address: the connection's, or what was learned about it from a proxy that is trusted.
    pub fn peer(&self) -> &Address {
        self.asked.real_peer.as_deref().unwrap_or(&self.client.peer)
    }

    /// Says what the client's address really is, for all that comes after.
    pub fn set_peer(&mut self, peer: Address) {
        self.asked.real_peer = Some(Rc::new(peer));
    }

    /// Whether [`Request::set_peer`] was called.
    pub fn has_real_peer(&self) -> bool {
        self.asked.real_peer.is_some()
    }

    /// A number that stands for the client, for sharing a thread pool fairly: the same for all its connections.
    pub fn client_key(&self) -> u64 {
        self.peer().key()
    }

    /// The merged settings at the place where the request is now.
    pub fn settings(&self) -> &SettingsSet {
        &self.place.location.settings
    }

    /// Of these the core's.
    pub fn core(&self) -> &CoreSettings {
        &self.place.location.core
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
        self.lineage.depth > 0
    }

    /// A request like this one, for a subrequest, or to evaluate variables while the response of this one is written: the
    /// same head, connection and configuration; no body, nothing sent, and module state that is shared.
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
            captures: self.captures.clone(),
            body: ClientBody::new(BodyFraming::None, self.head.parsed.len as usize, false),
            sent: self.sent,
            answered: self.answered.fork(),
            own: States::default(),
            shared: OnceCell::from(self.shared().clone()),
        })
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
