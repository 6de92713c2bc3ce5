//! Connections to upstream servers: kept, shared by all loops, noticed when they die.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use freerun_testkit::{Peer, ReceivedRequest, Setup, Site, TestClient, TestUpstream, eventually, fastcgi_record, ok};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn setup(loops: usize, http: &str) -> Setup {
    Setup::new().main(&format!("worker_processes {loops};")).root(&Site::new()).http(http)
}

fn proxied(upstream: &str, directives: &str) -> String {
    format!(
        "upstream a {{ server {upstream}; {directives} }}
         server {{ listen 127.0.0.1:@PORT@ reuseport; location / {{ proxy_pass http://a; }} }}"
    )
}

#[test]
fn with_four_loops_nearly_every_request_reuses_a_connection() {
    let upstream = TestUpstream::answering(|_| OK.into());
    let server = setup(4, &proxied(upstream.address(), "")).run();
    for _ in 0..2000 {
        // A connection of its own, which any of the loops takes.
        assert_eq!(server.get("/").text(), "ok");
    }
    assert!(upstream.connections() <= 20, "{} connections for 2000 requests", upstream.connections());
}

#[test]
fn idle_connections_that_die_cost_no_client_an_error() {
    let turn = AtomicUsize::new(0);
    // After one answer in three or so the connection ends, though the answer said that it stays.
    let upstream = closing(move || turn.fetch_add(7919, Relaxed) % 20 < 7);
    let server = setup(4, &proxied(&upstream, "keepalive 16;")).run();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = TestClient::connect(server.address());
                for request in 0..500 {
                    let answer = connection.get(&format!("/{client}/{request}"));
                    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
                }
            });
        }
    });
}

/// An upstream that ends a connection after an answer when `ends` says so. Its address.
fn closing(ends: impl Fn() -> bool + Send + Sync + 'static) -> String {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    let ends = Arc::new(ends);
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(std::time::Duration::from_secs(3600)) {
            let ends = ends.clone();
            std::thread::spawn(move || {
                while peer.try_request().is_some() && peer.try_send(OK).is_ok() {
                    if ends() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn serve_one(upstream: &TestUpstream, client: impl FnOnce()) -> Peer {
    std::thread::scope(|scope| {
        let played = scope.spawn(|| {
            let mut peer = upstream.accept();
            peer.request();
            peer.send(OK);
            peer
        });
        client();
        played.join().expect("a peer")
    })
}

/// Whether a connection from the one port to the other is whole: its side of the first port has not been told of an end.
fn is_established(port: u16, of: u16) -> bool {
    let connections = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's connections");
    connections.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ends_with =
            |field: usize, port: u16| fields.get(field).is_some_and(|text| text.ends_with(&format!(":{port:04X}")));
        ends_with(1, port) && ends_with(2, of) && fields.get(3) == Some(&"01")
    })
}

#[test]
fn what_is_not_idempotent_is_not_sent_into_a_dead_connection() {
    let upstream = TestUpstream::new();
    let server = setup(2, &proxied(&upstream.address(), "")).run();
    for _ in 0..10 {
        // The peer ends as soon as it has answered.
        let peer = serve_one(&upstream, || assert_eq!(server.get("/").status, 200));
        let port = peer.remote().expect("an address").port();
        peer.close();
        // On a busy machine the kernel may deliver that later than the next request.
        eventually("the end is there", || !is_established(port, upstream.port()));
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        serve_one(&upstream, || assert_eq!(server.send(post).status, 200)).close();
    }
}

#[test]
fn dead_and_old_connections_are_closed_soon() {
    let upstream = TestUpstream::new();
    let server = setup(2, &proxied(&upstream.address(), "")).run();
    let mut dead = serve_one(&upstream, || assert_eq!(server.get("/").status, 200));
    dead.half_close();
    assert_eq!(dead.rest(), b"");
    let mut chatty = serve_one(&upstream, || assert_eq!(server.get("/").status, 200));
    chatty.send("HTTP/1.1 408 Request Timeout\r\n\r\n");
    assert_eq!(chatty.rest(), b"");
    let server = setup(1, &proxied(&upstream.address(), "keepalive_timeout 10ms;")).run();
    let mut old = serve_one(&upstream, || assert_eq!(server.get("/").status, 200));
    assert_eq!(old.rest(), b"");
}

#[test]
fn limits_of_use_are_kept() {
    let upstream = TestUpstream::answering(|_| OK.into());
    let server = setup(1, &proxied(upstream.address(), "keepalive_requests 5;")).run();
    for _ in 0..20 {
        server.get("/");
    }
    assert_eq!(upstream.connections(), 4);
    let none = TestUpstream::answering(|_| OK.into());
    let server = setup(1, &proxied(none.address(), "keepalive 0;")).run();
    for _ in 0..5 {
        server.get("/");
    }
    assert_eq!(none.connections(), 5);
}

#[test]
fn a_reload_keeps_idle_connections() {
    let upstream = TestUpstream::answering(|_| OK.into());
    let http = proxied(upstream.address(), "") + &format!("# {}", 1);
    let server = setup(2, &http).run();
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "ok");
        server.reload();
    }
    eventually("all use the same connection", || {
        assert_eq!(server.get("/").text(), "ok");
        upstream.connections() == 1
    });
}

#[test]
fn local_connections_stay_with_their_location() {
    let upstream = TestUpstream::answering(|request: &ReceivedRequest| ok(request.target()));
    let http = |keepalive: &str| {
        format!(
            "upstream a {{ server {}; {keepalive} }}
             server {{ listen 127.0.0.1:@PORT@; location /x {{ proxy_pass http://a; }} location /y {{ proxy_pass http://a; }} }}",
            upstream.address()
        )
    };
    let mut before = 0;
    for (keepalive, connections) in [("", 2), ("keepalive 8 local;", 2), ("keepalive 8;", 1)] {
        let server = setup(1, &http(keepalive)).run();
        for path in ["/x", "/y", "/x", "/y"] {
            assert_eq!(server.get(path).text(), path);
        }
        assert_eq!(upstream.connections() - before, connections, "{keepalive}");
        before = upstream.connections();
    }
}

#[test]
fn locations_of_one_name_in_servers_without_one_are_two() {
    let upstream = TestUpstream::answering(|request: &ReceivedRequest| ok(request.target()));
    let http = format!(
        "upstream a {{ server {}; keepalive 8 local; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}
         server {{ listen 127.0.0.1:@PORT2@; location / {{ proxy_pass http://a; }} location = / {{ proxy_pass http://a; }} }}",
        upstream.address()
    );
    let server = setup(1, &http).run();
    let other = ([127, 0, 0, 1], server.port_number(2)).into();
    for _ in 0..2 {
        assert_eq!(server.get("/x").text(), "/x");
        for target in ["/x", "/"] {
            let mut client = freerun_testkit::TestClient::connect(other);
            client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert_eq!(client.response().text(), target);
        }
        // Each of the three has its own, which the next configuration uses again.
        assert_eq!(upstream.connections(), 3);
        server.reload();
    }
}

/// An application that is done with its body and never ends the request: its connection is of no use.
#[test]
fn what_ends_a_response_is_not_waited_for_without_end() {
    let upstream = TestUpstream::new();
    let http = format!(
        "upstream a {{ server {}; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ fastcgi_pass a; fastcgi_keep_conn on; fastcgi_param A b; }} }}",
        upstream.address()
    );
    let server = setup(1, &http).freerun();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    let mut request = Vec::new();
    while !request.ends_with(&fastcgi_record(5, b"")) {
        request.extend(peer.bytes(1));
    }
    peer.send(fastcgi_record(6, b"Status: 200\r\nContent-Length: 2\r\n\r\nok"));
    assert_eq!(client.response().text(), "ok");
    assert!(peer.rest().is_empty());
}

/// Error output between the last bytes of a body and what ends the response: nobody asks for more of the body then.
#[test]
fn what_an_application_says_behind_its_body_is_logged() {
    let upstream = TestUpstream::new();
    let http = format!(
        "upstream a {{ server {}; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ fastcgi_pass a; fastcgi_keep_conn on; fastcgi_param A b; }} }}",
        upstream.address()
    );
    let server = setup(1, &http).freerun();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    let mut request = Vec::new();
    while !request.ends_with(&fastcgi_record(5, b"")) {
        request.extend(peer.bytes(1));
    }
    let head = fastcgi_record(6, b"Status: 200\r\nContent-Length: 40000\r\n\r\n");
    let behind = [fastcgi_record(7, b"said late\n"), fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])].concat();
    peer.send([head, fastcgi_record(6, &[b'x'; 40_000]), behind].concat());
    assert_eq!(client.response().body.len(), 40_000);
    let said = || server.error_log().matches("FastCGI sent in stderr: \"said late\"").count();
    eventually("it is logged", || said() == 1);
}

/// What ends a response stands behind a body whose length is known, and is read with its last bytes.
#[test]
fn what_ends_a_response_is_read_and_its_connection_used_again() {
    const LEN: usize = 1_000_000;
    let body = vec![b'x'; LEN];
    let mut fastcgi = fastcgi_record(6, format!("Status: 200\r\nContent-Length: {LEN}\r\n\r\n").as_bytes());
    body.chunks(32_000).for_each(|part| fastcgi.extend(fastcgi_record(6, part)));
    fastcgi.extend([fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])].concat());
    let value = [format!("VALUE / 0 {LEN}\r\n").as_bytes(), &body, b"\r\nEND\r\n"].concat();
    // How much of it comes when the client has its response.
    let behind = [fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])].concat().len();
    for (pass, asked_to, answer, late) in [
        ("fastcgi_pass a; fastcgi_keep_conn on; fastcgi_param A b;", fastcgi_record(5, b""), fastcgi.clone(), 0),
        ("fastcgi_pass a; fastcgi_keep_conn on; fastcgi_param A b;", fastcgi_record(5, b""), fastcgi, behind),
        ("set $memcached_key /; memcached_pass a;", b"get /\r\n".to_vec(), value, 0),
    ] {
        for more in ["", "fastcgi_buffering off;"] {
            let upstream = TestUpstream::new();
            let http = format!(
                "upstream a {{ server {}; }}
                 server {{ listen 127.0.0.1:@PORT@; location / {{ {pass} {more} }} location = /status {{ status; }} }}",
                upstream.address()
            );
            let server = setup(1, &http).freerun();
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut peer = upstream.accept();
            for again in [true, true, false] {
                let mut request = Vec::new();
                while !request.ends_with(&asked_to) {
                    request.extend(peer.bytes(1));
                }
                let (now, then) = answer.split_at(answer.len() - late);
                peer.send(now);
                assert_eq!(client.response().body.len(), LEN, "{pass}");
                if late > 0 {
                    // It has done what it was asked for, whatever it still does.
                    eventually("it is free", || server.status()["upstreams"][0]["servers"][0]["active"] == 0);
                }
                peer.send(then);
                if again {
                    eventually("it is kept", || server.status()["upstreams"][0]["servers"][0]["idle"] == 1);
                    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                }
            }
        }
    }
}
