//! The collector that spans and metrics are sent to, and how.

use std::time::Duration;

use freerun_tls::verify::TrustStore;

/// The protocol of exports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExportProtocol {
    /// OTLP/gRPC, which nginx has.
    #[default]
    Grpc,
    /// OTLP/HTTP with bodies in protobuf.
    HttpProtobuf,
}

/// The place of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether TLS is used.
    pub is_secure: bool,
    /// The host: a name or an address, the latter without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path before the path of the signal, without a slash at its end. It is empty for gRPC.
    pub path: String,
}

/// The reason why a text names no collector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// There is no host.
    #[error("no host in endpoint")]
    NoHost,
    /// There is no port, or it is no number from 1 to 65535.
    #[error("invalid port in endpoint")]
    Port,
    /// The path has bytes that a target must not have.
    #[error("invalid path in endpoint")]
    Path,
    /// The scheme is none of HTTP.
    #[error("invalid scheme in endpoint, it must be \"http\" or \"https\"")]
    Scheme,
}

impl Endpoint {
    /// Reads `[(http|https)://]host:port[/path]`.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let is_secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(EndpointError::Scheme),
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (host, port) = authority.rsplit_once(':').ok_or(EndpointError::Port)?;
        let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = port.and_then(|port| port.parse().ok()).filter(|port| *port > 0).ok_or(EndpointError::Port)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || bare.bytes().any(|byte| byte <= b' ' || byte == b'@' || byte == 0x7f) {
            return Err(EndpointError::NoHost);
        }
        if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(EndpointError::Path);
        }
        let path = path.trim_end_matches('/').to_owned();
        Ok(Endpoint { is_secure, host: bare.to_owned(), port, path })
    }

    /// The host and the port, as `Host` and `:authority` have them.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Whether metrics are exported, and how often.
pub type MetricsInterval = Option<Duration>;

/// The settings of an exporter.
#[derive(Clone)]
pub struct ExporterSettings {
    /// The collector.
    pub endpoint: Endpoint,
    /// The protocol.
    pub protocol: ExportProtocol,
    /// The authorities that verify the collector's certificate; the system's if there are none here.
    pub trusted: Option<TrustStore>,
    /// Fields that each export has: names and values.
    pub fields: Vec<(String, String)>,
    /// The longest time between two exports of spans.
    pub interval: Duration,
    /// The most spans of an export.
    pub batch_size: usize,
    /// The number of batches that may wait.
    pub batch_count: usize,
    /// The attributes of the resource, `service.name` among them.
    pub resource: Vec<(String, String)>,
    /// The interval of metrics, if they are exported.
    pub metrics: MetricsInterval,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let parsed = |text: &str| {
            Endpoint::parse(text).map(|endpoint| (endpoint.is_secure, endpoint.authority(), endpoint.path))
        };
        let of = |secure, authority: &str, path: &str| Ok((secure, authority.to_owned(), path.to_owned()));
        assert_eq!(parsed("localhost:4317"), of(false, "localhost:4317", ""));
        assert_eq!(parsed("http://127.0.0.1:4317"), of(false, "127.0.0.1:4317", ""));
        assert_eq!(parsed("https://[::1]:4318/otel/"), of(true, "[::1]:4318", "/otel"));
        assert_eq!(parsed("ftp://a:1"), Err(EndpointError::Scheme));
        for text in ["localhost", "a:", "a:x", "a:0", "a:65536", "https://a", "a:+1"] {
            assert_eq!(parsed(text), Err(EndpointError::Port), "{text}");
        }
        for text in [":1", "http://:1", "a b:1", "u@a:1", "[]:1"] {
            assert_eq!(parsed(text), Err(EndpointError::NoHost), "{text}");
        }
        assert_eq!(parsed("a:1/x y"), Err(EndpointError::Path));
    }
}
