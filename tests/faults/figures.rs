//! What the status says while a disk hangs.

use crate::Disk;
use freerun_testkit::fuse::Op;
use freerun_testkit::{Setup, TestClient, TestServer, eventually, require};
use serde_json::Value;
use std::time::Duration;

const LINES: &str = "location = /status { status; } location /slow/ { aio threads=small; }";
const MAIN: &str = "thread_pool small threads=4 max_queue=20;";

/// What `/status` says of the pool `small`.
pub(crate) fn pool(server: &TestServer) -> Value {
    let status = server.status();
    let pools = status["pools"].as_array().expect("pools");
    pools.iter().find(|pool| pool["name"] == "small").expect("the pool").clone()
}

#[test]
fn tasks_that_run_wait_and_leave() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, LINES).main(MAIN).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut clients: Vec<TestClient> = (0..12)
        .map(|number| {
            let mut client = server.connect();
            client.send(format!("GET /slow/f{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
            client
        })
        .collect();
    eventually("all are in the pool", || {
        let pool = pool(&server);
        let count = |name: &str| pool[name].as_u64().expect("a number");
        count("active") >= 1 && count("active") <= 4 && count("active") + count("waiting") == 12
    });
    let active = pool(&server)["active"].as_u64().expect("a number");
    for client in clients.drain(8..) {
        client.reset();
    }
    // Which of them ran is not known; those that waited are taken out at once.
    let left_waiting = 4 - active.min(4);
    eventually("those who left are forgotten", || pool(&server)["cancelled"].as_u64() >= Some(left_waiting));
    assert!(pool(&server)["waiting"].as_u64() <= Some(8));
    disk.fixture.control().clear();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    eventually("nothing is left", || {
        let pool = pool(&server);
        pool["active"] == 0 && pool["waiting"] == 0 && pool["served"].as_u64() >= Some(8) && pool["refused"] == 0
    });
}

#[test]
fn a_pool_keeps_its_figures_and_tasks_over_a_reload() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server =
        Setup::server(&disk.site, &format!("{LINES} location = /v {{ return 200 one; }}")).main(MAIN).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut client = server.connect();
    client.send("GET /slow/f0 HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("a task runs", || pool(&server)["active"] == 1);
    server.edit("return 200 one", "return 200 two");
    server.edit("threads=4 max_queue=20", "threads=6 max_queue=30");
    server.reload();
    eventually("the new configuration", || server.get("/v").text() == "two");
    let now = pool(&server);
    assert_eq!(
        (now["active"].as_u64(), now["limit"].as_u64(), now["max_queue"].as_u64()),
        (Some(1), Some(6), Some(30))
    );
    disk.fixture.control().clear();
    assert_eq!(client.response().status, 200);
}

#[test]
fn no_loop_stalls_on_a_slow_mount() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let server = Setup::server(&disk.site, "location = /status { status; }").freerun();
    for (round, op) in [Op::Lookup, Op::Getattr, Op::Open, Op::Read].into_iter().enumerate() {
        disk.fixture.control().clear();
        disk.fixture.control().delay(op, Duration::from_secs(2), "");
        let mut clients: Vec<TestClient> = (0..8)
            .map(|number| {
                let mut client = server.connect();
                client.send(format!("GET /slow/f{} HTTP/1.1\r\nHost: h\r\n\r\n", round * 8 + number));
                client
            })
            .collect();
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
    }
    let status = server.status();
    // A loaded machine can take a loop off its processor for a while, but not for as long as any of those operations took.
    let longest = status["loops"][0]["polls"]["max_us"].as_u64().expect("a number");
    assert!(longest < 1_900_000, "a poll took {longest} us");
}

/// For how long nothing has ended on the slow disk, in microseconds, as `status` says.
fn stuck(server: &TestServer) -> u64 {
    let status = server.status();
    let mounts = status["mounts"].as_array().expect("mounts");
    let slow = mounts.iter().find(|mount| mount["mount"].as_str().is_some_and(|point| point.ends_with("/slow")));
    slow.map_or(0, |mount| mount["stuck_us"].as_u64().expect("a number"))
}

#[test]
fn the_disk_that_hangs_is_named() {
    if !require::fuse() {
        return;
    }
    for op in [Op::Lookup, Op::Getattr, Op::Open, Op::Read] {
        let disk = Disk::new();
        let server = Setup::server(&disk.site, "location = /status { status; }").freerun();
        disk.fixture.control().hang(op, "");
        let mut client = server.connect();
        client.send("GET /slow/f1 HTTP/1.1\r\nHost: h\r\n\r\n");
        eventually("it is known that the disk hangs", || stuck(&server) > 0);
        disk.fixture.control().clear();
        assert_eq!(client.response().status, 200, "{op:?}");
        eventually("it is known that the disk is well", || stuck(&server) == 0);
    }
}
