//! Purges that reach the caches of several machines.

use freerun_testkit::{
    AnsweringUpstream, Kind, PATIENCE, ReceivedRequest, Response, Setup, TestServer, TestUpstream, ok, within,
};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::{Engine, answers};
use crate::failover::sentinel;
use crate::{RECOVERED, becomes, cluster, json};

/// A server whose answers say which version they have.
struct Origin {
    upstream: AnsweringUpstream,
    version: Arc<AtomicU64>,
}

impl Origin {
    fn new() -> Origin {
        let version = Arc::new(AtomicU64::new(1));
        let told = version.clone();
        let answer = move |_: &ReceivedRequest| ok(told.load(Ordering::SeqCst).to_string());
        Origin { upstream: TestUpstream::answering(answer), version }
    }

    fn change(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

/// A machine with a cache in front of an origin.
fn node(engine: &str, origin: &Origin) -> TestServer {
    let node = Setup::new()
        .main(&format!("zone_sync_engine {engine};"))
        .http(&format!(
            "proxy_cache_path @DIR@/cache keys_zone=pages:1m sync;
             map $request_method $purges {{ PURGE 1; default 0; }}
             server {{
                 listen 127.0.0.1:@PORT@;
                 location / {{
                     proxy_pass http://{};
                     proxy_cache pages;
                     proxy_cache_key $uri;
                     proxy_cache_valid 1h;
                     proxy_cache_purge $purges;
                 }}
                 location /api {{ api write=on; }}
             }}",
            origin.upstream.address()
        ))
        .start(Kind::Freerun);
    becomes(&node, "connected");
    node
}

fn purge(node: &TestServer, path: &str) -> u16 {
    node.send(format!("PURGE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).status
}

/// Waits until a machine answers with this version.
#[track_caller]
fn serves(node: &TestServer, path: &str, version: u64) {
    let text = version.to_string();
    assert!(within(RECOVERED, || node.get(path).text() == text), "{path}: {:?}", node.get(path).text());
}

/// The figures of the cache of a machine.
fn cache(node: &TestServer) -> serde_json::Value {
    cluster(node)["caches"][0].clone()
}

fn applied(node: &TestServer) -> Response {
    node.get("/api/freerun/1/cluster/caches/pages")
}

#[test]
fn a_purge_on_one_machine_reaches_all() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let [a, b] = [0; 2].map(|_| node(&engine.address(), &origin));
    for path in ["/a", "/b/1", "/b/2", "/c"] {
        serves(&a, path, 1);
        serves(&b, path, 1);
    }
    origin.change();
    assert_eq!(purge(&a, "/a"), 204);
    serves(&b, "/a", 2);
    assert_eq!(a.get("/a").text(), "2");
    assert_eq!(b.get("/b/1").text(), "1");
    assert_eq!(purge(&b, "/b/*"), 204);
    serves(&a, "/b/1", 2);
    serves(&a, "/b/2", 2);
    // What this machine does not have, another may have.
    serves(&b, "/only-b", 2);
    origin.change();
    assert_eq!(purge(&a, "/only-b"), 204);
    serves(&b, "/only-b", 3);
    let body = r#"{"key":"/c"}"#;
    let request = format!(
        "POST /api/freerun/1/caches/pages/purge HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(a.send(request).status, 204);
    serves(&b, "/c", 3);
    // Each machine has told that it has applied them.
    let everywhere = || json(&applied(&a))["everywhere"] == true && json(&applied(&b))["everywhere"] == true;
    assert!(within(RECOVERED, everywhere), "{} {}", applied(&a).text(), applied(&b).text());
    assert_eq!((cache(&b)["full_purges"].as_u64(), cache(&a)["full_purges"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn machines_that_were_away_serve_nothing_that_was_purged_meanwhile() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let relay = engine.relay();
    let a = node(&engine.address(), &origin);
    let cut_off = node(&format!("redis://{}", relay.address()), &origin);
    let killed = node(&engine.address(), &origin);
    for number in 0..100 {
        let path = format!("/{number}");
        for machine in [&a, &cut_off, &killed] {
            assert_eq!(machine.get(&path).text(), "1");
        }
    }
    // The place in the log is on the disk before the worker dies.
    assert!(within(RECOVERED, || cache(&killed)["applied"].is_string()));
    relay.cut();
    becomes(&cut_off, "away");
    killed.signal_pid(killed.worker(), Signal::KILL);
    origin.change();
    for number in 0..100 {
        assert_eq!(purge(&a, &format!("/{number}")), 204);
    }
    assert_eq!(cut_off.get("/0").text(), "1", "it cannot know");
    relay.heal();
    becomes(&cut_off, "connected");
    assert!(within(2 * RECOVERED, || cluster(&killed)["state"] == "connected"));
    for number in 0..100 {
        let path = format!("/{number}");
        serves(&cut_off, &path, 2);
        serves(&killed, &path, 2);
    }
    assert_eq!(cache(&cut_off)["full_purges"], 0, "{}", cache(&cut_off));
}

#[test]
fn a_purge_without_the_engine_is_told_when_it_is_there() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let relay = engine.relay();
    let a = node(&format!("redis://{}", relay.address()), &origin);
    let b = node(&engine.address(), &origin);
    for path in ["/x", "/y"] {
        serves(&a, path, 1);
        serves(&b, path, 1);
    }
    relay.cut();
    becomes(&a, "away");
    origin.change();
    assert_eq!(purge(&a, "/x"), 202);
    assert_eq!(a.get("/x").text(), "2", "here it is in force");
    assert!(within(RECOVERED, || cache(&a)["pending"] == 1), "{}", cache(&a));
    // It outlives the worker.
    a.signal_pid(a.worker(), Signal::KILL);
    assert!(within(2 * RECOVERED, || cluster(&a)["state"] == "away" && cache(&a)["pending"] == 1), "{}", cluster(&a));
    relay.heal();
    becomes(&a, "connected");
    serves(&b, "/x", 2);
    assert_eq!(b.get("/y").text(), "1");
}

#[test]
fn where_purges_may_have_been_missed_everything_is_purged() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let relay = engine.relay();
    let a = node(&format!("redis://{}", relay.address()), &origin);
    let b = node(&engine.address(), &origin);
    for path in ["/x", "/y"] {
        serves(&a, path, 1);
        serves(&b, path, 1);
    }
    relay.cut();
    becomes(&a, "away");
    origin.change();
    assert_eq!(purge(&b, "/x"), 204);
    engine.ask(&["xtrim", "{freerun}:purge:pages", "MAXLEN", "0"]);
    relay.heal();
    becomes(&a, "connected");
    serves(&a, "/x", 2);
    serves(&a, "/y", 2);
    a.logs("purges for cache \"pages\" were missed, so all of it is purged: the log does not go back as far");
    assert_eq!(cache(&a)["full_purges"], 1);
    assert_eq!(b.get("/y").text(), "1");
}

#[test]
fn a_purge_that_was_answered_survives_a_change_of_the_primary() {
    let Some(mut primary) = Engine::redis() else { return };
    let Some(replica) = Engine::redis_with(&["--replicaof", "127.0.0.1", &primary.port().to_string()]) else { return };
    answers(primary.port(), &["info", "replication"], "state=online");
    let Some((_sentinel, sentinel_port)) = sentinel(primary.port()) else { return };
    answers(sentinel_port, &["sentinel", "replicas", "main"], &replica.port().to_string());
    let origin = Origin::new();
    let engine = format!("redis://127.0.0.1:{sentinel_port} topology=sentinel:main");
    let [a, b] = [0; 2].map(|_| node(&engine, &origin));
    for path in ["/x", "/y", "/z"] {
        serves(&a, path, 1);
        serves(&b, path, 1);
    }
    origin.change();
    assert_eq!(purge(&a, "/x"), 204);
    primary.kill();
    becomes(&a, "away");
    assert_eq!(purge(&a, "/y"), 202);
    for machine in [&a, &b] {
        let peer = format!("127.0.0.1:{}", replica.port());
        let is_moved = || cluster(machine)["state"] == "connected" && cluster(machine)["peer"] == peer;
        assert!(within(2 * PATIENCE, is_moved), "{}", cluster(machine));
    }
    serves(&b, "/x", 2);
    serves(&b, "/y", 2);
    assert_eq!(b.get("/z").text(), "1", "only what was purged");
}
