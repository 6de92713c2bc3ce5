//! Caches whose disk hangs, fails or is full, whose origin is dead, slow or lies, and which are killed: whoever gets an
//! answer as a whole gets the right one.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use freerun_testkit::fuse::{Action, Mirror, Op};
use freerun_testkit::{
    AnsweringUpstream, ReceivedRequest, Setup, Site, TestClient, TestServer, TestUpstream, eventually, require,
};
use rustix::process::Signal;

use crate::full::Tiny;

const BIG: usize = 300_000;

/// What the origin has: of `/300000/anything` so many bytes, which tell where they are from.
fn content(target: &str) -> Vec<u8> {
    let length = target.split('/').nth(1).and_then(|length| length.parse().ok()).unwrap_or(0);
    let seed = target.bytes().fold(17u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mut state = seed | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn answer(target: &str) -> Vec<u8> {
    let body = content(target);
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}

fn origin() -> AnsweringUpstream {
    TestUpstream::answering(|request: &ReceivedRequest| answer(request.target()))
}

/// The folder where a cache is, and what makes it one.
fn cache(name: &str, folder: &Path, parameters: &str) -> String {
    format!("proxy_cache_path {} levels=1:2 keys_zone={name}:1m {parameters};\n", folder.display())
}

/// Gets it, compares it, and says how it came to be.
#[track_caller]
fn get(server: &TestServer, prefix: &str, target: &str) -> String {
    let response = server.get(&format!("{prefix}{target}"));
    assert_eq!(response.status, 200, "{prefix}{target}");
    assert!(response.body == content(target), "{prefix}{target}: other bytes");
    response.header("x-cache").unwrap_or("-").to_owned()
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            out.extend(files(&entry.path()));
        } else {
            out.push(entry.path());
        }
    }
    out
}

fn is_object(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 32)
}

/// The stored responses.
fn objects(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|path| is_object(path)).collect()
}

/// Names that no stored response has.
fn left_over(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|path| !is_object(path) && path.parent() != Some(folder)).collect()
}

/// A server with a cache on a disk of the test's, `/slow`, and another one on an ordinary disk, `/fast`.
struct Two {
    // Fields are dropped in this order: first the server, then its mounts.
    server: TestServer,
    disk: Mirror,
    site: Site,
    origin: AnsweringUpstream,
}

impl Two {
    fn new() -> Two {
        Two::with("")
    }

    /// With further lines in the server.
    fn with(more: &str) -> Two {
        let (site, origin) = (Site::new(), origin());
        site.folder("of").folder("slow").folder("fast");
        for name in ["of", "fast"] {
            site.mode(name, 0o777);
        }
        let disk = Mirror::mount(&site.at("of"), &site.at("slow")).expect("mounting");
        let http = cache("slow", &site.at("slow"), "memory=0") + &cache("fast", &site.at("fast"), "memory=0");
        let location = |name: &str| {
            let address = origin.address();
            format!(
                "location /{name}/ {{ proxy_pass http://{address}/; proxy_cache {name}; proxy_cache_key $uri;
                 add_header X-Cache $upstream_cache_status; }}"
            )
        };
        let lines = format!("{more} location = /text {{ return 200 text; }} {} {}", location("slow"), location("fast"));
        let server = Setup::server(&site, &lines).http(&http).main("user root; worker_processes 2;").freerun();
        Two { server, disk, site, origin }
    }

    /// Has it asked for until it is stored.
    #[track_caller]
    fn store(&self, prefix: &str, target: &str) {
        eventually("it is stored", || get(&self.server, prefix, target) == "HIT");
    }

    /// Empties the page cache of what is stored on the slow disk: to be answered, it has to be read.
    fn forget(&self) {
        for path in files(&self.site.at("slow")) {
            let file = fs::File::open(&path).expect("a stored file");
            file.sync_all().expect("syncing");
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("emptying the cache");
        }
    }

    /// What does not need that disk goes on.
    #[track_caller]
    fn others_go_on(&self) {
        for _ in 0..20 {
            assert_eq!(self.server.get("/text").text(), "text");
            assert_eq!(get(&self.server, "/fast", "/300000/kept"), "HIT");
        }
    }
}

#[test]
fn a_disk_that_hangs_takes_along_nobody_but_for_a_while_and_comes_back() {
    if !require::fuse() {
        return;
    }
    for ops in [&[Op::Lookup, Op::Getattr][..], &[Op::Create, Op::Write], &[Op::Rename]] {
        let two = Two::new();
        for number in 0..10 {
            two.store("/slow", &format!("/{BIG}/{number}"));
        }
        two.store("/fast", "/300000/kept");
        for op in ops {
            two.disk.control().hang(*op, "");
        }
        let mut clients: Vec<(String, TestClient)> = (0..20)
            .map(|number| {
                // Half of them are stored, half are not.
                let target = format!("/{BIG}/{number}");
                let mut client = two.server.connect();
                client.send(format!("GET /slow{target} HTTP/1.1\r\nHost: h\r\n\r\n"));
                (target, client)
            })
            .collect();
        eventually("something hangs", || two.disk.control().waiting() > 0);
        two.others_go_on();
        for (target, client) in &mut clients {
            let response = client.response();
            assert!(response.status == 200 && response.body == content(target), "{ops:?} {target}");
        }
        assert!(two.disk.control().waiting() > 0, "{ops:?}: it still hangs");
        two.others_go_on();
        two.disk.control().clear();
        for number in [0, 5, 15, 30] {
            two.store("/slow", &format!("/{BIG}/{number}"));
        }
        eventually("nothing is left", || left_over(&two.site.at("of")).is_empty());
    }
}

/// The cache's own thread waits there: for that cache alone.
#[test]
fn a_disk_that_hangs_while_files_are_removed() {
    if !require::fuse() {
        return;
    }
    let two = Two::with("set $purge 0; if ($request_method = PURGE) { set $purge 1; } proxy_cache_purge $purge;");
    for number in 0..5 {
        two.store("/slow", &format!("/{BIG}/{number}"));
    }
    two.store("/fast", "/300000/kept");
    two.disk.control().hang(Op::Unlink, "");
    let purge = |prefix: &str, target: &str| {
        two.server.send(format!("PURGE {prefix}{target} HTTP/1.1\r\nHost: h\r\n\r\n")).status
    };
    assert_eq!(purge("/slow", &format!("/{BIG}/0")), 204);
    eventually("something hangs", || two.disk.control().waiting() > 0);
    for round in 0..3 {
        two.others_go_on();
        two.store("/fast", &format!("/1000/{round}"));
        assert_eq!(purge("/fast", &format!("/1000/{round}")), 204);
        // What was purged is purged, and is asked for anew.
        for number in 0..5 {
            get(&two.server, "/slow", &format!("/{BIG}/{number}"));
        }
    }
    assert!(two.disk.control().waiting() > 0, "it still hangs");
    two.disk.control().clear();
    for number in 0..7 {
        two.store("/slow", &format!("/{BIG}/{number}"));
    }
}

#[test]
fn a_disk_that_hangs_while_bodies_are_read() {
    if !require::fuse() {
        return;
    }
    let two = Two::new();
    let targets: Vec<String> = (0..10).map(|number| format!("/{BIG}/{number}")).collect();
    for target in &targets {
        two.store("/slow", target);
    }
    two.store("/fast", "/300000/kept");
    two.forget();
    two.disk.control().hang(Op::Read, "");
    let mut stuck: Vec<TestClient> = targets.iter().map(|_| two.server.connect()).collect();
    for (target, client) in targets.iter().zip(&mut stuck) {
        client.send(format!("GET /slow{target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    eventually("something hangs", || two.disk.control().waiting() > 0);
    two.others_go_on();
    // Those wait. Others do not, once it is clear what they would wait for.
    for target in &targets {
        eventually("the origin is asked instead", || {
            let mut client = two.server.connect();
            client.set_timeout(Duration::from_secs(2));
            client.send(format!("GET /slow{target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            client.try_response("GET").is_ok_and(|response| response.body == content(target))
        });
    }
    assert!(two.disk.control().waiting() > 0, "it still hangs");
    two.others_go_on();
    two.disk.control().clear();
    for (target, client) in targets.iter().zip(&mut stuck) {
        assert!(client.response().body == content(target), "{target}");
    }
    for target in &targets {
        two.store("/slow", target);
    }
}

#[test]
fn a_disk_that_fails_is_done_without_and_comes_back() {
    if !require::fuse() {
        return;
    }
    for ops in [&[Op::Read][..], &[Op::Write], &[Op::Create], &[Op::Open, Op::Create], &[Op::Rename]] {
        let two = Two::new();
        for number in 0..6 {
            two.store("/slow", &format!("/{BIG}/{number}"));
        }
        two.store("/fast", "/300000/kept");
        for op in ops {
            two.disk.control().rule(*op, Action::Fail, "");
        }
        for round in 0..2 {
            for number in 0..12 {
                // A response that was begun from the disk may be cut, and only that.
                let target = format!("/{BIG}/{number}");
                let mut client = two.server.connect();
                client.send(format!("GET /slow{target} HTTP/1.1\r\nHost: h\r\n\r\n"));
                match client.try_response("GET") {
                    Ok(response) => assert!(response.body == content(&target), "{ops:?} {round} {target}"),
                    Err(_) => assert!(ops.contains(&Op::Read), "{ops:?} {round} {target}: cut"),
                }
            }
            two.others_go_on();
        }
        two.disk.control().clear();
        for number in [0, 5, 11, 30] {
            two.store("/slow", &format!("/{BIG}/{number}"));
        }
        two.server.logs("failed (5: Input/output error)");
        assert!(two.origin.connections() > 0);
    }
}

#[test]
fn a_full_disk_is_no_reason_not_to_answer() {
    if !require::root() {
        return;
    }
    let (disk, origin) = (Tiny::new(), origin());
    let folder = disk.path().join("cache");
    // It takes the limit for true, and the disk is smaller.
    let http = cache("z", &folder, "max_size=1g memory=0");
    let lines = format!(
        "location / {{ proxy_pass http://{}; proxy_cache z; proxy_cache_key $uri;
         add_header X-Cache $upstream_cache_status; }}",
        origin.address()
    );
    let site = Site::new();
    let server = Setup::server(&site, &lines).http(&http).main("user root;").freerun();
    for number in 0..20 {
        for length in [100, BIG, 900_000, 3_000_000] {
            get(&server, "", &format!("/{length}/{number}"));
        }
    }
    // What is small is stored again and again, as far as there is room, and all of it is right.
    let mut hits = 0;
    for round in 0..3 {
        for number in 0..40 {
            let target = format!("/1000/{round}-{number}");
            get(&server, "", &target);
            hits += usize::from(get(&server, "", &target) == "HIT");
        }
    }
    assert!(hits > 0 && !objects(&folder).is_empty(), "{hits} hits, {:?}", objects(&folder));
    assert!(left_over(&folder).is_empty());
}

#[test]
fn min_free_is_left_free() {
    if !require::root() {
        return;
    }
    let (disk, origin) = (Tiny::new(), origin());
    let folder = disk.path().join("cache");
    let http = cache("z", &folder, "min_free=500k memory=0");
    let lines =
        format!("location / {{ proxy_pass http://{}; proxy_cache z; proxy_cache_key $uri; }}", origin.address());
    let site = Site::new();
    let server = Setup::server(&site, &lines).http(&http).main("user root;").freerun();
    let asked = Cell::new(0);
    let ask = || {
        let number = asked.replace(asked.get() + 1);
        get(&server, "", &format!("/40000/{number}"));
        let free = rustix::fs::statvfs(&folder).map(|stat| stat.f_bavail * stat.f_frsize).expect("the disk");
        // The journal's own pages are counted when the disk is measured again.
        assert!(free >= (500 - 16) << 10, "after {number}: {free} bytes are free");
    };
    (0..60).for_each(|_| ask());
    // A third of a megabyte is to be had. Who is asked while the disk is being measured, or somebody evicted, is not stored.
    eventually("five of them are stored", || {
        ask();
        objects(&folder).len() >= 5
    });
    assert!(!server.error_log().contains("No space left"));
}

/// Answers in small pieces, and stops in the middle of each body until it is let go.
fn hesitant() -> (String, Arc<AtomicBool>) {
    let go = Arc::new(AtomicBool::new(false));
    let upstream = TestUpstream::new();
    let (address, gate) = (upstream.address(), go.clone());
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(std::time::Duration::from_secs(600)) {
            let gate = gate.clone();
            std::thread::spawn(move || {
                let Some(request) = peer.try_request() else { return };
                let bytes = answer(request.target());
                let half = bytes.len() / 2;
                if peer.try_send(&bytes[..half]).is_err() {
                    return;
                }
                eventually("it is let go", || gate.load(SeqCst));
                // The server may be dead.
                let _ = peer.try_send(&bytes[half..]);
            });
        }
    });
    (address, go)
}

#[test]
fn killed_in_the_middle_of_fills() {
    let site = Site::new();
    site.folder("cache").mode("cache", 0o777);
    let (slow, go) = hesitant();
    let quick = origin();
    let http = cache("z", &site.at("cache"), "memory=0");
    let lines = format!(
        "proxy_cache z; proxy_cache_key $uri; add_header X-Cache $upstream_cache_status;
         location / {{ proxy_pass http://{}; }} location /half/ {{ proxy_pass http://{slow}/; }}",
        quick.address()
    );
    let server = Setup::server(&site, &lines).http(&http).main("user root;").freerun();
    for round in 0..3 {
        for number in 0..10 {
            get(&server, "", &format!("/{BIG}/{round}-{number}"));
        }
        go.store(false, SeqCst);
        // Some with one follower, some with two; each body is larger than what is written at a time.
        let mut clients: Vec<TestClient> = (0..8).map(|_| server.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(format!("GET /half/2000000/{round}-{} HTTP/1.1\r\nHost: h\r\n\r\n", number % 5));
            client.at_least(900_000);
        }
        let worker = server.worker();
        server.signal_pid(worker, Signal::KILL);
        eventually("another one serves", || server.workers().iter().any(|process| *process != worker));
        for mut client in clients {
            assert!(client.try_response("GET").is_err(), "a half answer as if it were whole");
        }
        go.store(true, SeqCst);
        eventually("it answers", || TestClient::try_connect(server.address()).is_ok());
        for number in 0..5 {
            let target = format!("/2000000/{round}-{number}");
            let response = server.get(&format!("/half{target}"));
            assert!(response.body == content(&target), "{target}");
        }
        for number in 0..10 {
            get(&server, "", &format!("/{BIG}/{round}-{number}"));
        }
        eventually("nothing is left", || left_over(&site.at("cache")).is_empty());
    }
    assert!(!objects(&site.at("cache")).is_empty());
    for file in objects(&site.at("cache")) {
        let bytes = fs::read(&file).expect("a stored response");
        let whole = [BIG, 2_000_000].iter().any(|length| bytes.len() > *length && bytes.len() < length + 2000);
        assert!(whole, "{}: {} bytes", file.display(), bytes.len());
    }
}

#[test]
fn an_origin_that_lies_about_the_length_or_breaks_off() {
    let site = Site::new();
    site.folder("cache").mode("cache", 0o777);
    let origin = TestUpstream::answering(|request: &ReceivedRequest| {
        let head = |fields: &str| format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\n{fields}\r\n");
        let text = "x".repeat(100_000);
        let chunk = format!("186a0\r\n{text}\r\n");
        let close = "Connection: close\r\n";
        match request.target() {
            "/short" => head(&format!("Content-Length: 200000\r\n{close}")) + &text,
            "/long" => head(&format!("Content-Length: 50000\r\n{close}")) + &text,
            "/cut" => head(&format!("Transfer-Encoding: chunked\r\n{close}")) + &chunk,
            "/garbled" => head(&format!("Transfer-Encoding: chunked\r\n{close}")) + &chunk + "no length\r\n",
            "/chunked" => head(&format!("Transfer-Encoding: chunked\r\n{close}")) + &chunk + "0\r\n\r\n",
            _ => String::new(),
        }
        .into_bytes()
    });
    let lines = format!(
        "proxy_cache z; proxy_cache_key $uri; proxy_cache_lock on; add_header X-Cache $upstream_cache_status;
         location / {{ proxy_pass http://{}; }}",
        origin.address()
    );
    let http = cache("z", &site.at("cache"), "memory=0");
    let server = Setup::server(&site, &lines).http(&http).main("user root; worker_processes 2;").freerun();
    for target in ["/short", "/cut", "/garbled"] {
        for _ in 0..3 {
            let mut clients: Vec<TestClient> = (0..6).map(|_| server.connect()).collect();
            for client in &mut clients {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            }
            for mut client in clients {
                assert!(client.try_response("GET").is_err(), "{target}: half of it as if it were whole");
            }
        }
        assert!(origin.take_requests().len() >= 3, "{target} is not stored");
    }
    eventually("it is stored", || server.get("/long").header("x-cache") == Some("HIT"));
    assert_eq!(server.get("/long").body.len(), 50_000);
    eventually("it is stored", || server.get("/chunked").header("x-cache") == Some("HIT"));
    assert_eq!(server.get("/chunked").body.len(), 100_000);
    assert_eq!(server.get("/nothing").status, 502);
}

#[test]
fn an_origin_that_dies_is_covered_and_all_who_wait_are_told() {
    let site = Site::new();
    site.folder("cache").mode("cache", 0o777);
    let alive = Arc::new(AtomicBool::new(true));
    let lives = alive.clone();
    let origin = TestUpstream::answering(move |request: &ReceivedRequest| {
        if !lives.load(SeqCst) {
            return Vec::new();
        }
        let body = content(request.target());
        let head = format!("HTTP/1.1 200 OK\r\nX-Accel-Expires: 1\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.into_bytes(), body].concat()
    });
    let lines = format!(
        "proxy_cache z; proxy_cache_key $uri; proxy_cache_lock on; proxy_cache_use_stale error timeout;
         add_header X-Cache $upstream_cache_status; location / {{ proxy_pass http://{}; }}",
        origin.address()
    );
    let http = cache("z", &site.at("cache"), "");
    let server = Setup::server(&site, &lines).http(&http).main("user root; worker_processes 2;").freerun();
    assert_eq!(get(&server, "", "/5000/kept"), "MISS");
    eventually("it is stale", || get(&server, "", "/5000/kept") == "EXPIRED");
    alive.store(false, SeqCst);
    eventually("it is stale again", || get(&server, "", "/5000/kept") == "STALE");
    let mut clients: Vec<TestClient> = (0..20).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /5000/absent-{} HTTP/1.1\r\nHost: h\r\n\r\n", number % 2));
    }
    for client in &mut clients {
        assert_eq!(client.response().status, 502);
    }
    alive.store(true, SeqCst);
    assert_eq!(get(&server, "", "/5000/absent-0"), "MISS");
}
