//! The `listen` directive of `server`.

use std::net::{Ipv4Addr, SocketAddr};

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value};
use freerun_serve::listen::{self, ListenSpec};

/// The name of the service that takes the connections of these sockets.
pub const SERVICE: &str = "http";

/// Port 80 on all IPv4 addresses (8000 without the privilege for that): the address of a server without `listen`.
pub fn default_listen(privileged: bool) -> ListenSpec {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, if privileged { 80 } else { 8000 }));
    ListenSpec::new(SERVICE, Some(address), address.to_string())
}

/// The place where a directive is written, for problems found after reading.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// The place that the caret points at.
    pub place: Place,
    /// The place whose line is named.
    pub end: Place,
    /// The position in reading order.
    pub order: u32,
}

/// One `listen` directive; a range of ports makes several addresses.
#[derive(Debug, Clone)]
pub struct ListenSetting {
    /// The specifications of the sockets, one for each port.
    pub specs: Vec<ListenSpec>,
    /// `default_server`
    pub default_server: bool,
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// `ssl`
    pub tls: bool,
    /// `http2`
    pub http2: bool,
    /// The place where it is written.
    pub written: Written,
    /// Whether any parameter concerns the socket itself: such an address is bound separately, and only one `listen` for
    /// it may have such parameters.
    pub has_options: bool,
}

impl ListenSetting {
    /// The address of a server that has no `listen`; `written` is the place of the server.
    pub fn implied(spec: ListenSpec, written: Written) -> ListenSetting {
        ListenSetting {
            specs: vec![spec],
            default_server: false,
            proxy_protocol: false,
            tls: false,
            http2: false,
            written,
            has_options: false,
        }
    }
}

impl Value for ListenSetting {
    const SHAPE: Shape = Shape::at_least(1, "address[:port] | port | unix:path [parameters]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ListenSetting, Problem> {
        let word = &directive.args[0];
        let mut specs = listen::addresses(SERVICE, &word.text, cx.extensions.get_or_default()).map_err(|why| {
            Problem::new(format!("{why} in \"{}\" of the \"listen\" directive", word.text)).at(word.place)
        })?;
        let mut default_server = false;
        let mut proxy_protocol = false;
        let mut tls = false;
        let mut http2 = false;
        let mut has_options = false;
        for parameter in &directive.args[1..] {
            let text = parameter.text.as_str();
            if matches!(text, "default_server" | "default") {
                default_server = true;
                continue;
            }
            if text == "proxy_protocol" {
                proxy_protocol = true;
                continue;
            }
            if text == "ssl" {
                tls = true;
                continue;
            }
            if text == "http2" {
                let message = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
                cx.warn(Problem::warning(message).at_node(directive).at(parameter.place));
                http2 = true;
                continue;
            }
            if matches!(text, "quic" | "multipath") {
                let problem = Problem::new(format!("the \"{text}\" parameter is not supported yet"));
                return Err(problem.at(parameter.place).hint("freerun does not have it yet; remove the parameter"));
            }
            has_options = true;
            for spec in &mut specs {
                let known = spec.apply_option(text).map_err(|why| Problem::new(why).at(parameter.place))?;
                if !known {
                    return Err(Problem::new(format!("invalid parameter \"{text}\"")).at(parameter.place));
                }
            }
        }
        let written = Written { place: word.place, end: directive.end, order: directive.order };
        Ok(ListenSetting { specs, default_server, proxy_protocol, tls, http2, written, has_options })
    }
}
