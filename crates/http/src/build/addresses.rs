//! Which servers answer at which address.

use std::sync::Arc;

use freerun_conf::{Cx, Problem};
use freerun_serve::listen::addresses;
use freerun_serve::names::NameTable;
use freerun_serve::parts::Paths;
use freerun_serve::tls::sessions::SessionSettings;

use super::Planned;
use crate::request::generation::{Listen, Servers, alpn};
use crate::request::location::Server;
use crate::settings::listen::{HttpProtocols, ListenSetting, default_listen};
use crate::settings::server::ServerSettings;

/// An address with its servers.
type Address = addresses::Address<HttpProtocols>;

/// The addresses that the servers listen on, each with its servers.
pub(super) fn group_addresses(planned: &[Planned], cx: &mut Cx) -> Result<Vec<Arc<Listen>>, Problem> {
    let privileged = cx.extensions.get_or_default::<Paths>().privileged;
    let implied: Vec<ListenSetting> =
        planned.iter().map(|plan| ListenSetting::implied(default_listen(privileged), plan.written)).collect();
    let listens = planned.iter().zip(&implied).map(|(plan, implied)| {
        let listen = &plan.settings.get::<ServerSettings>().listen;
        if listen.is_empty() { std::slice::from_ref(implied) } else { &listen[..] }
    });
    let order = addresses::gather(listens, cx)?;
    // A server whose certificate cannot be used was told of already.
    for address in order.iter().filter(|address| address.protocols.tls) {
        if !cx.has_problems() {
            check_certificates(address, planned, cx)?;
        }
    }
    // Conflicting names are told of in the order of the addresses.
    let servers: Vec<Arc<Servers>> = order.iter().map(|address| Arc::new(servers_of(address, planned, cx))).collect();
    Ok(Listen::of(&order, &servers))
}

/// Every server that may be asked for by TLS has to have a certificate, or the address's default server has one for it.
fn check_certificates(address: &Address, planned: &[Planned], cx: &mut Cx) -> Result<(), Problem> {
    let default = address.default_server();
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

fn servers_of(address: &Address, planned: &[Planned], cx: &mut Cx) -> Servers {
    let plans = address.servers.iter().map(|index| &planned[*index]);
    let named = plans.clone().map(|plan| (&plan.settings.get::<ServerSettings>().server_name.names[..], &plan.server));
    let names = NameTable::of(named, &address.spec.name, cx);
    let default = planned[address.default_server()].server.clone();
    let all: Vec<_> = plans.map(|plan| plan.server.clone()).collect();
    let HttpProtocols { proxy_protocol, tls, http2 } = address.protocols;
    let sessions = match tls {
        true => SessionSettings::new(&all, &*default, |server: &Server| alpn(http2 || server.http2).to_vec()),
        false => SessionSettings::default(),
    };
    Servers { names, default, all, proxy_protocol, tls, http2, sessions }
}
