//! What a request asks for, how it came, and which request it was made for.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Instant;

use freerun_proto::Method;
use freerun_serve::Address;

/// What is asked for and by whom, as the head says it or as it was rewritten since. A subrequest begins with a copy.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method, as handlers see it: an error page is fetched with GET.
    pub method: Method,
    /// The decoded, normalised path: `$uri`.
    pub path: Vec<u8>,
    /// What follows the `?`: `$args`.
    pub args: Option<Vec<u8>>,
    /// The server name asked for, lower case, without port: `$host`.
    pub host: Option<String>,
    /// Whether path and arguments are those of the request line: nothing was rewritten, and it is not another request than
    /// the client's. Then a proxy may pass on the request line's URI as it came.
    pub uri_kept: bool,
    /// The client's address, where it is not that of the connection.
    pub(crate) real_peer: Option<Rc<Address>>,
}

impl Asked {
    /// A request with this method, whose path is not known yet.
    #[inline(always)]
    pub fn new(method: Method) -> Asked {
        Asked { method, path: Vec::new(), args: None, host: None, uri_kept: true, real_peer: None }
    }
}

/// How and when a request came. A subrequest has that of the client's request.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Number of the request on its connection, from 1: `$connection_requests`.
    pub serial: u64,
    /// When its first byte was seen.
    pub started: Instant,
    /// Whether bytes of it had come with the request before: `$pipe`.
    pub pipelined: bool,
    /// The number behind `$request_id`, given at first use.
    pub id: Cell<Option<NonZeroU64>>,
}

impl Arrival {
    /// A request with this number on its connection, whose first byte was seen then.
    #[inline(always)]
    pub fn new(serial: u64, started: Instant) -> Arrival {
        Arrival { serial, started, pipelined: false, id: Cell::new(None) }
    }
}

/// What is particular to a request that the server makes for another one. The client's own request has the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lineage {
    /// How deep it is in subrequests: 0 is the client's own request.
    pub depth: u8,
    /// In a subrequest: the method that the client's request has (`$request_method`), while its own is GET.
    pub main_method: Option<Method>,
    /// In a subrequest: the body of the client's request is not meant for it.
    pub without_body: bool,
    /// Whether `error_page` is not asked, because an error is an answer like any other to whoever made this subrequest.
    pub plain_errors: bool,
}

impl Lineage {
    /// That of a request which is made for one with this lineage: how errors are answered is said anew for each.
    pub fn fork(self) -> Lineage {
        Lineage { plain_errors: false, ..self }
    }
}
