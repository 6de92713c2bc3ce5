//! Tests of pools with tasks that wait at gates, so that nothing depends on time.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;

use super::schedule::{Caps, Schedule};
use super::*;

fn pool(threads: usize, max_queue: usize) -> Arc<ThreadPool> {
    ThreadPool::start(&PoolSpec { name: "test".to_owned(), threads, max_queue }).unwrap()
}

fn tag(mount: u64, client: u64, file: u64) -> Tag {
    Tag { mount, client, file }
}

/// Runs a future on a loop like the worker's.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Polls a future once.
async fn begin<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Tasks that report that they run and then wait to be released.
struct Gate {
    started: Receiver<u64>,
    start: Sender<u64>,
}

impl Gate {
    fn new() -> Gate {
        let (start, started) = channel();
        Gate { started, start }
    }

    /// Queues a task that waits for the returned sender (or its end).
    fn hold(&self, pool: &ThreadPool, tag: Tag, number: u64) -> Sender<()> {
        let (open, opened) = channel::<()>();
        let start = self.start.clone();
        let work = move || {
            start.send(number).unwrap();
            let _ = opened.recv();
        };
        assert!(pool.spawn(tag, work).is_ok());
        open
    }

    /// The number of the next task that begins.
    fn next(&self) -> u64 {
        self.started.recv().unwrap()
    }

    /// Whether no task has begun (only meaningful if none can).
    fn is_quiet(&self) -> bool {
        self.started.try_recv().is_err()
    }
}

#[test]
fn a_task_runs_on_a_thread_of_the_pool_and_gives_its_result_back() {
    let pool = pool(2, 10);
    let name = block_on(pool.run(Tag::default(), || std::thread::current().name().map(str::to_owned)));
    assert_eq!(name.unwrap().unwrap(), "test/0");
    let status = pool.status();
    assert_eq!((status.served, status.active, status.waiting), (1, 0, 0));
    assert_eq!((status.wait.count(), status.service.count()), (1, 1));
}

#[test]
fn impossible_sizes_are_refused() {
    for threads in [0, MAX_THREADS + 1] {
        let spec = PoolSpec { name: "test".to_owned(), threads, max_queue: 1 };
        assert_eq!(ThreadPool::start(&spec).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_panic_ends_the_task_and_not_the_thread() {
    let pool = pool(1, 10);
    block_on(async {
        let outcome = pool.run(Tag::default(), || -> u8 { std::panic::resume_unwind(Box::new("boom")) }).await;
        assert_eq!(outcome, Err(PoolError::Panicked));
        assert_eq!(pool.run(Tag::default(), || 7).await, Ok(7));
    });
    let status = pool.status();
    assert_eq!((status.panicked, status.served, status.threads), (1, 1, 1));
}

#[test]
fn a_full_queue_refuses_with_nginx_words() {
    let pool = pool(1, 2);
    let gate = Gate::new();
    let first = gate.hold(&pool, tag(1, 1, 1), 1);
    assert_eq!(gate.next(), 1);
    let (second, third) = (gate.hold(&pool, tag(1, 1, 1), 2), gate.hold(&pool, tag(1, 1, 1), 3));
    assert_eq!(pool.status().waiting, 2);
    let error = block_on(pool.run(tag(1, 1, 1), || ())).unwrap_err();
    assert_eq!(error.to_string(), "thread pool \"test\" queue overflow: 2 tasks waiting");
    assert_eq!(pool.status().refused, 1);
    drop((first, second, third));
    assert_eq!((gate.next(), gate.next()), (2, 3));
}

#[test]
fn without_a_queue_a_task_runs_at_once_or_is_refused() {
    let pool = pool(2, 0);
    let gate = Gate::new();
    let held = [gate.hold(&pool, tag(1, 1, 1), 1), gate.hold(&pool, tag(2, 2, 2), 2)];
    let mut begun = [gate.next(), gate.next()];
    begun.sort_unstable();
    assert_eq!(begun, [1, 2]);
    let error = block_on(pool.run(tag(3, 3, 3), || ())).unwrap_err();
    assert_eq!(error.to_string(), "thread pool \"test\" queue overflow: 0 tasks waiting");
    drop(held);
    block_on(async {
        // The place is free when the result has arrived.
        while pool.status().active > 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            assert_eq!(pool.run(tag(3, 3, 3), || 1).await, Ok(1));
        }
    });
}

#[test]
fn a_dropped_future_frees_its_place_and_its_task_never_runs() {
    let pool = pool(1, 1);
    let gate = Gate::new();
    let held = gate.hold(&pool, tag(1, 1, 1), 1);
    gate.next();
    block_on(async {
        let (ran, never) = channel::<()>();
        {
            let mut waiting = pin!(pool.run(tag(1, 2, 1), move || ran.send(()).unwrap()));
            assert!(begin(waiting.as_mut()).await.is_pending());
            assert_eq!(pool.status().waiting, 1);
            assert!(matches!(pool.run(tag(1, 3, 1), || ()).await, Err(PoolError::Overflow { .. })));
        }
        // The task was dropped with the future, not when it would have been its turn.
        assert_eq!(never.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
        assert_eq!((pool.status().waiting, pool.status().cancelled), (0, 1));
        let mut next = pin!(pool.run(tag(1, 3, 1), || 3));
        assert!(begin(next.as_mut()).await.is_pending());
        drop(held);
        assert_eq!(next.await, Ok(3));
    });
}

#[test]
fn a_client_that_goes_away_withdraws_a_waiting_task_but_not_a_running_one() {
    let pool = pool(1, 10);
    let gate = Gate::new();
    let held = gate.hold(&pool, tag(1, 1, 1), 1);
    gate.next();
    block_on(async {
        let waiting = pool.run_unless(tag(1, 2, 1), Some(async {}), || ());
        assert_eq!(waiting.await, Err(PoolError::ClientGone));
        drop(held);
        let (gone, left) = tokio::sync::oneshot::channel::<()>();
        let (open, opened) = channel::<()>();
        let work = move || {
            gone.send(()).unwrap();
            opened.recv().unwrap();
            5
        };
        let left = async {
            left.await.unwrap();
            open.send(()).unwrap();
        };
        assert_eq!(pool.run_unless(tag(1, 2, 1), Some(left), work).await, Ok(5));
    });
}

#[test]
fn a_loop_sorts_the_inbox_of_a_pool_whose_threads_all_hang_in_parts() {
    let pool = pool(1, 20_000);
    let gate = Gate::new();
    let held = gate.hold(&pool, tag(1, 1, 1), 1);
    gate.next();
    for client in 0..10_000 {
        assert!(pool.spawn(tag(1, client, 1), || ()).is_ok());
    }
    let cancel = |count: u64| {
        block_on(async {
            for client in 0..count {
                let mut waiting = pin!(pool.run(tag(2, client, 1), || ()));
                assert!(begin(waiting.as_mut()).await.is_pending());
            }
        });
    };
    cancel(257);
    assert!(pool.inner.inbox_len() > 9000, "not all at once: {}", pool.inner.inbox_len());
    cancel(20);
    assert!(pool.inner.inbox_len() < 2000, "but soon: {}", pool.inner.inbox_len());
    drop(held);
}

#[test]
fn withdrawn_tasks_do_not_pile_up_in_a_pool_whose_threads_all_hang() {
    let pool = pool(1, 4);
    let gate = Gate::new();
    let held = gate.hold(&pool, tag(1, 1, 1), 1);
    gate.next();
    block_on(async {
        for client in 0..10_000 {
            let mut waiting = pin!(pool.run(tag(1, client, 1), || ()));
            assert!(begin(waiting.as_mut()).await.is_pending());
        }
    });
    assert_eq!(pool.status().cancelled, 10_000);
    assert!(pool.inner.inbox_len() < 2000, "{}", pool.inner.inbox_len());
    drop(held);
}

#[test]
fn threads_are_made_as_needed_up_to_their_number() {
    let pool = pool(3, 100);
    assert_eq!(pool.status().threads, 1);
    let gate = Gate::new();
    let held: Vec<_> = (0..10).map(|n| gate.hold(&pool, tag(n, n, n), n)).collect();
    for _ in 0..3 {
        gate.next();
    }
    assert_eq!(pool.status().threads, 3);
    assert!(gate.is_quiet());
    drop(held);
    for _ in 3..10 {
        gate.next();
    }
    assert_eq!(pool.status().threads, 3);
}

#[test]
fn one_thread_is_woken_for_many_tasks_and_wakes_the_others() {
    let pool = pool(3, 100);
    let gate = Gate::new();
    let held: Vec<_> = (0..3).map(|n| gate.hold(&pool, tag(n, n, n), n)).collect();
    for _ in 0..3 {
        gate.next();
    }
    drop(held);
    while pool.inner.sleeping() < 3 {
        std::thread::yield_now();
    }
    let held_up = pool.inner.hold_up();
    for _ in 0..3 {
        pool.inner.announce();
        assert_eq!(pool.inner.sleeping(), 2);
    }
    let open: Vec<_> = (0..3).map(|n| gate.hold(&pool, tag(n, n, n), n)).collect();
    drop(held_up);
    // None of these ends, so each has a thread of its own.
    for _ in &open {
        gate.next();
    }
}

#[test]
fn threads_that_are_not_needed_end_except_one() {
    let inner = PoolInner::start("test", 4, 100, Duration::from_millis(1), Manner { caps: Caps::of, nice: 0 }).unwrap();
    let pool = ThreadPool { inner };
    for _ in 0..3 {
        let gate = Gate::new();
        let held: Vec<_> = (0..4).map(|n| gate.hold(&pool, tag(n, n, n), n)).collect();
        for _ in 0..4 {
            gate.next();
        }
        assert_eq!(pool.status().threads, 4);
        drop(held);
        while pool.status().threads > 1 {
            std::thread::yield_now();
        }
        assert_eq!(block_on(pool.run(Tag::default(), || 1)), Ok(1));
    }
}

#[test]
fn one_mount_that_hangs_leaves_threads_for_the_others() {
    let pool = pool(4, 1000);
    let gate = Gate::new();
    // Different clients and files, one mount: three of four threads hang.
    let held: Vec<_> = (0..20).map(|n| gate.hold(&pool, tag(1, n, n), n)).collect();
    let begun: Vec<_> = (0..3).map(|_| gate.next()).collect();
    assert_eq!(begun.len(), 3);
    block_on(async {
        for n in 0..50 {
            assert_eq!(pool.run(tag(2, n, n), move || n).await, Ok(n));
        }
    });
    assert!(gate.is_quiet());
    assert_eq!(pool.status().active, 3);
    drop(held);
    for _ in 3..20 {
        gate.next();
    }
}

#[test]
fn neither_one_client_nor_one_file_takes_the_whole_pool() {
    for (case, of) in [("client", (|n| tag(1, 7, n)) as fn(u64) -> Tag), ("file", |n| tag(1, n, 7))] {
        let pool = pool(3, 1000);
        let gate = Gate::new();
        let held: Vec<_> = (0..5).map(|n| gate.hold(&pool, of(n), n)).collect();
        assert_eq!(gate.next(), 0, "{case}");
        assert_eq!(block_on(pool.run(tag(1, 999, 999), || 1)), Ok(1), "{case}");
        assert!(gate.is_quiet(), "{case}");
        drop(held);
        assert_eq!((1..5).map(|_| gate.next()).collect::<Vec<_>>(), [1, 2, 3, 4], "{case}");
    }
}

#[test]
fn waiting_clients_are_served_in_turn() {
    let pool = pool(1, 1000);
    let gate = Gate::new();
    let first = gate.hold(&pool, tag(1, 0, 0), 0);
    gate.next();
    // Client 1 has queued ten tasks before clients 2 and 3 queue one each.
    let mut held: Vec<_> = (0..10).map(|n| gate.hold(&pool, tag(1, 1, n), 100 + n)).collect();
    held.push(gate.hold(&pool, tag(1, 2, 50), 200));
    held.push(gate.hold(&pool, tag(1, 3, 51), 300));
    drop((first, held));
    let order: Vec<_> = (0..12).map(|_| gate.next()).collect();
    assert_eq!(order[..4], [100, 200, 300, 101]);
}

#[test]
fn a_pool_can_grow_and_shrink_while_it_works() {
    let pool = pool(1, 100);
    let gate = Gate::new();
    let held: Vec<_> = (0..4).map(|n| gate.hold(&pool, tag(n, n, n), n)).collect();
    gate.next();
    assert!(gate.is_quiet());
    pool.resize(4, 0);
    for _ in 1..4 {
        gate.next();
    }
    assert!(matches!(block_on(pool.run(tag(9, 9, 9), || ())), Err(PoolError::Overflow { .. })));
    pool.resize(2, 5);
    drop(held);
    block_on(async {
        while pool.status().threads > 2 {
            tokio::task::yield_now().await;
        }
        for n in 0..100 {
            assert_eq!(pool.run(tag(n, n, n), move || n).await, Ok(n));
        }
    });
    assert!(pool.status().threads <= 2);
}

#[test]
fn a_pool_that_is_shut_down_finishes_what_it_has_and_takes_no_more() {
    let pool = pool(1, 100);
    let gate = Gate::new();
    let held = gate.hold(&pool, tag(1, 1, 1), 1);
    gate.next();
    block_on(async {
        let mut accepted = pin!(pool.run(tag(1, 1, 1), || 2));
        assert!(begin(accepted.as_mut()).await.is_pending());
        pool.shut_down();
        assert_eq!(pool.run(tag(1, 1, 1), || 3).await, Err(PoolError::ShutDown));
        assert!(matches!(pool.spawn(tag(1, 1, 1), || ()), Err((PoolError::ShutDown, _))));
        drop(held);
        assert_eq!(accepted.await, Ok(2));
        pool.drained().await;
    });
    assert_eq!(pool.status().threads, 0);
}

#[test]
fn a_dropped_pool_ends_its_threads_when_the_last_task_is_done() {
    let pool = pool(4, 100);
    let gate = Gate::new();
    let held: Vec<_> = (0..20).map(|n| gate.hold(&pool, tag(n, n, n), n)).collect();
    let inner = pool.inner.clone();
    drop((pool, held));
    for _ in 0..20 {
        gate.next();
    }
    while inner.live() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn many_loops_and_many_tasks_lose_none() {
    let pool = pool(4, DEFAULT_MAX_QUEUE);
    let loops: Vec<_> = (0..4u64)
        .map(|client| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                block_on(async {
                    let mut sum = 0;
                    for round in 0..500u64 {
                        let (a, b, mut c) = (
                            pool.run(tag(round % 3, client, round % 5), move || round),
                            pool.run(tag(round % 2, client, round % 7), move || round),
                            Box::pin(pool.run(tag(0, client, 0), || ())),
                        );
                        let _ = begin(c.as_mut()).await;
                        drop(c);
                        let (a, b) = tokio::join!(a, b);
                        sum += a.unwrap() + b.unwrap();
                    }
                    sum
                })
            })
        })
        .collect();
    for handle in loops {
        assert_eq!(handle.join().unwrap(), 499 * 500);
    }
    let status = pool.status();
    assert_eq!(status.waiting, 0);
    assert_eq!(status.served + status.cancelled, 4 * 500 * 3);
    assert_eq!(status.wait.count(), status.served);
}

#[test]
fn a_generation_keeps_pools_of_the_same_name_and_resizes_them() {
    let pools = Pools::new();
    let spec = |threads| PoolSpec { name: "disk".to_owned(), threads, max_queue: 7 };
    let first = pools.generation(&[spec(1)]).unwrap();
    assert_eq!(first.default().status().limit, DEFAULT_THREADS);
    assert_eq!(first.default().status().max_queue, DEFAULT_MAX_QUEUE);
    let disk = first.get("disk").unwrap().clone();
    block_on(disk.run(Tag::default(), || ())).unwrap();

    let second = pools.generation(&[spec(2), PoolSpec { threads: 3, ..PoolSpec::named(DEFAULT_NAME) }]).unwrap();
    assert!(Arc::ptr_eq(&disk, second.get("disk").unwrap()));
    assert_eq!((disk.status().limit, disk.status().served), (2, 1));
    assert!(Arc::ptr_eq(first.default(), second.default()));
    assert_eq!(second.default().status().limit, 3);
    // The built-in pools count, too.
    assert_eq!(second.iter().count(), 4);

    let third = pools.generation(&[]).unwrap();
    assert!(third.get("disk").is_none());
    assert_eq!(third.default().status().limit, DEFAULT_THREADS);
    let inner = disk.inner.clone();
    drop((first, second, disk));
    while inner.live() > 0 {
        std::thread::yield_now();
    }
    assert!(third.get("missing").is_none());
}

#[test]
fn a_mount_may_use_three_quarters_of_the_threads_and_a_client_three_quarters_of_that() {
    let caps = [1, 2, 3, 4, 8, 32].map(Caps::of);
    assert_eq!(caps.map(|caps| caps.mount), [1, 1, 2, 3, 6, 24]);
    assert_eq!(caps.map(|caps| caps.single), [1, 1, 1, 2, 5, 18]);
}

/// A model of the schedule: running and waiting tasks, in plain lists.
#[derive(Default)]
struct Model {
    waiting: Vec<(Tag, u64)>,
    running: Vec<Tag>,
}

impl Model {
    fn uses(&self, same: impl Fn(&Tag) -> bool) -> usize {
        self.running.iter().filter(|tag| same(tag)).count()
    }

    fn may_run(&self, tag: &Tag, caps: Caps) -> bool {
        self.uses(|other| other.mount == tag.mount) < caps.mount
            && self.uses(|other| (other.mount, other.client) == (tag.mount, tag.client)) < caps.single
            && self.uses(|other| (other.mount, other.file) == (tag.mount, tag.file)) < caps.single
    }
}

#[test]
fn the_schedule_finds_what_may_run_and_nothing_else() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    for threads in [1, 2, 3, 4, 5, 8] {
        let mut schedule = Schedule::new(threads, Caps::of);
        let mut model = Model::default();
        let (mut sequence, mut picked) = (0, 0);
        for step in 0..30_000 {
            match next(10) {
                0..4 => {
                    let tag = tag(next(2), next(4), next(3));
                    schedule.push(tag, sequence, sequence);
                    model.waiting.push((tag, sequence));
                    sequence += 1;
                }
                4 if !model.waiting.is_empty() => {
                    let (tag, number) = model.waiting.swap_remove(next(model.waiting.len() as u64) as usize);
                    assert_eq!(schedule.remove(tag, number), Some(number));
                    assert_eq!(schedule.remove(tag, number), None);
                }
                5..8 if model.running.len() < threads => match schedule.pick() {
                    Some((tag, number)) => {
                        assert!(model.may_run(&tag, Caps::of(threads)), "step {step}: {tag:?} is over its cap");
                        let at = model.waiting.iter().position(|entry| *entry == (tag, number)).unwrap();
                        let older = |(other, older): &(Tag, u64)| *other == tag && *older < number;
                        assert!(!model.waiting.iter().any(older), "step {step}: not the oldest of its file");
                        model.waiting.swap_remove(at);
                        model.running.push(tag);
                        picked += 1;
                    }
                    None => {
                        let left: Vec<_> =
                            model.waiting.iter().filter(|(tag, _)| model.may_run(tag, Caps::of(threads))).collect();
                        assert!(left.is_empty(), "{threads} threads, step {step}: not found: {left:?}");
                    }
                },
                8.. if !model.running.is_empty() => {
                    let at = next(model.running.len() as u64) as usize;
                    schedule.complete(model.running.swap_remove(at));
                }
                _ => {}
            }
            assert_eq!(schedule.waiting(), model.waiting.len());
        }
        assert!(picked > 1000);
        for tag in model.running.drain(..) {
            schedule.complete(tag);
        }
        for (tag, number) in model.waiting.drain(..) {
            assert_eq!(schedule.remove(tag, number), Some(number));
        }
        assert!(schedule.is_empty(), "{threads} threads: {schedule:?}");
    }
}

#[test]
fn a_thousand_blocked_clients_are_walked_past_once_only() {
    let mut schedule = Schedule::new(4, Caps::of);
    for client in 0..1000 {
        schedule.push(tag(1, client, 7), client, ());
    }
    for _ in 0..2 {
        schedule.pick().unwrap();
    }
    // The file is at its cap: a pick parks the other clients, and finds the one that came last.
    schedule.push(tag(1, 5000, 8), 5000, ());
    assert_eq!(schedule.pick().unwrap().0, tag(1, 5000, 8));
    assert!(!schedule.has_ready(), "nothing is left to walk past");
    // When one task ends, another may run.
    schedule.complete(tag(1, 5000, 8));
    assert!(schedule.pick().is_none());
    schedule.complete(tag(1, 0, 7));
    assert_eq!(schedule.pick().unwrap().0.file, 7);
    assert!(schedule.pick().is_none());
}

#[test]
fn shares_are_even_between_clients_with_unequal_queues() {
    let mut schedule = Schedule::new(8, Caps::of);
    for n in 0..900 {
        schedule.push(tag(1, 1, n % 10), n, ());
    }
    for n in 900..1000 {
        schedule.push(tag(1, 2, n % 10), n, ());
    }
    let mut served = HashMap::new();
    for _ in 0..100 {
        let (tag, ()) = schedule.pick().unwrap();
        *served.entry(tag.client).or_insert(0) += 1;
        schedule.complete(tag);
    }
    assert_eq!((served[&1], served[&2]), (50, 50));
}
