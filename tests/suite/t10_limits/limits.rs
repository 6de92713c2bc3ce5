//! Limits of requests and connections: waiting, clients that go away, reloads.

use freerun_testkit::{Setup, Site, TestClient, TestUpstream, eventually, ok, require};

/// A file that takes a client that reads nothing for ever.
fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a").file("big", vec![b'x'; 30_000_000]);
    site
}

const GET_A: &str = "GET /a?k=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn requests_within_the_burst_wait_for_their_turn() {
    let site = site();
    // One in three seconds: all of them come within the first.
    let setup = Setup::server(&site, "limit_req zone=a burst=1;").http("limit_req_zone $arg_k zone=a:1m rate=20r/m;");
    let server = setup.run();
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(GET_A);
    }
    let mut statuses: Vec<u16> = clients.iter_mut().map(|client| client.response().status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 503]);
    server.logs("delaying request, excess: ");
    server.logs("limiting requests, excess: ");
}

#[test]
fn a_client_that_is_gone_does_not_wait() {
    let site = site();
    let setup = Setup::server(&site, "limit_req zone=a burst=2;").http(
        "limit_req_zone $arg_k zone=a:1m rate=1r/m; log_format f '$status $limit_req_status'; access_log @DIR@/f f;",
    );
    let server = setup.run();
    assert_eq!(server.get("/a?k=1").status, 200);
    let mut client = server.connect();
    client.send(GET_A);
    server.logs("delaying request, excess: ");
    drop(client);
    let log = server.path("f");
    eventually("the line of a request that was given up", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("499 DELAYED"))
    });
}

#[test]
fn a_connection_counts_until_its_request_ends() {
    let site = site();
    let setup = Setup::server(&site, "location /big { limit_conn c 1; } location /a { limit_conn c 1; }")
        .http("limit_conn_zone $arg_k zone=c:1m;");
    let server = setup.run();
    let get = |path: &str| server.get(path).status;
    for _ in 0..3 {
        // The client reads nothing, so the response does not end before the client goes.
        let mut slow = server.connect();
        slow.send("GET /big?k=1 HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
        assert_eq!((get("/a?k=1"), get("/a?k=2"), get("/a")), (503, 200, 200));
        drop(slow);
        eventually("its place becomes free", || get("/a?k=1") == 200);
    }
    server.logs("limiting connections by zone \"c\"");
}

/// Who loads a page again before it has come: the place of the request that was given up is free for the next one.
#[test]
fn the_place_of_a_client_that_has_just_gone_is_free() {
    let upstream = TestUpstream::new();
    let lines = format!("location / {{ limit_conn c 1; proxy_pass http://{}; }}", upstream.address());
    let server = Setup::server(&Site::new(), &lines).http("limit_conn_zone $server_name zone=c:1m;").run();
    for round in 0..100 {
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut peer = upstream.accept();
        peer.request();
        if round % 10 == 0 {
            // The place is taken as long as the client is there.
            assert_eq!(server.get("/").status, 503, "{round}");
        }
        drop(client);
        let mut next = server.connect();
        next.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut peer = upstream.accept();
        peer.request();
        peer.send(ok("in"));
        assert_eq!(next.response().text(), "in", "{round}");
    }
}

/// A client that has the end of a response is let in again at once, on whatever loop it comes.
#[test]
fn a_place_is_free_before_the_end_of_the_response_is_seen() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/proxied/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec(),
        _ => ok("x".repeat(200_000)),
    });
    let site = Site::new();
    for (name, size) in [("small", 100), ("middle", 100_000), ("large", 3_000_000)] {
        site.file(name, vec![b'x'; size]);
    }
    let lines = format!(
        "limit_conn c 1; limit_conn_log_level info; keepalive_requests 100000;
         location /return {{ return 200 text; }}
         location /nothing {{ return 204; }}
         location /compressed {{ alias @ROOT@/middle; gzip on; gzip_types *; }}
         location /proxied/ {{ proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = Setup::server(&site, &lines)
        .main("worker_processes 4;")
        .http("limit_conn_zone $server_name zone=c:1m;")
        .freerun();
    let mut clients: Vec<TestClient> = (0..8).map(|_| server.connect()).collect();
    let paths = [
        "/return",
        "/nothing",
        "/small",
        "/middle",
        "/large",
        "/compressed",
        "/proxied/length",
        "/proxied/chunked",
        "/none",
    ];
    for round in 0..30 {
        for (number, path) in paths.iter().enumerate() {
            let client = &mut clients[(round + number) % 8];
            client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"));
            let status = client.response().status;
            assert!(matches!(status, 200 | 204 | 404), "{path} in round {round}: {status}");
        }
        // The end of the connection is the end of the response.
        let mut last = server.connect();
        last.send("GET /proxied/chunked HTTP/1.0\r\n\r\n");
        assert!(last.rest().0.ends_with(b"abc"), "in round {round}");
    }
}

/// A browser that stops or reloads a page ends its connection, which its server may notice long before the response does.
/// A client that ends only its own side gets its answer all the same.
#[test]
fn a_place_is_free_when_the_client_ends_its_side() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "limit_conn c 1;
         location /waits {{ proxy_ignore_client_abort on; proxy_buffering off; proxy_pass http://{}; }}
         location /a {{ }}",
        upstream.address()
    );
    let site = site();
    let server = Setup::server(&site, &lines).http("limit_conn_zone $server_name zone=c:1m;").freerun();
    let mut waits = server.connect();
    waits.send("GET /waits HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut peer = upstream.accept();
    peer.request();
    assert_eq!(server.get("/a").status, 503);
    waits.half_close();
    eventually("its place becomes free", || server.get("/a").status == 200);
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nla");
    waits.until(|bytes| bytes.ends_with(b"la"));
    assert_eq!(server.get("/a").status, 200);
    peer.send("te");
    assert_eq!(waits.response().text(), "late");
}

#[test]
fn counts_and_states_outlive_a_reload() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(
        &site,
        "location /v { try_files /none =404; error_page 404 =200 @one; } location @one { return 200 one; }
         location /a { limit_req zone=r; } location /big { limit_conn c 1; } location /c { limit_conn c 1; }",
    )
    .http("limit_conn_zone $arg_k zone=c:1m; limit_req_zone $arg_k zone=r:1m rate=1r/m;")
    .freerun();
    let mut client = server.connect();
    assert_eq!(client.get("/a?k=1").status, 200);
    let mut slow = server.connect();
    slow.send("GET /big?k=1 HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    let mut reload = |from: &str, to: &str| {
        server.edit(from, to);
        server.reload();
        eventually("the new answer", || client.get("/v").text() == to.split_whitespace().last().unwrap_or_default());
    };
    reload("return 200 one", "return 200 two");
    assert_eq!(server.get("/a?k=1").status, 503, "still limited");
    assert_eq!(server.get("/a?k=2").status, 200);
    assert_eq!(server.get("/c?k=1").status, 503, "the request of the old generation counts");
    drop(slow);
    eventually("its place becomes free", || server.get("/c?k=1").status == 404);
    // Another rate goes on with what there is, another key begins anew.
    server.edit("rate=1r/m", "rate=2r/m");
    reload("return 200 two", "return 200 three");
    assert_eq!(server.get("/a?k=1").status, 503);
    server.edit("$arg_k zone=r", "$arg_k$uri zone=r");
    reload("return 200 three", "return 200 four");
    assert_eq!(server.get("/a?k=1").status, 200);
    assert_eq!(server.get("/a?k=1").status, 503);
}

#[test]
fn a_slow_response_holds_no_thread_of_a_pool() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(
        &site,
        "aio threads=one always; open_file_cache off;
         location /big { limit_rate 1k; } location /a { }",
    )
    .main("thread_pool one threads=1 max_queue=1;")
    .freerun();
    let mut slow: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1000);
    }
    for _ in 0..5 {
        assert_eq!(server.get("/a").text(), "file a");
    }
}
