//! Groups of HTTP servers.

use std::sync::Arc;

use freerun_http::request::Request;
use freerun_serve::upstream::resolver_settings::ResolverSettings;
use freerun_serve::upstream::{self, NotFound, SubjectProtocol};

use crate::upstream::methods::Affinity;

/// The port of servers that name none.
const DEFAULT_PORT: u16 = 80;

/// The HTTP protocol as a parameter of the generic groups.
#[derive(Debug, Clone, Default)]
pub struct HttpGroups;

impl SubjectProtocol for HttpGroups {
    type Subject = Request;
    type Extra = Affinity;

    const NAME: &'static str = "http";
    const DEFAULT_PORT: Option<u16> = Some(DEFAULT_PORT);
}

/// A group of servers that requests are passed to.
pub type Upstream = upstream::Upstream<HttpGroups>;

/// The groups of a configuration.
pub type Upstreams = upstream::Upstreams<HttpGroups>;

/// A directive's reference to a group.
pub type UpstreamRef = upstream::UpstreamRef<HttpGroups>;

/// The value of the directive `server` in a group.
pub type HttpServers = upstream::Servers<HttpGroups>;

/// The group for `text`, which variables of the request have given: the name of an `upstream` block, an address, or a
/// name that is looked up with the location's `resolver`. It never blocks in a system call; a name may take
/// `resolver_timeout`.
///
/// # Errors
/// [`NotFound`] if there is no such group and the name does not resolve.
pub async fn find(request: &Request, text: &str, default_port: Option<u16>) -> Result<Arc<Upstream>, NotFound> {
    let resolver = request.settings().get::<ResolverSettings>().resolver_and_timeout();
    upstream::find(request, resolver, text, default_port).await
}
