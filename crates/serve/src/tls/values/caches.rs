//! Caches that directives of TLS define.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value, Word, parse_seconds, parse_size};
use freerun_tls::session::SessionStore;
use freerun_tls::verify::Statuses;

use crate::configuration::zones::{MIN_SIZE, StateBytes, Zone, ZoneName, ZoneTable};

/// Treatment of sessions where no zone is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnCache {
    /// Sessions are not kept, whatever zone is named, and the server says so to clients.
    Off,
    /// Sessions are not kept, but the server lets clients believe that they are.
    None,
    /// Sessions are kept, about this number of them, together with the sessions of all servers that name the number.
    Builtin(usize),
}

/// The value of `ssl_session_cache`.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionCacheValue {
    own: OwnCache,
    zone: Option<Zone<SessionStore>>,
}

impl SessionCacheValue {
    /// The zone that sessions are kept in, or what is done without one.
    pub fn place(&self) -> Result<&SessionStore, OwnCache> {
        match (self.own, &self.zone) {
            (OwnCache::Off, _) => Err(OwnCache::Off),
            // A zone serves all workers, so it is at least as good as a builtin cache. It is known where it is written.
            (own, Some(zone)) => zone.get().ok_or(own),
            (own, None) => Err(own),
        }
    }
}

impl fmt::Display for SessionCacheValue {
    /// As it is written, without the size of a zone.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.own, &self.zone) {
            (OwnCache::Off, _) => to.write_str("off"),
            (_, Some(zone)) => write!(to, "shared:{}", zone.name()),
            (OwnCache::None, None) => to.write_str("none"),
            (OwnCache::Builtin(size), None) => write!(to, "builtin:{size}"),
        }
    }
}

impl Eq for SessionCacheValue {}

impl Hash for SessionCacheValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.own.hash(state);
        self.zone.as_ref().map(Zone::name).hash(state);
    }
}

/// Number of sessions in OpenSSL's own cache, unless `builtin` has a size.
const BUILTIN: usize = 20 * 1024;

/// The kind of the zones with sessions.
const SESSIONS: &str = "ssl_session_cache";

/// The kind of the zones with OCSP responses.
const RESPONSES: &str = "ssl_ocsp_cache";

impl Setting for SessionCacheValue {
    const SHAPE: Shape = Shape::between(1, 2, "off | none | [builtin[:size]] [shared:name:size]");

    /// As in nginx, the directive may be repeated.
    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<SessionCacheValue, Problem> {
        let mut value = previous.unwrap_or(SessionCacheValue { own: OwnCache::None, zone: None });
        for word in &directive.args {
            match word.text.as_str() {
                "off" => value.own = OwnCache::Off,
                "none" => value.own = OwnCache::None,
                "builtin" => value.own = OwnCache::Builtin(BUILTIN),
                text => match (text.strip_prefix("builtin:"), text.strip_prefix("shared:")) {
                    (Some(size), _) => {
                        value.own = OwnCache::Builtin(size.parse().map_err(|_| invalid("session", word))?);
                    }
                    (_, Some(zone)) => {
                        let named = zone_of(zone, "session", word)?;
                        let bytes = usize::try_from(named.size).unwrap_or(usize::MAX);
                        let name = format!("{SESSIONS} {} {}", named.name, named.size);
                        let arrived = cx.extensions.get_or_default::<ZoneTable>().arrived(&name);
                        let store = || with_arrived(SessionStore::new(bytes), arrived);
                        let zone = zone_with(&named, SESSIONS, store, directive, cx)?;
                        if let Some(store) = zone.get() {
                            let zones = cx.extensions.get_or_default::<ZoneTable>();
                            zones.carry(&name, &Arc::new(store.clone()), |store| Some(store.save()));
                        }
                        value.zone = Some(zone);
                    }
                    _ => return Err(invalid("session", word)),
                },
            }
        }
        Ok(value)
    }
}

/// A new store with the sessions that an old binary has handed over.
pub fn with_arrived(store: SessionStore, arrived: Option<Arc<StateBytes>>) -> SessionStore {
    if let Some(saved) = arrived {
        store.restore(&saved);
    }
    store
}

/// Refers to a zone that any number of directives may declare alike.
fn zone_with<S: Clone + Send + Sync + 'static>(
    named: &ZoneName,
    kind: &'static str,
    make: impl FnOnce() -> S,
    directive: &Node,
    cx: &mut Cx,
) -> Result<Zone<S>, Problem> {
    let zones = cx.extensions.get_or_default::<ZoneTable>();
    if !zones.has(named, kind) {
        zones.declare(directive, kind, named, "", || Some(make()), |store| (*store).clone())?;
    }
    zones.refer(&named.name, kind, named.place)
}

fn invalid(what: &str, word: &Word) -> Problem {
    Problem::new(format!("invalid {what} cache \"{}\"", word.text)).at(word.place)
}

/// The name and the size of `shared:name:size`.
fn zone_of(zone: &str, what: &str, word: &Word) -> Result<ZoneName, Problem> {
    let (name, size) = zone.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(|| invalid(what, word))?;
    let size = parse_size(size).ok_or_else(|| invalid(what, word))?;
    if size < MIN_SIZE {
        return Err(Problem::new(format!("{what} cache \"{}\" is too small", word.text)).at(word.place));
    }
    Ok(ZoneName { name: name.to_owned(), size, place: word.place })
}

/// The value of `ssl_ocsp_cache`: a zone, if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct OcspCache(Option<Zone<Statuses>>);

impl OcspCache {
    /// The statuses of certificates in the zone.
    pub fn statuses(&self) -> Option<&Statuses> {
        self.0.as_ref()?.get()
    }
}

impl Eq for OcspCache {}

impl Hash for OcspCache {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ref().map(Zone::name).hash(state);
    }
}

impl Value for OcspCache {
    const SHAPE: Shape = Shape::exactly(1, "off | shared:name:size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<OcspCache, Problem> {
        let word = &directive.args[0];
        if word.text == "off" {
            return Ok(OcspCache(None));
        }
        let zone = word.text.strip_prefix("shared:").ok_or_else(|| invalid("OCSP", word))?;
        let named = zone_of(zone, "OCSP", word)?;
        let bytes = usize::try_from(named.size).unwrap_or(usize::MAX);
        Ok(OcspCache(Some(zone_with(&named, RESPONSES, || Statuses::new(bytes), directive, cx)?)))
    }
}

/// The value of `ssl_certificate_cache` and `proxy_ssl_certificate_cache`: how certificates are kept whose names have
/// variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateCache {
    /// The most certificates and keys.
    pub max: u32,
    /// Time after which a certificate that is not used is removed.
    pub inactive: Duration,
    /// Time after which the file is read again.
    pub valid: Duration,
}

/// `ssl_certificate_cache`, which may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CertificateCacheValue(pub Option<CertificateCache>);

impl Value for CertificateCacheValue {
    const SHAPE: Shape = Shape::between(1, 3, "off | max=number [inactive=time] [valid=time]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<CertificateCacheValue, Problem> {
        let (mut max, mut inactive, mut valid) = (None, Duration::from_secs(10), Duration::from_secs(60));
        for word in &directive.args {
            let invalid = || Problem::invalid_parameter(directive, word);
            let time = |text| parse_seconds(text).map(Duration::from_secs).ok_or_else(invalid);
            match word.text.split_once('=') {
                None if word.text == "off" && directive.args.len() == 1 => return Ok(CertificateCacheValue(None)),
                Some(("max", number)) => {
                    max = Some(number.parse().ok().filter(|number| *number > 0).ok_or_else(invalid)?);
                }
                Some(("inactive", text)) => inactive = time(text)?,
                Some(("valid", text)) => valid = time(text)?,
                _ => return Err(invalid()),
            }
        }
        let missing = || Problem::directive(directive, "must have the \"max\" parameter");
        Ok(CertificateCacheValue(Some(CertificateCache { max: max.ok_or_else(missing)?, inactive, valid })))
    }
}
