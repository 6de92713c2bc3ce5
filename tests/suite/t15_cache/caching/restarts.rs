//! What a cache has after a restart: everything after an end in order, and nothing wrong after any other one.

use std::path::{Path, PathBuf};

use freerun_testkit::{
    AnsweringUpstream, Kind, ReceivedRequest, Setup, Site, TestServer, TestUpstream, eventually, require,
};
use rustix::process::Signal;

use crate::t15_cache::cache_flow::until_open;

const PURGE: &str = "set $purge 0; if ($request_method = PURGE) { set $purge 1; } proxy_cache_purge $purge;
    location = /status { proxy_cache off; status; }";

/// An origin whose every answer is another one.
fn origin() -> AnsweringUpstream {
    let count = std::sync::atomic::AtomicUsize::new(0);
    TestUpstream::answering(move |request: &ReceivedRequest| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let body = format!("{} {number} {}", request.target(), "x".repeat(10_000));
        let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: {}\r\n\r\n", body.len());
        (head + &body).into_bytes()
    })
}

/// A server with its cache in a folder of the site, so that another one can find it there.
fn server(kind: Kind, site: &Site, origin: &AnsweringUpstream, parameters: &str, lines: &str) -> TestServer {
    let folder = site.at("cache");
    let lines = format!("{lines}\nlocation / {{ proxy_pass http://{}; }}", origin.address());
    let cache = format!(
        "proxy_cache_path {} levels=1:2 keys_zone=z:1m {parameters}; proxy_cache z; proxy_cache_key $uri;
         add_header X-Cache $upstream_cache_status always;",
        folder.display()
    );
    let server = Setup::server(site, &lines).http(&cache).main("user root;").start(kind);
    if kind == Kind::Freerun {
        until_open(&server);
    }
    server
}

/// A server whose cache has `/1` to `/20`, the first twenty answers of the origin.
fn with_twenty(site: &Site, origin: &AnsweringUpstream) -> TestServer {
    let server = server(Kind::Freerun, site, origin, "", PURGE);
    for number in 1..=20 {
        assert_eq!(get(&server, &format!("/{number}")), miss(&format!("/{number} {number}")));
    }
    eventually("all are stored", || files(&site.at("cache")).len() == 20);
    server
}

fn site() -> Site {
    let site = Site::new();
    site.folder("cache").mode("cache", 0o777);
    site
}

/// How a response came to be, and the begin of its text.
fn get(server: &TestServer, target: &str) -> (String, String) {
    let response = server.get(target);
    let text = response.text().split(" x").next().unwrap_or_default().to_owned();
    (response.header("x-cache").unwrap_or("-").to_owned(), text)
}

fn hit(text: &str) -> (String, String) {
    ("HIT".into(), text.into())
}

fn miss(text: &str) -> (String, String) {
    ("MISS".into(), text.into())
}

/// How far the index has come.
fn state(server: &TestServer) -> String {
    server.status()["caches"][0]["state"].as_str().expect("a state").to_owned()
}

/// The stored files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut out = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if entry.path().is_dir() {
            out.extend(files(&entry.path()));
        } else if name.len() == 32 || entry.path().parent() != Some(folder) {
            out.push(entry.path());
        }
    }
    out
}

#[test]
fn an_end_in_order_keeps_everything() {
    if !require::freerun() || !require::root() {
        return;
    }
    let (site, origin) = (site(), origin());
    let mut first = server(Kind::Freerun, &site, &origin, "", PURGE);
    assert_eq!(get(&first, "/a"), miss("/a 1"));
    assert_eq!(get(&first, "/b"), miss("/b 2"));
    assert_eq!(get(&first, "/c"), miss("/c 3"));
    assert_eq!(first.send("PURGE /c HTTP/1.1\r\nHost: a\r\n\r\n").status, 204);
    first.reload();
    assert_eq!(get(&first, "/a"), hit("/a 1"));
    assert_eq!(get(&first, "/b"), hit("/b 2"));
    // A client has its response before the file has its name; TERM does not wait for that.
    eventually("two files", || files(&site.at("cache")).len() == 2);
    assert!(first.stop().success());
    let second = server(Kind::Freerun, &site, &origin, "", PURGE);
    assert_eq!(get(&second, "/a"), hit("/a 1"));
    assert_eq!(get(&second, "/b"), hit("/b 2"));
    assert_eq!(get(&second, "/c"), miss("/c 4"));
    assert!(!second.error_log().contains("journal"), "{}", second.error_log());
    eventually("three files", || files(&site.at("cache")).len() == 3);
}

#[test]
fn a_killed_worker_loses_nothing_that_was_stored() {
    if !require::freerun() || !require::root() {
        return;
    }
    let (site, origin) = (site(), origin());
    let server = with_twenty(&site, &origin);
    // What a process leaves behind that was writing.
    let left = files(&site.at("cache"))[0].with_file_name(".freerun-1-1");
    std::fs::write(&left, b"half").unwrap();
    server.signal_pid(server.worker(), Signal::KILL);
    server.logs("is looked through");
    // The journal may lack the last ones, which have to be found first.
    eventually("all files were looked at", || state(&server) == "ready");
    for number in 1..=20 {
        assert_eq!(get(&server, &format!("/{number}")), hit(&format!("/{number} {number}")));
    }
    eventually("nothing is left over", || !left.exists());
    assert_eq!(files(&site.at("cache")).len(), 20);
}

#[test]
fn what_was_purged_does_not_come_back() {
    if !require::freerun() || !require::root() {
        return;
    }
    let (site, origin) = (site(), origin());
    let server = server(Kind::Freerun, &site, &origin, "purger_sleep=1h purger_files=1", PURGE);
    for target in ["/a/1", "/a/2", "/b", "/c"] {
        assert_eq!(get(&server, target).0, "MISS");
    }
    eventually("all are stored", || files(&site.at("cache")).len() == 4);
    for target in ["/b", "/a/*"] {
        assert_eq!(server.send(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status, 204);
        server.signal_pid(server.worker(), Signal::KILL);
        eventually("another worker", || server.get("/c").header("x-cache") == Some("HIT"));
    }
    assert_eq!(["/a/1", "/a/2", "/b", "/c"].map(|target| get(&server, target).0), ["MISS", "MISS", "MISS", "HIT"]);
}

#[test]
fn a_folder_of_nginx_is_taken_over() {
    if !require::freerun() || !require::nginx() || !require::root() {
        return;
    }
    let (site, origin) = (site(), origin());
    let mut nginx = server(Kind::Nginx, &site, &origin, "", "");
    for number in 1..=20 {
        assert_eq!(get(&nginx, &format!("/{number}")).0, "MISS");
    }
    eventually("all are stored", || files(&site.at("cache")).len() == 20);
    assert!(nginx.stop().success());
    let server = server(Kind::Freerun, &site, &origin, "", PURGE);
    assert_eq!(get(&server, "/1"), miss("/1 21"));
    eventually("it is stored", || get(&server, "/1") == hit("/1 21"));
    // They count, and go like others when there is no more room.
    assert_eq!(files(&site.at("cache")).len(), 20);
    server.edit("keys_zone=z:1m", "keys_zone=z:1m max_size=64k");
    server.reload();
    eventually("there is less", || files(&site.at("cache")).len() <= 5);
    assert_eq!(get(&server, "/new").0, "MISS");
    eventually("and it is used", || get(&server, "/new").0 == "HIT");
}

/// Whether the worker has the thread of the cache.
fn has_thread(server: &TestServer) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.worker())).expect("its threads").flatten();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
        .any(|name| name == "cache z\n")
}

#[test]
fn a_cache_that_was_left_out_for_a_while_is_there_again() {
    if !require::freerun() || !require::root() {
        return;
    }
    let (site, origin) = (site(), origin());
    let server = with_twenty(&site, &origin);
    assert_eq!(get(&server, "/1"), hit("/1 1"));
    assert!(has_thread(&server));
    server.edit("proxy_cache_path", "#proxy_cache_path");
    server.reload();
    eventually("it ends", || !has_thread(&server));
    assert_eq!(get(&server, "/1").0, "-");
    server.edit("#proxy_cache_path", "proxy_cache_path");
    server.reload();
    eventually("it is loaded", || has_thread(&server) && state(&server) == "ready");
    assert_eq!(get(&server, "/20"), hit("/20 20"));
    assert_eq!(get(&server, "/new").0, "MISS");
    eventually("it takes others", || get(&server, "/new").0 == "HIT");
}
