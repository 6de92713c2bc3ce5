//! Servers and locations: the places that a request is routed to.

use std::num::NonZeroU16;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::Method;
use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::services::Services;
use freerun_serve::logs::LevelErrorLog;
use freerun_serve::loops::figures::zones::ZoneFigures;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::sessions::TlsServer;
use freerun_serve::values::{Template, VariableReference};

use super::Request;
use super::core_settings::CoreSettings;
use super::handler::{Filter, Handler};
use super::processing_count::WithZone;
use crate::route::locations::{Level, Locations};
use crate::script::ScriptStep;
use crate::values::protocols::Protocols;

/// The value of `alias`, and the part of the path that it replaces.
#[derive(Debug)]
pub struct Alias {
    /// The folder that is put there.
    pub path: Template<Request>,
    /// The part that is replaced: the name of the location with the directive. `None` for a regular expression, whose
    /// alias is the whole path.
    pub prefix: Option<Box<[u8]>>,
}

/// The block whose directives are being read, of a server or a location. It lives in the configuration's context, for
/// directives whose meaning depends on it.
#[derive(Debug, Clone, Default)]
pub struct Within {
    /// The location's name without modifier; `None` in a server.
    pub location: Option<String>,
    /// Whether it is given by a regular expression.
    pub regex: bool,
    /// Whether it is a named location.
    pub named: bool,
    /// Set by directives that pass requests on.
    pub passes_on: bool,
    /// Whether such a directive has variables in it.
    pub with_variables: bool,
}

/// Whether a directive of the server that is being read answers CONNECT. It lives in the configuration's context: the
/// directive sets it, and the server takes it when its block ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct TakesConnect(pub bool);

/// Whether the server that is being read can be reached from other machines: it listens at an address that is not only this
/// machine's. It lives in the configuration's context.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reachable(pub bool);

/// A location: its settings, and the code that runs for its requests.
pub struct Location {
    /// The name as written, without modifier; a named location has its `@`.
    pub name: String,
    /// A number that no other location of the configuration has, and that stays the same in the next configuration.
    pub identity: u64,
    /// The merged settings.
    pub settings: SettingsSet,
    /// The group of these settings that each request uses several times.
    pub core: Arc<CoreSettings>,
    /// The position of its block in the configuration ([`Node::order`](freerun_conf::Node::order)). The
    /// server's own level has the position of the server.
    pub order: u32,
    /// Handlers in the order of their phases.
    pub handlers: Box<[Handler]>,
    /// The names of the modules that these handlers are of, in the same order.
    pub handler_modules: Box<[&'static str]>,
    /// Filters in the order of their slots.
    pub filters: Box<[Filter]>,
    /// The rewrite module's script of this level; most have none.
    pub script: Box<[ScriptStep<Request, Location>]>,
    /// `limit_except`: for all methods but these (GET is HEAD too), this location answers.
    pub limit_except: Option<(Box<[Method]>, Arc<Location>)>,
    /// The locations inside.
    pub nested: Locations<Location>,
    /// The location's `alias`, or the `alias` of the location around it if this one has no `root`.
    pub alias: Option<Arc<Alias>>,
    /// The variable that is its predicate, if it is chosen by one.
    pub predicate: Option<VariableReference<Request>>,
    /// Whether no regular expression is tried after it (`^~` or `=`).
    pub no_regex: bool,
    /// Whether the location is `internal`.
    pub internal: bool,
    /// Whether requests are passed to another server (`proxy_pass` and similar directives): a path without the slash at
    /// the end of the location's name is redirected to the path with it.
    pub passes_on: bool,
    /// Whether a directive of the location, or of the one around it, says what makes the content: `proxy_pass`, `empty_gif`. If
    /// there is none, files are served.
    pub has_content: bool,
    /// The zone that its requests are counted in (`status_zone`).
    pub zone: Option<Arc<ZoneFigures>>,
    /// The error log of this level.
    pub error_log: LevelErrorLog,
}

impl Location {
    /// Whether the location's predicate holds: the variable has a value other than `0`.
    pub fn holds(&self, request: &Request) -> bool {
        let value = self.predicate.as_ref().and_then(|variable| variable.get(request)).unwrap_or_default();
        !matches!(&*value, b"" | b"0")
    }

    /// The location that answers a request with this method: this one, unless `limit_except` has another one for it.
    pub fn for_method(self: &Arc<Location>, method: Method) -> &Arc<Location> {
        self.limited(method).unwrap_or(self)
    }

    /// The location that `limit_except` has for this method, if it has one.
    pub fn limited(&self, method: Method) -> Option<&Arc<Location>> {
        let (methods, others) = self.limit_except.as_ref()?;
        (!methods.contains(&method)).then_some(others)
    }

    /// The log for errors of this level.
    pub fn error_log<'l>(&'l self, services: &'l Services) -> &'l ErrorLog {
        self.error_log.of(&self.settings, &services.logs, &services.error_log)
    }
}

impl Level for Location {
    #[inline]
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn is_final(&self) -> bool {
        self.no_regex
    }

    #[inline]
    fn passes_on(&self) -> bool {
        self.passes_on
    }

    #[inline]
    fn nested(&self) -> &Locations<Location> {
        &self.nested
    }
}

impl std::fmt::Debug for Location {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "location {}", self.name)
    }
}

/// A virtual server.
#[derive(Debug)]
pub struct Server {
    /// The server's first name, for `$server_name`.
    pub name: Arc<str>,
    /// The server's locations.
    pub locations: Locations<Location>,
    /// The server's own level, as a location: its handlers run first, and it answers where no location matches.
    pub entry: Arc<Location>,
    /// Whether the server has a location that answers CONNECT (`tunnel_pass`). Without one, the method is refused
    /// before anything else is looked at.
    pub takes_connect: bool,
    /// The server's part in TLS, if it has a certificate or refuses handshakes.
    pub tls: Option<Arc<ServerTls>>,
    /// The versions of HTTP that it speaks at every address (`http2`, `http3`). An address may add others for all of its servers.
    pub protocols: Protocols,
    /// The value of `Alt-Svc` that tells clients on TCP of its addresses for HTTP/3 (`listen … quic alt_svc`).
    pub alt_svc: Option<Bytes>,
    /// The zone that its requests and handshakes are counted in (`status_zone`).
    pub zone: Option<Arc<ZoneFigures>>,
}

impl WithZone for Server {
    fn zone(&self) -> Option<&ZoneFigures> {
        self.zone.as_deref()
    }
}

impl TlsServer for Server {
    fn tls(&self) -> Option<&Arc<ServerTls>> {
        self.tls.as_ref()
    }
}

/// The most times that a request may start again with another URI before it is answered with 500.
pub const MAX_INTERNAL_REDIRECTS: u8 = 10;

/// The position of a request in the configuration, and how it came there.
#[derive(Clone)]
pub struct RequestPlace {
    /// The virtual server.
    pub server: LoopLocal<Server>,
    /// The location that answers, or the server's own settings before one is chosen.
    pub location: LoopLocal<Location>,
    /// Whether the URI was changed inside the server.
    pub internal: bool,
    /// The number of internal redirects that are left.
    pub redirects_left: u8,
    /// Whether a `rewrite` has changed the path, so that the location was chosen for another one.
    pub rewritten_here: bool,
    /// Whether `try_files` has found a file behind the `alias` of a regular expression. Such an alias has no path of
    /// its own: the request's path is appended to it from then on.
    pub path_behind_alias: bool,
    /// The status that an error page has to be sent with.
    pub forced_status: Option<NonZeroU16>,
    /// Whether `error_page` is not applied again, because `recursive_error_pages` was off in the location of the last
    /// one.
    pub last_error_page: bool,
    /// Whether the body was refused for its length, or its length is not known. The page that stands for it is not
    /// refused in turn.
    pub body_judged: bool,
}

impl RequestPlace {
    /// The place where a request begins.
    #[inline(always)]
    pub fn new(server: LoopLocal<Server>, location: LoopLocal<Location>) -> RequestPlace {
        RequestPlace {
            server,
            location,
            internal: false,
            redirects_left: MAX_INTERNAL_REDIRECTS,
            rewritten_here: false,
            path_behind_alias: false,
            forced_status: None,
            last_error_page: false,
            body_judged: false,
        }
    }

    /// The place of a request that is made for a request at this one: it has its own redirects and error pages.
    pub fn fork(&self) -> RequestPlace {
        RequestPlace { redirects_left: MAX_INTERNAL_REDIRECTS, last_error_page: false, ..self.clone() }
    }
}
