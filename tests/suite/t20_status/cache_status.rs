//! What `status` tells of caches and of single keys, and that they keep to their limits.

use std::path::{Path, PathBuf};

use freerun_testkit::{TestClient, TestServer, TestUpstream, eventually, require};
use rustix::process::Signal;
use serde_json::Value;

use crate::t15_cache::cache_flow::{counting, ok, said, serve};

fn json(server: &TestServer, target: &str) -> Value {
    let response = server.get(target);
    assert_eq!(response.status, 200, "{target}: {}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

/// The figures of the only cache.
fn figures(server: &TestServer) -> Value {
    json(server, "/status")["caches"][0].clone()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

/// What the cache knows of a key.
fn explain(server: &TestServer, key: &str) -> Value {
    json(server, &format!("/status?cache=z&key={key}"))
}

/// The stored files below a folder, and their lengths.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.file_name().len() == 32 {
            found.push((entry.path(), entry.metadata().map_or(0, |data| data.len())));
        }
    }
    found
}

#[test]
fn figures_agree_with_what_was_done() {
    if !require::freerun() {
        return;
    }
    let origin = counting("Cache-Control: max-age=1000");
    let lines = format!(
        "location = /bypass {{ proxy_cache_bypass 1; proxy_pass http://{0}; }} location / {{ proxy_pass http://{0}; }}",
        origin.address()
    );
    let server = serve(&lines, "max_size=10m");
    for target in ["/a", "/b", "/a", "/a", "/bypass"] {
        server.get(target);
    }
    // An object is found before it is counted as stored.
    eventually("all is stored", || number(&figures(&server), "/fills/stored") == 3);
    let told = figures(&server);
    assert_eq!(number(&told, "/entries"), 3);
    assert_eq!((told["name"].as_str(), told["state"].as_str()), (Some("z"), Some("ready")));
    let answers = ["miss", "hit", "bypass", "stale", "expired"].map(|how| number(&told, &format!("/answers/{how}")));
    assert_eq!(answers, [2, 2, 1, 0, 0]);
    assert_eq!(told["hit_ratio"].as_f64(), Some(0.4));
    assert_eq!((number(&told, "/fills/begun"), number(&told, "/fills/stored")), (3, 3));
    assert_eq!((number(&told, "/max_size"), number(&told, "/reserved")), (10 << 20, 0));
    assert!(number(&told, "/bytes") >= 3 * 4096, "whole blocks of the disk are counted: {told}");
    let written: u64 = files(&server.path("cache")).iter().map(|(_, length)| length).sum();
    assert_eq!(number(&told, "/disk/written"), written);
    assert_eq!(told["disk"]["health"].as_str(), Some("in"));

    let text = server.get("/status?format=prometheus").text();
    for line in [
        "freerun_cache_entries{cache=\"z\"} 3",
        "freerun_cache_answers_total{cache=\"z\",status=\"hit\"} 2",
        "freerun_cache_disk_state{cache=\"z\",state=\"in\"} 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
    }

    // They go on over a reload.
    let generation = number(&json(&server, "/status"), "/generation");
    server.signal(Signal::HUP);
    eventually("reloaded", || number(&json(&server, "/status"), "/generation") > generation);
    assert_eq!(said(&server.get("/a")).0, "HIT");
    assert_eq!(number(&figures(&server), "/answers/hit"), 3);
}

#[test]
fn a_key_is_explained() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|request| match request.target() {
        "/stale" => ok("Cache-Control: max-age=1, stale-if-error=2000000000|X-Accel-Expires: @1000000000", "old"),
        "/private" => ok("Cache-Control: private", "mine"),
        "/vary" => ok("Cache-Control: max-age=1000|Vary: Accept", "some"),
        _ => ok("Cache-Control: max-age=1000|Surrogate-Key: red", "fresh"),
    });
    let lines = format!(
        "proxy_cache_key $uri; location = /counted {{ proxy_cache_min_uses 3; proxy_pass http://{0}; }}
        location / {{ proxy_pass http://{0}; }}",
        origin.address()
    );
    let server = serve(&lines, "");
    for target in ["/fresh%20one", "/stale", "/private", "/vary", "/counted"] {
        server.get(target);
    }
    eventually("all is stored", || number(&figures(&server), "/entries") == 3);

    let fresh = explain(&server, "/fresh%20one");
    assert_eq!((fresh["key"].as_str(), fresh["place"].as_str()), (Some("/fresh one"), Some("memory")));
    let why = fresh["why"].as_str().expect("why");
    assert!(why.starts_with("fresh for ") && why.ends_with("Cache-Control: max-age=1000"), "{why}");
    assert_eq!((number(&fresh, "/response/status"), number(&fresh, "/response/length")), (200, 5));
    assert_eq!(fresh["response"]["tags"][0].as_str(), Some("red"));
    let file = PathBuf::from(fresh["file"].as_str().expect("file"));
    assert_eq!(file.metadata().expect("the file").len(), number(&fresh, "/entry/size"));
    // The same by the name of the file.
    let hash = fresh["hash"].as_str().expect("hash");
    assert_eq!(json(&server, &format!("/status?cache=z&hash={hash}"))["key"], fresh["key"]);

    let stale = explain(&server, "/stale");
    assert_eq!(stale["entry"]["fresh"].as_bool(), Some(false));
    let why = stale["why"].as_str().expect("why");
    assert!(why.contains("X-Accel-Expires: @1000000000") && why.ends_with("(stale-if-error)"), "{why}");
    assert_eq!(explain(&server, "/vary")["response"]["vary"].as_str(), Some("accept"));

    let counted = explain(&server, "/counted");
    assert_eq!((number(&counted, "/uses"), counted["place"].as_str()), (1, Some("nowhere")));
    for never in ["/private", "/never"] {
        let nothing = explain(&server, never);
        assert_eq!(nothing["why"].as_str(), Some("nothing is stored for this key"));
        assert!(nothing["entry"].is_null() && nothing["response"].is_null());
    }
    let refused = ["/status?cache=other&key=a", "/status?cache=z", "/status?cache=z&hash=xyz"];
    assert_eq!(refused.map(|target| server.get(target).status), [404, 400, 400]);
    // Looking has changed nothing.
    assert_eq!(number(&figures(&server), "/answers/hit"), 0);
}

#[test]
fn what_is_being_fetched_is_told() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::new();
    let lines =
        format!("proxy_cache_key $uri; proxy_cache_lock on; location / {{ proxy_pass http://{}; }}", origin.address());
    let server = serve(&lines, "");
    let mut clients: Vec<TestClient> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let mut asked = origin.accept();
    asked.head();
    eventually("two wait", || number(&figures(&server), "/waiting") == 2);
    assert_eq!(number(&figures(&server), "/fills/now"), 1);
    let told = explain(&server, "/a");
    assert_eq!((told["place"].as_str(), told["fill"].as_str()), (Some("being fetched"), Some("asked")));
    asked.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 4\r\n\r\nbo");
    eventually("nobody waits", || number(&figures(&server), "/waiting") == 0);
    assert_eq!(explain(&server, "/a")["fill"].as_str(), Some("coming"));
    asked.send("dy");
    for client in &mut clients {
        assert_eq!(client.response().text(), "body");
    }
    eventually("it is stored", || number(&figures(&server), "/fills/stored") == 1);
    assert!(number(&figures(&server), "/fills/followed") >= 3, "those who waited, and the first one");
}

#[test]
fn a_cache_is_never_over_its_limit() {
    if !require::freerun() {
        return;
    }
    const LIMIT: u64 = 400 << 10;
    let origin = TestUpstream::answering(|request| {
        ok("Cache-Control: max-age=1000", request.target().repeat(10_000 / request.target().len()))
    });
    let lines = format!("location / {{ proxy_pass http://{}; }}", origin.address());
    let server = serve(&lines, "max_size=400k");
    let mut client = server.connect();
    for number_of in 0..300 {
        let target = format!("/object/{number_of:04}");
        let response = client.get(&target);
        // Whether there was room for it or not.
        assert_eq!(response.text(), target.repeat(10_000 / target.len()));
        let told = figures(&server);
        assert!(number(&told, "/bytes") + number(&told, "/reserved") <= LIMIT, "{told}");
        let stored: u64 = files(&server.path("cache")).iter().map(|(_, length)| length).sum();
        assert!(stored <= LIMIT, "{stored} bytes in files");
    }
    let told = figures(&server);
    assert!(number(&told, "/removed/evicted") > 0 && number(&told, "/entries") > 10, "{told}");
}

#[test]
fn small_objects_are_served_from_memory() {
    if !require::freerun() {
        return;
    }
    for (parameters, kept) in [("", true), ("memory=0", false)] {
        let origin = counting("Cache-Control: max-age=1000");
        let lines = format!("open_file_cache off; location / {{ proxy_pass http://{}; }}", origin.address());
        let server = serve(&lines, parameters);
        server.get("/a");
        // The index knows an object before it is in memory.
        eventually("it is stored", || {
            let told = figures(&server);
            number(&told, "/entries") == 1 && number(&told, "/memory/objects") == u64::from(kept)
        });
        assert_eq!(said(&server.get("/a")), ("HIT".into(), "/a 1".into()));
        let told = figures(&server);
        assert_eq!(number(&told, "/memory/objects"), u64::from(kept), "{told}");
        assert_eq!(number(&told, "/memory/limit") > 0, kept, "{told}");
        if kept {
            assert!(number(&figures(&server), "/memory/memory_hits") > 0);
        }
    }
}
