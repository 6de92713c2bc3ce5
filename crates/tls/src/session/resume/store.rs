//! Sessions that a server keeps for its clients.

use super::{MAX_SESSION, SessionContext, StoredSession};
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zeroize::Zeroizing;

/// The size of a session besides the bytes that rustls writes: its key, and the tables.
const OVERHEAD: u64 = 175;

/// The size of most sessions, which makes 4000 in a megabyte, as nginx's manual promises.
const USUAL: u64 = 262;

/// The smallest shard: large enough for the largest session beside others.
const MIN_SHARD: u64 = 16 * MAX_SESSION as u64;

const MAX_SHARDS: u64 = 64;

/// The first bytes of saved sessions. They stand for this layout: of each session its context, its id, the second in
/// which it began (`u64`), its length (`u32`) and its bytes.
const FORMAT: &[u8; 8] = b"sessn. 1";

/// The number of bytes in an id; rustls makes ids.
const ID: usize = 32;

type StoreKey = (SessionContext, [u8; ID]);

type SessionTable = Cache<StoreKey, Arc<StoredSession>, Weigh, FxBuildHasher, CountEvictions>;

#[derive(Clone)]
struct Weigh;

impl Weighter<StoreKey, Arc<StoredSession>> for Weigh {
    fn weight(&self, _: &StoreKey, found: &Arc<StoredSession>) -> u64 {
        OVERHEAD + found.session.len() as u64
    }
}

/// Counts the sessions that make room for others.
#[derive(Clone, Default)]
struct CountEvictions(Arc<AtomicU64>);

impl Lifecycle<StoreKey, Arc<StoredSession>> for CountEvictions {
    type RequestState = ();

    fn begin_request(&self) {}

    fn on_evict(&self, (): &mut (), _: StoreKey, _: Arc<StoredSession>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The figures of a store at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCounts {
    /// The number of sessions that are kept.
    pub sessions: usize,
    /// The number of bytes that they take.
    pub bytes: u64,
    /// The most bytes that they may take.
    pub max_bytes: u64,
    /// The number of sessions that have made room for others since the store was made.
    pub evicted: u64,
}

/// A store of a fixed number of bytes. All loops and any number of servers use it. It is cheap to clone, and all clones
/// are the same.
#[derive(Clone)]
pub struct SessionStore {
    table: Arc<SessionTable>,
    evicted: CountEvictions,
}

impl SessionStore {
    /// A store of this number of bytes. A full one forgets sessions that were not asked for.
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

    /// A store of about this number of sessions.
    pub fn for_sessions(sessions: usize) -> Self {
        Self::new(sessions.saturating_mul(USUAL as usize))
    }

    /// The sessions as bytes, for [`SessionStore::restore`] in another process.
    pub fn save(&self) -> Zeroizing<Vec<u8>> {
        let mut saved = Zeroizing::new(Vec::with_capacity(FORMAT.len() + self.table.weight() as usize));
        saved.extend_from_slice(FORMAT);
        for ((context, id), found) in self.table.iter() {
            // A session has at most `MAX_SESSION` bytes.
            let length = (found.session.len() as u32).to_le_bytes();
            let began = found.began.as_secs().to_le_bytes();
            let parts = [&context.0[..], &id[..], &began[..], &length[..], &found.session[..]];
            let more = parts.iter().map(|part| part.len()).sum::<usize>();
            if saved.capacity() - saved.len() < more {
                // Bytes that are copied elsewhere could not be wiped.
                let mut larger = Zeroizing::new(Vec::with_capacity(saved.capacity() * 2 + more));
                larger.extend_from_slice(&saved);
                saved = larger;
            }
            parts.iter().for_each(|part| saved.extend_from_slice(part));
        }
        saved
    }

    /// Keeps the sessions of [`SessionStore::save`], as far as there is room and as far as the bytes are such. Returns how many
    /// there are.
    pub fn restore(&self, saved: &[u8]) -> usize {
        let Some(mut rest) = saved.strip_prefix(FORMAT) else { return 0 };
        let mut count = 0;
        while let Some(((context, id), began, session, more)) = next_saved(rest) {
            // The process that has saved it may still be asked for it.
            count += usize::from(self.insert(context, &id, began, session.to_vec(), true));
            rest = more;
        }
        count
    }

    /// Keeps a session that began then. A session that is too large is not kept.
    pub(crate) fn put(&self, context: SessionContext, id: &[u8], began: Duration, session: Vec<u8>) -> bool {
        self.insert(context, id, began, session, false)
    }

    fn insert(
        &self,
        context: SessionContext,
        id: &[u8],
        began: Duration,
        session: Vec<u8>,
        is_elsewhere: bool,
    ) -> bool {
        let session = Zeroizing::new(session);
        let Ok(id) = id.try_into() else { return false };
        if session.len() > MAX_SESSION {
            return false;
        }
        self.table.insert((context, id), Arc::new(StoredSession { began, is_elsewhere, session }));
        true
    }

    /// The session with this id, which stays.
    pub(crate) fn get(&self, context: SessionContext, id: &[u8]) -> Option<Arc<StoredSession>> {
        self.table.get(&(context, id.try_into().ok()?))
    }

    /// The session with this id, which is forgotten.
    pub(crate) fn take(&self, context: SessionContext, id: &[u8]) -> Option<Arc<StoredSession>> {
        self.table.remove(&(context, id.try_into().ok()?)).map(|(_, found)| found)
    }

    /// The present counts.
    pub fn counts(&self) -> StoreCounts {
        StoreCounts {
            sessions: self.table.len(),
            bytes: self.table.weight(),
            max_bytes: self.table.capacity(),
            evicted: self.evicted.0.load(Ordering::Relaxed),
        }
    }
}

/// The first of the sessions that were saved, and what follows it.
fn next_saved(saved: &[u8]) -> Option<(StoreKey, Duration, &[u8], &[u8])> {
    let (context, rest) = saved.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (began, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (session, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(((SessionContext(*context), *id), Duration::from_secs(u64::from_le_bytes(*began)), session, rest))
}

impl std::fmt::Debug for SessionStore {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let StoreCounts { sessions, bytes, .. } = self.counts();
        to.debug_struct("SessionStore").field("sessions", &sessions).field("bytes", &bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_go_on_in_another_process() {
        let (old, new) = (SessionStore::new(1 << 20), SessionStore::new(1 << 20));
        let context = SessionContext::of(b"server");
        let began = Duration::from_secs(1_700_000_000);
        for number in 0..50_u8 {
            assert!(old.put(context, &[number; ID], began, vec![number; usize::from(number)]));
        }
        let saved = old.save();
        assert_eq!(new.restore(&saved), 50);
        let found = new.get(context, &[7; ID]).unwrap();
        assert_eq!((found.began, found.session.as_slice()), (began, &[7; 7][..]));
        assert!(found.is_elsewhere && !old.get(context, &[7; ID]).unwrap().is_elsewhere);
        assert!(new.get(SessionContext::of(b"other"), &[7; ID]).is_none());
        // Whatever is missing, what is whole is kept, and nothing panics.
        for length in 0..saved.len() {
            assert!(SessionStore::new(1 << 20).restore(&saved[..length]) < 50);
        }
        assert_eq!(SessionStore::new(0).restore(b"something else"), 0);
    }
}
