//! The target of a request, how the request came, and which request it was made for.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Instant;

use freerun_proto::Method;
use freerun_serve::Address;

/// The target of a request and its sender, as the head names them or as they were rewritten since. A subrequest begins
/// with a copy.
#[derive(Debug, Clone)]
pub struct RequestTarget {
    /// The method, as handlers see it: an error page is fetched with GET.
    pub method: Method,
    /// The decoded and normalised path: `$uri`.
    pub path: Vec<u8>,
    /// The part after the `?`: `$args`.
    pub args: Option<Vec<u8>>,
    /// The requested server name, in lower case and without a port: `$host`.
    pub host: Option<String>,
    /// Whether the path and arguments still are as in the request line: they were not rewritten, and the request is the
    /// client's own. Then a proxy may pass on the request line's URI as it came.
    pub uri_kept: bool,
    /// The client's address, if it is not the connection's.
    pub(crate) real_peer: Option<Rc<Address>>,
}

impl RequestTarget {
    /// A request with this method, whose path is not known yet.
    #[inline(always)]
    pub fn new(method: Method) -> RequestTarget {
        RequestTarget { method, path: Vec::new(), args: None, host: None, uri_kept: true, real_peer: None }
    }
}

/// Facts about a request's arrival: the time, its number, its place behind others. A subrequest shares the arrival of
/// the client's request.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The number of the request on its connection, from 1: `$connection_requests`.
    pub serial: u64,
    /// The time at which the first byte of the request was seen.
    pub started: Instant,
    /// Whether bytes of it had come together with the request before: `$pipe`.
    pub pipelined: bool,
    /// The number behind `$request_id`, given at first use.
    pub id: Cell<Option<NonZeroU64>>,
}

impl Arrival {
    /// A request with this number on its connection, whose first byte was seen at `started`.
    #[inline(always)]
    pub fn new(serial: u64, started: Instant) -> Arrival {
        Arrival { serial, started, pipelined: false, id: Cell::new(None) }
    }
}

/// The properties of a request that the server makes for another one. The client's own request has the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lineage {
    /// The depth of the request in subrequests: 0 is the client's own request.
    pub depth: u8,
    /// The method of the client's request, in a subrequest (`$request_method`); the subrequest's own is GET.
    pub main_method: Option<Method>,
    /// Whether the body of the client's request is not meant for this subrequest.
    pub without_body: bool,
    /// Whether `error_page` is not applied, because the maker of this subrequest takes an error as a response like any
    /// other.
    pub plain_errors: bool,
}

impl Lineage {
    /// The lineage of a request that is made for one with this lineage; each such request sets anew how errors are
    /// answered.
    pub fn fork(self) -> Lineage {
        Lineage { plain_errors: false, ..self }
    }
}
