//! Tests of purges: they are in force at once, and stay so.

use super::*;

#[test]
fn prefix_and_tag_purges_are_in_force_at_once() {
    let folder = TempDir::new("purges");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let before = bench.cache.sequence();
    let a = bench.store_with("/a/1", 10, &["red"], before).unwrap();
    let b = bench.store_with("/b/1", 10, &["red", "blue"], before).unwrap();
    bench.settle();
    let red = [Bytes::from_static(b"red")];
    assert!(!bench.cache.is_purged(&a, b"/a/1", &red));
    bench.cache.purge(&Purge::Prefix(Bytes::from_static(b"/a/"))).unwrap();
    assert!(bench.cache.is_purged(&a, b"/a/1", &red) && !bench.cache.is_purged(&b, b"/b/1", &red));
    // This object was fetched before the purge and is stored after it.
    let late = bench.store_with("/a/2", 10, &[], before).unwrap();
    assert!(bench.cache.is_purged(&late, b"/a/2", &[]));
    let new = bench.store("/a/3", 10).unwrap();
    assert!(!bench.cache.is_purged(&new, b"/a/3", &[]));
    bench.settle();
    assert_eq!(bench.cache.figures().purges, 0);
    assert!(!bench.has_file("/a/1") && bench.has("/a/3") && bench.has("/b/1"));
    bench.cache.purge(&Purge::Tag(Bytes::from_static(b"blue"))).unwrap();
    assert!(bench.cache.is_purged(&b, b"/b/1", &[Bytes::from_static(b"blue")]));
    bench.settle();
    assert!(!bench.has("/b/1") && bench.has("/a/3"));
    // An object that was fetched before a purge that has left the list is not used.
    let very_late = bench.store_with("/c", 10, &[], before).unwrap();
    assert!(bench.cache.is_purged(&very_late, b"/c", &[]));
}

#[test]
fn an_object_purged_while_it_is_fetched_is_not_stored() {
    let folder = TempDir::new("fetched");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let before = bench.cache.sequence();
    bench.cache.remove(Key::of(b"a"));
    assert!(bench.store_with("a", 10, &[], before).is_none());
    bench.settle();
    assert!(!bench.has("a") && !bench.has_file("a"));
    assert_eq!(bench.cache.figures().used, 0);
    assert!(bench.store("a", 10).is_some());
}

#[test]
fn variants_go_with_their_key() {
    let folder = TempDir::new("variants");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    let main = Key::of(b"a");
    let store = |bench: &Bench, variant: &[u8], sequence: u64| {
        let key = Key::of(variant);
        let path = bench.cache.path_of(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut head = Head { key: Bytes::from_static(b"a"), lifetime: lifetime(), ..Head::default() };
        head.vary = Some(crate::rules::Vary { names: Bytes::from_static(b"accept"), variant: key });
        let bytes = head.encode().unwrap();
        fs::write(&path, &bytes).unwrap();
        let about = About { key, main, size: bytes.len() as u64, sequence, lifetime: lifetime() };
        bench.cache.stored(&about, bench.cache.reserve(about.size).unwrap(), NOW)
    };
    let before = bench.cache.sequence();
    bench.store("a", 10).unwrap();
    bench.store("b", 10).unwrap();
    let gzip = store(&bench, b"gzip", before).unwrap();
    let other = bench.store("other", 10).unwrap();
    bench.settle();
    assert!(!bench.cache.is_purged(&gzip, b"a", &[]));
    assert!(bench.cache.remove(main));
    assert!(bench.cache.is_purged(&gzip, b"a", &[]) && !bench.cache.is_purged(&other, b"other", &[]));
    // The fetch of this object began before.
    assert!(store(&bench, b"brotli", before).is_none());
    let fresh = store(&bench, b"identity", bench.cache.sequence()).unwrap();
    assert!(!bench.cache.is_purged(&fresh, b"a", &[]));
    bench.settle();
    assert!(gzip.is_gone() && !bench.has_file("gzip") && !bench.has_file("brotli") && bench.has("b"));
    assert_eq!(files(folder.path()).0, 3);
    // The variants are known after a restart, from the journal and from the files.
    assert!(bench.close());
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    assert!(bench.has("identity"));
    bench.cache.purge(&Purge::Key(Bytes::from_static(b"a"))).unwrap();
    bench.settle();
    assert_eq!(files(folder.path()).0, 2);
    store(&bench, b"late", bench.cache.sequence()).unwrap();
    bench.kill();
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    assert!(bench.has("late"));
    bench.cache.purge(&Purge::Key(Bytes::from_static(b"a"))).unwrap();
    bench.settle();
    assert!(!bench.has("late") && bench.has("b"));
}

#[test]
fn purges_outlive_the_process() {
    let folder = TempDir::new("outlive");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    bench.store("/a", 10).unwrap();
    bench.store("/b", 10).unwrap();
    bench.settle();
    bench.cache.purge(&Purge::Prefix(Bytes::from_static(b"/a"))).unwrap();
    // This is all that happens before the purge is answered.
    let next = bench.manager.store.index.events.pop();
    assert!(matches!(next, Some(crate::index::Event::Purges)));
    bench.manager.save_purges();
    bench.kill();

    let mut bench = Bench::open(&config(&folder));
    let IndexAnswer::Stored(a) = bench.cache.find(Key::of(b"/a"), NOW) else { panic!() };
    assert!(bench.cache.is_purged(&a, b"/a", &[]));
    bench.settle();
    assert!(!bench.has("/a") && bench.has("/b") && !bench.has_file("/a"));
    assert!(bench.close());
    // If the list cannot be read, any object may be meant.
    fs::write(folder.path().join(".freerun-purges"), b"what is this").unwrap();
    let mut bench = Bench::open(&config(&folder));
    let IndexAnswer::Stored(b) = bench.cache.find(Key::of(b"/b"), NOW) else { panic!() };
    assert!(bench.cache.is_purged(&b, b"/b", &[]));
    bench.settle();
    assert_eq!(files(folder.path()).0, 0);
}

#[test]
fn purges_that_come_before_the_index_is_there_are_in_force() {
    // The clock may have gone back meanwhile.
    for unix in [NOW + 10, NOW, NOW - 1000] {
        let folder = TempDir::new("early");
        let mut bench = Bench::open(&config(&folder));
        bench.settle();
        for _ in 0..100 {
            bench.cache.remove(Key::of(b"/other"));
        }
        bench.store("/a", 10).unwrap();
        bench.store("/b", 10).unwrap();
        bench.settle();
        assert!(bench.close());
        let purge = |cache: &Cache| {
            cache.purge(&Purge::Prefix(Bytes::from_static(b"/a"))).unwrap();
        };
        let mut bench = Bench::open_at(&config(&folder), unix, purge);
        let find = |text: &[u8]| match bench.cache.find(Key::of(text), NOW) {
            IndexAnswer::Stored(entry) => entry,
            found => panic!("{found:?}"),
        };
        assert!(bench.cache.is_purged(&find(b"/a"), b"/a", &[]), "{unix}");
        assert!(!bench.cache.is_purged(&find(b"/b"), b"/b", &[]), "{unix}");
        bench.settle();
        assert!(!bench.has("/a") && !bench.has_file("/a") && bench.has("/b"), "{unix}");
        // The numbers of the next process are higher still.
        assert!(bench.close());
        let bench = Bench::open_at(&config(&folder), unix, |_| {});
        bench.cache.purge(&Purge::Prefix(Bytes::from_static(b"/b"))).unwrap();
        let IndexAnswer::Stored(b) = bench.cache.find(Key::of(b"/b"), NOW) else { panic!() };
        assert!(bench.cache.is_purged(&b, b"/b", &[]), "{unix}");
    }
}

#[test]
fn what_cannot_be_read_is_no_way_past_a_purge() {
    let folder = TempDir::new("unread");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    for text in ["/a", "/b", "/c"] {
        bench.store(text, 10).unwrap();
    }
    bench.settle();
    let path = |bench: &Bench, text: &str| bench.cache.path_of(Key::of(text.as_bytes()));
    // Links are not followed: opening one fails.
    let (a, b) = (path(&bench, "/a"), path(&bench, "/b"));
    for path in [&a, &b] {
        fs::rename(path, folder.path().join("away")).unwrap();
        fs::copy(folder.path().join("away"), path.with_extension("kept")).unwrap();
        std::os::unix::fs::symlink("/dev/null", path).unwrap();
    }
    bench.cache.purge(&Purge::Prefix(Bytes::from_static(b"/a"))).unwrap();
    bench.clock += Duration::from_secs(1);
    bench.round(NOW);
    // One of the two can be read the next time.
    fs::remove_file(&b).unwrap();
    fs::rename(b.with_extension("kept"), &b).unwrap();
    bench.settle();
    assert_eq!(bench.cache.figures().purges, 0);
    assert!(bench.has("/b") && bench.has("/c"));
    let _ = fs::remove_file(&a);
    fs::rename(a.with_extension("kept"), &a).unwrap();
    bench.kill();
    // The next process knows nothing of the purge.
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    assert!(bench.has("/b") && !bench.has("/a"));
}
