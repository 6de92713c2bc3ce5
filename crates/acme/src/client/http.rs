//! A single HTTP request to a CA, over its own connection.
//!
//! Connections are not kept: an order has a dozen requests, some of them minutes apart, and there are few orders.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::host::Host;
use crate::settings::IssuerSettings;

/// The longest duration of a request, from the name lookup to the last byte of the response.
const REQUEST: Duration = Duration::from_secs(60);
/// The longest time for an address to accept a connection, and for the lookup of a name.
const CONNECT: Duration = Duration::from_secs(10);
/// The number of addresses of a name that are tried.
const ADDRESSES: usize = 8;
/// The largest body of a response, in bytes: chains have some thousands.
const MAX_BODY: usize = 1 << 20;
/// The largest head of a response, in bytes.
const MAX_HEAD: usize = 64 << 10;

/// The name of the sender of a request.
const AGENT: &str = concat!("freerun/", env!("CARGO_PKG_VERSION"), " instant-acme");

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
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, RequestError> {
    let url = request.uri().to_string();
    let answer = timeout(REQUEST, exchange(host, settings, request)).await;
    answer.unwrap_or_else(|_| Err("no response in time".to_owned())).map_err(|what| RequestError { url, what })
}

async fn exchange(
    host: &Arc<dyn Host>,
    settings: &IssuerSettings,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, String> {
    let uri = std::mem::take(request.uri_mut());
    let secure = match uri.scheme_str() {
        Some("https") => true,
        // A CA that is reached safely does not send its clients elsewhere in clear.
        Some("http") if settings.uri.starts_with("http:") => false,
        _ => return Err("not an https URL".to_owned()),
    };
    let authority = uri.authority().ok_or("the URL has no host")?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;

    let stream = connect(host, &name, port).await?;
    if !secure {
        return converse(stream, request).await;
    }
    let config = Arc::new(super::trust::client_config(settings)?);
    let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(config).connect(server, stream).await;
    converse(stream.map_err(|error| format!("TLS: {error}"))?, request).await
}

async fn connect(host: &Arc<dyn Host>, name: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = match name.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => match timeout(CONNECT, host.resolve(name)).await {
            Ok(found) => found.map_err(|error| format!("the host is not found: {error}"))?,
            Err(_) => return Err("no answer from the resolver in time".to_owned()),
        },
    };
    let mut last = "the host has no address".to_owned();
    for address in addresses.into_iter().take(ADDRESSES) {
        let address = SocketAddr::from((address, port));
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = format!("connecting to {address}: {error}"),
            Err(_) => last = format!("connecting to {address}: no answer in time"),
        }
    }
    Err(last)
}

/// Sends the request over a connection that is used for nothing else.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, String> {
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answer = async {
        let (head, body) = sender.send_request(request).await.map_err(|error| error.to_string())?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| error.to_string())?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    tokio::pin!(answer, connection);
    // The connection moves the bytes, and ends by itself where the server closes it after the response.
    tokio::select! {
        answer = &mut answer => answer,
        ended = &mut connection => {
            let late = answer.await;
            match ended {
                Err(error) if late.is_err() => Err(error.to_string()),
                _ => late,
            }
        }
    }
}
