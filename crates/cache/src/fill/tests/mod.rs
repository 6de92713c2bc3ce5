//! Tests of fills with real files, several loops, and a disk that fails on demand.

mod disk;
mod end;
mod loops;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use freerun_runtime::files::faults::{FaultBehaviour, Faults};
use freerun_runtime::files::{Aio, FileSystem, Via};
use freerun_runtime::pool::{PoolSpec, ThreadPool};
use freerun_testkit::TempDir;

use super::waiting_slots::MAX_SEATS;
use super::*;
use crate::cache::{Cache, CacheConfig, Entry, IndexAnswer, Pace, Tell};
use crate::key::{Key, Levels};
use crate::object::{ObjectBody, Unreadable};
use crate::purge::Purge;
use crate::record::Head;
use crate::rules::Lifetime;

const NOW: u64 = 1_700_000_000;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

struct Bench {
    cache: Arc<Cache>,
    config: CacheConfig,
    files: Arc<FileSystem>,
    pool: Arc<ThreadPool>,
    faults: Faults,
    aio: Aio,
    dir: TempDir,
    /// What the cache has reported.
    told: Told,
}

type Told = Arc<Mutex<Vec<String>>>;

impl Bench {
    fn new() -> Bench {
        Bench::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut CacheConfig)) -> Bench {
        let dir = TempDir::new("fill");
        let mut config = CacheConfig {
            name: "one".into(),
            path: dir.path().join("cache"),
            levels: Levels::parse("1:2").unwrap(),
            zone_size: 1 << 20,
            max_size: 1 << 30,
            min_free: 0,
            // Responses are as old as `NOW` says, and the cache's thread goes by the clock: to it they are long inactive.
            inactive: u32::MAX,
            memory: 8 << 20,
            manager: Pace::default(),
            loader: Pace::default(),
            purger: Pace::default(),
        };
        change(&mut config);
        std::fs::create_dir(&config.path).unwrap();
        let pool = ThreadPool::start(&PoolSpec { name: "test".to_owned(), threads: 4, max_queue: 1000 }).unwrap();
        let faults = Faults::default();
        let files = faults.files(pool.clone()).unwrap();
        let cache = Arc::new(Cache::new(config.clone()));
        let bench = Bench {
            cache,
            config,
            files,
            pool: pool.clone(),
            faults,
            aio: Aio::Auto(pool),
            dir,
            told: Told::default(),
        };
        bench.start(&bench.cache);
        freerun_testkit::eventually("there is space", || bench.cache.reserve(1).is_some());
        bench
    }

    /// Starts a cache with this disk.
    fn start(&self, cache: &Cache) {
        cache.attach(self.files.clone(), self.pool.clone());
        cache.start(self.config.clone(), tell(&self.told)).unwrap();
    }

    fn via(&self) -> Via<'_> {
        Via { aio: &self.aio, client: 1, gone: None }
    }

    fn lead(&self, key: Key) -> FillWriter {
        match self.cache.lead(key, key, None, None, &self.aio, 1) {
            Lead::Leader(filling) => filling,
            other => panic!("{other:?}"),
        }
    }

    fn join(&self, key: Key) -> Follower {
        match self.cache.lead(key, key, None, None, &self.aio, 1) {
            Lead::Follow(fill) => fill.join(self.aio.clone(), 1).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The names of the files of objects below the cache's folder.
    fn objects(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.dir.path().join("cache")];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().unwrap().len() == 32 {
                    files.push(path);
                }
            }
        }
        files
    }

    fn figures(&self) -> FillFigures {
        self.cache.fills().figures()
    }

    fn over(&self) {
        freerun_testkit::eventually("no fill is left", || self.figures().now == 0);
    }

    async fn object(&self, key: Key) -> Result<Arc<crate::object::StoredObject>, Unreadable> {
        let IndexAnswer::Stored(entry) = self.cache.find(key, NOW) else { panic!("it is not stored") };
        self.cache.object(&entry, 1, self.via()).await
    }

    async fn body(&self, key: Key) -> Vec<u8> {
        match &self.object(key).await.unwrap().body {
            ObjectBody::Bytes(bytes) => bytes.to_vec(),
            ObjectBody::File { file, offset, len } => {
                let disk = self.cache.store().disk.get().unwrap();
                let read = disk.files.read_at(file, *offset, *len as usize, bytes::BytesMut::new(), self.via());
                read.await.unwrap().to_vec()
            }
        }
    }
}

/// Collects the lines of a cache.
fn tell(told: &Told) -> Tell {
    let told = told.clone();
    Arc::new(move |_, text| told.lock().unwrap().push(text.to_owned()))
}

fn text(number: u32) -> Bytes {
    format!("http://h/{number}").into()
}

fn head(number: u32) -> Head {
    let lifetime = Lifetime { fresh_until: NOW + 60, ..Lifetime::default() };
    let fields = vec![(Bytes::from_static(b"Content-Type"), Bytes::from_static(b"text/plain"))];
    Head { key: text(number), status: 200, fields, created: NOW, lifetime, ..Head::default() }
}

fn key(number: u32) -> Key {
    Key::of(&text(number))
}

/// The body of an object: every part of it tells where it is from.
fn body(number: u32, len: usize) -> Bytes {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).wrapping_add(number) as u8 ^ (at >> 8) as u8).collect()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Runs a future with paused time, where real time does not matter: a limit is over as soon as nothing else happens.
fn run_paused<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(future)
}

async fn drain(follower: &mut Follower) -> Result<Vec<u8>, FollowError> {
    let mut all = Vec::new();
    while let Some(piece) = follower.next().await? {
        assert!(!piece.is_empty());
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[test]
fn a_leader_has_a_place_however_many_follow() {
    let bench = Bench::new();
    run(async {
        let mut filling = bench.lead(key(1));
        let others: Vec<_> = (0..MAX_SEATS).map(|_| bench.join(key(1))).collect();
        assert!(filling.fill().join(bench.aio.clone(), 1).is_none(), "one too many");
        let mut own = filling.follow(bench.aio.clone(), 1).expect("a place");
        filling.head(head(1), Some(5), key(1));
        filling.whole(body(1, 5));
        assert_eq!(drain(&mut own).await.unwrap(), body(1, 5));
        drop(others);
        // The leader's follower is given back like the others.
        drop(own);
        bench.over();
    });
}

#[test]
fn what_came_at_once_is_answered_stored_and_found_in_memory() {
    let bench = Bench::new();
    run(async {
        for (number, len) in [(1, 0), (2, 1), (3, 60_000), (4, 65_536), (5, 65_537), (6, 900_000)] {
            let mut filling = bench.lead(key(number));
            let mut follower = filling.fill().join(bench.aio.clone(), 1).unwrap();
            let whole = body(number, len);
            assert!(filling.head(head(number), Some(len as u64), key(number)));
            filling.whole(whole.clone());
            assert_eq!(follower.head().await.unwrap().body, len as u64);
            assert_eq!(drain(&mut follower).await.unwrap(), whole);
            bench.over();
            let small = len <= 65_536;
            assert_eq!(bench.cache.in_memory(key(number)).is_some(), small, "{len}");
            assert_eq!(bench.body(key(number)).await, whole);
            // The object can be read from the disk, too.
            bench.cache.store().memory.forget(key(number));
            assert_eq!(bench.body(key(number)).await, whole);
            let object = bench.object(key(number)).await.unwrap();
            assert_eq!((object.head.status, &object.head.key), (200, &text(number)));
            assert!(Arc::ptr_eq(&object, &bench.cache.in_memory(key(number)).unwrap()));
        }
    });
    assert_eq!(bench.objects().len(), 6);
    assert_eq!((bench.figures().stored, bench.figures().unstored), (6, 0));
}

#[test]
fn those_who_come_get_what_is_there_and_what_comes() {
    let bench = Bench::new();
    let whole = body(1, 5_000_000);
    run(async {
        let mut filling = bench.lead(key(1));
        let first = bench.join(key(1));
        assert!(filling.head(head(1), None, key(1)));
        assert_eq!((first.head().await.unwrap().status, first.remaining()), (200, None));
        let mut followers = vec![];
        for (round, piece) in whole.chunks(100_000).enumerate() {
            filling.push(Bytes::copy_from_slice(piece)).await.unwrap();
            if round % 7 == 0 {
                followers.push(bench.join(key(1)));
            }
        }
        // The first follower has taken nothing yet: it reads the bytes that have left the memory from the file.
        filling.end();
        followers.push(first);
        for mut follower in followers {
            assert_eq!(follower.remaining(), Some(5_000_000));
            assert_eq!(drain(&mut follower).await.unwrap(), whole);
            assert_eq!((follower.next().await.unwrap(), follower.remaining()), (None, Some(0)));
        }
        bench.over();
        assert_eq!(bench.body(key(1)).await, whole);
    });
}

#[test]
fn ranges_of_what_is_being_fetched() {
    let bench = Bench::new();
    let whole = body(1, 3_000_000);
    run(async {
        let mut filling = bench.lead(key(1));
        filling.head(head(1), Some(3_000_000), key(1));
        let cases = [(0, 1), (10, 500_000), (2_999_999, 3_000_000), (1_000_000, 1_000_000), (5, 3_000_000)];
        let mut followers: Vec<Follower> = cases.iter().map(|_| bench.join(key(1))).collect();
        for (follower, (begin, until)) in followers.iter_mut().zip(cases) {
            follower.narrow(begin, until);
            assert_eq!(follower.remaining(), Some(until - begin));
        }
        for piece in whole.chunks(70_000) {
            filling.push(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        filling.end();
        for (mut follower, (begin, until)) in followers.into_iter().zip(cases) {
            assert_eq!(drain(&mut follower).await.unwrap(), whole[begin as usize..until as usize]);
        }
    });
}

#[test]
fn an_origin_that_breaks_off_or_lies_about_the_length() {
    let bench = Bench::new();
    run(async {
        // (announced, sent, ended properly)
        for (number, (announced, sent, ended)) in
            [(None, 10, false), (Some(20), 10, true), (Some(20), 10, false), (Some(5), 10, true), (Some(20), 0, true)]
                .into_iter()
                .enumerate()
        {
            let number = number as u32;
            let mut filling = bench.lead(key(number));
            let mut follower = bench.join(key(number));
            filling.head(head(number), announced, key(number));
            filling.push(body(number, sent)).await.unwrap();
            if ended {
                filling.end();
            } else {
                drop(filling);
            }
            let error = drain(&mut follower).await.unwrap_err();
            assert!(matches!(error, FollowError::BrokenOff), "{error}");
            assert!(matches!(bench.cache.find(key(number), NOW), IndexAnswer::Nothing));
            // The next request leads anew.
            drop(bench.lead(key(number)));
        }
        // The leader goes before the head has come.
        let filling = bench.lead(key(9));
        let follower = bench.join(key(9));
        drop(filling);
        assert!(follower.head().await.is_none());
        let filling = bench.lead(key(9));
        let follower = bench.join(key(9));
        filling.not_storable();
        assert!(follower.head().await.is_none());
    });
    bench.over();
    assert!(bench.objects().is_empty());
}

#[test]
fn a_disk_that_fails_meanwhile_costs_nobody_the_answer() {
    let whole = body(1, 4_000_000);
    type Break = fn(&Faults);
    let cases: [(&str, Break); 5] = [
        ("a full disk", |faults| faults.write(FaultBehaviour::Fail(ENOSPC), 1_000_000)),
        ("errors of the device", |faults| faults.write(FaultBehaviour::Fail(EIO), 2_000_000)),
        ("from the beginning", |faults| faults.open(FaultBehaviour::Fail(EIO))),
        ("no name for it", |faults| faults.name(FaultBehaviour::Fail(ENOSPC))),
        ("a write that hangs", |faults| faults.write(FaultBehaviour::Hang, 2_000_000)),
    ];
    for (what, breaks) in cases {
        let bench = Bench::new();
        breaks(&bench.faults);
        bench.cache.store().disk.get().unwrap().health.set_limit(Duration::from_millis(200));
        run(async {
            let mut filling = bench.lead(key(1));
            let mut follower = bench.join(key(1));
            filling.head(head(1), Some(4_000_000), key(1));
            let give = async {
                for piece in whole.chunks(50_000) {
                    filling.push(Bytes::copy_from_slice(piece)).await.unwrap();
                }
                filling.end();
            };
            let (got, ()) = tokio::join!(drain(&mut follower), give);
            assert!(got.unwrap() == whole, "{what}");
        });
        // The fill that hangs may have left the list by now.
        bench.over();
        bench.faults.clear();
        freerun_testkit::eventually("nothing is reserved", || bench.cache.figures().reserved == 0);
        assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Nothing), "{what}");
        assert!(bench.objects().is_empty(), "{what}");
        assert_eq!((bench.figures().stored, bench.figures().unstored), (0, 1), "{what}");
    }
}

#[test]
fn without_space_it_is_passed_on_and_the_slowest_decides_how_fast() {
    let bench = Bench::with(|config| config.max_size = 1 << 20);
    let whole = body(1, 8_000_000);
    for length in [Some(8_000_000), None] {
        run(async {
            let mut filling = bench.lead(key(1));
            let (mut quick, mut slow) = (bench.join(key(1)), bench.join(key(1)));
            filling.head(head(1), length, key(1));
            let most = std::cell::Cell::new(0);
            let give = async {
                for piece in whole.chunks(30_000) {
                    filling.push(Bytes::copy_from_slice(piece)).await.unwrap();
                    let weight = filling.fill().with(|state, _| state.window.weight());
                    most.set(most.get().max(weight));
                }
                filling.end();
            };
            let (one, two, ()) = tokio::join!(drain(&mut quick), drain(&mut slow), give);
            assert!(one.unwrap() == whole && two.unwrap() == whole);
            assert!(most.get() <= WINDOW + 40_000, "{}", most.get());
        });
        bench.over();
        assert!(bench.objects().is_empty());
        freerun_testkit::eventually("nothing is reserved", || bench.cache.figures().reserved == 0);
    }
}

#[test]
fn nobody_is_left_to_want_it() {
    let bench = Bench::with(|config| config.max_size = 8192);
    run(async {
        let mut filling = bench.lead(key(1));
        let follower = bench.join(key(1));
        assert!(!filling.head(head(1), Some(10_000), key(1)));
        // The fill cannot be found any more, so the next request leads.
        drop(bench.lead(key(1)));
        filling.push(body(1, 100)).await.unwrap();
        drop(follower);
        assert_eq!(filling.push(body(1, 100)).await, Err(UnwantedRest));
    });
}

#[test]
fn purges_while_it_is_fetched() {
    let bench = Bench::new();
    let purges: [fn(&Cache); 4] = [
        |cache| assert!(!cache.remove(key(1))),
        |cache| assert!(cache.purge(&Purge::Prefix(Bytes::from_static(b"http://h/"))).is_ok()),
        |cache| assert!(cache.purge(&Purge::Tag(Bytes::from_static(b"tag"))).is_ok()),
        |cache| assert!(cache.purge(&Purge::Key(text(1))).is_ok()),
    ];
    for (number, purge) in purges.iter().enumerate() {
        for before_head in [true, false] {
            run(async {
                let mut filling = bench.lead(key(1));
                let mut follower = bench.join(key(1));
                let mut head = head(1);
                head.tags = vec![Bytes::from_static(b"tag")];
                if before_head {
                    purge(&bench.cache);
                }
                filling.head(head, Some(1000), key(1));
                if !before_head {
                    purge(&bench.cache);
                }
                // A request that comes after the purge does not get a response that was asked for before it.
                drop(bench.lead(key(1)));
                filling.whole(body(1, 1000));
                assert_eq!(drain(&mut follower).await.unwrap(), body(1, 1000));
            });
            bench.over();
            assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Nothing), "{number} {before_head}");
        }
    }
    // A fill whose place another one has taken.
    let mut old = bench.lead(key(1));
    let Lead::Leader(mut new) = bench.cache.lead(key(1), key(1), None, Some(Duration::ZERO), &bench.aio, 1) else {
        panic!()
    };
    for filling in [&mut old, &mut new] {
        filling.head(head(1), Some(4), key(1));
    }
    assert_eq!(bench.figures().now, 2);
    bench.cache.purge(&Purge::Key(text(1))).unwrap();
    old.whole(body(1, 4));
    new.whole(body(1, 4));
    bench.over();
    assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Nothing));
    // A purge that means other objects.
    let mut filling = bench.lead(key(1));
    filling.head(head(1), Some(4), key(1));
    bench.cache.purge(&Purge::Tag(Bytes::from_static(b"other"))).unwrap();
    filling.whole(body(1, 4));
    bench.over();
    assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Stored(_)));
}

#[test]
fn purges_of_a_key_mean_variants_that_are_being_fetched() {
    let bench = Bench::new();
    let purges: [fn(&Cache); 2] =
        [|cache| assert!(!cache.remove(key(1))), |cache| assert!(cache.purge(&Purge::Key(text(1))).is_ok())];
    for purge in purges {
        let lead = |key: Key, main: Key| match bench.cache.lead(key, main, None, None, &bench.aio, 1) {
            Lead::Leader(filling) => filling,
            other => panic!("{other:?}"),
        };
        let vary = Some(crate::rules::Vary { names: Bytes::from_static(b"accept"), variant: key(11) });
        let (mut variant, mut other) = (lead(key(11), key(1)), lead(key(12), key(2)));
        let mut follower = variant.fill().join(bench.aio.clone(), 1).unwrap();
        variant.head(Head { vary, ..head(1) }, Some(100_000), key(11));
        other.head(head(2), Some(4), key(12));
        purge(&bench.cache);
        // A request that comes now leads anew; earlier followers go on, and other keys are not affected.
        drop(lead(key(11), key(1)));
        assert!(matches!(bench.cache.lead(key(12), key(2), None, None, &bench.aio, 1), Lead::Follow(_)));
        variant.whole(body(1, 100_000));
        other.whole(body(2, 4));
        assert_eq!(run(drain(&mut follower)).unwrap(), body(1, 100_000));
        bench.over();
        assert!(matches!(bench.cache.find(key(11), NOW), IndexAnswer::Nothing));
        assert!(
            bench.cache.peek(key(12)).is_some_and(|entry| bench.cache.discard(&entry, crate::cache::Leave::Damaged))
        );
    }
    freerun_testkit::eventually("no variant is counted", || bench.cache.fills().variants.is_empty());
}

/// A request that waits for a response that cannot be stored looks again at the moment at which the fill goes.
#[test]
fn none_is_left_behind_by_those_who_lead_at_the_same_moment() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    if let Lead::Leader(filling) =
                        bench.cache.lead(key(1), key(1), None, Some(Duration::ZERO), &bench.aio, 1)
                    {
                        filling.not_storable();
                    }
                }
            });
        }
    });
    assert_eq!(bench.figures().now, 0);
    drop(bench.lead(key(1)));
}

#[test]
fn a_stale_object_is_led_anew_and_another_one_noticed() {
    let bench = Bench::new();
    let store = || {
        let mut filling = bench.lead(key(1));
        filling.head(head(1), Some(4), key(1));
        filling.whole(body(1, 4));
        bench.over();
    };
    store();
    assert!(matches!(bench.cache.lead(key(1), key(1), None, None, &bench.aio, 1), Lead::Changed));
    let IndexAnswer::Stored(entry) = bench.cache.find(key(1), NOW) else { panic!() };
    let Lead::Leader(mut filling) = bench.cache.lead(key(1), key(1), Some(&entry), None, &bench.aio, 1) else {
        panic!()
    };
    // A fill that has had no head for too long is not waited for.
    assert!(matches!(bench.cache.lead(key(1), key(1), Some(&entry), None, &bench.aio, 1), Lead::Follow(_)));
    let late = bench.cache.lead(key(1), key(1), Some(&entry), Some(Duration::ZERO), &bench.aio, 1);
    assert!(matches!(late, Lead::Leader(_)));
    drop(late);
    filling.head(head(1), Some(5), key(1));
    filling.whole(body(2, 5));
    freerun_testkit::eventually("the new one is there", || entry.is_gone());
    assert_eq!(run(bench.body(key(1))), body(2, 5));
}

#[test]
fn damaged_and_missing_files_are_noticed_and_forgotten() {
    let bench = Bench::new();
    let breaks: [fn(&std::path::Path); 4] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| std::fs::write(path, "short").unwrap(),
        |path| {
            let mut text = std::fs::read(path).unwrap();
            text[30] ^= 1;
            std::fs::write(path, text).unwrap();
        },
        |path| {
            let text = std::fs::read(path).unwrap();
            std::fs::write(path, &text[..text.len() - 1]).unwrap();
        },
    ];
    for len in [1000, 200_000] {
        for breaks in breaks {
            let mut filling = bench.lead(key(1));
            filling.head(head(1), Some(len as u64), key(1));
            filling.whole(body(1, len));
            bench.over();
            bench.cache.store().memory.forget(key(1));
            breaks(&bench.objects()[0]);
            let error = run(bench.object(key(1))).unwrap_err();
            assert!(matches!(error, Unreadable::Missing | Unreadable::Damaged(_)), "{error}");
            assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Nothing));
            let _ = bench.objects().first().map(std::fs::remove_file);
        }
    }
}

#[test]
fn a_disk_that_does_not_answer_is_not_waited_for() {
    let bench = Bench::new();
    let mut filling = bench.lead(key(1));
    filling.head(head(1), Some(100_000), key(1));
    filling.whole(body(1, 100_000));
    bench.over();
    bench.faults.read(FaultBehaviour::Hang);
    assert_eq!(run_paused(bench.object(key(1))).unwrap_err(), Unreadable::Disk);
    bench.faults.clear();
    // The object is still there.
    assert_eq!(run(bench.body(key(1))), body(1, 100_000));
    // An object on a bad part of the disk is not asked for again.
    bench.cache.store().memory.forget(key(1));
    bench.faults.read(FaultBehaviour::Fail(EIO));
    assert!(matches!(run(bench.object(key(1))).unwrap_err(), Unreadable::Failed(_)));
    assert!(matches!(bench.cache.find(key(1), NOW), IndexAnswer::Nothing));
}
