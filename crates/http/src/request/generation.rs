//! The configuration of http: as it is read, and as one loop holds it while it serves.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::hash::BuildHasherDefault;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use freerun_runtime::files::{Aio, Via};
use freerun_runtime::watch::watch_way;
use freerun_runtime::{loops, timer};
use freerun_serve::loops::local::{AddressHasher, LoopHandles, LoopLocal};

use freerun_serve::build::names::VirtualServers;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::listen::generation_sockets::Listens;
use freerun_serve::tls::challenges::Challenges;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::values::VariableTable;
use freerun_serve::values::captures::Captures;

use super::Request;
use super::location::{Location, Server};
use crate::files::hot::{HotFile, HotFiles, HotLookup, OpenedFile, VALID};
use crate::files::watches::WatchRequest;
use crate::values::protocols::Protocols;

/// The servers of one address. A client that may have TLS and begins without it is answered with 497.
#[derive(Debug)]
pub struct Servers {
    /// The servers.
    pub servers: VirtualServers<Server>,
    /// The versions of HTTP that the address speaks for all of its servers (`listen … http2`).
    pub protocols: Protocols,
}

impl Deref for Servers {
    type Target = VirtualServers<Server>;

    fn deref(&self) -> &VirtualServers<Server> {
        &self.servers
    }
}

impl Servers {
    /// The versions of HTTP that this server speaks at this address. Over TLS, the server that the client has named in its
    /// handshake offers them. A request for another server, in a version that it does not speak, is answered with 421.
    pub fn protocols(&self, server: &Server) -> Protocols {
        self.protocols.union(server.protocols)
    }

    /// Whether a connection without TLS has HTTP/2 if it begins with the preface of HTTP/2 (RFC 9113 section 3.4). No server is
    /// named by then, so the default server decides.
    pub fn accepts_preface(&self) -> bool {
        self.protocols(&self.default).h2
    }

    /// The server that a client has named in its TLS handshake, or the default server.
    pub fn negotiated(&self, facts: &TlsFacts) -> &Arc<Server> {
        self.in_handshake(facts.server_name().as_deref())
    }

    /// The server for the name in a TLS handshake, which is in lower case, or for none.
    pub fn in_handshake(&self, name: Option<&str>) -> &Arc<Server> {
        // What a regular expression captures here is of no use: the request's host is matched again.
        self.for_name(name, &Captures::default()).unwrap_or(&self.default)
    }
}

/// The contents of `http {}`: the part of a [`Generation`] that belongs to http.
#[derive(Default)]
pub struct HttpConfiguration {
    /// The listening addresses, in the order of the configuration.
    pub listens: Listens<Servers>,
    /// Whether heads of responses are kept for `$sent_http_…`.
    pub keeps_sent_head: bool,
    /// Whether heads of upstream servers' responses are kept for `$upstream_http_…` and `$upstream_cookie_…`.
    pub keeps_upstream_head: bool,
    /// Whether the ClientHello of a TLS connection is kept for variables that are made of it.
    pub keeps_hello: bool,
    /// The answers to challenges of CAs, if certificates are ordered of any.
    pub challenges: Option<Arc<Challenges>>,
    /// The variables, for names that are only known while serving.
    pub variables: Arc<VariableTable<Request>>,
}

/// The servers of an address, as one loop holds them, with the values that each of their requests begins with.
pub struct AnsweringServers {
    servers: Arc<Servers>,
    /// The server that answers until a request has named one: the default server, or the server that the client has
    /// named in its TLS handshake.
    pub server: LoopLocal<Server>,
    /// The own level of that server.
    pub entry: LoopLocal<Location>,
}

impl Deref for AnsweringServers {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

/// A generation, as one loop holds it, with the loop's handles of its parts.
pub struct LoopGeneration {
    // The fields are dropped in this order, the generation last: its memory may be freed elsewhere as soon as the last
    // loop has dropped it.
    addresses: RefCell<HashMap<*const Servers, Rc<AnsweringServers>, BuildHasherDefault<AddressHasher>>>,
    /// The same for clients that have named a server in their TLS handshake.
    named: RefCell<HashMap<(*const Servers, *const Server), Rc<AnsweringServers>>>,
    locations: LoopHandles<Location>,
    servers: LoopHandles<Server>,
    texts: RefCell<HashMap<*const u8, Bytes, BuildHasherDefault<AddressHasher>>>,
    /// The contents of `http {}`.
    pub http: Arc<HttpConfiguration>,
    /// Files that are open or known on this loop.
    pub hot: RefCell<HotFiles<Location>>,
    /// Whether a task removes hot files whose time is over. There is one at most.
    is_purging: Cell<bool>,
    generation: Arc<Generation>,
}

/// The configuration that answers on a connection: the servers of its address, and their generation.
pub struct ServedBy {
    /// The generation.
    pub generation: Rc<LoopGeneration>,
    /// The servers.
    pub servers: Rc<AnsweringServers>,
}

impl LoopGeneration {
    /// The generation on one of `loops` loops.
    pub fn new(generation: Arc<Generation>, loops: usize) -> Rc<LoopGeneration> {
        let (locations, servers, addresses, named, texts) = Default::default();
        let http = generation.parts.get::<HttpConfiguration>().unwrap_or_default();
        let hot = RefCell::new(HotFiles::new(loops));
        Rc::new(LoopGeneration {
            addresses,
            named,
            locations,
            servers,
            texts,
            http,
            hot,
            is_purging: Cell::new(false),
            generation,
        })
    }

    /// Prepares to keep a file that was just opened, before its content is read: the number of its place, if it has one.
    /// `aio` says how the way to it is watched, which may wait.
    pub fn begin_hot(self: &Rc<Self>, name: &[u8], opened: &OpenedFile<'_>, aio: &Aio) -> Option<u64> {
        let begun = self.hot.borrow_mut().begin(name, opened, &self.files, loops::now());
        let place = match begun {
            HotLookup::No => None,
            HotLookup::Place(place) => Some(place),
            HotLookup::Way(wanted) => {
                self.watch_way(wanted, aio.clone());
                None
            }
        };
        self.keep_purging();
        place
    }

    fn watch_way(self: &Rc<Self>, wanted: WatchRequest, aio: Aio) {
        let (files, this) = (self.files.clone(), Rc::downgrade(self));
        let (path, watcher) = (CString::new(&*wanted.path).unwrap_or_default(), wanted.watcher.clone());
        loops::spawn(0, "watching folders", async move {
            let via = Via { aio: &aio, client: 0, gone: None };
            let tag = files.tag_of(&path, 0);
            let mounts = files.mount_table().clone();
            let walked = files.offload(via, tag, move || watch_way(&watcher, &mounts, path.to_bytes())).await.ok();
            if let Some(generation) = this.upgrade() {
                generation.hot.borrow_mut().walked(wanted, walked);
            }
        });
    }

    /// Keeps a file in the place that it [got](LoopGeneration::begin_hot), for the requests of the next second.
    pub fn keep_hot(&self, name: &[u8], place: u64, file: &Rc<HotFile>) {
        self.hot.borrow_mut().put(name, place, file, loops::now());
    }

    /// Has a task remove hot files whose time is over, as long as there are any.
    fn keep_purging(self: &Rc<Self>) {
        if self.hot.borrow().is_empty() || self.is_purging.replace(true) {
            return;
        }
        let generation = Rc::downgrade(self);
        loops::spawn(0, "letting go of hot files", async move {
            loop {
                timer::sleep(VALID).await;
                let Some(generation) = generation.upgrade() else { return };
                let mut hot = generation.hot.borrow_mut();
                hot.purge(Instant::now());
                if hot.is_empty() {
                    generation.is_purging.set(false);
                    return;
                }
            }
        });
    }

    /// Drops all hot files for good, because another generation serves from now on: its settings may have changed the
    /// meaning of a path, or whether a file may be kept.
    pub fn forget_hot(&self) {
        self.hot.borrow_mut().retire();
    }

    /// The generation, in a form that other threads can share.
    pub fn shared(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// A location of this generation.
    pub fn location(&self, location: &Arc<Location>) -> LoopLocal<Location> {
        self.locations.get(location)
    }

    /// A virtual server of this generation.
    pub fn server(&self, server: &Arc<Server>) -> LoopLocal<Server> {
        self.servers.get(server)
    }

    /// A text of this generation, as bytes whose references this loop counts itself.
    pub fn text(&self, text: &[u8]) -> Bytes {
        if text.is_empty() {
            return Bytes::new();
        }
        let mut texts = self.texts.borrow_mut();
        let kept = texts.entry(text.as_ptr()).or_insert_with(|| Bytes::copy_from_slice(text));
        if *kept != *text {
            *kept = Bytes::copy_from_slice(text);
        }
        kept.clone()
    }

    /// The servers of one of the generation's addresses; `default` answers requests that name none.
    pub fn servers(&self, servers: &Arc<Servers>, default: &Arc<Server>) -> Rc<AnsweringServers> {
        let make = || {
            let (server, entry) = (self.server(default), self.location(&default.entry));
            Rc::new(AnsweringServers { servers: servers.clone(), server, entry })
        };
        if Arc::ptr_eq(default, &servers.default) {
            return self.addresses.borrow_mut().entry(Arc::as_ptr(servers)).or_insert_with(make).clone();
        }
        let key = (Arc::as_ptr(servers), Arc::as_ptr(default));
        self.named.borrow_mut().entry(key).or_insert_with(make).clone()
    }
}

impl Deref for LoopGeneration {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.generation
    }
}
