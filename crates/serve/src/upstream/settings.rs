//! The directives about connections to upstream servers that all services have.
//!
//! Each service has them as a part of its own group of settings. Their values may have variables of its subjects, and most of
//! the group belongs to the service alone.

/// Declares a group of the directives `proxy_…` of a service: the directives in braces, which are written as in
/// [`settings!`](freerun_conf::settings!), and the directives of all services. The contexts are for all of the latter. Where a
/// family shares the group, `tls for` names the members that have the directives of TLS.
///
/// The group has methods that make what the common directives say the settings of a connection and of a session of TLS.
#[macro_export]
macro_rules! upstream_settings {
    (
        $(#[doc = $doc:literal])*
        #[module = $module:literal]
        pub struct $name:ident<$subject:ty> in $($context:ident)|+ $(, tls for $tls:ident)? { $($own:tt)* }
        $(also { $($also:tt)* })?
    ) => {
        ::freerun_conf::settings! {
            $(#[doc = $doc])*
            #[module = $module]
            pub struct $name {
                $($own)*
                /// The local address of connections to upstream servers: an address, optionally with a port, or variables. With
                /// `transparent` it may be an address of another machine, such as the client's. `off` cancels the value of an
                /// outer level.
                proxy_bind: $crate::upstream::Bind<$subject> = "off", in $($context)|+;
                /// Whether variables in `proxy_bind` are evaluated for each server that is asked, instead of once for a request or
                /// session.
                proxy_bind_dynamic: bool = "off", in $($context)|+, since = "1.29.3";
                /// The time in which a request or session may be passed to a next server; 0 is no limit.
                proxy_next_upstream_timeout: ::core::time::Duration = "0", in $($context)|+;
                /// The number of servers that a request or session may be passed to; 0 is no limit.
                proxy_next_upstream_tries: u32 = "0", in $($context)|+;
                /// Whether the kernel probes connections to upstream servers (`SO_KEEPALIVE`).
                proxy_socket_keepalive: bool = "off", in $($context)|+;
                /// The size of the receive buffer of connections to upstream servers (`SO_RCVBUF`); by default the kernel's
                /// choice.
                proxy_socket_rcvbuf: Option<::freerun_conf::Size>, in $($context)|+, since = "1.31.3";
                /// The size of the send buffer of connections to upstream servers (`SO_SNDBUF`); by default the kernel's choice.
                proxy_socket_sndbuf: Option<::freerun_conf::Size>, in $($context)|+, since = "1.31.3";
                /// A file with the certificate for upstream servers that ask for one. An empty value cancels the value of an
                /// outer level.
                ///
                /// If the name has variables, sessions are resumed only as long as `proxy_ssl_certificate_cache` keeps the
                /// certificate, and not at all where `proxy_ssl_conf_command` names the algorithms that it may sign with.
                proxy_ssl_certificate: Option<$crate::tls::values::ComputedFile<$crate::values::Template<$subject>>>, in $($context)|+ $(, members = $tls)?;
                /// Keeps certificates whose names have variables in memory.
                ///
                /// A key that was decrypted with the passwords of one location (`proxy_ssl_password_file`) is kept for locations with
                /// the same passwords alone.
                proxy_ssl_certificate_cache: $crate::tls::values::CertificateCacheValue = "off", in $($context)|+ $(, members = $tls)?, since = "1.27.4", fidelity = Differs("certificates are kept with `proxy_ssl_password_file`, too");
                /// A file with the key of the certificate. `ssl_certificate_key` takes the same kinds of keys and
                /// of encryption.
                proxy_ssl_certificate_key: Option<$crate::tls::values::ComputedFile<$crate::values::Template<$subject>>>, in $($context)|+ $(, members = $tls)?, fidelity = Differs("keys for RSA-PSS alone and of Ed448 are refused, and so are some rare ciphers of encrypted keys");
                /// The ciphers that are allowed, in OpenSSL's syntax.
                proxy_ssl_ciphers: $crate::tls::values::AlgorithmList = "DEFAULT", in $($context)|+ $(, members = $tls)?, fidelity = Differs("suites with forward secrecy and authenticated encryption alone are there");
                /// A command for OpenSSL.
                proxy_ssl_conf_command: ::freerun_conf::Many<$crate::tls::values::ConfCommand>, in $($context)|+ $(, members = $tls)?, fidelity = Differs("what is not there is named by a warning");
                /// A file with revoked certificates.
                proxy_ssl_crl: Option<$crate::tls::values::FileName>, in $($context)|+ $(, members = $tls)?;
                /// A file for the secrets of sessions with upstream servers, in the format of `SSLKEYLOGFILE`, which Wireshark
                /// reads.
                ///
                /// **Whoever reads this file can decrypt the sessions**: see `ssl_key_log`, which has the same rules. In nginx the
                /// directive is part of the commercial subscription.
                proxy_ssl_key_log: Option<$crate::tls::key_log::KeyLogPath>, in $($context)|+ $(, members = $tls)?, since = "1.27.2";
                /// The name that the server's certificate has to have, and that is sent with `proxy_ssl_server_name`. Without the
                /// directive it is the host that requests or sessions are passed to.
                proxy_ssl_name: Option<$crate::values::Template<$subject>>, in $($context)|+ $(, members = $tls)?, fidelity = Differs("with `proxy_ssl_server_name`, a name of more than 253 bytes is an error (502, in `stream` 500)");
                /// A file with the passwords of keys, one a line.
                proxy_ssl_password_file: Option<$crate::tls::values::PasswordFile>, in $($context)|+ $(, members = $tls)?;
                /// The versions of the protocol that are allowed.
                proxy_ssl_protocols: $crate::tls::values::ProtocolSet = "TLSv1.2 TLSv1.3", in $($context)|+ $(, members = $tls)?, fidelity = Differs("TLS 1.2 and 1.3 alone are there; a connection of TLS 1.2 with AES-GCM ends after 2^24 records of one side");
                /// Whether the name is sent, so that a server with several names can choose its certificate (SNI).
                proxy_ssl_server_name: bool = "off", in $($context)|+ $(, members = $tls)?;
                /// Whether sessions are resumed.
                proxy_ssl_session_reuse: bool = "on", in $($context)|+ $(, members = $tls)?;
                /// A file with the certificate authorities that are trusted.
                proxy_ssl_trusted_certificate: Option<$crate::tls::values::FileName>, in $($context)|+ $(, members = $tls)?;
                /// Whether the server's certificate is verified.
                proxy_ssl_verify: bool = "off", in $($context)|+ $(, members = $tls)?;
                /// The longest chain of certificates from the server's to an authority.
                proxy_ssl_verify_depth: u32 = "1", in $($context)|+ $(, members = $tls)?;
            }
            $(also { $($also)* })?
        }

        impl $name {
            /// The settings of connections from this local address, or from an address that the kernel chooses. `nodelay` is off.
            pub fn connect_from(
                &self,
                local: ::core::option::Option<$crate::upstream::Local>,
            ) -> ::freerun_upstream::connect::ConnectOptions {
                ::freerun_upstream::connect::ConnectOptions {
                    bind: local.map(|local| local.address),
                    transparent: local.is_some_and(|local| local.transparent),
                    sndbuf: self.proxy_socket_sndbuf.map(::freerun_conf::Size::in_memory),
                    rcvbuf: self.proxy_socket_rcvbuf.map(::freerun_conf::Size::in_memory),
                    keepalive: self.proxy_socket_keepalive,
                    nodelay: false,
                }
            }

            /// The limits of the tries of a request or session.
            pub fn try_limits(&self) -> $crate::upstream::tries::TryLimits {
                $crate::upstream::tries::TryLimits {
                    count: self.proxy_next_upstream_tries,
                    time: self.proxy_next_upstream_timeout,
                }
            }

            /// The settings that the directives of TLS make. Their names begin with `prefix`; `alpn` are the protocols that servers
            /// are offered, best first.
            pub fn tls_spec(
                &self,
                prefix: &'static str,
                alpn: ::std::vec::Vec<::std::vec::Vec<u8>>,
            ) -> $crate::tls::upstream::UpstreamSpec {
                $crate::tls::upstream::UpstreamSpec {
                    prefix,
                    certificate: self.proxy_ssl_certificate.as_ref().map(|file| file.name.clone()),
                    key: self.proxy_ssl_certificate_key.as_ref().map(|file| file.name.clone()),
                    certificate_cache: self.proxy_ssl_certificate_cache.0,
                    passwords: self.proxy_ssl_password_file.clone(),
                    protocols: self.proxy_ssl_protocols,
                    ciphers: self.proxy_ssl_ciphers.clone(),
                    commands: self.proxy_ssl_conf_command.to_vec(),
                    verify: self.proxy_ssl_verify,
                    depth: self.proxy_ssl_verify_depth,
                    trusted: self.proxy_ssl_trusted_certificate.clone(),
                    lists: self.proxy_ssl_crl.clone(),
                    server_name: self.proxy_ssl_server_name,
                    session_reuse: self.proxy_ssl_session_reuse,
                    key_log: self.proxy_ssl_key_log.clone(),
                    alpn,
                }
            }

            /// The names of the certificate that servers with TLS are shown, as they are for this subject. An empty name stands
            /// for no certificate.
            pub fn certificate_names(
                &self,
                subject: &$subject,
            ) -> ::core::option::Option<$crate::tls::computed::PairNames> {
                let value = |text: &$crate::values::Template<$subject>| text.render(subject).into_owned();
                let certificate = self.proxy_ssl_certificate.as_ref()?.computed(value);
                let key = self.proxy_ssl_certificate_key.as_ref()?.computed(value);
                (!certificate.is_empty()).then_some($crate::tls::computed::PairNames { certificate, key })
            }
        }
    };
}
