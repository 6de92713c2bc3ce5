//! Certificates whose names have variables (`ssl_certificate $ssl_server_name.crt`): the values of the variables, as they are
//! when a client has named a server and has no session yet.

use std::rc::Rc;
use std::sync::Arc;

use freerun_proto::{HeadRules, parse_request};
use freerun_runtime::loops;
use freerun_serve::tls::computed::PairReader;
use freerun_serve::tls::server::ComputedSettings;
use freerun_tls::session::ServerConfig;

use crate::message::head::Head;
use crate::request::generation::{LoopGeneration, Servers};
use crate::request::location::Server;
use crate::request::{ClientStream, Request};
use crate::settings::acme::{self, OfServer};
use crate::template::Template;

/// The settings of a session with a certificate of this server, which is one of `servers`, with these protocols above TLS.
/// `gone` resolves when the client has gone.
///
/// # Errors
/// The line for the error log; it is empty if the client has gone.
pub async fn config_for<G: Future<Output = ()>>(
    client: &ClientStream,
    gone: impl Fn() -> G,
    generation: &Rc<LoopGeneration>,
    servers: &Servers,
    server: &Arc<Server>,
    alpn: &[&[u8]],
) -> Result<ServerConfig, String> {
    let names = |computed: &ComputedSettings| {
        let request = request(client, generation, server)?;
        let OfServer { files, keys, .. } = acme::of_server(&server.entry.settings);
        let files = |number: usize| Some((&files.get(number)?.0, *keys.get(number)?));
        Some(computed.names(files, |template: &Template| template.render(&request).into_owned()))
    };
    let reader = PairReader::of(&generation.services, client.first_peer.key(), gone);
    servers.computed_session(server, client.tls(), alpn, names, &reader).await
}

/// A request that nobody has sent, for the values of variables: nothing is known but the connection and the server.
fn request(client: &ClientStream, generation: &Rc<LoopGeneration>, server: &Arc<Server>) -> Option<Request> {
    let buffer = b"GET / HTTP/1.0\r\n\r\n".to_vec();
    let parsed = parse_request(&buffer, &HeadRules::default()).ok().flatten()?;
    let place = (generation.server(server), generation.location(&server.entry));
    Some(Request::new(client.clone(), generation.clone(), place, Head::new(buffer, parsed), 0, loops::now()))
}
