//! The virtual servers at the addresses that a service listens on: which one a client asks for, and what its TLS session is made
//! with.

use std::sync::Arc;

use freerun_conf::{Cx, Problem};
use freerun_tls::session::ServerConfig;

use super::table::{NameTable, ServerName};
use crate::configuration::generation::Generation;
use crate::listen::addresses::{self, ListenAddress};
use crate::listen::generation_sockets::Listens;
use crate::listen::setting::{ListenPlace, ListenProtocols, ListenSetting};
use crate::tls::client_facts::TlsFacts;
use crate::tls::computed::{PairNames, PairReader};
use crate::tls::handshake::{Offer, Refusal};
use crate::tls::server::ComputedSettings;
use crate::tls::sessions::{SessionChoice, SessionSettings, TlsServer, presenting};
use crate::values::GaveUp;
use crate::values::captures::Captures;

/// The virtual servers of one address: found by name, or else the default server.
#[derive(Debug)]
pub struct VirtualServers<V> {
    /// The servers by name.
    pub names: NameTable<V>,
    /// `default_server`, or the first one.
    pub default: Arc<V>,
    /// All of them, in the order of the configuration.
    pub all: Vec<Arc<V>>,
    /// Whether connections begin with a PROXY protocol header (`listen … proxy_protocol`).
    pub proxy_protocol: bool,
    /// Whether connections may begin with a TLS handshake (`listen … ssl`), or have TLS in any case (`listen … quic`).
    pub tls: bool,
    /// The settings of TLS sessions for each server. They depend on the address too: its default server says how sessions are
    /// resumed.
    sessions: SessionSettings,
}

impl<V: TlsServer> VirtualServers<V> {
    /// The server for a name, which is in lower case, or for none. What a regular expression captures goes to `captures`.
    ///
    /// # Errors
    /// The matching of a regular expression was given up.
    pub fn for_name(&self, name: Option<&str>, captures: &Captures) -> Result<&Arc<V>, GaveUp> {
        let found = match name {
            Some(name) if !self.names.is_empty() => self.names.find(name, captures)?,
            _ => None,
        };
        Ok(found.unwrap_or(&self.default))
    }

    /// The settings of the session with a client that makes this offer and asks for this server, which is one of them. A client
    /// that wants to know that the certificate was not revoked has the stapled responses brought up to date; it does not wait
    /// for that.
    ///
    /// # Errors
    /// The handshake is refused.
    pub fn session<'s>(
        &'s self,
        offer: Offer<'_>,
        asked_for: &'s Arc<V>,
        generation: &Arc<Generation>,
    ) -> Result<SessionChoice<'s, V>, Refusal> {
        if offer.wants_status()
            && let Some(tls) = presenting(&**asked_for, &*self.default)
        {
            tls.status_wanted(generation);
        }
        self.sessions.choose(asked_for, &self.default)
    }

    /// The settings of a session with a certificate of this server whose name has variables, with these protocols above TLS.
    /// `names` gives the names as they are for the client with these `facts`.
    ///
    /// # Errors
    /// The line for the error log; it is empty if the client has gone.
    pub async fn computed_session<G: Future<Output = ()>>(
        &self,
        server: &V,
        facts: Option<&TlsFacts>,
        alpn: &[&[u8]],
        names: impl FnOnce(&ComputedSettings) -> Option<Vec<PairNames>>,
        reader: &PairReader<'_, impl Fn() -> G>,
    ) -> Result<ServerConfig, String> {
        let missing = || String::from("no \"ssl_certificate\" is defined in server listening on SSL port");
        if let Some(facts) = facts {
            facts.check_name()?;
        }
        let own = server.tls().ok_or_else(missing)?;
        let computed = own.computed().ok_or_else(missing)?;
        let names = names(computed).ok_or_else(missing)?;
        // The session is bound to the address by the settings of its default server.
        let resumption = self.default.tls().unwrap_or(own);
        computed.config_at(resumption, alpn, &names, reader).await
    }
}

/// A virtual server as its block has it, before addresses are gathered.
pub struct ServerPlan<'p, V, P> {
    /// The server.
    pub server: &'p Arc<V>,
    /// The directives `listen`, or the implied one.
    pub listens: &'p [ListenSetting<P>],
    /// The names in `server_name`.
    pub names: &'p [ServerName],
    /// The place of the block.
    pub written: ListenPlace,
}

/// The sockets that these servers listen on, each with what `make` makes of the servers at its addresses. `alpn` are the
/// protocols above TLS of a server at an address with these protocols, the most preferred first.
///
/// # Errors
/// As many problems as are collected: directives that contradict each other, and servers without a certificate that clients may
/// have TLS sessions with, in nginx's words.
pub fn listens<V: TlsServer, P: ListenProtocols, T>(
    planned: &[ServerPlan<'_, V, P>],
    alpn: impl for<'s> Fn(&'s V, P) -> Vec<&'s [u8]>,
    make: impl Fn(VirtualServers<V>, P) -> T,
    cx: &mut Cx,
) -> Result<Listens<T>, Problem> {
    let order = addresses::gather(planned.iter().map(|plan| plan.listens), cx)?;
    // A server whose certificate cannot be used was told of already.
    for address in order.iter().filter(|address| address.protocols.tls()) {
        if !cx.has_problems() {
            check_certificates(address, planned, cx)?;
        }
        if address.spec.quic && !cx.has_problems() {
            check_versions(address, planned, cx)?;
        }
    }
    // Conflicting names are reported in the order of the addresses.
    let servers = |address: &ListenAddress<P>| Arc::new(make(at(address, planned, &alpn, cx), address.protocols));
    let servers: Vec<Arc<T>> = order.iter().map(servers).collect();
    Ok(Listens::of(&order, &servers))
}

/// Every server that may be asked for by TLS has to have a certificate, or the address's default server has one for it.
fn check_certificates<V: TlsServer, P>(
    address: &ListenAddress<P>,
    planned: &[ServerPlan<'_, V, P>],
    cx: &mut Cx,
) -> Result<(), Problem> {
    let default = address.default_server();
    let tls = |index: usize| planned[index].server.tls();
    let has_certificate = |index: usize| tls(index).is_some_and(|tls| tls.has_certificate());
    if has_certificate(default) {
        return Ok(());
    }
    let is_settled = |index: usize| has_certificate(index) || tls(index).is_some_and(|tls| tls.rejects);
    let missing = [default].into_iter().chain(address.servers.iter().copied()).find(|index| !is_settled(*index));
    let Some(missing) = missing else { return Ok(()) };
    let place = planned[missing].written.place;
    let parameter = if address.spec.quic { "quic" } else { "ssl" };
    let problem =
        Problem::new(format!("no \"ssl_certificate\" is defined for the \"listen ... {parameter}\" directive"));
    let remedy = "name files in \"ssl_certificate\" and \"ssl_certificate_key\", or write \"ssl_certificate auto;\" for a \
                  certificate from a CA that speaks ACME";
    cx.report(problem.reported_at(place).at(place).hint(remedy))
}

/// QUIC has TLS 1.3 (RFC 9001 section 4.2). The address's default server decides, as in nginx.
fn check_versions<V: TlsServer, P>(
    address: &ListenAddress<P>,
    planned: &[ServerPlan<'_, V, P>],
    cx: &mut Cx,
) -> Result<(), Problem> {
    let default = &planned[address.default_server()];
    if default.server.tls().is_none_or(|tls| tls.has_tls13) {
        return Ok(());
    }
    let place = default.written.place;
    let problem = Problem::new("\"ssl_protocols\" must enable TLSv1.3 for the \"listen ... quic\" directive");
    cx.report(problem.reported_at(place).at(place))
}

/// The servers of an address.
fn at<V: TlsServer, P: ListenProtocols>(
    address: &ListenAddress<P>,
    planned: &[ServerPlan<'_, V, P>],
    alpn: &impl for<'s> Fn(&'s V, P) -> Vec<&'s [u8]>,
    cx: &mut Cx,
) -> VirtualServers<V> {
    let plans = address.servers.iter().map(|index| &planned[*index]);
    let named = plans.clone().map(|plan| (plan.names, plan.server, plan.written.place));
    let names = NameTable::of(named, &address.spec.name, cx);
    let default = planned[address.default_server()].server.clone();
    let all: Vec<Arc<V>> = plans.map(|plan| plan.server.clone()).collect();
    let protocols = address.protocols;
    let (proxy_protocol, tls) = (protocols.proxy_protocol(), protocols.tls());
    let sessions = if tls {
        SessionSettings::new(&all, &*default, |server: &V| alpn(server, protocols))
    } else {
        SessionSettings::default()
    };
    VirtualServers { names, default, all, proxy_protocol, tls, sessions }
}
