//! `set_real_ip_from`: takes the client's address from the PROXY protocol header of a trusted proxy.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_realip_module.html>

use freerun_conf::{Many, SettingsSet, group, settings};
use freerun_serve::Address;
use freerun_serve::limits::access::TrustedSource;
use freerun_serve::values::proxy_header::ProxiedSubject;
use freerun_serve::values::{Variable, address_value, port_value};

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PhaseOutcome};

settings! {
    /// The client's address as a trusted proxy tells it in the PROXY protocol header.
    ///
    /// The address applies to everything that uses the client's: `$remote_addr` and `$remote_port`, logs, `allow` and
    /// `deny`, keys of limits.
    #[module = "stream/realip"]
    pub struct RealIpSettings {
        /// A proxy that is trusted: its address, its network, or all connections of Unix sockets (`unix:`).
        ///
        /// A name stands for all addresses that it has when the configuration is read.
        set_real_ip_from: Many<TrustedSource>, in STREAM | STREAM_SERVER;
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<RealIpSettings>().set_real_ip_from.is_empty()
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/realip",
    groups: &[group::<RealIpSettings>()],
    handlers: &[Handler { phase: Phase::PostAccept, wanted, run: HandlerRun::Now(run) }],
    variables: &[
        Variable::named(
            "realip_remote_addr",
            "The client's address as it was before the module replaced it.",
            |session, _| address_value(session.origin()),
        ),
        Variable::named(
            "realip_remote_port",
            "The client's port as it was before the module replaced it.",
            |session, _| port_value(session.origin()),
        ),
    ],
    ..Module::EMPTY
};

fn run(session: &Session) -> PhaseOutcome {
    let settings = session.settings();
    let trusted = &settings.get::<RealIpSettings>().set_real_ip_from;
    if trusted.iter().any(|one| one.contains(session.origin()))
        && let Some(address) = session.proxied_client()
    {
        session.set_peer(Address::Ip(address));
    }
    PhaseOutcome::Declined
}
