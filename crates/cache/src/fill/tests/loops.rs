//! Tests with several loops, and events in any order.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// A generator of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Followers on several loops, each at its own pace, some of a part, some that leave; an origin that may break off and
/// a disk that may fail: each gets exactly the bytes, or an error, and a stored object is whole.
#[test]
fn many_loops_and_any_order_of_events() {
    const LOOPS: u64 = 3;
    for seed in 1..40u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bench = Bench::with(|config| {
            if seed % 5 == 0 {
                config.max_size = 1 << 20;
            }
        });
        let len = [0, 10, 5_000, 300_000, 2_500_000][random.below(5)];
        let whole = body(seed as u32, len);
        let breaks = random.below(4) == 0;
        match random.below(4) {
            0 => bench.faults.write(FaultBehaviour::Fail(ENOSPC), random.below(len + 1) as u64),
            1 => bench.faults.name(FaultBehaviour::Fail(EIO)),
            _ => {}
        }
        let filling = bench.lead(key(1));
        let fill = filling.fill().clone();
        let started = AtomicU32::new(0);
        let announced = (random.below(2) == 0).then_some(len as u64);
        std::thread::scope(|scope| {
            for number in 0..LOOPS {
                let (fill, bench, whole, started) = (&fill, &bench, &whole, &started);
                let mut random = Random(seed * 1000 + number + 1);
                scope.spawn(move || {
                    run(async {
                        started.fetch_add(1, SeqCst);
                        for _ in 0..6 {
                            let Some(mut follower) = fill.join(bench.aio.clone(), number) else {
                                freerun_runtime::loops::yield_now().await;
                                continue;
                            };
                            let Some(_) = follower.head().await else { continue };
                            let (mut begin, mut until) = (0, whole.len());
                            if random.below(3) == 0 && announced.is_some() {
                                begin = random.below(whole.len() + 1);
                                until = begin + random.below(whole.len() - begin + 1);
                                follower.narrow(begin as u64, until as u64);
                            }
                            let leaves = random.below(5) == 0;
                            let mut got = Vec::new();
                            let end = loop {
                                for _ in 0..random.below(3) {
                                    freerun_runtime::loops::yield_now().await;
                                }
                                match follower.next().await {
                                    Ok(Some(piece)) => got.extend_from_slice(&piece),
                                    end => break end,
                                }
                                if leaves && random.below(3) == 0 {
                                    break Ok(None);
                                }
                            };
                            assert!(whole[begin..].starts_with(&got), "seed {seed}: other bytes");
                            if end.is_ok() && !leaves {
                                assert_eq!(got.len(), until - begin, "seed {seed}: an end before the end");
                            }
                            if !breaks {
                                assert!(end.is_ok(), "seed {seed}: {end:?}");
                            }
                        }
                    });
                });
            }
            let (started, whole) = (&started, &whole);
            scope.spawn(move || {
                freerun_testkit::eventually("followers are there", || started.load(SeqCst) == LOOPS as u32);
                run(async {
                    let mut filling = filling;
                    filling.head(head(1), announced, key(1));
                    let mut rest = whole.clone();
                    while !rest.is_empty() {
                        let piece = rest.split_to(1 + random.below(rest.len().min(90_000)));
                        if breaks && random.below(30) == 0 {
                            return;
                        }
                        if filling.push(piece).await.is_err() {
                            return;
                        }
                        if random.below(3) == 0 {
                            freerun_runtime::loops::yield_now().await;
                        }
                    }
                    if !breaks {
                        filling.end();
                    }
                });
            });
        });
        bench.over();
        bench.faults.clear();
        match bench.cache.find(key(1), NOW) {
            IndexAnswer::Stored(_) => assert!(run(bench.body(key(1))) == whole, "seed {seed}"),
            _ => assert!(bench.objects().is_empty(), "seed {seed}"),
        }
        drop(fill);
        freerun_testkit::eventually("nothing is reserved", || bench.cache.figures().reserved == 0);
    }
}
