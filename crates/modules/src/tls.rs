//! The directives of TLS, which freerun does not have yet: `ssl_…` and `proxy_ssl_…` are read and checked, and have no
//! effect.
//!
//! Configurations without TLS may contain them all the same, for example Debian's `nginx.conf`. If TLS is asked for
//! (`listen … ssl`, `proxy_pass https://…`) the configuration is refused. Of files only the names are read.

use std::collections::BTreeSet;

use freerun_conf::{
    Cx, Flags, Many, Node, Place, Problem, Seconds, SettingsSet, Shape, Size, Value, Word, group, keyword_enum,
    parse_size, settings,
};
use freerun_http::module::Module;

/// The reason why the directives have no effect, for the reference.
const NO_TLS: &str = "freerun does not have TLS yet";

keyword_enum! {
    /// A version of the protocol.
    pub enum Protocol {
        /// SSL 2.0
        Ssl2 = "SSLv2",
        /// SSL 3.0
        Ssl3 = "SSLv3",
        /// TLS 1.0
        Tls10 = "TLSv1",
        /// TLS 1.1
        Tls11 = "TLSv1.1",
        /// TLS 1.2
        Tls12 = "TLSv1.2",
        /// TLS 1.3
        Tls13 = "TLSv1.3",
    }
}

keyword_enum! {
    /// The value of `ssl_verify_client`.
    pub enum VerifyClient {
        /// No certificate is requested.
        Off = "off",
        /// A valid certificate is required.
        On = "on",
        /// A certificate is verified if there is one.
        Optional = "optional",
        /// A certificate is not verified here, but by a service behind this server.
        OptionalNoCa = "optional_no_ca",
    }
}

keyword_enum! {
    /// The value of `ssl_ocsp`.
    pub enum Ocsp {
        /// No certificate is checked.
        Off = "off",
        /// All certificates of the client's chain are checked.
        On = "on",
        /// Only the client's own certificate is checked.
        Leaf = "leaf",
    }
}

settings! {
    /// TLS towards clients.
    ///
    /// freerun does not have it yet. The directives are accepted where no socket listens with `ssl`; one warning names
    /// those that are used.
    #[module = "ssl"]
    pub struct SslSettings {
        /// The size of the buffer that responses are sent through.
        ssl_buffer_size: Unused<Size> = "16k", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with the server's certificate and the intermediate certificates.
        ssl_certificate: Many<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Keeps certificates whose names have variables in memory.
        ssl_certificate_cache: Option<Unused<CertificateCache>>, in HTTP | SERVER, since = "1.27.4", fidelity = NoEffect(NO_TLS);
        /// Whether certificates are sent compressed.
        ssl_certificate_compression: Unused<bool> = "off", in HTTP | SERVER, since = "1.29.1", fidelity = NoEffect(NO_TLS);
        /// A file with the key of the certificate.
        ssl_certificate_key: Many<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The ciphers that are allowed, in OpenSSL's syntax.
        ssl_ciphers: Unused<String> = "HIGH:!aNULL:!MD5", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with the certificate authorities that verify clients' certificates; their names are sent to clients.
        ssl_client_certificate: Option<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A command for OpenSSL.
        ssl_conf_command: Many<Unused<Command>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with revoked certificates.
        ssl_crl: Option<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with parameters for the key exchange DHE.
        ssl_dhparam: Option<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether a client may send a request before the handshake is over.
        ssl_early_data: Unused<bool> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The curves for the key exchange ECDHE.
        ssl_ecdh_curve: Unused<String> = "auto", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with keys for encrypted client hellos.
        ssl_ech_file: Many<Unused<File>>, in HTTP | SERVER, since = "1.29.4", fidelity = NoEffect(NO_TLS);
        /// Checks by OCSP whether clients' certificates are still valid.
        ssl_ocsp: Unused<Ocsp> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The cache for OCSP responses.
        ssl_ocsp_cache: Unused<OcspCache> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The URL of the OCSP responder, instead of the one in the certificate.
        ssl_ocsp_responder: Option<Unused<String>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with the passwords of keys, one a line.
        ssl_password_file: Option<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether the server's order of ciphers is preferred to the client's.
        ssl_prefer_server_ciphers: Unused<bool> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The versions of the protocol that are allowed.
        ssl_protocols: Many<Unused<Flags<Protocol>>> = "TLSv1.2 TLSv1.3", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether every handshake is refused.
        ssl_reject_handshake: Unused<bool> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The cache for sessions that may be resumed.
        ssl_session_cache: Unused<SessionCache> = "none", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with the key of session tickets.
        ssl_session_ticket_key: Many<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether sessions are resumed by tickets.
        ssl_session_tickets: Unused<bool> = "on", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// How long a session may be resumed.
        ssl_session_timeout: Unused<Seconds> = "5m", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether an OCSP response is sent with the certificate.
        ssl_stapling: Unused<bool> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with the OCSP response that is sent with the certificate.
        ssl_stapling_file: Option<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The URL of the OCSP responder for stapling, instead of the one in the certificate.
        ssl_stapling_responder: Option<Unused<String>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether the OCSP response for stapling is verified.
        ssl_stapling_verify: Unused<bool> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// A file with certificate authorities that are trusted; their names are not sent to clients.
        ssl_trusted_certificate: Option<Unused<File>>, in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// Whether clients have to show a certificate.
        ssl_verify_client: Unused<VerifyClient> = "off", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
        /// The longest chain of certificates from a client's to an authority.
        ssl_verify_depth: Unused<u32> = "1", in HTTP | SERVER, fidelity = NoEffect(NO_TLS);
    }
}

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
        proxy_ssl_conf_command: Many<Unused<Command>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// A file with revoked certificates.
        proxy_ssl_crl: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// The name that the server's certificate has to have, and that is sent with `proxy_ssl_server_name`.
        proxy_ssl_name: Unused<String> = "$proxy_host", in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// A file with the passwords of keys, one a line.
        proxy_ssl_password_file: Option<Unused<File>>, in HTTP | SERVER | LOCATION, fidelity = NoEffect(NO_TLS);
        /// The versions of the protocol that are allowed.
        proxy_ssl_protocols: Many<Unused<Flags<Protocol>>> = "TLSv1.2 TLSv1.3", in HTTP | SERVER | LOCATION,
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
    groups: &[group::<SslSettings>(), group::<ProxySslSettings>()],
    finish: Some(finish),
    ..Module::EMPTY
};

/// A value that is checked, and not used.
#[derive(Debug, Clone, Copy)]
pub struct Unused<T>(std::marker::PhantomData<fn() -> T>);

impl<T: Value> Value for Unused<T> {
    const SHAPE: Shape = T::SHAPE;

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Unused<T>, Problem> {
        T::parse(directive, cx)?;
        // Defaults are read in no context of http.
        if cx.context != freerun_conf::Contexts::MAIN {
            let written = cx.extensions.get_or_default::<Written>();
            written.names.insert(directive.name.text.clone());
            let first = written.first.is_none_or(|(order, ..)| directive.order < order);
            if first {
                written.first = Some((directive.order, directive.name.place, directive.end));
            }
        }
        Ok(Unused(std::marker::PhantomData))
    }
}

/// The directives of this file that a configuration has, and the place of the first of them.
#[derive(Default)]
struct Written {
    names: BTreeSet<String>,
    first: Option<(u32, Place, Place)>,
}

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

/// The name of a file, which is not opened.
#[derive(Debug, Clone, Copy)]
pub struct File;

impl Value for File {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(_: &Node, _: &mut Cx) -> Result<File, Problem> {
        Ok(File)
    }
}

/// The value of `ssl_conf_command`.
#[derive(Debug, Clone, Copy)]
pub struct Command;

impl Value for Command {
    const SHAPE: Shape = Shape::exactly(2, "name value");

    fn parse(_: &Node, _: &mut Cx) -> Result<Command, Problem> {
        Ok(Command)
    }
}

/// The value of `ssl_certificate_cache`.
#[derive(Debug, Clone, Copy)]
pub struct CertificateCache;

impl Value for CertificateCache {
    const SHAPE: Shape = Shape::between(1, 3, "off | max=number [inactive=time] [valid=time]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<CertificateCache, Problem> {
        for word in &directive.args {
            let good = match word.text.split_once('=') {
                None => word.text == "off",
                Some(("max", number)) => number.parse::<u32>().is_ok_and(|number| number > 0),
                Some(("inactive" | "valid", time)) => freerun_conf::parse_seconds(time).is_some(),
                Some(_) => false,
            };
            if !good {
                return Err(Problem::invalid_parameter(directive, word));
            }
        }
        Ok(CertificateCache)
    }
}

/// The smallest size of a shared cache in nginx: 8 pages.
const SMALLEST_CACHE: u64 = 8 * 4096;

/// Parses a cache `shared:name:size`; `None` if it is of another kind.
fn shared(word: &Word, what: &str) -> Option<Result<(), Problem>> {
    let size = word.text.strip_prefix("shared:")?.split_once(':').filter(|(name, _)| !name.is_empty());
    let problem = |problem: String| Err(Problem::new(problem).at(word.place));
    Some(match size.and_then(|(_, size)| parse_size(size)) {
        None => problem(format!("invalid {what} cache \"{}\"", word.text)),
        Some(size) if size < SMALLEST_CACHE => problem(format!("{what} cache \"{}\" is too small", word.text)),
        Some(_) => Ok(()),
    })
}

/// The value of `ssl_session_cache`.
#[derive(Debug, Clone, Copy)]
pub struct SessionCache;

impl Value for SessionCache {
    const SHAPE: Shape = Shape::between(1, 2, "off | none | [builtin[:size]] [shared:name:size]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<SessionCache, Problem> {
        for word in &directive.args {
            match word.text.as_str() {
                "off" | "none" | "builtin" => {}
                text if text.strip_prefix("builtin:").is_some_and(|size| size.parse::<u32>().is_ok()) => {}
                text => shared(word, "session")
                    .unwrap_or_else(|| Err(Problem::new(format!("invalid session cache \"{text}\"")).at(word.place)))?,
            }
        }
        Ok(SessionCache)
    }
}

/// The value of `ssl_ocsp_cache`.
#[derive(Debug, Clone, Copy)]
pub struct OcspCache;

impl Value for OcspCache {
    const SHAPE: Shape = Shape::exactly(1, "off | shared:name:size");

    fn parse(directive: &Node, _: &mut Cx) -> Result<OcspCache, Problem> {
        for word in directive.args.iter().filter(|word| word.text != "off") {
            let text = &word.text;
            shared(word, "OCSP")
                .unwrap_or_else(|| Err(Problem::new(format!("invalid OCSP cache \"{text}\"")).at(word.place)))?;
        }
        Ok(OcspCache)
    }
}
