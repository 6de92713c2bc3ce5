//! Requests and their responses.

use std::time::Duration;

use freerun_testkit::{ConnectionEnd, Site, TestServer, TestUpstream, ok, require};

use super::{behind, connections, content, pair};

/// Sends a request with this body, and returns the text of the answer.
fn post(server: &TestServer, target: &str, body: &[u8]) -> String {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = server.connect();
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    let sending = client.send_meanwhile(bytes);
    let answer = client.response();
    sending.join().expect("a sender that ends");
    answer.text()
}

#[test]
fn files_are_passed_on_whole_and_over_one_connection() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("small", "hello").file("large", content(5_000_000)).file("empty", "");
    let server = pair(&site, "", "").freerun();
    let small = server.get("/small");
    assert_eq!((small.status, small.text().as_str(), small.header("content-length")), (200, "hello", Some("5")));
    let large = server.get("/large");
    assert!(large.body == content(5_000_000), "{} bytes", large.body.len());
    assert_eq!(server.get("/empty").text(), "");
    assert_eq!(server.get("/nothing").status, 404);
    let lines = server.access_lines(4);
    assert!(lines.iter().all(|line| line.starts_with("HTTP/3.0|GET|/")), "{lines:?}");
    assert_eq!(connections(&lines).len(), 1, "{lines:?}");
}

#[test]
fn responses_without_a_body_end_with_their_heads() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", "hello");
    let server = pair(&site, "location /none { return 204; }", "").freerun();
    let mut client = server.connect();
    client.send("HEAD /file HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    assert_eq!(client.get("/none").status, 204);
    let modified = client.get("/file").header("last-modified").expect("a date").to_owned();
    client.send(format!("GET /file HTTP/1.1\r\nHost: localhost\r\nIf-Modified-Since: {modified}\r\n\r\n"));
    assert_eq!(client.response().status, 304);
    assert_eq!(client.get("/file").text(), "hello");
    assert_eq!(connections(&server.access_lines(5)).len(), 1);
}

#[test]
fn bodies_are_sent_whole_whether_or_not_they_are_buffered() {
    if !require::freerun() {
        return;
    }
    let answering = TestUpstream::answering(|request| {
        assert!(request.body == content(request.body.len()), "another body");
        ok(format!("{} {:?}", request.body.len(), request.header("transfer-encoding")))
    });
    let lines =
        "client_max_body_size 0; location /unbuffered { proxy_request_buffering off; proxy_pass https://backend; }";
    let upstream = "client_max_body_size 0; proxy_request_buffering off; proxy_http_version 1.1;";
    let server = behind(&answering, upstream, lines).freerun();
    for target in ["/", "/unbuffered"] {
        for length in [0, 1, 70_000, 3_000_000] {
            assert_eq!(post(&server, target, &content(length)), format!("{length} None"), "{target}");
        }
        let mut client = server.connect();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"));
        let body = content(9);
        for piece in body.chunks(4) {
            client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        }
        client.send("0\r\n\r\n");
        assert!(client.response().text().starts_with("9 "), "{target}");
    }
}

#[test]
fn interim_heads_and_trailers_are_passed_on() {
    if !require::freerun() {
        return;
    }
    let answering = TestUpstream::answering(|request| match request.target() {
        "/hints" => [b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".as_slice(), &ok("after hints")].concat(),
        _ => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n";
            format!("{head}3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n").into_bytes()
        }
    });
    let lines = "early_hints 1; proxy_pass_trailers on;";
    let server = behind(&answering, &format!("{lines} proxy_http_version 1.1;"), lines).freerun();
    let mut client = server.connect();
    client.send("GET /hints HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let interim = client.response();
    assert_eq!((interim.status, interim.header("link")), (103, Some("</a.css>")));
    assert_eq!(client.response().text(), "after hints");
    client.send("GET /trailers HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: te\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.text().as_str(), &answer.trailers[..]), ("abc", &[("x-sum".to_owned(), "7".to_owned())][..]));
}

/// A server that breaks off has its response broken off, and the connection serves the next request.
#[test]
fn a_response_that_is_cut_short_does_not_look_whole() {
    if !require::freerun() {
        return;
    }
    let answering = TestUpstream::new();
    let address = answering.address();
    let server = super::behind_address(&address, "proxy_buffering off;", "proxy_buffering off;").freerun();
    for head in ["Content-Length: 100000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut client = server.connect();
        client.send("GET /cut HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut peer = answering.accept();
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n1000\r\n{}", "x".repeat(4000)));
        client.at_least(4050);
        drop(peer);
        let (text, end) = client.rest();
        assert!(text.starts_with(b"HTTP/1.1 200") && !text.ends_with(b"0\r\n\r\n"), "{head}");
        assert_ne!(end, ConnectionEnd::Silent, "{head}");
    }
    let mut client = server.connect();
    client.send("GET /whole HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut peer = answering.accept();
    peer.request();
    peer.send(ok("whole"));
    assert_eq!(client.response().text(), "whole");
    assert_eq!(connections(&server.access_lines(3)).len(), 1);
}

/// A client that goes has its stream reset; others on the connection go on.
#[test]
fn a_client_that_goes_ends_its_stream_alone() {
    if !require::freerun() {
        return;
    }
    let answering = TestUpstream::new();
    let server = super::behind_address(&answering.address(), "", "").freerun();
    let mut first = server.connect();
    first.send("GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut peer = answering.accept();
    peer.request();
    let mut second = server.connect();
    second.send("GET /second HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut other = answering.accept();
    other.request();
    first.reset();
    assert!(peer.rest().is_empty(), "the request goes on");
    other.send(ok("second"));
    assert_eq!(second.response().text(), "second");
    let lines = server.access_lines(2);
    assert!(lines.iter().any(|line| line.contains("|/first|499|")), "{lines:?}");
    assert_eq!(connections(&lines).len(), 1);
}

#[test]
fn many_requests_at_once_share_a_connection_as_far_as_the_server_allows() {
    if !require::freerun() {
        return;
    }
    let answering = TestUpstream::answering(|request| {
        std::thread::sleep(Duration::from_millis(5));
        ok(request.target())
    });
    for (limit, most) in [("", 2), ("http3_max_concurrent_streams 3;", 40)] {
        let server = behind(&answering, limit, "").freerun();
        assert_eq!(server.get("/warm").text(), "/warm");
        let clients: Vec<_> = (0..40)
            .map(|number| {
                let mut client = server.connect();
                client.send(format!("GET /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
                client
            })
            .collect();
        for (number, mut client) in clients.into_iter().enumerate() {
            assert_eq!(client.response().text(), format!("/{number}"), "{limit}");
        }
        let used = connections(&server.access_lines(41)).len();
        assert!(used <= most, "{used} connections with {limit:?}");
    }
}

#[test]
fn a_slow_reader_holds_the_server_back_and_gets_everything() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("large", content(30_000_000)).file("small", "hello");
    let server = pair(&site, "", "proxy_buffering off;").freerun();
    let mut slow = freerun_testkit::TestClient::try_connect_narrow(server.address(), 4096).expect("a connection");
    slow.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    slow.at_least(1000);
    // The connection is not held up by the stream.
    assert_eq!(server.get("/small").text(), "hello");
    let (text, _) = slow.rest();
    assert!(text.ends_with(&content(30_000_000)), "{} bytes", text.len());
    assert_eq!(connections(&server.access_lines(2)).len(), 1);
}

#[test]
fn responses_are_stored() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("page", "content");
    let lines = "proxy_cache all; proxy_cache_valid 200 1m; add_header X-Cache $upstream_cache_status;";
    let setup = pair(&site, "", lines).http("proxy_cache_path @DIR@/cache keys_zone=all:1m;");
    let server = setup.freerun();
    for status in ["MISS", "HIT"] {
        let answer = server.get("/page");
        assert_eq!((answer.text().as_str(), answer.header("x-cache")), ("content", Some(status)));
    }
    let lines = server.access_lines(1);
    assert!(lines[0].starts_with("HTTP/3.0|GET|/page|200"), "{lines:?}");
}
