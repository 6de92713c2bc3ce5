mod purges;
mod random;
mod removal;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;

use freerun_testkit::TempDir;

use super::*;
use crate::cache::{About, Cache, CacheConfig, IndexAnswer, Pace, Tell};
use crate::key::{Key, Levels};
use crate::purge::Purge;
use crate::record::Head;
use crate::rules::Lifetime;

const NOW: u64 = 1_700_000_000;

fn config(folder: &TempDir) -> CacheConfig {
    let pace = Pace { files: 1000, ..Pace::default() };
    CacheConfig {
        name: "test".into(),
        path: folder.path().to_owned(),
        levels: Levels::parse("1:2").unwrap(),
        zone_size: 1 << 20,
        max_size: 1 << 20,
        min_free: 0,
        inactive: 600,
        memory: 0,
        manager: pace,
        loader: pace,
        purger: pace,
    }
}

/// A cache whose thread is the test: rounds are made when the test says so.
struct Bench {
    cache: Cache,
    manager: Manager,
    lock: fs::File,
    clock: Duration,
    told: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn open(config: &CacheConfig) -> Bench {
        Bench::open_at(config, NOW, |_| {})
    }

    /// Opens the cache at a given time; `before` runs before the thread is there.
    fn open_at(config: &CacheConfig, unix: u64, before: impl FnOnce(&Cache)) -> Bench {
        let cache = Cache::new(config.clone());
        before(&cache);
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = told.clone();
        let tell: Tell = Arc::new(move |_, text: &str| lines.lock().unwrap().push(text.to_owned()));
        let Lock::Own(lock) = Lock::take(cache.store()) else { panic!("the folder is in use") };
        let at = Moment { unix, clock: Duration::ZERO };
        cache.store().reporter.set(tell);
        let OpenState { journal, policy, walk } = open::open(cache.store(), at);
        let manager = Manager::new(cache.store().clone(), Arc::downgrade(cache.fills()), journal, policy, walk);
        Bench { cache, manager, lock, clock: Duration::ZERO, told }
    }

    /// Makes rounds until there is nothing more to do, each a tick after the other.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.clock += Duration::from_secs(1);
            let next = self.round(NOW + self.clock.as_secs());
            if matches!(next, Next::Idle(_)) && self.manager.walk.is_none() && self.manager.sweep.is_none() {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn round(&mut self, unix: u64) -> Next {
        self.cache.store().index.bell.looked();
        self.manager.round(Moment { unix, clock: self.clock })
    }

    /// Ends the cache in order, as at the end of a process.
    fn close(self) -> bool {
        let clean = self.manager.end(Moment { unix: NOW, clock: self.clock });
        drop(self.lock);
        clean
    }

    /// Ends the cache as if the process was killed.
    fn kill(mut self) {
        self.manager.journal.flush();
        drop(self.lock);
    }

    fn store(&self, text: &str, body: usize) -> Option<Arc<Entry>> {
        self.store_with(text, body, &[], self.cache.sequence())
    }

    fn store_with(&self, text: &str, body: usize, tags: &[&'static str], sequence: u64) -> Option<Arc<Entry>> {
        let key = Key::of(text.as_bytes());
        let bytes = file(text, body, tags);
        let reservation = self.cache.reserve(bytes.len() as u64)?;
        let path = self.cache.path_of(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
        let about = About { key, main: key, size: bytes.len() as u64, sequence, lifetime: lifetime() };
        self.cache.stored(&about, reservation, NOW + self.clock.as_secs())
    }

    fn has(&self, text: &str) -> bool {
        matches!(self.cache.find(Key::of(text.as_bytes()), NOW + self.clock.as_secs()), IndexAnswer::Stored(_))
    }

    fn has_file(&self, text: &str) -> bool {
        self.cache.path_of(Key::of(text.as_bytes())).exists()
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }
}

use crate::cache::Entry;

fn lifetime() -> Lifetime {
    Lifetime { fresh_until: NOW + 100, born: NOW, stale_if_error: 7, ..Lifetime::default() }
}

fn file(text: &str, body: usize, tags: &[&'static str]) -> Vec<u8> {
    let head = Head {
        key: Bytes::copy_from_slice(text.as_bytes()),
        status: 200,
        lifetime: lifetime(),
        tags: tags.iter().map(|tag| Bytes::from_static(tag.as_bytes())).collect(),
        body: body as u64,
        ..Head::default()
    };
    let mut bytes = head.encode().unwrap().to_vec();
    bytes.resize(bytes.len() + body, b'x');
    bytes
}

/// The number of all files but those of the journal, and their bytes in blocks of 4 KB.
fn files(folder: &Path) -> (usize, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            let (count, bytes) = files(&entry.path());
            sum = (sum.0 + count, sum.1 + bytes);
        } else if !crate::journal::is_own(entry.file_name().to_str().unwrap()) {
            sum = (sum.0 + 1, sum.1 + entry.metadata().unwrap().size().next_multiple_of(4096));
        }
    }
    sum
}

#[test]
fn an_object_is_found_until_it_is_removed() {
    let folder = TempDir::new("found");
    let mut bench = Bench::open(&config(&folder));
    assert!(!bench.has("a"));
    bench.settle();
    let entry = bench.store("a", 100).unwrap();
    assert!(bench.has("a") && !bench.has("b"));
    bench.settle();
    let figures = bench.cache.figures();
    assert_eq!((figures.entries, figures.used, figures.reserved), (1, 4096, 0));
    assert!(bench.cache.remove(Key::of(b"a")));
    assert!(entry.is_gone() && !bench.has("a") && bench.has_file("a"));
    assert_eq!(bench.cache.figures().used, 4096);
    bench.settle();
    assert!(!bench.has_file("a"));
    let figures = bench.cache.figures();
    assert_eq!((figures.entries, figures.used, figures.purged), (0, 0, 1));
    assert!(!bench.cache.remove(Key::of(b"a")));
}

#[test]
fn what_is_replaced_leaves_its_file_to_the_new_one() {
    let folder = TempDir::new("replaced");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let old = bench.store("a", 5000).unwrap();
    let new = bench.store("a", 100).unwrap();
    assert!(old.is_gone() && !new.is_gone());
    bench.settle();
    assert!(bench.has("a") && bench.has_file("a"));
    assert_eq!(bench.cache.figures().used, 4096);
    // Later news of the old object changes nothing.
    assert!(!bench.cache.discard(&old, crate::cache::Leave::Damaged));
    bench.settle();
    assert!(bench.has("a") && bench.has_file("a"));
}

#[test]
fn it_never_takes_up_more_than_its_size() {
    let folder = TempDir::new("full");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let mut refused = 0;
    for number in 0..400 {
        refused += u32::from(bench.store(&number.to_string(), 10_000).is_none());
        let figures = bench.cache.figures();
        assert!(figures.used + figures.reserved <= 1 << 20);
        if number % 3 == 0 {
            bench.settle();
        }
    }
    bench.settle();
    assert_eq!(refused, 0);
    let figures = bench.cache.figures();
    assert_eq!(files(folder.path()), (figures.entries, figures.used));
    assert!(figures.evicted > 300 && figures.entries > 60, "{figures:?}");
    // A reservation that is larger than the cache is refused, and nothing is evicted for it.
    assert!(bench.cache.reserve(2 << 20).is_none());
    bench.settle();
    assert_eq!(bench.cache.figures().entries, figures.entries);
    // A reservation that is larger than the free margin fits after the thread has made room.
    assert!(bench.cache.reserve(500_000).is_none());
    bench.settle();
    assert!(bench.cache.reserve(500_000).is_some());
}

#[test]
fn room_is_kept_for_objects_like_those_that_found_none() {
    let folder = TempDir::new("ahead");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let mut refused = 0;
    for number in 0..100 {
        refused += u32::from(bench.store(&number.to_string(), 100_000).is_none());
        bench.settle();
    }
    assert!(refused <= 2, "{refused}");
}

#[test]
fn a_small_file_system_is_used_and_not_overrun() {
    let folder = TempDir::new("small-disk");
    let mut bench = Bench::open(&CacheConfig { max_size: u64::MAX, ..config(&folder) });
    bench.settle();
    for number in 0..50 {
        bench.store(&number.to_string(), 10_000).unwrap();
    }
    bench.settle();
    assert_eq!(bench.cache.figures().entries, 50);
    // Other files have taken all but a few blocks.
    let space = bench.cache.store().index.space.clone();
    space.measure(|| Some(3 * 4096));
    bench.round(NOW);
    let left = bench.cache.figures().entries;
    assert!((45..50).contains(&left), "{left}");
}

#[test]
fn what_the_file_system_never_has_room_for_empties_nothing() {
    let folder = TempDir::new("never-fits");
    let mut bench = Bench::open(&CacheConfig { max_size: 1 << 30, ..config(&folder) });
    bench.settle();
    for number in 0..50 {
        bench.store(&number.to_string(), 10_000).unwrap();
    }
    bench.settle();
    // A megabyte is all the space there is.
    let space = bench.cache.store().index.space.clone();
    space.measure(|| Some(1 << 19));
    assert!(bench.cache.reserve(3 << 20).is_none());
    bench.round(NOW);
    assert_eq!(bench.cache.figures().entries, 50);
    // Room is made for a reservation that fits once others have gone, and repeatedly only for a part of the whole.
    assert!(bench.cache.reserve(800_000).is_none());
    bench.round(NOW);
    assert!(bench.cache.reserve(800_000).is_some());
    for number in 100..120 {
        bench.store(&number.to_string(), 10_000).unwrap();
        bench.round(NOW);
    }
    let left = bench.cache.figures().entries;
    assert!(left > 20, "{left}");
}

#[test]
fn a_smaller_size_is_taken_over() {
    let folder = TempDir::new("smaller");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    for number in 0..100 {
        bench.store(&number.to_string(), 4000).unwrap();
    }
    bench.settle();
    bench.cache.store().index.space.set_limits(100_000, 8192);
    bench.settle();
    let figures = bench.cache.figures();
    assert!(figures.used <= 100_000 && figures.entries > 10, "{figures:?}");
    assert_eq!(files(folder.path()).1, figures.used);
}

#[test]
fn entries_are_bounded_by_the_zone() {
    let folder = TempDir::new("entries");
    let config = CacheConfig { zone_size: 20 << 10, ..config(&folder) };
    let most = config.max_entries();
    let mut bench = Bench::open(&config);
    bench.settle();
    for number in 0..300 {
        let _ = bench.store(&number.to_string(), 10);
        assert!(bench.cache.figures().entries <= most);
        if number % 2 == 0 {
            bench.settle();
        }
    }
    let figures = bench.cache.figures();
    assert!(figures.entries > most - 10 && files(folder.path()).0 == figures.entries, "{figures:?}");
}

#[test]
fn what_nobody_asks_for_is_removed() {
    let folder = TempDir::new("inactive");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    bench.store("a", 100).unwrap();
    bench.store("b", 100).unwrap();
    bench.settle();
    let later = NOW + bench.clock.as_secs();
    bench.clock += Duration::from_secs(500);
    assert!(matches!(bench.cache.find(Key::of(b"a"), later + 500), IndexAnswer::Stored(_)));
    bench.clock += Duration::from_secs(200);
    bench.settle();
    assert!(bench.has("a") && !bench.has("b") && !bench.has_file("b"));
    assert_eq!(bench.cache.figures().inactive, 1);
}

#[test]
fn uses_are_counted_until_there_is_an_object() {
    let folder = TempDir::new("uses");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let key = Key::of(b"a");
    assert_eq!([1, 2, 3].map(|_| bench.cache.count(key, None, NOW)), [1, 2, 3].map(Some));
    bench.store("a", 10).unwrap();
    assert_eq!(bench.cache.figures().counted, 0);
    // A request that has looked before the object was stored has to look again: it is not the first use of anything.
    assert_eq!(bench.cache.count(key, None, NOW), None);
    assert_eq!(bench.cache.figures().counted, 0);
    let entry = bench.cache.peek(key);
    // One that is stored and cannot be read has had its uses.
    assert_eq!(bench.cache.count(key, entry.as_ref(), NOW), Some(u32::MAX));
    bench.clock += Duration::from_secs(1000);
    bench.settle();
    assert_eq!(bench.cache.figures().counted, 0);
    // The bound holds for any number of keys.
    for number in 0..20_000_u32 {
        bench.cache.count(Key::of(&number.to_le_bytes()), None, NOW + 1000);
    }
    assert!(bench.cache.figures().counted <= 8192);
    bench.settle();
    assert!(bench.cache.figures().counted <= 6144);
}

#[test]
fn a_clean_end_keeps_everything() {
    let folder = TempDir::new("clean");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    bench.store("a", 100).unwrap();
    let b = bench.store("b", 9000).unwrap();
    bench.store("c", 100).unwrap();
    bench.cache.remove(Key::of(b"c"));
    let renewed = Lifetime { fresh_until: NOW + 5000, must_revalidate: true, ..lifetime() };
    bench.cache.revalidated(&b, renewed);
    assert_eq!(b.lifetime(), renewed);
    let sequence = bench.cache.sequence();
    assert!(bench.close());

    let bench = Bench::open(&config(&folder));
    assert!(bench.manager.walk.is_none());
    assert_eq!(bench.told(), "");
    assert!(bench.has("a") && !bench.has("c"));
    let IndexAnswer::Stored(b) = bench.cache.find(Key::of(b"b"), NOW) else { panic!() };
    assert_eq!((b.lifetime(), b.disk()), (renewed, 12_288));
    assert!(!b.is_verified());
    let figures = bench.cache.figures();
    assert_eq!((figures.entries, figures.used, figures.state), (2, 4096 + 12_288, LoadState::Ready));
    assert!(bench.cache.sequence() >= sequence - 1);
    assert!(bench.close());
    // Once more, from the snapshot alone.
    let bench = Bench::open(&config(&folder));
    assert!(bench.has("a") && bench.has("b"));
}

#[test]
fn after_an_unclean_end_the_folder_is_looked_through() {
    let folder = TempDir::new("unclean");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    bench.store("a", 100).unwrap();
    bench.settle();
    bench.store("gone", 100).unwrap();
    bench.cache.remove(Key::of(b"gone"));
    bench.settle();
    // This object is not written down.
    bench.store("late", 100).unwrap();
    let path_of = |text: &str| bench.cache.path_of(Key::of(text.as_bytes()));
    let write = |path: PathBuf, bytes: &[u8]| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write(path_of("nginx"), b"\x05\0\0\0\0\0\0\0 and so on\nKEY: nginx\nHTTP/1.1 200 OK\r\n\r\nbody");
    let mut short = file("short", 100, &[]);
    short.pop();
    write(path_of("short"), &short);
    write(path_of("other"), &file("another", 10, &[]));
    // This object was removed, and its file came back from elsewhere.
    write(path_of("gone"), &file("gone", 10, &[]));
    let leaf = path_of("a").parent().unwrap().to_owned();
    write(leaf.join(".freerun-1-17"), b"half");
    write(leaf.join("README"), b"not ours");
    write(folder.path().join("lost+found/x"), b"not ours");
    bench.kill();

    let mut bench = Bench::open(&config(&folder));
    assert!(bench.manager.walk.is_some() && bench.told().contains("was not closed"), "{}", bench.told());
    assert!(bench.has("a"));
    assert!(matches!(bench.cache.find(Key::of(b"late"), NOW), IndexAnswer::Nothing));
    bench.settle();
    assert_eq!(bench.cache.figures().state, LoadState::Ready);
    assert!(bench.has("a") && bench.has("late"));
    assert!(!bench.has("gone") && !bench.has_file("gone"));
    assert!(!bench.has_file("short") && !bench.has_file("other"));
    // nginx's file counts and is not served; it goes when the key is stored.
    assert!(!bench.has("nginx") && bench.has_file("nginx"));
    assert!(bench.cache.peek(Key::of(b"nginx")).unwrap().is_foreign());
    assert!(!leaf.join(".freerun-1-17").exists() && leaf.join("README").exists());
    assert!(folder.path().join("lost+found/x").exists());
    let figures = bench.cache.figures();
    assert_eq!((figures.entries, figures.adopted, figures.orphans), (3, 2, 4));
    bench.store("nginx", 10).unwrap();
    bench.settle();
    assert!(bench.has("nginx"));
    assert_eq!(bench.cache.figures().used, 3 * 4096);
    assert!(bench.close());
}

#[test]
fn without_a_journal_the_files_are_the_index() {
    let folder = TempDir::new("bare");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    for number in 0..50 {
        bench.store(&number.to_string(), 10).unwrap();
    }
    assert!(bench.close());
    for entry in fs::read_dir(folder.path()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let mut bench = Bench::open(&config(&folder));
    // A request looks at the disk meanwhile.
    let key = Key::of(b"7");
    assert!(matches!(bench.cache.find(key, NOW), IndexAnswer::Unknown));
    assert!(bench.cache.adopt(key, key, 200, lifetime(), NOW).is_some());
    assert!(bench.cache.adopt(key, key, 200, lifetime(), NOW).is_none());
    // An object that is purged now does not come back.
    bench.cache.remove(Key::of(b"8"));
    assert!(bench.cache.adopt(Key::of(b"8"), Key::of(b"8"), 200, lifetime(), NOW).is_none());
    bench.settle();
    let figures = bench.cache.figures();
    assert_eq!((figures.entries, figures.used, files(folder.path()).0), (49, 49 * 4096, 49));
    assert!(matches!(bench.cache.find(Key::of(b"x"), NOW), IndexAnswer::Nothing));
}

#[test]
fn a_file_that_cannot_be_removed_keeps_its_space() {
    let folder = TempDir::new("stubborn");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    bench.store("a", 10).unwrap();
    bench.settle();
    // A folder cannot be unlinked.
    let path = bench.cache.path_of(Key::of(b"a"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    bench.cache.remove(Key::of(b"a"));
    bench.settle();
    let figures = bench.cache.figures();
    assert_eq!((figures.entries, figures.used, figures.failed_removals), (0, 4096, 1));
    assert!(bench.told().contains("unlink()"), "{}", bench.told());
    fs::remove_dir(&path).unwrap();
    fs::write(&path, b"x").unwrap();
    bench.clock += Duration::from_secs(20);
    bench.settle();
    assert!(!path.exists());
    assert_eq!(bench.cache.figures().used, 0);
    assert!(bench.close());
}

#[test]
fn a_folder_has_one_owner() {
    let folder = TempDir::new("owner");
    let bench = Bench::open(&config(&folder));
    let other = Cache::new(config(&folder));
    assert!(matches!(Lock::take(other.store()), Lock::Others));
    assert!(other.reserve(10).is_none());
    drop(bench);
    assert!(matches!(Lock::take(other.store()), Lock::Own(_)));
}

#[test]
fn the_thread_does_all_this_by_itself() {
    let folder = TempDir::new("thread");
    let tell: Tell = Arc::new(|_, _| {});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limit = Duration::from_secs(30);
    for round in 0..3_u32 {
        let cache = Cache::new(config(&folder));
        cache.start(config(&folder), tell.clone()).unwrap();
        runtime.block_on(async {
            assert!(cache.settled(limit).await);
            if round > 0 {
                assert!(matches!(cache.find(Key::of(b"0"), NOW), IndexAnswer::Stored(_)));
            }
            for number in 0..100_u32 {
                let reservation = cache.reserve_within(20_000, limit).await.unwrap();
                let key = Key::of(number.to_string().as_bytes());
                let path = cache.path_of(key);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, file(&number.to_string(), 19_000, &[])).unwrap();
                let about = About { key, main: key, size: 19_500, sequence: cache.sequence(), lifetime: lifetime() };
                cache.stored(&about, reservation, unix_time());
            }
            let key = Key::of(b"0");
            let path = cache.path_of(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, file("0", 100, &[])).unwrap();
            let reservation = cache.reserve_within(5000, limit).await.unwrap();
            let about = About { key, main: key, size: 300, sequence: cache.sequence(), lifetime: lifetime() };
            cache.stored(&about, reservation, unix_time());
            assert!(cache.settled(limit).await);
            let figures = cache.figures();
            assert!(figures.used <= figures.max_size && figures.evicted > 0, "{figures:?}");
        });
        assert!(cache.stop(limit));
        assert_eq!(cache.figures().state, LoadState::Stopped);
        assert!(cache.reserve(1).is_none());
    }
}
