//! TLS of a location towards its upstream servers, made of its directives when the configuration is read.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use freerun_conf::{Cx, Problem};
use freerun_tls::digest::{sha256, sha256_of};
use freerun_tls::load::CertifiedKey;
use freerun_tls::session::{ClientConfig, ClientSessions, ClientSettings};
use freerun_tls::verify::{TrustBuilder, TrustSource, TrustStore};

use super::algorithms::WantedAlgorithms;
use super::computed::{KnownPairs, PairNames, PairReader};
use super::handshake::outgoing_session::{NameRule, OutgoingTls, Verification};
use super::key_log::KeyLogPath;
use super::objects::{add, pair, read};
use super::values::{AlgorithmList, CertificateCache, ConfCommand, FileName, PasswordFile, ProtocolSet};
use super::words::problem;

/// With how many servers sessions are kept for resumption, for all locations together. Names may come from clients
/// (`proxy_ssl_name $host`), and a hostile server's sessions are large, see [`ClientSessions::new`].
const MAX_PEERS: usize = 1024;

/// The sessions with all upstream servers, whose keys tell locations apart. They outlive a configuration.
static SESSIONS: LazyLock<ClientSessions> = LazyLock::new(|| ClientSessions::new(MAX_PEERS));

/// The directives of TLS of one location, with the prefix of the module that has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamSpec {
    /// The prefix of the directives, `proxy_` for example.
    pub prefix: &'static str,
    /// `proxy_ssl_certificate`
    pub certificate: Option<FileName>,
    /// `proxy_ssl_certificate_key`
    pub key: Option<FileName>,
    /// `proxy_ssl_certificate_cache`
    pub certificate_cache: Option<CertificateCache>,
    /// `proxy_ssl_password_file`
    pub passwords: Option<PasswordFile>,
    /// `proxy_ssl_protocols`
    pub protocols: ProtocolSet,
    /// `proxy_ssl_ciphers`
    pub ciphers: AlgorithmList,
    /// `proxy_ssl_conf_command`
    pub commands: Vec<ConfCommand>,
    /// `proxy_ssl_verify`
    pub verify: bool,
    /// `proxy_ssl_verify_depth`
    pub depth: u32,
    /// `proxy_ssl_trusted_certificate`
    pub trusted: Option<FileName>,
    /// `proxy_ssl_crl`
    pub lists: Option<FileName>,
    /// `proxy_ssl_server_name`
    pub server_name: bool,
    /// `proxy_ssl_session_reuse`
    pub session_reuse: bool,
    /// `proxy_ssl_key_log`
    pub key_log: Option<KeyLogPath>,
    /// The protocols on offer to servers (ALPN), best first: HTTP/2 and nothing else, or the protocols of
    /// `proxy_ssl_alpn`.
    pub alpn: Vec<Vec<u8>>,
}

/// TLS of a location towards its upstream servers. It does not change.
#[derive(Debug)]
pub struct UpstreamTls {
    /// The settings of sessions, without a certificate if its name has variables.
    config: ClientConfig,
    /// Parts to make the certificate of, if its name has variables.
    computed: Option<ComputedCertificate>,
    verified_by: Option<(TrustStore, u32, u8)>,
    sends_name: bool,
    resumes: bool,
    /// A digest of the directives and of the contents of the files that they name, but for a certificate whose name has
    /// variables.
    digest: [u8; 32],
}

/// Parts to make a certificate of whose name has variables.
#[derive(Debug)]
struct ComputedCertificate {
    passwords: Option<PasswordFile>,
    known: Arc<KnownPairs>,
}

/// TLS of the locations of this configuration, by directives: locations with equal directives share it.
#[derive(Default)]
struct UpstreamsBySpec(HashMap<UpstreamSpec, Arc<UpstreamTls>>);

impl UpstreamTls {
    /// Makes it of a location's directives. Locations with equal ones share it.
    ///
    /// # Errors
    /// The directives contradict each other, or a file cannot be used, in nginx's words. Of several errors the result
    /// is the one whose directive nginx looks at first.
    pub fn of(spec: UpstreamSpec, cx: &mut Cx) -> Result<Arc<UpstreamTls>, Problem> {
        if let Some(made) = cx.extensions.get_or_default::<UpstreamsBySpec>().0.get(&spec) {
            return Ok(made.clone());
        }
        let made = Arc::new(UpstreamTls::make(&spec, cx)?);
        cx.extensions.get_or_default::<UpstreamsBySpec>().0.insert(spec, made.clone());
        Ok(made)
    }

    fn make(spec: &UpstreamSpec, cx: &mut Cx) -> Result<UpstreamTls, Problem> {
        let prefix = spec.prefix;
        let mut wanted = WantedAlgorithms::of(spec.protocols, &spec.ciphers, cx)?;
        let named = spec.certificate.as_ref().filter(|certificate| !certificate.is_empty());
        let mut known = None;
        let mut certificate = match (named, &spec.key) {
            (None, _) => None,
            (Some(certificate), None) => {
                let shown = certificate.as_written();
                let message = format!("no \"{prefix}ssl_certificate_key\" is defined for certificate \"{shown}\"");
                return Err(certificate.spot.blamed(Problem::new(message)));
            }
            (Some(certificate), Some(key)) if certificate.is_computed || key.is_computed => {
                known = Some(KnownPairs::of(spec.certificate_cache, cx));
                None
            }
            (Some(certificate), Some(key)) => Some(pair(prefix, certificate, key, spec.passwords.as_ref(), cx)?.key),
        };
        let trust = if spec.verify { Some(trust(spec, cx)?) } else { None };
        wanted.command(&spec.commands, cx)?;
        if wanted.certificate.is_some() || wanted.key.is_some() {
            let own = (wanted.certificate.as_ref().or(named), wanted.key.as_ref().or(spec.key.as_ref()));
            if let (Some(own), Some(key)) = own {
                certificate = Some(pair(prefix, own, key, spec.passwords.as_ref(), cx)?.key);
            }
        }
        let groups = wanted.groups(Vec::new(), cx)?;
        let settled = wanted.settle(cx)?;
        let verified_by = trust.map(|trust| (trust, spec.depth, settled.level));
        let settings = ClientSettings {
            versions: settled.versions,
            suites: settled.suites,
            groups,
            certificate,
            schemes: wanted.schemes(),
            own_schemes: wanted.client_schemes(),
            key_log: spec.key_log.as_ref().map(|path| path.key_log(cx)),
            alpn: spec.alpn.clone(),
            ..ClientSettings::default()
        };
        let (sends_name, resumes) = (spec.server_name, spec.session_reuse);
        let digest = digest(spec, settings.certificate.as_ref(), cx);
        let config = settings.build().map_err(problem)?;
        let computed = known.map(|known| ComputedCertificate { passwords: spec.passwords.clone(), known });
        Ok(UpstreamTls { config, computed, verified_by, sends_name, resumes, digest })
    }

    /// Whether the name of the certificate has variables: then [`UpstreamTls::outgoing`] wants their values.
    pub fn is_computed(&self) -> bool {
        self.computed.is_some()
    }

    /// A digest of everything that a session with a server of this name depends on.
    ///
    /// That is the directives, the contents of the files that they name, and the `names` of a computed certificate. As
    /// long as it stays the same, also over a reload, sessions that began before are as good as new ones.
    pub fn identity(&self, name: &str, names: Option<&PairNames>) -> [u8; 32] {
        sha256_of((self.digest, name, names))
    }

    /// TLS settings of a connection to a server with this name at this address. `names` are the names of the
    /// certificate and its key, if they have to be computed and are not empty. `alpn` are the protocols on offer, if
    /// they have to be computed.
    ///
    /// # Errors
    /// The certificate cannot be used: the line for the error log, which is empty if the client has gone.
    pub async fn outgoing<G: Future<Output = ()>>(
        &self,
        name: &str,
        address: &str,
        names: Option<&PairNames>,
        alpn: Option<Vec<Vec<u8>>>,
        reader: &PairReader<'_, impl Fn() -> G>,
    ) -> Result<OutgoingTls, String> {
        // A session that began with one protocol is not resumed with another. Names can be long, and a private key can be among
        // them.
        let key = self.resumes.then(|| sha256_of((address, self.identity(name, names), &alpn)));
        let config = match (&self.computed, names) {
            (Some(computed), Some(names)) => {
                let certificate = computed.known.load(names, computed.passwords.as_ref(), reader).await?;
                self.config.with_certificate(Some(&certificate.key))
            }
            _ => self.config.clone(),
        };
        let config = match alpn {
            Some(alpn) => config.with_alpn(alpn),
            None => config,
        };
        let verification = self.verified_by.clone();
        let verification = verification.map(|(trust, depth, level)| {
            let (name, rule) = (name.to_owned(), NameRule::OpenSsl);
            Verification { trust, depth, level, name, rule }
        });
        // RFC 6066 section 3: a name is not empty, and not an address.
        let sent = self.sends_name && !name.is_empty() && bare(name).parse::<IpAddr>().is_err();
        Ok(OutgoingTls {
            config,
            server_name: sent.then(|| name.to_owned()),
            sessions: key.map(|key| SESSIONS.peer(&key)),
            verification,
        })
    }
}

/// See [`UpstreamTls::digest`]; `certificate` is the certificate for servers, if it is known already.
fn digest(spec: &UpstreamSpec, certificate: Option<&CertifiedKey>, cx: &mut Cx) -> [u8; 32] {
    // A key that is renewed without its certificate does not fit it.
    let certificate: Vec<&[u8]> = certificate.iter().flat_map(|certificate| certificate.chain()).collect();
    let verified_by = [&spec.trusted, &spec.lists].map(|file| {
        let file = file.as_ref().filter(|file| spec.verify && !file.is_empty());
        // What cannot be read was refused before.
        file.and_then(|file| read(file, cx).ok()).map(|contents| sha256(contents.bytes()))
    });
    sha256_of((spec, certificate, verified_by))
}

/// The trusted certificates.
fn trust(spec: &UpstreamSpec, cx: &mut Cx) -> Result<TrustStore, Problem> {
    let prefix = spec.prefix;
    let Some(trusted) = spec.trusted.as_ref().filter(|file| !file.is_empty()) else {
        return Err(Problem::new(format!("no {prefix}ssl_trusted_certificate for {prefix}ssl_verify")));
    };
    let mut builder = TrustBuilder::default();
    add(trusted, TrustSource::Certificates, cx, |pem| builder.add_trusted_certificates(pem))?;
    if let Some(lists) = spec.lists.as_ref().filter(|file| !file.is_empty()) {
        add(lists, TrustSource::Lists, cx, |pem| builder.add_lists(pem))?;
    }
    Ok(builder.build())
}

/// An address without the brackets that one of IPv6 has in a URL.
fn bare(name: &str) -> &str {
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// The name of a server without the port that may stand behind it.
pub fn without_port(host: &str) -> &str {
    let end = match host.strip_prefix('[').and_then(|inner| inner.find(']')) {
        Some(bracket) => bracket + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    &host[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_cut_off() {
        for (host, name) in [
            ("example.com:443", "example.com"),
            ("example.com", "example.com"),
            ("127.0.0.1:8443", "127.0.0.1"),
            ("[::1]:8443", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(without_port(host), name);
        }
        assert!(bare("[::1]").parse::<IpAddr>().is_ok() && bare("name").parse::<IpAddr>().is_err());
    }
}
