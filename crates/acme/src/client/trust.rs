//! Whether the CA's own server is trusted.

use freerun_serve::http_client::trust;
use freerun_serve::tls::handshake::outgoing_session::OutgoingTls;

use crate::settings::IssuerSettings;

/// The directive that names authorities.
const DIRECTIVE: &str = "ssl_trusted_certificate";

/// The settings of a TLS connection to the CA's server of this name. The system's certificates are read anew for each
/// connection, because orders are rare and the certificates change.
pub(super) fn outgoing_tls(settings: &IssuerSettings, name: &str) -> Result<OutgoingTls, String> {
    let trust = match (&settings.trusted, settings.verify) {
        (_, false) => None,
        (Some(pem), true) => Some(trust::of_pem(pem, DIRECTIVE)?),
        (None, true) => Some(trust::of_system(DIRECTIVE)?),
    };
    trust::outgoing_tls(name, trust, &[])
}
