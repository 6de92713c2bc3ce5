//! Which servers are at which address.

use std::sync::Arc;

use freerun_conf::{Cx, Problem};
use freerun_serve::listen::addresses::{self, Address};
use freerun_serve::names::NameTable;
use freerun_serve::tls::sessions::SessionSettings;

use super::Planned;
use crate::session::generation::{Listen, Servers};
use crate::session::server::Server;
use crate::settings::core::CoreSettings;
use crate::settings::listen::StreamProtocols;
use crate::settings::ssl::SslSettings;

/// The sockets that the servers listen on, each with the servers of its addresses.
pub(super) fn listens(planned: &[Planned], cx: &mut Cx) -> Result<Vec<Arc<Listen>>, Problem> {
    let listens = planned.iter().map(|plan| &plan.server.settings.get::<CoreSettings>().listen[..]);
    let order = addresses::gather(listens, cx)?;
    // A server whose certificate cannot be used was told of already.
    for address in order.iter().filter(|address| address.protocols.tls) {
        if !cx.has_problems() {
            check_certificates(address, planned, cx)?;
        }
    }
    let servers: Vec<_> = order.iter().map(|address| Arc::new(servers_of(address, planned, cx))).collect();
    Ok(Listen::of(&order, &servers))
}

/// Every server that a client may have a TLS session with has to have a certificate, or the address's default server has one
/// for it.
fn check_certificates(address: &Address<StreamProtocols>, planned: &[Planned], cx: &mut Cx) -> Result<(), Problem> {
    let default = address.default_server();
    let tls = |index: usize| planned[index].server.tls.as_ref();
    let has_certificate = |index: usize| tls(index).is_some_and(|tls| tls.has_certificate());
    if has_certificate(default) {
        return Ok(());
    }
    let is_settled = |index: usize| has_certificate(index) || tls(index).is_some_and(|tls| tls.rejects);
    let missing = [default].into_iter().chain(address.servers.iter().copied()).find(|index| !is_settled(*index));
    let Some(missing) = missing else { return Ok(()) };
    let place = planned[missing].written.place;
    let problem = Problem::new("no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive");
    cx.report(problem.reported_at(place).at(place))
}

fn servers_of(address: &Address<StreamProtocols>, planned: &[Planned], cx: &mut Cx) -> Servers {
    let all: Vec<Arc<Server>> = address.servers.iter().map(|index| planned[*index].server.clone()).collect();
    let named = all.iter().map(|server| (&server.settings.get::<CoreSettings>().server_name.names[..], server));
    let names = NameTable::of(named, &address.spec.name, cx);
    let default = planned[address.default_server()].server.clone();
    let StreamProtocols { proxy_protocol, tls } = address.protocols;
    let sessions = match tls {
        true => SessionSettings::new(&all, &*default, |server: &Server| server.settings.get::<SslSettings>().alpn()),
        false => SessionSettings::default(),
    };
    Servers { names, default, all, proxy_protocol, tls, sessions }
}
