//! Logs on a disk that hangs.

use crate::{Disk, goes_on};
use freerun_testkit::fuse::Op;
use freerun_testkit::{Setup, TestServer, eventually, require};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::fd::OwnedFd;

/// What `status` says of the log on the disk, and of the threads.
fn status(server: &TestServer) -> (Value, Value) {
    let status = server.status();
    let logs = status["logs"].as_array().expect("logs");
    let log = logs.iter().find(|log| log["name"].as_str().is_some_and(|name| name.ends_with("slow/log")));
    (log.expect("the log").clone(), status["log_threads"].clone())
}

#[test]
fn one_that_hangs_leaves_the_others_alone() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    disk.fixture.file("log", 0);
    let http = "log_format line '$request_uri';
        server { listen 127.0.0.1:@PORT@; root @ROOT@; access_log @DIR@/other.log line; access_log @ROOT@/slow/log line;
            location = /text { return 200 text; } location = /status { status; access_log off; } }";
    let server = Setup::new().root(&disk.site).http(http).freerun();
    let log = |text: &str| String::from_utf8_lossy(&disk.fixture.tree().written("log")).contains(text);
    let other = |text: &str| fs::read_to_string(server.path("other.log")).is_ok_and(|lines| lines.contains(text));
    server.get("/fast?before");
    eventually("both logs are written", || log("/fast?before") && other("/fast?before"));

    disk.fixture.control().hang(Op::Write, "log");
    server.get("/fast?hangs");
    eventually("a write hangs", || disk.fixture.control().waiting() == 1);
    goes_on(&server);
    for number in 0..3 {
        server.get(&format!("/fast?{number}"));
        eventually("the other log is written", || other(&format!("/fast?{number}\n")));
    }
    server.logs("slow/log\" takes long, other logs go on");
    // On a busy machine one more may have been late, which ends then.
    eventually("one is held up, one writes, one stands by", || status(&server).1["now"] == 3);
    let (held, threads) = status(&server);
    assert_eq!((&held["held_up"], &threads["limit"]), (&true.into(), &8.into()));
    assert!(held["waiting_bytes"].as_u64() > Some(0));
    assert_eq!(disk.fixture.control().waiting(), 1, "nobody else tries");
    assert!(!log("/fast?hangs"));

    disk.fixture.control().clear();
    eventually("what waited is written", || log("/fast?hangs\n") && log("/fast?2\n"));
    eventually("the thread is back", || {
        let (held, threads) = status(&server);
        held["held_up"] == false && held["waiting_bytes"] == 0 && threads["now"] == 2
    });
    let text = String::from_utf8(disk.fixture.tree().written("log")).expect("text");
    let kept = fs::read_to_string(server.path("other.log")).expect("the other log");
    assert_eq!(text, kept, "no line is lost, and none moved");
}

/// Fills a pipe to the last byte.
fn fill(pipe: &OwnedFd) {
    // Of the test alone: to the server, which opens it anew, it is one that waits.
    rustix::fs::fcntl_setfl(pipe, rustix::fs::OFlags::NONBLOCK).expect("a pipe that does not wait");
    for size in [4096, 1] {
        while rustix::io::write(pipe, &vec![b'x'; size]).is_ok() {}
    }
}

/// As with a container whose log driver is stuck: the server hears its signals though nobody reads what it logs.
#[test]
fn a_pipe_that_nobody_reads_keeps_nobody_from_ending() {
    for (signal, from_the_start) in
        [Signal::TERM, Signal::QUIT].into_iter().flat_map(|signal| [(signal, true), (signal, false)])
    {
        let (_reader, end) = std::io::pipe().expect("a pipe");
        let stderr: OwnedFd = end.into();
        if from_the_start {
            fill(&stderr);
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&stderr));
        let log = format!("user root; error_log {path} info;");
        let http =
            format!("server {{ listen 127.0.0.1:@PORT@; access_log {path}; location = /text {{ return 200 text; }} }}");
        let mut server = Setup::new().main(&log).http(&http).freerun();
        fill(&stderr);
        for _ in 0..20 {
            assert_eq!(server.get("/text").text(), "text");
        }
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
    }
}
