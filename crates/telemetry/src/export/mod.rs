//! A single export: a message of OTLP to the collector, and its answer.

mod grpc;
mod http;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::files::SocketPaths;
use freerun_runtime::timer;
use freerun_serve::http_client::{ExchangeTls, HttpClient, HttpClientError, InvalidRequest, TransferLimits, trust};
use freerun_serve::tls::handshake::HandshakeHelpers;
use freerun_serve::tls::handshake::figures::TlsFigures;
use freerun_serve::tls::handshake::outgoing_session::OutgoingTls;
use freerun_tls::verify::TrustStore;
use freerun_upstream::UpstreamAddress;
use freerun_upstream::http2::Http2Connection;
use freerun_upstream::resolve::system;

use crate::host::ExporterHost;
use crate::otlp::PartialSuccess;
use crate::settings::{ExportProtocol, ExporterSettings};

/// The longest time of an export, as the specification of OTLP exporters has it by default.
const EXPORT: Duration = Duration::from_secs(10);
/// The longest time for an address to accept a connection, and for the lookup of a name.
const CONNECT: Duration = Duration::from_secs(5);
/// The number of addresses of a name that are tried.
const ADDRESSES: usize = 8;
/// The bounds of an exchange. Answers have a few bytes.
const LIMITS: TransferLimits = TransferLimits { total: EXPORT, connect: CONNECT, head: 16 << 10, body: 64 << 10 };

const _: () = assert!(CONNECT.as_millis() < EXPORT.as_millis(), "a second address is tried if the first one is silent");

/// The name of the sender of exports.
const AGENT: &str = concat!("freerun/", env!("CARGO_PKG_VERSION"));

/// The kind of data of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

impl Signal {
    /// The path of the signal over HTTP.
    fn http_path(self) -> &'static str {
        match self {
            Signal::Traces => "/v1/traces",
            Signal::Metrics => "/v1/metrics",
        }
    }

    /// The method of the collector's service over gRPC.
    fn grpc_path(self) -> &'static str {
        match self {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }
}

/// The reason why a collector has not taken an export.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The collector could not be reached, or the exchange broke. It may be tried again.
    #[error("{0}")]
    Unreachable(String),
    /// The collector asks for patience: a status of HTTP or gRPC that the specification counts as retryable.
    #[error("{0}")]
    Unavailable(String),
    /// The collector refuses the message, and would refuse it again.
    #[error("{0}")]
    Refused(String),
}

impl ExportError {
    /// Whether the same message may be sent again.
    pub(crate) fn may_be_repeated(&self) -> bool {
        !matches!(self, ExportError::Refused(_))
    }
}

impl From<HttpClientError> for ExportError {
    fn from(error: HttpClientError) -> ExportError {
        ExportError::Unreachable(error.to_string())
    }
}

impl From<InvalidRequest> for ExportError {
    fn from(error: InvalidRequest) -> ExportError {
        ExportError::Refused(error.to_string())
    }
}

/// The collector, as the exporter's thread knows it: connections and trust that stay for the next export.
#[derive(Default)]
pub(crate) struct Collector {
    connection: Option<Arc<Http2Connection>>,
    trust: Option<TrustStore>,
    figures: TlsFigures,
}

impl Collector {
    /// Forgets what belongs to other settings.
    pub(crate) fn reset(&mut self) {
        (self.connection, self.trust) = (None, None);
    }

    /// Sends a message, and waits for the collector's answer, for a bounded time.
    pub(crate) async fn export(
        &mut self,
        settings: &ExporterSettings,
        host: &ExporterHost,
        signal: Signal,
        message: Vec<u8>,
    ) -> Result<PartialSuccess, ExportError> {
        let exchange = async {
            match settings.protocol {
                ExportProtocol::Grpc => self.by_grpc(settings, host, signal, message).await,
                ExportProtocol::HttpProtobuf => self.by_http(settings, host, signal, message).await,
            }
        };
        let result = timer::timeout(EXPORT, exchange).await;
        let result = result.unwrap_or_else(|_| Err(ExportError::Unreachable("no answer in time".to_owned())));
        if result.is_err() {
            // The next attempt begins with a connection and authorities of its own.
            self.reset();
        }
        result
    }

    async fn by_grpc(
        &mut self,
        settings: &ExporterSettings,
        host: &ExporterHost,
        signal: Signal,
        message: Vec<u8>,
    ) -> Result<PartialSuccess, ExportError> {
        let stream = match self.connection.clone().and_then(grpc::stream) {
            Some(stream) => stream,
            None => {
                let addresses = addresses(settings, host).await?;
                let tls = self.tls(settings, &["h2"])?;
                let transport = client(host, tls.as_ref(), &self.figures).open(&addresses).await?;
                let connection = Arc::new(Http2Connection::begin(transport, None));
                self.connection = Some(connection.clone());
                grpc::stream(connection)
                    .ok_or_else(|| ExportError::Unreachable("the connection has ended".to_owned()))?
            }
        };
        grpc::export(&stream, settings, signal, &message).await
    }

    async fn by_http(
        &mut self,
        settings: &ExporterSettings,
        host: &ExporterHost,
        signal: Signal,
        message: Vec<u8>,
    ) -> Result<PartialSuccess, ExportError> {
        let addresses = addresses(settings, host).await?;
        let tls = self.tls(settings, &["http/1.1"])?;
        http::export(&client(host, tls.as_ref(), &self.figures), &addresses, settings, signal, message).await
    }

    /// The settings of TLS with the collector, if it has TLS.
    fn tls(&mut self, settings: &ExporterSettings, alpn: &[&str]) -> Result<Option<OutgoingTls>, ExportError> {
        if !settings.endpoint.is_secure {
            return Ok(None);
        }
        let trust = match (&settings.trusted, &self.trust) {
            (Some(trust), _) | (None, Some(trust)) => trust.clone(),
            (None, None) => {
                let trust = trust::of_system("trusted_certificate").map_err(ExportError::Unreachable)?;
                self.trust.insert(trust).clone()
            }
        };
        let tls = trust::outgoing_tls(&settings.endpoint.host, Some(trust), alpn);
        tls.map(Some).map_err(ExportError::Unreachable)
    }
}

/// The HTTP client for one exchange.
fn client<'c>(host: &'c ExporterHost, tls: Option<&'c OutgoingTls>, figures: &'c TlsFigures) -> HttpClient<'c> {
    let helpers = HandshakeHelpers { pool: host.pools.handshakes(), lane: 0, figures };
    let paths = SocketPaths { files: &host.files, pool: host.pools.default(), client: 0 };
    HttpClient { limits: LIMITS, tls: tls.map(|tls| ExchangeTls { tls, helpers }), paths }
}

/// The addresses of the collector.
async fn addresses(settings: &ExporterSettings, host: &ExporterHost) -> Result<Vec<UpstreamAddress>, ExportError> {
    let name = settings.endpoint.host.as_str();
    let failed = |error: String| ExportError::Unreachable(format!("the host is not found: {error}"));
    let found = match (name.parse::<IpAddr>(), &host.resolver) {
        (Ok(address), _) => vec![address],
        (Err(_), Some((resolver, patience))) => {
            let answer = resolver.addresses(name, *patience).await.map_err(|error| failed(error.to_string()))?;
            answer.addresses.to_vec()
        }
        (Err(_), None) => {
            let looked_up = timer::timeout(CONNECT, system::lookup_elsewhere(name)).await;
            let looked_up = looked_up.map_err(|_| failed("no answer in time".to_owned()))?;
            looked_up.map_err(|error| failed(error.to_string()))?
        }
    };
    let port = settings.endpoint.port;
    Ok(found.into_iter().take(ADDRESSES).map(|address| SocketAddr::from((address, port)).into()).collect())
}
