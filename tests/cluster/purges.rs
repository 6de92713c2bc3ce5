//! Purges that reach the caches of several machines.

use freerun_testkit::{
    AnsweringUpstream, Kind, PATIENCE, ReceivedRequest, Response, Setup, TestServer, TestUpstream, within,
};
use rustix::process::Signal;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::Engine;
use crate::failover::WatchedEngines;
use crate::{Machine, RECOVERED, becomes, cluster, json};

/// A server whose answers say which version they have. Each has the first part of its path as a tag.
pub(crate) struct Origin {
    upstream: AnsweringUpstream,
    version: Arc<AtomicU64>,
}

impl Origin {
    pub(crate) fn new() -> Origin {
        let version = Arc::new(AtomicU64::new(1));
        let told = version.clone();
        let answer = move |request: &ReceivedRequest| {
            let body = told.load(Ordering::SeqCst).to_string();
            let tag = request.target().split('/').nth(1).unwrap_or_default();
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nSurrogate-Key: {tag}\r\n\r\n{body}").into_bytes()
        };
        Origin { upstream: TestUpstream::answering(answer), version }
    }

    pub(crate) fn change(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

/// A machine with a cache in front of an origin.
pub(crate) fn node(engine: &str, origin: &Origin) -> TestServer {
    node_with(engine, "proxy", &format!("http://{}", origin.upstream.address()))
}

/// A machine with a cache of this member of the proxy family, in front of an application.
fn node_with(engine: &str, member: &str, application: &str) -> TestServer {
    let main = format!("zone_sync_engine {engine};");
    let node = Setup::new().main(&main).http(&lines(member, application)).start(Kind::Freerun);
    becomes(&node, "connected");
    node
}

/// The lines in `http` of a machine with a cache of this member of the proxy family.
fn lines(member: &str, application: &str) -> String {
    format!(
        "{member}_cache_path @DIR@/cache keys_zone=pages:1m sync;
         map $request_method $purges {{ PURGE 1; default 0; }}
         server {{
             listen 127.0.0.1:@PORT@;
             location / {{
                 {member}_pass {application};
                 {member}_cache pages;
                 {member}_cache_key $uri;
                 {member}_cache_valid 1h;
                 {member}_cache_purge $purges;
             }}
             location /api {{ api write=on; }}
         }}"
    )
}

/// The same for a cache in front of an origin.
pub(crate) fn lines_for(origin: &Origin) -> String {
    lines("proxy", &format!("http://{}", origin.upstream.address()))
}

pub(crate) fn purge(node: &TestServer, path: &str) -> u16 {
    node.ask("PURGE", path, "").status
}

/// Purges what the body of a request to the API says.
fn purge_by_api(node: &TestServer, body: &str) -> u16 {
    node.ask("POST", "/api/freerun/1/caches/pages/purge", body).status
}

/// Waits until a machine answers with this version.
#[track_caller]
pub(crate) fn serves(node: &TestServer, path: &str, version: u64) {
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
    assert_eq!(purge_by_api(&a, r#"{"key":"/c"}"#), 204);
    serves(&b, "/c", 3);
    // Each machine has told that it has applied them.
    let everywhere = || json(&applied(&a))["everywhere"] == true && json(&applied(&b))["everywhere"] == true;
    assert!(within(RECOVERED, everywhere), "{} {}", applied(&a).text(), applied(&b).text());
    assert_eq!((cache(&b)["full_purges"].as_u64(), cache(&a)["full_purges"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn a_purge_by_tag_reaches_all() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let [a, b] = [0; 2].map(|_| node(&engine.address(), &origin));
    let paths = ["/red/1", "/red/2", "/blue/1", "/green/1"];
    for path in paths {
        assert_eq!((a.get(path).text(), b.get(path).text()), ("1".to_owned(), "1".to_owned()));
    }
    origin.change();
    assert_eq!(purge_by_api(&a, r#"{"tags":["red","blue"]}"#), 204);
    for path in &paths[..3] {
        serves(&b, path, 2);
        assert_eq!(a.get(path).text(), "2", "{path}");
    }
    origin.change();
    let request = "PURGE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCache-Tag: red\r\n\r\n";
    assert_eq!(b.send(request).status, 204);
    serves(&a, "/red/1", 3);
    serves(&a, "/red/2", 3);
    for machine in [&a, &b] {
        assert_eq!((machine.get("/blue/1").text(), machine.get("/green/1").text()), ("2".to_owned(), "1".to_owned()));
    }
}

/// The address of an application behind `uwsgi_pass`, whose answers say which version they have.
fn uwsgi_application(version: Arc<AtomicU64>) -> String {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(PATIENCE) {
            let head = peer.bytes(4);
            peer.bytes(usize::from(u16::from_le_bytes([head[1], head[2]])));
            peer.send(format!("Status: 200 OK\r\nContent-Length: 1\r\n\r\n{}", version.load(Ordering::SeqCst)));
        }
    });
    address
}

#[test]
fn a_purge_reaches_the_caches_of_other_members_of_the_family() {
    let Some(engine) = Engine::redis() else { return };
    let version = Arc::new(AtomicU64::new(1));
    let application = uwsgi_application(version.clone());
    let [a, b] = [0; 2].map(|_| node_with(&engine.address(), "uwsgi", &application));
    for path in ["/x", "/y"] {
        assert_eq!((a.get(path).text(), b.get(path).text()), ("1".to_owned(), "1".to_owned()));
    }
    version.store(2, Ordering::SeqCst);
    assert_eq!(purge(&a, "/x"), 204);
    serves(&b, "/x", 2);
    assert_eq!(b.get("/y").text(), "1");
}

/// The number of purges that machines miss.
const MISSED: usize = 1000;

/// The number of requests on one connection, which a server closes after a thousand.
const ON_ONE_CONNECTION: usize = 500;

/// Asks a machine for each of the paths `/0`, `/1`, … with this method; `is_right` judges the answers.
#[track_caller]
fn each(node: &TestServer, method: &str, numbers: Range<usize>, is_right: impl Fn(&Response) -> bool) {
    let mut client = node.connect();
    for (count, number) in numbers.enumerate() {
        if count % ON_ONE_CONNECTION == ON_ONE_CONNECTION - 1 {
            client = node.connect();
        }
        client.send(format!("{method} /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let response = client.response_to(method);
        assert!(is_right(&response), "{method} /{number}: {} {:?}", response.line, response.text());
    }
}

/// Does the same with each of these machines, at the same time.
fn at_once(machines: [&TestServer; 3], what: impl Fn(&TestServer) + Sync) {
    std::thread::scope(|scope| {
        for machine in machines {
            scope.spawn(|| what(machine));
        }
    });
}

#[test]
fn machines_that_were_away_serve_nothing_that_was_purged_meanwhile() {
    let Some(engine) = Engine::redis() else { return };
    let origin = Origin::new();
    let relay = engine.relay();
    let a = node(&engine.address(), &origin);
    let cut_off = node(&format!("redis://{}", relay.address()), &origin);
    let [killed, mut down] = [0; 2].map(|_| node(&engine.address(), &origin));
    let is_version = |version: &'static str| move |response: &Response| response.text() == version;
    at_once([&cut_off, &killed, &down], |machine| {
        each(machine, "GET", 0..MISSED, is_version("1"));
        assert_eq!(machine.get("/kept").text(), "1");
    });
    relay.cut();
    becomes(&cut_off, "away");
    assert!(down.stop().success());
    origin.change();
    let is_purged = |response: &Response| response.status == 204;
    each(&a, "PURGE", 0..MISSED / 2, is_purged);
    // One that is killed in the middle has applied some of them, and has written down the place of fewer.
    killed.signal_pid(killed.worker(), Signal::KILL);
    each(&a, "PURGE", MISSED / 2..MISSED, is_purged);
    assert_eq!(cut_off.get("/0").text(), "1", "it cannot know");
    relay.heal();
    down.again();
    at_once([&cut_off, &killed, &down], |machine| {
        becomes(machine, "connected");
        // The last one is the last entry of the log.
        serves(machine, &format!("/{}", MISSED - 1), 2);
        each(machine, "GET", 0..MISSED, is_version("2"));
        assert_eq!(machine.get("/kept").text(), "1", "only what was purged: {}", cache(machine));
    });
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
    let Some(mut engines) = WatchedEngines::start() else { return };
    let origin = Origin::new();
    let [a, b] = [0; 2].map(|_| node(&engines.address(), &origin));
    for path in ["/x", "/y", "/z"] {
        serves(&a, path, 1);
        serves(&b, path, 1);
    }
    origin.change();
    assert_eq!(purge(&a, "/x"), 204);
    engines.primary.kill();
    becomes(&a, "away");
    assert_eq!(purge(&a, "/y"), 202);
    engines.is_followed_by(&a);
    engines.is_followed_by(&b);
    serves(&b, "/x", 2);
    serves(&b, "/y", 2);
    assert_eq!(b.get("/z").text(), "1", "only what was purged");
}
