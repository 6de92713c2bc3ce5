//! Rates that several machines count together.

use freerun_testkit::{Kind, Setup, TestServer, within};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::{RECOVERED, becomes, cluster};

/// A machine that limits the rate of `$arg_key`.
fn node(engine: &str, zone: &str, limit: &str) -> TestServer {
    let node = Setup::new()
        .main(&format!("zone_sync_engine {engine};"))
        .http(&format!(
            "limit_req_zone $arg_key zone=keys:1m {zone};
             server {{
                 listen 127.0.0.1:@PORT@;
                 location / {{ limit_req zone=keys {limit}; stub_status; }}
                 location /api {{ api; }}
             }}"
        ))
        .start(Kind::Freerun);
    becomes(&node, "connected");
    node
}

fn is_admitted(node: &TestServer, key: &str) -> bool {
    match node.get(&format!("/?key={key}")).status {
        200 => true,
        503 => false,
        other => panic!("{other}"),
    }
}

/// The number of requests that a machine admits, of so many.
fn admitted(node: &TestServer, key: &str, count: usize) -> usize {
    (0..count).filter(|_| is_admitted(node, key)).count()
}

/// Waits until all machines know how many there are.
fn know_each_other(nodes: &[TestServer]) {
    let known = || nodes.iter().all(|node| cluster(node)["nodes"] == nodes.len());
    assert!(within(2 * RECOVERED, known), "{}", cluster(&nodes[0]));
}

#[test]
fn requests_on_all_machines_count() {
    let Some(engine) = Engine::redis() else { return };
    let nodes = [0; 3].map(|_| node(&engine.address(), "rate=1r/m sync", "burst=9 nodelay"));
    know_each_other(&nodes);
    let on_first = admitted(&nodes[0], "client", 20);
    assert_eq!(on_first, 10, "as on one machine");
    // Those that do not know the key yet have a credit of one request each.
    let on_others = nodes[1..].iter().map(|node| admitted(node, "client", 20)).sum::<usize>();
    assert!(on_others <= 2, "{on_others}");
    assert_eq!(admitted(&nodes[2], "another", 20), 10, "another key has its own bucket");
}

#[test]
fn strict_machines_never_admit_more_than_one_would() {
    let Some(engine) = Engine::redis() else { return };
    let nodes = [0; 3].map(|_| node(&engine.address(), "rate=1r/m sync strict wait=500ms", "burst=9 nodelay"));
    know_each_other(&nodes);
    let all: usize = thread::scope(|scope| {
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(|| admitted(node, "client", 20))).collect();
        threads.into_iter().map(|thread| thread.join().expect("load")).sum()
    });
    assert_eq!(all, 10);
}

#[test]
fn machines_with_uneven_load_admit_what_one_would() {
    let Some(engine) = Engine::redis() else { return };
    let nodes = [0; 5].map(|_| node(&engine.address(), "rate=100r/s sync", "burst=20 nodelay"));
    know_each_other(&nodes);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(5);
    let paces = [3, 8, 20, 50, 100].map(Duration::from_millis);
    let admitted: usize = thread::scope(|scope| {
        let load = |(node, pace): (&TestServer, Duration)| {
            let mut admitted = 0;
            while Instant::now() < end {
                admitted += usize::from(is_admitted(node, "client"));
                thread::sleep(pace);
            }
            admitted
        };
        let threads: Vec<_> = nodes.iter().zip(paces).map(|part| scope.spawn(move || load(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("load")).sum()
    });
    // The rate, with the 100 ms that it is counted in steps of; the burst; a request and a credit for each machine.
    let most = 100.0 * (begun.elapsed().as_secs_f64() + 0.1) + 21.0 + 5.0;
    assert!((admitted as f64) <= most, "{admitted} are more than {most}");
    // A busy machine sends less than it is asked to; what it can send is enough for most of the rate.
    assert!(admitted >= 250, "{admitted}");
    println!("{admitted} of {most}");
}

#[test]
fn without_the_engine_each_machine_has_its_share() {
    let Some(mut engine) = Engine::redis() else { return };
    let nodes = [0; 2].map(|_| node(&engine.address(), "rate=1r/m sync", "burst=9 nodelay"));
    know_each_other(&nodes);
    engine.kill();
    for node in &nodes {
        becomes(node, "away");
        assert_eq!(cluster(node)["limits"][0]["alone"], true);
        assert_eq!(admitted(node, "client", 20), 5);
    }
    engine.again();
    for node in &nodes {
        becomes(node, "connected");
    }
    // What was admitted meanwhile is not counted; from here on they count together.
    assert!((9..=11).contains(&(admitted(&nodes[0], "new", 20) + admitted(&nodes[1], "new", 20))));
}

#[test]
fn without_the_engine_a_zone_may_refuse_all_or_go_on_for_itself() {
    let Some(mut engine) = Engine::redis() else { return };
    let refusing = node(&engine.address(), "rate=1r/m sync alone=refuse", "burst=9 nodelay");
    let local = node(&engine.address(), "rate=1r/m sync alone=local", "burst=9 nodelay");
    engine.kill();
    becomes(&refusing, "away");
    becomes(&local, "away");
    assert_eq!(admitted(&refusing, "client", 5), 0);
    assert_eq!(admitted(&local, "client", 20), 10);
    assert_eq!(refusing.get("/").status, 200, "a request without a key is not counted");
}

#[test]
fn requests_that_come_at_once_wait_for_the_lease_and_not_for_a_late_engine() {
    let Some(engine) = Engine::redis() else { return };
    let relay = engine.relay();
    let node = node(&format!("redis://{}", relay.address()), "rate=1r/s sync", "burst=19 nodelay");
    let at_once = |key: &str| -> usize {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..10).map(|_| scope.spawn(|| is_admitted(&node, key))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|is_admitted| *is_admitted).count()
        })
    };
    assert_eq!(at_once("early"), 10);
    relay.set_delay(Duration::from_secs(2));
    // The engine has not failed yet: the credit is there, and nobody waits for long.
    let begun = Instant::now();
    let late = at_once("late");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!((1..=3).contains(&late), "{late}");
    relay.set_delay(Duration::ZERO);
    let mut keys = 0..;
    let is_well = || at_once(&format!("again{}", keys.next().unwrap_or(0))) == 10;
    assert!(within(RECOVERED, is_well), "{}", cluster(&node));
}

#[test]
fn keys_are_no_texts_in_the_engine() {
    let Some(engine) = Engine::redis() else { return };
    let node = node(&engine.address(), "rate=10r/s sync", "burst=5 nodelay");
    assert!(is_admitted(&node, "192.0.2.77"));
    assert!(within(RECOVERED, || engine.ask(&["keys", "{freerun}:limit:keys:*"]).contains("limit")));
    let table = engine.ask(&["keys", "{freerun}:limit:keys:*"]);
    let all = engine.ask(&["hgetall", table.lines().next().expect("a table")]);
    assert!(!all.contains("192.0.2.77"), "{all}");
}
