//! TLS settings of a connection to an upstream server.

use std::future::Future;

use freerun_http::request::Request;
use freerun_serve::tls::computed::PairReader;
use freerun_serve::tls::handshake::outgoing_session::OutgoingTls;
use freerun_serve::tls::upstream::UpstreamTls;
use freerun_transport::Transport;

use crate::exchange::family::Family;
use crate::exchange::target::PassTarget;

/// A digest of the settings of the session for this request: the location's settings, the contents of its files and the
/// server's name. Connections with different digests serve different requests. `None` if the target has no TLS.
///
/// If a certificate's name has variables, the digest has the name, not the contents. They would have to be read before
/// a connection that is kept could be used.
pub fn secured(family: &dyn Family, request: &Request, target: &PassTarget) -> Option<[u8; 32]> {
    let identity =
        |tls: &UpstreamTls| tls.identity(&family.tls_name(request, target), family.tls_certificate(request).as_ref());
    target.upstream().is_secure.then(|| family.tls(request).map_or([0; 32], identity))
}

/// TLS settings of a connection to this server of a target with TLS. `alpn` is the protocol on offer, if it is not the
/// location that names the protocols. `gone` makes a future that resolves when nobody wants the connection any more.
///
/// # Errors
/// There is no certificate, or none that can be used: the line for the error log, which is empty if the client has gone.
pub async fn outgoing<G: Future<Output = ()>>(
    family: &dyn Family,
    request: &Request,
    target: &PassTarget,
    server: &str,
    alpn: Option<&[u8]>,
    gone: impl Fn() -> G,
) -> Result<OutgoingTls, String> {
    let tls = family.tls(request).ok_or("the settings of TLS are missing")?;
    let services = &request.generation.services;
    let reader = PairReader::of(services, request.client_key(), gone);
    let names = family.tls_certificate(request);
    tls.outgoing(&family.tls_name(request, target), server, names.as_ref(), alpn.map(|one| vec![one.to_vec()]), &reader)
        .await
}

/// Whether the server has agreed to HTTP/2.
pub fn speaks_http2(transport: &Transport) -> bool {
    let chosen = transport.established().and_then(|tls| tls.with_agreed(|agreed| agreed.alpn == Some(b"h2")));
    chosen.unwrap_or(false)
}
