//! What a virtual server has of TLS, made of its directives when the configuration is read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use freerun_conf::{Cx, Problem};
use freerun_tls::digest::sha256;
use freerun_tls::load::{CertifiedKey, unopened};
use freerun_tls::openssl::conf_command::Command;
use freerun_tls::openssl::protocols::Protocols;
use freerun_tls::openssl::{ciphers, groups};
use freerun_tls::session::{
    ClientCertificates, ServerConfig, ServerSettings, SessionCache, SessionStore, Sessions, TicketKeys,
};
use freerun_tls::verify::{
    Asked, DEFAULT_LEVEL, PeerCertificate, Purpose, Rules, Source, Trust, TrustBuilder, Verified,
};

use super::algorithms::Wanted;
use super::files::Secret;
use super::objects::{add, pair, passwords_of, read};
use super::values::{FileName, SessionCacheValue, VerifyClient};
use super::words::{problem, tell, unreadable};
use crate::zones::ZoneTable;

/// The directives of TLS of one virtual server.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// `ssl_certificate`
    pub certificates: Vec<FileName>,
    /// `ssl_certificate_key`
    pub keys: Vec<FileName>,
    /// `ssl_password_file`
    pub passwords: Option<FileName>,
    /// `ssl_protocols`
    pub protocols: Protocols,
    /// `ssl_ciphers`
    pub ciphers: String,
    /// `ssl_ecdh_curve`
    pub curves: String,
    /// `ssl_prefer_server_ciphers`
    pub prefer_server_ciphers: bool,
    /// `ssl_conf_command`
    pub commands: Vec<Command>,
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
    config: Option<ServerConfig>,
    /// How sessions are resumed at the addresses whose default server this is.
    sessions: Sessions,
    /// By what a session is bound to this server, see [`ServerConfig::with_sessions`].
    context: [u8; 32],
}

/// How clients are asked for certificates (`ssl_verify_client`).
#[derive(Debug, Clone)]
pub struct ClientVerification {
    /// What is asked of them.
    pub asked: Asked,
    trust: Trust,
    depth: u32,
    level: u8,
}

impl ClientVerification {
    /// Verifies what a client has sent, in DER: its own certificate first. `now` is the time since 1970. This takes up to some
    /// milliseconds, so it is not for a loop.
    pub fn verify(&self, sent: &[Vec<u8>], now: Duration) -> Verified {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let ClientVerification { trust, depth, level, .. } = self;
        let rules = Rules { purpose: Purpose::Client, depth: *depth, level: *level, now };
        trust.verify(sent.iter().map(Vec::as_slice), &rules)
    }
}

/// What a certificate says, for figures.
#[derive(Debug, Clone)]
pub struct CertificateFacts {
    /// The file that it is in.
    pub file: String,
    /// Whose it is.
    pub subject: String,
    /// Who vouches for that.
    pub issuer: String,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
}

/// What was made for this configuration already: servers with equal directives share it.
#[derive(Default)]
struct Made {
    servers: HashMap<String, Arc<ServerTls>>,
}

impl ServerTls {
    /// Makes it of a server's directives. Servers with equal ones share it, and a pair of files is read once.
    ///
    /// # Errors
    /// The directives contradict each other, or a file cannot be used, in nginx's words.
    pub fn of(spec: ServerSpec, cx: &mut Cx) -> Result<Arc<ServerTls>, Problem> {
        let key = format!("{spec:?}");
        if let Some(made) = cx.extensions.get_or_default::<Made>().servers.get(&key) {
            return Ok(made.clone());
        }
        let made = Arc::new(ServerTls::make(spec, cx)?);
        cx.extensions.get_or_default::<Made>().servers.insert(key, made.clone());
        Ok(made)
    }

    fn make(spec: ServerSpec, cx: &mut Cx) -> Result<ServerTls, Problem> {
        let sessions = sessions(&spec, cx)?;
        let rejects = spec.rejects;
        if spec.certificates.is_empty() {
            return Ok(ServerTls {
                rejects,
                verification: None,
                facts: Vec::new(),
                config: None,
                sessions,
                context: [0; 32],
            });
        }
        check_dhparam(&spec, cx)?;
        let verification = verification(&spec, cx)?;
        let certificates = spec.certificates.clone();
        let (settings, context) = settings(spec, verification.as_ref(), cx)?;
        let facts = settings.keys.iter().zip(&certificates).filter_map(|(key, file)| facts(key, file)).collect();
        let config = settings.build().map_err(problem)?;
        Ok(ServerTls { rejects, verification, facts, config: Some(config), sessions, context })
    }

    /// Whether there is a certificate.
    pub fn has_certificate(&self) -> bool {
        self.config.is_some()
    }

    /// The settings of sessions with this server at an address with this `default` server, whose sessions are resumed: the
    /// resumption of sessions is a matter of the address. `None` if this server has no certificate.
    pub fn config_at(&self, default: &ServerTls) -> Option<ServerConfig> {
        self.config.as_ref().map(|config| config.with_sessions(&default.sessions, &self.context))
    }
}

/// The settings of sessions, and what binds sessions to them.
fn settings(
    spec: ServerSpec,
    verification: Option<&ClientVerification>,
    cx: &mut Cx,
) -> Result<(ServerSettings, [u8; 32]), Problem> {
    let wanted = Wanted::of(spec.protocols, &spec.ciphers, &spec.commands, cx)?;
    let words = passwords_of(spec.passwords.as_ref(), cx)?;
    let mut keys = Vec::new();
    for (number, certificate) in spec.certificates.iter().enumerate() {
        let Some(key) = spec.keys.get(number) else {
            let shown = &certificate.path;
            return Err(Problem::new(format!("no \"ssl_certificate_key\" is defined for certificate \"{shown}\"")));
        };
        keys.push(pair(certificate, key, &words, cx)?);
    }
    let mut digested = Vec::new();
    keys.iter().flat_map(CertifiedKey::chain).for_each(|certificate| digested.extend(sha256(certificate)));
    let authorities = verification.map_or(&[][..], |verification| verification.trust.authority_names());
    authorities.iter().for_each(|name| digested.extend(sha256(name)));
    let (suites, versions) = wanted.settle(cx)?;
    let (groups, remark) = match &wanted.groups {
        Some(groups) => groups::usable("ssl_conf_command", groups).map_err(problem)?,
        None => groups::ssl_ecdh_curve(&spec.curves).map_err(problem)?,
    };
    tell(remark, cx);
    let settings = ServerSettings {
        keys,
        versions,
        suites,
        groups: groups.iter().map(|group| group.id).collect(),
        prefer_server_order: wanted.prefer_server_order.unwrap_or(spec.prefer_server_ciphers),
        alpn: spec.alpn,
        fragment: spec.buffer_size,
        tickets: wanted.tickets.unwrap_or(ServerSettings::default().tickets),
        early_data: spec.early_data,
        compress_certificates: spec.compression,
        client_certificates: verification.map(|_| ClientCertificates { authorities: authorities.to_vec() }),
        ..ServerSettings::default()
    };
    Ok((settings, sha256(&digested)))
}

/// What a certificate says.
fn facts(key: &CertifiedKey, file: &FileName) -> Option<CertificateFacts> {
    let own = PeerCertificate::from_der(key.chain().next()?)?;
    let file = if file.path.starts_with("data:") { "data:".to_owned() } else { file.path.clone() };
    Some(CertificateFacts { file, subject: own.subject(), issuer: own.issuer(), expires: own.end()? })
}

/// How clients are asked for certificates.
fn verification(spec: &ServerSpec, cx: &mut Cx) -> Result<Option<ClientVerification>, Problem> {
    let asked = match spec.verify {
        VerifyClient::Off => return Ok(None),
        VerifyClient::On => Asked::Required,
        VerifyClient::Optional => Asked::Optional,
        VerifyClient::OptionalNoCa => Asked::OptionalNoAuthority,
    };
    let has_authorities = spec.client_certificates.is_some() || spec.trusted.is_some();
    if !has_authorities && asked != Asked::OptionalNoAuthority {
        return Err(Problem::new("no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client"));
    }
    let mut builder = TrustBuilder::default();
    if let Some(file) = &spec.client_certificates {
        add(file, Source::Certificates, cx, |pem| builder.add_client_certificates(pem))?;
    }
    if let Some(file) = &spec.trusted {
        add(file, Source::Certificates, cx, |pem| builder.add_trusted_certificates(pem))?;
    }
    if let Some(file) = &spec.lists {
        add(file, Source::Lists, cx, |pem| builder.add_lists(pem))?;
    }
    let level = ciphers::ssl_ciphers(&spec.ciphers).map_err(problem)?.security_level.unwrap_or(DEFAULT_LEVEL);
    Ok(Some(ClientVerification { asked, trust: builder.build(), depth: spec.depth, level }))
}

/// `ssl_dhparam` has no effect, because there are no suites that would use it, but what it names has to be right.
fn check_dhparam(spec: &ServerSpec, cx: &mut Cx) -> Result<(), Problem> {
    let Some(file) = &spec.dhparam else { return Ok(()) };
    let pem = read(file, cx).map_err(|(path, error)| {
        let said = unopened(&path, &error);
        Problem::new(format!("BIO_new_file(\"{path}\") failed (SSL: {said})"))
    })?;
    freerun_tls::load::check_dhparam(pem.bytes()).map_err(|error| Problem::new(error.words(&file.path)))
}

/// How sessions are resumed. Stores and keys of the running configuration are kept over a reload.
fn sessions(spec: &ServerSpec, cx: &mut Cx) -> Result<Sessions, Problem> {
    let zones = cx.extensions.get_or_default::<ZoneTable>();
    let cache = match &spec.cache {
        SessionCacheValue::Off => SessionCache::Off,
        SessionCacheValue::None => SessionCache::None,
        SessionCacheValue::Builtin(size) => {
            let size = *size;
            SessionCache::Kept((*zones.keep(&format!("builtin {size}"), || SessionStore::for_sessions(size))).clone())
        }
        SessionCacheValue::Shared(name, size) => {
            let bytes = usize::try_from(*size).unwrap_or(usize::MAX);
            SessionCache::Kept((*zones.keep(&format!("{name} {size}"), || SessionStore::new(bytes))).clone())
        }
    };
    let tickets = match (spec.tickets, spec.ticket_keys.is_empty()) {
        (false, _) => None,
        (true, false) => Some(ticket_keys(&spec.ticket_keys, cx)?),
        (true, true) => {
            let zones = cx.extensions.get_or_default::<ZoneTable>();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let period = spec.timeout.max(Duration::from_secs(1));
            let key = format!("tickets {}", period.as_secs());
            (*zones.keep(&key, || TicketKeys::random(period, now).ok())).clone()
        }
    };
    Ok(Sessions { cache, tickets, timeout: spec.timeout })
}

fn ticket_keys(files: &[FileName], cx: &mut Cx) -> Result<TicketKeys, Problem> {
    let mut contents = Vec::new();
    for file in files {
        let secret =
            read(file, cx).map_err(|(path, error)| unreadable(&format!("open() \"{path}\" failed"), &error))?;
        if !matches!(secret.bytes().len(), 48 | 80) {
            let message = format!("\"{}\" must be 48 or 80 bytes", file.path);
            return Err(Problem::new(message));
        }
        contents.push(secret);
    }
    let bytes: Vec<&[u8]> = contents.iter().map(Secret::bytes).collect();
    TicketKeys::from_files(&bytes).map_err(problem)
}
