//! TLS of a client connection (`listen … ssl`): the handshake, with the virtual server that the client names, and the
//! error log's words when there is none, as nginx has them.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::tls::handshake::{HandshakeHelpers, Offer, Refusal, Speaks, shake_hands};
use freerun_serve::tls::ocsp::Visit;
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::sessions::Chosen;
use freerun_transport::Transport;

use crate::http_loop::HttpLoop;
use crate::log::Peer;
use crate::protocol::computed_certificates;
use crate::request::generation::{LoopGeneration, Servers};
use crate::request::location::Server;
use crate::request::response::LocalBoxFuture;
use crate::request::{ClientConnection, ConnectionFacts, Request};

/// Lets the client have a TLS session if it wants one; of the bytes that have come, `buffer` keeps those of a client that
/// does not. `None` if the connection is to be closed: there is no session, which is logged, or a CA has looked at a challenge
/// and needs nothing else.
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
        let challenges = generation.http.challenges.as_ref();
        if let Some(config) = challenges.and_then(|challenges| challenges.session(offer.hello, offer.message)) {
            is_challenge.set(true);
            return Ok(config);
        }
        let facts = TlsFacts::of(offer, generation.http.keeps_hello);
        let name = facts.server_name();
        connection.set_tls(facts);
        let asked_for = servers.in_handshake(name.as_deref());
        match servers.session(offer, asked_for, generation.shared())? {
            Chosen::Ready(config) => Ok(config),
            Chosen::Computed(server) => {
                let alpn = servers.protocols(asked_for).alpn();
                let config = computed_certificates::config_for(connection, &generation, &servers, server, alpn);
                config.await.map_err(|line| {
                    if !line.is_empty() {
                        connection.log(Level::Error, format_args!("{line}{}", Handshaking(connection)));
                    }
                    Refusal::BadCertificate
                })
            }
        }
    };
    // Of all that a connection waits for, this happens once: in a box it takes no room in what waits for requests.
    match Box::pin(shake_hands(&connection.transport, timer, timeout, helpers, buffer, choose)).await {
        Ok(_) if is_challenge.get() => None,
        Ok(speaks) => {
            if speaks == Speaks::Tls {
                let facts = connection.tls()?;
                let server = servers.negotiated(facts);
                if let Some(zone) = &server.zone {
                    zone.established(&connection.transport);
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
            let message = format_args!("{}{}", error.of_client(), Handshaking(connection));
            connection.log(error.level(), message);
            None
        }
    }
}

/// Whether the client and the server have agreed on HTTP/2 by ALPN (RFC 7301, RFC 9113 section 3.2).
pub fn is_http2(connection: &ClientConnection) -> bool {
    let session = connection.transport.established();
    session.and_then(|session| session.with_agreed(|agreed| agreed.alpn == Some(b"h2"))).unwrap_or(false)
}

/// The threads that do long steps for this connection, and where they are counted.
fn helpers<'c>(client: &'c ConnectionFacts, generation: &'c LoopGeneration) -> HandshakeHelpers<'c> {
    HandshakeHelpers {
        pool: generation.pools.handshakes(),
        lane: client.listen.lane(),
        figures: &client.loop_state.shared.client_tls,
    }
}

/// Verifies the client's certificate by the rules of this server, if it asks for one. `None` if the client has gone
/// meanwhile.
async fn verify(
    client: &ConnectionFacts,
    transport: &Transport,
    generation: &LoopGeneration,
    server: &Server,
    tls: &Arc<ServerTls>,
    facts: &TlsFacts,
) -> Option<()> {
    let (helpers, context) = (helpers(client, generation), Handshaking(client));
    let (log, paths) = (&generation.error_log, generation.services.socket_paths(client.peer.key()));
    let visit = Visit { helpers, paths, log, connection: client.number, context: &context };
    // A client that is refused gets its answer when it has sent a request.
    facts.verify(tls, transport, &visit, server.zone.as_ref().map(|zone| zone.tls())).await.map(|_| ())
}

/// Verifies the client's certificate again if the server that the request is for comes from a later configuration than
/// the last verification: the authority may have been replaced since, or the certificate revoked. `None` if there is nothing
/// to verify, as nearly always; the future's result is `None` if the client has gone meanwhile.
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
    // The session of a connection that is no byte stream cannot be looked into here: such a request ends.
    let Some(transport) = client.carrier() else { return Some(Box::pin(std::future::ready(None))) };
    loops::note(client.number, "verifying a client again");
    // This is rare: in a box it takes no room in what waits for requests.
    Some(Box::pin(verify(client, transport, &request.generation, server, tls, facts)))
}

/// The end of a line of the log: what is being done, and for whom.
struct Handshaking<'c>(&'c ConnectionFacts);

impl fmt::Display for Handshaking<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, server) = (Peer(&self.0.peer), &self.0.listen.name);
        write!(to, " while SSL handshaking, client: {client}, server: {server}")
    }
}
