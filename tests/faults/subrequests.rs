//! Subrequests to a disk that hangs.

use crate::{Disk, goes_on};
use freerun_testkit::fuse::{Fixture, Op};
use freerun_testkit::{Setup, eventually, require};
use rustix::process::Signal;

const LINES: &str = "location = /text { return 200 text; }
    location = /pages { default_type text/html; types {} ssi on; return 200 'a<!--# include virtual=\"/slow/f1\" -->b<!--# include virtual=\"/slow/f2\" -->c'; }
    location = /asks { auth_request /slow/f3; return_ }
    location = /copies { mirror /slow/f4; try_files /fast =404; }
    location /slow/ { types {} default_type text/html; log_subrequest on; }";

fn lines() -> String {
    LINES.replace("return_", "alias @ROOT@/fast;")
}

#[test]
fn includes_wait_together_and_come_in_order() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, &lines()).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut client = server.connect();
    client.send("GET /pages HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("both are being opened", || disk.fixture.control().waiting() == 2);
    goes_on(&server);
    disk.fixture.control().clear();
    let file = |name| Fixture::content(name, 0, 10_000);
    assert!(client.response().body == [b"a", &file("f1")[..], b"b", &file("f2"), b"c"].concat());
}

#[test]
fn a_graceful_end_waits_for_mirrored_requests() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let mut server = Setup::server(&disk.site, &lines()).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let request = "GET /copies HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(server.send(request).text(), "fast file");
    eventually("it hangs", || disk.fixture.control().waiting() > 0);
    server.signal(Signal::QUIT);
    server.logs("gracefully shutting down");
    // Others that nobody waits for come to their end meanwhile, one after the other.
    for _ in 0..3 {
        let mut other = Setup::server(&disk.site, &lines()).freerun();
        assert_eq!(other.send(request.replace("copies", "fast")).text(), "fast file");
        other.signal(Signal::QUIT);
        other.wait();
    }
    assert!(server.runs());
    assert_eq!(server.access_lines(1).len(), 1);
    disk.fixture.control().clear();
    server.wait();
    // The client's, and that of the copy.
    assert_eq!(server.access_log().lines().count(), 2);
}

#[test]
fn a_mirrored_request_that_hangs_keeps_nobody_waiting() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, &lines()).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/copies").text(), "fast file");
    }
    eventually("they hang", || disk.fixture.control().waiting() > 0);
    // The end of the connection does not wait for them either.
    client.send("GET /copies HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().text(), "fast file");
    assert!(client.is_closed());
    assert!(disk.fixture.control().waiting() > 0);
    goes_on(&server);
    disk.fixture.control().clear();
    eventually("they end", || {
        let lines = server.access_log();
        lines.lines().filter(|line| line.contains("\"GET /copies HTTP/1.1\" 200 0 ")).count() == 4
    });
}

#[test]
fn a_client_that_goes_takes_its_subrequests_with_it() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, &lines()).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut asking = server.connect();
    asking.send("GET /asks HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("it hangs", || disk.fixture.control().waiting() == 1);
    asking.reset();
    eventually("the request is over", || server.access_log().contains("\"GET /asks HTTP/1.1\" 499 "));
    assert_eq!(disk.fixture.control().waiting(), 1, "the disk still hangs");
    goes_on(&server);
    disk.fixture.control().clear();
    assert_eq!(server.get("/asks").text(), "fast file");
}

#[test]
fn a_mirrored_request_whose_client_went_away_still_waits_for_its_thread() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let lines = lines()
        + "location = /slow/f4 { aio threads=small; log_subrequest on; } location = /slow/f1 { aio threads=small; }";
    let server = Setup::server(&disk.site, &lines).main("thread_pool small threads=1;").freerun();
    disk.fixture.control().hang(Op::Open, "");
    // The pool's one thread hangs, so the copy's work waits in the queue.
    let mut first = server.connect();
    first.send("GET /slow/f1 HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("it hangs", || disk.fixture.control().waiting() == 1);
    assert_eq!(server.send("GET /copies HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").text(), "fast file");
    // When a client that ended its side later is given up, the one of the copy would have been, too.
    let mut other = server.connect();
    other.send("GET /slow/f1 HTTP/1.1\r\nHost: h\r\n\r\n").half_close();
    eventually("the other one is given up", || server.access_log().contains("\"GET /slow/f1 HTTP/1.1\" 499 "));
    disk.fixture.control().clear();
    assert_eq!(first.response().status, 200);
    let copy = |status: &str| server.access_log().contains(&format!("\"GET /copies HTTP/1.1\" {status} 0 "));
    eventually("the copy ends", || copy("200") || copy("499"));
    assert!(copy("200"), "{}", server.access_log());
}
