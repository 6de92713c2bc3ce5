//! TLS of a virtual server, made of its directives when the configuration is read.

mod address;
mod clients;
mod computed;
mod resume;
mod slot;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freerun_conf::{Cx, Problem};
use freerun_tls::digest::sha256;
use freerun_tls::load::{CertifiedKey, check_dhparam, unopened};
use freerun_tls::openssl::groups;
use freerun_tls::openssl::protocols::SslProtocol;
use freerun_tls::session::{ClientCertificates, ServerConfig, ServerSettings, SessionCache, SessionSettings};
use freerun_tls::verify::{DEFAULT_LEVEL, TrustBuilder};

pub use super::facts::CertificateFacts;
pub use address::AtAddress;
pub use clients::ClientVerification;
pub use computed::ComputedSettings;
pub use resume::poll_interval;

use super::algorithms::WantedAlgorithms;
use super::computed::KnownPairs;
use super::key_log::KeyLogPath;
use super::live::LivePair;
use super::objects::{pair, read};
use super::ocsp::{OcspSpec, Staples, Stapling};
use super::values::{
    AlgorithmList, CertificateCache, ConfCommand, FileName, PasswordFile, ProtocolSet, SessionCacheValue,
    SessionTickets, VerifyClient,
};
use super::words::{problem, tell, warn};
use crate::configuration::generation::Generation;
use address::Replaceable;
use slot::{CertificateSlot, slots};

/// The directives of TLS of one virtual server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerSpec {
    /// The name of the service that it belongs to: sessions of one are not resumed with another one.
    pub service: &'static str,
    /// `ssl_certificate`
    pub certificates: Vec<FileName>,
    /// `ssl_certificate_key`
    pub keys: Vec<FileName>,
    /// Certificates that no file has: others put them there while the server runs. They come after the certificates of
    /// files.
    pub live: Vec<Arc<LivePair>>,
    /// `ssl_certificate_cache`
    pub certificate_cache: Option<CertificateCache>,
    /// `ssl_password_file`
    pub passwords: Option<PasswordFile>,
    /// `ssl_protocols`
    pub protocols: ProtocolSet,
    /// `ssl_ciphers`
    pub ciphers: AlgorithmList,
    /// `ssl_ecdh_curve`
    pub curves: AlgorithmList,
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
    pub tickets: SessionTickets,
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
    /// `ssl_key_log`
    pub key_log: Option<KeyLogPath>,
}

impl ServerSpec {
    /// The default of `ssl_buffer_size`, in bytes.
    pub const BUFFER_SIZE: usize = 16 << 10;
}

/// TLS of a virtual server. It does not change.
#[derive(Debug)]
pub struct ServerTls {
    /// Whether every handshake is refused (`ssl_reject_handshake`).
    pub rejects: bool,
    /// Whether `ssl_protocols` names TLS 1.3.
    pub has_tls13: bool,
    /// Rules for clients' certificates; `None` if clients are not asked for any.
    pub verification: Option<ClientVerification>,
    /// Facts about its certificates that are not replaced.
    facts: Box<[CertificateFacts]>,
    /// Its certificates.
    slots: Vec<CertificateSlot>,
    /// The certificates that have responses of OCSP stapled to them (`ssl_stapling`), but for those that may be replaced.
    staplings: Vec<Arc<Stapling>>,
    config: Option<ServerConfig>,
    /// Parts of its settings, if certificates may be replaced while the server runs.
    replaceable: Option<Arc<Replaceable>>,
    /// Parts of its settings, if the names of some certificates have variables.
    computed: Option<ComputedSettings>,
    /// Settings for resuming sessions at the addresses whose default server this is.
    sessions: SessionSettings,
    /// The name of the store that they are kept in.
    store_name: String,
    /// Digest that binds a session to this server, see [`ServerConfig::with_sessions`].
    context: [u8; 32],
    /// A number that no other server has, whichever configuration it is of.
    number: u64,
}

/// See [`ServerTls::number`].
fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// TLS of the servers of this configuration, by directives: servers with equal directives share it.
#[derive(Default)]
struct ServersBySpec(HashMap<ServerSpec, Arc<ServerTls>>);

impl ServerTls {
    /// Makes it of a server's directives. Servers with equal ones share it, and a pair of files is read once.
    ///
    /// # Errors
    /// The directives contradict each other, or a file cannot be used, in nginx's words. Of several errors the result
    /// is the one whose directive nginx looks at first.
    pub fn of(spec: ServerSpec, cx: &mut Cx) -> Result<Arc<ServerTls>, Problem> {
        if let Some(made) = cx.extensions.get_or_default::<ServersBySpec>().0.get(&spec) {
            return Ok(made.clone());
        }
        let made = Arc::new(ServerTls::make(&spec, cx)?);
        cx.extensions.get_or_default::<ServersBySpec>().0.insert(spec, made.clone());
        Ok(made)
    }

    fn make(spec: &ServerSpec, cx: &mut Cx) -> Result<ServerTls, Problem> {
        if spec.certificates.is_empty() && spec.live.is_empty() && !spec.rejects {
            return Ok(ServerTls::without_certificate(spec, cx));
        }
        has_keys(spec)?;
        let mut wanted = WantedAlgorithms::of(spec.protocols, &spec.ciphers, cx)?;
        let mut slots = slots(spec, cx)?;
        let facts = slots.iter().zip(&spec.certificates);
        let facts = facts.filter_map(|(slot, file)| CertificateFacts::of(slot.fixed()?, file.shown())).collect();
        let asked = clients::asked(spec)?;
        let trust = clients::trust(spec, asked, cx)?;
        let client_ocsp = clients::ocsp(spec, asked, cx)?;
        if let Some(file) = clients::named(&spec.dhparam) {
            check_parameters(file, wanted.level(), cx)?;
        }
        let (groups, remark) =
            groups::ssl_ecdh_curve(&spec.curves.text).map_err(|refused| spec.curves.spot.blamed(problem(refused)))?;
        let named = resume::named(spec, cx)?;
        let mut staplings = Vec::new();
        if let Some(staples) = Staples::of(&spec.ocsp, &trust, cx)? {
            for (number, slot) in slots.iter_mut().enumerate() {
                staplings.extend(slot.staple(&staples, spec.certificates.get(number), cx));
            }
        }
        wanted.command(&spec.commands, cx)?;
        let tickets = match wanted.has_tickets {
            Some(false) => SessionTickets::Off,
            Some(true) if spec.tickets == SessionTickets::Off => SessionTickets::On,
            _ => spec.tickets,
        };
        let sessions = resume::sessions(named, tickets, spec.timeout, cx);
        if let Some((mode, spot)) = wanted.verify_mode
            && mode.asked != asked.is_some()
        {
            warn("\"VerifyMode\" contradicts \"ssl_verify_client\", ignored".to_owned(), spot, cx);
        }
        commanded(&mut slots, &wanted, spec, cx)?;
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
        let context = context(&slots, spec, authorities.as_deref().unwrap_or_default());
        let settings = ServerSettings {
            keys: Vec::new(),
            versions: settled.versions,
            suites: settled.suites,
            groups,
            prefer_server_order: wanted.prefer_server_order.unwrap_or(spec.prefer_server_ciphers),
            alpn: Vec::new(),
            fragment: spec.buffer_size,
            tickets: wanted.tickets.unwrap_or(ServerSettings::TICKETS),
            early_data: spec.early_data,
            compress_certificates: spec.compression,
            schemes: wanted.schemes(),
            client_schemes: wanted.client_schemes(),
            prioritize_chacha: wanted.prioritize_chacha,
            key_log: spec.key_log.as_ref().map(|path| path.key_log(cx)),
            client_certificates: authorities.map(|authorities| ClientCertificates { authorities }),
        };
        let (mut config, mut replaceable, mut computed) = (None, None, None);
        let number = next_number();
        if slots.iter().any(|slot| matches!(slot, CertificateSlot::Computed)) {
            let known = KnownPairs::of(spec.certificate_cache, cx);
            computed =
                Some(ComputedSettings::new(number, settings, slots.clone(), spec.passwords.clone(), known, context));
        } else if slots.iter().any(|slot| matches!(slot, CertificateSlot::Live(_))) {
            replaceable = Some(Arc::new(Replaceable::new(settings, slots.clone()).map_err(problem)?));
        } else if !slots.is_empty() {
            let keys = slots.iter().filter_map(CertificateSlot::fixed).cloned().collect();
            config = Some(ServerSettings { keys, ..settings }.build().map_err(problem)?);
        }
        let store_name = spec.cache.to_string();
        let rejects = spec.rejects;
        Ok(ServerTls {
            rejects,
            has_tls13: spec.protocols.protocols.has(SslProtocol::Tls13),
            verification,
            facts,
            slots,
            staplings,
            config,
            replaceable,
            computed,
            sessions,
            store_name,
            context,
            number,
        })
    }

    /// A server that uses the certificate of the address's default server, or serves no TLS at all. Its rules for
    /// clients' certificates hold all the same. As nginx does not look at its files, it trusts nobody if a file cannot
    /// be used.
    fn without_certificate(spec: &ServerSpec, cx: &mut Cx) -> ServerTls {
        let asked = clients::wanted(spec.verify);
        let verification = asked.map(|asked| {
            let trust = clients::trust(spec, Some(asked), cx);
            let both = trust.and_then(|trust| Ok((trust, clients::ocsp(spec, Some(asked), cx)?)));
            let (trust, ocsp) = both.unwrap_or_else(|_| (TrustBuilder::default().build(), None));
            ClientVerification { asked, trust, depth: spec.depth, level: DEFAULT_LEVEL, ocsp }
        });
        let sessions =
            SessionSettings { cache: SessionCache::Off, tickets: None, timeout: spec.timeout, figures: Arc::default() };
        ServerTls {
            rejects: false,
            has_tls13: spec.protocols.protocols.has(SslProtocol::Tls13),
            verification,
            facts: Box::default(),
            slots: Vec::new(),
            staplings: Vec::new(),
            config: None,
            replaceable: None,
            computed: None,
            sessions,
            store_name: spec.cache.to_string(),
            context: [0; 32],
            number: next_number(),
        }
    }

    /// Brings the OCSP responses that are stapled up to date, without making anybody wait for that.
    ///
    /// It has to be called on a loop when a client of a session with this server wants to know that the server's
    /// certificate was not revoked (`status_request`).
    pub fn status_wanted(&self, generation: &Arc<Generation>) {
        let live = self.slots.iter().filter_map(CertificateSlot::stapling);
        self.staplings.iter().cloned().chain(live).for_each(|stapling| stapling.wanted(generation));
    }

    /// Facts about its certificates at this moment.
    pub fn facts(&self) -> Vec<CertificateFacts> {
        self.facts.iter().cloned().chain(self.slots.iter().filter_map(CertificateSlot::facts)).collect()
    }

    /// Settings for resuming sessions at the addresses whose default server this is.
    pub fn sessions(&self) -> &SessionSettings {
        &self.sessions
    }

    /// The name of the store that sessions are kept in, as `ssl_session_cache` has it, without the size of a zone.
    pub fn store_name(&self) -> &str {
        &self.store_name
    }

    /// Whether there is a certificate, or will be when its name is known.
    pub fn has_certificate(&self) -> bool {
        self.config.is_some() || self.replaceable.is_some() || self.computed.is_some()
    }

    /// Parts of the settings of sessions, if the names of some certificates have variables.
    pub fn computed(&self) -> Option<&ComputedSettings> {
        self.computed.as_ref()
    }

    /// The settings of sessions with this server at an address with this `default` server, whose sessions are resumed: the
    /// resumption of sessions is a matter of the address. `alpn` are the protocols above TLS, the most preferred first. `None`
    /// if this server has no certificate, or one whose name has variables.
    pub fn config_at(&self, default: &ServerTls, alpn: &[&[u8]]) -> Option<AtAddress> {
        let (sessions, context) = (&default.sessions, &self.context);
        if let Some(replaceable) = &self.replaceable {
            return Some(AtAddress::replaceable(replaceable, sessions, context, alpn));
        }
        self.config.as_ref().map(|config| AtAddress::fixed(config, sessions, context, alpn))
    }
}

/// Checks that each certificate has a key.
fn has_keys(spec: &ServerSpec) -> Result<(), Problem> {
    let Some(certificate) = spec.certificates.get(spec.keys.len()) else { return Ok(()) };
    let shown = certificate.as_written();
    let message = format!("no \"ssl_certificate_key\" is defined for certificate \"{shown}\"");
    Err(certificate.spot.blamed(Problem::new(message)))
}

/// Adds the certificate that `ssl_conf_command` names, in place of one for the same kind of key. Without a key of its
/// own it has the key of the certificate whose place it takes.
fn commanded(
    slots: &mut Vec<CertificateSlot>,
    wanted: &WantedAlgorithms,
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
    let made = pair("", certificate, key, spec.passwords.as_ref(), cx)?.key;
    let kind = |key: &CertifiedKey| std::mem::discriminant(&key.kind());
    let same = |slot: &CertificateSlot| slot.now().is_some_and(|now| kind(&now.key) == kind(&made));
    match slots.iter_mut().find(|slot| same(slot)) {
        Some(other) => *other = CertificateSlot::Fixed(made),
        None => slots.push(CertificateSlot::Fixed(made)),
    }
    Ok(())
}

/// Digest that binds sessions to a server: of the service, its certificates, and the CAs that it trusts. Certificates
/// that may be others at any moment count by their names.
fn context(slots: &[CertificateSlot], spec: &ServerSpec, authorities: &[Vec<u8>]) -> [u8; 32] {
    let names = spec.certificates.iter().filter(|name| name.is_computed).map(|name| sha256(name.written.as_bytes()));
    let certificates = slots.iter().flat_map(CertificateSlot::digests);
    let service = std::iter::once(sha256(spec.service.as_bytes()));
    let digests = service.chain(certificates).chain(names).chain(authorities.iter().map(|name| sha256(name)));
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

#[cfg(test)]
mod tests {
    use freerun_conf::{Sources, parse_default};

    use super::*;
    use crate::tls::fixtures::certified;
    use crate::tls::live::LivePairs;

    fn spec(live: Vec<Arc<LivePair>>, cx: &mut Cx) -> ServerSpec {
        let listed = |text: &str, cx: &mut Cx| parse_default::<AlgorithmList>("ssl_ciphers", text, cx).expect("a list");
        ServerSpec {
            service: "http",
            certificates: Vec::new(),
            keys: Vec::new(),
            live,
            certificate_cache: None,
            passwords: None,
            key_log: None,
            protocols: parse_default("ssl_protocols", "TLSv1.2 TLSv1.3", cx).expect("protocols"),
            ciphers: listed("HIGH", cx),
            curves: listed("auto", cx),
            prefer_server_ciphers: false,
            commands: Vec::new(),
            buffer_size: ServerSpec::BUFFER_SIZE,
            rejects: false,
            cache: parse_default("ssl_session_cache", "none", cx).expect("a cache"),
            tickets: SessionTickets::On,
            ticket_keys: Vec::new(),
            timeout: Duration::from_secs(300),
            early_data: false,
            compression: false,
            verify: parse_default("ssl_verify_client", "off", cx).expect("a word"),
            depth: 1,
            client_certificates: None,
            trusted: None,
            lists: None,
            dhparam: None,
            ocsp: OcspSpec {
                stapling: false,
                stapling_file: None,
                stapling_responder: None,
                stapling_verify: false,
                clients: parse_default("ssl_ocsp", "off", cx).expect("a word"),
                responder: None,
                cache: parse_default("ssl_ocsp_cache", "off", cx).expect("a cache"),
                resolving: None,
            },
        }
    }

    #[test]
    fn a_server_may_have_certificates_that_no_file_has() {
        let mut cx = Cx::new(Sources::default());
        let hosts = ["a.example".to_owned()];
        let pair = LivePairs::awaited("acme a", &hosts, &mut cx).expect("a pair");
        let with = spec(vec![pair.clone()], &mut cx);
        let tls = ServerTls::of(with, &mut cx).expect("a server");
        assert!(tls.has_certificate() && tls.computed().is_none());
        let session = tls.config_at(&tls, &[]).expect("settings");
        let (names, short) = (tls.facts()[0].names.clone(), session.now().signature_time());
        assert_eq!(names, hosts);
        pair.replace(certified("rsa"));
        assert!(session.now().signature_time() > short, "the key of RSA takes longer");
        assert!(tls.facts().len() == 1 && tls.facts()[0].names.is_empty());
        let without = spec(Vec::new(), &mut cx);
        assert!(!ServerTls::of(without, &mut cx).expect("a server").has_certificate());
    }
}
