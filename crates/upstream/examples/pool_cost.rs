//! Measures the cost of releasing a slot and acquiring it again: from the loop's own list and from a sibling's, with
//! and without asking the kernel. It also measures the cost of a new connection, in CPU time of the loop, because how
//! soon the peer accepts it depends on the peer.
//!
//! `cargo run --release -p freerun-upstream --example pool_cost`

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use freerun_runtime::files::{FileSystem, SocketPaths};
use freerun_runtime::loops::LoopHandle;
use freerun_runtime::pool::{PoolSpec, ThreadPool};
use freerun_upstream::connect::{ConnectOptions, connect};
use freerun_upstream::pool::{ExchangeSlot, Exclusive, IdleCount, KeepAlive, Pool, Scope};
use rustix::time::{ClockId, clock_gettime};

const TIMES: u32 = 20_000;

fn on<T: Send + 'static>(handle: &LoopHandle, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answers) = channel();
    handle.tell(move || drop(answer.send(job())));
    answers.recv().expect("the loop answers")
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").into();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for peer in listener.incoming() {
            held.push(peer);
            if held.len() > 64 {
                held.clear();
            }
        }
    });
    let loops = [0, 1].map(|index| LoopHandle::start(index, None).expect("a loop"));
    let (pool, count): (Arc<Pool>, Arc<IdleCount>) = Default::default();
    let settings = KeepAlive { requests: u64::MAX, time: Duration::MAX, ..KeepAlive::default() };

    let workers = ThreadPool::start(&PoolSpec::named("connect")).expect("a pool");
    let files = FileSystem::new(workers.clone()).expect("files");
    let (done, connected) = channel();
    loops[0].tell(move || {
        freerun_runtime::loops::spawn(0, "connecting", async move {
            let start = cpu();
            let mut last = None;
            let paths = SocketPaths { files: &files, pool: &workers, client: 0 };
            for _ in 0..2000 {
                last = connect(&address, &ConnectOptions::default(), paths).await.ok();
            }
            let _ = done.send(((cpu() - start) / 2000, last));
        });
    });
    let (each, socket) = connected.recv().expect("connections");
    println!("a new connection (loopback)           {each:?}");

    let mut kept = Some(Exclusive::new(socket.expect("a connection"), Scope::SHARED));
    for (what, surely) in [("own, as the loop knows it", false), ("own, the kernel asked", true)] {
        let (pool, count, settings, mine) = (pool.clone(), count.clone(), settings.clone(), kept.take());
        let (each, back) = on(&loops[0], move || {
            let mut mine = mine;
            let start = Instant::now();
            for _ in 0..TIMES {
                if let Some(kept) = mine.take() {
                    pool.release(kept.into(), &settings, &count);
                }
                mine = pool.acquire(Scope::SHARED, surely).and_then(ExchangeSlot::exclusive);
            }
            (start.elapsed() / TIMES, mine)
        });
        println!("release and acquire, {what:<24} {each:?}");
        kept = back;
    }
    let mut total = Duration::ZERO;
    for turn in 0..2000 {
        for (index, puts) in [(turn % 2, true), ((turn + 1) % 2, false)] {
            let (pool, count, settings, mine) = (pool.clone(), count.clone(), settings.clone(), kept.take());
            let (took, back) = on(&loops[index], move || {
                let start = Instant::now();
                let back = match mine {
                    Some(kept) if puts => {
                        pool.release(kept.into(), &settings, &count);
                        None
                    }
                    _ => pool.acquire(Scope::SHARED, false).and_then(ExchangeSlot::exclusive),
                };
                (start.elapsed(), back)
            });
            total += took;
            kept = back;
        }
    }
    println!("release and acquire, by a sibling             {:?}", total / 2000);
    loops.into_iter().for_each(LoopHandle::stop);
}
