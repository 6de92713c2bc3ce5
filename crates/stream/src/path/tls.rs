//! The handshake of TLS (`listen … ssl`), with the virtual server that the client names.

use std::rc::Rc;
use std::sync::Arc;

use freerun_proto::Status;
use freerun_runtime::log::Level;
use freerun_runtime::timer::Timer;
use freerun_serve::Subject;
use freerun_serve::tls::agreed_session::AgreedSession;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::tls::handshake::{HandshakeError, HandshakeHelpers, Offer, Refusal, Speaks, shake_hands};
use freerun_serve::tls::ocsp::Visit;
use freerun_serve::tls::sessions::SessionChoice;
use freerun_transport::Transport;

use super::{certificates, tell};
use crate::session::Session;
use crate::session::handler::status;
use crate::session::server::SessionServer;
use crate::settings::ssl::SslSettings;

/// The step, in the words of the error log.
pub(super) const STEP: &str = "SSL handshaking";

/// Has a TLS session with the client; `buffer` has the bytes that have come already. The server that the client names has
/// the session from then on.
///
/// # Errors
/// The status with which the session ends: there is no session of TLS, or the client's certificate is refused. Both are
/// logged.
pub(super) async fn open(
    session: &Rc<Session>,
    transport: &Transport,
    timer: &mut Timer,
    buffer: &mut Vec<u8>,
) -> Result<(), Status> {
    let timeout = session.settings().get::<SslSettings>().ssl_handshake_timeout;
    let helpers = helpers(session);
    let servers = session.servers.clone();
    let choose = async |offer: Offer<'_>| {
        let facts = TlsFacts::of(offer, session.generation.stream.keeps_hello);
        let chosen = named(session, facts.server_name().as_deref());
        session.set_tls(facts);
        session.set_server(session.generation.server(&chosen));
        match servers.session(offer, &chosen, session.generation.shared())? {
            SessionChoice::Ready(config) => Ok(config),
            SessionChoice::Computed(server) => {
                let config = certificates::config_for(session, transport, server, &chosen);
                config.await.map_err(|line| {
                    if !line.is_empty() {
                        session.log(Level::Error, format_args!("{line}"));
                    }
                    Refusal::BadCertificate
                })
            }
        }
    };
    let shaken = shake_hands(transport, timer, timeout, helpers, buffer, choose).await;
    if !matches!(shaken, Ok(Speaks::Tls)) {
        // A client that has not come to a ClientHello has shown no certificate, as `$ssl_client_verify` says.
        session.set_tls(TlsFacts::new(None, None));
    }
    match shaken {
        Ok(Speaks::Tls) => {
            // They are known since the ClientHello.
            let Some(facts) = session.tls() else { return Err(status::INTERNAL_SERVER_ERROR) };
            if let Some(agreed) = transport.tls().and_then(|tls| tls.with_session(AgreedSession::of)?) {
                if let Some(zone) = &session.server().zone {
                    zone.established(&agreed);
                }
                facts.establish(agreed);
            }
            verify(session, facts, transport).await
        }
        Ok(Speaks::Plain) => {
            // In OpenSSL's words, whose records have another version.
            let (number, words) = match &buffer[..] {
                [b'G', b'E', b'T', b' ', ..]
                | [b'P', b'O', b'S', b'T', b' ', ..]
                | [b'H', b'E', b'A', b'D', b' ', ..] => ("0A00009C", "http request"),
                _ => ("0A00010B", "wrong version number"),
            };
            tell(session, format_args!("SSL_do_handshake() failed (SSL: error:{number}:SSL routines::{words})"));
            Err(status::INTERNAL_SERVER_ERROR)
        }
        Err(error) => {
            helpers.figures.failed(&error);
            if let Some(zone) = &session.server().zone {
                zone.tls().failed(&error);
            }
            match error {
                // nginx tells nothing of these.
                HandshakeError::TimedOut => {}
                HandshakeError::Left => tell(session, format_args!("{}", HandshakeError::Closed)),
                error => session.log(error.level(), format_args!("{error}")),
            }
            Err(status::INTERNAL_SERVER_ERROR)
        }
    }
}

/// The server of the session's address with this name, or the default server.
pub fn named(session: &Session, name: Option<&str>) -> Arc<SessionServer> {
    let servers = &session.servers;
    match servers.for_name(name, session.captures()) {
        Ok(server) => server.clone(),
        Err(error) => {
            session.log(Level::Alert, format_args!("{error} on \"{}\"", name.unwrap_or_default()));
            servers.default.clone()
        }
    }
}

/// The threads that do long steps for this session, and where they are counted.
fn helpers(session: &Session) -> HandshakeHelpers<'_> {
    HandshakeHelpers {
        pool: session.generation.pools.handshakes(),
        lane: session.listen.lane(),
        figures: &session.loop_state.shared.client_tls,
    }
}

/// Verifies the client's certificate by the rules of the session's server, if that asks for one.
async fn verify(session: &Session, facts: &TlsFacts, transport: &Transport) -> Result<(), Status> {
    let server = session.server();
    let Some(tls) = &server.tls else { return Ok(()) };
    let (helpers, context) = (helpers(session), session.context());
    let log = server.error_log(&session.generation);
    let paths = session.generation.services.socket_paths(session.client_key());
    let visit = Visit { helpers, paths, log, connection: session.number, context: &context };
    match facts.verify(tls, transport, &visit, server.zone.as_ref().map(|zone| zone.tls())).await {
        Some(Ok(())) => Ok(()),
        Some(Err(refusal)) => {
            tell(session, format_args!("{refusal}"));
            Err(status::INTERNAL_SERVER_ERROR)
        }
        None => Err(status::INTERNAL_SERVER_ERROR),
    }
}
