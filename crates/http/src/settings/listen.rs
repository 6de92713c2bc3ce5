//! The `listen` directive of `server`.

use std::net::{Ipv4Addr, SocketAddr};

use freerun_conf::{Cx, Node, Problem, Shape, Word};
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::setting::{self, ListenProtocols, unsupported};

use crate::values::protocols::Protocols;

pub use freerun_serve::listen::setting::ListenPlace;

/// The name of the service that takes the connections of these sockets.
pub const SERVICE: &str = "http";

/// Port 80 on all IPv4 addresses (8000 without the privilege for that): the address of a server without `listen`.
pub fn default_listen(privileged: bool) -> ListenSpec {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, if privileged { 80 } else { 8000 }));
    ListenSpec::new(SERVICE, Some(address), address.to_string())
}

/// One `listen` directive.
pub type ListenSetting = setting::ListenSetting<HttpProtocols>;

/// The protocols that a `listen` directive names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpProtocols {
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// `ssl`
    pub tls: bool,
    /// HTTP/1, and HTTP/2 with `http2`.
    pub versions: Protocols,
}

impl ListenProtocols for HttpProtocols {
    const SERVICE: &'static str = SERVICE;
    const DEFAULT_PORT: Option<&'static str> = Some("80");
    const SHAPE: Shape = Shape::at_least(
        1,
        "address[:port] | port | unix:path [default_server] [ssl] [http2] [proxy_protocol] [backlog=number] [rcvbuf=size] \
         [sndbuf=size] [accept_filter=filter] [fastopen=number] [deferred] [bind] [ipv6only=on|off] [reuseport] \
         [multipath] [so_keepalive=on|off|[idle]:[interval]:[count]]",
    );
    const HAS_DATAGRAMS: bool = false;

    fn set(&mut self, parameter: &Word, directive: &Node, cx: &mut Cx) -> Result<bool, Problem> {
        match parameter.text.as_str() {
            "proxy_protocol" => self.proxy_protocol = true,
            "ssl" => self.tls = true,
            "http2" => {
                let message = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
                cx.warn(Problem::warning(message).at_node(directive).at(parameter.place));
                self.versions.h2 = true;
            }
            "quic" => return Err(unsupported(parameter)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn proxy_protocol(self) -> bool {
        self.proxy_protocol
    }

    fn tls(self) -> bool {
        self.tls
    }

    fn and(self, other: HttpProtocols) -> HttpProtocols {
        HttpProtocols {
            proxy_protocol: self.proxy_protocol | other.proxy_protocol,
            tls: self.tls | other.tls,
            versions: self.versions.union(other.versions),
        }
    }
}
