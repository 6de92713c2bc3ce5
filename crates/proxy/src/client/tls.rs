//! What a connection to an upstream server needs for TLS.

use std::future::Future;

use freerun_http::request::Request;
use freerun_serve::tls::computed::{PairNames, Reading};
use freerun_serve::tls::outgoing::Outgoing;
use freerun_serve::tls::upstream::UpstreamTls;

use crate::exchange::family::Family;
use crate::exchange::target::Target;

/// What the session of a connection was made with: connections that differ in it serve other requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Secured {
    /// A digest of the location's settings and the contents of its files; `None` if it has none.
    settings: Option<[u8; 32]>,
    /// The name that the server is told, and that its certificate has to be for.
    name: String,
    /// The names of the certificate that the server is shown, if they have variables.
    certificate: Option<PairNames>,
}

/// What the session of a connection for this request has to be made with; `None` if the target has no TLS.
pub fn secured(family: &dyn Family, request: &Request, target: &Target) -> Option<Secured> {
    target.whom().is_secure.then(|| Secured {
        settings: family.tls(request).map(UpstreamTls::identity).copied(),
        name: family.tls_name(request, target),
        certificate: family.tls_certificate(request),
    })
}

/// What a connection needs to this server of a target with TLS; `gone` makes what resolves when nobody wants it any more.
///
/// # Errors
/// There is no certificate, or none that can be used: the line for the error log, which is empty if the client has gone.
pub async fn outgoing<G: Future<Output = ()>>(
    family: &dyn Family,
    request: &Request,
    target: &Target,
    server: &str,
    gone: impl Fn() -> G,
) -> Result<Outgoing, String> {
    let tls = family.tls(request).ok_or("the settings of TLS are missing")?;
    let services = &request.generation.services;
    let reading = Reading {
        pool: services.pools.default(),
        files: &services.files,
        paths: &services.paths,
        client: request.client_key(),
        gone,
    };
    let names = family.tls_certificate(request);
    tls.outgoing(&family.tls_name(request, target), server, names.as_ref(), &reading).await
}
