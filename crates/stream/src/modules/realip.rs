//! `set_real_ip_from`: takes the client's address from the PROXY protocol header of a trusted proxy.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_realip_module.html>

use freerun_conf::{Many, SettingsSet, group, parse_address, settings};
use freerun_serve::Address;
use freerun_serve::access::Trusted;
use freerun_serve::address::Peer;
use freerun_serve::values::{Value, Variable};

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, Outcome, Phase, Run};

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
        set_real_ip_from: Many<Trusted>, in STREAM | STREAM_SERVER;
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<RealIpSettings>().set_real_ip_from.is_empty()
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/realip",
    groups: &[group::<RealIpSettings>()],
    handlers: &[Handler { phase: Phase::PostAccept, wanted, run: Run::Now(run) }],
    variables: &[
        Variable::named(
            "realip_remote_addr",
            "The client's address as it was before the module replaced it.",
            |session, _| text(Peer(session.origin()).to_string()),
        ),
        Variable::named(
            "realip_remote_port",
            "The client's port as it was before the module replaced it.",
            |session, _| match session.origin() {
                Address::Ip(address) if address.port() != 0 => text(address.port().to_string()),
                _ => text(String::new()),
            },
        ),
    ],
    ..Module::EMPTY
};

fn text<'s>(value: String) -> Value<'s> {
    Some(value.into_bytes().into())
}

fn run(session: &Session) -> Outcome {
    let settings = session.settings();
    let trusted = &settings.get::<RealIpSettings>().set_real_ip_from;
    if trusted.iter().any(|one| one.contains(session.origin()))
        && let Some(ends) = session.proxied().and_then(|header| header.ends.as_ref())
        && let Some(mut address) = parse_address(&ends.client)
    {
        address.set_port(ends.client_port);
        session.set_peer(Address::Ip(address));
    }
    Outcome::Declined
}
