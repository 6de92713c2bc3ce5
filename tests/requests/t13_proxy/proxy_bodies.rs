//! Bodies of requests that are passed on.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use freerun_testkit::{AnsweringUpstream, Peer, Response, TempDir, TestClient, TestServer, TestUpstream, ok};

use crate::t13_proxy::proxy_engine::{asked, passing};
use crate::worker::InProcess;

fn upload(server: &TestServer, body: &[u8], chunked: bool) -> Response {
    let mut client = server.connect();
    if chunked {
        client.send("POST /up HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(70_000) {
            client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
        }
        client.send("0\r\n\r\n");
    } else {
        client.send(format!("POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len()));
        client.send(body);
    }
    client.response()
}

fn sums() -> AnsweringUpstream {
    TestUpstream::answering(|request| {
        let sum: u64 = request.body.iter().enumerate().map(|(at, byte)| (at as u64 + 1) * u64::from(*byte)).sum();
        let framing = if request.header("content-length").is_some() { "length" } else { "chunks" };
        ok(format!("{} {sum} {framing}", request.body.len()))
    })
}

#[test]
fn request_bodies_of_all_sizes_arrive() {
    let upstream = sums();
    for (lines, streams) in [("", false), ("proxy_request_buffering off; ", true)] {
        let lines = format!("{lines}client_max_body_size 0; client_body_buffer_size 64k; ");
        let server = passing(&[upstream.address()], &lines).in_process();
        for size in [0, 1, 100, 5000, 70_000, 3_000_000] {
            let body: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let sum: u64 = body.iter().enumerate().map(|(at, byte)| (at as u64 + 1) * u64::from(*byte)).sum();
            assert_eq!(upload(&server, &body, false).text(), format!("{size} {sum} length"));
            let text = upload(&server, &body, true).text();
            let (told, framing) = text.rsplit_once(' ').expect("the framing");
            assert_eq!(told, format!("{size} {sum}"));
            // A small body may have come with its head: then its length is known.
            match size {
                0..=5000 if streams => assert!(["length", "chunks"].contains(&framing), "{size} {framing}"),
                _ => assert_eq!(framing, if streams { "chunks" } else { "length" }, "{size}"),
            }
        }
    }
}

#[test]
fn an_unbuffered_body_is_passed_on_as_it_comes() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "proxy_request_buffering off; ").in_process();
    let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    for piece in ["ab", "cd", "ef"] {
        client.send(piece);
        assert_eq!(peer.bytes(2), piece.as_bytes());
    }
    peer.send(ok("done"));
    assert_eq!(client.response().text(), "done");
}

/// A server that reads once has what the client had sent with its head, as behind nginx, and the end with the last piece.
#[test]
fn the_beginning_of_an_unbuffered_body_goes_with_the_head() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("binding");
    let address = upstream.local_addr().expect("its address").to_string();
    let server = passing(&[&address], "proxy_request_buffering off; ").run_in_process();
    for (framing, beginning, rest) in
        [("Content-Length: 4", "ab", "cd"), ("Transfer-Encoding: chunked", "2\r\nab\r\n", "2\r\ncd\r\n0\r\n\r\n")]
    {
        // In two calls the beginning is nearly always, but not always, there when the server reads.
        for _ in 0..50 {
            let mut client =
                asked(&server, &format!("POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n{beginning}"));
            let (mut peer, _) = upstream.accept().expect("a connection");
            let mut bytes = [0; 4096];
            let count = peer.read(&mut bytes).expect("the request");
            let text = String::from_utf8_lossy(&bytes[..count]);
            assert!(text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.contains("ab")), "{framing}: {text}");
            client.send(rest);
            let count = peer.read(&mut bytes).expect("the rest");
            let expected = if framing.starts_with('C') { "cd" } else { "2\r\ncd\r\n0\r\n\r\n" };
            assert_eq!(String::from_utf8_lossy(&bytes[..count]), expected);
            peer.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").expect("the answer");
            assert_eq!(client.response().text(), "ok");
        }
    }
}

#[test]
fn what_becomes_a_get_elsewhere_needs_no_body() {
    let upstream = TestUpstream::new();
    let second = TestUpstream::answering(|request| ok(request.line()));
    let lines = format!(
        "proxy_request_buffering off; location /inside {{ internal; proxy_pass http://{}; }}",
        second.address()
    );
    let server = passing(&[&upstream.address()], &lines).in_process();
    let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab");
    let mut peer = upstream.accept();
    peer.head();
    assert_eq!(peer.bytes(2), b"ab");
    peer.send("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /inside\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().text(), "GET /inside HTTP/1.1");
}

/// A request that needs no body is sent on without one when a part of its body was passed on before; another one has the status
/// of the first answer.
#[test]
fn an_error_page_behind_a_body_that_was_passed_on_is_asked_for_without_it() {
    for (method, page, expected) in [
        ("GET", "= /page", "200 GET /page HTTP/1.1"),
        ("GET", "= @page", "200 GET / HTTP/1.1"),
        ("POST", "= /page", "200 GET /page HTTP/1.1"),
        ("POST", "= @page", "503"),
        ("PUT", "=200 @page", "503"),
    ] {
        let upstream = TestUpstream::new();
        let second = TestUpstream::answering(|request| {
            ok(format!("{}{}", request.line(), String::from_utf8_lossy(&request.body)))
        });
        let lines = format!(
            "proxy_request_buffering off; proxy_intercept_errors on; error_page 503 {page};
             location @page {{ proxy_pass http://{0}; }} location = /page {{ proxy_pass http://{0}; }}",
            second.address()
        );
        let server = passing(&[&upstream.address()], &lines).in_process();
        let mut client =
            asked(&server, &format!("{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nab"));
        let mut peer = upstream.accept();
        peer.head();
        assert_eq!(peer.bytes(2), b"ab");
        peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        let response = client.response();
        let got = if response.status == 200 { format!("200 {}", response.text()) } else { response.status.to_string() };
        assert_eq!(got, expected, "{method} {page}");
        assert_eq!(second.connections(), usize::from(response.status == 200), "{method} {page}");
    }
}

/// What is left of a body is not the body of what an error page asks for.
#[test]
fn the_rest_of_a_body_that_was_passed_on_is_not_sent_elsewhere() {
    for other in ["on", "off"] {
        let upstream = TestUpstream::new();
        let second = TestUpstream::answering(|request| ok(request.target()));
        let lines = format!(
            "proxy_request_buffering off; error_page 502 = @other;
             location @other {{ proxy_request_buffering {other}; proxy_pass http://{}; }}",
            second.address()
        );
        let server = passing(&[&upstream.address()], &lines).in_process();
        let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nab");
        let mut peer = upstream.accept();
        peer.head();
        assert_eq!(peer.bytes(2), b"ab");
        drop(peer);
        assert_eq!(client.response().status, 502, "{other}");
        assert_eq!(second.connections(), 0, "{other}");
    }
}

/// Nor is it a file.
#[test]
fn the_rest_of_a_body_that_was_passed_on_is_not_stored() {
    let upstream = TestUpstream::new();
    let lines =
        "proxy_request_buffering off; error_page 502 = @other; location @other { root @DIR@; dav_methods PUT; }";
    let server = passing(&[&upstream.address()], lines).in_process();
    let mut client = asked(&server, "PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nab");
    let mut peer = upstream.accept();
    peer.head();
    assert_eq!(peer.bytes(2), b"ab");
    drop(peer);
    client.send("cdef");
    assert_eq!(client.response().status, 502);
    assert!(!server.path("file").exists());
    server.logs("a request body that was passed on in part cannot be read again");
}

#[test]
fn an_answer_may_come_before_the_body_is_read() {
    for lines in ["", "proxy_request_buffering off; "] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], &format!("{lines}client_max_body_size 0; ")).in_process();
        let mut client = server.connect();
        let mut sender = TestClient::connect(server.address());
        std::mem::swap(&mut client, &mut sender);
        let body = vec![b'x'; 20_000_000];
        sender.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len()));
        let sending = std::thread::spawn(move || {
            let _ = sender.try_send(&body);
            sender.response()
        });
        let mut peer = upstream.accept();
        peer.head();
        peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
        let response = sending.join().unwrap();
        assert_eq!((response.status, response.text().as_str()), (413, "big"), "{lines}");
    }
}

#[test]
fn a_body_that_was_passed_on_in_part_is_not_sent_to_another_server() {
    let (first, second) = (TestUpstream::new(), TestUpstream::answering(|request| ok(&request.head)));
    let lines = format!(
        "proxy_request_buffering off; error_page 502 @other; location @other {{ proxy_pass http://{}; }} ",
        second.address()
    );
    let server = passing(&[&first.address()], &lines).in_process();
    let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    let mut peer = first.accept();
    peer.head();
    peer.bytes(2);
    drop(peer);
    assert_eq!(client.response().status, 502);
    server.logs("the request body was passed on before, and cannot be sent again");
    assert_eq!(second.take_requests(), []);
    // One that was collected can be, and one that has come whole with its head.
    for buffering in ["buffering on", "buffering off"] {
        let server = passing(&[&first.address()], &lines.replace("buffering off", buffering)).in_process();
        let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd");
        first.accept().request();
        assert_eq!(client.response().status, 502, "{buffering}");
        let bodies: Vec<Vec<u8>> = second.take_requests().into_iter().map(|request| request.body).collect();
        assert_eq!(bodies, [b"abcd"], "{buffering}");
    }
}

/// Who waits for `100 Continue` was refused, and sends none: the page for that is not kept waiting.
#[test]
fn a_page_for_a_request_whose_body_was_refused_needs_no_body() {
    let upstream = TestUpstream::answering(|request| ok(request.line()));
    for body in ["", "proxy_set_body set; ", "proxy_pass_request_body off; "] {
        let lines = format!(
            "client_max_body_size 3; error_page 413 @page; location @page {{ {body} proxy_pass http://{}; }} ",
            upstream.address()
        );
        let server = passing(&[upstream.address()], &lines).in_process();
        let mut client =
            asked(&server, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.text()), (413, "POST / HTTP/1.1".to_owned()), "{body}");
    }
}

/// Reading it from its file does not depend on the client either.
#[test]
fn a_body_that_was_read_is_sent_whole_though_its_client_has_gone() {
    let upstream = TestUpstream::new();
    let lines =
        "proxy_ignore_client_abort on; aio threads always; client_max_body_size 0; client_body_buffer_size 16k; ";
    let server = passing(&[&upstream.address()], lines).in_process();
    let body = vec![b'x'; 20_000_000];
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = asked(&server, &head);
    client.send(&body);
    // The request is passed on when all of it was read.
    let mut peer = upstream.accept();
    let head = peer.head();
    client.reset();
    assert_eq!(peer.body(head).len(), body.len());
    peer.send(ok("done"));
    let line = server.access_lines(1).remove(0);
    assert!(line.starts_with("200|") && !server.error_log().contains("[crit]"), "{line}\n{}", server.error_log());
}

/// A server that takes no more of a request may still have an answer, in as many pieces as it likes.
#[test]
fn an_answer_may_come_after_the_server_has_stopped_to_take_the_body() {
    for lines in ["", "proxy_request_buffering off; "] {
        let dir = TempDir::new("upstream");
        let path = dir.path().join("s");
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let upstream = TestUpstream::unix(&path);
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let lines = format!("{lines}client_max_body_size 0; client_body_buffer_size 1m; ");
        let server = passing(&[&upstream.address()], &lines).in_process();
        let mut client = server.connect();
        let sending = std::thread::spawn(move || {
            client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\n");
            let _ = client.try_send(vec![b'x'; 500_000]);
            client.response()
        });
        let mut peer = upstream.accept();
        peer.head();
        peer.stop_taking();
        let pad = "x".repeat(3000);
        for byte in format!("HTTP/1.1 413 Too Large\r\nX-Pad: {pad}\r\nContent-Length: 3\r\n\r\nbig").bytes() {
            peer.send([byte]);
        }
        let response = sending.join().unwrap();
        assert_eq!((response.status, response.text().as_str()), (413, "big"), "{lines}");
    }
}

/// How a body is kept before it is passed on (in memory, in a file, not at all), and whether it comes in chunks.
const WAYS: [(&str, bool); 4] = [
    ("client_body_buffer_size 32m; ", false),
    ("", false),
    ("proxy_request_buffering off; ", false),
    ("proxy_request_buffering off; ", true),
];

/// A request with a body of so many bytes.
fn post(size: usize, chunked: bool) -> Vec<u8> {
    request("POST /up HTTP/1.1\r\nHost: localhost", size, chunked)
}

fn request(begin: &str, size: usize, chunked: bool) -> Vec<u8> {
    let body: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let head = |field: String| format!("{begin}\r\n{field}\r\n\r\n").into_bytes();
    if !chunked {
        return [head(format!("Content-Length: {size}")), body].concat();
    }
    let chunks =
        body.chunks(70_000).map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    [head("Transfer-Encoding: chunked".to_owned()), chunks.collect::<Vec<_>>().concat(), b"0\r\n\r\n".to_vec()].concat()
}

/// A request that was sent up to there, of whose response the first six bytes of eleven have come.
fn begun(server: &TestServer, upstream: &TestUpstream, request: &[u8]) -> (TestClient, Peer) {
    let mut client = server.connect();
    client.send(request);
    let mut peer = upstream.accept();
    peer.head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst ");
    client.until(|bytes| bytes.ends_with(b"first "));
    (client, peer)
}

/// More than the sockets on the way hold.
const LARGE: usize = 20_000_000;

#[test]
fn the_rest_of_the_body_follows_while_the_answer_comes() {
    for (lines, chunked) in WAYS {
        for buffering in ["", "proxy_buffering off; "] {
            let upstream = TestUpstream::new();
            let lines = format!("{lines}{buffering}client_max_body_size 0; ");
            let server = passing(&[&upstream.address()], &lines).in_process();
            let mut client = server.connect();
            let sending = client.send_meanwhile(post(LARGE, chunked));
            let mut peer = upstream.accept();
            let head = peer.head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst ");
            client.until(|bytes| bytes.ends_with(b"first "));
            let body = peer.body(head);
            assert!(body.len() == LARGE && body.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
            peer.send("last!");
            sending.join().unwrap();
            assert_eq!(client.response().text(), "first last!", "{lines}");
            // Both connections are as good as new.
            client.send("GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(peer.request().target(), "/next", "{lines}");
            peer.send(ok("next"));
            assert_eq!(client.response().text(), "next", "{lines}");
        }
    }
}

/// A client that sends all before it reads, and a server that reads all before it ends its answer, but does not wait for that to be taken.
#[test]
fn the_rest_of_the_body_follows_though_nobody_takes_the_answer() {
    for (lines, chunked) in WAYS {
        for buffering in ["", "proxy_buffering off; ", "proxy_max_temp_file_size 0; "] {
            let upstream = TestUpstream::new();
            let lines = format!("{lines}{buffering}client_max_body_size 0; ");
            let server = passing(&[&upstream.address()], &lines).in_process();
            let mut client = server.connect();
            let sending = client.send_meanwhile(post(LARGE, chunked));
            let mut peer = upstream.accept();
            let head = peer.head();
            let mut also = peer.also();
            let answering = std::thread::spawn(move || {
                also.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
                also.send(vec![b'x'; LARGE - 1]);
            });
            assert_eq!(peer.body(head).len(), LARGE, "{lines}");
            sending.join().unwrap();
            let response = std::thread::spawn(move || client.response());
            answering.join().unwrap();
            peer.send("x");
            assert_eq!(response.join().unwrap().body.len(), LARGE, "{lines}");
        }
    }
}

/// What is left of a body when the answer is over belongs to that request, not to the next one.
#[test]
fn what_was_not_passed_on_when_the_answer_is_over_is_read_past() {
    for chunked in [false, true] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], "proxy_request_buffering off; ").in_process();
        let request = [post(300_000, chunked), b"GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()].concat();
        let (mut client, mut peer) = begun(&server, &upstream, &request[..1000]);
        // This is passed on meanwhile.
        client.send(&request[1000..150_000]);
        peer.bytes(140_000);
        peer.send("last!");
        assert_eq!(client.response().text(), "first last!");
        client.send(&request[150_000..]);
        let mut second = upstream.accept();
        assert_eq!(second.request().target(), "/next");
        second.send(ok("next"));
        assert_eq!(client.response().text(), "next");
        peer.rest();
    }
}

/// A request that ends too early is none, and its response not one to be kept waiting for.
#[test]
fn a_client_that_leaves_the_rest_of_its_body_out_has_no_answer() {
    for chunked in [false, true] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], "proxy_request_buffering off; ").in_process();
        let (mut client, mut peer) = begun(&server, &upstream, &post(300_000, chunked)[..1000]);
        client.half_close();
        peer.rest();
        assert!(client.try_response("POST").is_err());
        server.logs("client prematurely closed connection while sending request to upstream, whose response has begun");
    }
}

#[test]
fn a_body_that_becomes_too_large_ends_the_answer_that_has_begun() {
    let upstream = TestUpstream::new();
    let lines = "proxy_request_buffering off; client_max_body_size 100k; ";
    let server = passing(&[&upstream.address()], lines).in_process();
    let request = post(300_000, true);
    let (mut client, mut peer) = begun(&server, &upstream, &request[..1000]);
    let _ = client.try_send(&request[1000..]);
    assert!(peer.rest().len() < 110_000);
    assert!(client.try_response("POST").is_err());
    server.logs("client intended to send too large chunked body");
}

/// The server may wait for it or not.
#[test]
fn a_client_that_says_no_more_has_its_answer() {
    let upstream = TestUpstream::new();
    let lines = "proxy_request_buffering off; client_body_timeout 300ms; ";
    let server = passing(&[&upstream.address()], lines).in_process();
    let request = post(300_000, true);
    let (mut client, mut peer) = begun(&server, &upstream, &request[..1000]);
    server.logs("client timed out (110: Connection timed out) while sending request to upstream");
    peer.send("last!");
    assert_eq!(client.response().text(), "first last!");
    // What was late is still that request's.
    client.send([&request[1000..], b"GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat());
    let mut second = upstream.accept();
    assert_eq!(second.request().target(), "/next");
    second.send(ok("next"));
    assert_eq!(client.response().text(), "next");
}

#[test]
fn while_the_client_is_waited_for_the_server_is_not_late() {
    let upstream = TestUpstream::new();
    let silent = TestUpstream::new();
    let lines = format!(
        "proxy_request_buffering off; proxy_read_timeout 200ms;
         location /later {{ proxy_read_timeout 600ms; proxy_pass http://{}; }}",
        silent.address()
    );
    let server = passing(&[&upstream.address()], &lines).in_process();
    let (_client, _peer) = begun(&server, &upstream, &post(300_000, true)[..1000]);
    // A time that is over later, of the same clock.
    assert_eq!(server.get("/later").status, 504);
    let log = server.error_log();
    assert!(!log.contains("upstream timed out (110: Connection timed out) while reading upstream"), "{log}");
}

#[test]
fn what_comes_behind_a_wrong_chunk_is_no_request() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "proxy_request_buffering off; ").in_process();
    let (mut client, mut peer) = begun(&server, &upstream, &post(300_000, true)[..1000]);
    let _ = client.try_send(vec![b'x'; 70_000]);
    let _ = client.try_send("0\r\n\r\nGET /next HTTP/1.1\r\nHost: localhost\r\n\r\n");
    peer.rest();
    assert!(client.try_response("POST").is_err());
    server.logs("client sent invalid chunked body while sending request to upstream");
    assert!(upstream.try_accept(Duration::ZERO).is_none());
}

#[test]
fn a_server_that_takes_no_more_may_go_on_with_its_answer() {
    for (lines, chunked) in WAYS {
        let dir = TempDir::new("upstream");
        let path = dir.path().join("s");
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let upstream = TestUpstream::unix(&path);
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let lines = format!("{lines}client_max_body_size 0; ");
        let server = passing(&[&upstream.address()], &lines).in_process();
        let mut client = server.connect();
        let request = post(LARGE, chunked);
        let mut socket = client.socket().try_clone().unwrap();
        let sending = std::thread::spawn(move || drop(socket.write_all(&request)));
        let mut peer = upstream.accept();
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst ");
        client.until(|bytes| bytes.ends_with(b"first "));
        peer.stop_taking();
        // A full socket is tried again when there is room.
        peer.rest();
        server.logs("send() failed (32: Broken pipe) while sending request to upstream");
        peer.send("last!");
        assert_eq!(client.response().text(), "first last!", "{lines}");
        drop(client);
        sending.join().unwrap();
    }
}

/// A response that is replaced leaves the rest of the request to the connection.
#[test]
fn the_rest_of_a_body_whose_answer_is_replaced_is_read_past() {
    let upstream = TestUpstream::new();
    let lines = "proxy_request_buffering off; proxy_force_ranges on; ";
    let server = passing(&[&upstream.address()], lines).in_process();
    for chunked in [false, true] {
        let request = request("GET /up HTTP/1.1\r\nHost: localhost\r\nRange: bytes=50-", 5_000, chunked);
        let mut client = server.connect();
        client.send(&request[..1000]);
        let mut peer = upstream.accept();
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst ");
        assert_eq!(client.response().status, 416);
        client.send([&request[1000..], b"GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat());
        let mut second = upstream.accept();
        assert_eq!(second.request().target(), "/next");
        second.send(ok("next"));
        assert_eq!(client.response().text(), "next");
    }
}
