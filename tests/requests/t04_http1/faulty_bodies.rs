//! Bodies of requests that are none: 400, and the error log says why.

use crate::worker::InProcess;
use freerun_testkit::http2::{FieldBlock, Frame, Http2};
use freerun_testkit::{AnsweringUpstream, Setup, Site, TestServer, TestUpstream, ok};

/// Locations that read the body in all the ways that there are.
fn server(upstream: &AnsweringUpstream) -> TestServer {
    let behind = upstream.address();
    let lines = format!(
        "http2 on;
         location /kept {{ proxy_pass http://{behind}; }}
         location /passed {{ proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://{behind}; }}
         location /file {{ dav_methods PUT; }}"
    );
    Setup::server(&Site::new(), &lines).http("error_log @DIR@/error.log info;").in_process()
}

const WAYS: [(&str, &str); 3] = [("POST", "/kept"), ("POST", "/passed"), ("PUT", "/file")];

#[test]
fn chunks_that_are_none() {
    let upstream = TestUpstream::answering(|_| ok("got it"));
    for (method, path) in WAYS {
        let server = server(&upstream);
        let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        let response = server.send(format!("{head}3\r\nabc\r\nzz\r\n"));
        assert_eq!(response.status, 400, "{path}");
        server.logs("client sent invalid chunked body");
        let lines = server.error_log();
        let found: Vec<&str> = lines.lines().filter(|line| line.contains("invalid chunked body")).collect();
        assert!(found.len() == 1 && found[0].contains("[error]") && found[0].contains("client: 127.0.0.1"), "{lines}");
    }
}

#[test]
fn lengths_that_are_not_kept_on_a_stream() {
    let upstream = TestUpstream::answering(|_| ok("got it"));
    for (method, path) in WAYS {
        for (body, ends, words) in [
            ("123456789", true, "client prematurely closed stream: only 9 out of 10 bytes of request body received"),
            ("12345678901", false, "client intended to send body data larger than declared"),
        ] {
            let server = server(&upstream);
            let mut http2 = Http2::new(server.connect());
            let stream = http2.begin(http2.block(method, path).field("content-length", "10"));
            let data = Frame::data(stream, body);
            http2.send(if ends { data.end() } else { data });
            assert_eq!(http2.answer(stream).status, 400, "{path}: {words}");
            server.logs(words);
            let lines = server.error_log();
            let found: Vec<&str> = lines.lines().filter(|line| line.contains(words)).collect();
            assert!(found.len() == 1 && found[0].contains("[info]") && found[0].contains(path), "{lines}");
        }
    }
}

/// Malformed trailers make a request malformed (RFC 9113 section 8.1.1); others are read and dropped.
#[test]
fn trailers_of_a_stream_are_checked() {
    let upstream = TestUpstream::answering(|_| ok("got it"));
    let server = server(&upstream);
    for (trailers, status, words) in [
        (FieldBlock::new().field("x-sum", "1"), 200, ""),
        (FieldBlock::new().field("X-Sum", "1"), 400, "client sent invalid header name: \"X-Sum\""),
        (FieldBlock::new().field("x-sum", "1\r\nx: y"), 400, "client sent header \"x-sum\" with invalid value"),
        (FieldBlock::new().field("transfer-encoding", "chunked"), 400, "client sent \"Transfer-Encoding\" header"),
        (
            FieldBlock::new().field("x-sum", " 1"),
            400,
            "client sent header \"x-sum\" with white space around its value: \" 1\"",
        ),
    ] {
        let mut http2 = Http2::new(server.connect());
        let stream = http2.begin(http2.block("POST", "/kept"));
        http2.send(Frame::data(stream, "body")).send(Frame::headers(stream, trailers).end());
        assert_eq!(http2.answer(stream).status, status, "{words}");
        if !words.is_empty() {
            server.logs(words);
        }
        // The connection goes on.
        assert_eq!(http2.get("/kept").status, 200, "{words}");
    }
}

/// A value of HTTP/2 neither begins nor ends with white space (RFC 9113 section 8.2.1); one of HTTP/1 is without it.
#[test]
fn white_space_around_a_value_is_malformed_on_a_stream() {
    let upstream = TestUpstream::answering(|request| ok(request.header("x-a").unwrap_or("none")));
    let server = server(&upstream);
    let mut http2 = Http2::new(server.connect());
    for (value, status) in
        [("a", 200), ("a b", 200), ("", 200), (" a", 400), ("a ", 400), ("\ta", 400), ("a\t", 400), (" ", 400)]
    {
        assert_eq!(http2.get_with("/kept", &[("x-a", value)]).status, status, "{value:?}");
    }
    let length = http2.ask(http2.block("GET", "/kept").field("content-length", " 5"));
    assert_eq!(http2.answer(length).status, 400);
    assert_eq!(server.get_with("/kept", "X-A: \t a \t\r\n").text(), "a");
}
