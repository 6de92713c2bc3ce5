//! Bodies of requests.

use super::{connect, content, plain};
use crate::worker::InProcess;
use freerun_testkit::http2::{Frame, StreamEnd, code};
use freerun_testkit::{Kind, Site, TestServer, TestUpstream, ok, require};

/// An upstream that sends the body back, behind a proxy with these lines.
fn echo(lines: &str) -> TestServer {
    let upstream = TestUpstream::answering(|request| {
        let told = request.header("content-length").or(request.header("transfer-encoding")).unwrap_or("none");
        let head = format!("HTTP/1.1 200 OK\r\nX-Told: {told}\r\nContent-Length: {}\r\n\r\n", request.body.len());
        [head.as_bytes(), &request.body].concat()
    });
    let lines = format!(
        "client_max_body_size 20m; location / {{ proxy_http_version 1.1; proxy_pass http://{}; {lines} }}",
        upstream.address()
    );
    plain(&Site::new(), &lines).run_in_process()
}

#[test]
fn bodies_with_and_without_a_length() {
    for buffering in ["on", "off"] {
        let server = echo(&format!("proxy_request_buffering {buffering};"));
        let mut http2 = connect(&server);
        for size in [0, 1, 1000, 16_384, 65_535, 65_536, 65_537, 3_000_000] {
            let body = content(size);
            let answer = http2.post("/", &body);
            assert_eq!(answer.header("x-told"), Some(size.to_string().as_str()), "{buffering}");
            assert!(answer.body() == body, "{buffering}: {size} bytes");
            let stream = http2.begin(http2.block("POST", "/"));
            http2.upload(stream, &body, true);
            let answer = http2.answer(stream);
            // A buffered body has a length by then.
            let told = if buffering == "on" { size.to_string() } else { "chunked".to_owned() };
            let told = if size == 0 && buffering == "on" { "0".to_owned() } else { told };
            assert_eq!(answer.header("x-told"), Some(told.as_str()), "{buffering}: {size} bytes without a length");
            assert!(answer.body() == body, "{buffering}: {size} bytes without a length");
        }
    }
}

#[test]
fn a_body_in_small_and_padded_and_empty_frames() {
    for buffering in ["on", "off"] {
        let server = echo(&format!("proxy_request_buffering {buffering};"));
        let mut http2 = connect(&server);
        let stream = http2.begin(http2.block("POST", "/"));
        let body = content(2000);
        for (number, piece) in body.chunks(10).enumerate() {
            http2.send(Frame::data(stream, piece).padded((number % 256) as u8));
            if number % 50 == 0 {
                http2.send(Frame::data(stream, []));
            }
        }
        http2.send(Frame::data(stream, []).end());
        assert!(http2.answer(stream).body() == body, "{buffering}");
    }
}

#[test]
fn a_body_whose_end_is_a_block_of_trailers() {
    // nginx reads them since 1.27.
    if !require::freerun() {
        return;
    }
    let server = echo("");
    let mut http2 = connect(&server);
    let stream = http2.begin(http2.block("POST", "/"));
    http2.send(Frame::data(stream, "body"));
    http2.send(Frame::headers(stream, freerun_testkit::http2::FieldBlock::new().field("x-sum", "1")).end());
    assert_eq!(http2.answer(stream).text(), "body");
    assert_eq!(http2.post("/", "next").text(), "next");
}

#[test]
fn a_body_of_another_length_than_it_says() {
    let server = echo("");
    // A body that is too short, and one that is too long.
    for (said, body) in [("10", "short"), ("2", "longer")] {
        let mut http2 = connect(&server);
        let stream = http2.begin(http2.block("POST", "/").field("content-length", said));
        http2.send(Frame::data(stream, body).end());
        let answer = http2.answer(stream);
        match server.kind() {
            // nginx answers with its page, or resets the stream.
            Kind::Nginx => assert!(answer.status == 400 || answer.end != StreamEnd::Whole, "{said}: {answer:?}"),
            Kind::Freerun => {
                assert!(matches!(answer.status, 0 | 400), "{said}: {answer:?}");
                assert_eq!(http2.reset_of(stream), code::PROTOCOL_ERROR, "{said}");
            }
        }
        assert_eq!(http2.post("/", "next").text(), "next");
    }
}

#[test]
fn a_body_that_is_too_large() {
    let upstream = TestUpstream::answering(|request| ok(&request.body));
    let lines = format!("client_max_body_size 1k; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = plain(&Site::new(), &lines).run_in_process();
    let mut http2 = connect(&server);
    // By its length, before any of it has come.
    let stream = http2.begin(http2.block("POST", "/").field("content-length", "1025"));
    assert_eq!(http2.answer(stream).status, 413);
    // As it comes.
    let stream = http2.begin(http2.block("POST", "/"));
    http2.upload(stream, &content(100_000), true);
    assert_eq!(http2.answer(stream).status, 413);
    assert_eq!(http2.post("/", content(1024)).status, 200);
    assert_eq!(http2.away(), []);
    server.logs("client intended to send too large body: 1025 bytes");
}

/// The client may stop sending: the stream ends with NO_ERROR behind the answer (RFC 9113 section 8.1).
#[test]
fn a_body_that_nobody_reads_is_not_waited_for() {
    let server = plain(&Site::new(), "client_max_body_size 0; location / { return 410; }").run_in_process();
    let mut http2 = connect(&server);
    for _ in 0..5 {
        let stream = http2.begin(http2.block("POST", "/").field("content-length", "100000000"));
        assert_eq!(http2.answer(stream).status, 410);
        assert_eq!(http2.reset_of(stream), code::NO_ERROR);
    }
    assert_eq!(http2.away(), []);
}

/// The same holds for a body whose length is not known, and which does not come.
#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let server = plain(&Site::new(), "location / { return 410; }").run_in_process();
    let mut http2 = connect(&server);
    let streams: Vec<u32> = (0..5).map(|_| http2.begin(http2.block("POST", "/"))).collect();
    for stream in streams {
        assert_eq!(http2.answer(stream).status, 410);
        assert_eq!(http2.reset_of(stream), code::NO_ERROR);
    }
    assert_eq!(http2.get("/").status, 410);
    assert_eq!(http2.away(), []);
}

/// The windows of a body that nobody reads are not lost to the connection.
#[test]
fn bodies_that_nobody_reads_do_not_use_up_the_connection() {
    let server = plain(&Site::new(), "client_max_body_size 0; location / { return 200 ok; }").run_in_process();
    let mut http2 = connect(&server);
    http2.greeted();
    for _ in 0..40 {
        // All that the stream's window allows comes, whatever the server says meanwhile.
        let stream = http2.begin(http2.block("POST", "/"));
        let room = http2.room(stream).min(65_535);
        for piece in content(room).chunks(16_384) {
            http2.send(Frame::data(stream, piece));
        }
        assert_eq!(http2.answer(stream).text(), "ok");
    }
    http2.round_trip();
    assert!(http2.room(0) >= 65_535, "{} bytes", http2.room(0));
}

#[test]
fn a_client_that_gives_up_does_not_hurt_others() {
    let server = echo("proxy_request_buffering off;");
    let mut http2 = connect(&server);
    for _ in 0..20 {
        let stream = http2.begin(http2.block("POST", "/").field("content-length", "100000"));
        http2.send(Frame::data(stream, content(10_000)));
        http2.send(Frame::reset(stream, code::CANCEL));
    }
    assert_eq!(http2.post("/", "next").text(), "next");
}

#[test]
fn a_length_that_is_expected_needs_no_word() {
    let server = echo("");
    let mut http2 = connect(&server);
    let stream = http2.begin(http2.block("POST", "/").fields(&[("content-length", "4"), ("expect", "100-continue")]));
    http2.send(Frame::data(stream, "body").end());
    let answer = http2.answer(stream);
    assert_eq!((answer.status, answer.text().as_str()), (200, "body"));
}

#[test]
fn uploads_beside_each_other() {
    for buffering in ["on", "off"] {
        let server = echo(&format!("proxy_request_buffering {buffering};"));
        let mut http2 = connect(&server);
        let bodies: Vec<Vec<u8>> = (1..=10).map(|number| content(number * 20_000)).collect();
        let streams: Vec<u32> = bodies.iter().map(|_| http2.begin(http2.block("POST", "/"))).collect();
        for place in (0..200_000).step_by(5000) {
            for (stream, body) in streams.iter().zip(&bodies) {
                if let Some(piece) = body.get(place..place + 5000) {
                    http2.upload(*stream, piece, place + 5000 == body.len());
                }
            }
        }
        for (stream, body) in streams.iter().zip(&bodies) {
            assert!(http2.answer(*stream).body() == *body, "{buffering}");
        }
    }
}

#[test]
fn an_upload_that_stands_still_ends() {
    let site = Site::new();
    let upstream = TestUpstream::answering(|_| ok("served"));
    let lines = format!("client_body_timeout 1s; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = plain(&site, &lines).run_in_process();
    let mut http2 = connect(&server);
    let stream = http2.begin(http2.block("POST", "/").field("content-length", "10"));
    http2.send(Frame::data(stream, "begun"));
    let answer = http2.answer(stream);
    assert!(answer.status == 408 || matches!(answer.end, StreamEnd::Reset(_)), "{answer:?}");
    // Only the stream ends.
    assert_eq!(http2.get("/").text(), "served");
    server.logs("client timed out");
}

#[test]
fn more_than_the_window_resets_the_stream() {
    if !require::freerun() {
        return;
    }
    // As long as this server does not answer, nobody reads the body.
    let silent = TestUpstream::new();
    let lines = format!(
        "location / {{ auth_request /auth; }} location /auth {{ proxy_pass http://{}; }}
         location /ok {{ return 200 ok; }}",
        silent.address()
    );
    let server = plain(&Site::new(), &lines).run_in_process();
    let mut http2 = connect(&server);
    http2.greeted();
    let stream = http2.begin(http2.block("POST", "/"));
    let room = http2.room(stream);
    for piece in content(room + 1).chunks(16_384) {
        http2.send(Frame::data(stream, piece));
    }
    assert_eq!(http2.answer(stream).end, StreamEnd::Reset(code::FLOW_CONTROL_ERROR));
    assert_eq!(http2.get("/ok").text(), "ok");
}
