//! Responses of upstream servers, from those that are kept to those that are passed on as they come.

use freerun_testkit::http2::{FieldBlock, Frame, Http2Peer, ServerReply, StreamEnd, answering, kind, setting};
use freerun_testkit::{TestUpstream, TlsServer, eventually};

use super::{accept, connect, proxied, setup};

/// Bytes that differ everywhere.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 253) as u8).collect()
}

#[test]
fn a_request_is_in_the_terms_of_http2() {
    let upstream = TestUpstream::new();
    let lines = "proxy_set_header X-Own set; proxy_set_header Upgrade $http_upgrade; proxy_set_header Host $host;";
    let server = proxied(&[&upstream], lines).freerun();
    let mut client = server.connect();
    client.send(
        "POST /a%20b?c=d HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, x-hop\r\nTE: trailers, gzip\r\n\
         Keep-Alive: 5\r\nUpgrade: x\r\nX-Some: thing\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    let mut peer = accept(&upstream);
    let asked = peer.request();
    let all: Vec<_> = asked.message.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", "/a%20b?c=d")];
    assert_eq!(all[..4], expected);
    for (name, value) in [("x-own", "set"), ("content-length", "3"), ("te", "trailers"), ("x-some", "thing")] {
        assert_eq!(asked.message.all(name), [value], "{all:?}");
    }
    // What belongs to a connection the harness refuses by itself.
    assert_eq!(asked.message.body, b"abc");
    peer.answer(asked.stream, &ServerReply::ok("done").field("x-answer", "1"));
    let response = client.response();
    assert_eq!((response.status, response.header("x-answer"), response.text().as_str()), (200, Some("1"), "done"));
    assert_eq!(response.header("content-length"), Some("4"));
}

#[test]
fn bodies_of_all_sizes_arrive_whole_buffered_or_not() {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    let lines = "proxy_http_version 2; proxy_buffers 8 4k;
                 location /buffered/ { proxy_pass http://backend; }
                 location /unbuffered/ { proxy_buffering off; proxy_pass http://backend; }";
    let server = setup(&format!("server {address};"), lines).freerun();
    let _upstream = answering(upstream, |asked| {
        let length = asked.path().rsplit('/').next().and_then(|length| length.parse().ok()).unwrap_or(0);
        let reply = ServerReply { status: 200, ..ServerReply::default() }.body(content(length));
        if asked.path().contains("announced") { reply.field("content-length", &length.to_string()) } else { reply }
    });
    let mut http2 = connect(&server);
    for way in ["buffered/announced", "buffered/ended", "unbuffered/announced", "unbuffered/ended"] {
        for size in [0, 1, 4095, 16_384, 16_385, 65_535, 65_536, 1_000_000, 5_000_000] {
            let answer = http2.get(&format!("/{way}/{size}"));
            assert_eq!((answer.status, answer.end), (200, StreamEnd::Whole), "{way} {size}");
            assert!(answer.body() == content(size), "{way}: {size} bytes");
            if size < 1_000_000 {
                assert_eq!(server.get(&format!("/{way}/{size}")).body, content(size), "{way}: {size} bytes");
            }
        }
    }
}

#[test]
fn an_unbuffered_response_is_passed_on_as_it_comes() {
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], "proxy_buffering off;").freerun();
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/");
    let mut peer = accept(&upstream);
    let asked = peer.request();
    peer.answer_head(asked.stream, 200, &[("x-answer", "1")], false);
    assert_eq!(http2.head(stream), 200);
    for part in ["one", "two", "three"] {
        peer.send(Frame::data(asked.stream, part));
        let before = http2.message(stream).map_or(0, |message| message.body.len());
        assert!(http2.body_of(stream, before + part.len()).ends_with(part.as_bytes()));
    }
    peer.send(Frame::data(asked.stream, "").end());
    assert_eq!(http2.answer(stream).text(), "onetwothree");
}

/// Who does not read gets what the buffers and the window hold; the server is not asked for more, and others are served.
#[test]
fn a_client_that_does_not_read_holds_up_nobody_else() {
    let upstream = TestUpstream::new();
    let lines = "proxy_buffering off; proxy_buffers 4 8k; proxy_buffer_size 8k;";
    let server = proxied(&[&upstream], lines).freerun();
    let mut slow = freerun_testkit::http2::Http2::with(server.connect(), &[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    slow.greeted().windows_by_hand();
    let stalled = slow.ask_for("/slow");
    let mut peer = accept(&upstream);
    let asked = peer.request();
    peer.answer_head(asked.stream, 200, &[], false);
    let mut sent = 0;
    while peer.room(asked.stream) > 0 {
        let part = peer.room(asked.stream).min(16_000);
        peer.send(Frame::data(asked.stream, vec![b'x'; part]));
        sent += part;
        // What opens the window again has come before this.
        peer.round_trip();
        assert!(sent < 2_000_000, "the window has no end");
    }
    assert_eq!(slow.body_of(stalled, 1000).len(), 1000);
    let mut quick = connect(&server);
    let stream = quick.ask_for("/quick");
    let other = peer.request();
    peer.answer(other.stream, &ServerReply::ok("quick"));
    assert_eq!(quick.answer(stream).text(), "quick");
    // The slow one goes on when it reads.
    slow.open_window(stalled, 1 << 30);
    slow.open_window(0, 1 << 30);
    assert_eq!(slow.body_of(stalled, sent).len(), sent);
    peer.send(Frame::data(asked.stream, "").end());
    assert!(slow.answer(stalled).is_whole());
}

#[test]
fn responses_are_cached_and_revalidated() {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    let lines =
        "proxy_http_version 2; proxy_cache all; proxy_cache_revalidate on; add_header X-Cache $upstream_cache_status;
                 location / { proxy_pass http://backend; }";
    let server =
        setup(&format!("server {address};"), lines).http("proxy_cache_path @DIR@/cache keys_zone=all:1m;").freerun();
    let _upstream = answering(upstream, |asked| {
        let reply = match asked.field("if-none-match") {
            Some("\"tag\"") => ServerReply { status: 304, ..ServerReply::default() },
            _ => ServerReply::ok("cached"),
        };
        let age = if asked.path() == "/fresh" { "max-age=1000" } else { "max-age=1" };
        reply.field("cache-control", age).field("etag", "\"tag\"")
    });
    let mut http2 = connect(&server);
    let mut get = |path| {
        let answer = http2.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, "cached"), "{path}");
        answer.header("x-cache").unwrap_or_default().to_owned()
    };
    for (path, expected) in [("/fresh", "MISS"), ("/fresh", "HIT"), ("/old", "MISS")] {
        assert_eq!(get(path), expected, "{path}");
    }
    // It is old after a second.
    eventually("it is asked for again", || match get("/old").as_str() {
        "HIT" => false,
        other => {
            assert_eq!(other, "REVALIDATED");
            true
        }
    });
}

#[test]
fn trailers_reach_clients_of_both_versions() {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    let lines = "proxy_http_version 2; location / { proxy_pass_trailers on; proxy_pass http://backend; }
                 location /without { proxy_pass http://backend; }";
    let server = setup(&format!("server {address};"), lines).freerun();
    let _upstream = answering(upstream, |_| {
        let reply = ServerReply { status: 200, ..ServerReply::default() }.body("body");
        reply.trailer("x-sum", "17").trailer("content-length", "3")
    });
    let mut http2 = connect(&server);
    let answer = http2.get("/");
    assert_eq!((answer.text().as_str(), answer.trailer("x-sum")), ("body", Some("17")));
    assert_eq!(answer.trailer("content-length"), None);
    let answer = http2.get("/without");
    assert_eq!((answer.text().as_str(), answer.trailer("x-sum")), ("body", None));
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: close, te\r\n\r\n");
    let (text, _) = client.rest();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    assert!(text.ends_with("4\r\nbody\r\n0\r\nx-sum: 17\r\n\r\n"), "{text}");
}

#[test]
fn servers_with_tls_agree_by_alpn() {
    let upstream = TestUpstream::tls(TlsServer::new("ec").alpn(&["http/1.1", "h2"]));
    let lines = "proxy_http_version 2; location / { proxy_pass https://backend; }
                 location /call { grpc_pass grpcs://backend; }";
    let server = setup(&super::group(&[&upstream]), lines).freerun();
    let mut http2 = connect(&server);
    for path in ["/", "/call"] {
        let stream = http2.ask_for(path);
        let mut peer = upstream.accept();
        assert_eq!(peer.visitor().alpn.as_deref(), Some("h2"));
        let mut peer = Http2Peer::new(peer);
        let asked = peer.request();
        assert_eq!((asked.path(), asked.field(":scheme")), (path, Some("https")));
        peer.answer(asked.stream, &ServerReply::ok("secret"));
        assert_eq!(http2.answer(stream).text(), "secret");
    }
}

#[test]
fn a_server_with_tls_that_has_no_http2_is_told() {
    let upstream = TestUpstream::tls(TlsServer::new("ec"));
    let lines = "proxy_http_version 2; location / { proxy_pass https://backend; }";
    let server = setup(&super::group(&[&upstream]), lines).freerun();
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/");
    let mut peer = upstream.accept();
    let _ = peer.try_visitor();
    assert_eq!(http2.answer(stream).status, 502);
    server.logs("upstream does not speak HTTP/2 (ALPN \"h2\") while SSL handshaking to upstream");
}

/// What breaks the rules is an error of the server; a malformed response ends its stream alone.
#[test]
fn wrong_responses_are_errors_of_the_server() {
    type Wrong = fn(u32) -> Vec<Frame>;
    let cases: [(&str, Wrong, bool); 6] = [
        ("no :status", |stream| vec![Frame::headers(stream, FieldBlock::new().field("a", "b"))], true),
        (
            "a field of a connection",
            |stream| vec![Frame::headers(stream, FieldBlock::status(200).field("connection", "close"))],
            true,
        ),
        ("DATA before the head", |stream| vec![Frame::data(stream, "x")], true),
        ("a block that is none", |stream| vec![Frame::headers(stream, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])], false),
        ("a frame that is too long", |stream| vec![Frame::data(stream, vec![0; 20_000])], false),
        ("PUSH_PROMISE", |stream| vec![Frame::new(kind::PUSH_PROMISE, 4, stream, [0, 0, 0, 2, 0x88])], false),
    ];
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], "proxy_next_upstream off;").freerun();
    let mut http2 = connect(&server);
    let mut peer: Option<Http2Peer> = None;
    for (what, wrong, lasts) in cases {
        let stream = http2.ask_for("/");
        let mut here = peer.take().unwrap_or_else(|| accept(&upstream));
        let asked = here.request();
        here.send_all(&wrong(asked.stream));
        assert_eq!(http2.answer(stream).status, 502, "{what}");
        if lasts {
            peer = Some(here);
        } else {
            let ending = here.ending();
            assert!(here.away().last().is_some_and(|away| away.code != 0), "{what}: {ending:?}");
        }
    }
}
