//! Limits of heads, and modules that count streams.

use super::{connect, content, plain};
use freerun_testkit::http2::{FieldBlock, Frame, Http2, StreamEnd, code, flag, setting};
use freerun_testkit::{ConnectionEnd, Site, TestUpstream, ok, require};

const CALM: StreamEnd = StreamEnd::Gone(ConnectionEnd::Closed, Some(code::ENHANCE_YOUR_CALM));

#[test]
fn fields_and_heads_within_large_client_header_buffers() {
    let lines = "large_client_header_buffers 4 1k; location / { return 200 ok; }";
    let server = plain(&Site::new(), lines).run();
    let mut http2 = connect(&server);
    assert_eq!(http2.get_with("/", &[("x-a", &"x".repeat(900))]).text(), "ok");
    let many: Vec<(String, String)> = (0..20).map(|number| (format!("x-{number}"), "x".repeat(150))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(http2.get_with("/", &many).text(), "ok");
    assert_eq!(http2.get(&format!("/{}", "x".repeat(900))).text(), "ok");
}

#[test]
fn a_field_or_a_head_beyond_large_client_header_buffers() {
    let lines = "large_client_header_buffers 4 1k; location / { return 200 ok; }";
    let server = plain(&Site::new(), lines).run();
    let refused = |what: &str, block: FieldBlock| {
        let mut http2 = connect(&server);
        let stream = http2.next_stream();
        let whole = Frame::headers(stream, &block).end();
        http2.expect(stream);
        let _ = http2.try_send_bytes(whole.bytes());
        assert_eq!(http2.answer(stream).end, CALM, "{what}");
    };
    refused("a long value", FieldBlock::get("/").field("x-a", "x".repeat(1100)));
    refused("a long name", FieldBlock::get("/").field("x".repeat(1100), "x"));
    refused("a long path", FieldBlock::get(&format!("/{}", "x".repeat(1100))));
    let many = (0..50).fold(FieldBlock::get("/"), |block, number| block.field(format!("x-{number}"), "x".repeat(150)));
    refused("many fields", many);
    // Fields of the table count like others.
    let bomb = (0..10).fold(FieldBlock::get("/").kept("x-a", "x".repeat(900)), |block, _| block.indexed(62));
    refused("one field many times", bomb);
    server.logs("client sent too large header");
}

#[test]
fn a_head_over_the_limit_of_their_number() {
    if !freerun_testkit::require::freerun() {
        return;
    }
    let server = plain(&Site::new(), "max_headers 10; location / { return 200 ok; }").run();
    let with =
        |count: usize| (0..count).fold(FieldBlock::get("/"), |block, number| block.field(format!("x-{number}"), "x"));
    let mut http2 = connect(&server);
    assert_eq!(http2.exchange(with(9)).text(), "ok");
    assert_eq!(http2.exchange(with(11)).status, 400);
    assert_eq!(http2.exchange(with(1)).text(), "ok");
}

#[test]
fn limit_conn_counts_streams() {
    let site = Site::new();
    site.file("file", content(100_000));
    let setup = plain(&site, "location /file { limit_conn c 2; } location / { return 200 ok; }")
        .http("limit_conn_zone $binary_remote_addr zone=c:1m;");
    let server = setup.run();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand();
    let held = [http2.ask_for("/file"), http2.ask_for("/file")];
    for stream in held {
        assert_eq!(http2.head(stream), 200);
    }
    let refused = http2.ask_for("/file");
    assert_eq!(http2.head(refused), 503);
    // From another connection, too.
    let other = connect(&server).get("/file");
    assert_eq!(other.status, 503);
    // A stream that ends makes room, however it ends.
    http2.send(Frame::reset(held[0], code::CANCEL)).round_trip();
    let next = http2.ask_for("/file");
    assert_eq!(http2.head(next), 200);
    server.logs("limiting connections by zone \"c\"");
}

#[test]
fn limit_req_counts_streams() {
    let setup = plain(&Site::new(), "limit_req zone=r; location / { try_files /none =404; }")
        .http("limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;");
    let server = setup.run();
    let mut http2 = connect(&server);
    let statuses: Vec<u16> = (0..3).map(|_| http2.get("/").status).collect();
    assert_eq!(statuses, [404, 503, 503]);
}

#[test]
fn access_passwords_and_subrequests() {
    let site = Site::new();
    site.file("file", "content");
    let lines =
        "location /denied { deny all; } location /asked { auth_request /judge; root @ROOT@; rewrite ^ /file break; }
                 location = /judge { internal; if ($http_x_pass) { return 200; } return 401; }";
    let server = plain(&site, lines).run();
    let mut http2 = connect(&server);
    assert_eq!(http2.get("/denied").status, 403);
    assert_eq!(http2.get("/asked").status, 401);
    let answer = http2.get_with("/asked", &[("x-pass", "1")]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "content"));
}

#[test]
fn send_timeout_ends_what_a_client_does_not_take() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = plain(&site, "send_timeout 1s; keepalive_timeout 1h; location /ok { return 200 ok; }").run();
    let mut http2 = Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    http2.windows_by_hand();
    let stream = http2.ask_for("/file");
    let answer = http2.answer(stream);
    // The stream alone may end, or the connection, which has no other one.
    assert!(
        answer.end != StreamEnd::Whole && answer.end != StreamEnd::Gone(ConnectionEnd::Silent, None),
        "{:?}",
        answer.end
    );
    server.logs("client timed out");
}

/// A client that has the end of a stream is let in again at once, on whatever connection it comes.
#[test]
fn a_place_is_free_before_the_end_of_a_stream_is_seen() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("small", content(100)).file("large", content(500_000));
    let upstream = TestUpstream::answering(|_| ok(content(100_000)));
    let lines = format!(
        "limit_conn c 1; location /none {{ return 204; }} location /text {{ return 200 text; }}
         location /trailer {{ add_trailer X-A b; return 200 text; }}
         location /proxied {{ proxy_pass http://{}; }}",
        upstream.address()
    );
    let setup = plain(&site, &lines).http("limit_conn_zone $server_name zone=c:1m;");
    let server = setup.main("worker_processes 4;").freerun();
    let mut clients: Vec<Http2> = (0..6).map(|_| connect(&server)).collect();
    for round in 0..15 {
        for (number, path) in ["/none", "/text", "/trailer", "/small", "/large", "/proxied"].iter().enumerate() {
            let status = clients[(round + number) % 6].get(path).status;
            assert!(matches!(status, 200 | 204), "{path} in round {round}: {status}");
        }
    }
}

#[test]
fn a_block_beyond_a_frame_is_limited_as_any_other() {
    let server = plain(&Site::new(), "large_client_header_buffers 8 16k; location / { return 200 ok; }").run();
    let mut http2 = connect(&server);
    // 100,000 bytes of fields in CONTINUATIONs.
    let block =
        (0..8).fold(http2.block("GET", "/"), |block, number| block.field(format!("x-{number}"), "x".repeat(12_500)));
    let stream = http2.next_stream();
    let mut pieces = block.as_ref().chunks(16_000);
    let mut frames = vec![Frame::headers_begun(stream, pieces.next().expect("a piece")).end()];
    frames.extend(pieces.map(|piece| Frame::continuation(stream, piece)));
    let last = frames.len() - 1;
    frames[last].flags |= flag::END_HEADERS;
    http2.send_all(&frames);
    assert_eq!(http2.answer(stream).text(), "ok");
}
