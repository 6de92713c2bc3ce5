//! Tests of the end of a cache: its thread ends and its folder is free, however it was used.

use std::sync::Weak;

use freerun_testkit::eventually;

use super::*;
use crate::cache::LoadState;
use crate::store::Store;

const LARGE: usize = 100_000;

impl Drop for Bench {
    /// The cache's thread writes its index at its end, which is waited for before the folder is removed.
    fn drop(&mut self) {
        self.faults.clear();
        self.cache.stop(freerun_testkit::PATIENCE);
    }
}

/// Makes a cache of the same folder, as a later configuration does, and waits until the folder is its own.
fn again(bench: &Bench) -> Arc<Cache> {
    let cache = Arc::new(Cache::new(bench.config.clone()));
    bench.start(&cache);
    eventually("the folder is its own", || cache.figures().state == LoadState::Ready);
    cache
}

/// Drops the cache of a bench.
fn give_up(bench: &mut Bench) -> Weak<Store> {
    let store = Arc::downgrade(bench.cache.store());
    // It stays in the bench until the next one: an empty one of another folder takes its place.
    let other = CacheConfig { path: bench.dir.path().join("other"), ..bench.config.clone() };
    bench.cache = Arc::new(Cache::new(other));
    store
}

#[test]
fn a_cache_that_was_used_ends_and_its_folder_can_be_used_again() {
    let mut bench = Bench::new();
    run(async {
        for (number, len) in [(1, 10), (2, LARGE), (3, 3_000_000)] {
            let mut filling = bench.lead(key(number));
            let mut follower = bench.join(key(number));
            filling.head(head(number), Some(len as u64), key(number));
            let give = async {
                for piece in body(number, len).chunks(50_000) {
                    filling.push(Bytes::copy_from_slice(piece)).await.unwrap();
                }
                filling.end();
            };
            let (got, ()) = tokio::join!(drain(&mut follower), give);
            assert!(got.unwrap() == body(number, len));
            bench.over();
        }
    });
    // Fills that come to nothing, that are replaced, or that are for a variant, are in other tables.
    drop(bench.lead(key(4)));
    let old = bench.lead(key(4));
    drop(bench.cache.lead(key(4), key(4), None, Some(Duration::ZERO), &bench.aio, 1));
    drop(old);
    drop(bench.cache.lead(key(5), key(6), None, None, &bench.aio, 1));
    bench.over();

    let store = give_up(&mut bench);
    eventually("nothing of it is left, not even its thread", || store.upgrade().is_none());
    bench.cache = again(&bench);
    assert_eq!(run(bench.body(key(1))), body(1, 10));
    assert!(run(bench.body(key(2))) == body(2, LARGE));
    assert!(run(bench.body(key(3))) == body(3, 3_000_000));
    let mut filling = bench.lead(key(4));
    assert!(filling.head(head(4), Some(4), key(4)));
    filling.whole(body(4, 4));
    bench.over();
    assert_eq!(run(bench.body(key(4))), body(4, 4));
}

#[test]
fn what_is_being_fetched_when_the_cache_goes_is_stored() {
    let mut bench = Bench::new();
    let mut filling = bench.lead(key(1));
    let mut follower = bench.join(key(1));
    filling.head(head(1), Some(LARGE as u64), key(1));
    let store = give_up(&mut bench);
    filling.whole(body(1, LARGE));
    // A follower that is late gets what there is; it keeps nothing but its fill.
    bench.cache = again(&bench);
    assert!(run(drain(&mut follower)).unwrap() == body(1, LARGE));
    drop(follower);
    eventually("nothing of it is left", || store.upgrade().is_none());
    assert!(run(bench.body(key(1))) == body(1, LARGE));
}
