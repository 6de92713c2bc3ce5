//! Certificates whose names have variables (`ssl_certificate $ssl_server_name.crt`): they are read when they are needed, by
//! threads that may wait, with the rights of the worker.
//!
//! Each pair of names is read by one connection at a time, whichever loop it is on; the others wait for what comes of it. With
//! a cache (`ssl_certificate_cache`) pairs are kept; failures are kept for a second in any case.

use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freerun_conf::{Cx, bytes_of, path_of, text_of};
use freerun_runtime::files::FileSystem;
use freerun_runtime::loops;
use freerun_runtime::pool::{PoolError, ThreadPool};
use freerun_tls::load::{CertifiedKey, inline};
use quick_cache::UnitWeighter;
use quick_cache::sync::Cache;
use zeroize::Zeroizing;

use super::files::{Secret, read_wiping};
use super::objects::{key_path, make};
use super::settings_cache::PreparedSettings;
use super::values::{CertificateCache, ComputedName, PasswordFile, shown};
use crate::configuration::parts::Paths;
use crate::configuration::services::Services;
use crate::configuration::zones::ZoneTable;

/// For how long it is known that a certificate cannot be used.
const FAILED: Duration = Duration::from_secs(1);

/// Number of entries for pairs that are being read or cannot be used. They have a table of their own, so that a client
/// that asks for many names does not push out pairs in use.
const RECENT: usize = 1024;

/// The most pairs of a cache, whatever is asked for.
const MOST: usize = 1 << 20;

/// Size of the largest cache that looks through all its pairs for the least recently used one when another pair comes.
/// In larger caches that would take too long: they remove some pair that has not been used for long.
const LOOKED_THROUGH: usize = 1024;

/// The names of a certificate and its key, as their variables give them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PairNames {
    /// The value of `ssl_certificate`.
    pub certificate: ComputedName,
    /// The value of `ssl_certificate_key`.
    pub key: ComputedName,
}

/// Key of the tables: the paths of a pair, and a digest of the passwords.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PairId {
    /// The full path of the certificate.
    certificate: String,
    /// The full path of the key.
    key: String,
    /// A digest of the passwords that the key may be decrypted with, if there are any. Whoever does not have them does not get the
    /// key that others have decrypted, and whoever has them does not get the failure of those who do not.
    passwords: Option<[u8; 32]>,
}

/// Resources to read files with, and the client to read them for.
pub struct PairReader<'r, F> {
    /// The pool whose threads read.
    pub pool: &'r ThreadPool,
    /// The mounts, which take turns in the pool.
    pub files: &'r FileSystem,
    /// The folders that relative names begin at.
    pub paths: &'r Paths,
    /// A number that stands for the client, for its turn in the pool.
    pub client: u64,
    /// Makes a future that resolves when the client has gone.
    pub gone: F,
}

impl<'r, F> PairReader<'r, F> {
    /// Takes the resources of a configuration, for this client.
    pub fn of(services: &'r Services, client: u64, gone: F) -> PairReader<'r, F> {
        let Services { pools, files, paths, .. } = services;
        PairReader { pool: pools.default(), files, paths, client, gone }
    }
}

/// Entry of the tables: a pair, or the reason why it cannot be used.
#[derive(Debug)]
struct KnownPair {
    /// The pair, or the error log's line.
    made: Result<CertifiedKey, String>,
    /// Time of the reading, in nanoseconds since the process began.
    read: u64,
    /// Time of the last use, in nanoseconds since the process began.
    used: AtomicU64,
    /// The settings that were made with it, while it is kept.
    prepared: PreparedSettings,
}

impl KnownPair {
    fn new(made: Result<CertifiedKey, String>, now: u64) -> KnownPair {
        KnownPair { made, read: now, used: AtomicU64::new(now), prepared: PreparedSettings::default() }
    }
}

/// A pair that can be used.
#[derive(Debug, Clone)]
pub(super) struct LoadedPair {
    /// The pair.
    pub(super) key: CertifiedKey,
    /// The same as it is known in the cache, if there is one.
    kept: Option<Arc<KnownPair>>,
}

impl LoadedPair {
    /// The settings that were made with it, if it is kept.
    pub(super) fn prepared(&self) -> Option<&PreparedSettings> {
        self.kept.as_ref().map(|known| &known.prepared)
    }
}

type PairTable = Cache<PairId, Arc<KnownPair>>;

/// Pairs that are known, for all loops together. They outlive a configuration.
#[derive(Debug)]
pub struct KnownPairs {
    recent: PairTable,
    kept: Option<PairCache>,
}

/// Pairs that are kept.
#[derive(Debug)]
struct PairCache {
    pairs: PairTable,
    /// The most pairs.
    most: usize,
    /// Time after which a pair that is not used is removed.
    inactive: Duration,
    /// Time after which the files of a pair are read again.
    valid: Duration,
}

fn since(then: u64, now: u64) -> Duration {
    Duration::from_nanos(now.saturating_sub(then))
}

impl PairCache {
    fn new(cache: CertificateCache) -> PairCache {
        // As in nginx, a certificate and its key are two.
        let most = (cache.max as usize).div_ceil(2).min(MOST);
        // The table decides by itself who goes, in parts of it; where that is decided here, it has room to spare.
        let room = if most <= LOOKED_THROUGH { 4 * most + 256 } else { most };
        let pairs = Cache::with_weighter(room.min(RECENT), room as u64, UnitWeighter);
        PairCache { pairs, most, inactive: cache.inactive, valid: cache.valid }
    }

    /// Keeps a pair; if there are too many, the least recently used one goes.
    fn insert(&self, id: &PairId, known: Arc<KnownPair>) {
        if self.most <= LOOKED_THROUGH && self.pairs.peek(id).is_none() {
            while self.pairs.len() >= self.most {
                let used = |known: &Arc<KnownPair>| known.used.load(Ordering::Relaxed);
                let oldest = self.pairs.iter().min_by_key(|(_, known)| used(known));
                let Some((oldest, _)) = oldest else { break };
                self.pairs.remove(&oldest);
            }
        }
        self.pairs.insert(id.clone(), known);
    }

    fn get(&self, id: &PairId, now: u64) -> Option<LoadedPair> {
        let known = self.pairs.get(id)?;
        let is_good =
            since(known.used.load(Ordering::Relaxed), now) < self.inactive && since(known.read, now) < self.valid;
        if !is_good {
            self.pairs.remove_if(id, |other| Arc::ptr_eq(other, &known));
            return None;
        }
        known.used.store(now, Ordering::Relaxed);
        let key = known.made.clone().ok()?;
        Some(LoadedPair { key, kept: Some(known) })
    }
}

impl KnownPairs {
    fn new(cache: Option<CertificateCache>) -> KnownPairs {
        KnownPairs { recent: Cache::new(RECENT), kept: cache.map(PairCache::new) }
    }

    /// The pairs of a cache, which all that have the same parameters share.
    pub(super) fn of(cache: Option<CertificateCache>, cx: &mut Cx) -> Arc<KnownPairs> {
        let zones = cx.extensions.get_or_default::<ZoneTable>();
        zones.keep(&format!("{cache:?}"), || KnownPairs::new(cache))
    }

    /// Returns the known pair, or has `read` read it. `None` if `read` was not done.
    async fn get<F>(&self, id: &PairId, read: impl FnOnce() -> F) -> Option<Result<LoadedPair, String>>
    where
        F: Future<Output = Option<Result<CertifiedKey, String>>>,
    {
        let asked = loops::nanos();
        if let Some(loaded) = self.kept.as_ref().and_then(|kept| kept.get(id, asked)) {
            return Some(Ok(loaded));
        }
        let loaded = |known: &Arc<KnownPair>| {
            let kept = self.kept.is_some().then(|| known.clone());
            known.made.clone().map(|key| LoadedPair { key, kept })
        };
        loop {
            match self.recent.get_value_or_guard_async(id).await {
                Ok(known) => {
                    // It was read while this connection has waited for it, or it cannot be used.
                    if known.read >= asked || known.made.is_err() && since(known.read, loops::nanos()) < FAILED {
                        return Some(loaded(&known));
                    }
                    self.recent.remove_if(id, |other| Arc::ptr_eq(other, &known));
                }
                Err(guard) => {
                    let known = Arc::new(KnownPair::new(read().await?, loops::nanos()));
                    if let (Ok(_), Some(kept)) = (&known.made, &self.kept) {
                        kept.insert(id, known.clone());
                    }
                    // Those who wait for it get it from the guard. A pair that can be used does not stay there: private keys
                    // are kept where the configuration says so, and nowhere else.
                    if guard.insert(known.clone()).is_ok() && known.made.is_ok() {
                        self.recent.remove_if(id, |other| Arc::ptr_eq(other, &known));
                    }
                    return Some(loaded(&known));
                }
            }
        }
    }

    /// A pair with these names.
    ///
    /// # Errors
    /// The line for the error log; it is empty if the client has gone.
    pub(super) async fn load<G: Future<Output = ()>>(
        &self,
        names: &PairNames,
        passwords: Option<&PasswordFile>,
        reader: &PairReader<'_, impl Fn() -> G>,
    ) -> Result<LoadedPair, String> {
        let full = |name: &str| match inline(name.as_bytes()) {
            Some(_) => name.to_owned(),
            None => text_of(&reader.paths.beside_configuration(&bytes_of(name))).into_owned(),
        };
        let PairNames { certificate, key } = names;
        let id = PairId {
            certificate: full(&certificate.value),
            key: key_path(&key.value, &full(&key.value), full)?,
            passwords: passwords.map(PasswordFile::digest),
        };
        let both = [("certificate", certificate, &id.certificate), ("certificate key", key, &id.key)];
        if let Some((what, _, path)) = both.into_iter().find(|(_, name, _)| name.leads_elsewhere()) {
            let shown = shown(path);
            return Err(format!("cannot load {what} \"{shown}\": a variable has \"..\" in its value"));
        }
        let tag = reader
            .files
            .tag_of(&CString::new(bytes_of(&id.certificate).into_owned()).unwrap_or_default(), reader.client);
        let (wanted, passwords) = (id.clone(), passwords.cloned());
        let unread = RefCell::new(String::new());
        let read = async || {
            let load = move || {
                let passwords = passwords.as_ref().map_or(&[][..], PasswordFile::passwords);
                let made = make(&wanted.certificate, &wanted.key, passwords, read);
                // nginx sets it for one session, not for all.
                made.map_err(|unusable| unusable.line.replacen("SSL_CTX_use_", "SSL_use_", 1))
            };
            match reader.pool.run_unless(tag, Some((reader.gone)()), load).await {
                Ok(made) => Some(made),
                Err(PoolError::ClientGone) => None,
                Err(error) => {
                    // That is not the fault of the pair: the next one who asks for it tries again.
                    unread.replace(format!("cannot load a certificate: {error}"));
                    None
                }
            }
        };
        // Contents are not files: they are not kept.
        let is_inline = inline(id.certificate.as_bytes()).or(inline(id.key.as_bytes())).is_some();
        let loaded = if is_inline {
            read().await.map(|made| made.map(|key| LoadedPair { key, kept: None }))
        } else {
            self.get(&id, read).await
        };
        loaded.unwrap_or_else(|| Err(unread.take()))
    }
}

/// Reads a file.
fn read(path: &str) -> io::Result<Secret> {
    if let Some(contents) = inline(path.as_bytes()) {
        return Ok(Secret::new(Zeroizing::new(contents.to_vec())));
    }
    let file = File::open(path_of(path))?;
    let expected = file.metadata().map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX));
    Ok(Secret::new(read_wiping(file, expected).0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::fixtures::certified;
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn id(name: &str) -> PairId {
        PairId { certificate: format!("{name}.crt"), key: format!("{name}.key"), passwords: None }
    }

    #[test]
    fn those_who_ask_at_the_same_time_share_one_reading() {
        let shared = loops::block_on(async {
            let (known, reads) = (KnownPairs::new(None), Cell::new(0));
            let begun = Cell::new(false);
            let read = async || {
                reads.set(reads.get() + 1);
                // It goes on at the second look.
                std::future::poll_fn(|_| if begun.replace(true) { Poll::Ready(()) } else { Poll::Pending }).await;
                Some(Ok(certified("ec")))
            };
            let name = id("a");
            let (mut first, mut second) = (pin!(known.get(&name, read)), pin!(known.get(&name, read)));
            let mut context = Context::from_waker(Waker::noop());
            assert!(first.as_mut().poll(&mut context).is_pending());
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert!(matches!(first.as_mut().poll(&mut context), Poll::Ready(Some(Ok(_)))));
            assert!(matches!(second.as_mut().poll(&mut context), Poll::Ready(Some(Ok(_)))));
            reads.get()
        });
        assert_eq!(shared.unwrap(), 1);
    }

    #[test]
    fn failures_are_known_for_a_while_and_do_not_push_out_what_is_kept() {
        loops::block_on(async {
            let cache =
                CertificateCache { max: 2, inactive: Duration::from_secs(3600), valid: Duration::from_secs(3600) };
            let known = KnownPairs::new(Some(cache));
            let good = known.get(&id("good"), async || Some(Ok(certified("ec")))).await;
            assert!(matches!(&good, Some(Ok(_))));
            for number in 0..100 {
                let name = id(&number.to_string());
                let failed = known.get(&name, async || Some(Err("no".to_owned()))).await;
                assert_eq!(failed.map(|made| made.map(|_| ())), Some(Err("no".to_owned())));
                let again = known.get(&name, async || unreachable!("it was just found out")).await;
                assert_eq!(again.map(|made| made.map(|_| ())), Some(Err("no".to_owned())));
            }
            let (read, kept) = (good.unwrap().unwrap(), async || unreachable!("it is kept"));
            let kept = known.get(&id("good"), kept).await.unwrap().unwrap();
            let prepared = [read, kept].map(|loaded| loaded.prepared().map(std::ptr::from_ref));
            assert!(prepared[0].is_some() && prepared[0] == prepared[1], "settings stay with what is kept");
        })
        .unwrap();
    }

    #[test]
    fn one_who_leaves_lets_another_read() {
        loops::block_on(async {
            let known = KnownPairs::new(None);
            assert!(known.get(&id("a"), async || None).await.is_none());
            let read = known.get(&id("a"), async || Some(Ok(certified("ec")))).await;
            assert!(read.is_some_and(|read| read.is_ok_and(|loaded| loaded.prepared().is_none())), "nothing is kept");
        })
        .unwrap();
    }

    #[test]
    fn a_pair_is_known_to_those_alone_who_have_the_same_passwords() {
        loops::block_on(async {
            let hour = Duration::from_secs(3600);
            let known = KnownPairs::new(Some(CertificateCache { max: 4, inactive: hour, valid: hour }));
            let with = PairId { passwords: Some([1; 32]), ..id("a") };
            assert!(
                known.get(&id("a"), async || Some(Err("no password".to_owned()))).await.is_some_and(|a| a.is_err())
            );
            assert!(known.get(&with, async || Some(Ok(certified("ec")))).await.is_some_and(|a| a.is_ok()));
            assert!(known.get(&id("a"), async || unreachable!()).await.is_some_and(|a| a.is_err()));
            assert!(known.get(&with, async || unreachable!()).await.is_some_and(|a| a.is_ok()));
        })
        .unwrap();
    }

    #[test]
    fn the_least_recently_used_pair_makes_room() {
        let hour = Duration::from_secs(3600);
        let kept = PairCache::new(CertificateCache { max: 4, inactive: hour, valid: hour });
        let is_there = |name: &str| kept.pairs.peek(&id(name)).is_some();
        kept.insert(&id("a"), Arc::new(KnownPair::new(Ok(certified("ec")), 1)));
        kept.insert(&id("b"), Arc::new(KnownPair::new(Ok(certified("ec")), 2)));
        assert!(kept.get(&id("a"), 3).is_some());
        kept.insert(&id("c"), Arc::new(KnownPair::new(Ok(certified("ec")), 4)));
        assert_eq!(["a", "b", "c"].map(is_there), [true, false, true]);
        kept.insert(&id("c"), Arc::new(KnownPair::new(Ok(certified("ec")), 5)));
        assert_eq!(["a", "b", "c"].map(is_there), [true, false, true], "it takes the place of the same pair");
    }

    #[test]
    fn what_is_kept_is_let_go_when_its_time_is_over() {
        let second = 1_000_000_000;
        let cache = CertificateCache { max: 2, inactive: Duration::from_secs(10), valid: Duration::from_secs(25) };
        let kept = PairCache::new(cache);
        let known = |at| Arc::new(KnownPair::new(Ok(certified("ec")), at));
        kept.pairs.insert(id("a"), known(0));
        for (at, is_there) in [(9, true), (18, true), (24, true), (25, false), (26, false)] {
            assert_eq!(kept.get(&id("a"), at * second).is_some(), is_there, "{at}");
        }
        kept.pairs.insert(id("a"), known(30 * second));
        assert!(kept.get(&id("a"), 40 * second).is_none(), "nobody has used it");
    }
}
