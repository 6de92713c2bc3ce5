//! The directives of TLS, which freerun does not have yet: `ssl_…` and `proxy_ssl_…` are read and checked, and have no
//! effect.
//!
//! Configurations without TLS may contain them all the same, for example Debian's `nginx.conf`. If TLS is asked for
//! (`listen … ssl`, `proxy_pass https://…`) the configuration is refused. Of files only the names are read.

use freerun_conf::{Cx, Many, Problem, SettingsSet, group, settings};
use freerun_http::module::Module;
use freerun_serve::tls::unused::{File, Unused, Written};
use freerun_serve::tls::values::{CertificateCache, ConfCommand, ProtocolSet};

/// The reason why the directives have no effect, for the reference.
const NO_TLS: &str = "freerun does not have TLS yet";

settings! {
    /// TLS towards upstream servers of `proxy_pass`.
    ///
    /// freerun does not have it yet. The directives are accepted, because no request is passed to `https://`; one
    /// warning names those that are used.
    #[module = "proxy_ssl"]
    pub struct ProxySslSettings {
        /// A file with the certificate that is sent to upstream servers.
        proxy_ssl_certificate: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// Keeps certificates whose names have variables in memory.
        proxy_ssl_certificate_cache: Option<Unused<CertificateCache>>, in HTTP | SERVER | LOCATION, since = "1.27.4",
            fidelity = NoEffect(NO_TLS);
        /// A file with the key of the certificate.
        proxy_ssl_certificate_key: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// The ciphers that are allowed, in OpenSSL's syntax.
        proxy_ssl_ciphers: Unused<String> = "DEFAULT", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// A command for OpenSSL.
        proxy_ssl_conf_command: Many<ConfCommand>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// A file with revoked certificates.
        proxy_ssl_crl: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// The name that the server's certificate has to have, and that is sent with `proxy_ssl_server_name`.
        proxy_ssl_name: Unused<String> = "$proxy_host", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// A file with the passwords of keys, one a line.
        proxy_ssl_password_file: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// The versions of the protocol that are allowed.
        proxy_ssl_protocols: ProtocolSet = "TLSv1.2 TLSv1.3", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect(NO_TLS);
        /// Whether the name is sent, so that a server with several names can choose its certificate (SNI).
        proxy_ssl_server_name: Unused<bool> = "off", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// Whether sessions are resumed.
        proxy_ssl_session_reuse: Unused<bool> = "on", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// A file with the certificate authorities that are trusted.
        proxy_ssl_trusted_certificate: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// Whether the server's certificate is verified.
        proxy_ssl_verify: Unused<bool> = "off", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// The longest chain of certificates from the server's to an authority.
        proxy_ssl_verify_depth: Unused<u32> = "1", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
    }
}

/// The module `ssl`.
pub static MODULE: Module = Module {
    name: "ssl",
    groups: &[group::<ProxySslSettings>()],
    finish: Some(finish),
    ..Module::EMPTY
};

/// Warns once that they have no effect.
fn finish(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let Some(Written { names, first: Some((order, place, end)) }) = cx.extensions.remove::<Written>() else {
        return Ok(());
    };
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let have = if names.len() == 1 { "has" } else { "have" };
    let message = format!("{} {have} no effect: TLS is not supported yet", names.join(", "));
    let mut warning = Problem::warning(message).at(place).reported_at(end);
    warning.order = Some(order);
    cx.warn(warning);
    Ok(())
}

