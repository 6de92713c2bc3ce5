//! Certificates that are replaced while the server runs: by files that have changed (`ssl_certificate … watch`), or by code
//! that gets new ones from elsewhere.
//!
//! A handshake uses the pair that is there at that moment; whoever has a new one puts it there, and neither waits for the
//! other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_conf::{Cx, Problem};
use freerun_runtime::log::clock;
use freerun_tls::issue::temporary;
use freerun_tls::load::CertifiedKey;
use papaya::HashMap;

use super::facts::CertificateFacts;
use super::files::SecretFiles;
pub use super::objects::{FilePair, file_pairs};
use super::words::problem;
use crate::configuration::generation::Generation;
use crate::configuration::parts::Parts;
use crate::configuration::zones::ZoneTable;

/// Validity of the certificate that is used until the real one has come, in seconds: 90 days.
///
/// That is long enough for a reload alone to make it anew, so that nothing watches it while the server runs. Nobody
/// trusts it, so a short life would protect nobody. A CA that was not reached for 90 days is a fault for the
/// administrator.
const TEMPORARY: i64 = 90 * 24 * 3600;

/// A reload makes it anew if it is valid for less than this, in seconds: a third of its life.
const TEMPORARY_LEFT: i64 = TEMPORARY / 3;

/// A certificate with its key, which another pair may replace while the server runs.
///
/// All servers that name the same pair share this value, and sessions are bound to its name, so that they are resumed over a
/// replacement.
pub struct LivePair {
    name: String,
    file: String,
    present: ArcSwap<Present>,
}

/// State of a pair at a moment.
struct Present {
    key: CertifiedKey,
    version: u64,
    facts: Option<CertificateFacts>,
    /// Whether it was made here, to be used until the real one has come.
    is_temporary: bool,
}

impl LivePair {
    /// A pair of this name. `file` is where its certificates come from, as figures and the log show it; `first` is used until
    /// there is another one.
    pub fn new(name: &str, file: &str, first: CertifiedKey) -> LivePair {
        let facts = CertificateFacts::of(&first, file);
        let present = ArcSwap::from_pointee(Present { key: first, version: 1, facts, is_temporary: false });
        LivePair { name: name.to_owned(), file: file.to_owned(), present }
    }

    /// A pair that no file has and whose real certificate is still to come.
    fn awaited(name: &str, temporary: CertifiedKey) -> LivePair {
        let facts = CertificateFacts::of(&temporary, name);
        let present = ArcSwap::from_pointee(Present { key: temporary, version: 1, facts, is_temporary: true });
        LivePair { name: name.to_owned(), file: name.to_owned(), present }
    }

    /// The name that it is known by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pair that is used at this moment.
    pub fn present(&self) -> CertifiedKey {
        self.present.load().key.clone()
    }

    /// The pair that is used at this moment with its version.
    pub(super) fn versioned(&self) -> (CertifiedKey, u64) {
        let present = self.present.load();
        (present.key.clone(), present.version)
    }

    /// Number of pairs so far, this one included.
    pub fn version(&self) -> u64 {
        self.present.load().version
    }

    /// Facts that the present certificate states. `None` if it cannot be read, as some of version 1 cannot.
    pub fn facts(&self) -> Option<CertificateFacts> {
        self.present.load().facts.clone()
    }

    /// Has all handshakes from now on use this pair. A response of OCSP that was stapled to the one before is not stapled to
    /// it. If it is the same chain with the same kind of key, it is replaced nevertheless, as the key may be another one.
    pub fn replace(&self, key: CertifiedKey) {
        let facts = CertificateFacts::of(&key, &self.file);
        self.present.rcu(|before| {
            let version = before.version + 1;
            Present { key: key.clone(), version, facts: facts.clone(), is_temporary: false }
        });
    }

    /// The version of the temporary certificate, if the real one has not come and this one ends soon after `now`, or has ended.
    fn ending(&self, now: i64) -> Option<u64> {
        let present = self.present.load();
        let ends = present.facts.as_ref().map(|facts| facts.expires);
        let soon = ends.is_none_or(|ends| ends < now.saturating_add(TEMPORARY_LEFT));
        (present.is_temporary && soon).then_some(present.version)
    }

    /// Uses another temporary certificate in place of this version, unless something else has come meanwhile.
    fn extend(&self, version: u64, temporary: &CertifiedKey) {
        let facts = CertificateFacts::of(temporary, &self.file);
        self.present.rcu(|before| {
            if before.version == version {
                Arc::new(Present {
                    key: temporary.clone(),
                    version: version + 1,
                    facts: facts.clone(),
                    is_temporary: true,
                })
            } else {
                before.clone()
            }
        });
    }
}

impl fmt::Debug for LivePair {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "LivePair({:?}, version {})", self.name, self.version())
    }
}

impl PartialEq for LivePair {
    /// Whether both are the same value.
    fn eq(&self, other: &LivePair) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for LivePair {}

impl Hash for LivePair {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A pair of a configuration.
struct LiveEntry {
    pair: Arc<LivePair>,
    /// The files that it is made of, if it is.
    files: Option<FilePair>,
}

/// The live pairs of a configuration by name: one of the [`Parts`] of its generation, through which others find a pair to
/// replace it.
#[derive(Default)]
pub struct LivePairs(HashMap<String, LiveEntry>);

/// The state of a pair that no file has, as it is kept from one configuration to the next.
struct KeptLivePair(Arc<LivePair>);

impl LivePairs {
    /// The pairs of a generation, if it has any.
    pub fn of(generation: &Generation) -> Option<Arc<LivePairs>> {
        generation.parts.get()
    }

    /// The pair of this name.
    pub fn get(&self, name: &str) -> Option<Arc<LivePair>> {
        self.0.pin().get(name).map(|entry| entry.pair.clone())
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<LivePair>> {
        self.0.pin().values().map(|entry| entry.pair.clone()).collect()
    }

    /// A pair that no file has, for the configuration that is being read. Within it all that ask for the same name
    /// share one.
    ///
    /// If the running configuration has a pair of the name, it is used with its present certificate. Otherwise `first`
    /// makes the pair that is used until somebody replaces it ([`freerun_tls::issue`] has temporary certificates).
    ///
    /// # Errors
    /// The errors of `first`.
    pub fn named(
        name: &str,
        cx: &mut Cx,
        first: impl FnOnce() -> Result<CertifiedKey, Problem>,
    ) -> Result<Arc<LivePair>, Problem> {
        LivePairs::kept(name, cx, || first().map(|first| LivePair::new(name, name, first)))
    }

    fn kept(
        name: &str,
        cx: &mut Cx,
        make: impl FnOnce() -> Result<LivePair, Problem>,
    ) -> Result<Arc<LivePair>, Problem> {
        let pairs = LivePairs::being_read(cx);
        if let Some(pair) = pairs.get(name) {
            return Ok(pair);
        }
        let mut failed = None;
        let kept = cx.extensions.get_or_default::<ZoneTable>().keep_if(&format!("live {name}"), || {
            let made = make().map_err(|problem| failed = Some(problem)).ok()?;
            Some(KeptLivePair(Arc::new(made)))
        });
        let Some(kept) = kept else { return Err(failed.unwrap_or_else(|| Problem::new("no certificate"))) };
        pairs.0.pin().insert(name.to_owned(), LiveEntry { pair: kept.0.clone(), files: None });
        Ok(kept.0.clone())
    }

    /// A pair as [`LivePairs::named`] has it, for a certificate that is still to come: a temporary certificate for
    /// these DNS names and addresses is used until somebody replaces it. Clients have nothing to trust it by. If the
    /// temporary certificate of the running configuration ends soon, it is made anew.
    ///
    /// # Errors
    /// No certificate can be made for the names.
    pub fn awaited(name: &str, hosts: &[String], cx: &mut Cx) -> Result<Arc<LivePair>, Problem> {
        LivePairs::awaited_at(clock::now().secs, name, hosts, cx)
    }

    /// The same at a time in seconds since 1970.
    fn awaited_at(now: i64, name: &str, hosts: &[String], cx: &mut Cx) -> Result<Arc<LivePair>, Problem> {
        let make = || temporary(hosts, now, TEMPORARY).and_then(|issued| issued.certified());
        let pair = LivePairs::kept(name, cx, || make().map_err(problem).map(|first| LivePair::awaited(name, first)))?;
        // The configuration that runs has the same pair, and may have this certificate too: nobody trusts either. A
        // certificate that cannot be made anew is no reason to refuse a reload.
        if let Some(version) = pair.ending(now)
            && let Ok(again) = make()
        {
            pair.extend(version, &again);
        }
        Ok(pair)
    }

    /// The pair that is made of these files; `first` was made of them when the configuration was read. Each
    /// configuration has its own: the running configuration must not use a pair from a configuration that failed.
    pub(super) fn of_files(files: FilePair, first: &CertifiedKey, cx: &mut Cx) -> Arc<LivePair> {
        let pairs = LivePairs::being_read(cx);
        let name = files.name();
        pairs.get(&name).unwrap_or_else(|| {
            let pair = Arc::new(LivePair::new(&name, &files.certificate, first.clone()));
            pairs.0.pin().insert(name, LiveEntry { pair: pair.clone(), files: Some(files) });
            pair
        })
    }

    /// Makes those pairs anew whose two files are both among these, and puts them in the place of the old ones. The
    /// result for each is the new pair, or the reason why the old one stays, as a line for the error log.
    ///
    /// This reads certificates and keys, for which a key that is encrypted may take long, so it is not for a loop.
    pub fn renew(&self, files: &SecretFiles) -> Vec<Result<Arc<LivePair>, String>> {
        let concerned = |entry: &LiveEntry| {
            let made_of = entry.files.as_ref()?;
            made_of.is_among(files).then(|| (entry.pair.clone(), made_of.clone()))
        };
        let concerned: Vec<_> = self.0.pin().values().filter_map(concerned).collect();
        let renewed = concerned.into_iter().map(|(pair, made_of)| {
            pair.replace(made_of.make(files)?);
            Ok(pair)
        });
        renewed.collect()
    }

    fn being_read(cx: &mut Cx) -> Arc<LivePairs> {
        let parts = cx.extensions.get_or_default::<Parts>();
        parts.get::<LivePairs>().unwrap_or_else(|| {
            let made = Arc::new(LivePairs::default());
            parts.insert(made.clone());
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::Sources;

    use super::*;
    use crate::tls::files::KnownFile;
    use crate::tls::fixtures::{certified, contents};

    fn chain(pair: &LivePair) -> Vec<Vec<u8>> {
        pair.present().chain().map(<[u8]>::to_vec).collect()
    }

    fn files(certificate: &str, key: &str) -> SecretFiles {
        let known = |name: &str| KnownFile::read(contents(name), None);
        [("/own.crt".to_owned(), known(certificate)), ("/own.key".to_owned(), known(key))].into()
    }

    #[test]
    fn a_pair_is_replaced_with_what_it_says() {
        let pair = LivePair::new("a", "a.crt", certified("ec"));
        let (before, facts) = (chain(&pair), pair.facts().expect("facts"));
        pair.replace(certified("rsa"));
        assert_ne!(chain(&pair), before);
        assert_eq!((pair.version(), pair.name()), (2, "a"));
        let now = pair.facts().expect("facts");
        assert!(now != facts && now.file == "a.crt");
    }

    #[test]
    fn files_that_do_not_fit_leave_the_old_pair() {
        let mut cx = Cx::new(Sources::default());
        let made_of = FilePair::new("/own.crt", "/own.key");
        let pair = LivePairs::of_files(made_of, &certified("ec"), &mut cx);
        let pairs = cx.extensions.get_or_default::<Parts>().get::<LivePairs>().expect("a part");
        let before = chain(&pair);
        let said: Vec<_> = pairs.renew(&files("rsa.crt", "ec.key")).into_iter().map(|came| came.unwrap_err()).collect();
        assert!(said.len() == 1 && said[0].contains("mismatch"), "{said:?}");
        assert_eq!((chain(&pair), pair.version()), (before, 1));
        assert!(matches!(pairs.renew(&files("rsa.crt", "rsa.key")).as_slice(), [Ok(_)]));
        assert_eq!(chain(&pair), chain(&LivePair::new("", "", certified("rsa"))));
        // Files of other pairs are none of its business.
        let others = files("ec.crt", "ec.key").into_iter().map(|(path, file)| (format!("{path}2"), file)).collect();
        assert!(pairs.renew(&others).is_empty() && pair.version() == 2);
    }

    #[test]
    fn a_pair_without_files_is_kept_over_a_reload() {
        let mut first = Cx::new(Sources::default());
        let pair = LivePairs::named("acme a", &mut first, || Ok(certified("ec"))).expect("a pair");
        let again = LivePairs::named("acme a", &mut first, || unreachable!("it is there")).expect("a pair");
        assert!(Arc::ptr_eq(&pair, &again));
        pair.replace(certified("rsa"));
        let mut next = Cx::new(Sources::default());
        next.extensions.insert(ZoneTable::seeded(first.extensions.get_or_default::<ZoneTable>().zones()));
        let kept = LivePairs::named("acme a", &mut next, || unreachable!("the old one goes on")).expect("a pair");
        assert!(Arc::ptr_eq(&pair, &kept));
        let listed = next.extensions.get_or_default::<Parts>().get::<LivePairs>().expect("a part");
        assert!(listed.get("acme a").is_some() && listed.get("acme b").is_none());
        let awaited = LivePairs::awaited("acme c", &["c.example".to_owned()], &mut next).expect("a pair");
        assert_eq!(awaited.facts().map(|facts| facts.names), Some(vec!["c.example".to_owned()]));
        assert!(LivePairs::awaited("acme d", &["\u{e4}".to_owned()], &mut next).is_err());
        let failed = LivePairs::named("acme b", &mut next, || Err(Problem::new("no key")));
        assert_eq!(failed.err().map(|problem| problem.message), Some("no key".to_owned()));
    }

    #[test]
    fn a_temporary_certificate_that_ends_soon_is_made_anew_by_a_reload() {
        const DAY: i64 = 24 * 3600;
        let mut zones = ZoneTable::default().zones();
        let mut reload = |day: i64| {
            let mut cx = Cx::new(Sources::default());
            cx.extensions.insert(ZoneTable::seeded(zones.clone()));
            let now = 1_790_000_000 + day * DAY;
            let pair = LivePairs::awaited_at(now, "acme a", &["a.example".to_owned()], &mut cx).expect("a pair");
            zones = cx.extensions.get_or_default::<ZoneTable>().zones();
            pair
        };
        let ends = |pair: &LivePair| (pair.facts().expect("facts").expires - 1_790_000_000) / DAY;
        let pair = reload(0);
        assert_eq!((ends(&pair), pair.version()), (90, 1));
        for (day, end, version) in [(59, 90, 1), (61, 151, 2), (61, 151, 2), (1000, 1090, 3)] {
            let again = reload(day);
            assert!(Arc::ptr_eq(&pair, &again));
            assert_eq!((ends(&again), again.version()), (end, version), "{day}");
        }
        // The real one came while another temporary one was made.
        let version = pair.ending(1_790_000_000 + 2000 * DAY).expect("it has ended");
        let real = certified("ec");
        pair.replace(real.clone());
        pair.extend(version, &certified("rsa"));
        assert!(pair.present().chain().eq(real.chain()));
        assert_eq!(reload(100_000).version(), 4, "the real one stays when it has ended");
    }
}
