//! Measures whether eviction keeps up: stores a given number of new objects a second (5,000 by default) for ten
//! seconds, with their files, in a cache that is full, and counts the refused reservations.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use freerun_cache::cache::{About, Cache, CacheConfig, Pace};
use freerun_cache::key::{Key, Levels};
use freerun_cache::rules::Lifetime;

/// Bytes of an object's file.
const SIZE: usize = 4000;

fn main() {
    let rate: u64 = std::env::args().nth(1).and_then(|rate| rate.parse().ok()).unwrap_or(5000);
    let path = std::env::temp_dir().join(format!("freerun-churn-{}", std::process::id()));
    let done = run(rate, path.clone());
    let _ = std::fs::remove_dir_all(path);
    if let Err(error) = done {
        println!("{error}");
    }
}

fn run(rate: u64, path: PathBuf) -> std::io::Result<()> {
    let config = CacheConfig {
        name: "churn".into(),
        path: path.clone(),
        levels: Levels::parse("1:2").unwrap_or_default(),
        zone_size: 10 << 20,
        max_size: 40 << 20,
        min_free: 0,
        inactive: 600,
        memory: 0,
        manager: Pace::default(),
        loader: Pace::default(),
        purger: Pace::default(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let cache = Cache::new(config.clone());
    cache.start(config, Arc::new(|_, text| println!("{text}")))?;
    for first in 0..16_u32 {
        for second in 0..256_u32 {
            std::fs::create_dir_all(path.join(format!("{first:x}/{second:02x}")))?;
        }
    }
    let (mut stored, mut refused, mut most) = (0_u64, 0_u64, 0);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let due = begun.elapsed().as_millis() as u64 * rate / 1000;
        while stored + refused < due {
            let key = Key::of(&(stored + refused).to_le_bytes());
            let Some(reservation) = cache.reserve(SIZE as u64) else {
                refused += 1;
                continue;
            };
            std::fs::write(cache.path_of(key), [b'x'; SIZE])?;
            let about =
                About { key, main: key, size: SIZE as u64, sequence: cache.sequence(), lifetime: Lifetime::default() };
            cache.stored(&about, reservation, now);
            stored += 1;
        }
        most = most.max(cache.figures().pending);
        std::thread::sleep(Duration::from_millis(1));
    }
    let took = begun.elapsed();
    let figures = cache.figures();
    println!(
        "{:.0} objects a second: {stored} stored, {refused} refused, {} evicted; {} bytes of {}; at most {most} changes waited",
        stored as f64 / took.as_secs_f64(),
        figures.evicted,
        figures.used + figures.reserved,
        figures.max_size
    );
    cache.stop(Duration::from_secs(10));
    Ok(())
}
