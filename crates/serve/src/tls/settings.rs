//! The directives of TLS towards clients, for all services.
//!
//! Each service has them as a group of settings of its own: the names of certificates may have variables of its
//! subjects, and some directives belong to one service alone.

/// The reason why `ssl_ech_file` has no effect, for the reference. Most builds of nginx ignore it too.
pub const NO_ECH: &str = "the TLS library has no encrypted ClientHello for servers";

/// Declares the group of the directives `ssl_…` of a service: the common directives, and the service's own in braces,
/// written as in [`settings!`](freerun_conf::settings!). Their contexts are the service's block and its servers.
///
/// The group has a method `spec`, which makes what the common directives say the specification of a server.
#[macro_export]
macro_rules! ssl_settings {
    (
        $(#[doc = $doc:literal])*
        #[module = $module:literal]
        pub struct $name:ident in $outer:ident | $inner:ident { $($own:tt)* }
    ) => {
        ::freerun_conf::settings! {
            $(#[doc = $doc])*
            #[module = $module]
            pub struct $name {
                $($own)*
                /// Keeps certificates whose names have variables in memory.
                ///
                /// A key that was decrypted with the passwords of one server (`ssl_password_file`) is kept for servers with the same
                /// passwords alone.
                ssl_certificate_cache: $crate::tls::values::CertificateCacheValue = "off", in $outer | $inner, since = "1.27.4", fidelity = Differs("what is kept outlives a reload that changes none of the parameters; of more than 2048 elements it is not always the least recently used one that goes; certificates are kept with `ssl_password_file`, too");
                /// Whether certificates are sent compressed.
                ssl_certificate_compression: bool = "off", in $outer | $inner, since = "1.29.1", fidelity = Differs("zlib and brotli are there, zstd is not");
                /// The ciphers that are allowed, in OpenSSL's syntax.
                ssl_ciphers: $crate::tls::values::AlgorithmList = "HIGH:!aNULL:!MD5", in $outer | $inner, fidelity = Differs("suites with forward secrecy and authenticated encryption alone are there");
                /// A file with the certificate authorities that verify clients' certificates; their names are sent to clients.
                ssl_client_certificate: Option<$crate::tls::values::FileName>, in $outer | $inner;
                /// A command for OpenSSL.
                ///
                /// `SignatureAlgorithms` and `ClientSignatureAlgorithms` are filters: among the algorithms that are
                /// allowed and offered, the library takes the one it likes best.
                ssl_conf_command: ::freerun_conf::Many<$crate::tls::values::ConfCommand>, in $outer | $inner, fidelity = Differs("what is not there is named by a warning");
                /// A file with revoked certificates.
                ssl_crl: Option<$crate::tls::values::FileName>, in $outer | $inner;
                /// A file with parameters for the key exchange DHE.
                ssl_dhparam: Option<$crate::tls::values::FileName>, in $outer | $inner, fidelity = NoEffect("no suite that is there uses it; the file is checked");
                /// The curves for the key exchange ECDHE.
                ///
                /// `auto` stands for `X25519MLKEM768:X25519:P-256:P-384:P-521`.
                ssl_ecdh_curve: $crate::tls::values::AlgorithmList = "auto", in $outer | $inner, fidelity = Differs("X448, the Brainpool curves and the groups of DHE are not there, and `auto` does not have them; a name of one is a warning");
                /// A file with keys for encrypted client hellos.
                ssl_ech_file: ::freerun_conf::Many<$crate::tls::ech::EchFile>, in $outer | $inner, since = "1.29.4", fidelity = NoEffect($crate::tls::settings::NO_ECH);
                /// A file for the secrets of clients' sessions, in the format of `SSLKEYLOGFILE`, which Wireshark reads.
                ///
                /// **Who reads this file can decrypt the sessions**, so it is for tests alone, and a warning says so
                /// whenever the configuration is read. Only its owner may read the file: it is opened with mode 0600,
                /// and an existing file with more rights loses them. Its lines are written as in other logs, away from
                /// the event loops, and it is reopened with them. The path is relative to the prefix. In nginx the
                /// directive is part of the commercial subscription.
                ssl_key_log: Option<$crate::tls::key_log::KeyLogPath>, in $outer | $inner, since = "1.27.2";
                /// Asks OCSP responders whether clients' certificates have been revoked: all of a chain (`on`) or the client's own
                /// alone (`leaf`).
                ///
                /// The client's handshake waits for the answer, for 60 seconds at most at each address of a responder; other clients do
                /// not. Without a good answer the client is refused like one whose certificate is not trusted. Only `http://`
                /// is spoken. Names of responders in certificates need a `resolver`.
                ssl_ocsp: $crate::tls::values::Ocsp = "off", in $outer | $inner;
                /// Keeps what OCSP responders say about clients' certificates for as long as they say themselves, or for an hour.
                ///
                /// Servers that name the same zone share it, and it is kept over a reload.
                ssl_ocsp_cache: $crate::tls::values::OcspCache = "off", in $outer | $inner;
                /// The URL of the OCSP responder, instead of the one in the certificate.
                ssl_ocsp_responder: Option<$crate::tls::ocsp::Url>, in $outer | $inner;
                /// A file with the passwords of keys, one a line.
                ssl_password_file: Option<$crate::tls::values::PasswordFile>, in $outer | $inner;
                /// Whether the server's order of ciphers is preferred to the client's.
                ssl_prefer_server_ciphers: bool = "off", in $outer | $inner;
                /// The versions of the protocol that are allowed.
                ssl_protocols: $crate::tls::values::ProtocolSet = "TLSv1.2 TLSv1.3", in $outer | $inner, fidelity = Differs("TLS 1.2 and 1.3 alone are there; a connection of TLS 1.2 with AES-GCM ends after 2^24 records of one side");
                /// Whether every handshake is refused.
                ssl_reject_handshake: bool = "off", in $outer | $inner;
                /// The cache for sessions that may be resumed.
                ///
                /// A session of a client whose certificate is refused is forgotten.
                ssl_session_cache: $crate::tls::values::SessionCacheValue = "none", in $outer | $inner, fidelity = Differs("all workers of nginx have a `builtin` cache each, here it is one; a session that is offered to another server than its own is not resumed, and a full handshake follows; clients of TLS 1.3 whose sessions are kept here, not in tickets, are told that they may be resumed for a day, whatever `ssl_session_timeout` lets them");
                /// A file with the key of session tickets.
                ssl_session_ticket_key: ::freerun_conf::Many<$crate::tls::values::FileName>, in $outer | $inner, fidelity = Differs("nginx and freerun cannot resume sessions of each other");
                /// Whether sessions are resumed by tickets.
                ///
                /// With `sync` several machines have the same keys, through `zone_sync_engine` and encrypted by `zone_sync_secret`: a session that
                /// began on one is resumed on another. One of them makes a new key whenever `ssl_session_timeout` has passed, and it seals
                /// tickets once all have it. While the engine is away, each machine goes on with keys of its own. Keys of files go first.
                ssl_session_tickets: $crate::tls::values::SessionTickets = "on", in $outer | $inner, fidelity = Differs("keys that no file has outlive a reload, and are replaced whenever `ssl_session_timeout` has passed; a ticket that is offered to another server than its own is not taken, and a full handshake follows");
                /// The time during which a session may be resumed.
                ssl_session_timeout: ::freerun_conf::Seconds = "5m", in $outer | $inner;
                /// Whether an OCSP response is sent with the certificate to clients that want one.
                ///
                /// The response is fetched when the first client wants one, which does not wait for it. It is fetched
                /// again after an hour or five minutes before its end, whichever is earlier; after a failure in five
                /// minutes. A certificate without the URL of a responder is warned of. The response is kept over a
                /// reload.
                ssl_stapling: bool = "off", in $outer | $inner;
                /// A file with the OCSP response in DER that is sent with all certificates of the server; then no responder is asked.
                ssl_stapling_file: Option<$crate::tls::values::FileName>, in $outer | $inner;
                /// The URL of the OCSP responder for stapling, instead of the one in the certificate.
                ssl_stapling_responder: Option<$crate::tls::ocsp::Url>, in $outer | $inner;
                /// Whether the OCSP response for stapling has to be signed by the issuer of the certificate, or by somebody whom the issuer
                /// has appointed for it.
                ssl_stapling_verify: bool = "off", in $outer | $inner;
                /// A file with certificate authorities that are trusted; their names are not sent to clients.
                ssl_trusted_certificate: Option<$crate::tls::values::FileName>, in $outer | $inner;
                /// The longest chain of certificates from a client's to an authority.
                ssl_verify_depth: u32 = "1", in $outer | $inner;
            }
        }

        impl $name {
            /// The specification of a server with these certificates and keys, or with certificates that no file has (`live`).
            /// Names in certificates are looked up by `resolving`. `service` is the name of the service.
            pub fn spec(
                &self,
                service: &'static str,
                (certificates, keys): (
                    ::std::vec::Vec<$crate::tls::values::FileName>,
                    ::std::vec::Vec<$crate::tls::values::FileName>,
                ),
                live: ::std::vec::Vec<::std::sync::Arc<$crate::tls::live::LivePair>>,
                resolving: ::core::option::Option<$crate::tls::ocsp::OcspResolver>,
            ) -> $crate::tls::server::ServerSpec {
                $crate::tls::server::ServerSpec {
                    service,
                    certificates,
                    keys,
                    live,
                    certificate_cache: self.ssl_certificate_cache.0,
                    passwords: self.ssl_password_file.clone(),
                    protocols: self.ssl_protocols,
                    ciphers: self.ssl_ciphers.clone(),
                    curves: self.ssl_ecdh_curve.clone(),
                    prefer_server_ciphers: self.ssl_prefer_server_ciphers,
                    commands: self.ssl_conf_command.to_vec(),
                    buffer_size: $crate::tls::server::ServerSpec::BUFFER_SIZE,
                    rejects: self.ssl_reject_handshake,
                    cache: self.ssl_session_cache.clone(),
                    tickets: self.ssl_session_tickets,
                    ticket_keys: self.ssl_session_ticket_key.to_vec(),
                    timeout: ::core::time::Duration::from_secs(self.ssl_session_timeout.0),
                    early_data: false,
                    compression: self.ssl_certificate_compression,
                    verify: self.ssl_verify_client,
                    depth: self.ssl_verify_depth,
                    client_certificates: self.ssl_client_certificate.clone(),
                    trusted: self.ssl_trusted_certificate.clone(),
                    lists: self.ssl_crl.clone(),
                    dhparam: self.ssl_dhparam.clone(),
                    ocsp: $crate::tls::ocsp::OcspSpec {
                        stapling: self.ssl_stapling,
                        stapling_file: self.ssl_stapling_file.clone(),
                        stapling_responder: self.ssl_stapling_responder.clone(),
                        stapling_verify: self.ssl_stapling_verify,
                        clients: self.ssl_ocsp,
                        responder: self.ssl_ocsp_responder.clone(),
                        cache: self.ssl_ocsp_cache.clone(),
                        resolving,
                    },
                    key_log: self.ssl_key_log.clone(),
                }
            }
        }
    };
}
