//! Connections to servers that no `upstream` block names: as in nginx each request has one of its own. And connections that
//! the server was told to close, which are not used again.

use crate::worker::InProcess;
use freerun_testkit::{Peer, Setup, TestUpstream, fastcgi_record, ok};

/// Reads a request up to these bytes.
fn read_to(peer: &mut Peer, end: &[u8]) {
    let mut request = Vec::new();
    while !request.ends_with(end) {
        request.extend(peer.bytes(1));
    }
}

/// A server whose `/` passes requests on by these lines.
fn passing(http: &str, lines: &str) -> Setup {
    Setup::new().http(&format!("{http} server {{ listen 127.0.0.1:@PORT@; location / {{ {lines} }} }}"))
}

#[test]
fn each_request_has_a_connection() {
    let fastcgi = [
        fastcgi_record(6, b"Status: 200\r\nContent-Length: 2\r\n\r\nok"),
        fastcgi_record(6, b""),
        fastcgi_record(3, &[0; 8]),
    ]
    .concat();
    let get = b"\r\n\r\n".to_vec();
    for (pass, end, answer) in [
        ("proxy_pass http://@SERVER@;", get.clone(), ok("ok")),
        ("proxy_set_header Connection keep-alive; proxy_pass http://@SERVER@;", get.clone(), ok("ok")),
        ("set $to @SERVER@; proxy_pass http://$to;", get, ok("ok")),
        ("fastcgi_keep_conn on; fastcgi_param A b; fastcgi_pass @SERVER@;", fastcgi_record(5, b""), fastcgi),
        (
            "set $memcached_key /; memcached_pass @SERVER@;",
            b"get /\r\n".to_vec(),
            b"VALUE / 0 2\r\nok\r\nEND\r\n".to_vec(),
        ),
    ] {
        let upstream = TestUpstream::new();
        let server = passing("", &pass.replace("@SERVER@", &upstream.address())).run_in_process();
        let mut client = server.connect();
        for _ in 0..3 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut peer = upstream.accept();
            read_to(&mut peer, &end);
            peer.send(&answer);
            assert_eq!(client.response().text(), "ok", "{pass}");
            // Nothing in the answer says so.
            assert_eq!(peer.rest(), b"", "{pass}");
        }
    }
}

/// The server takes it at its word, and does not say so in its answer.
#[test]
fn what_was_told_to_be_the_last_request_is_that() {
    for (lines, is_kept) in [
        ("", true),
        ("proxy_set_header Connection \"\";", true),
        ("proxy_set_header Connection keep-alive;", true),
        ("proxy_set_header Connection close;", false),
        ("proxy_set_header Connection 'X-A, Close';", false),
        ("proxy_set_header Connection $close;", false),
        ("proxy_http_version 1.0;", false),
        ("proxy_http_version 1.0; proxy_set_header Connection keep-alive;", true),
    ] {
        let upstream = TestUpstream::new();
        let group = format!(
            "map $http_upgrade $close {{ default upgrade; '' close; }} upstream group {{ server {}; keepalive 4; }}",
            upstream.address()
        );
        let server = passing(&group, &format!("{lines} proxy_pass http://group;")).in_process();
        let mut client = server.connect();
        let mut before: Option<Peer> = None;
        for _ in 0..2 {
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
            let mut peer = before.take().unwrap_or_else(|| upstream.accept());
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok");
            assert_eq!(client.response().text(), "ok", "{lines}");
            if is_kept { before = Some(peer) } else { assert_eq!(peer.rest(), b"", "{lines}") }
        }
    }
}

const FASTCGI: &str = "fastcgi_keep_conn on; fastcgi_param A b; fastcgi_pass group;";

/// The server closes a kept connection when the next request comes. With `non_idempotent` that is sent again, to the same
/// server if there is no other.
#[test]
fn a_request_that_may_be_repeated_is_sent_again_for_a_dead_connection() {
    let fastcgi =
        [fastcgi_record(6, b"Content-Length: 2\r\n\r\nok"), fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])]
            .concat();
    let (http_end, fastcgi_end) = (b"\r\n\r\nx".to_vec(), fastcgi_record(5, b""));
    let in_file = "client_body_in_file_only clean;";
    for (member, pass, end, answer) in [
        ("proxy", "proxy_pass http://group;", http_end.clone(), ok("ok")),
        ("proxy", &format!("{in_file} proxy_pass http://group;"), http_end, ok("ok")),
        ("fastcgi", FASTCGI, fastcgi_end.clone(), fastcgi.clone()),
        ("fastcgi", &format!("{in_file} {FASTCGI}"), fastcgi_end, fastcgi),
    ] {
        for (ends_with_reset, is_repeated) in [(false, false), (false, true), (true, false), (true, true)] {
            let upstream = TestUpstream::new();
            let group = format!("upstream group {{ server {} max_fails=0; keepalive 4; }}", upstream.address());
            let causes = if is_repeated { "error timeout non_idempotent" } else { "error timeout" };
            let server = passing(&group, &format!("{member}_next_upstream {causes}; {pass}")).in_process();
            let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
            let mut client = server.connect();
            client.send(post);
            let mut peer = upstream.accept();
            read_to(&mut peer, &end);
            peer.send(&answer);
            assert_eq!(client.response().text(), "ok", "{member}");
            client.send(post);
            read_to(&mut peer, &end);
            if ends_with_reset {
                peer.reset()
            } else {
                drop(peer)
            }
            if is_repeated {
                let mut peer = upstream.accept();
                read_to(&mut peer, &end);
                peer.send(&answer);
                assert_eq!(client.response().text(), "ok", "{member}");
            } else {
                assert_eq!(client.response().status, 502, "{member}");
            }
        }
    }
}

/// The same in a group with a backup server, which is asked only if the server cannot be reached either.
#[test]
fn a_backup_server_is_asked_for_a_dead_connection_if_there_is_no_other() {
    for is_repeated in [false, true] {
        let (upstream, backup) = (TestUpstream::new(), TestUpstream::on(([127, 0, 0, 2], 0).into()));
        let group = format!(
            "upstream group {{ server {} max_fails=0; server {} backup; keepalive 4; }}",
            upstream.address(),
            backup.address()
        );
        let causes = if is_repeated { "error timeout non_idempotent" } else { "error timeout" };
        let lines = format!("proxy_next_upstream {causes}; proxy_pass http://group;");
        let server = passing(&group, &lines).in_process();
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
        let mut client = server.connect();
        client.send(post);
        let mut peer = upstream.accept();
        peer.request();
        peer.send(ok("ok"));
        assert_eq!(client.response().text(), "ok");
        client.send(post);
        peer.request();
        drop(upstream);
        drop(peer);
        if is_repeated {
            let mut peer = backup.accept();
            assert_eq!(peer.request().body, b"x");
            peer.send(ok("backup"));
            assert_eq!(client.response().text(), "backup");
        } else {
            assert_eq!(client.response().status, 502);
        }
    }
}

/// The connections of these two end with their requests, whatever the group says: none of them can be dead before.
#[test]
fn uwsgi_and_scgi_have_a_connection_for_each_request() {
    let last = b"THE-BODY";
    for member in ["uwsgi", "scgi"] {
        for (is_repeated, has_backup) in [(false, true), (true, true), (true, false)] {
            let (upstream, backup) = (TestUpstream::new(), TestUpstream::on(([127, 0, 0, 2], 0).into()));
            let other = if has_backup { format!("server {} backup;", backup.address()) } else { String::new() };
            let group = format!("upstream group {{ server {} max_fails=0; {other} keepalive 4; }}", upstream.address());
            let causes = if is_repeated { "error timeout non_idempotent" } else { "error timeout" };
            let lines = format!("{member}_param A b; {member}_next_upstream {causes}; {member}_pass group;");
            let server = passing(&group, &lines).in_process();
            let mut client = server.connect();
            let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\nTHE-BODY", last.len());
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            client.send(&post);
            let mut peer = upstream.accept();
            read_to(&mut peer, last);
            peer.send(answer);
            assert_eq!(client.response().text(), "ok", "{member}");
            client.send(&post);
            let mut peer = upstream.accept();
            read_to(&mut peer, last);
            drop(peer);
            if is_repeated && has_backup {
                let mut peer = backup.accept();
                read_to(&mut peer, last);
                peer.send(answer);
                assert_eq!(client.response().text(), "ok", "{member}");
            } else {
                assert_eq!(client.response().status, 502, "{member}");
            }
            assert!(upstream.try_accept(std::time::Duration::ZERO).is_none(), "{member}");
        }
    }
}
