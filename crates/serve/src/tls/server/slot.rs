//! The certificates of a server, in their order. Some stay, some may be replaced, and some have names with variables.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use freerun_conf::{Cx, Problem};
use freerun_tls::digest::sha256;
use freerun_tls::load::CertifiedKey;

use super::ServerSpec;
use crate::tls::facts::CertificateFacts;
use crate::tls::live::{LivePair, LivePairs};
use crate::tls::objects::pair;
use crate::tls::ocsp::{Recipe, Staples, Stapling};
use crate::tls::values::{FileName, Spot};

/// A certificate of a server.
#[derive(Debug, Clone)]
pub(super) enum CertificateSlot {
    /// A certificate that stays.
    Fixed(CertifiedKey),
    /// A certificate whose name has variables.
    Computed,
    /// A certificate that may be replaced while the server runs.
    Live(Live),
}

/// A certificate that may be replaced.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pair: Arc<LivePair>,
    /// Staple of the certificate that was used last. All clones of this value have the same: responses are fetched for
    /// it between one handshake and the next.
    stapled: Arc<ArcSwapOption<StapledResponse>>,
    /// Parts to make the stapling of certificates that come later.
    later: Option<Arc<Recipe>>,
}

/// Staple of the certificate that has this version.
#[derive(Debug)]
struct StapledResponse {
    version: u64,
    stapling: Arc<Stapling>,
}

/// A certificate at a moment.
pub(super) struct Now {
    pub(super) key: CertifiedKey,
    /// Its version, or 0 if the certificate stays.
    pub(super) version: u64,
    /// Its staple, if the certificate may be replaced.
    stapling: Option<Arc<Stapling>>,
}

impl Live {
    pub(super) fn new(pair: Arc<LivePair>) -> Live {
        Live { pair, stapled: Arc::default(), later: None }
    }

    fn now(&self) -> Now {
        let (key, version) = self.pair.versioned();
        let stapling = self.stapling(&key, version);
        let key = stapling.as_ref().map_or(key, |stapling| stapling.key().clone());
        Now { key, version, stapling }
    }

    /// Staple of the certificate of this version, made when a loop asks for it for the first time. Loops that ask at
    /// the same time get the same.
    fn stapling(&self, key: &CertifiedKey, version: u64) -> Option<Arc<Stapling>> {
        let of_version = |stapled: &Option<Arc<StapledResponse>>| {
            stapled.as_ref().filter(|stapled| stapled.version == version).map(|stapled| stapled.stapling.clone())
        };
        if let Some(known) = of_version(&self.stapled.load()) {
            return Some(known);
        }
        let stapling = Arc::new(Stapling::later(key, self.later.clone()?));
        let new = Arc::new(StapledResponse { version, stapling: stapling.clone() });
        // A loop that has looked at the pair before it was replaced must not put back what belongs to the old one.
        let before = self.stapled.rcu(|last| match last {
            Some(last) if last.version >= version => Some(last.clone()),
            _ => Some(new.clone()),
        });
        Some(of_version(&before).unwrap_or(stapling))
    }
}

impl CertificateSlot {
    /// The certificate at this moment; `None` if its name has variables.
    pub(super) fn now(&self) -> Option<Now> {
        match self {
            CertificateSlot::Fixed(key) => Some(Now { key: key.clone(), version: 0, stapling: None }),
            CertificateSlot::Computed => None,
            CertificateSlot::Live(live) => Some(live.now()),
        }
    }

    /// The version of the certificate at this moment, or 0 if it stays.
    pub(super) fn version(&self) -> u64 {
        if let CertificateSlot::Live(live) = self { live.pair.version() } else { 0 }
    }

    /// Staple of the certificate at this moment, if it may be replaced.
    pub(super) fn stapling(&self) -> Option<Arc<Stapling>> {
        if let CertificateSlot::Live(live) = self { live.now().stapling } else { None }
    }

    /// Facts that the certificate states, if it may be replaced.
    pub(super) fn facts(&self) -> Option<CertificateFacts> {
        if let CertificateSlot::Live(live) = self { live.pair.facts() } else { None }
    }

    /// The certificate, if it stays.
    pub(super) fn fixed(&self) -> Option<&CertifiedKey> {
        if let CertificateSlot::Fixed(key) = self { Some(key) } else { None }
    }

    /// The digests that bind sessions to the certificate: of the chain, or of what names it, if it may be another one at the
    /// next moment.
    pub(super) fn digests(&self) -> Vec<[u8; 32]> {
        match self {
            CertificateSlot::Fixed(key) => key.chain().map(sha256).collect(),
            CertificateSlot::Computed => Vec::new(),
            CertificateSlot::Live(live) => vec![sha256(format!("live {}", live.pair.name()).as_bytes())],
        }
    }

    /// Has responses stapled to the certificate. `file` is where it comes from.
    pub(super) fn staple(
        &mut self,
        staples: &Staples<'_>,
        file: Option<&FileName>,
        cx: &mut Cx,
    ) -> Option<Arc<Stapling>> {
        let spot = file.map_or(Spot::NONE, |file| file.spot);
        match self {
            CertificateSlot::Computed => None,
            CertificateSlot::Fixed(key) => {
                let stapling = staples.stapled(file.map_or("", FileName::shown), spot, key, cx)?;
                *key = stapling.key().clone();
                Some(stapling)
            }
            CertificateSlot::Live(live) => {
                let (key, version) = live.pair.versioned();
                let shown = file.map_or_else(|| live.pair.name(), FileName::shown).to_owned();
                let first = staples.stapled(&shown, spot, &key, cx);
                live.later = staples.recipe(&shown, first.as_deref());
                live.stapled =
                    Arc::new(ArcSwapOption::from_pointee(first.map(|stapling| StapledResponse { version, stapling })));
                None
            }
        }
    }
}

/// The server's certificates: first the ones from files in their order, then the live certificates that no file has.
pub(super) fn slots(spec: &ServerSpec, cx: &mut Cx) -> Result<Vec<CertificateSlot>, Problem> {
    let one = |(certificate, key): (&FileName, &FileName)| {
        if certificate.watch.is_some() {
            may_be_watched(certificate, key)?;
        }
        if certificate.is_computed || key.is_computed {
            return Ok(CertificateSlot::Computed);
        }
        let made = pair("", certificate, key, spec.passwords.as_ref(), cx)?;
        Ok(match certificate.watch {
            None => CertificateSlot::Fixed(made.key),
            Some(_) => CertificateSlot::Live(Live::new(LivePairs::of_files(made.files, &made.key, cx))),
        })
    };
    let mut slots = spec.certificates.iter().zip(&spec.keys).map(one).collect::<Result<Vec<_>, Problem>>()?;
    slots.extend(spec.live.iter().map(|pair| CertificateSlot::Live(Live::new(pair.clone()))));
    Ok(slots)
}

/// Whether there are files that can be looked at while the server runs.
fn may_be_watched(certificate: &FileName, key: &FileName) -> Result<(), Problem> {
    for (what, name) in [("certificate", certificate), ("certificate key", key)] {
        let why = if name.is_computed {
            "has variables in its name"
        } else if name.written.starts_with("data:") || name.written.starts_with("engine:") {
            "is not in a file"
        } else {
            continue;
        };
        let message = format!("\"watch\" of \"ssl_certificate\" is not possible: the {what} {why}");
        return Err(certificate.spot.blamed(Problem::new(message)));
    }
    Ok(())
}
