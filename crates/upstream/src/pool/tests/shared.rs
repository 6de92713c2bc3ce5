//! Connections that carry several exchanges at a time, like those of HTTP/2.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::*;

/// A connection that carries as many exchanges at a time as the server allows, and reports when it is closed.
struct Wide {
    name: &'static str,
    allowed: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
}

impl MultiplexedConnection for Wide {
    fn streams(&self) -> usize {
        self.allowed.load(Relaxed)
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        self.closed.store(true, Relaxed);
    }
}

/// The test's handle of a connection that it has put into the pool.
struct Server {
    allowed: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
}

impl Server {
    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}

fn wide(name: &'static str, streams: usize) -> (Wide, Server) {
    let (allowed, closed) = (Arc::new(AtomicUsize::new(streams)), Arc::default());
    let server = Server { allowed: allowed.clone(), closed: Arc::clone(&closed) };
    (Wide { name, allowed, closed }, server)
}

/// A connection that puts another one into a pool when it ends.
struct Making {
    pool: Pool,
    connection: Option<Wide>,
    settings: KeepAlive,
    count: Arc<IdleCount>,
}

impl MultiplexedConnection for Making {
    fn streams(&self) -> usize {
        1
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let connection = self.connection.take().expect("it is dropped once");
        drop(self.pool.share(connection, scope(), &self.settings, &self.count));
    }
}

#[test]
fn a_connection_that_is_closed_to_make_room_may_use_the_pools_itself() {
    let mut bench = Bench::new(1);
    bench.settings.connections = 1;
    let (pool, count, settings) = (bench.pool.clone(), bench.count.clone(), bench.settings.clone());
    let other: Arc<IdleCount> = Arc::default();
    let ((next, server), others) = (wide("next", 1), other.clone());
    on(&bench.loops[0], move || {
        let connection = Some(next);
        let making = Making { pool: Pool::default(), connection, settings: settings.clone(), count: others };
        drop(pool.share(making, scope(), &settings, &count));
    });
    let _peer = bench.put(0);
    assert_eq!((bench.pool.len(), bench.count.total()), (1, 1));
    // Its own pool has gone with it.
    assert!(server.is_closed() && other.total() == 0);
    bench.close();
}

/// A scope of its own, as each protocol has.
fn scope() -> Scope {
    Scope::of("wide")
}

impl Bench {
    fn share(&self, on_loop: usize, connection: Wide) -> SharedSlot {
        let (pool, count, settings) = (self.pool.clone(), self.count.clone(), self.settings.clone());
        on(&self.loops[on_loop], move || pool.share(connection, scope(), &settings, &count))
    }

    fn slot(&self, on_loop: usize) -> Option<SharedSlot> {
        let pool = self.pool.clone();
        on(&self.loops[on_loop], move || pool.acquire(scope(), false).and_then(ExchangeSlot::shared))
    }

    /// Lets the clock of the first loop go on.
    fn tick(&self) {
        let before = on(&self.loops[0], loops::nanos);
        while on(&self.loops[0], loops::nanos) == before {}
    }

    fn release(&self, on_loop: usize, slot: SharedSlot) -> bool {
        let (pool, count, settings) = (self.pool.clone(), self.count.clone(), self.settings.clone());
        on(&self.loops[on_loop], move || pool.release(slot.into(), &settings, &count))
    }
}

fn name(slot: &SharedSlot) -> &'static str {
    slot.connection::<Wide>().unwrap().name
}

#[test]
fn a_connection_has_as_many_slots_as_the_server_allows() {
    let bench = Bench::new(1);
    let (connection, server) = wide("a", 3);
    let mut slots = vec![bench.share(0, connection)];
    slots.extend((0..2).map(|_| bench.slot(0).unwrap()));
    assert!(slots.iter().all(|slot| name(slot) == "a"));
    assert!(bench.slot(0).is_none(), "all are taken");
    // A released and a dropped slot are free for other requests; neither closes the connection.
    assert!(bench.release(0, slots.pop().unwrap()));
    drop(slots.pop());
    slots.extend((0..2).map(|_| bench.slot(0).unwrap()));
    assert!(bench.slot(0).is_none());
    // The server may change its limit.
    server.allowed.store(4, Relaxed);
    slots.push(bench.slot(0).unwrap());
    server.allowed.store(1, Relaxed);
    drop(slots.pop());
    assert!(bench.slot(0).is_none());
    drop(slots);
    assert_eq!((bench.pool.len(), bench.count.total(), server.is_closed()), (1, 1, false));
    drop(bench.slot(0).unwrap());
    bench.close();
}

#[test]
fn where_one_is_full_another_one_is_asked() {
    let bench = Bench::new(1);
    let (first, _server) = wide("first", 1);
    let (second, _other) = wide("second", 2);
    let (one, two) = (bench.share(0, first), bench.share(0, second));
    let three = bench.slot(0).unwrap();
    assert_eq!((name(&two), name(&three)), ("second", "second"));
    assert!(bench.slot(0).is_none());
    drop(one);
    assert_eq!(name(&bench.slot(0).unwrap()), "first");
    bench.close();
}

#[test]
fn it_stands_beside_connections_of_other_scopes() {
    let bench = Bench::new(1);
    let _peer = bench.put(0);
    let (connection, _server) = wide("a", 2);
    let slot = bench.share(0, connection);
    assert_eq!(bench.pool.len(), 2);
    assert!(bench.take(0, Scope::SHARED, false).is_some(), "behind it in the list");
    assert!(bench.take(0, Scope::SHARED, false).is_none());
    assert!(bench.slot(0).is_some());
    drop(slot);
    bench.close();
}

#[test]
fn another_loop_never_gets_a_slot() {
    let bench = Bench::new(2);
    let (connection, _server) = wide("a", 9);
    let slot = bench.share(0, connection);
    assert!(bench.slot(1).is_none());
    assert!(bench.slot(0).is_some());
    drop(slot);
    bench.close();
}

#[test]
fn one_that_takes_no_more_leaves_the_pool_and_lives_for_who_is_on_it() {
    let bench = Bench::new(1);
    let (connection, server) = wide("a", 2);
    let slot = bench.share(0, connection);
    server.allowed.store(0, Relaxed);
    assert!(bench.slot(0).is_none());
    assert_eq!((bench.pool.len(), bench.count.total()), (0, 0));
    assert_eq!((name(&slot), server.is_closed()), ("a", false));
    assert!(bench.release(0, slot));
    assert!(server.is_closed());
    bench.close();
}

#[test]
fn requests_and_time_are_counted_for_the_whole_connection() {
    let mut bench = Bench::new(1);
    bench.settings.requests = 3;
    let (connection, server) = wide("a", 9);
    let slots = [bench.share(0, connection), bench.slot(0).unwrap(), bench.slot(0).unwrap()];
    assert!(bench.slot(0).is_none() && !server.is_closed());
    drop(slots);
    assert!(server.is_closed());
    bench.settings = KeepAlive { time: Duration::ZERO, ..KeepAlive::default() };
    let (connection, _server) = wide("b", 9);
    let _slot = bench.share(0, connection);
    assert!(bench.slot(0).is_none(), "it is too old");
    bench.settings = KeepAlive { connections: 0, ..KeepAlive::default() };
    let (connection, server) = wide("c", 9);
    let slot = bench.share(0, connection);
    assert!(bench.slot(0).is_none(), "none is kept");
    drop(slot);
    assert!(server.is_closed());
    bench.close();
}

#[test]
fn the_sweep_closes_it_when_nobody_has_used_it_for_long() {
    let mut bench = Bench::new(1);
    bench.settings.timeout = Duration::ZERO;
    let (used, server) = wide("used", 9);
    let (unused, other) = wide("unused", 9);
    let slot = bench.share(0, used);
    drop(bench.share(0, unused));
    let until = |holds: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < LONG);
            std::thread::yield_now();
        }
    };
    until(&|| other.is_closed());
    assert_eq!((bench.pool.len(), server.is_closed()), (1, false));
    drop(slot);
    until(&|| server.is_closed());
    assert_eq!(bench.count.total(), 0);
    bench.close();
}

#[test]
fn while_they_are_used_there_may_be_more_than_are_kept() {
    let mut bench = Bench::new(1);
    bench.settings.connections = 1;
    let (connections, servers): (Vec<_>, Vec<_>) = ["a", "b", "c"].map(|name| wide(name, 2)).into_iter().unzip();
    let mut slots: Vec<_> = connections.into_iter().map(|connection| bench.share(0, connection)).collect();
    slots.extend((0..3).map(|_| bench.slot(0).unwrap()));
    assert!(bench.slot(0).is_none());
    assert_eq!((bench.pool.len(), bench.count.total()), (3, 3));
    drop(slots);
    let start = Instant::now();
    while bench.count.total() > 1 {
        assert!(start.elapsed() < LONG);
        std::thread::yield_now();
    }
    let closed = || servers.iter().filter(|server| server.is_closed()).count();
    while closed() < 2 {
        assert!(start.elapsed() < LONG);
        std::thread::yield_now();
    }
    assert_eq!((bench.pool.len(), closed()), (1, 2));
    bench.close();
}

#[test]
fn one_in_use_is_not_closed_to_make_room() {
    let mut bench = Bench::new(1);
    bench.settings.connections = 2;
    let (connection, server) = wide("a", 9);
    let slot = bench.share(0, connection);
    let mut first = bench.put(0);
    let mut second = bench.put(0);
    assert!(is_closed(&mut first));
    assert!(!server.is_closed() && bench.slot(0).is_some());
    // When it is no longer used, its turn comes after connections that were unused before.
    bench.tick();
    assert!(bench.release(0, slot));
    bench.tick();
    let mut third = bench.put(0);
    assert!(is_closed(&mut second) && !server.is_closed());
    let _fourth = bench.put(0);
    assert!(server.is_closed());
    third.set_nonblocking(true).unwrap();
    assert!(third.read(&mut [0; 1]).is_err(), "open");
    assert_eq!((bench.pool.len(), bench.count.total()), (2, 2));
    bench.close();
}
