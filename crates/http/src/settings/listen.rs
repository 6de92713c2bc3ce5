//! The `listen` directive of `server`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Word, parse_time};
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::setting::{self, ListenProtocols};

use crate::values::protocols::Protocols;

pub use freerun_serve::listen::setting::ListenPlace;

/// The name of the service that takes the connections of these sockets.
pub const SERVICE: &str = "http";

/// Port 80 on all IPv4 addresses (8000 without the privilege for that): the address of a server without `listen`.
pub fn default_listen(privileged: bool) -> ListenSpec {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, if privileged { 80 } else { 8000 }));
    ListenSpec::new(SERVICE, Some(address), address.to_string())
}

/// The time of `alt_svc` without a value: a day, as RFC 7838 has it where a server names none.
const ALT_SVC: Duration = Duration::from_secs(24 * 60 * 60);

/// A `listen` directive.
pub type ListenSetting = setting::ListenSetting<HttpProtocols>;

/// The protocols that a `listen` directive names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpProtocols {
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// `ssl`
    tls: bool,
    /// HTTP/1, and HTTP/2 with `http2`. HTTP/3 is not among them: it depends on the server alone (`http3`).
    pub versions: Protocols,
    /// `quic`
    pub quic: bool,
    /// `alt_svc`: the time for which clients may remember that the server speaks HTTP/3 there.
    pub alt_svc: Option<Duration>,
}

impl ListenProtocols for HttpProtocols {
    const SERVICE: &'static str = SERVICE;
    const DEFAULT_PORT: Option<&'static str> = Some("80");
    const SHAPE: Shape = Shape::at_least(
        1,
        "address[:port] | port | unix:path [default_server] [ssl] [http2 | quic] [alt_svc[=time]] [proxy_protocol] [backlog=number] [rcvbuf=size] \
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
            "quic" => self.quic = true,
            "alt_svc" => self.alt_svc = Some(ALT_SVC),
            other => match other.strip_prefix("alt_svc=") {
                Some(time) => self.alt_svc = Some(parse_time(time).ok_or_else(|| invalid(parameter))?),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn check(self, directive: &Node) -> Result<(), Problem> {
        let is_alone = |word: &&Word| self.alt_svc.is_some() && !self.quic && word.text.starts_with("alt_svc");
        let Some(word) = directive.args.iter().skip(1).find(is_alone) else { return Ok(()) };
        let problem = Problem::new("\"listen\" directive \"alt_svc\" parameter needs \"quic\"");
        let hint = "it stands in the \"listen … quic\" whose port clients are told of, by responses over TLS on TCP";
        Err(problem.at(word.place).hint(hint))
    }

    fn needs_stream(name: &str) -> bool {
        matches!(
            name,
            "backlog" | "deferred" | "fastopen" | "http2" | "multipath" | "proxy_protocol" | "so_keepalive" | "ssl"
        )
    }

    fn proxy_protocol(self) -> bool {
        self.proxy_protocol
    }

    fn tls(self) -> bool {
        self.tls | self.quic
    }

    fn quic(self) -> bool {
        self.quic
    }

    fn of_address(self) -> HttpProtocols {
        HttpProtocols { alt_svc: None, ..self }
    }

    fn and(self, other: HttpProtocols) -> HttpProtocols {
        HttpProtocols {
            proxy_protocol: self.proxy_protocol | other.proxy_protocol,
            tls: self.tls | other.tls,
            versions: self.versions.union(other.versions),
            quic: self.quic | other.quic,
            alt_svc: None,
        }
    }
}

fn invalid(parameter: &Word) -> Problem {
    Problem::new(format!("invalid parameter \"{}\"", parameter.text)).at(parameter.place)
}
