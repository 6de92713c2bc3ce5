//! The `listen` directive of `server` in `stream`.

use freerun_conf::{Cx, Node, Problem, Shape, Word};
use freerun_serve::listen::setting::{self, ListenProtocols};

/// The name of the service that takes the connections of these sockets.
pub const SERVICE: &str = "stream";

/// A `listen` directive.
pub type ListenSetting = setting::ListenSetting<StreamProtocols>;

/// The protocols that a `listen` directive names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamProtocols {
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// `ssl`
    pub tls: bool,
}

impl ListenProtocols for StreamProtocols {
    const SERVICE: &'static str = SERVICE;
    const DEFAULT_PORT: Option<&'static str> = None;
    const SHAPE: Shape = Shape::at_least(
        1,
        "address:port | port | unix:path [default_server] [ssl] [udp] [proxy_protocol] [backlog=number] [rcvbuf=size] \
         [sndbuf=size] [accept_filter=filter] [fastopen=number] [deferred] [bind] [ipv6only=on|off] [reuseport] \
         [multipath] [so_keepalive=on|off|[idle]:[interval]:[count]]",
    );
    const HAS_DATAGRAMS: bool = true;

    fn set(&mut self, parameter: &Word, _: &Node, _: &mut Cx) -> Result<bool, Problem> {
        match parameter.text.as_str() {
            "proxy_protocol" => self.proxy_protocol = true,
            "ssl" => self.tls = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(parameter: &Word) -> Problem {
        Problem::new(format!("the invalid \"{}\" parameter", parameter.text)).at(parameter.place)
    }

    fn proxy_protocol(self) -> bool {
        self.proxy_protocol
    }

    fn tls(self) -> bool {
        self.tls
    }

    fn and(self, other: StreamProtocols) -> StreamProtocols {
        StreamProtocols { proxy_protocol: self.proxy_protocol | other.proxy_protocol, tls: self.tls | other.tls }
    }
}
