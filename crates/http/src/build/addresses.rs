//! Which servers answer at which address.

use std::collections::HashMap;
use std::sync::Arc;

use freerun_conf::{Cx, Problem};

use super::Planned;
use crate::request::generation::{Listen, Servers, SessionSettings};
use crate::route::names::{Name, NameTable};
use crate::settings::listen::{ListenSetting, Written, default_listen};
use crate::settings::server::ServerSettings;
use freerun_serve::listen::ListenSpec;
use freerun_serve::parts::Paths;

/// One address while the servers are gathered.
struct Address {
    spec: ListenSpec,
    /// Whether a `listen` with socket options fixed the spec.
    fixed: bool,
    default: Option<usize>,
    /// Whether any `listen` of the address has `proxy_protocol`. It holds for all of its servers, because the header is
    /// read before the server is known.
    proxied: bool,
    /// Whether any `listen` of the address has `ssl`.
    tls: bool,
    /// Whether any `listen` of the address has `http2`: all of its servers speak HTTP/2 then.
    http2: bool,
    servers: Vec<usize>,
}

/// The addresses that the servers listen on, each with its servers.
pub(super) fn group_addresses(planned: &[Planned], cx: &mut Cx) -> Result<Vec<Arc<Listen>>, Problem> {
    let mut order: Vec<Address> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let privileged = cx.extensions.get_or_default::<Paths>().privileged;
    for (index, plan) in planned.iter().enumerate() {
        let fail = |message: String, written: Written| {
            let mut problem = Problem::new(message).reported_at(written.end).at(written.place);
            problem.order = Some(written.order);
            problem
        };
        let settings = plan.settings.get::<ServerSettings>();
        let implied = ListenSetting::implied(default_listen(privileged), plan.written);
        let listens = if settings.listen.is_empty() { std::slice::from_ref(&implied) } else { &settings.listen[..] };
        for (spec, listen) in listens.iter().flat_map(|listen| listen.specs.iter().map(move |spec| (spec, listen))) {
            let written = listen.written;
            let slot = *by_name.entry(spec.name.clone()).or_insert_with(|| {
                order.push(Address {
                    spec: spec.clone(),
                    fixed: false,
                    default: None,
                    proxied: false,
                    tls: false,
                    http2: false,
                    servers: Vec::new(),
                });
                order.len() - 1
            });
            let address = &mut order[slot];
            if address.servers.last() == Some(&index) {
                cx.report(fail(format!("a duplicate listen {}", spec.name), written))?;
                continue;
            }
            let protocols = (listen.tls, listen.http2, listen.proxy_protocol);
            if !address.servers.is_empty()
                && protocols != <(bool, bool, bool)>::default()
                && protocols != (address.tls, address.http2, address.proxied)
            {
                // What one of them says holds for all.
                let mut problem = Problem::warning(format!("protocol options redefined for {}", spec.name));
                problem = problem.reported_at(written.end).at(written.place);
                problem.order = Some(written.order);
                cx.warn(problem);
            }
            address.proxied |= listen.proxy_protocol;
            address.tls |= listen.tls;
            address.http2 |= listen.http2;
            if listen.has_options {
                if address.fixed && address.spec != *spec {
                    cx.report(fail(format!("duplicate listen options for {}", spec.name), written))?;
                }
                address.fixed = true;
                address.spec = spec.clone();
            }
            if listen.default_server && address.default.replace(index).is_some() {
                cx.report(fail(format!("a duplicate default server for {}", address.spec.name), written))?;
            }
            address.servers.push(index);
        }
    }
    // A server whose certificate cannot be used was told of already.
    for address in order.iter().filter(|address| address.tls) {
        if !cx.has_problems() {
            check_certificates(address, planned, cx)?;
        }
    }
    let mut listens = Vec::new();
    for address in &order {
        let own = Arc::new(servers_of(address, planned, cx));
        // A wildcard socket receives the connections of the addresses that it covers; binding those as well would fail.
        if !address.fixed && covering(address, &order).is_some() {
            continue;
        }
        let mut specific = HashMap::new();
        for other in order.iter().filter(|other| !other.fixed && covering(other, &order) == Some(&address.spec.name)) {
            if let Some(ip) = other.spec.ip {
                specific.insert(ip.ip(), Arc::new(servers_of(other, planned, cx)));
            }
        }
        listens.push(Arc::new(Listen { spec: Arc::new(address.spec.clone()), servers: own, specific }));
    }
    Ok(listens)
}

/// Every server that may be asked for by TLS has to have a certificate, or the address's default server has one for it.
fn check_certificates(address: &Address, planned: &[Planned], cx: &mut Cx) -> Result<(), Problem> {
    let default = address.default.unwrap_or(address.servers[0]);
    let has_certificate = |index: usize| planned[index].server.tls.as_ref().is_some_and(|tls| tls.has_certificate());
    let is_settled =
        |index: usize| has_certificate(index) || planned[index].server.tls.as_ref().is_some_and(|tls| tls.rejects);
    if has_certificate(default) {
        return Ok(());
    }
    let missing = [default].into_iter().chain(address.servers.iter().copied()).find(|index| !is_settled(*index));
    let Some(missing) = missing else { return Ok(()) };
    let written = planned[missing].written;
    let mut problem = Problem::new("no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive");
    problem = problem.reported_at(written.place).at(written.place);
    cx.report(problem)
}

/// The wildcard address of the same port and family, if the configuration has it.
fn covering<'a>(address: &Address, all: &'a [Address]) -> Option<&'a String> {
    let ip = address.spec.ip?;
    if address.spec.is_wildcard() {
        return None;
    }
    all.iter()
        .find(|other| {
            other.spec.is_wildcard()
                && other.spec.ip.is_some_and(|wild| wild.port() == ip.port() && wild.is_ipv4() == ip.is_ipv4())
        })
        .map(|other| &other.spec.name)
}

fn servers_of(address: &Address, planned: &[Planned], cx: &mut Cx) -> Servers {
    let mut names = NameTable::default();
    let default = address.default.unwrap_or(address.servers[0]);
    // A lone server without a name answers every request: it needs no table.
    let unnamed = |index: &usize| planned[*index].settings.get::<ServerSettings>().server_name.names.is_empty();
    if address.servers.len() > 1 || address.servers.iter().any(|index| has_regex(&planned[*index])) {
        for index in &address.servers {
            let plan = &planned[*index];
            let empty = [Name::Exact(String::new())];
            let own = &plan.settings.get::<ServerSettings>().server_name.names;
            let list = if unnamed(index) { &empty[..] } else { &own[..] };
            for name in list {
                if !names.add(name, &plan.server) {
                    let text = match name {
                        Name::Exact(name) => name.clone(),
                        Name::Back(name) => format!("{name}*"),
                        Name::Front(name, true) => name.clone(),
                        Name::Front(name, false) => format!("*{name}"),
                        Name::Regex(_) => continue,
                    };
                    let on = &address.spec.name;
                    cx.warn(Problem::warning(format!("conflicting server name \"{text}\" on {on}, ignored")));
                }
            }
        }
    }
    let default = planned[default].server.clone();
    let all: Vec<_> = address.servers.iter().map(|index| planned[*index].server.clone()).collect();
    let sessions = match address.tls {
        true => SessionSettings::new(&all, &default, address.http2),
        false => SessionSettings::default(),
    };
    let Address { proxied: proxy_protocol, tls, http2, .. } = *address;
    Servers { names, default, all, proxy_protocol, tls, http2, sessions }
}

fn has_regex(plan: &Planned) -> bool {
    let names = &plan.settings.get::<ServerSettings>().server_name.names;
    names.iter().any(|name| matches!(name, Name::Regex(_)))
}
