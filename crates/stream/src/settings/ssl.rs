//! The directives of TLS towards clients (`ssl_…`).
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_ssl_module.html>

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value};
use freerun_serve::ssl_settings;
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::values::{ComputedFile, ServerCertificate, VerifyClient};
use freerun_serve::upstream::resolver_settings::ResolverSettings;
use freerun_serve::values::Template;

use super::listen::SERVICE;
use crate::session::Session;

ssl_settings! {
    /// TLS towards clients of sessions.
    #[module = "stream/ssl"]
    pub struct SslSettings in STREAM | STREAM_SERVER {
        /// The application protocols that the server offers (RFC 7301), the most preferred first. A client that offers some,
        /// but none of these, is refused.
        ssl_alpn: Option<Alpn>, in STREAM | STREAM_SERVER;
        /// A file with the server's certificate and the intermediate certificates.
        ///
        /// `watch` (freerun's own) is as in `http`: a certificate that was renewed is used without a reload. `auto` is not
        /// there.
        ssl_certificate: Many<ServerCertificate<Template<Session>>>, in STREAM | STREAM_SERVER, fidelity = Differs("`watch` is freerun's own");
        /// A file with the key of the certificate.
        ///
        /// Keys of RSA (2048 bits and more), of ECDSA with P-256, P-384 or P-521, and of Ed25519 are there. Those for RSA-PSS alone
        /// (`id-RSASSA-PSS`) and of Ed448 are refused: the library does not sign with them.
        ///
        /// A key may be encrypted in PKCS#8 by PBES2 with AES or DES-EDE3 in CBC mode, its own key derived by PBKDF2 or
        /// scrypt, or by `PBE-SHA1-3DES`. In the older form it may be encrypted by DES, DES-EDE3, AES or SEED. Other
        /// ciphers, such as Camellia, ARIA and modes like OFB, are refused as not supported.
        ssl_certificate_key: Many<ComputedFile<Template<Session>>>, in STREAM | STREAM_SERVER, fidelity = Differs("a key of another type than the certificate's is refused when it is loaded; keys for RSA-PSS alone and of Ed448 are refused, and so are some rare ciphers of encrypted keys");
        /// Longest time for the handshake. A session whose handshake takes longer ends with status 500.
        ssl_handshake_timeout: Duration = "60s", in STREAM | STREAM_SERVER;
        /// Whether clients have to show a certificate. A client whose certificate is refused has no session.
        ssl_verify_client: VerifyClient = "off", in STREAM | STREAM_SERVER, fidelity = Differs("the certificate of a session that is resumed is verified again, so that one that was revoked meanwhile is refused; clients with keys of Ed448 have no certificate here");
    }
}

/// The value of `ssl_alpn`.
#[derive(Debug, Clone)]
pub struct Alpn(pub Arc<[Box<[u8]>]>);

impl Value for Alpn {
    const SHAPE: Shape = Shape::at_least(1, "protocol …");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Alpn, Problem> {
        let name = |word: &freerun_conf::Word| match word.text.len() {
            1..=255 => Ok(word.bytes().into()),
            _ => Err(Problem::new("protocol too long").at(word.place)),
        };
        directive.args.iter().map(name).collect::<Result<_, _>>().map(Alpn)
    }
}

impl SslSettings {
    /// The application protocols.
    pub fn alpn(&self) -> Vec<&[u8]> {
        self.ssl_alpn.iter().flat_map(|alpn| alpn.0.iter()).map(|name| &**name).collect()
    }
}

/// The TLS of a virtual server, if it has a certificate, refuses handshakes or asks clients for certificates.
///
/// # Errors
/// The directives contradict each other, or a file cannot be used, in nginx's words.
pub fn server_tls(settings: &SettingsSet, cx: &mut Cx) -> Result<Option<Arc<ServerTls>>, Problem> {
    let ssl = settings.get::<SslSettings>();
    let asks = ssl.ssl_verify_client != VerifyClient::Off;
    if ssl.ssl_certificate.is_empty() && !ssl.ssl_reject_handshake && !asks {
        return Ok(None);
    }
    if let Some(auto) = ssl.ssl_certificate.iter().find(|certificate| certificate.is_auto()) {
        let problem = Problem::new("\"ssl_certificate auto\" is not there in \"stream\"");
        return Err(auto.0.name.spot.blamed(problem.hint("name the file of a certificate")));
    }
    let certificates = ssl.ssl_certificate.iter().map(|file| file.0.name.clone()).collect();
    let keys = ssl.ssl_certificate_key.iter().map(|file| file.name.clone()).collect();
    let resolving = settings.get::<ResolverSettings>().resolving();
    ServerTls::of(ssl.spec(SERVICE, (certificates, keys), Vec::new(), resolving), cx).map(Some)
}
