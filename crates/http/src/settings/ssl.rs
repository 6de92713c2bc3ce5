//! The directives of TLS towards clients (`ssl_…`).
//!
//! <https://nginx.org/en/docs/http/ngx_http_ssl_module.html>

use std::sync::Arc;

use freerun_conf::{Cx, Many, Problem, SettingsSet, Size};
use freerun_serve::ssl_settings;
use freerun_serve::tls::server::{ServerSpec, ServerTls};
use freerun_serve::tls::values::{ComputedFile, ServerCertificate, VerifyClient};
use freerun_serve::upstream::resolver_settings::ResolverSettings;

use super::acme;
use super::listen::SERVICE;
use crate::template::Template;

ssl_settings! {
    /// TLS towards clients.
    #[module = "ssl"]
    pub struct SslSettings in HTTP | SERVER {
        /// The size of the buffer that responses are sent through.
        ssl_buffer_size: Size = "16k", in HTTP | SERVER;
        /// A file with the server's certificate and the intermediate certificates.
        ///
        /// With `watch` (freerun's own) the certificate's file and the key's file are looked at every 10 seconds, or
        /// every *time*. A certificate that was renewed is used without a reload: where a symbolic link leads
        /// elsewhere, where the file was replaced or was written again. Certificate and key have to fit together. Until
        /// they do, the old pair stays and the error log says why, once for each change. Sessions stay resumable. The
        /// files are read with the rights of the master, so keys may belong to root alone. Names with variables,
        /// `data:` and `engine:` cannot be watched.
        ///
        /// `auto` (freerun's own) is a certificate for the server's names from the only `acme_issuer`, or from the
        /// issuer with the name `default`. It needs no `ssl_certificate_key`. In `http` it holds for all servers that
        /// listen with `ssl`. `ssl_certificate $acme_certificate` uses the certificate of `acme_certificate`. A file
        /// with the name `auto` is `./auto`.
        ssl_certificate: Many<ServerCertificate<Template>>, in HTTP | SERVER, fidelity = Differs("`watch` and `auto` are freerun's own");
        /// A file with the key of the certificate.
        ///
        /// Keys of RSA (2048 bits and more), of ECDSA with P-256, P-384 or P-521, and of Ed25519 are there. Those for RSA-PSS alone
        /// (`id-RSASSA-PSS`) and of Ed448 are refused: the library does not sign with them.
        ///
        /// A key may be encrypted in PKCS#8 by PBES2 with AES or DES-EDE3 in CBC mode, its own key derived by PBKDF2 or
        /// scrypt, or by `PBE-SHA1-3DES`. In the older form it may be encrypted by DES, DES-EDE3, AES or SEED. Other
        /// ciphers, such as Camellia, ARIA and modes like OFB, are refused as not supported.
        ssl_certificate_key: Many<ComputedFile<Template>>, in HTTP | SERVER, fidelity = Differs("a key of another type than the certificate's is refused when it is loaded; keys for RSA-PSS alone and of Ed448 are refused, and so are some rare ciphers of encrypted keys");
        /// Whether a client may send a request before the handshake is over.
        ssl_early_data: bool = "off", in HTTP | SERVER, fidelity = Differs("needs `ssl_session_cache` with a store; sessions are not in tickets then, and each brings early data once");
        /// Whether clients have to show a certificate.
        ///
        /// A request for a server that asks for certificates is answered only on a connection whose handshake has named
        /// that server. On other connections it gets 421; nginx 1.22 answers 400 where the client has named no existing
        /// server.
        ///
        /// Clients with keys of RSA, of ECDSA with P-256, P-384 or P-521, and of Ed25519 are asked for certificates. One whose key is
        /// of another kind, such as Ed448, shows none: `$ssl_client_verify` is `NONE`.
        ssl_verify_client: VerifyClient = "off", in HTTP | SERVER, fidelity = Differs("the certificate of a session that is resumed is verified again, so that one that was revoked meanwhile is refused; clients with keys of Ed448 have no certificate here");
    }
}

/// The part of a virtual server in TLS, if it has a certificate, refuses handshakes or asks clients for certificates.
///
/// # Errors
/// The directives contradict each other, or a file cannot be used, in nginx's words.
pub fn server_tls(settings: &SettingsSet, cx: &mut Cx) -> Result<Option<Arc<ServerTls>>, Problem> {
    let ssl = settings.get::<SslSettings>();
    let own = acme::of_server(settings);
    let live = acme::live(settings, &own, cx)?;
    let asks = ssl.ssl_verify_client != VerifyClient::Off;
    if own.files.is_empty() && live.is_empty() && !ssl.ssl_reject_handshake && !asks {
        return Ok(None);
    }
    let certificates = own.files.iter().map(|file| file.0.name.clone()).collect();
    let keys = own.keys.iter().map(|file| file.name.clone()).collect();
    let resolving = settings.get::<ResolverSettings>().resolving();
    let spec = ServerSpec {
        buffer_size: usize::try_from(ssl.ssl_buffer_size.0).unwrap_or(usize::MAX),
        early_data: ssl.ssl_early_data,
        ..ssl.spec(SERVICE, (certificates, keys), live, resolving)
    };
    ServerTls::of(spec, cx).map(Some)
}
