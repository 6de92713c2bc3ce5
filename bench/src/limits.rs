//! The cost of `limit_req` for a request, in the table itself: no sockets, no servers.

use std::hint::black_box;
use std::time::Instant;

use freerun_modules::preaccess::limit_req::states::{Bucket, STATE_SIZE, States};

use crate::bench::Bench;
use crate::error::{Doing, Error, Result};
use crate::report::{Goal, Report, Table};

/// The zones: name, bytes.
const ZONES: [(&str, u64); 3] = [("1m", 1 << 20), ("10m", 10 << 20), ("100m", 100 << 20)];

/// By how much the process may have grown for other reasons: the first use of code and of the clock.
const NOISE: f64 = 128.0 * 1024.0;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let keys: u32 = if bench.options.quick { 1_000_000 } else { 10_000_000 };
    let head = ["zone", "keys it holds", "new keys, ns", "known keys, ns", "one key, ns", "memory, MB", "× zone"];
    let mut table = Table::new("", &head);
    let (mut worst, mut largest): (f64, f64) = (0.0, 0.0);
    for (name, size) in ZONES {
        let before = resident()?;
        let states = States::new(size).ok_or_else(|| Error::Setup("no memory".into()))?;
        // The number of keys that come in a millisecond at 100,000 keys a second.
        let fresh = time(&states, keys, |number| (number, number / 100));
        let last = keys / 100;
        let memory = resident()?.saturating_sub(before) as f64;
        let few = states.capacity() as u32 / 4;
        let known = time(&states, keys, |number| (keys - few + number % few, last));
        let one = time(&states, keys, |_| (7, last));
        worst = worst.max(fresh).max(known).max(one);
        largest = largest.max((memory - NOISE) / size as f64);
        table.row(vec![
            name.to_owned(),
            states.capacity().to_string(),
            format!("{fresh:.0}"),
            format!("{known:.0}"),
            format!("{one:.0}"),
            format!("{:.1}", memory / 1e6),
            format!("{:.2}", memory / size as f64),
        ]);
    }
    Ok(Report {
        name: "limits",
        method: format!(
            "The table of `limit_req` alone, one thread, {keys} requests each with keys of 16 bytes, burst 0: every key a new one at \
             100,000 keys a second (beyond the zone's {STATE_SIZE} bytes a key, the oldest make room), a quarter of what the zone holds \
             again and again, and one key. Memory is what the process grew by (`VmRSS`)."
        ),
        tables: vec![table],
        goals: vec![
            Goal::at_most("a request costs at most 1000 ns", Some(worst), 1000.0),
            Goal::at_most("memory is at most 1.05 times the zone's size", Some(largest), 1.05),
        ],
        notes: Vec::new(),
    })
}

/// Nanoseconds for each of `count` requests; `key` tells number and milliseconds.
fn time(states: &States, count: u32, key: impl Fn(u32) -> (u32, u32)) -> f64 {
    let bucket = Bucket { rate: 1000, burst: 0 };
    let mut bytes = [0; 16];
    let began = Instant::now();
    for number in 0..count {
        let (key, now) = key(number);
        bytes[..4].copy_from_slice(&key.to_le_bytes());
        black_box(states.count(&bytes, now, bucket));
    }
    began.elapsed().as_nanos() as f64 / f64::from(count)
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").doing("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| Error::Setup("no VmRSS".into()))
}
