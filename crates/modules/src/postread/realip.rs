//! `real_ip_header`: takes the client's address from a trusted proxy.

use std::net::SocketAddr;

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, group, parse_address, settings};
use freerun_http::module::Module;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::{Address, Request};
use freerun_http::variables::Variable;
use freerun_proto::HeaderId;
use freerun_serve::limits::access::TrustedSource;
use freerun_serve::values::proxy_header::ProxiedSubject;
use freerun_serve::values::{address_value, port_value};

settings! {
    /// The client's address as given by a trusted proxy.
    ///
    /// The address applies to everything that uses the client's: `$remote_addr` and `$remote_port`, logs, `allow` and
    /// `deny`, keys of limits, the fairness of thread pools.
    #[module = "realip"]
    pub struct RealIpSettings {
        /// A proxy that is trusted: its address, its network, or all connections of Unix sockets (`unix:`).
        ///
        /// A name stands for all addresses that it has when the configuration is read.
        set_real_ip_from: Many<TrustedSource>, in HTTP | SERVER | LOCATION;
        /// The source of the address: the field with that name, or the PROXY protocol header.
        real_ip_header: AddressSource = "X-Real-IP", in HTTP | SERVER | LOCATION;
        /// Whether addresses of trusted proxies in the field itself are skipped: with `on` the last address that is not
        /// trusted counts, with `off` the last one.
        real_ip_recursive: bool = "off", in HTTP | SERVER | LOCATION;
    }
}

/// The source of the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressSource {
    /// The first field with this name.
    Field(String),
    /// The fields `X-Forwarded-For`, which form one list.
    ForwardedFor,
    /// The PROXY protocol header.
    ProxyProtocol,
}

impl Value for AddressSource {
    const SHAPE: Shape = Shape::exactly(1, "field | X-Real-IP | X-Forwarded-For | proxy_protocol");

    fn parse(directive: &Node, _: &mut Cx) -> Result<AddressSource, Problem> {
        Ok(match directive.args[0].text.as_str() {
            "proxy_protocol" => AddressSource::ProxyProtocol,
            name if name.eq_ignore_ascii_case("X-Forwarded-For") => AddressSource::ForwardedFor,
            name => AddressSource::Field(name.to_owned()),
        })
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<RealIpSettings>().set_real_ip_from.is_empty()
}

/// The module `realip`.
pub static MODULE: Module = Module {
    name: "realip",
    groups: &[group::<RealIpSettings>()],
    handlers: &[
        Handler { phase: Phase::PostRead, wanted, run: Run::Now(run) },
        // It runs again with the settings of the location, for settings that the server block does not have.
        Handler { phase: Phase::PreAccess, wanted, run: Run::Now(run) },
    ],
    variables: &[
        Variable::named(
            "realip_remote_addr",
            "The client's address as it was before the module replaced it.",
            |request, _| address_value(request.client.peer()),
        ),
        Variable::named(
            "realip_remote_port",
            "The client's port as it was before the module replaced it.",
            |request, _| port_value(request.client.peer()),
        ),
    ],
    ..Module::EMPTY
};

fn run(request: &mut Request) -> Outcome {
    // The address is replaced only once: a second time it would come from the client itself.
    if !request.has_real_peer()
        && let Some(peer) = real_peer(request, request.settings().get::<RealIpSettings>())
    {
        request.set_peer(Address::Ip(peer));
    }
    Outcome::Declined
}

fn real_peer(request: &Request, settings: &RealIpSettings) -> Option<SocketAddr> {
    let trusted = &settings.set_real_ip_from;
    let is_trusted = |address: &Address| trusted.iter().any(|one| one.contains(address));
    if !is_trusted(request.client.peer()) {
        return None;
    }
    let head = &request.head;
    let fields: Vec<&[u8]> = match &settings.real_ip_header {
        AddressSource::ProxyProtocol => return request.proxied_client(),
        AddressSource::ForwardedFor => head.values(HeaderId::XForwardedFor).collect(),
        AddressSource::Field(name) => head.values_named(name.as_bytes()).take(1).collect(),
    };
    let mut found = None;
    for field in fields.iter().rev() {
        let words = field.rsplit(|byte| matches!(byte, b' ' | b',')).filter(|word| !word.is_empty());
        let mut any = false;
        for word in words {
            any = true;
            let Some(address) = std::str::from_utf8(word).ok().and_then(parse_address) else { return found };
            found = Some(address);
            if !settings.real_ip_recursive || !is_trusted(&Address::Ip(address)) {
                return found;
            }
        }
        // An empty field gives no address, and entries before it are not trusted.
        if !any {
            break;
        }
    }
    found
}
