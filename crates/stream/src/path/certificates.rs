//! Certificates whose names have variables (`ssl_certificate $ssl_server_name.crt`): the values of the variables, as they are
//! when a client has named a server and has no session of TLS yet.

use freerun_serve::tls::computed::PairReader;
use freerun_serve::tls::server::ComputedSettings;
use freerun_serve::values::Template;
use freerun_tls::session::ServerConfig;
use freerun_transport::Transport;

use crate::session::Session;
use crate::session::server::SessionServer;
use crate::settings::ssl::SslSettings;

/// The settings of a session with the certificate of this server, for a client that asks for `chosen`.
///
/// # Errors
/// The line for the error log; it is empty if the client has gone.
pub(super) async fn config_for(
    session: &Session,
    transport: &Transport,
    server: &SessionServer,
    chosen: &SessionServer,
) -> Result<ServerConfig, String> {
    let ssl = server.settings.get::<SslSettings>();
    let names = |computed: &ComputedSettings| {
        let files = |number: usize| Some((&ssl.ssl_certificate.get(number)?.0, ssl.ssl_certificate_key.get(number)?));
        Some(computed.names(files, |template: &Template<Session>| template.render(session).into_owned()))
    };
    let gone = || transport.gone_for_reader();
    let reader = PairReader::of(&session.generation.services, session.client_key(), gone);
    let alpn = chosen.settings.get::<SslSettings>().alpn();
    session.servers.computed_session(server, session.tls(), &alpn, names, &reader).await
}
