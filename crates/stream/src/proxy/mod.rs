//! `proxy_pass` of stream: sessions are passed on to a server of a group.
//!
//! `reach.rs` has a server reached: it is chosen, connected to, told of the client by the PROXY protocol, and has a TLS
//! session; `error.rs` has the consequences of errors. From then on a session is a `relayed.rs`, which is small. `record.rs`
//! has `$upstream_addr` and its kin.

mod error;
mod pass;
mod reach;
mod record;
mod relayed;
mod settings;

use std::rc::Rc;

use freerun_conf::{Cx, Problem, SettingsSet, group};
use freerun_runtime::log::Level;
use freerun_serve::Subject;
use freerun_serve::tls::upstream::UpstreamTls;

pub use self::pass::ProxyPass;
pub use self::record::Record;
pub use self::relayed::Relayed;
pub use self::settings::ProxySettings;
use self::reach::Tries;
use crate::module::Module;
use crate::session::Session;

/// Sessions that are passed on.
pub static MODULE: Module = Module {
    name: "stream_proxy",
    groups: &[group::<ProxySettings>()],
    variables: record::VARIABLES,
    settle: Some(settle),
    ..Module::EMPTY
};

/// Makes what servers need for TLS, when the directives of a server are known.
fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<ProxySettings>();
    if let Some(pass) = own.proxy_pass.as_ref().filter(|_| own.proxy_ssl) {
        let _ = pass.tls.set(UpstreamTls::of(own.tls_spec(), cx)?);
    }
    Ok(())
}

/// Reaches a server for the session. `preread` are the bytes that the client has sent already.
///
/// # Errors
/// `$status` of the session; the reason was logged.
pub async fn reach(session: &Session, preread: &[u8]) -> Result<Relayed, u16> {
    let settings = session.settings().get::<ProxySettings>();
    // The handler is set only where the directive is.
    let Some(pass) = &settings.proxy_pass else { return Err(500) };
    let record: Rc<Record> = session.own.get::<Record>();
    session.set_passed_to(record.clone());
    let target = match pass.known() {
        Some(target) => target,
        None => Box::pin(pass.look_up(session)).await.map_err(|error| {
            session.log(Level::Error, format_args!("{error}"));
            500u16
        })?,
    };
    let reached = Tries::new(session, settings, &target, pass.tls.get().map(|tls| &**tls), &record).reach().await?;
    if let Some(sticky) = &target.upstream.extra {
        sticky.answered(session, reached.lease.peer(), freerun_upstream::now());
    }
    Ok(Relayed::new(session, settings, &target.upstream, reached, record, preread))
}
