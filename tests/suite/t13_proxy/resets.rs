//! A connection that has to be reset is, whoever goes on in the background with its request.

use freerun_testkit::{ConnectionEnd, Setup, Site, TestClient, TestServer, TestUpstream, eventually, ok};

/// Passes everything to `backend`; what is mirrored goes to `aside`.
fn passing(backend: &TestUpstream, aside: &TestUpstream, lines: &str) -> TestServer {
    let http = format!(
        "proxy_cache_path @DIR@/cache keys_zone=z:1m; proxy_cache_valid 1m;
         upstream backend {{ server {}; }}
         upstream aside {{ server {}; }}
         server {{ listen 127.0.0.1:@PORT@; {lines}
                   location = /status {{ status; }}
                   location = /aside {{ internal; proxy_pass http://aside; }}
                   location /mirrored/ {{ mirror /aside; proxy_pass http://backend; }}
                   location /finished/ {{ proxy_ignore_client_abort on; proxy_pass http://backend; }}
                   location /kept/ {{ proxy_cache z; proxy_pass http://backend; }} }}",
        backend.address(),
        aside.address(),
    );
    Setup::new().root(&Site::new()).http(&http).freerun()
}

/// How many connections to this group's server are kept: a request has come to its end there.
fn idle(server: &TestServer, group: &str) -> u64 {
    let status = server.status();
    let groups = status["upstreams"].as_array().expect("groups");
    let group = groups.iter().find(|found| found["name"] == group).expect("the group");
    group["servers"][0]["idle"].as_u64().expect("a number")
}

#[test]
fn a_cut_response_is_not_whole_for_a_client_of_http_1_0_while_its_mirror_goes_on() {
    let (backend, aside) = (TestUpstream::new(), TestUpstream::new());
    let server = passing(&backend, &aside, "");
    let mut client = server.connect();
    client.send("GET /mirrored/a HTTP/1.0\r\nHost: a\r\n\r\n");
    let mut mirrored = aside.accept();
    mirrored.request();
    let mut peer = backend.accept();
    peer.request();
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.until(|bytes| bytes.ends_with(b"\r\n\r\nabc"));
    drop(peer);
    assert_eq!(client.ending(), ConnectionEnd::Reset);
    // It is not given up with the client.
    mirrored.send(ok("aside"));
    eventually("the mirrored request has ended", || idle(&server, "aside") == 1);
}

#[test]
fn a_reset_for_a_client_that_takes_nothing_waits_for_nobody_in_the_background() {
    const PART: usize = 12_000_000;
    for place in ["mirrored", "finished", "kept"] {
        let (backend, aside) = (TestUpstream::new(), TestUpstream::new());
        let server = passing(&backend, &aside, "send_timeout 1s; reset_timedout_connection on;");
        let mut client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
        client.send(format!("GET /{place}/a HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mirrored = (place == "mirrored").then(|| {
            let mut mirrored = aside.accept();
            mirrored.request();
            mirrored
        });
        let mut peer = backend.accept();
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * PART));
        peer.send(vec![b'x'; PART]);
        server.logs("client timed out (110: Connection timed out) while sending response to client");
        assert_eq!(client.ending(), ConnectionEnd::Reset, "{place}");
        match mirrored {
            Some(mut mirrored) => {
                mirrored.send(ok("aside"));
                eventually("the mirrored request has ended", || idle(&server, "aside") == 1);
            }
            None => {
                peer.send(vec![b'x'; PART]);
                eventually("all of the response is taken", || idle(&server, "backend") == 1);
            }
        }
    }
}
