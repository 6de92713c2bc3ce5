//! TLS of a client connection (`listen … ssl`): the handshake, with the virtual server that the client names, and the
//! error log's words when there is none, as nginx has them.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::tls::handshake::{HandshakeError, Helpers, Offer, Refusal, Speaks, shake_hands};
use freerun_serve::tls::server::ClientVerification;
use freerun_tls::session::{FailureKind, ServerConfig, Session};
use freerun_tls::verify::Verified;
use rustc_hash::FxHasher;

use crate::connection::tls_facts::TlsFacts;
use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::request::Connection;
use crate::request::generation::Servers;

/// Lets the client have a TLS session if it wants one; of the bytes that have come, `buffer` keeps those of a client that
/// does not. `None` if the connection is to be closed, which is logged.
pub async fn open(
    http: &HttpLoop,
    connection: &Connection,
    timer: &mut Timer,
    timeout: Duration,
    buffer: &mut Vec<u8>,
) -> Option<Speaks> {
    loops::note(connection.number, "TLS handshake");
    let (generation, servers, _) = http.servers(connection)?;
    let facts = Cell::new(TlsFacts::default());
    let helpers = Helpers {
        pool: generation.pools.handshakes(),
        lane: lane(connection),
        figures: &connection.loop_state.shared.client_tls,
    };
    let keeps_hello = generation.http.keeps_hello;
    let choose = |offer: Offer<'_>| {
        let name = offer.hello.server_name(offer.message);
        let asked_for = name.and_then(|name| std::str::from_utf8(name).ok()).map(Box::from);
        let hello = keeps_hello.then(|| offer.message.into());
        let known = TlsFacts { asked_for, hello, ..TlsFacts::default() };
        let config = config_for(&servers, known.server_name().as_deref());
        facts.set(known);
        config
    };
    // Of all that a connection waits for, this happens once: in a box it takes no room in what waits for requests.
    match Box::pin(shake_hands(&connection.transport, timer, timeout, helpers, buffer, choose)).await {
        Ok(speaks) => {
            if speaks == Speaks::Tls {
                let mut facts = facts.into_inner();
                let named = facts.server_name();
                let server = named.map_or(&servers.default, |name| servers.named(&name));
                if let Some(verification) = server.tls.as_ref().and_then(|tls| tls.verification.as_ref()) {
                    facts.verified = verify(connection, verification, helpers).await?;
                    if facts.verified.refusal(verification.asked).is_some() {
                        helpers.figures.untrusted.add();
                    }
                }
                connection.set_tls(facts);
                // From now on, the server that the client has named answers on the connection.
                connection.served_by.take();
                let _ = http.servers(connection);
            }
            Some(speaks)
        }
        Err(error) => {
            helpers.figures.failed(&error);
            log(connection, &error);
            None
        }
    }
}

/// Verifies the certificate that the client has shown, on a thread of the pool. `None` if the client has gone.
async fn verify(connection: &Connection, verification: &ClientVerification, helpers: Helpers<'_>) -> Option<Verified> {
    let tls = connection.transport.tls()?;
    let sent = |session: &Session| session.peer_certificates().map(<[u8]>::to_vec).collect::<Vec<_>>();
    let sent = tls.with_session(sent)?;
    if sent.is_empty() {
        return Some(Verified::None);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let verification = verification.clone();
    let gone = connection.transport.gone_for_reader();
    helpers.pool.run_in_lane(helpers.lane, gone, move || verification.verify(&sent, now)).await.ok()
}

/// The configuration of the session with a client that asks for this name.
fn config_for(servers: &Servers, name: Option<&str>) -> Result<ServerConfig, Refusal> {
    let chosen = name.map_or(&servers.default, |name| servers.named(name));
    if chosen.tls.as_ref().is_some_and(|tls| tls.rejects) {
        return Err(Refusal::Rejected);
    }
    // A server without a certificate of its own has that of the address's default server.
    let config = servers.sessions.of(chosen).or_else(|| servers.sessions.of(&servers.default));
    config.cloned().ok_or(Refusal::NoCertificate)
}

/// The number of the address that the connection was accepted at, by which addresses take turns.
fn lane(connection: &Connection) -> u64 {
    let mut hasher = FxHasher::default();
    connection.listen.name.hash(&mut hasher);
    hasher.finish()
}

/// Logs that there is no session.
fn log(connection: &Connection, error: &HandshakeError) {
    let (client, server) = (Peer(&connection.peer), &connection.listen.name);
    let context = format_args!(" while SSL handshaking, client: {client}, server: {server}");
    let level = match error {
        HandshakeError::Refused(Refusal::NoCertificate) => Level::Error,
        HandshakeError::Failed(failure) if failure.kind == FailureKind::Internal => Level::Crit,
        _ => Level::Info,
    };
    let whose = if matches!(error, HandshakeError::TimedOut) { "client " } else { "" };
    connection.log(level, format_args!("{whose}{error}{context}"));
}
