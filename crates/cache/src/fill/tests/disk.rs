//! Tests of the disk's side: names and entries that belong together, the end of the process, and a disk that comes back
//! by itself.

use freerun_runtime::files::FileError;
use freerun_testkit::eventually;

use super::*;
use crate::cache::Leave;

const LARGE: usize = 100_000;

fn store(bench: &Bench, number: u32, known: Option<&Arc<Entry>>, body: Bytes) {
    let lead = bench.cache.lead(key(number), key(number), known, None, &bench.aio, 1);
    let Lead::Leader(mut filling) = lead else { panic!("{lead:?}") };
    assert!(filling.head(head(number), Some(body.len() as u64), key(number)));
    filling.whole(body);
}

fn entry(bench: &Bench, number: u32) -> Arc<Entry> {
    match bench.cache.find(key(number), NOW) {
        IndexAnswer::Stored(entry) => entry,
        found => panic!("{found:?}"),
    }
}

/// `proxy_cache_bypass` does this: the old object is given up while the new one gets the name.
#[test]
fn the_file_of_an_object_does_not_go_with_the_one_before_it() {
    // The objects are from long ago.
    let bench = Bench::with(|config| config.inactive = u32::MAX);
    store(&bench, 1, None, body(0, LARGE));
    bench.over();
    for round in 1..300 {
        let old = entry(&bench, 1);
        store(&bench, 1, Some(&old), body(round, LARGE));
        bench.cache.discard(&old, Leave::Invalidated);
        bench.over();
        run(async { assert!(bench.cache.settled(Duration::from_secs(30)).await) });
        assert!(bench.cache.path_of(key(1)).exists(), "{round}");
        assert!(run(bench.body(key(1))) == body(round, LARGE), "{round}");
    }
}

#[test]
fn what_is_being_stored_when_the_cache_ends_is_known_or_not_there() {
    for before_its_name in [true, false] {
        let bench = Bench::new();
        let limit = Duration::from_secs(30);
        if before_its_name {
            bench.faults.write(FaultBehaviour::Hang, 0)
        } else {
            bench.faults.name(FaultBehaviour::Hang)
        }
        store(&bench, 1, None, body(1, LARGE));
        eventually("it hangs", || bench.faults.waiting() == 1);
        // A task that is in the middle of naming a file is not waited for, and then the end is not a clean one.
        assert_eq!(bench.cache.stop(limit), before_its_name);
        bench.faults.clear();
        bench.over();
        assert_eq!(bench.objects().is_empty(), before_its_name);
    }
}

#[test]
fn what_cannot_be_read_to_its_end_is_not_given_to_others() {
    let cut = |bench: &Bench| {
        let file = std::fs::File::options().write(true).open(&bench.objects()[0]).unwrap();
        file.set_len(50_000).unwrap();
    };
    type Break = fn(&Bench);
    let fails: Break = |bench| bench.faults.read(FaultBehaviour::Fail(EIO));
    for (breaks, errors) in [(fails, 1), (cut as Break, 0)] {
        let bench = Bench::new();
        store(&bench, 1, None, body(1, LARGE));
        bench.over();
        let object = run(bench.object(key(1))).unwrap();
        let ObjectBody::File { file, offset, len } = &object.body else { panic!("in memory") };
        breaks(&bench);
        let disk = bench.cache.store().disk.get().unwrap();
        let read = disk.files.read_at(file, *offset, *len as usize, bytes::BytesMut::new(), bench.via());
        assert!(run(read).is_ok_and(|read| read.len() < LARGE) == (errors == 0));
        assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Nothing));
        assert_eq!(disk.health.figures().errors, errors);
    }
}

/// A variant is stored under another key than the one that was asked for, and its errors name its own file. They go to
/// the log of the present configuration.
#[test]
fn errors_name_the_file_and_go_where_the_newest_configuration_says() {
    let bench = Bench::new();
    bench.faults.write(FaultBehaviour::Fail(ENOSPC), 0);
    let store = |number: u32, variant: u32| {
        let mut filling = bench.lead(key(number));
        assert!(filling.head(head(number), Some(4), key(variant)));
        filling.whole(body(number, 4));
        bench.over();
    };
    let path = |number: u32| bench.cache.path_of(key(number)).display().to_string();
    store(1, 11);
    let old = std::mem::take(&mut *bench.told.lock().unwrap());
    assert!(old.len() == 1 && old[0].contains(&path(11)), "{old:?}");
    let new = Told::default();
    bench.cache.start(bench.config.clone(), tell(&new)).unwrap();
    let health = &bench.cache.store().disk.get().unwrap().health;
    for _ in 0..crate::health::STRIKES {
        health.failed(&FileError::System { call: "pread()", errno: EIO });
    }
    assert_eq!(
        *new.lock().unwrap(),
        [format!("its disk is not used any more: {}", std::io::Error::from_raw_os_error(EIO))]
    );
    assert!(bench.told.lock().unwrap().is_empty());
}

#[test]
fn a_disk_comes_back_though_nobody_asks() {
    let bench = Bench::new();
    bench.faults.write(FaultBehaviour::Fail(EIO), 0);
    let health = &bench.cache.store().disk.get().unwrap().health;
    for _ in 0..crate::health::STRIKES {
        health.failed(&FileError::System { call: "pread()", errno: EIO });
    }
    assert!(health.figures().out.is_some());
    bench.faults.clear();
    eventually("it is in", || health.figures().out.is_none());
}

#[test]
fn who_waits_and_then_does_not_follow_is_not_counted() {
    let bench = Bench::new();
    let mut filling = bench.lead(key(1));
    let (mut first, waits) = (bench.join(key(1)), bench.join(key(1)));
    filling.head(head(1), Some(LARGE as u64), key(1));
    run(waits.head());
    drop(waits);
    filling.whole(body(1, LARGE));
    assert!(run(drain(&mut first)).unwrap() == body(1, LARGE));
    assert_eq!(bench.figures().followed, 1);
}

#[test]
fn a_purge_of_others_costs_nothing_that_is_being_asked_for() {
    let bench = Bench::new();
    for (tag, meant) in [("other", false), ("tag", true), ("again", false)] {
        let mut filling = bench.lead(key(1));
        let number = bench.cache.purge(&Purge::Tag(Bytes::from(tag))).unwrap();
        // It is not known yet whether the purge means this fill, so no request joins it, and the purge waits for it.
        drop(bench.lead(key(1)));
        run(async { assert!(bench.cache.settled(Duration::from_secs(30)).await) });
        filling.head(Head { tags: vec![Bytes::from_static(b"tag")], ..head(1) }, Some(4), key(1));
        filling.whole(body(1, 4));
        bench.over();
        match bench.cache.find(key(1), NOW) {
            IndexAnswer::Stored(entry) => {
                assert!(!meant && !bench.cache.is_purged(&entry, &text(1), &[Bytes::from_static(b"tag")]), "{tag}");
                assert!(entry.sequence() < number);
                assert!(bench.cache.discard(&entry, Leave::Purged));
            }
            _ => assert!(meant, "{tag}"),
        }
        eventually("the purge is through", || bench.cache.figures().purges == 0);
    }
}

#[test]
fn a_file_that_is_being_replaced_by_this_server_is_no_damage() {
    for len in [10, 1 << 20] {
        let bench = Bench::with(|config| config.memory = 0);
        store(&bench, 1, None, body(1, len));
        bench.over();
        let old = entry(&bench, 1);
        assert_eq!(run(bench.body(key(1))).len(), len);
        // The moment between the new file's name and its entry.
        let naming = bench.cache.store().naming.enter(key(1)).unwrap();
        let path = bench.cache.path_of(key(1));
        std::fs::rename(&path, bench.dir.path().join("old")).unwrap();
        std::fs::write(&path, b"another file").unwrap();
        bench.cache.store().memory.forget(key(1));
        assert_eq!(run(bench.cache.object(&old, 1, bench.via())).unwrap_err(), Unreadable::Missing);
        assert!(!old.is_gone());
        // It has had its uses (`proxy_cache_min_uses`).
        assert_eq!(bench.cache.count(key(1), Some(&old), NOW), Some(u32::MAX));
        drop(naming);
        let unreadable = run(bench.cache.object(&old, 1, bench.via())).unwrap_err();
        assert!(matches!(unreadable, Unreadable::Damaged(_)), "{unreadable:?}");
        assert!(old.is_gone());
        assert_eq!(bench.cache.count(key(1), None, NOW), Some(1));
    }
}
