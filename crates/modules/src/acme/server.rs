//! The server as the client of ACME sees it: the error log, the resolver, the answers to challenges, the certificates that
//! are used.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use data_encoding::BASE64;
use freerun_acme::{Addresses, CertificateSettings, Challenge, Host, Level, Pair};
use freerun_http::settings::acme::WantedCertificates;
use freerun_runtime::log::{ErrorLog, Level as LogLevel};
use freerun_serve::http_client::RemoteClient;
use freerun_serve::tls::challenges::Challenges;
use freerun_serve::tls::live::LivePair;
use freerun_tls::load::{CertificateKey, CertifiedKey, Chain};
use freerun_upstream::resolve::{Resolver, system};
use zeroize::Zeroizing;

/// Parts of the newest configuration that the client uses.
struct Newest {
    log: ErrorLog,
    resolver: Option<(Arc<Resolver>, Duration)>,
    pairs: HashMap<CertificateSettings, Arc<LivePair>>,
}

/// The server, which is kept over reloads.
#[derive(Default)]
pub(super) struct Server {
    challenges: Arc<Challenges>,
    newest: ArcSwapOption<Newest>,
    /// The HTTP client for requests to CAs, on the loops of the worker.
    http_client: ArcSwapOption<RemoteClient>,
    /// The certificates that were issued, of those that the newest configuration wants.
    issued: ArcSwap<HashMap<CertificateSettings, Pair>>,
}

impl Server {
    /// The answers to challenges.
    pub(super) fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// Goes on with another configuration.
    pub(super) fn take(&self, wanted: &WantedCertificates, log: &ErrorLog) {
        let pairs = wanted.certificates.iter().map(|one| (one.settings.clone(), one.pair.clone())).collect();
        let newest = Newest { log: log.clone(), resolver: wanted.resolver.clone(), pairs };
        let newest = Arc::new(newest);
        self.newest.store(Some(newest.clone()));
        self.issued.rcu(|issued| {
            let mut issued = HashMap::clone(issued);
            issued.retain(|settings, _| newest.pairs.contains_key(settings));
            issued
        });
    }

    /// Sends the requests from now on by this client; `None`: none is sent.
    pub(super) fn set_http_client(&self, client: Option<RemoteClient>) {
        self.http_client.store(client.map(Arc::new));
    }

    /// Goes on with a configuration that wants no certificates: keys of the one before are not kept.
    pub(super) fn clear(&self) {
        self.newest.store(None);
        self.issued.store(Arc::default());
    }

    /// Whether this certificate has come.
    pub(super) fn has(&self, settings: &CertificateSettings) -> bool {
        self.issued.load().contains_key(settings)
    }

    /// Has all handshakes from now on use this certificate. A certificate that no server wants any more is not used.
    pub(super) fn put(&self, settings: &CertificateSettings, pair: &Pair) {
        let newest = self.newest.load();
        let Some(live) = newest.as_ref().and_then(|newest| newest.pairs.get(settings)) else { return };
        match certified(&pair.chain, &pair.key) {
            Ok(key) => {
                live.replace(key);
                self.issued.rcu(|issued| {
                    let mut issued = HashMap::clone(issued);
                    issued.insert(settings.clone(), pair.clone());
                    issued
                });
            }
            Err(why) => {
                self.log(Level::Error, &format!("the certificate \"{}\" cannot be used: {why}", live.name()));
            }
        }
    }
}

/// The certificate with its key, ready for handshakes.
fn certified(chain: &str, key: &str) -> Result<CertifiedKey, String> {
    let none: &[&[u8]] = &[];
    let chain = Chain::from_pem(chain.as_bytes());
    let key = CertificateKey::from_pem(key.as_bytes(), none);
    let made = chain.and_then(|chain| CertifiedKey::new(&chain, &key?));
    made.map_err(|error| error.words("certificate", "key"))
}

/// The PEM text of something in DER (RFC 7468).
fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let text = Zeroizing::new(BASE64.encode(der));
    let mut pem = Zeroizing::new(String::with_capacity(text.len() + text.len() / 64 + 2 * label.len() + 40));
    pem.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

impl Host for Server {
    fn log(&self, level: Level, line: &str) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Notice => LogLevel::Notice,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        if let Some(newest) = self.newest.load().as_ref() {
            newest.log.write(level, None, format_args!("{line}"));
        }
    }

    fn resolve(&self, host: &str) -> Addresses {
        let host = host.to_owned();
        let resolver = self.newest.load().as_ref().and_then(|newest| newest.resolver.clone());
        match resolver {
            Some((resolver, timeout)) => Box::pin(async move {
                let answer = resolver.addresses(&host, timeout).await;
                answer.map(|answer| answer.addresses.to_vec()).map_err(|error| io::Error::other(error.to_string()))
            }),
            None => Box::pin(async move { system::lookup_elsewhere(&host).await }),
        }
    }

    fn http_client(&self) -> Option<RemoteClient> {
        self.http_client.load().as_deref().cloned()
    }

    fn publish(&self, challenge: &Challenge) -> Result<(), String> {
        match challenge {
            Challenge::Http01 { token, key_authorization } => {
                self.challenges.add_page(token, key_authorization).map_err(|error| error.to_string())
            }
            Challenge::TlsAlpn01 { identifier, certificate, key } => {
                let made = certified(&pem("CERTIFICATE", certificate), &pem("PRIVATE KEY", key));
                made.and_then(|made| {
                    let name = Challenge::tls_alpn_name(identifier);
                    self.challenges.add_certificate(&name, made).map_err(|error| error.to_string())
                })
            }
        }
    }

    fn withdraw(&self, challenge: &Challenge) {
        match challenge {
            Challenge::Http01 { token, .. } => self.challenges.remove_page(token),
            Challenge::TlsAlpn01 { identifier, .. } => {
                self.challenges.remove_certificate(&Challenge::tls_alpn_name(identifier));
            }
        }
    }

    fn issued(&self, certificate: &CertificateSettings, pair: &Pair) {
        self.put(certificate, pair);
    }

    fn held(&self, certificate: &CertificateSettings) -> Option<Pair> {
        self.issued.load().get(certificate).cloned()
    }
}

#[cfg(test)]
mod tests {
    use freerun_acme::Identifier;
    use freerun_tls::issue::temporary;

    use super::*;

    /// What follows the armour of a PEM text.
    fn der(pem: &str) -> Vec<u8> {
        let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        BASE64.decode(lines.as_bytes()).expect("base64")
    }

    #[test]
    fn challenges_are_answered_until_they_are_taken_back() {
        let server = Server::default();
        let page = Challenge::Http01 { token: "t".to_owned(), key_authorization: "t.k".to_owned() };
        assert_eq!(server.publish(&page), Ok(()));
        let path = b"/.well-known/acme-challenge/t";
        assert_eq!(server.challenges().page(path).as_deref(), Some(&b"t.k"[..]));
        server.withdraw(&page);
        assert_eq!(server.challenges().page(path), None);
        let issued = temporary(&["a.example".to_owned()], 1_790_000_000, 3600).expect("a certificate");
        let certificate = Challenge::TlsAlpn01 {
            identifier: Identifier::parse("a.example").expect("a name"),
            certificate: der(&issued.chain),
            key: der(&issued.key).into(),
        };
        assert_eq!(server.publish(&certificate), Ok(()));
        assert_eq!(format!("{:?}", server.challenges()), "Challenges(0 pages, 1 sessions)");
        server.withdraw(&certificate);
        assert_eq!(format!("{:?}", server.challenges()), "Challenges(0 pages, 0 sessions)");
        let unusable = Challenge::TlsAlpn01 {
            identifier: Identifier::parse("a.example").expect("a name"),
            certificate: b"none".to_vec(),
            key: der(&issued.key).into(),
        };
        assert!(server.publish(&unusable).is_err_and(|why| !why.is_empty()));
    }
}
