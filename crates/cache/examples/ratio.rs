//! Computes how many requests of a trace would be hits, with the policy of this cache and with LRU, at several sizes.

use freerun_cache::simulate::{Trace, lru, s3_fifo};

fn main() {
    for (name, trace) in [
        ("zipf 0.9, scans", Trace::standard()),
        ("zipf 0.9", Trace { scan_every: 0, ..Trace::standard() }),
        ("zipf 0.7, scans", Trace { skew: 70, ..Trace::standard() }),
        ("zipf 1.1, scans", Trace { skew: 110, ..Trace::standard() }),
    ] {
        let (requests, whole) = (trace.requests(), trace.working_set());
        for percent in [1, 5, 10, 20] {
            let capacity = whole / 100 * percent;
            let ours = s3_fifo(requests.iter().copied(), capacity);
            let theirs = lru(requests.iter().copied(), capacity);
            println!(
                "{name:16} {percent:2} %: {:5.1} % of objects, {:5.1} % of bytes; LRU {:5.1} %, {:5.1} %",
                ours.percent(),
                ours.percent_of_bytes(),
                theirs.percent(),
                theirs.percent_of_bytes()
            );
        }
    }
}
