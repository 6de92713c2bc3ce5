//! Sessions that a server keeps for its clients.

use super::{Context, Found, MAX_SESSION};
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zeroize::Zeroizing;

/// What a session takes besides the bytes that rustls writes: its key, and the tables.
const OVERHEAD: u64 = 175;

/// What most sessions take, which makes 4000 in a megabyte, as many as nginx's manual promises.
const USUAL: u64 = 262;

/// The smallest shard: large enough for the largest session beside others.
const MIN_SHARD: u64 = 16 * MAX_SESSION as u64;

const MAX_SHARDS: u64 = 64;

/// How many bytes an id has; it is rustls that makes them.
const ID: usize = 32;

type Key = (Context, [u8; ID]);

type Table = Cache<Key, Arc<Found>, Weigh, FxBuildHasher, CountEvictions>;

#[derive(Clone)]
struct Weigh;

impl Weighter<Key, Arc<Found>> for Weigh {
    fn weight(&self, _: &Key, found: &Arc<Found>) -> u64 {
        OVERHEAD + found.session.len() as u64
    }
}

/// Counts the sessions that make room for others.
#[derive(Clone, Default)]
struct CountEvictions(Arc<AtomicU64>);

impl Lifecycle<Key, Arc<Found>> for CountEvictions {
    type RequestState = ();

    fn begin_request(&self) {}

    fn on_evict(&self, (): &mut (), _: Key, _: Arc<Found>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The figures of a store at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCounts {
    /// How many sessions are kept.
    pub sessions: usize,
    /// How many bytes they take.
    pub bytes: u64,
    /// How many bytes they may take.
    pub max_bytes: u64,
    /// How many sessions have made room for others since the store is there.
    pub evicted: u64,
}

/// A store of so many bytes, which all loops and any number of servers use. It is cheap to clone, and all clones are the same.
#[derive(Clone)]
pub struct SessionStore {
    table: Arc<Table>,
    evicted: CountEvictions,
}

impl SessionStore {
    /// A store of so many bytes. A full one forgets sessions that were not asked for.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes as u64;
        let shards = (bytes / MIN_SHARD).clamp(1, MAX_SHARDS);
        let items = usize::try_from(bytes / USUAL).unwrap_or(usize::MAX).clamp(1, 1 << 20);
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(items).weight_capacity(bytes).shards(shards as usize);
        let evicted = CountEvictions::default();
        let table = match options.build() {
            Ok(options) => Cache::with_options(options, Weigh, FxBuildHasher, evicted.clone()),
            // Building fails only where one of these three is missing.
            Err(_) => Cache::with(items, bytes, Weigh, FxBuildHasher, evicted.clone()),
        };
        Self { table: Arc::new(table), evicted }
    }

    /// A store of about so many sessions.
    pub fn for_sessions(sessions: usize) -> Self {
        Self::new(sessions.saturating_mul(USUAL as usize))
    }

    /// Keeps a session that began then. A session that is too large is not kept.
    pub(crate) fn put(&self, context: Context, id: &[u8], began: Duration, session: Vec<u8>) -> bool {
        let session = Zeroizing::new(session);
        let Ok(id) = id.try_into() else { return false };
        if session.len() > MAX_SESSION {
            return false;
        }
        self.table.insert((context, id), Arc::new(Found { began, session }));
        true
    }

    /// The session with this id, which stays.
    pub(crate) fn get(&self, context: Context, id: &[u8]) -> Option<Arc<Found>> {
        self.table.get(&(context, id.try_into().ok()?))
    }

    /// The session with this id, which is forgotten.
    pub(crate) fn take(&self, context: Context, id: &[u8]) -> Option<Arc<Found>> {
        self.table.remove(&(context, id.try_into().ok()?)).map(|(_, found)| found)
    }

    /// What there is now.
    pub fn counts(&self) -> StoreCounts {
        StoreCounts {
            sessions: self.table.len(),
            bytes: self.table.weight(),
            max_bytes: self.table.capacity(),
            evicted: self.evicted.0.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for SessionStore {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let StoreCounts { sessions, bytes, .. } = self.counts();
        to.debug_struct("SessionStore").field("sessions", &sessions).field("bytes", &bytes).finish()
    }
}
