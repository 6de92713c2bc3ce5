//! Thread pools under pressure: full queues, fairness, clients that leave.

use crate::figures::pool;
use crate::{Disk, goes_on};
use freerun_testkit::fuse::{Fixture, Op};
use freerun_testkit::{Setup, Site, TestClient, eventually, require};

const LINES: &str = "location = /text { return 200 text; } location = /status { status; }
    location /slow/ { aio threads=small; } location = /slow/f199 { aio threads=other; }";

fn ask(server: &freerun_testkit::TestServer, number: usize) -> TestClient {
    let mut client = server.connect();
    client.send(format!("GET /slow/f{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client
}

#[test]
fn a_full_queue_refuses() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let main = "thread_pool small threads=1 max_queue=2; thread_pool other threads=1;";
    let server = Setup::server(&disk.site, LINES).main(main).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut running = ask(&server, 0);
    eventually("the only thread is busy", || disk.fixture.control().waiting() == 1);
    let mut waiting: Vec<TestClient> = (1..3).map(|number| ask(&server, number)).collect();
    eventually("the queue is full", || pool(&server)["waiting"] == 2);
    assert_eq!(ask(&server, 3).response().status, 503);
    server.logs("thread pool \"small\" queue overflow: 2 tasks waiting");
    goes_on(&server);
    disk.fixture.control().clear();
    assert_eq!(running.response().status, 200);
    for client in &mut waiting {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(server.get("/slow/f4").status, 200);
}

#[test]
fn without_a_queue_only_threads_count() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let main = "thread_pool small threads=1 max_queue=0; thread_pool other threads=1;";
    let server = Setup::server(&disk.site, LINES).main(main).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut busy = ask(&server, 0);
    eventually("the only thread is busy", || disk.fixture.control().waiting() == 1);
    assert_eq!(ask(&server, 3).response().status, 503);
    disk.fixture.control().clear();
    assert_eq!(busy.response().status, 200);
}

#[test]
fn one_pool_s_trouble_is_not_another_s() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let main = "thread_pool small threads=2; thread_pool other threads=2;";
    let server = Setup::server(&disk.site, LINES).main(main).freerun();
    disk.fixture.control().hang(Op::Read, "f1");
    // f199 goes through the other pool and must not hang.
    disk.fixture.command("delay read 0 f199").expect("a rule");
    let mut stuck: Vec<TestClient> = (10..20).map(|number| ask(&server, number)).collect();
    eventually("reads hang", || disk.fixture.control().waiting() > 0);
    for _ in 0..5 {
        assert!(server.get("/slow/f199").body == Fixture::content("f199", 0, 10_000));
    }
    goes_on(&server);
    disk.fixture.control().clear();
    for (number, client) in (10..20).zip(&mut stuck) {
        assert!(client.response().body == Fixture::content(&format!("f{number}"), 0, 10_000));
    }
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let main = "thread_pool small threads=1 max_queue=3; thread_pool other threads=1;";
    let server = Setup::server(&disk.site, LINES).main(main).freerun();
    let opens = disk.fixture.control().count(Op::Open);
    disk.fixture.control().hang(Op::Open, "");
    let mut running = ask(&server, 0);
    eventually("the only thread is busy", || disk.fixture.control().waiting() == 1);
    for round in 0..5 {
        // Each round fills the queue; were places not freed, the second would be refused.
        let clients: Vec<TestClient> = (0..3).map(|number| ask(&server, 10 + round * 3 + number)).collect();
        eventually("the queue is full", || pool(&server)["waiting"] == 3);
        clients.into_iter().for_each(TestClient::reset);
        eventually("their places are free", || pool(&server)["waiting"] == 0);
    }
    assert_eq!(pool(&server)["refused"], 0);
    disk.fixture.control().clear();
    assert_eq!(running.response().status, 200);
    assert_eq!(server.get("/slow/f150").status, 200);
    let opened = disk.fixture.control().count(Op::Open) - opens;
    assert_eq!(opened, 2, "the tasks of those who left were not run");
}

/// Everything hops here, also what another disk holds.
fn hanging_mount(stuck_from: [u8; 4]) {
    let disk = Disk::new();
    let lines = "location = /text { return 200 text; } aio threads=few always;";
    let server = Setup::server(&disk.site, lines).main("thread_pool few threads=4;").freerun();
    disk.fixture.control().hang(Op::Read, "");
    let mut stuck: Vec<TestClient> = Vec::new();
    for number in 0..50 {
        let mut client = TestClient::try_connect_from(stuck_from.into(), server.address()).expect("connecting");
        client.send(format!("GET /slow/f{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
        stuck.push(client);
    }
    eventually("reads hang", || disk.fixture.control().waiting() > 0);
    goes_on(&server);
    disk.fixture.control().clear();
    for (number, client) in stuck.iter_mut().enumerate() {
        assert!(client.response().body == Fixture::content(&format!("f{number}"), 0, 10_000));
    }
}

#[test]
fn a_hanging_mount_does_not_take_the_whole_pool() {
    if require::fuse() {
        hanging_mount([127, 0, 0, 2]);
    }
}

#[test]
fn a_hanging_mount_does_not_take_the_whole_pool_from_its_own_client() {
    // Behind a proxy all clients have one address.
    if require::fuse() {
        hanging_mount([127, 0, 0, 1]);
    }
}

#[test]
fn pool_names_with_variables() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let lines = "location = /text { return 200 text; } location /slow/ { aio threads=pool_$arg_p; }";
    let server = Setup::server(&disk.site, lines).main("thread_pool pool_a threads=1;").freerun();
    assert_eq!(server.get("/slow/f0?p=a").status, 200);
    assert_eq!(server.get("/slow/f1?p=b").status, 500);
    server.logs("thread pool \"pool_b\" not found");
}

#[test]
fn a_pool_that_is_not_there_is_found_out_for_a_hot_file_too() {
    let site = Site::new();
    // Too large for its content to be kept: it is sent from the open file.
    site.file("large", vec![b'x'; 200_000]);
    let lines = "location / { aio threads=pool_$arg_p; }";
    let server = Setup::server(&site, lines).main("thread_pool pool_a threads=1;").freerun();
    for (query, status) in [("a", 200), ("b", 500), ("a", 200)] {
        assert_eq!(server.get(&format!("/large?p={query}")).status, status, "pool_{query}");
    }
}
