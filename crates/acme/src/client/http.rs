//! A single HTTP request to a CA, over its own connection. A loop of the server sends it.
//!
//! Connections are not kept: an order has a dozen requests, some of them minutes apart, and there are few orders.

use std::future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freerun_serve::http_client::{
    HttpClientError, InvalidRequest, OutgoingRequest, RemoteExchange, TransferLimits, WholeResponse,
};
use freerun_serve::tls::handshake::outgoing_session::OutgoingError;
use freerun_tls::verify::VerifyResult;
use freerun_upstream::UpstreamAddress;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderName, Request, Response, Uri};
use tokio::time::timeout;

use crate::host::Host;
use crate::settings::IssuerSettings;

/// The longest duration of a request, from the name lookup to the last byte of the response.
const REQUEST: Duration = Duration::from_secs(60);
/// The longest time for an address to accept a connection, and for the lookup of a name.
const CONNECT: Duration = Duration::from_secs(10);
/// The number of addresses of a name that are tried.
const ADDRESSES: usize = 8;
/// The bounds of an exchange. Chains of certificates have some thousand bytes.
const LIMITS: TransferLimits = TransferLimits { total: REQUEST, connect: CONNECT, head: 64 << 10, body: 1 << 20 };

/// The name of the sender of a request.
const AGENT: &str = concat!("freerun/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// The fields that the client writes itself.
const OWN_FIELDS: [HeaderName; 4] = [HOST, CONNECTION, CONTENT_LENGTH, USER_AGENT];

/// Reason for which there is no response.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {what}")]
pub(super) struct RequestError {
    url: String,
    what: String,
}

/// Sends a request, and reads the whole response.
pub(super) async fn request(
    host: &Arc<dyn Host>,
    settings: &IssuerSettings,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, RequestError> {
    let url = request.uri().to_string();
    let answer = timeout(REQUEST, exchange(host, settings, request)).await;
    answer.unwrap_or_else(|_| Err("no response in time".to_owned())).map_err(|what| RequestError { url, what })
}

async fn exchange(
    host: &Arc<dyn Host>,
    settings: &IssuerSettings,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, String> {
    let uri = request.uri();
    let secure = match uri.scheme_str() {
        Some("https") => true,
        // A CA that is reached safely does not send its clients elsewhere in clear.
        Some("http") if settings.uri.starts_with("http:") => false,
        _ => return Err("not an https URL".to_owned()),
    };
    let authority = uri.authority().ok_or("the URL has no host")?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let tls = if secure { Some(super::trust::outgoing_tls(settings, name)?) } else { None };
    let outgoing = outgoing(&request, authority.as_str(), uri)?;
    let client = host.http_client().ok_or("the server has no event loops")?;
    let addresses = addresses(host, name, port).await?;
    match client.send(RemoteExchange { addresses, tls, limits: LIMITS, request: outgoing }).await {
        Ok(answer) => response(answer),
        // The loops end before this thread when the server is stopped. The end of the thread gives the order up, and that
        // is no failure of the order.
        Err(HttpClientError::NoLoop) => future::pending().await,
        Err(error) => Err(words(&error)),
    }
}

/// The request as the server's client takes it.
fn outgoing(request: &Request<Bytes>, host: &str, uri: &Uri) -> Result<OutgoingRequest, String> {
    let target = uri.path_and_query().map_or("/", |path| path.as_str());
    let make = || {
        let mut outgoing = OutgoingRequest::new(request.method().as_str(), target, host)?;
        outgoing.add_field(USER_AGENT.as_str(), AGENT.as_bytes())?;
        for (name, value) in request.headers().iter().filter(|(name, _)| !OWN_FIELDS.contains(name)) {
            outgoing.add_field(name.as_str(), value.as_bytes())?;
        }
        if !request.body().is_empty() {
            outgoing.set_body(request.body().to_vec());
        }
        Ok(outgoing)
    };
    make().map_err(|error: InvalidRequest| error.to_string())
}

/// The response as the library takes it.
fn response(WholeResponse { head, body }: WholeResponse) -> Result<Response<Bytes>, String> {
    let builder = Response::builder().status(head.status());
    let builder = head.fields().fold(builder, |builder, (name, value)| builder.header(name, value));
    builder.body(Bytes::from(body)).map_err(|error| error.to_string())
}

/// The addresses of the CA's server.
async fn addresses(host: &Arc<dyn Host>, name: &str, port: u16) -> Result<Vec<UpstreamAddress>, String> {
    let found = match name.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => match timeout(CONNECT, host.resolve(name)).await {
            Ok(found) => found.map_err(|error| format!("the host is not found: {error}"))?,
            Err(_) => return Err("no answer from the resolver in time".to_owned()),
        },
    };
    Ok(found.into_iter().take(ADDRESSES).map(|address| SocketAddr::from((address, port)).into()).collect())
}

/// The error in the words of the log of ACME.
fn words(error: &HttpClientError) -> String {
    match error {
        HttpClientError::Tls(OutgoingError::Untrusted(VerifyResult::Failed(why))) => {
            format!("TLS: the server's certificate is not trusted: {}", why.text())
        }
        HttpClientError::Tls(OutgoingError::OtherName(name)) => {
            format!("TLS: the server's certificate is not for \"{name}\"")
        }
        error => error.to_string(),
    }
}
