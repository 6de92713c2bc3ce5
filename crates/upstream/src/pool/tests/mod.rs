mod new_connection;
mod shared;

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use freerun_runtime::loops::LoopHandle;
use freerun_transport::Transport;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Runs `job` on a loop and returns its result.
fn on<T: Send + 'static>(handle: &LoopHandle, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answers) = channel();
    handle.tell(move || answer.send(job()).unwrap());
    answers.recv_timeout(LONG).unwrap()
}

fn pair() -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    theirs.set_read_timeout(Some(LONG)).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Transport::plain(ours.into()), theirs)
}

struct Bench {
    loops: Vec<LoopHandle>,
    pool: Arc<Pool>,
    count: Arc<IdleCount>,
    settings: KeepAlive,
}

impl Bench {
    fn new(loops: usize) -> Bench {
        let loops = (0..loops).map(|index| LoopHandle::start(index, None).unwrap()).collect();
        Bench { loops, pool: Arc::default(), count: Arc::default(), settings: KeepAlive::default() }
    }

    fn put_kept(&self, on_loop: usize, kept: Exclusive) -> bool {
        let (pool, count, settings) = (self.pool.clone(), self.count.clone(), self.settings.clone());
        on(&self.loops[on_loop], move || pool.release(kept.into(), &settings, &count))
    }

    /// Puts a new connection into the pool; returns the peer's end.
    fn put(&self, on_loop: usize) -> TcpStream {
        let (ours, theirs) = pair();
        assert!(self.put_kept(on_loop, Exclusive::new(ours, Scope::SHARED)));
        theirs
    }

    fn take(&self, on_loop: usize, scope: Scope, surely: bool) -> Option<Exclusive> {
        let pool = self.pool.clone();
        on(&self.loops[on_loop], move || pool.acquire(scope, surely).and_then(ExchangeSlot::exclusive))
    }

    fn close(self) {
        self.loops.into_iter().for_each(LoopHandle::stop);
    }
}

/// The number of the peer's end that a connection leads to.
fn name(kept: &Exclusive, peers: &mut [&mut TcpStream]) -> usize {
    kept.transport.try_write(&[IoSlice::new(b"!")], false).unwrap();
    for (index, peer) in peers.iter_mut().enumerate() {
        peer.set_nonblocking(true).unwrap();
        if peer.read(&mut [0; 1]).is_ok_and(|n| n == 1) {
            return index;
        }
    }
    panic!("nobody got it");
}

fn is_closed(peer: &mut TcpStream) -> bool {
    peer.set_nonblocking(false).unwrap();
    match peer.read(&mut [0; 1]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn the_one_used_last_comes_first_and_only_within_its_scope() {
    let bench = Bench::new(1);
    let mut first = bench.put(0);
    let mut second = bench.put(0);
    assert!(bench.take(0, Scope::of("elsewhere"), true).is_none());
    assert_eq!((bench.pool.len(), bench.count.total()), (2, 2));
    let kept = bench.take(0, Scope::SHARED, false).unwrap();
    assert_eq!(name(&kept, &mut [&mut first, &mut second]), 1);
    assert_eq!(kept.requests, 2);
    assert_eq!((bench.pool.len(), bench.count.total()), (1, 1));
    drop(kept);
    drop(bench.take(0, Scope::SHARED, false).unwrap());
    assert!(bench.take(0, Scope::SHARED, false).is_none());
    bench.close();
}

#[test]
fn one_that_was_closed_or_sent_something_is_never_handed_out() {
    let bench = Bench::new(2);
    for surely in [true, false] {
        for on_loop in [0, 1] {
            let mut good = bench.put(0);
            let closed = bench.put(0);
            let mut chatty = bench.put(0);
            chatty.write_all(b"HTTP/1.1 408 Request Timeout\r\n").unwrap();
            drop(closed);
            if !surely {
                // The loop has polled its events when a task that waits for one of them has run.
                let (ours, theirs) = pair();
                let (done, finished) = channel();
                bench.loops[0].tell(move || {
                    loops::spawn(0, "test", async move {
                        ours.readable().await.unwrap();
                        done.send(()).unwrap();
                    });
                });
                drop(theirs);
                finished.recv_timeout(LONG).unwrap();
            }
            let kept = bench.take(on_loop, Scope::SHARED, surely).unwrap();
            assert_eq!(name(&kept, &mut [&mut good, &mut chatty]), 0);
            assert!(bench.take(on_loop, Scope::SHARED, surely).is_none());
            assert_eq!((bench.pool.len(), bench.count.total()), (0, 0));
        }
    }
    bench.close();
}

#[test]
fn beyond_the_limit_of_the_group_the_one_unused_for_longest_is_closed() {
    let mut bench = Bench::new(1);
    bench.settings.connections = 2;
    let mut first = bench.put(0);
    let other_peer = std::mem::take(&mut bench.pool);
    let _second = bench.put(0);
    let _third = bench.put(0);
    assert!(is_closed(&mut first));
    assert_eq!((other_peer.len(), bench.pool.len(), bench.count.total()), (0, 2, 2));
    bench.close();
}

#[test]
fn what_has_served_enough_or_is_not_quiet_is_not_kept() {
    let mut bench = Bench::new(1);
    let kept = |requests| {
        let (ours, theirs) = pair();
        (Exclusive { requests, ..Exclusive::new(ours, Scope::SHARED) }, theirs)
    };
    let (worn, _peer) = kept(1000);
    assert!(!bench.put_kept(0, worn));
    let (talking, mut peer) = kept(1);
    peer.write_all(b"more").unwrap();
    assert!(!bench.put_kept(0, talking));
    bench.settings.time = Duration::ZERO;
    let (old, _peer) = kept(1);
    assert!(!bench.put_kept(0, old));
    bench.settings = KeepAlive { connections: 0, ..KeepAlive::default() };
    let (unwanted, _peer) = kept(1);
    assert!(!bench.put_kept(0, unwanted));
    assert_eq!((bench.pool.len(), bench.count.total()), (0, 0));
    bench.close();
}

#[test]
fn a_sibling_takes_it_and_waits_for_bytes_on_its_own_loop() {
    let bench = Bench::new(2);
    let mut peer = bench.put(0);
    let pool = bench.pool.clone();
    let (done, finished) = channel();
    bench.loops[1].tell(move || {
        loops::spawn(0, "test", async move {
            let kept = pool.acquire(Scope::SHARED, false).and_then(ExchangeSlot::exclusive).unwrap();
            kept.transport.try_write(&[IoSlice::new(b"ask")], false).unwrap();
            let mut answer = Vec::with_capacity(16);
            kept.transport.read(&mut answer).await.unwrap();
            done.send((answer, kept)).unwrap();
        });
    });
    let mut asked = [0; 3];
    peer.read_exact(&mut asked).unwrap();
    peer.write_all(b"answer").unwrap();
    let (answer, kept) = finished.recv_timeout(LONG).unwrap();
    assert_eq!(answer, b"answer");
    assert!(bench.put_kept(1, kept));
    assert!(bench.take(0, Scope::SHARED, true).is_some());
    bench.close();
}

#[test]
fn the_sweep_closes_the_dead_and_the_old_and_ends_when_nothing_is_left() {
    let mut bench = Bench::new(1);
    for _ in 0..2 {
        let dead = bench.put(0);
        bench.settings.timeout = Duration::ZERO;
        let mut old = bench.put(0);
        drop(dead);
        assert!(is_closed(&mut old));
        let start = Instant::now();
        while !bench.pool.is_empty() {
            assert!(start.elapsed() < LONG);
            std::thread::yield_now();
        }
        bench.settings.timeout = LONG;
        // The sweep forgets the connection, so that the next connection starts another sweep.
        while !on(&bench.loops[0], || sweep::SWEPT.with_borrow(std::collections::HashMap::is_empty)) {
            assert!(start.elapsed() < LONG);
        }
    }
    bench.close();
}

#[test]
fn with_four_loops_and_few_requests_nearly_all_reuse_a_connection() {
    let bench = Bench::new(4);
    let (mut made, mut reused) = (0, 0);
    let mut peers = Vec::new();
    for request in 0..2000 {
        let on_loop = (request * 7 + request / 3) % 4;
        let kept = bench.take(on_loop, Scope::SHARED, false).map(|kept| Exclusive { requests: 1, ..kept });
        match &kept {
            Some(_) => reused += 1,
            None => made += 1,
        }
        let kept = kept.unwrap_or_else(|| {
            let (ours, theirs) = pair();
            peers.push(theirs);
            Exclusive::new(ours, Scope::SHARED)
        });
        assert!(bench.put_kept(on_loop, kept));
    }
    assert!(made == 1 && reused == 1999, "{made} made, {reused} reused");
    bench.close();
}

#[test]
fn what_belongs_to_a_client_is_there_for_it_whatever_lists_are_in_hand() {
    let bench = Bench::new(2);
    let own = Arc::new(bench.pool.branch());
    let (ours, mut theirs) = pair();
    let (count, settings) = (bench.count.clone(), bench.settings.clone());
    // Other threads look for a connection, in all lists.
    let lists = [0, 1].map(|index| bench.pool.0.try_lock(index).unwrap());
    let pool = own.clone();
    assert!(on(&bench.loops[0], move || {
        pool.release(Exclusive::new(ours, Scope::SHARED).into(), &settings, &count)
            && pool.acquire(Scope::SHARED, false).is_some_and(|slot| pool.release(slot, &settings, &count))
    }));
    drop(lists);
    assert_eq!((own.len(), bench.pool.len(), bench.count.total()), (1, 1, 1), "it leads to the same server");
    assert!(
        [0, 1].into_iter().all(|on_loop| bench.take(on_loop, Scope::SHARED, false).is_none()),
        "nobody else gets it"
    );
    drop(own);
    assert!(is_closed(&mut theirs));
    assert_eq!((bench.pool.len(), bench.count.total()), (0, 0));
    bench.close();
}

#[test]
fn what_belongs_to_a_client_has_one_list_and_counts_for_its_loop() {
    let mut bench = Bench::new(3);
    bench.settings.connections = 1;
    let pool = bench.pool.clone();
    let trunk = std::mem::replace(&mut bench.pool, on(&bench.loops[2], move || Arc::new(pool.branch())));
    let mut first = bench.put(2);
    assert_eq!(bench.pool.0.known(), Some(1));
    let counted = |bench: &Bench| [0, 1, 2].map(|index| bench.count.of(index).map(|count| count.load(Relaxed)));
    assert_eq!(counted(&bench), [Some(0), Some(0), Some(1)]);
    // The limit of the loop closes it, whichever pool of the loop the next connection comes to.
    let branch = std::mem::replace(&mut bench.pool, trunk);
    let _second = bench.put(2);
    assert!(is_closed(&mut first));
    assert_eq!((branch.len(), bench.pool.len(), bench.count.total()), (0, 1, 1));
    assert_eq!(counted(&bench), [Some(0), Some(0), Some(1)]);
    bench.close();
}

#[test]
fn a_server_that_goes_leaves_its_share_of_the_group_to_others() {
    let mut bench = Bench::new(1);
    bench.settings.connections = 2;
    let mut peers = [bench.put(0), bench.put(0)];
    bench.pool = Arc::default();
    assert!(peers.iter_mut().all(is_closed));
    assert_eq!(bench.count.total(), 0);
    let _peer = bench.put(0);
    assert_eq!(bench.count.total(), 1);
    bench.close();
}

#[test]
fn a_request_closes_a_bounded_number_of_dead_ones_on_its_way() {
    let mut bench = Bench::new(1);
    bench.settings = KeepAlive { connections: 3 * CLOSED_AT_ONCE, timeout: Duration::ZERO, ..KeepAlive::default() };
    let (pool, count, settings) = (bench.pool.clone(), bench.count.clone(), bench.settings.clone());
    // All in one job, so that the sweep does not run in between.
    let left = on(&bench.loops[0], move || {
        let peers: Vec<TcpStream> = (0..3 * CLOSED_AT_ONCE)
            .map(|_| {
                let (ours, theirs) = pair();
                assert!(pool.release(Exclusive::new(ours, Scope::SHARED).into(), &settings, &count));
                theirs
            })
            .collect();
        assert!(pool.acquire(Scope::SHARED, false).and_then(ExchangeSlot::exclusive).is_none());
        drop(peers);
        pool.len()
    });
    assert_eq!(left, 2 * CLOSED_AT_ONCE);
    bench.close();
}

#[test]
fn others_have_their_turn_while_many_are_closed() {
    let bench = Bench::new(1);
    let (pool, count) = (bench.pool.clone(), bench.count.clone());
    let most = 3 * CLOSED_AT_ONCE;
    let settings = KeepAlive { connections: most, timeout: Duration::ZERO, ..KeepAlive::default() };
    let (done, finished) = channel();
    bench.loops[0].tell(move || {
        let peers: Vec<TcpStream> = (0..most)
            .map(|_| {
                let (ours, theirs) = pair();
                theirs.set_nonblocking(true).unwrap();
                assert!(pool.release(Exclusive::new(ours, Scope::SHARED).into(), &settings, &count));
                theirs
            })
            .collect();
        loops::spawn(0, "test", async move {
            let start = Instant::now();
            let mut between = 0;
            loop {
                loops::yield_now().await;
                let closed = peers.iter().filter(|peer| peer.peek(&mut [0; 1]).is_ok_and(|n| n == 0)).count();
                if closed == most || start.elapsed() > LONG {
                    return done.send((closed, between)).unwrap();
                }
                between += usize::from(closed > 0);
            }
        });
    });
    let (closed, between) = finished.recv_timeout(2 * LONG).unwrap();
    assert!(closed == most && between > 0, "{closed} closed, {between} turns meanwhile");
    bench.close();
}

#[test]
fn what_a_loop_leaves_behind_is_used_by_the_next_one_with_its_number() {
    let mut bench = Bench::new(1);
    let mut theirs = bench.put(0);
    bench.loops.pop().unwrap().stop();
    bench.loops.push(LoopHandle::start(0, None).unwrap());
    let kept = bench.take(0, Scope::SHARED, false).unwrap();
    let (answer, answers) = channel();
    bench.loops[0].tell(move || {
        loops::spawn(0, "testing", async move {
            let mut got = Vec::with_capacity(8);
            kept.transport.readable().await.unwrap();
            answer.send(kept.transport.read(&mut got).await.map(|_| got)).unwrap();
        });
    });
    theirs.write_all(b"hello").unwrap();
    assert_eq!(answers.recv_timeout(LONG).unwrap().unwrap(), b"hello");
    bench.close();
}

#[test]
fn a_loop_that_ends_for_good_closes_its_connections() {
    let mut bench = Bench::new(2);
    let (mut of_first, mut of_second) = (bench.put(0), bench.put(1));
    on(&bench.loops[1], sweep::leave);
    bench.loops.pop().unwrap().stop();
    assert_eq!(of_second.read(&mut [0; 1]).unwrap(), 0, "closed");
    assert_eq!((bench.pool.len(), bench.count.total()), (1, 1));
    let kept = bench.take(0, Scope::SHARED, false).unwrap();
    assert_eq!(name(&kept, &mut [&mut of_first]), 0);
    bench.close();
}
