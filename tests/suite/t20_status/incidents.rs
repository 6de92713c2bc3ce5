//! Ten incidents: the first problem of `status` names each, with its cause and not with its effects.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use freerun_testkit::fuse::{Action, Fixture, Mirror, Op};
use freerun_testkit::{
    AnsweringUpstream, Dns, DnsReply, Setup, Site, TestClient, TestServer, TestUpstream, eventually, ok, require,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

/// The time that a slow server takes: more than the second from which on an answer counts as slow.
const SLOW: Duration = Duration::from_millis(1200);

/// The first of all problems.
fn first_problem(server: &TestServer) -> Value {
    server.status()["problems"].get(0).cloned().unwrap_or_default()
}

/// Waits until the first problem is of this kind, with these words in its sentence.
#[track_caller]
fn is_named(server: &TestServer, kind: &str, words: &[&str]) {
    let mut last = Value::Null;
    let named = freerun_testkit::within(freerun_testkit::PATIENCE, || {
        last = first_problem(server);
        let text = format!("{}: {}", last["subject"].as_str().unwrap_or(""), last["text"].as_str().unwrap_or(""));
        last["kind"] == kind && words.iter().all(|word| text.contains(word))
    });
    assert!(named, "not {kind} with {words:?} but {last}");
    assert!(last["since"].as_i64() > Some(1_700_000_000), "{last}");
}

fn origin() -> AnsweringUpstream {
    TestUpstream::answering(|_| ok("alive"))
}

/// A server with `status`, and these lines in its block and beside it.
fn server(site: &Site, lines: &str, http: &str) -> Setup {
    Setup::server(site, &format!("location = /status {{ status; }} {lines}")).http(http)
}

#[test]
fn a_dead_server() {
    if !require::freerun() {
        return;
    }
    let origin = origin();
    let groups = format!("upstream app {{ server {}; server 127.0.0.1:@PORT9@; }}", origin.address());
    let server = server(&Site::new(), "location / { proxy_pass http://app; }", &groups).freerun();
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "alive");
    }
    is_named(&server, "server_out", &["app: ", &server.address_number(9).to_string(), "connect", "1 of 2 servers"]);
}

#[test]
fn a_slow_server() {
    if !require::freerun() {
        return;
    }
    let fast = origin();
    let slow = TestUpstream::answering(|_| {
        // It answers late; nothing is waited for.
        thread::sleep(SLOW);
        ok("late")
    });
    let groups = format!("upstream app {{ server {} weight=20; server {}; }}", fast.address(), slow.address());
    let server = server(&Site::new(), "location / { proxy_pass http://app; }", &groups).freerun();
    let mut clients: Vec<TestClient> = (0..84).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    is_named(&server, "server_slow", &["app: ", slow.address(), "100 % of its last answers took longer than 1 s"]);
}

#[test]
fn a_hanging_disk() {
    if !require::fuse() {
        return;
    }
    let site = Site::new();
    site.folder("slow");
    let disk = Fixture::mount(&site.at("slow"), false).expect("mounting");
    disk.file("f", 10_000);
    let server = server(&site, "", "").freerun();
    assert_eq!(server.get("/slow/f").status, 200);
    disk.control().hang(Op::Open, "");
    disk.control().hang(Op::Lookup, "");
    let mut client = server.connect();
    client.send("GET /slow/f HTTP/1.1\r\nHost: h\r\n\r\n");
    is_named(&server, "mount_hangs", &["/slow: ", "No operation on this mount has ended for "]);
    disk.control().clear();
    assert_eq!(client.response().status, 200);
}

/// A file system in memory, which is smaller than what is to be stored on it.
struct SmallDisk(Site);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.0.at("cache"), UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk() {
    if !require::root() {
        return;
    }
    let disk = SmallDisk(Site::new());
    disk.0.folder("cache");
    mount("tmpfs", disk.0.at("cache"), "tmpfs", MountFlags::empty(), c"size=1m,mode=777").expect("mounting");
    let origin = TestUpstream::answering(|_| ok(vec![b'x'; 400_000]));
    let pages = format!("proxy_cache_path {} keys_zone=pages:1m max_size=1g;", disk.0.at("cache").display());
    let cached =
        format!("location / {{ proxy_pass http://{}; proxy_cache pages; proxy_cache_valid 1h; }}", origin.address());
    let server = server(&disk.0, &cached, &pages).main("user root;").freerun();
    for number in 0..8 {
        assert_eq!(server.get(&format!("/{number}")).body.len(), 400_000);
    }
    is_named(&server, "cache_full", &["pages: There was no room for "]);
}

#[test]
fn an_expiring_certificate() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let (key, certificate) = (site.at("key.pem"), site.at("leaf.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=shop.example", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
    assert!(openssl.output().expect("openssl").status.success());
    let tls = format!(
        "server {{ listen 127.0.0.1:@PORT2@ ssl; ssl_certificate {}; ssl_certificate_key {}; }}",
        certificate.display(),
        key.display()
    );
    let server = server(&site, "", &tls).freerun();
    is_named(&server, "certificate_ends", &["shop.example: The certificate ", "leaf.pem ends in "]);
}

#[test]
fn a_cache_that_fails() {
    if !require::fuse() {
        return;
    }
    let site = Site::new();
    site.folder("of").folder("slow");
    site.mode("of", 0o777);
    let disk = Mirror::mount(&site.at("of"), &site.at("slow")).expect("mounting");
    let origin = TestUpstream::answering(|_| ok(vec![b'x'; 100_000]));
    let pages = format!("proxy_cache_path {} keys_zone=pages:1m memory=0;", site.at("slow").display());
    let cached =
        format!("location / {{ proxy_pass http://{}; proxy_cache pages; proxy_cache_valid 1h; }}", origin.address());
    let server = server(&site, &cached, &pages).main("user root;").freerun();
    assert_eq!(server.get("/0").status, 200);
    disk.control().rule(Op::Write, Action::Fail, "");
    disk.control().rule(Op::Create, Action::Fail, "");
    for number in 1..12 {
        assert_eq!(server.get(&format!("/{number}")).body.len(), 100_000);
    }
    is_named(&server, "cache_out", &["pages: The cache is not used, because of its disk: "]);
    disk.control().clear();
}

#[test]
fn a_limit_that_is_too_tight() {
    if !require::freerun() {
        return;
    }
    let zone = "limit_req_zone $binary_remote_addr zone=each:1m rate=1r/m;";
    let server = server(&Site::new(), "location /l { limit_req zone=each; }", zone).freerun();
    for _ in 0..20 {
        server.get("/l");
    }
    is_named(&server, "limit", &["each: The limit has refused "]);
}

#[test]
fn a_late_loop() {
    if !require::freerun() {
        return;
    }
    let server = server(&Site::new(), "location /late { debug_block_loop 60ms; }", "").freerun();
    // On a busy machine, a loop that waits for a processor is not late by its own work.
    eventually("a turn counts as its own", || {
        assert_eq!(server.get("/late").status, 404);
        first_problem(&server)["kind"] == "loop_late"
    });
    is_named(&server, "loop_late", &["loop 0: It was held up ", " ms in \""]);
}

#[test]
fn a_log_that_cannot_be_written() {
    if !require::freerun() {
        return;
    }
    let server = server(&Site::new(), "access_log /dev/full; location /text { return 200 text; }", "").freerun();
    assert_eq!(server.get("/text").text(), "text");
    is_named(&server, "log_fails", &["/dev/full: The file cannot be written (28: No space left on device)"]);
}

#[test]
fn a_name_server_that_lies() {
    if !require::freerun() {
        return;
    }
    let dns = Dns::start();
    dns.set("app.test", DnsReply::Code(3));
    let group = format!(
        "resolver {} valid=1s ipv6=off; upstream app {{ zone app 64k; server app.test:@PORT9@ resolve; }}",
        dns.address()
    );
    let server = server(&Site::new(), "location / { proxy_pass http://app; }", &group).freerun();
    is_named(&server, "name_unresolved", &["app: The name app.test:", " has no address."]);
    // Now it names an address where nobody listens.
    dns.set("app.test", DnsReply::address([127, 0, 0, 1].into(), 1));
    let dead = server.address_number(9);
    eventually("the answer is used", || {
        server.get("/");
        first_problem(&server)["kind"] == "server_out"
    });
    is_named(&server, "server_out", &[&format!("app: app.test:{} ({dead})", dead.port()), "connect"]);
}

#[test]
fn a_calm_server() {
    if !require::freerun() {
        return;
    }
    let server = server(&Site::new(), "location /text { return 200 text; }", "").freerun();
    for _ in 0..20 {
        assert_eq!(server.get("/text").text(), "text");
    }
    // A busy machine may hold up a loop, or a log.
    let status = server.status();
    let problems = status["problems"].as_array().expect("problems");
    assert!(problems.iter().all(|problem| matches!(problem["section"].as_str(), Some("loops" | "logs"))), "{status}");
    assert!(fs::read_to_string(server.path("error.log")).is_ok_and(|log| !log.contains("[alert]")));
}
