//! The way of a session: through the phases to its content, and to its end.

mod certificates;
pub mod finish;
mod preread;
mod proxy_header;
mod tls;

pub use tls::named;

use std::rc::Rc;

use freerun_proto::Status;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::listen::address::Peer;
use freerun_serve::{Address, Subject};

use crate::client::ClientSide;
use crate::session::handler::{HandlerRun, Phase, PhaseOutcome};
use crate::session::{INITIALIZING, Session};
use crate::settings::core::CoreSettings;

/// Leads a session through the phases up to its content.
///
/// # Errors
/// The status with which it ends before that.
pub async fn to_content(session: &Rc<Session>) -> Result<(), Status> {
    if let Some(datagrams) = session.client.datagrams() {
        // The first one is there.
        session.received.set(datagrams.counts().received);
    }
    tell_beginning(session);
    let mut timer = Timer::default();
    let mut buffer = session.take_preread();
    if let ClientSide::Stream(transport) = &session.client
        && session.servers.proxy_protocol
    {
        proxy_header::read(session, transport, &mut timer, &mut buffer).await?;
        session.set_step(INITIALIZING);
    }
    for phase in [Phase::PostAccept, Phase::PreAccess, Phase::Access] {
        run(session, phase).await?;
    }
    if let ClientSide::Stream(transport) = &session.client
        && session.servers.tls
        && transport.established().is_none()
    {
        loops::note(session.number, "TLS handshake");
        session.set_step(tls::STEP);
        // Of all that a session waits for, this happens once: in a box it takes no room in what waits for the rest.
        Box::pin(tls::open(session, transport, &mut timer, &mut buffer)).await?;
        session.set_step(INITIALIZING);
    }
    preread::run(session, &mut timer, &mut buffer).await?;
    session.put_preread(buffer);
    if let ClientSide::Stream(transport) = &session.client
        && session.listen.ip.is_some()
        && session.settings().get::<CoreSettings>().tcp_nodelay
    {
        transport.set_nodelay();
    }
    session.set_step("");
    Ok(())
}

/// Runs the handlers of a phase before the content.
async fn run(session: &Session, phase: Phase) -> Result<(), Status> {
    let server = session.server();
    for handler in server.handlers(phase) {
        let outcome = match handler {
            HandlerRun::Now(run) => run(session),
            HandlerRun::NowOrAfterEvents(now, then) => match now(session) {
                Some(outcome) => outcome,
                None => {
                    loops::after_events().await;
                    then(session)
                }
            },
            HandlerRun::Preread(_) => continue,
        };
        if let PhaseOutcome::End(status) = outcome {
            return Err(status);
        }
    }
    Ok(())
}

/// Logs that a client has come, as nginx does.
fn tell_beginning(session: &Session) {
    let kind = match session.client {
        ClientSide::Stream(_) => "",
        ClientSide::Datagrams(_) => "udp ",
    };
    let server = &session.listen.name;
    match session.peer() {
        Address::Ip(address) => {
            session.log_bare(Level::Info, format_args!("{kind}client {address} connected to {server}"));
        }
        peer @ Address::Unix(_) => {
            session.log_bare(Level::Info, format_args!("{kind}client {} connected to {server}", Peer(peer)));
        }
    }
}

/// Logs a message at the level of what clients do.
fn tell(session: &Session, message: std::fmt::Arguments<'_>) {
    session.log(Level::Info, message);
}
