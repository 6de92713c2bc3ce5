//! Bodies that go up slowly, or not to their ends, and downloads that nobody reads.

use super::{connect, content, quic};
use freerun_testkit::http3::{H3End, Http3, Http3Options};
use freerun_testkit::{Site, TestUpstream, ok, require};
use std::time::Duration;

#[test]
fn an_upload_waits_for_a_slow_reader() {
    if !require::freerun() {
        return;
    }
    const LENGTH: usize = 24 << 20;
    let upstream = TestUpstream::new();
    let lines = format!(
        "client_max_body_size 0; location / {{ proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    let stream = http3.start("POST", "/", &[("content-length", &LENGTH.to_string())]);
    let body = content(LENGTH);
    let mut head = Vec::new();
    freerun_proto::h3::frame::write_varint(0, &mut head);
    freerun_proto::h3::frame::write_varint(LENGTH as u64, &mut head);
    http3.write_all(stream, &head);
    let mut peer = upstream.accept();
    let text = peer.head();
    // Nobody reads the body: it stops in the buffers on the way.
    let (mut sent, mut pauses) = (0, 0);
    while pauses < 5 {
        let before = sent;
        sent += http3.write_some(stream, &body[sent..]);
        http3.run_for(Duration::from_millis(100));
        pauses = if sent == before { pauses + 1 } else { 0 };
    }
    assert!((100_000..LENGTH - (4 << 20)).contains(&sent), "{sent} bytes were taken");
    let reading = std::thread::spawn(move || {
        let body = peer.body(text);
        peer.send(ok("read"));
        body
    });
    http3.write_all(stream, &body[sent..]);
    http3.end_raw(stream);
    assert_eq!(http3.answer(stream).text(), "read");
    assert!(reading.join().expect("a reader") == body);
}

#[test]
fn a_body_in_pieces_is_read_into_a_file() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "client_body_buffer_size 2k; client_body_in_file_only clean;
         location / {{ proxy_set_header X-File $request_body_file; proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    let body = content(5120);
    let stream = http3.start("POST", "/", &[]);
    for piece in body.chunks(1000) {
        http3.upload(stream, piece);
        http3.run_for(Duration::from_millis(5));
    }
    http3.finish(stream);
    let mut peer = upstream.accept();
    let text = peer.head();
    assert!(text.to_ascii_lowercase().contains("x-file: /"), "{text}");
    assert!(peer.body(text) == body);
    peer.send(ok("read"));
    assert_eq!(http3.answer(stream).text(), "read");
}

#[test]
fn an_upstream_server_sees_that_the_client_has_gone() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = quic(&Site::new(), &format!("location / {{ proxy_pass http://{}; }}", upstream.address())).freerun();
    let mut http3 = connect(&server);
    let stream = http3.ask_for("/waits");
    let mut peer = upstream.accept();
    peer.head();
    http3.reset(stream, 0x10c);
    assert_eq!(peer.rest(), b"", "the request was given up");
    // In the middle of a response.
    let stream = http3.ask_for("/half");
    let mut peer = upstream.accept();
    peer.head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n");
    peer.send(content(100_000));
    http3.body_of(stream, 50_000);
    http3.reset(stream, 0x10c);
    while peer.try_send(content(100_000)).is_ok() {}
    // With the connection.
    let _stream = http3.ask_for("/closes");
    let mut peer = upstream.accept();
    peer.head();
    http3.close();
    assert_eq!(peer.rest(), b"", "the connection has ended");
}

#[test]
fn a_client_that_has_enough_ends_the_response_alone() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(3_000_000));
    let server = quic(&site, "location /ok { return 200 ok; }").freerun();
    let mut http3 = Http3::with(server.address_number(2), &Http3Options::new().windows(100_000, 1_000_000));
    let stream = http3.ask_for("/file");
    http3.hold(stream);
    http3.run_for(Duration::from_millis(50));
    http3.stop(stream, 0x10c);
    assert_eq!(http3.get("/ok").text(), "ok");
    assert_eq!(http3.link().end(), None);
}

#[test]
fn streams_that_are_not_read_do_not_keep_others() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(1_000_000));
    let server = quic(&site, "location /ok { return 200 ok; }").freerun();
    let mut http3 = Http3::with(server.address_number(2), &Http3Options::new().windows(65_536, 4 << 20));
    let held: Vec<u64> = (0..20)
        .map(|_| {
            let stream = http3.ask_for("/file");
            http3.hold(stream);
            stream
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(http3.get("/ok").text(), "ok");
    }
    for stream in held {
        http3.resume(stream);
        let answer = http3.answer(stream);
        assert!(answer.body() == content(1_000_000) && answer.end == H3End::Whole, "{}", answer.body().len());
    }
}

/// Chromium does not show a response whose request it is asked to stop sending, so the rest is read for a while.
#[test]
fn the_rest_of_an_answered_upload_is_thrown_away() {
    if !require::freerun() {
        return;
    }
    // Longer than a window of the server, and short enough for the last of them to come within `lingering_timeout`.
    const LENGTH: usize = 3 << 20;
    let length = LENGTH.to_string();
    let server = quic(&Site::new(), "location /ok { return 200 ok; }").freerun();
    let mut http3 = connect(&server);
    let held: Vec<u64> = (0..3).map(|_| http3.start("POST", "/refused", &[("content-length", &length)])).collect();
    for stream in held {
        assert_eq!(http3.head(stream), 413);
        assert_eq!(http3.upload(stream, &content(LENGTH)), LENGTH, "the client was asked to stop");
        http3.finish(stream);
        assert_eq!(http3.answer(stream).status, 413);
    }
    assert_eq!(http3.get("/ok").text(), "ok");
}

#[test]
fn a_client_is_asked_to_stop_when_the_rest_of_an_upload_takes_too_long() {
    if !require::freerun() {
        return;
    }
    const LENGTH: usize = 8 << 20;
    let length = LENGTH.to_string();
    // In the location that answers, and in the server.
    let lines = ["lingering_close off;", "lingering_timeout 50ms;", "lingering_time 50ms;"];
    let places = lines.map(|line| format!("location /refused {{ {line} }}"));
    let lines = places.into_iter().chain([lines[2].to_owned()]);
    for (number, line) in lines.enumerate() {
        let server = quic(&Site::new(), &format!("{line} location /ok {{ return 200 ok; }}")).freerun();
        let mut http3 = connect(&server);
        let stream = http3.start("POST", "/refused", &[("content-length", &length)]);
        assert_eq!(http3.head(stream), 413);
        let body = content(LENGTH);
        let mut sent = 0;
        // Now and then a piece, which `lingering_time` does not care about.
        let was_stopped = (0..200).any(|_| {
            let piece = &body[sent..sent + 1024];
            let taken = http3.upload(stream, piece);
            sent += taken;
            http3.run_for(Duration::from_millis(if number == 1 { 150 } else { 20 }));
            taken < piece.len()
        });
        assert!(was_stopped, "{line}");
        assert_eq!(http3.get("/ok").text(), "ok", "{line}");
    }
}

/// As many rests are read as over HTTP/2; the client is asked to stop the oldest.
#[test]
fn few_rests_of_uploads_are_read_at_the_same_time() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "").freerun();
    let mut http3 = connect(&server);
    let streams: Vec<u64> =
        (0..20).map(|_| http3.start("POST", "/refused", &[("content-length", "8000000")])).collect();
    for stream in &streams {
        assert_eq!(http3.head(*stream), 413);
    }
    http3.run_for(Duration::from_millis(50));
    let mut reads = |stream: &&u64| http3.upload(**stream, &[0; 100]) == 100;
    assert_eq!(streams.iter().filter(|stream| reads(stream)).count(), 16);
}

/// A burst of streams is looked at in several turns, and their ends come between.
#[test]
fn streams_that_end_before_they_are_looked_at_are_counted() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "http3_max_concurrent_streams 1000; location /ok { return 200 ok; }").freerun();
    let mut http3 = connect(&server);
    for round in 0..3 {
        let streams: Vec<u64> = (0..300).map(|_| http3.start("POST", "/ok", &[])).collect();
        for stream in &streams {
            match round {
                0 => http3.reset(*stream, 0x10c),
                1 => http3.stop(*stream, 0x10c),
                _ => http3.finish(*stream),
            }
        }
        http3.run_for(Duration::from_millis(20));
        assert_eq!(http3.get("/ok").text(), "ok", "{round}");
    }
    assert_eq!(http3.link().end(), None);
}
