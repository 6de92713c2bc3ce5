//! What a virtual server has of TLS, made of its directives when the configuration is read.

mod clients;
mod computed;
mod facts;
mod resume;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Problem};
use freerun_tls::digest::sha256;
use freerun_tls::load::{CertifiedKey, check_dhparam, unopened};
use freerun_tls::openssl::groups;
use freerun_tls::session::{ClientCertificates, ServerConfig, ServerSettings, Sessions};

pub use clients::ClientVerification;
pub use computed::Computed;
pub use facts::CertificateFacts;

use super::algorithms::Wanted;
use super::computed::KnownPairs;
use super::objects::{pair, read};
use super::ocsp::{OcspSpec, Stapling, stapled};
use super::values::{
    CertificateCache, ConfCommand, FileName, Listed, PasswordFile, ProtocolSet, SessionCacheValue, VerifyClient,
};
use super::words::{problem, tell, warn};
use crate::generation::Generation;

/// The directives of TLS of one virtual server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerSpec {
    /// `ssl_certificate`
    pub certificates: Vec<FileName>,
    /// `ssl_certificate_key`
    pub keys: Vec<FileName>,
    /// `ssl_certificate_cache`
    pub certificate_cache: Option<CertificateCache>,
    /// `ssl_password_file`
    pub passwords: Option<PasswordFile>,
    /// `ssl_protocols`
    pub protocols: ProtocolSet,
    /// `ssl_ciphers`
    pub ciphers: Listed,
    /// `ssl_ecdh_curve`
    pub curves: Listed,
    /// `ssl_prefer_server_ciphers`
    pub prefer_server_ciphers: bool,
    /// `ssl_conf_command`
    pub commands: Vec<ConfCommand>,
    /// `ssl_buffer_size`, in bytes.
    pub buffer_size: usize,
    /// `ssl_reject_handshake`
    pub rejects: bool,
    /// `ssl_session_cache`
    pub cache: SessionCacheValue,
    /// `ssl_session_tickets`
    pub tickets: bool,
    /// `ssl_session_ticket_key`
    pub ticket_keys: Vec<FileName>,
    /// `ssl_session_timeout`
    pub timeout: Duration,
    /// `ssl_early_data`
    pub early_data: bool,
    /// `ssl_certificate_compression`
    pub compression: bool,
    /// `ssl_verify_client`
    pub verify: VerifyClient,
    /// `ssl_verify_depth`
    pub depth: u32,
    /// `ssl_client_certificate`
    pub client_certificates: Option<FileName>,
    /// `ssl_trusted_certificate`
    pub trusted: Option<FileName>,
    /// `ssl_crl`
    pub lists: Option<FileName>,
    /// `ssl_dhparam`
    pub dhparam: Option<FileName>,
    /// The directives about OCSP.
    pub ocsp: OcspSpec,
    /// The protocols above TLS.
    pub alpn: Vec<Vec<u8>>,
}

/// What a virtual server has of TLS. It does not change.
#[derive(Debug)]
pub struct ServerTls {
    /// Whether every handshake is refused (`ssl_reject_handshake`).
    pub rejects: bool,
    /// How clients are asked for certificates, if they are.
    pub verification: Option<ClientVerification>,
    /// What its certificates say.
    pub facts: Vec<CertificateFacts>,
    /// The certificates that have responses of OCSP stapled to them (`ssl_stapling`).
    staplings: Vec<Arc<Stapling>>,
    config: Option<ServerConfig>,
    /// What its settings are made of, if the names of some certificates have variables.
    computed: Option<Computed>,
    /// How sessions are resumed at the addresses whose default server this is.
    sessions: Sessions,
    /// By what a session is bound to this server, see [`ServerConfig::with_sessions`].
    context: [u8; 32],
}

/// What was made for this configuration already: servers with equal directives share it.
#[derive(Default)]
struct Made(HashMap<ServerSpec, Arc<ServerTls>>);

impl ServerTls {
    /// Makes it of a server's directives. Servers with equal ones share it, and a pair of files is read once.
    ///
    /// # Errors
    /// The directives contradict each other, or a file cannot be used, in nginx's words. What nginx looks at first is told of
    /// first.
    pub fn of(spec: ServerSpec, cx: &mut Cx) -> Result<Arc<ServerTls>, Problem> {
        if let Some(made) = cx.extensions.get_or_default::<Made>().0.get(&spec) {
            return Ok(made.clone());
        }
        let made = Arc::new(ServerTls::make(&spec, cx)?);
        cx.extensions.get_or_default::<Made>().0.insert(spec, made.clone());
        Ok(made)
    }

    fn make(spec: &ServerSpec, cx: &mut Cx) -> Result<ServerTls, Problem> {
        has_keys(spec)?;
        let mut wanted = Wanted::of(spec.protocols, &spec.ciphers, cx)?;
        let mut keys = pairs(spec, cx)?;
        let facts = keys.iter().zip(&spec.certificates);
        let facts = facts.filter_map(|(key, file)| CertificateFacts::of(key.as_ref()?, file)).collect();
        let asked = clients::asked(spec)?;
        let trust = clients::trust(spec, asked, cx)?;
        let client_ocsp = clients::ocsp(spec, asked, cx)?;
        if let Some(file) = clients::named(&spec.dhparam) {
            check_parameters(file, wanted.level(), cx)?;
        }
        let (groups, remark) =
            groups::ssl_ecdh_curve(&spec.curves.text).map_err(|refused| spec.curves.spot.blamed(problem(refused)))?;
        let named = resume::named(spec, cx)?;
        let staplings = stapled(&spec.ocsp, &spec.certificates, &mut keys, &trust, cx)?;
        wanted.command(&spec.commands, cx)?;
        let sessions = resume::sessions(named, wanted.has_tickets.unwrap_or(spec.tickets), spec.timeout, cx);
        if let Some((mode, spot)) = wanted.verify_mode
            && mode.asked != asked.is_some()
        {
            warn("\"VerifyMode\" contradicts \"ssl_verify_client\", ignored".to_owned(), spot, cx);
        }
        commanded(&mut keys, &wanted, spec, cx)?;
        tell(remark, spec.curves.spot, cx);
        let groups = wanted.groups(groups.iter().map(|group| group.id).collect(), cx)?;
        let settled = wanted.settle(cx)?;
        let verification = asked.map(|asked| ClientVerification {
            asked,
            trust,
            depth: spec.depth,
            level: settled.level,
            ocsp: client_ocsp,
        });
        let authorities = verification.as_ref().map(|verification| verification.trust.authority_names().to_vec());
        let context = context(&keys, spec, authorities.as_deref().unwrap_or_default());
        let defaults = ServerSettings::default();
        let settings = ServerSettings {
            keys: keys.iter().flatten().cloned().collect(),
            versions: settled.versions,
            suites: settled.suites,
            groups,
            prefer_server_order: wanted.prefer_server_order.unwrap_or(spec.prefer_server_ciphers),
            alpn: spec.alpn.clone(),
            fragment: spec.buffer_size,
            tickets: wanted.tickets.unwrap_or(defaults.tickets),
            early_data: spec.early_data,
            compress_certificates: spec.compression,
            client_certificates: authorities.map(|authorities| ClientCertificates { authorities }),
            ..defaults
        };
        let (config, computed) = match keys.iter().all(Option::is_some) {
            true if keys.is_empty() => (None, None),
            true => (Some(settings.build().map_err(problem)?), None),
            false => {
                let known = KnownPairs::of(spec.certificate_cache, cx);
                (None, Some(Computed::new(settings, keys, spec.passwords.clone(), known, context)))
            }
        };
        Ok(ServerTls { rejects: spec.rejects, verification, facts, staplings, config, computed, sessions, context })
    }

    /// Has to be called on a loop when a client of a session with this server wants to know that the server's certificate
    /// was not revoked (`status_request`): the responses of OCSP that are stapled are brought up to date. Nobody waits for
    /// that.
    pub fn status_wanted(&self, generation: &Arc<Generation>) {
        self.staplings.iter().for_each(|stapling| stapling.wanted(generation));
    }

    /// Whether there is a certificate, or will be when its name is known.
    pub fn has_certificate(&self) -> bool {
        self.config.is_some() || self.computed.is_some()
    }

    /// What the settings of sessions are made of, if the names of some certificates have variables.
    pub fn computed(&self) -> Option<&Computed> {
        self.computed.as_ref()
    }

    /// The settings of sessions with this server at an address with this `default` server, whose sessions are resumed: the
    /// resumption of sessions is a matter of the address. `None` if this server has no certificate, or one whose name has
    /// variables.
    pub fn config_at(&self, default: &ServerTls) -> Option<ServerConfig> {
        self.config.as_ref().map(|config| config.with_sessions(&default.sessions, &self.context))
    }
}

/// Checks that each certificate has a key.
fn has_keys(spec: &ServerSpec) -> Result<(), Problem> {
    let Some(certificate) = spec.certificates.get(spec.keys.len()) else { return Ok(()) };
    let shown = &certificate.written;
    let message = format!("no \"ssl_certificate_key\" is defined for certificate \"{shown}\"");
    Err(certificate.spot.blamed(Problem::new(message)))
}

/// The server's certificates with their keys; `None` in place of those whose names have variables.
fn pairs(spec: &ServerSpec, cx: &mut Cx) -> Result<Vec<Option<CertifiedKey>>, Problem> {
    let one = |(certificate, key): (&FileName, &FileName)| match certificate.is_computed || key.is_computed {
        true => Ok(None),
        false => pair(certificate, key, spec.passwords.as_ref(), cx).map(Some),
    };
    spec.certificates.iter().zip(&spec.keys).map(one).collect()
}

/// Adds the certificate that `ssl_conf_command` names, in place of one for the same kind of key. Without a key of its own it has
/// that of the certificate whose place it takes.
fn commanded(
    keys: &mut Vec<Option<CertifiedKey>>,
    wanted: &Wanted,
    spec: &ServerSpec,
    cx: &mut Cx,
) -> Result<(), Problem> {
    let named = |name: &&FileName| !name.is_computed;
    let own_key = wanted.key.iter().chain(spec.keys.first()).find(named);
    let own_certificate = wanted.certificate.iter().chain(spec.certificates.first()).find(named);
    let (Some(certificate), Some(key)) = (own_certificate, own_key) else { return Ok(()) };
    if wanted.certificate.is_none() && wanted.key.is_none() {
        return Ok(());
    }
    let made = pair(certificate, key, spec.passwords.as_ref(), cx)?;
    let same = |other: &CertifiedKey| std::mem::discriminant(&other.kind()) == std::mem::discriminant(&made.kind());
    match keys.iter_mut().flatten().find(|other| same(other)) {
        Some(other) => *other = made,
        None => keys.push(Some(made)),
    }
    Ok(())
}

/// What binds sessions to a server: its certificates, or how their names are computed, and whom it trusts.
fn context(keys: &[Option<CertifiedKey>], spec: &ServerSpec, authorities: &[Vec<u8>]) -> [u8; 32] {
    let names = spec.certificates.iter().filter(|name| name.is_computed).map(|name| sha256(name.written.as_bytes()));
    let certificates = keys.iter().flatten().flat_map(CertifiedKey::chain).map(sha256);
    let digests = certificates.chain(names).chain(authorities.iter().map(|name| sha256(name)));
    sha256(&digests.flatten().collect::<Vec<u8>>())
}

/// `ssl_dhparam` has no effect, because there are no suites that would use it, but what it names has to be right.
fn check_parameters(file: &FileName, level: u8, cx: &mut Cx) -> Result<(), Problem> {
    let failed = |message| file.spot.blamed(Problem::new(message));
    let pem = read(file, cx).map_err(|error| {
        let (path, said) = (&file.path, unopened(&file.path, &error));
        failed(format!("BIO_new_file(\"{path}\") failed (SSL: {said})"))
    })?;
    check_dhparam(pem.bytes(), level).map_err(|error| failed(error.words(&file.path)))
}
