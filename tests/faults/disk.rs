//! A disk that hangs, is slow, or answers EIO.

use crate::{BIG, Disk, descriptors, goes_on};
use freerun_testkit::fuse::{Fixture, Op};
use freerun_testkit::{Setup, TestClient, eventually, require};
use rustix::process::Signal;
use std::time::Duration;

const TEXT: &str = "location = /text { return 200 text; }";

/// Each operation that can hang, through each way in that meets it.
#[test]
fn hanging_operations_leave_the_rest_alone() {
    if !require::fuse() {
        return;
    }
    for (op, ways) in [
        (Op::Open, ["", "try_files $uri =404;", "sendfile on;", "aio threads;"]),
        (Op::Lookup, ["", "try_files $uri $uri/ =404;", "sendfile on;", "aio threads;"]),
        (Op::Getattr, ["", "try_files $uri =404;", "sendfile on;", "aio threads;"]),
        (Op::Read, ["", "sendfile on;", "sendfile off;", "aio threads;"]),
    ] {
        for way in ways {
            let disk = Disk::new();
            let server = Setup::server(&disk.site, &format!("{TEXT} {way}")).freerun();
            disk.fixture.control().hang(op, "");
            let mut stuck: Vec<TestClient> = (0..40).map(|_| server.connect()).collect();
            for (number, client) in stuck.iter_mut().enumerate() {
                client.send(format!("GET /slow/f{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
            }
            eventually("operations hang", || disk.fixture.control().waiting() > 0);
            goes_on(&server);
            assert!(disk.fixture.control().waiting() > 0, "{op:?} {way}: it still hangs");
            disk.fixture.control().clear();
            for (number, client) in stuck.iter_mut().enumerate() {
                let response = client.response();
                assert_eq!(response.status, 200, "{op:?} {way}");
                assert!(response.body == Fixture::content(&format!("f{number}"), 0, 10_000), "{op:?} {way}");
            }
            // Nothing of it is remembered once the disk is well again.
            assert!(server.get("/slow/f1").body == Fixture::content("f1", 0, 10_000));
        }
    }
}

#[test]
fn folders_and_misses_on_a_hanging_disk() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, TEXT).freerun();
    for (target, status) in [("/slow/d/", 200), ("/slow/d", 301), ("/slow/none", 404), ("/slow/", 403)] {
        disk.fixture.control().hang(Op::Lookup, "");
        disk.fixture.control().hang(Op::Getattr, "");
        disk.fixture.control().hang(Op::Open, "");
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        eventually("an operation hangs", || disk.fixture.control().waiting() > 0);
        goes_on(&server);
        disk.fixture.control().clear();
        assert_eq!(client.response().status, status, "{target}");
    }
}

#[test]
fn file_tests_of_scripts_on_a_hanging_disk() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let script = "location /if { if (-f $document_root/slow/$arg_f) { return 200 file; } if (-d $document_root/slow/d) \
                  { return 200 folder; } return 200 neither; }";
    let server = Setup::server(&disk.site, &format!("{TEXT} {script}")).freerun();
    for (target, answer) in [("/if?f=f1", "file"), ("/if?f=none", "folder"), ("/if?f=d", "folder")] {
        disk.fixture.control().hang(Op::Lookup, "");
        disk.fixture.control().hang(Op::Getattr, "");
        disk.fixture.control().hang(Op::Open, "");
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        eventually("an operation hangs", || disk.fixture.control().waiting() > 0);
        goes_on(&server);
        disk.fixture.control().clear();
        assert_eq!(client.response().text(), answer, "{target}");
    }
}

#[test]
fn slow_operations_are_waited_for() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, TEXT).freerun();
    for op in [Op::Lookup, Op::Getattr, Op::Open, Op::Read] {
        disk.fixture.control().delay(op, Duration::from_millis(20), "");
    }
    let mut clients: Vec<TestClient> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /slow/big HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    goes_on(&server);
    for client in &mut clients {
        assert!(client.response().body == Fixture::content("big", 0, BIG as usize));
    }
}

#[test]
fn a_failing_open_is_a_logged_error() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, TEXT).freerun();
    disk.fixture.command("fail open f").expect("a rule");
    assert_eq!(server.get("/slow/f0").status, 500);
    server.logs("failed (5: Input/output error)");
    goes_on(&server);
    disk.fixture.control().clear();
    assert_eq!(server.get("/slow/f0").status, 200);
}

#[test]
fn a_failing_read_cuts_the_response_short() {
    if !require::fuse() {
        return;
    }
    for way in ["", "sendfile on;", "sendfile off;", "aio threads;"] {
        let disk = Disk::new();
        let server = Setup::server(&disk.site, &format!("{TEXT} {way}")).freerun();
        disk.fixture.control().fail_after(2_000_000, "big");
        let mut client = server.connect();
        client.send("GET /slow/big HTTP/1.1\r\nHost: h\r\n\r\n");
        let (bytes, _) = client.rest();
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
        let body = &bytes[head..];
        assert!(body.len() <= 2_000_000, "{way}: never padded: {} bytes", body.len());
        assert!(body == Fixture::content("big", 0, body.len()), "{way}: what came is right");
        server.logs("(5: Input/output error)");
        goes_on(&server);
        // Before anything is sent it may be an answer of its own, or the end of the connection.
        disk.fixture.control().clear();
        disk.fixture.control().fail_after(0, "f5");
        let mut client = server.connect();
        client.send("GET /slow/f5 HTTP/1.1\r\nHost: h\r\n\r\n");
        let (bytes, _) = client.half_close().rest();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("\0\0\0\0"), "{way}: never padded");
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 500") || text.ends_with("\r\n\r\n"),
            "{way}: {text:.200}"
        );
    }
}

#[test]
fn clients_that_leave_a_hanging_disk_leave_nothing_behind() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, TEXT).freerun();
    goes_on(&server);
    let worker = server.worker();
    let before = descriptors(worker);
    disk.fixture.control().hang(Op::Read, "");
    let mut clients: Vec<TestClient> = (0..60).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /slow/f{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    eventually("reads hang", || disk.fixture.control().waiting() > 0);
    clients.into_iter().for_each(TestClient::reset);
    goes_on(&server);
    disk.fixture.control().clear();
    eventually("descriptors are closed", || descriptors(worker) <= before + 2);
}

#[test]
fn a_reload_does_not_wait_for_the_disk() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, &format!("{TEXT} location /v {{ return 200 one; }}")).freerun();
    disk.fixture.control().hang(Op::Read, "");
    let mut stuck = server.connect();
    stuck.send("GET /slow/f7 HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("a read hangs", || disk.fixture.control().waiting() > 0);
    server.edit("return 200 one", "return 200 two");
    server.reload();
    eventually("the new configuration", || server.get("/v").text() == "two");
    disk.fixture.control().clear();
    assert!(stuck.response().body == Fixture::content("f7", 0, 10_000));
}

#[test]
fn quit_waits_for_the_disk_and_ends() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let mut server = Setup::server(&disk.site, TEXT).freerun();
    disk.fixture.control().hang(Op::Read, "");
    let mut stuck = server.connect();
    stuck.send("GET /slow/f7 HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("a read hangs", || disk.fixture.control().waiting() > 0);
    server.signal(Signal::QUIT);
    eventually("no more connections", || TestClient::try_connect(server.address()).is_err());
    disk.fixture.control().clear();
    assert!(stuck.response().body == Fixture::content("f7", 0, 10_000));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_reader_of_ranges_on_a_direct_mount() {
    // No page cache at all: every probe says no, and everything still works.
    if !require::fuse() {
        return;
    }
    let site = freerun_testkit::Site::new();
    site.folder("slow");
    let fixture = Fixture::mount(&site.at("slow"), true).expect("mounting");
    fixture.file("big", BIG);
    for way in ["", "sendfile on;", "sendfile off;", "aio threads;", "sendfile on; aio threads;"] {
        let server = Setup::server(&site, way).freerun();
        assert!(server.get("/slow/big").body == Fixture::content("big", 0, BIG as usize), "{way}");
        let part = server.get_with("/slow/big", "Range: bytes=1000000-2999999\r\n");
        assert!(part.body == Fixture::content("big", 1_000_000, 2_000_000), "{way}");
    }
}

/// The kernel lets no thread go that waits for a disk, so the process lives on. Clients are refused all the same, and another
/// server can listen.
#[test]
fn a_server_that_is_told_to_end_closes_its_sockets_though_the_disk_hangs() {
    if !require::fuse() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let disk = Disk::new();
        let mut server = Setup::server(&disk.site, TEXT).main("worker_processes 2;").freerun();
        // Not even KILL ends a thread that waits for this.
        disk.fixture.control().hang(Op::Open, "");
        let mut stuck = server.connect();
        stuck.send("GET /slow/f1 HTTP/1.1\r\nHost: h\r\n\r\n");
        eventually("an operation hangs", || disk.fixture.control().waiting() > 0);
        server.signal(signal);
        eventually("connections are refused", || std::net::TcpStream::connect(server.address()).is_err());
        eventually("another server can listen", || std::net::TcpListener::bind(server.address()).is_ok());
        assert!(disk.fixture.control().waiting() > 0, "{signal:?}: it still hangs");
        disk.fixture.control().clear();
        server.wait();
    }
}
