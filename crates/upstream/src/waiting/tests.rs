//! Waiting in the queue: which requests wait and how long, with time that passes when no task runs.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::time::Instant;

use super::*;
use crate::group::{GroupSettings, PeerSpec, QueueSettings};
use crate::peer::PeerSettings;

/// A group of servers for one request at a time each, for which up to `length` requests may wait a minute.
fn queued(servers: usize, length: u32) -> Group {
    let queue = Some(QueueSettings { length, timeout: Duration::from_secs(60) });
    let settings = GroupSettings { queue, ..GroupSettings::default() };
    let spec = |number: usize| {
        let server: Arc<str> = format!("127.0.0.1:{}", 8000 + number).into();
        let settings = PeerSettings { max_conns: 1, ..PeerSettings::default() };
        PeerSpec { address: crate::address::UpstreamAddress::Ip(server.parse().unwrap()), server, settings }
    };
    Group::new("g", settings, Arc::default(), (0..servers).map(spec).collect())
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test)
}

fn after(start: Instant) -> Millis {
    start.elapsed().as_millis() as Millis
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Takes a server that has room now.
fn take(group: &Group, tried: &mut TriedServers) -> Result<Lease, NoPeer> {
    group.pick(&Query::default(), tried)
}

/// Waits for a server.
async fn wait(group: &Group, start: Instant, mut tried: TriedServers) -> Result<Lease, NoPeer> {
    let query = Query { now: after(start), ..Query::default() };
    match group.pick_now(&query, &mut tried) {
        Some(answer) => answer,
        None => group.pick_later(&query, &mut Random::seeded(1), &mut tried, || after(start)).await,
    }
}

#[test]
fn who_cannot_be_served_waits_for_room() {
    let group = queued(1, 1);
    run(async {
        let start = Instant::now();
        let wait = async || wait(&group, start, TriedServers::new()).await.map(|_| after(start));
        let lease = take(&group, &mut TriedServers::new()).unwrap();
        assert_eq!(take(&group, &mut TriedServers::new()).unwrap_err(), NoPeer::Wait);
        // One request waits and gets the room; for the other one the queue is full.
        let release = async {
            pause(30).await;
            assert_eq!(group.waiting(), 1);
            drop(lease);
        };
        let (first, second, ()) = tokio::join!(wait(), wait(), release);
        assert_eq!((first, second), (Ok(30), Err(NoPeer::Wait)));
        // No server is released: the time is over.
        let _lease = take(&group, &mut TriedServers::new()).unwrap();
        assert_eq!(wait().await, Err(NoPeer::Wait));
        assert!(after(start) >= 60_030 && after(start) < 60_200);
        assert_eq!(group.waiting(), 0);
    });
}

#[test]
fn who_has_waited_longest_is_served_first() {
    let group = Arc::new(queued(1, 100));
    let served = run(async {
        let start = Instant::now();
        let served = Rc::new(RefCell::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        // Requests come faster than they are served, so that many wait for long, and others would look just when one is
        // served.
        for number in 0..60u64 {
            let (group, served) = (group.clone(), served.clone());
            local.spawn_local(async move {
                pause(number * 10).await;
                let lease = wait(&group, start, TriedServers::new()).await.unwrap();
                served.borrow_mut().push(number);
                pause(110).await;
                drop(lease);
            });
        }
        local.await;
        served.take()
    });
    assert_eq!(served, (0..60).collect::<Vec<_>>());
    assert_eq!(group.waiting(), 0);
}

#[test]
fn who_cannot_use_the_room_lets_the_next_one_have_it_and_keeps_its_place() {
    let group = queued(2, 10);
    run(async {
        let start = Instant::now();
        let mut tried = TriedServers::new();
        let first = take(&group, &mut tried).unwrap();
        let second = take(&group, &mut tried.clone()).unwrap();
        let served = RefCell::new(Vec::new());
        let wait = async |name: &'static str, tried: TriedServers| {
            let lease = wait(&group, start, tried).await.unwrap();
            served.borrow_mut().push((name, after(start)));
            pause(1000).await;
            drop(lease);
        };
        let release = async {
            pause(210).await;
            assert_eq!(group.waiting(), 3);
            drop(first);
            pause(110).await;
            drop(second);
        };
        // The oldest request has been at the server that becomes free.
        let no = TriedServers::new();
        tokio::join!(wait("particular", tried), wait("any", no.clone()), wait("last", no), release);
        assert_eq!(*served.borrow(), [("any", 210), ("particular", 320), ("last", 1210)]);
    });
}

#[test]
fn who_comes_has_room_that_those_before_could_not_use() {
    // A queue that is full of them keeps no other request out either.
    for length in [10, 1] {
        let group = queued(2, length);
        run(async {
            let start = Instant::now();
            let mut tried = TriedServers::new();
            let first = take(&group, &mut tried).unwrap();
            let _second = take(&group, &mut tried.clone()).unwrap();
            drop(first);
            let mut bound = Box::pin(wait(&group, start, tried));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(bound.as_mut().poll(&mut context).is_pending());
            let lease = wait(&group, start, TriedServers::new()).await.unwrap();
            assert_eq!((after(start), group.waiting()), (0, 1));
            drop(lease);
        });
    }
}

#[test]
fn who_leaves_hands_the_room_on() {
    let group = queued(1, 10);
    run(async {
        let start = Instant::now();
        let lease = take(&group, &mut TriedServers::new()).unwrap();
        let mut gone = Box::pin(wait(&group, start, TriedServers::new()));
        let mut next = Box::pin(wait(&group, start, TriedServers::new()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(gone.as_mut().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_pending());
        pause(10).await;
        // It is the first request's turn, but it no longer takes it.
        drop(lease);
        drop(gone);
        assert_eq!(group.waiting(), 1);
        next.await.unwrap();
        assert_eq!(after(start), 10);
    });
}

#[test]
fn room_that_nobody_gave_back_serves_all_for_whom_there_is_some() {
    let group = queued(1, 10);
    run(async {
        let start = Instant::now();
        let lease = take(&group, &mut TriedServers::new()).unwrap();
        let wait = async || {
            let lease = wait(&group, start, TriedServers::new()).await.unwrap();
            let then = after(start);
            pause(1000).await;
            drop(lease);
            then
        };
        let replace = async {
            pause(150).await;
            let spec = |peer: &Arc<crate::Peer>| PeerSpec {
                address: peer.address.clone(),
                server: peer.server.clone(),
                settings: PeerSettings { max_conns: 4, ..peer.settings.clone() },
            };
            let peers = group.peers().peers().map(spec).collect();
            group.replace(peers);
        };
        let (one, two, three, four, ()) = tokio::join!(wait(), wait(), wait(), wait(), replace);
        assert_eq!((one, two, three), (200, 200, 200));
        // The server takes four requests at a time.
        assert!(four >= 1200, "{four}");
        drop(lease);
    });
}

#[test]
fn a_new_configuration_is_not_held_up_by_those_who_wait_with_the_old_one() {
    let old = queued(1, 10);
    let one = old.peers().primary.peers[0].clone();
    let settings = PeerSettings { max_conns: 2, ..one.settings.clone() };
    let spec = PeerSpec { address: one.address.clone(), server: one.server.clone(), settings };
    let new = Group::new("g", old.settings.clone(), old.state().clone(), vec![spec]);
    run(async {
        let start = Instant::now();
        let leases = [take(&old, &mut TriedServers::new()).unwrap(), take(&new, &mut TriedServers::new()).unwrap()];
        let served = RefCell::new(Vec::new());
        let wait = async |name: &'static str, group: &Group| {
            let lease = wait(group, start, TriedServers::new()).await.unwrap();
            served.borrow_mut().push((name, after(start)));
            drop(lease);
        };
        let release = async {
            for lease in leases {
                pause(30).await;
                drop(lease);
            }
        };
        // With one request at a time there is no room before both have ended; with two there is some after the first.
        tokio::join!(wait("old", &old), wait("new", &new), release);
        assert_eq!(*served.borrow(), [("new", 30), ("old", 60)]);
    });
}
