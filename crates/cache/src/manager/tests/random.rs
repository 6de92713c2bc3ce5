//! Random threads: the limit holds, and the accounts balance.

use proptest::prelude::*;

use super::*;

/// One step of a thread; the numbers choose keys and sizes.
#[derive(Debug, Clone)]
enum Step {
    Store { key: u8, size: u32, grown: u32 },
    GiveUp { size: u32 },
    Remove { key: u8 },
    Discard { key: u8 },
    Find { key: u8 },
    Purge { key: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let size = || 0..120_000_u32;
    prop_oneof![
        4 => (any::<u8>(), size(), size()).prop_map(|(key, size, grown)| Step::Store { key, size, grown }),
        1 => size().prop_map(|size| Step::GiveUp { size }),
        1 => any::<u8>().prop_map(|key| Step::Remove { key }),
        1 => any::<u8>().prop_map(|key| Step::Discard { key }),
        3 => any::<u8>().prop_map(|key| Step::Find { key }),
        1 => any::<u8>().prop_map(|key| Step::Purge { key }),
    ]
}

fn take(cache: &Cache, step: &Step) {
    let within = || {
        let figures = cache.figures();
        assert!(cache.store().index.space.figures().taken <= figures.max_size, "{figures:?}");
    };
    let key = |key: &u8| Key::of(&[*key]);
    match step {
        Step::Store { key: number, size, grown } => {
            let sequence = cache.sequence();
            let Some(mut reservation) = cache.reserve((*size).into()) else { return };
            within();
            let size = if reservation.cover((*grown).into()) { (*size).max(*grown) } else { *size };
            within();
            let about =
                About { key: key(number), main: key(number), size: size.into(), sequence, lifetime: lifetime() };
            if let Some(entry) = cache.stored(&about, reservation, NOW) {
                assert!(entry.disk() >= entry.size());
            }
        }
        Step::GiveUp { size } => drop(cache.reserve((*size).into())),
        Step::Remove { key: number } => drop(cache.remove(key(number))),
        Step::Discard { key: number } => {
            if let IndexAnswer::Stored(entry) = cache.find(key(number), NOW) {
                cache.discard(&entry, crate::cache::Leave::Damaged);
                assert!(entry.is_gone());
            }
        }
        Step::Find { key: number } => drop(cache.find(key(number), NOW)),
        Step::Purge { key } => {
            let _ = cache.purge(&Purge::Prefix(Bytes::copy_from_slice(&[*key])));
        }
    }
    within();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_limit_holds_whatever_threads_do(
        threads in proptest::collection::vec(proptest::collection::vec(step(), 1..150), 2..5),
        case in any::<u32>(),
    ) {
        let folder = TempDir::new(&format!("random-{case}"));
        let config = CacheConfig { zone_size: 12 << 10, ..config(&folder) };
        let most = config.max_entries();
        let mut bench = Bench::open(&config);
        bench.settle();
        std::thread::scope(|scope| {
            let cache = &bench.cache;
            let workers: Vec<_> = threads
                .iter()
                .map(|steps| scope.spawn(move || steps.iter().for_each(|step| take(cache, step))))
                .collect();
            while !workers.iter().all(|worker| worker.is_finished()) {
                bench.manager.round(Moment { unix: NOW, clock: Duration::ZERO });
            }
        });
        bench.settle();
        let figures = bench.cache.figures();
        // The taken space is that of the entries, and the queues have each of them once.
        let entries: Vec<_> = bench.manager.policy.items().cloned().collect();
        let disk: u64 = entries.iter().map(|entry| entry.disk()).sum();
        prop_assert_eq!((figures.used, figures.reserved), (disk, 0));
        prop_assert_eq!((figures.entries, figures.pending), (entries.len(), 0));
        prop_assert!(figures.entries <= most);
        for entry in entries {
            prop_assert!(bench.cache.peek(entry.key()).is_some_and(|own| Arc::ptr_eq(&own, &entry)));
        }
        let free = most + 1 - figures.entries;
        let held: Vec<_> = (0..free).map_while(|_| bench.cache.reserve(0)).collect();
        prop_assert_eq!(held.len(), free - 1);
    }
}
