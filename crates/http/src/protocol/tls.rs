//! TLS of a client connection (`listen … ssl`): the handshake with the virtual server that the client names, and
//! nginx's messages about its failure.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::tls::agreed_session::AgreedSession;
use freerun_serve::tls::client_facts::{CertificateHolder, TlsFacts};
use freerun_serve::tls::handshake::{HandshakeHelpers, Offer, Refusal, Speaks, shake_hands};
use freerun_serve::tls::ocsp::Visit;
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::sessions::SessionChoice;
use freerun_tls::session::ServerConfig;

use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::protocol::computed_certificates;
use crate::request::generation::{LoopGeneration, Servers};
use crate::request::location::Server;
use crate::request::response::LocalBoxFuture;
use crate::request::{ClientConnection, ClientStream, ConnectionFacts, Request};

/// Lets the client have a TLS session if it wants one; `buffer` keeps the bytes of a client that does not. `None` if
/// the connection is to be closed: there is no session, which is logged, or a CA has looked at a challenge and needs
/// nothing else.
pub async fn open(
    http: &HttpLoop,
    connection: &Rc<ClientConnection>,
    timer: &mut Timer,
    timeout: Duration,
    buffer: &mut Vec<u8>,
) -> Option<Speaks> {
    loops::note(connection.number, "TLS handshake");
    let (generation, servers, _) = http.servers(connection)?;
    let helpers = helpers(connection, &generation);
    let is_challenge = Cell::new(false);
    let choose = async |offer: Offer<'_>| {
        let client = ClientStream::of_connection(connection.clone());
        let gone = || connection.transport.gone_for_reader();
        let chosen = choose_settings(&client, gone, &generation, &servers, offer, |server| {
            servers.protocols(server).alpn().to_vec()
        });
        let chosen = chosen.await?;
        is_challenge.set(chosen.is_challenge);
        Ok(chosen.config)
    };
    // Of all that a connection waits for, this happens once: in a box it takes no room in what waits for requests.
    match Box::pin(shake_hands(&connection.transport, timer, timeout, helpers, buffer, choose)).await {
        Ok(_) if is_challenge.get() => None,
        Ok(speaks) => {
            if speaks == Speaks::Tls {
                let facts = connection.tls()?;
                facts.establish(connection.transport.tls()?.with_session(AgreedSession::of)??);
                let server = servers.negotiated(facts);
                if let Some(zone) = &server.zone {
                    zone.established(&*facts.agreed()?);
                }
                if let Some(tls) = &server.tls {
                    verify(connection, &connection.transport, &generation, server, tls, facts).await?;
                }
                // From now on, the server that the client has named answers on the connection.
                connection.served_by.take();
                let _ = http.servers(connection);
            }
            Some(speaks)
        }
        Err(error) => {
            helpers.figures.failed(&error);
            let server = connection.tls().map_or(&servers.default, |facts| servers.negotiated(facts));
            if let Some(zone) = &server.zone {
                zone.tls().failed(&error);
            }
            let message = format_args!("{}{}", error.of_client(), HandshakeLogEnd(connection));
            connection.log(error.level(), message);
            None
        }
    }
}

/// The settings of a session that were chosen for a client.
pub(super) struct ChosenSettings {
    /// The settings.
    pub(super) config: ServerConfig,
    /// Whether a CA looks at the answer to a challenge, and needs nothing else.
    pub(super) is_challenge: bool,
}

/// Chooses the settings of the session with a client that makes this offer, and notes the facts that the offer gives. `gone`
/// resolves when the client has gone; `alpn` are the protocols above TLS of a server.
///
/// # Errors
/// The handshake is refused.
pub(super) async fn choose_settings<G: Future<Output = ()>>(
    client: &ClientStream,
    gone: impl Fn() -> G,
    generation: &Rc<LoopGeneration>,
    servers: &Servers,
    offer: Offer<'_>,
    alpn: impl Fn(&Server) -> Vec<&'static [u8]>,
) -> Result<ChosenSettings, Refusal> {
    let challenges = generation.http.challenges.as_ref();
    if let Some(config) = challenges.and_then(|challenges| challenges.session(offer.hello, offer.message)) {
        return Ok(ChosenSettings { config, is_challenge: true });
    }
    let facts = TlsFacts::of(offer, generation.http.keeps_hello);
    let name = facts.server_name();
    client.set_tls(facts);
    let asked_for = servers.in_handshake(name.as_deref());
    let config = match servers.session(offer, asked_for, generation.shared())? {
        SessionChoice::Ready(config) => config,
        SessionChoice::Computed(server) => {
            let alpn = alpn(asked_for);
            let config = computed_certificates::config_for(client, gone, generation, servers, server, &alpn);
            config.await.map_err(|line| {
                if !line.is_empty() {
                    client.log(Level::Error, format_args!("{line}{}", HandshakeLogEnd(client)));
                }
                Refusal::BadCertificate
            })?
        }
    };
    Ok(ChosenSettings { config, is_challenge: false })
}

/// Whether the client and the server have agreed on HTTP/2 by ALPN (RFC 7301, RFC 9113 section 3.2).
pub fn is_http2(facts: &ConnectionFacts) -> bool {
    let agreed = facts.tls().and_then(TlsFacts::agreed);
    agreed.is_some_and(|agreed| agreed.alpn.as_deref() == Some(b"h2"))
}

/// The threads that do long steps for this connection, and where they are counted.
pub(super) fn helpers<'c>(client: &'c ConnectionFacts, generation: &'c LoopGeneration) -> HandshakeHelpers<'c> {
    HandshakeHelpers {
        pool: generation.pools.handshakes(),
        lane: client.listen.lane(),
        figures: &client.loop_state.shared.client_tls,
    }
}

/// Verifies the client's certificate by the rules of this server, if it asks for one. `None` if the client has gone
/// meanwhile.
pub(super) async fn verify(
    client: &ConnectionFacts,
    holder: &impl CertificateHolder,
    generation: &LoopGeneration,
    server: &Server,
    tls: &Arc<ServerTls>,
    facts: &TlsFacts,
) -> Option<()> {
    let (helpers, context) = (helpers(client, generation), HandshakeLogEnd(client));
    let (log, paths) = (&generation.error_log, generation.services.socket_paths(client.first_peer.key()));
    let visit = Visit { helpers, paths, log, connection: client.number, context: &context };
    // A client that is refused gets its answer when it has sent a request.
    facts.verify(tls, holder, &visit, server.zone.as_ref().map(|zone| zone.tls())).await.map(|_| ())
}

/// Verifies the client's certificate again if the server that the request is for comes from a later configuration than
/// the last verification. The authority may have been replaced since, or the certificate revoked. `None` if there is
/// nothing to verify, as nearly always; the future's result is `None` if the client has gone meanwhile.
pub fn verify_anew<'r>(request: &'r Request, servers: &Servers) -> Option<LocalBoxFuture<'r, Option<()>>> {
    let (client, server) = (&request.client, &request.place.server);
    let (facts, tls) = (client.tls()?, server.tls.as_ref()?);
    if tls.verification.is_none() || facts.was_verified_by(tls) {
        return None;
    }
    // A request for a server that the client has not named in its handshake is refused; it changes nothing for others.
    if !server.is(servers.negotiated(facts)) {
        return None;
    }
    loops::note(client.number, "verifying a client again");
    // This is rare: in a box it takes no room in what waits for requests.
    Some(Box::pin(verify(client, client, &request.generation, server, tls, facts)))
}

/// The end of a line of the log: what is being done, and for whom.
pub(super) struct HandshakeLogEnd<'c>(pub(super) &'c ConnectionFacts);

impl fmt::Display for HandshakeLogEnd<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, server) = (Peer(&self.0.first_peer), &self.0.listen.name);
        write!(to, " while SSL handshaking, client: {client}, server: {server}")
    }
}
