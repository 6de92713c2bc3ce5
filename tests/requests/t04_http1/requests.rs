//! HTTP/1: keep-alive, pipelining, bodies, framing that is refused.

use crate::worker::InProcess;
use freerun_testkit::{ConnectionEnd, Setup, Site, TestClient, require};

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a").file("b", "file b").file("big", "x".repeat(300_000));
    site
}

/// As in nginx, the connection ends behind the body that was refused, not before: a client may be about to send it.
#[test]
fn a_refused_body_is_awaited_before_the_connection_ends() {
    let lines = "client_max_body_size 10; location /small { client_max_body_size 100; return 200 text; }";
    let server = Setup::server(&Site::new(), lines).run_in_process();
    let body = "x".repeat(20);
    for (path, fields, status) in [
        ("/", "Content-Length: 20\r\n", 413),
        ("/", "Content-Length: 20\r\nExpect: 100-continue\r\n", 413),
        ("/small", "Content-Length: 20\r\nConnection: close\r\n", 200),
    ] {
        let mut client = server.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.header("connection")), (status, Some("close")), "{fields}");
        // An end that came with the response would be here by now.
        server.get("/small");
        let mut byte = [0u8; 1];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(client.socket(), &mut byte[..], flags);
        assert_eq!(peeked.err(), Some(rustix::io::Errno::AGAIN), "{fields}");
        client.send(&body);
        assert!(client.is_closed(), "{fields}");
    }
}

#[test]
fn a_connection_is_kept() {
    let site = site();
    let server = Setup::server(&site, "").run_in_process();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/a").text(), "file a");
        assert_eq!(client.get("/none").status, 404);
        assert_eq!(client.get("/b").text(), "file b");
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let site = site();
    let server = Setup::server(&site, "").run_in_process();
    let mut client = server.connect();
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let all: String = (0..100).map(|n| request(["/a", "/big", "/b", "/none"][n % 4])).collect();
    client.send(all);
    for n in 0..100 {
        let response = client.response();
        let expected = [(200, 6), (200, 300_000), (200, 6)];
        match expected.get(n % 4) {
            Some((status, length)) => assert_eq!((response.status, response.body.len()), (*status, *length)),
            None => assert_eq!(response.status, 404),
        }
    }
}

#[test]
fn a_request_in_single_bytes() {
    let site = site();
    let server = Setup::server(&site, "").run_in_process();
    let mut client = server.connect();
    for byte in b"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Field: value\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.response().text(), "file a");
    assert_eq!(client.get("/b").text(), "file b");
}

#[test]
fn old_versions() {
    let site = site();
    let server = Setup::server(&site, "").run_in_process();
    let (bytes, ending) = server.connect().send("GET /a\r\n").rest();
    assert_eq!(
        (bytes.as_slice(), ending),
        (&b"file a"[..], ConnectionEnd::Closed),
        "HTTP/0.9 has neither head nor keep-alive"
    );
    let mut client = server.connect();
    let response = client.send("GET /a HTTP/1.0\r\n\r\n").response();
    assert_eq!((response.line.as_str(), response.header("connection")), ("HTTP/1.1 200 OK", Some("close")));
    assert!(client.is_closed());
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").response();
        assert_eq!(response.header("connection"), Some("keep-alive"));
    }
}

#[test]
fn close_is_obeyed() {
    let site = site();
    let server = Setup::server(&site, "").run_in_process();
    let mut client = server.connect();
    let request = "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(client.send(request).response().says_close());
    assert!(client.is_closed());
}

#[test]
fn a_number_of_requests_ends_a_connection() {
    let site = site();
    let server = Setup::server(&site, "keepalive_requests 3;").run_in_process();
    let mut client = server.connect();
    assert!(!client.get("/a").says_close() && !client.get("/a").says_close());
    assert!(client.get("/a").says_close());
    assert!(client.is_closed());
}

#[test]
fn bodies_that_nobody_reads_do_not_disturb() {
    let site = site();
    let server = Setup::server(&site, "location /r { return 200 \"[$content_length]\"; }").run_in_process();
    let mut client = server.connect();
    client.send("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde");
    assert_eq!(client.response().text(), "[5]");
    client.send("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n3;x=y\r\nfgh\r\n0\r\nT: v\r\n\r\n");
    assert_eq!(client.response().status, 200);
    // In pieces, over the boundary of every token.
    client.send("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for byte in b"5\r\nabcde\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.response().status, 200);
    client.send(format!("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n{}", "x".repeat(900_000)));
    assert_eq!(client.response().status, 200);
    assert_eq!(client.get("/a").text(), "file a");
}

#[test]
fn a_client_that_waits_for_100_gets_it() {
    let site = site();
    // The static handler refuses POST and does not want the body; nginx answers at once there, as does freerun.
    let server = Setup::server(&site, "location /r { return 200 ok; }").run_in_process();
    let mut client = server.connect();
    client.send("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    let first = client.response();
    if first.status == 100 {
        client.send("abc");
        assert_eq!(client.response().text(), "ok");
    } else {
        assert_eq!(first.text(), "ok");
        client.send("abc");
    }
    assert_eq!(client.get("/a").text(), "file a");
    // Not for HTTP/1.0, and not when the body is there already.
    let response = server.send("POST /r HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(response.status, 200);
}

/// What is sent, and the status; 0: closed without a word.
#[rustfmt::skip]
const REFUSED: &[(&str, u16)] = &[
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    ("POST /r HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length : 3\r\n\r\nabc", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\na", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\na", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 1e1\r\n\r\na", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\na", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775808\r\n\r\na", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\na", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400),
    ("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX y\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("GET / HTTP/1.1x\r\nHost: a\r\n\r\n", 400),
    ("GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET relative HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("get / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("\u{16}\u{3}\u{1}\0\u{5}hello", 400),
    ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
];

#[test]
fn ambiguous_framing_is_refused() {
    let site = site();
    let server = Setup::server(&site, "location /r { return 200 \"read as a request\"; }").run_in_process();
    let mut wrong = String::new();
    for (bytes, status) in REFUSED {
        let mut client = server.connect();
        // What follows must never be taken for a request of its own.
        client.send(format!("{bytes}GET /r HTTP/1.1\r\nHost: smuggled\r\n\r\n"));
        let got = match client.try_response("GET") {
            Ok(response) if response.status == 200 && response.text() == "" => 200,
            Ok(response) => response.status,
            Err(_) => 0,
        };
        let (rest, _) = client.rest();
        let smuggled = String::from_utf8_lossy(&rest).contains("read as a request");
        if got != *status || smuggled {
            wrong += &format!("{:?}: {got} instead of {status}, then {:?}\n", bytes, String::from_utf8_lossy(&rest));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Statuses for what is too large.
#[test]
fn too_large() {
    let site = site();
    let lines = "client_header_buffer_size 512; large_client_header_buffers 2 1k; client_max_body_size 10;";
    let server = Setup::server(&site, lines).run_in_process();
    let status = |request: String| server.send(request).status;
    let long = "x".repeat(2000);
    assert_eq!(status(format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n")), 414);
    let response = server.send(format!("GET /a HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"));
    assert_eq!((response.status, response.says_close()), (400, true));
    assert!(response.text().contains("Request Header Or Cookie Too Large"), "{}", response.text());
    let many: String = (0..5).map(|n| format!("X{n}: {}\r\n", "y".repeat(600))).collect();
    assert_eq!(status(format!("GET /a HTTP/1.1\r\nHost: h\r\n{many}\r\n")), 400);
    assert_eq!(status("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n".into()), 413);
    server.logs("client intended to send too large body: 11 bytes");
    let fits = format!("GET /a HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "z".repeat(900));
    assert_eq!(status(fits), 200);
}

#[test]
fn a_refused_body_does_not_reset_the_answer() {
    // The client sends all of a large body before it reads; a server that closes at once would reset the connection.
    let site = site();
    let server = Setup::server(&site, "client_max_body_size 10; lingering_timeout 5s;").run_in_process();
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n");
    let sent = client.try_send("x".repeat(3_000_000));
    assert!(sent.is_ok(), "the server reads on while it lingers: {sent:?}");
    assert_eq!(client.response().status, 413);
}

#[test]
fn response_444_is_silence() {
    let site = site();
    let server = Setup::server(&site, "return 444;").run_in_process();
    let (bytes, ending) = server.connect().send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").rest();
    assert!(bytes.is_empty() && ending != ConnectionEnd::Silent);
}

#[test]
fn repeated_fields_are_joined() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "return 200 \"[$http_x] [$http_cookie]\";").in_process();
    let response = server.get_with("/", "X: a\r\nX: b\r\nCookie: c=1\r\nCookie: d=2\r\n");
    assert_eq!(response.text(), "[a, b] [c=1; d=2]");
}

#[test]
fn a_head_may_take_all_its_buffers() {
    let site = site();
    let server = Setup::server(&site, "return 200 \"$http_last\";").run_in_process();
    let fields: String = (0..3).map(|n| format!("X{n}: {}\r\n", "v".repeat(7000))).collect();
    let response = server.get_with("/", &format!("{fields}Last: seen\r\n"));
    assert_eq!((response.status, response.text().as_str()), (200, "seen"));
}

/// The limit is that of the default server, and then that of the server that is asked.
#[test]
fn a_head_may_have_so_many_fields() {
    let http = "max_headers 6;
        server { listen 127.0.0.1:@PORT@; return 200 default; error_page 400 /error; }
        server { listen 127.0.0.1:@PORT@; server_name few; max_headers 4; return 200 few; }
        server { listen 127.0.0.1:@PORT@; server_name many; max_headers 100; return 200 many; }
        server { listen 127.0.0.1:@PORT2@; max_headers 0; return 200 all; }
        server { listen 127.0.0.1:@PORT3@; max_headers 2000; return 200 most; }";
    let server = Setup::new().http(http).in_process();
    // Those that are ignored count, too.
    let ask = |host: &str, fields: usize| {
        let others: String = (1..fields).map(|n| if n % 2 == 0 { "X-Y: z\r\n" } else { "X_Y: z\r\n" }).collect();
        format!("GET / HTTP/1.1\r\nHost: {host}\r\n{others}\r\n")
    };
    for (host, fields, status) in
        [("x", 6, 200), ("x", 7, 400), ("few", 4, 200), ("few", 5, 400), ("many", 6, 200), ("many", 7, 400)]
    {
        let response = server.send(ask(host, fields));
        assert_eq!((response.status, response.says_close()), (status, status == 400), "{host} {fields}");
    }
    server
        .logs("client sent too many header lines while reading client request headers, client: 127.0.0.1, server: few");
    for (number, fields, status) in [(2, 1500, 200), (3, 2000, 200), (3, 2001, 400)] {
        let mut client = TestClient::connect(server.address_number(number));
        assert_eq!(client.send(ask("x", fields)).response().status, status, "{number} {fields}");
    }
}

#[test]
fn a_redirect_adds_no_field() {
    let site = site();
    let lines = "location /path { return 302 $uri; } location /url { return 302 http://x$uri; }";
    let server = Setup::server(&site, lines).in_process();
    for target in ["/path%0d%0aX-Bad:1", "/url%0d%0aX-Bad:1", "/path%0aX-Bad:1", "/url%00%0dX-Bad:1"] {
        let response = server.get(target);
        assert!(matches!(response.status, 302 | 400), "{}", response.line);
        assert_eq!(response.header("X-Bad"), None, "{target}");
    }
}
