//! Certificates that a configuration wants from its issuers, and their choice for each server.

use std::sync::Arc;
use std::time::Duration;

use freerun_acme::{CertificateSettings, Identifier, IssuerSettings, KeyKind};
use freerun_conf::{Cx, Problem, SettingsSet, near};
use freerun_serve::listen::setting::ListenProtocols;
use freerun_serve::tls::live::{LivePair, LivePairs};
use freerun_serve::tls::values::{ComputedFile, FileName, ServerCertificate, Spot};
use freerun_upstream::resolve::Resolver;

use super::AcmeSettings;
use crate::settings::server::ServerSettings;
use crate::settings::ssl::SslSettings;
use crate::template::Template;
use freerun_serve::build::names::ServerName;

/// The certificates of a configuration with their issuers: one of the
/// [`Parts`](freerun_serve::configuration::parts::Parts) of its generation, if there are any.
#[derive(Debug)]
pub struct WantedCertificates {
    /// The issuers that certificates are wanted of.
    pub issuers: Vec<IssuerSettings>,
    /// The certificates, each once.
    pub certificates: Vec<WantedCertificate>,
    /// The resolver for the names of the issuers' servers, and its patience; the system otherwise.
    pub resolver: Option<(Arc<Resolver>, Duration)>,
}

/// A certificate that is wanted.
#[derive(Debug, Clone)]
pub struct WantedCertificate {
    /// Which one.
    pub settings: CertificateSettings,
    /// The place of the certificate for handshakes.
    pub pair: Arc<LivePair>,
}

/// The issuers and certificates of the configuration that is being read; lives in its context.
#[derive(Debug, Default)]
pub struct DeclaredIssuers {
    issuers: Vec<IssuerSettings>,
    certificates: Vec<WantedCertificate>,
}

impl DeclaredIssuers {
    /// The issuer of this name.
    pub(super) fn issuer(&self, name: &str) -> Option<&IssuerSettings> {
        self.issuers.iter().find(|issuer| issuer.name == name)
    }

    /// The issuer whose account this one would replace on disk.
    pub(super) fn account_replaced_by(&self, issuer: &IssuerSettings) -> Option<&IssuerSettings> {
        self.issuers.iter().find(|other| issuer.replaces_account_of(other))
    }

    pub(super) fn add_issuer(&mut self, issuer: IssuerSettings) {
        self.issuers.push(issuer);
    }

    /// All of it, when the configuration has been read; `None` if no certificate is wanted.
    pub fn finish(self, resolver: Option<(Arc<Resolver>, Duration)>) -> Option<WantedCertificates> {
        let DeclaredIssuers { mut issuers, certificates } = self;
        issuers.retain(|issuer| certificates.iter().any(|one| one.settings.issuer == issuer.name));
        (!certificates.is_empty()).then_some(WantedCertificates { issuers, certificates, resolver })
    }

    /// The issuer that is meant where none is named.
    fn default_issuer(&self) -> Result<&IssuerSettings, Problem> {
        match &self.issuers[..] {
            [] => Err(Problem::new("\"ssl_certificate auto\" needs an \"acme_issuer\", and there is none").hint(
                "add to \"http\": acme_issuer letsencrypt { uri https://acme-v02.api.letsencrypt.org/directory; \
                 contact you@example.com; accept_terms_of_service; }",
            )),
            [issuer] => Ok(issuer),
            _ => self.issuer("default").ok_or_else(|| {
                let problem = Problem::new("\"ssl_certificate auto\" does not say which \"acme_issuer\" is meant");
                problem.hint("name one of them \"default\", or write \"acme_certificate\" with the name of one")
            }),
        }
    }
}

/// The name of the pair of a certificate, which handshakes find it by.
fn pair_name(settings: &CertificateSettings) -> String {
    let CertificateSettings { issuer, identifiers, key } = settings;
    let names: Vec<String> = identifiers.iter().map(Identifier::to_string).collect();
    format!("acme {issuer} {} {}", key.name(), names.join(" "))
}

/// The certificates that a server shows.
pub struct OfServer<'s> {
    /// Certificates from files, each with its key if it has one.
    pub files: Vec<&'s ServerCertificate<Template>>,
    /// The keys of these.
    pub keys: Vec<&'s ComputedFile<Template>>,
    /// Whether the certificate of `acme_certificate` is among them.
    has_named: bool,
    /// `ssl_certificate auto`, if it is among them.
    auto: Option<Spot>,
}

/// Whether a name is this variable and nothing else.
fn is_variable(name: &FileName, variable: &str) -> bool {
    let bare = name.written.strip_prefix('$');
    bare.is_some_and(|bare| bare == variable || bare == format!("{{{variable}}}"))
}

/// The certificates that a server's directives name. Those that come from a CA have no texts.
pub fn of_server(settings: &SettingsSet) -> OfServer<'_> {
    let ssl = settings.get::<SslSettings>();
    let has_acme = settings.get::<AcmeSettings>().acme_certificate.is_some();
    let mut own = OfServer { files: Vec::new(), keys: Vec::new(), has_named: false, auto: None };
    let mut keys = ssl.ssl_certificate_key.iter();
    for certificate in &ssl.ssl_certificate {
        let name = &certificate.0.name;
        if certificate.is_auto() {
            own.auto = Some(name.spot);
            continue;
        }
        let key = keys.next();
        let both = is_variable(name, "acme_certificate")
            && key.is_some_and(|key| is_variable(&key.name, "acme_certificate_key"));
        if has_acme && both {
            own.has_named = true;
            continue;
        }
        own.files.push(certificate);
        own.keys.extend(key);
    }
    own.keys.extend(keys);
    own
}

/// The certificates from CAs that a server shows, made known to be wanted. A certificate that the server wants and does
/// not show is made known too.
///
/// # Errors
/// There is no such issuer, or the server's names are none that a certificate can be ordered for.
pub(in crate::settings) fn live(
    settings: &SettingsSet,
    own: &OfServer<'_>,
    cx: &mut Cx,
) -> Result<Vec<Arc<LivePair>>, Problem> {
    let mut pairs = Vec::new();
    if let Some(named) = &settings.get::<AcmeSettings>().acme_certificate {
        let declared = cx.extensions.get_or_default::<DeclaredIssuers>();
        if declared.issuer(&named.issuer).is_none() {
            let problem = Problem::new(format!("acme_issuer \"{}\" is not defined", named.issuer));
            let near = near(&named.issuer, declared.issuers.iter().map(|issuer| issuer.name.as_str()));
            let problem = near.iter().fold(problem, |problem, near| problem.hint(format!("did you mean \"{near}\"?")));
            return Err(named.spot.blamed(problem));
        }
        let identifiers = if named.identifiers.is_empty() {
            server_names(settings, "acme_certificate", named.spot, cx)?
        } else {
            named.identifiers.clone()
        };
        let certificate = CertificateSettings { issuer: named.issuer.clone(), identifiers, key: named.key };
        // It is set once: the directive belongs to one server.
        let _ = named.wanted.set(certificate.clone());
        let pair = want(certificate, named.spot, cx)?;
        pairs.extend(own.has_named.then_some(pair));
    }
    // A certificate for all servers is none for those without TLS.
    let has_tls = settings.get::<ServerSettings>().listen.iter().any(|listen| listen.protocols.tls());
    if let Some(spot) = own.auto.filter(|_| has_tls && !settings.get::<SslSettings>().ssl_reject_handshake) {
        let declared = cx.extensions.get_or_default::<DeclaredIssuers>();
        let issuer = declared.default_issuer().map_err(|problem| spot.blamed(problem))?.name.clone();
        let identifiers = server_names(settings, "ssl_certificate auto", spot, cx)?;
        let certificate = CertificateSettings { issuer, identifiers, key: KeyKind::default() };
        let pair = want(certificate, spot, cx)?;
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

/// Makes a certificate known to be wanted, and gives its pair.
fn want(settings: CertificateSettings, spot: Spot, cx: &mut Cx) -> Result<Arc<LivePair>, Problem> {
    let known = |declared: &DeclaredIssuers| declared.certificates.iter().find(|one| one.settings == settings).cloned();
    if let Some(one) = known(cx.extensions.get_or_default::<DeclaredIssuers>()) {
        return Ok(one.pair);
    }
    let hosts: Vec<String> = settings.identifiers.iter().map(Identifier::to_string).collect();
    let pair = LivePairs::awaited(&pair_name(&settings), &hosts, cx).map_err(|problem| spot.blamed(problem))?;
    let declared = cx.extensions.get_or_default::<DeclaredIssuers>();
    declared.certificates.push(WantedCertificate { settings, pair: pair.clone() });
    Ok(pair)
}

/// The identifiers that the server's own names are.
fn server_names(settings: &SettingsSet, what: &str, spot: Spot, cx: &mut Cx) -> Result<Vec<Identifier>, Problem> {
    const WAY_OUT: &str = "write \"acme_certificate issuer name …;\" with the names that the certificate is for";
    let names = &settings.get::<ServerSettings>().server_name.names;
    let mut identifiers = Vec::new();
    for name in names.iter() {
        let refused = |shown: &str, why: &str| {
            let message = format!("\"{what}\" orders no certificate for the server name \"{shown}\": {why}");
            Err(spot.blamed(Problem::new(message).hint(WAY_OUT)))
        };
        let text = match name {
            ServerName::Exact(name) => name.as_str(),
            // `.example.com` is `example.com` with all below it.
            ServerName::Front(suffix, true) => {
                let bare = &suffix[1..];
                let message = format!("\"{what}\" orders no certificate for names below \"{bare}\"");
                cx.warn(spot.blamed(Problem::warning(message)));
                bare
            }
            ServerName::Front(suffix, false) => return refused(&format!("*{suffix}"), "it has a wildcard"),
            ServerName::Back(prefix) => return refused(&format!("{prefix}*"), "it has a wildcard"),
            ServerName::Regex(_) => {
                let message =
                    format!("\"{what}\" orders no certificate for a server name that is a regular expression");
                return Err(spot.blamed(Problem::new(message).hint(WAY_OUT)));
            }
        };
        // Requests without a host have this name.
        if text.is_empty() {
            continue;
        }
        // A name that stands for all hosts that no other server has.
        if text == "_" {
            return refused(text, "no host has it");
        }
        match Identifier::parse(text) {
            Ok(identifier) if identifiers.contains(&identifier) => {}
            Ok(identifier) => identifiers.push(identifier),
            Err(why) => return refused(text, &why.to_string()),
        }
    }
    if identifiers.is_empty() {
        let problem = Problem::new(format!("\"{what}\" needs a \"server_name\", and the server has none"));
        return Err(spot.blamed(problem.hint(WAY_OUT)));
    }
    Ok(identifiers)
}
