//! The directives of TLS towards clients (`ssl_…`).
//!
//! <https://nginx.org/en/docs/http/ngx_http_ssl_module.html>

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Many, Problem, Seconds, SettingsSet, Size, settings};
use freerun_serve::tls::ech::EchFile;
use freerun_serve::tls::key_log::KeyLogPath;
use freerun_serve::tls::ocsp::{OcspSpec, Resolving, Url};
use freerun_serve::tls::server::{ServerSpec, ServerTls};
use freerun_serve::tls::values::{
    CertificateCacheValue, ComputedFile, ConfCommand, FileName, Listed, Ocsp, OcspCache, PasswordFile, ProtocolSet,
    ServerCertificate, SessionCacheValue, VerifyClient,
};

use super::acme;
use super::resolver::ResolverSettings;
use crate::template::Template;

/// The reason why `ssl_ech_file` has no effect, for the reference. Most builds of nginx ignore it too.
const NO_ECH: &str = "the TLS library has no encrypted ClientHello for servers";

settings! {
    /// TLS towards clients.
    #[module = "ssl"]
    pub struct SslSettings {
        /// The size of the buffer that responses are sent through.
        ssl_buffer_size: Size = "16k", in HTTP | SERVER;
        /// A file with the server's certificate and the intermediate certificates.
        ///
        /// With `watch` (freerun's own) the file and that of the key are looked at every 10 seconds, or every *time*, and a
        /// certificate that was renewed is used without a reload: where a symbolic link leads elsewhere, where the file was
        /// replaced or was written again. Certificate and key have to fit together; until they do, the old pair stays and the
        /// error log says why, once for each change. Sessions stay resumable. The files are read with the rights of the
        /// master, so keys may belong to root alone. Names with variables, `data:` and `engine:` cannot be watched.
        ///
        /// `auto` (freerun's own) is a certificate for the server's names from the `acme_issuer` that there is, or from the one
        /// that is named `default`. It needs no `ssl_certificate_key`. In `http` it holds for all servers that listen with `ssl`.
        /// `ssl_certificate $acme_certificate` uses the certificate of `acme_certificate`. A file with the name `auto` is
        /// `./auto`.
        ssl_certificate: Many<ServerCertificate<Template>>, in HTTP | SERVER, fidelity = Differs("`watch` and `auto` are freerun's own");
        /// Keeps certificates whose names have variables in memory.
        ssl_certificate_cache: CertificateCacheValue = "off", in HTTP | SERVER, since = "1.27.4", fidelity = Differs("what is kept outlives a reload that changes none of the parameters");
        /// Whether certificates are sent compressed.
        ssl_certificate_compression: bool = "off", in HTTP | SERVER, since = "1.29.1", fidelity = Differs("zlib and brotli are there, zstd is not");
        /// A file with the key of the certificate.
        ssl_certificate_key: Many<ComputedFile<Template>>, in HTTP | SERVER, fidelity = Differs("a key of another type than the certificate's is refused when it is loaded");
        /// The ciphers that are allowed, in OpenSSL's syntax.
        ssl_ciphers: Listed = "HIGH:!aNULL:!MD5", in HTTP | SERVER, fidelity = Differs("suites with forward secrecy and authenticated encryption alone are there");
        /// A file with the certificate authorities that verify clients' certificates; their names are sent to clients.
        ssl_client_certificate: Option<FileName>, in HTTP | SERVER;
        /// A command for OpenSSL.
        ///
        /// `SignatureAlgorithms` and `ClientSignatureAlgorithms` are filters: of those that are allowed and offered, the library
        /// takes the one that it likes best.
        ssl_conf_command: Many<ConfCommand>, in HTTP | SERVER, fidelity = Differs("what is not there is named by a warning");
        /// A file with revoked certificates.
        ssl_crl: Option<FileName>, in HTTP | SERVER;
        /// A file with parameters for the key exchange DHE.
        ssl_dhparam: Option<FileName>, in HTTP | SERVER, fidelity = NoEffect("no suite that is there uses it; the file is checked");
        /// Whether a client may send a request before the handshake is over.
        ssl_early_data: bool = "off", in HTTP | SERVER, fidelity = Differs("needs `ssl_session_cache` with a store; sessions are not in tickets then, and each brings early data once");
        /// The curves for the key exchange ECDHE.
        ssl_ecdh_curve: Listed = "auto", in HTTP | SERVER;
        /// A file with keys for encrypted client hellos.
        ssl_ech_file: Many<EchFile>, in HTTP | SERVER, since = "1.29.4", fidelity = NoEffect(NO_ECH);
        /// A file for the secrets of clients' sessions, in the format of `SSLKEYLOGFILE`, which Wireshark reads.
        ///
        /// **Who reads this file can decrypt the sessions**, so it is for tests alone, and a warning says so whenever the
        /// configuration is read. Only its owner may read the file: it is opened with mode 0600, and one that has more rights
        /// loses them. Its lines are written like those of other logs, away from the event loops, and it is reopened with them.
        /// The path is relative to the prefix. In nginx the directive is part of the commercial subscription.
        ssl_key_log: Option<KeyLogPath>, in HTTP | SERVER, since = "1.27.2";
        /// Asks OCSP responders whether clients' certificates have been revoked: all of a chain (`on`) or the client's own
        /// alone (`leaf`).
        ///
        /// The client's handshake waits for the answer, for 60 seconds at most at each address of a responder; other clients do
        /// not. Without a good answer the client is refused like one whose certificate is not trusted (495). Only `http://`
        /// is spoken. Names of responders in certificates need a `resolver`.
        ssl_ocsp: Ocsp = "off", in HTTP | SERVER;
        /// Keeps what OCSP responders say about clients' certificates for as long as they say themselves, or for an hour.
        ///
        /// Servers that name the same zone share it, and it is kept over a reload.
        ssl_ocsp_cache: OcspCache = "off", in HTTP | SERVER;
        /// The URL of the OCSP responder, instead of the one in the certificate.
        ssl_ocsp_responder: Option<Url>, in HTTP | SERVER;
        /// A file with the passwords of keys, one a line.
        ssl_password_file: Option<PasswordFile>, in HTTP | SERVER;
        /// Whether the server's order of ciphers is preferred to the client's.
        ssl_prefer_server_ciphers: bool = "off", in HTTP | SERVER;
        /// The versions of the protocol that are allowed.
        ssl_protocols: ProtocolSet = "TLSv1.2 TLSv1.3", in HTTP | SERVER, fidelity = Differs("TLS 1.2 and 1.3 alone are there; a connection of TLS 1.2 with AES-GCM ends after 2^24 records of one side");
        /// Whether every handshake is refused.
        ssl_reject_handshake: bool = "off", in HTTP | SERVER;
        /// The cache for sessions that may be resumed.
        ///
        /// A session of a client whose certificate is refused is forgotten.
        ssl_session_cache: SessionCacheValue = "none", in HTTP | SERVER, fidelity = Differs("all workers of nginx have a `builtin` cache each, here it is one; a session that is offered to another server than its own is not resumed, and a full handshake follows; clients of TLS 1.3 whose sessions are kept here, not in tickets, are told that they may be resumed for a day, whatever `ssl_session_timeout` lets them");
        /// A file with the key of session tickets.
        ssl_session_ticket_key: Many<FileName>, in HTTP | SERVER, fidelity = Differs("nginx and freerun cannot resume sessions of each other");
        /// Whether sessions are resumed by tickets.
        ssl_session_tickets: bool = "on", in HTTP | SERVER, fidelity = Differs("keys that no file has outlive a reload, and are replaced whenever `ssl_session_timeout` has passed; a ticket that is offered to another server than its own is not taken, and a full handshake follows");
        /// How long a session may be resumed.
        ssl_session_timeout: Seconds = "5m", in HTTP | SERVER;
        /// Whether an OCSP response is sent with the certificate to clients that want one.
        ///
        /// It is fetched when the first client wants one, which does not wait for it, and again after an hour or five minutes
        /// before its end, whichever is earlier; after a failure in five minutes. A certificate without the URL of a responder
        /// is warned of. The response is kept over a reload.
        ssl_stapling: bool = "off", in HTTP | SERVER;
        /// A file with the OCSP response in DER that is sent with all certificates of the server; then no responder is asked.
        ssl_stapling_file: Option<FileName>, in HTTP | SERVER;
        /// The URL of the OCSP responder for stapling, instead of the one in the certificate.
        ssl_stapling_responder: Option<Url>, in HTTP | SERVER;
        /// Whether the OCSP response for stapling has to be signed by the issuer of the certificate, or by somebody whom the issuer
        /// has appointed for it.
        ssl_stapling_verify: bool = "off", in HTTP | SERVER;
        /// A file with certificate authorities that are trusted; their names are not sent to clients.
        ssl_trusted_certificate: Option<FileName>, in HTTP | SERVER;
        /// Whether clients have to show a certificate.
        ///
        /// A request for a server that asks for certificates is answered only on a connection whose handshake has named that
        /// server; on others it gets 421 (nginx 1.22 answers 400 where the client has named no server that there is).
        ssl_verify_client: VerifyClient = "off", in HTTP | SERVER, fidelity = Differs("the certificate of a session that is resumed is verified again, so that one that was revoked meanwhile is refused");
        /// The longest chain of certificates from a client's to an authority.
        ssl_verify_depth: u32 = "1", in HTTP | SERVER;
    }
}

/// What a virtual server has of TLS, if it has a certificate, refuses handshakes or asks clients for certificates.
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
    let names = settings.get::<ResolverSettings>();
    let resolving = names.resolver.as_ref().map(|resolver| {
        let (resolver, timeout) = (resolver.0.clone(), names.resolver_timeout);
        Resolving { resolver, timeout }
    });
    let ocsp = OcspSpec {
        stapling: ssl.ssl_stapling,
        stapling_file: ssl.ssl_stapling_file.clone(),
        stapling_responder: ssl.ssl_stapling_responder.clone(),
        stapling_verify: ssl.ssl_stapling_verify,
        clients: ssl.ssl_ocsp,
        responder: ssl.ssl_ocsp_responder.clone(),
        cache: ssl.ssl_ocsp_cache.clone(),
        resolving,
    };
    let spec = ServerSpec {
        certificates: own.files.iter().map(|file| file.0.name.clone()).collect(),
        keys: own.keys.iter().map(|file| file.name.clone()).collect(),
        live,
        certificate_cache: ssl.ssl_certificate_cache.0,
        passwords: ssl.ssl_password_file.clone(),
        protocols: ssl.ssl_protocols,
        ciphers: ssl.ssl_ciphers.clone(),
        curves: ssl.ssl_ecdh_curve.clone(),
        prefer_server_ciphers: ssl.ssl_prefer_server_ciphers,
        commands: ssl.ssl_conf_command.to_vec(),
        buffer_size: usize::try_from(ssl.ssl_buffer_size.0).unwrap_or(usize::MAX),
        rejects: ssl.ssl_reject_handshake,
        cache: ssl.ssl_session_cache.clone(),
        tickets: ssl.ssl_session_tickets,
        ticket_keys: ssl.ssl_session_ticket_key.to_vec(),
        timeout: Duration::from_secs(ssl.ssl_session_timeout.0),
        early_data: ssl.ssl_early_data,
        compression: ssl.ssl_certificate_compression,
        verify: ssl.ssl_verify_client,
        depth: ssl.ssl_verify_depth,
        client_certificates: ssl.ssl_client_certificate.clone(),
        trusted: ssl.ssl_trusted_certificate.clone(),
        lists: ssl.ssl_crl.clone(),
        dhparam: ssl.ssl_dhparam.clone(),
        ocsp,
        key_log: ssl.ssl_key_log.clone(),
    };
    ServerTls::of(spec, cx).map(Some)
}
