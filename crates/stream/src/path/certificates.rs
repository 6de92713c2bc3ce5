//! Certificates whose names have variables (`ssl_certificate $ssl_server_name.crt`): the values of the variables, as they are
//! when a client has named a server and has no session of TLS yet.

use std::sync::Arc;

use freerun_serve::tls::computed::{PairNames, PairReader};
use freerun_serve::tls::values::ComputedFile;
use freerun_serve::values::Template;
use freerun_tls::session::ServerConfig;
use freerun_transport::Transport;

use crate::session::Session;
use crate::session::server::Server;
use crate::settings::ssl::SslSettings;

/// The settings of a session with the certificate of this server, for a client that asks for `chosen`.
///
/// # Errors
/// The line for the error log; it is empty if the client has gone.
pub(super) async fn config_for(
    session: &Session,
    transport: &Transport,
    server: &Arc<Server>,
    chosen: &Server,
) -> Result<ServerConfig, String> {
    let missing = || String::from("no \"ssl_certificate\" is defined in server listening on SSL port");
    if let Some(facts) = session.tls() {
        facts.check_name()?;
    }
    let own = server.tls.as_ref().ok_or_else(missing)?;
    let computed = own.computed().ok_or_else(missing)?;
    let ssl = server.settings.get::<SslSettings>();
    let of = |file: &ComputedFile<Template<Session>>| file.computed(|template| template.render(session).into_owned());
    let pair = |number: usize| {
        let certificate = of(&ssl.ssl_certificate.get(number)?.0);
        Some(PairNames { certificate, key: of(ssl.ssl_certificate_key.get(number)?) })
    };
    let names: Vec<PairNames> = computed.numbers().filter_map(pair).collect();
    let services = &session.generation.services;
    let reader = PairReader {
        pool: services.pools.default(),
        files: &services.files,
        paths: &services.paths,
        client: session.client_key(),
        gone: || transport.gone_for_reader(),
    };
    // The session is bound to the address by the settings of its default server.
    let resumption = session.servers.default.tls.as_ref().unwrap_or(own);
    let alpn = chosen.settings.get::<SslSettings>().alpn();
    computed.config_at(resumption, &alpn, &names, &reader).await
}
