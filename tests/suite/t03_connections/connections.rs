//! Connections that wait, and that make room for others.

use freerun_testkit::{ConnectionEnd, Setup, Site, TestClient, eventually, require};
use std::time::Duration;

#[test]
fn silent_connections_make_room() {
    let site = Site::new();
    site.file("a", "file a");
    let server = Setup::server(&site, "").events("worker_connections 20;").run();
    let silent: Vec<TestClient> = (0..60).map(|_| server.connect()).collect();
    // None of them has sent anything; whoever has something to say is let in.
    for _ in 0..5 {
        assert_eq!(server.get("/a").text(), "file a");
    }
    drop(silent);
}

#[test]
fn a_place_that_is_free_again_is_for_every_address() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let http = "server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@; return 200 ok; }";
    let server = Setup::new().root(&site).events("worker_connections 4;").http(http).freerun();
    // All places are taken by requests that do not go on, so that none can be asked to leave.
    let mut stuck: Vec<TestClient> = (0..4).map(|_| server.connect()).collect();
    for client in &mut stuck {
        client.send("GET / HT");
    }
    let mut late = TestClient::connect(server.address_number(2));
    late.set_timeout(Duration::from_secs(20)).send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    server.logs("4 worker_connections are not enough");
    stuck.pop();
    assert_eq!(late.response().text(), "ok");
}

#[test]
fn who_finds_no_room_is_closed() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let http = "server { listen 127.0.0.1:@PORT@; location /status { stub_status; } }";
    for (main, stuck) in [("worker_processes 1;", 4), ("worker_processes 2;", 8)] {
        let server = Setup::new().root(&site).main(main).events("worker_connections 4;").http(http).freerun();
        let mut stuck: Vec<TestClient> = (0..stuck).map(|_| server.connect()).collect();
        for (number, client) in stuck.iter_mut().enumerate() {
            client.send(["GET / HT", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx"][number % 2]);
        }
        let mut late: Vec<TestClient> = (0..3).map(|_| server.connect()).collect();
        for client in &mut late {
            let _ = client.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let (bytes, ending) = client.rest();
            assert!(bytes.is_empty() && ending != ConnectionEnd::Silent, "{main} {ending:?}");
        }
        server.logs("4 worker_connections are not enough");
        stuck.clear();
        // Whoever comes in the moment in which the others are closed, is closed too.
        let mut status = String::new();
        eventually("there is room", || {
            let mut client = server.connect();
            let _ = client.try_send("GET /status HTTP/1.1\r\nHost: h\r\n\r\n");
            status = client.try_response("GET").map_or(String::new(), |answer| answer.text());
            !status.is_empty()
        });
        let counts: Vec<u64> = status.lines().nth(2).expect("counts").split_whitespace().flat_map(str::parse).collect();
        assert!(counts[0] >= counts[1] + 3, "accepted, but not handled: {status}");
    }
}

#[test]
fn a_request_that_ends_makes_room_although_its_connection_stays() {
    if !require::freerun() {
        return;
    }
    // More than socket buffers take (4 MB by default), and soon read.
    const BIG: usize = 5_000_000;
    let site = Site::new();
    site.file("big", vec![b'x'; BIG]);
    let lines = "keepalive_timeout 1h; location /ok { return 200 ok; }";
    let server = Setup::server(&site, lines).events("worker_connections 2;").freerun();
    let mut busy: Vec<TestClient> = (0..2)
        .map(|_| {
            let mut client = TestClient::try_connect_narrow(server.address(), 65_536).expect("connecting");
            client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
            client
        })
        .collect();
    let mut late = server.connect();
    late.send("GET /ok HTTP/1.1\r\nHost: h\r\n\r\n");
    server.logs("2 worker_connections are not enough");
    assert_eq!(busy[0].response().body.len(), BIG);
    assert_eq!(late.response().text(), "ok", "who waits is let in, and who is idle goes");
    assert_eq!(busy[0].ending(), ConnectionEnd::Closed);
    assert_eq!(busy[1].response().body.len(), BIG);
}

#[test]
fn a_pipeline_without_end_leaves_others_their_turn() {
    let site = Site::new();
    let lines = "location / { return 200 ok; }";
    let server = Setup::server(&site, lines).http("keepalive_requests 1000000000;").run();
    let address = server.address();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let greedy = std::thread::spawn(move || {
        let requests = "GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(500);
        let mut client = TestClient::connect(address);
        let mut served = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            client.send(&requests);
            for _ in 0..500 {
                assert_eq!(client.response().text(), "ok");
            }
            served += 500;
        }
        served
    });
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "ok");
    }
    drop(stop);
    assert!(greedy.join().expect("the pipeline") > 0);
}

#[test]
fn a_body_that_trickles_in_ends_with_lingering_time() {
    let site = Site::new();
    let lines = "lingering_time 1s; keepalive_timeout 1h; location / { return 200 ok; }";
    let server = Setup::server(&site, lines).run();
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx");
    assert_eq!(client.response().text(), "ok");
    // Each byte comes soon after the one before, so that only the time of all of them can run out.
    let refused = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        client.try_send("x").is_err()
    });
    assert!(refused, "the connection is closed");
}

#[test]
fn what_comes_after_the_last_request_does_not_cut_the_response() {
    // More than socket buffers take (4 MB by default): the response must still be on its way when the two bytes come.
    const BIG: usize = 5_000_000;
    let site = Site::new();
    site.file("big", vec![b'x'; BIG]);
    let server = Setup::server(&site, "").run();
    let mut client = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    client.send("GET /big HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").at_least(1);
    // As some clients end a body that was complete already.
    client.send("\r\n");
    assert_eq!(client.response().body.len(), BIG);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
}

#[test]
fn line_ends_behind_a_body_are_no_request() {
    // nginx waits for the rest of a request.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let lines = "keepalive_timeout 1h; client_header_timeout 1h; location / { return 200 ok; }";
    let mut server = Setup::server(&site, lines).freerun();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi\r\n");
        assert_eq!(client.response().text(), "ok");
    }
    // An idle connection is closed; one with a part of a request is waited for.
    server.signal(rustix::process::Signal::QUIT);
    assert_eq!(client.ending(), ConnectionEnd::Closed);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn an_idle_connection_has_its_least_time() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let lines = "keepalive_timeout 1h; location / { return 200 ok; }
        location /long { keepalive_min_timeout 1h; return 200 long; }
        location /short { keepalive_min_timeout 1s; return 200 short; }";
    let mut server = Setup::server(&site, lines).events("worker_connections 3;").freerun();
    let [long, mut none, mut short] = ["/long", "/", "/short"].map(|path| {
        let mut client = server.connect();
        client.get(path);
        client
    });
    // There is room for one more, where nothing speaks for who is there.
    let mut other = server.connect();
    assert_eq!(other.get("/long").text(), "long");
    assert_eq!(none.ending(), ConnectionEnd::Closed);
    let mut last = server.connect();
    assert_eq!(last.get("/").text(), "ok", "its time is up");
    assert_eq!(short.ending(), ConnectionEnd::Closed);
    server.signal(rustix::process::Signal::QUIT);
    server.logs("gracefully shutting down");
    assert_eq!(last.ending(), ConnectionEnd::Closed);
    for mut client in [long, other] {
        let answer = client.get("/long");
        assert_eq!(answer.text(), "long");
        assert_eq!(answer.header("Connection"), Some("close"));
        assert_eq!(client.ending(), ConnectionEnd::Closed);
    }
    assert_eq!(server.wait().code(), Some(0));
}
