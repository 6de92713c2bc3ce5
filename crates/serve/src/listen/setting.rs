//! The `listen` directive, for all services.

use std::fmt;

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value, Word};

use super::{ListenSpec, Protocol, specs};

/// The place where a directive is written, for problems found after reading.
#[derive(Debug, Clone, Copy)]
pub struct ListenPlace {
    /// The place that the caret points at.
    pub place: Place,
    /// The place whose line is named.
    pub end: Place,
    /// The position in reading order.
    pub order: u32,
}

impl ListenPlace {
    /// The place of a directive or block, such as `server`: its name.
    pub fn of(node: &Node) -> ListenPlace {
        ListenPlace { place: node.name.place, end: node.end, order: node.order }
    }

    /// A problem of what is written here.
    pub fn problem(&self, problem: Problem) -> Problem {
        let mut problem = problem.reported_at(self.end).at(self.place);
        problem.order = Some(self.order);
        problem
    }
}

/// Parameters of a `listen` directive that a service needs besides the socket: the protocols that precede its own.
/// The parameters of one `listen` of an address hold for all servers there, since a server is chosen later.
pub trait ListenProtocols: Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The name of the service.
    const SERVICE: &'static str;

    /// The port of an address without one, if it may lack one.
    const DEFAULT_PORT: Option<&'static str>;

    /// The parameters, as the reference shows them.
    const SHAPE: Shape;

    /// Whether the service takes datagrams (`udp`).
    const HAS_DATAGRAMS: bool;

    /// Takes a parameter; `false` if it is not one of the service.
    ///
    /// # Errors
    /// The parameter is known, and is not possible.
    fn set(&mut self, parameter: &Word, directive: &Node, cx: &mut Cx) -> Result<bool, Problem>;

    /// The problem of parameters that do not go together, once all of them are known.
    ///
    /// # Errors
    /// There is one.
    fn check(self, _directive: &Node) -> Result<(), Problem> {
        Ok(())
    }

    /// Whether the parameter with this name does not go together with datagrams.
    fn needs_stream(name: &str) -> bool {
        matches!(name, "backlog" | "deferred" | "fastopen" | "multipath" | "so_keepalive" | "ssl")
    }

    /// The problem of a parameter that does not exist.
    fn unknown(parameter: &Word) -> Problem {
        Problem::new(format!("invalid parameter \"{}\"", parameter.text)).at(parameter.place)
    }

    /// Whether connections begin with a PROXY protocol header (`proxy_protocol`).
    fn proxy_protocol(self) -> bool;

    /// Whether connections may begin with a TLS handshake (`ssl`), or have TLS in any case (`quic`).
    fn tls(self) -> bool;

    /// Whether clients speak QUIC (`quic`).
    fn quic(self) -> bool {
        false
    }

    /// The parameters that hold for all servers of the address.
    #[must_use]
    fn of_address(self) -> Self {
        self
    }

    /// Adds what another `listen` of the same address says.
    #[must_use]
    fn and(self, other: Self) -> Self;
}

/// A `listen` directive; a range of ports makes several addresses.
#[derive(Debug, Clone)]
pub struct ListenSetting<P> {
    /// The specifications of the sockets, one for each port.
    pub specs: Vec<ListenSpec>,
    /// `default_server`
    pub default_server: bool,
    /// The protocols that it names.
    pub protocols: P,
    /// The place where it is written.
    pub written: ListenPlace,
    /// Whether any parameter concerns the socket itself: such an address is bound separately, and only one `listen` for
    /// it may have such parameters.
    pub has_options: bool,
}

impl<P: ListenProtocols> ListenSetting<P> {
    /// The address of a server that has no `listen`; `written` is the place of the server.
    pub fn implied(spec: ListenSpec, written: ListenPlace) -> ListenSetting<P> {
        ListenSetting { specs: vec![spec], default_server: false, protocols: P::default(), written, has_options: false }
    }
}

impl<P: ListenProtocols> Value for ListenSetting<P> {
    const SHAPE: Shape = P::SHAPE;

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ListenSetting<P>, Problem> {
        let word = &directive.args[0];
        let hosts = cx.extensions.get_or_default();
        let mut specs = specs(P::SERVICE, &word.text, P::DEFAULT_PORT, hosts).map_err(|why| {
            Problem::new(format!("{why} in \"{}\" of the \"listen\" directive", word.text)).at(word.place)
        })?;
        let mut protocols = P::default();
        let (mut default_server, mut has_options, mut is_datagram) = (false, false, false);
        for parameter in &directive.args[1..] {
            let text = parameter.text.as_str();
            if matches!(text, "default_server" | "default") {
                default_server = true;
                continue;
            }
            if text == "udp" && P::HAS_DATAGRAMS {
                is_datagram = true;
                continue;
            }
            if protocols.set(parameter, directive, cx)? {
                continue;
            }
            if text.starts_with("accept_filter=") {
                let message = format!("accept filters \"{text}\" are not supported on this platform, ignored");
                cx.warn(Problem::warning(message).at_node(directive).at(parameter.place));
                continue;
            }
            has_options = true;
            for spec in &mut specs {
                let known = spec.apply_option(text).map_err(|why| Problem::new(why).at(parameter.place))?;
                if !known {
                    return Err(P::unknown(parameter));
                }
            }
        }
        protocols.check(directive)?;
        let datagrams = if protocols.quic() { Some("quic") } else { is_datagram.then_some("udp") };
        if let Some(datagrams) = datagrams {
            if let Some(parameter) = directive.args[1..].iter().find(|word| P::needs_stream(name_of(&word.text))) {
                return Err(incompatible(parameter, datagrams));
            }
            if specs.iter().any(|spec| spec.ip.is_none()) {
                let what = format!("\"{datagrams}\" is not possible with the Unix socket \"{}\"", word.text);
                let hint = format!("freerun takes datagrams of UDP alone; remove \"{datagrams}\"");
                return Err(Problem::new(what).at(word.place).hint(hint));
            }
            for spec in &mut specs {
                (spec.protocol, spec.quic) = (Protocol::Datagram, protocols.quic());
            }
        }
        let written = ListenPlace { place: word.place, end: directive.end, order: directive.order };
        Ok(ListenSetting { specs, default_server, protocols, written, has_options })
    }
}

/// The name of a parameter with or without a value.
fn name_of(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

fn incompatible(parameter: &Word, datagrams: &str) -> Problem {
    let name = name_of(&parameter.text);
    let message = format!("\"listen\" directive \"{name}\" parameter is incompatible with \"{datagrams}\"");
    Problem::new(message).at(parameter.place)
}
