//! Small objects in memory, and open files of larger ones. Both are bounded, and S3-FIFO decides which of them stay, so
//! that a scan does not push out objects that are asked for again and again (`quick_cache`).
//!
//! A look-up takes the read lock of one shard for the time of the look-up in its table. An object here may have been
//! removed or replaced since: its entry says so.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use quick_cache::sync::{Cache as Table, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter, Weighter};
use rustc_hash::FxBuildHasher;

use crate::key::Key;
use crate::object::{MADE, ObjectBody, StoredObject};

/// The largest body that is kept in memory, in bytes.
pub const SMALL: u64 = 64 << 10;
/// The number of files of larger objects that are kept open.
pub const OPEN_FILES: usize = 256;
/// The cost of an object besides its head and body, in bytes: the tables of the tier and of the index's handle, and the
/// [`MadeValue`](crate::object::MadeValue) value.
const OVERHEAD: u64 = 512 + MADE as u64;
/// The size of a shard: large enough for one object to stay beside others.
const SHARD: u64 = 16 * SMALL;
const MAX_SHARDS: u64 = 64;

const _: () = assert!(SHARD > SMALL + OVERHEAD, "the largest object fits into a shard");

#[derive(Debug, Clone, Copy)]
struct Weigh;

impl Weighter<Key, Arc<StoredObject>> for Weigh {
    fn weight(&self, _: &Key, object: &Arc<StoredObject>) -> u64 {
        object.weight()
    }
}

type Small = Table<Key, Arc<StoredObject>, Weigh, FxBuildHasher>;
type Open = Table<Key, Arc<StoredObject>, UnitWeighter, FxBuildHasher>;

/// The memory tier of a cache.
#[derive(Debug)]
pub struct Memory {
    small: Option<Small>,
    open: Option<Open>,
    /// The most bytes that objects in memory take: the parameter `memory=`.
    limit: AtomicU64,
    hits: AtomicU64,
    handles: AtomicU64,
}

/// Figures of the memory tier, for status pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryFigures {
    /// The number of small objects in memory.
    pub objects: u64,
    /// The bytes that they take up.
    pub bytes: u64,
    /// The most bytes that objects in memory take: the parameter `memory=`.
    pub limit: u64,
    /// Requests that were answered from memory.
    pub hits: u64,
    /// The number of open files of larger objects.
    pub files: u64,
    /// Requests that found the file of their object open.
    pub file_hits: u64,
}

impl Memory {
    /// A tier with this number of bytes for small objects (0: none), and this number of open files.
    pub fn new(bytes: u64, files: usize) -> Memory {
        let shards = (bytes / SHARD).clamp(1, MAX_SHARDS);
        let items = usize::try_from(bytes / 4096).unwrap_or(usize::MAX).clamp(64, 1 << 20);
        let small = options(items, bytes, shards);
        let open = options(files, files as u64, 1);
        Memory {
            small: small.map(|small| Table::with_options(small, Weigh, FxBuildHasher, DefaultLifecycle::default())),
            open: open.map(|open| Table::with_options(open, UnitWeighter, FxBuildHasher, DefaultLifecycle::default())),
            limit: AtomicU64::new(bytes),
            hits: AtomicU64::new(0),
            handles: AtomicU64::new(0),
        }
    }

    /// Takes over another number of bytes.
    pub fn resize(&self, bytes: u64) {
        if self.limit.swap(bytes, Relaxed) != bytes
            && let Some(small) = &self.small
        {
            small.set_capacity(bytes);
        }
    }

    /// The object of a key, if it is in memory and still the one of its key.
    pub fn get(&self, key: Key) -> Option<Arc<StoredObject>> {
        if let Some(object) = self.small.as_ref().and_then(|small| small.get(&key)) {
            return self.still(object, &self.hits);
        }
        let object = self.open.as_ref().and_then(|open| open.get(&key))?;
        self.still(object, &self.handles)
    }

    /// The object of a key, without noting its use.
    pub fn peek(&self, key: Key) -> Option<Arc<StoredObject>> {
        let small = self.small.as_ref().and_then(|small| small.peek(&key));
        small.or_else(|| self.open.as_ref().and_then(|open| open.peek(&key)))
    }

    fn still(&self, object: Arc<StoredObject>, hits: &AtomicU64) -> Option<Arc<StoredObject>> {
        if object.entry.is_gone() {
            self.forget(object.entry.key());
            return None;
        }
        hits.fetch_add(1, Relaxed);
        Some(object)
    }

    /// Keeps an object, if its kind is kept.
    pub fn insert(&self, object: Arc<StoredObject>) {
        let key = object.entry.key();
        match &object.body {
            ObjectBody::Bytes(_) => {
                if let Some(small) = &self.small
                    && self.limit.load(Relaxed) > 0
                {
                    small.insert(key, object);
                }
            }
            ObjectBody::File { .. } => {
                if let Some(open) = &self.open {
                    open.insert(key, object);
                }
            }
        }
    }

    /// Notes that the file of a key may have changed: its object is not used before the file was looked at.
    pub(crate) fn doubt(&self, key: Key) {
        if let Some(object) = self.peek(key) {
            object.looked.doubt();
        }
    }

    /// Drops the object of a key: its file is being removed, or replaced.
    pub fn forget(&self, key: Key) {
        if let Some(small) = &self.small {
            small.remove(&key);
        }
        if let Some(open) = &self.open {
            open.remove(&key);
        }
    }

    /// Closes the files that are kept open, when descriptors are short.
    pub fn close_files(&self) {
        if let Some(open) = &self.open {
            open.clear();
        }
    }

    /// The figures of the tier.
    pub fn figures(&self) -> MemoryFigures {
        MemoryFigures {
            objects: self.small.as_ref().map_or(0, |small| small.len() as u64),
            bytes: self.small.as_ref().map_or(0, |small| small.weight()),
            limit: self.limit.load(Relaxed),
            hits: self.hits.load(Relaxed),
            files: self.open.as_ref().map_or(0, |open| open.len() as u64),
            file_hits: self.handles.load(Relaxed),
        }
    }
}

fn options(items: usize, weight: u64, shards: u64) -> Option<quick_cache::Options> {
    let mut options = OptionsBuilder::new();
    options.estimated_items_capacity(items).weight_capacity(weight).shards(shards as usize);
    // This fails only if one of these three is missing.
    options.build().ok()
}

impl StoredObject {
    /// The bytes that the object takes up in memory.
    pub fn weight(&self) -> u64 {
        let body = match &self.body {
            ObjectBody::Bytes(bytes) => bytes.len() as u64,
            ObjectBody::File { .. } => 0,
        };
        OVERHEAD + self.head.size() as u64 + body
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::index::{About, Entry};
    use crate::record::Head;
    use crate::rules::Lifetime;

    const BODY: usize = 5000;

    fn key(number: u64) -> Key {
        Key::of(&number.to_le_bytes())
    }

    fn object(number: u64) -> Arc<StoredObject> {
        let key = key(number);
        let about = About { key, main: key, size: BODY as u64, sequence: 1, lifetime: Lifetime::default() };
        let body = ObjectBody::Bytes(Bytes::from(vec![0; BODY]));
        let entry = Arc::new(Entry::new(&about, BODY as u64, 1));
        Arc::new(StoredObject::new(entry, Arc::new(Head::default()), body))
    }

    #[test]
    fn it_takes_up_no_more_than_it_may() {
        const LIMIT: u64 = 4 << 20;
        let memory = Memory::new(LIMIT, 1);
        let fill = |limit: u64| {
            for number in 0..5 * LIMIT / BODY as u64 {
                memory.insert(object(number));
                assert!(memory.figures().bytes <= limit, "{number}: {:?}", memory.figures());
            }
            memory.figures().bytes
        };
        assert!(fill(LIMIT) > LIMIT / 2);
        memory.resize(LIMIT / 4);
        assert!(memory.figures().bytes <= LIMIT / 4 && fill(LIMIT / 4) > LIMIT / 8);
        memory.resize(0);
        assert_eq!((fill(0), memory.figures().objects), (0, 0));
        memory.resize(LIMIT);
        assert!(fill(LIMIT) > LIMIT / 2);
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_in_use() {
        const HOT: u64 = 20;
        let memory = Memory::new(1 << 20, 1);
        (0..HOT).for_each(|number| memory.insert(object(number)));
        for _ in 0..5 {
            assert!((0..HOT).all(|number| memory.get(key(number)).is_some()));
        }
        // These are ten times as many objects as fit, and nothing else is asked for meanwhile.
        (1000..3000).for_each(|number| memory.insert(object(number)));
        let left = (0..HOT).filter(|number| memory.get(key(*number)).is_some()).count();
        assert_eq!(left as u64, HOT);
    }
}
