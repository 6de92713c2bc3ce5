//! The table of a resolver's answers. Loops read it without a lock; the resolver thread writes it.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;

use super::{CacheResult, ResolveError};

/// The number of parts of the table: a write copies one of them.
const PARTS: usize = 32;

/// The most names in a part, so some eight thousand in all. When it is full, expired names are dropped, or else the
/// name that expires first.
const PART_SIZE: usize = 256;

/// The type of the records that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum QuestionKind {
    /// IPv4 and IPv6 addresses.
    Addresses,
    /// SRV records.
    Services,
}

/// A question to a resolver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// The name in lower case, without the final dot.
    pub(super) name: Box<str>,
    pub(super) kind: QuestionKind,
}

impl Question {
    pub(super) fn new(name: &str, kind: QuestionKind) -> Question {
        Question { name: name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into(), kind }
    }
}

/// An answer with the time of its expiry.
#[derive(Debug)]
pub(super) struct CachedAnswer {
    pub(super) found: Result<CacheResult, ResolveError>,
    pub(super) expires: Instant,
}

type CacheShard = ArcSwap<HashMap<Question, Arc<CachedAnswer>>>;

/// The table of answers.
#[derive(Debug)]
pub(super) struct Cache([CacheShard; PARTS]);

impl Default for Cache {
    fn default() -> Cache {
        Cache(std::array::from_fn(|_| CacheShard::default()))
    }
}

impl Cache {
    fn part(&self, question: &Question) -> &CacheShard {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(question);
        &self.0[hash as usize % PARTS]
    }

    /// The answer to a question, if it is still valid.
    pub(super) fn get(&self, question: &Question, now: Instant) -> Option<Arc<CachedAnswer>> {
        let part = self.part(question).load();
        part.get(question).filter(|entry| now < entry.expires).cloned()
    }

    /// Stores an answer. Only one thread at a time may call it.
    pub(super) fn put(&self, question: Question, entry: Arc<CachedAnswer>) {
        let part = self.part(&question);
        let mut next = HashMap::clone(&part.load());
        if next.len() >= PART_SIZE && !next.contains_key(&question) {
            let now = Instant::now();
            next.retain(|_, entry| now < entry.expires);
            let first = next.iter().min_by_key(|(_, entry)| entry.expires).map(|(question, _)| question.clone());
            if let Some(first) = first.filter(|_| next.len() >= PART_SIZE) {
                next.remove(&first);
            }
        }
        next.insert(question, entry);
        debug_assert!(next.len() <= PART_SIZE, "a part of the table has outgrown its limit");
        part.store(Arc::new(next));
    }

    /// Number of answers in the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|part| part.load().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_stays_bounded_and_keeps_what_lasts_longest() {
        let cache = Cache::default();
        let entry = |seconds| {
            let expires = Instant::now() + Duration::from_secs(seconds);
            Arc::new(CachedAnswer { found: Err(ResolveError::NotFound), expires })
        };
        let long = Question::new("Long.Example.", QuestionKind::Addresses);
        cache.put(long.clone(), entry(10_000));
        for n in 0..20_000 {
            cache.put(Question::new(&format!("n{n}.example"), QuestionKind::Addresses), entry(60));
        }
        assert!(cache.len() <= PARTS * PART_SIZE);
        assert!(cache.get(&Question::new("long.example", QuestionKind::Addresses), Instant::now()).is_some());
        assert!(cache.get(&Question::new("long.example", QuestionKind::Services), Instant::now()).is_none());
        assert!(cache.get(&long, Instant::now() + Duration::from_secs(10_001)).is_none());
    }
}
