//! Certificates whose names have variables (`ssl_certificate $ssl_server_name.crt`): the values of the variables, as they are
//! when a client has named a server and has no session yet.

use std::rc::Rc;
use std::sync::Arc;

use freerun_proto::{HeadRules, parse_request};
use freerun_runtime::loops;
use freerun_serve::tls::computed::{PairNames, PairReader};
use freerun_serve::tls::values::{ComputedFile, ServerCertificate};
use freerun_tls::session::ServerConfig;

use crate::message::head::Head;
use crate::request::generation::LoopGeneration;
use crate::request::location::Server;
use crate::request::{ClientStream, Connection, Request};
use crate::settings::acme::{self, OfServer};
use crate::template::Template;

/// The settings of a session with this server, at an address with this default server, with these protocols above TLS.
///
/// # Errors
/// The line for the error log; it is empty if the client has gone.
pub async fn config_for(
    connection: &Rc<Connection>,
    generation: &Rc<LoopGeneration>,
    server: &Arc<Server>,
    default: &Arc<Server>,
    alpn: &[&[u8]],
) -> Result<ServerConfig, String> {
    let missing = || String::from("no \"ssl_certificate\" is defined in server listening on SSL port");
    if let Some(facts) = connection.tls() {
        facts.check_name()?;
    }
    let own = server.tls.as_ref().ok_or_else(missing)?;
    let computed = own.computed().ok_or_else(missing)?;
    let names = {
        let request = request(connection, generation, server).ok_or_else(missing)?;
        let OfServer { files: certificates, keys, .. } = acme::of_server(&server.entry.settings);
        let of = |file: &ComputedFile<Template>| file.computed(|template| template.render(&request).into_owned());
        let pair = |number| {
            let certificate: &ServerCertificate<Template> = certificates.get(number).copied()?;
            Some(PairNames { certificate: of(&certificate.0), key: of(keys.get(number).copied()?) })
        };
        computed.numbers().filter_map(pair).collect::<Vec<_>>()
    };
    let services = &generation.services;
    let reader = PairReader {
        pool: services.pools.default(),
        files: &services.files,
        paths: &services.paths,
        client: connection.peer.key(),
        gone: || connection.transport.gone_for_reader(),
    };
    // The session is bound to the address by the settings of its default server.
    let resumption = default.tls.as_ref().unwrap_or(own);
    computed.config_at(resumption, alpn, &names, &reader).await
}

/// A request that nobody has sent, for the values of variables: nothing is known but the connection and the server.
fn request(connection: &Rc<Connection>, generation: &Rc<LoopGeneration>, server: &Arc<Server>) -> Option<Request> {
    let buffer = b"GET / HTTP/1.0\r\n\r\n".to_vec();
    let parsed = parse_request(&buffer, &HeadRules::default()).ok().flatten()?;
    let client = ClientStream::of_connection(connection.clone());
    let place = (generation.server(server), generation.location(&server.entry));
    Some(Request::new(client, generation.clone(), place, Head::new(buffer, parsed), 0, loops::now()))
}
