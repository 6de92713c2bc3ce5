//! Groups of servers as http has them.

use std::sync::Arc;

use freerun_http::request::Request;
use freerun_http::settings::resolver::ResolverSettings;
use freerun_serve::upstream::{self, NotFound, Protocol};

use crate::upstream::methods::Affinity;

/// The port of servers that name none.
const DEFAULT_PORT: u16 = 80;

/// Stands for http where groups are generic over the protocol.
#[derive(Debug, Clone, Default)]
pub struct Http;

impl Protocol for Http {
    type Subject = Request;
    type Extra = Affinity;

    const NAME: &'static str = "http";
    const DEFAULT_PORT: Option<u16> = Some(DEFAULT_PORT);
}

/// A group of servers that requests are passed to.
pub type Upstream = upstream::Upstream<Http>;

/// The groups of a configuration.
pub type Upstreams = upstream::Upstreams<Http>;

/// A group as a directive refers to it.
pub type UpstreamRef = upstream::UpstreamRef<Http>;

/// The value of `server` in a group.
pub type Servers = upstream::Servers<Http>;

/// The group of `text`, which variables of the request have given: the name of an `upstream` block, an address, or a name
/// that the location's `resolver` is asked for. Never waits in a system call; a name may take `resolver_timeout`.
///
/// # Errors
/// [`NotFound`].
pub async fn find(request: &Request, text: &str, default_port: Option<u16>) -> Result<Arc<Upstream>, NotFound> {
    let settings = request.settings().get::<ResolverSettings>();
    let resolver = settings.resolver.as_ref().map(|resolver| (&resolver.0, settings.resolver_timeout));
    upstream::find(request, resolver, text, default_port).await
}
