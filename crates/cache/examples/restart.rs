//! Measures how long a restart takes to load the index: writes a journal of a given number of objects (a million by
//! default), as a used cache does, then starts a cache on it several times.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use freerun_cache::cache::{About, Cache, CacheConfig, Pace};
use freerun_cache::key::{Key, Levels};
use freerun_cache::rules::Lifetime;

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let path = std::env::temp_dir().join(format!("freerun-restart-{}", std::process::id()));
    let done = run(count, path.clone());
    let _ = std::fs::remove_dir_all(path);
    if let Err(error) = done {
        println!("{error}");
    }
}

fn run(count: u64, path: PathBuf) -> std::io::Result<()> {
    let config = CacheConfig {
        name: "restart".into(),
        path,
        levels: Levels::parse("1:2").unwrap_or_default(),
        zone_size: (count + 32) * 128 * 2,
        max_size: u64::MAX,
        min_free: 0,
        inactive: 3600,
        memory: 0,
        manager: Pace::default(),
        loader: Pace::default(),
        purger: Pace::default(),
    };
    let limit = Duration::from_secs(120);
    let cache = Cache::new(config.clone());
    cache.start(config.clone(), std::sync::Arc::new(|_, text| println!("{text}")))?;
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let mut refused = 0_u64;
    for number in 0..count {
        let key = Key::of(&number.to_le_bytes());
        let about = About {
            key,
            main: key,
            size: 2000,
            sequence: cache.sequence(),
            lifetime: Lifetime { fresh_until: u64::MAX / 2, ..Lifetime::default() },
        };
        loop {
            match cache.reserve(2000) {
                Some(reservation) => {
                    cache.stored(&about, reservation, now);
                    break;
                }
                None => {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
    println!("{count} objects put into the index in {:?} ({refused} times the thread was behind)", begun.elapsed());
    let begun = Instant::now();
    println!("ended in order: {} in {:?}", cache.stop(limit), begun.elapsed());
    std::mem::forget(cache);
    for _ in 0..5 {
        let cache = Cache::new(config.clone());
        let (begun, cpu) = (Instant::now(), processor());
        cache.start(config.clone(), std::sync::Arc::new(|_, text| println!("{text}")))?;
        while cache.figures().state != freerun_cache::cache::LoadState::Ready {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (ready, cpu) = (begun.elapsed(), processor() - cpu);
        println!(
            "ready with {} entries after {ready:?}, for which a processor worked {cpu:?}",
            cache.figures().entries
        );
        cache.stop(limit);
        // Dropping a million entries would disturb the next measurement.
        std::mem::forget(cache);
    }
    Ok(())
}

/// The processor time that this process has used.
fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
