//! How connections begin, last and end.

use super::{connect, content, plain, secure};
use freerun_testkit::http2::{Away, Frame, Http2, PREFACE, StreamEnd, code, flag, kind, setting};
use freerun_testkit::{ConnectionEnd, Kind, Setup, Site, TestClient, Tls, require};
use std::time::Duration;

const OK: &str = "location / { return 200 ok; }";

#[test]
fn keepalive_requests_are_a_limit_that_loses_nothing() {
    let server = plain(&Site::new(), &format!("keepalive_requests 3; {OK}")).run();
    let mut http2 = connect(&server);
    for _ in 0..3 {
        assert_eq!(http2.get("/").text(), "ok");
    }
    let (code, ending) = http2.end();
    assert_eq!((code, ending), (Some(code::NO_ERROR), ConnectionEnd::Closed));
    // The client knows that the last request was answered.
    assert_eq!(http2.away().last().map(|away| away.last), Some(5));
}

#[test]
fn requests_beyond_keepalive_requests_may_be_sent_again() {
    let server = plain(&Site::new(), &format!("keepalive_requests 3; {OK}")).run();
    let mut http2 = connect(&server);
    let frames: Vec<Frame> =
        (0..6).map(|_| Frame::headers(http2.next_stream(), http2.block("GET", "/")).end()).collect();
    http2.send_all(&frames);
    let ends: Vec<(u16, StreamEnd)> =
        frames.iter().map(|frame| http2.answer(frame.stream)).map(|it| (it.status, it.end)).collect();
    let served = ends.iter().filter(|(status, end)| *status == 200 && *end == StreamEnd::Whole).count();
    // A server that announces the end before it comes may serve what was on its way.
    assert!(served >= 3, "{ends:?}");
    assert!(ends[served..].iter().all(|(_, end)| *end == StreamEnd::Away(code::NO_ERROR)), "{ends:?}");
    assert_eq!(http2.end(), (Some(code::NO_ERROR), ConnectionEnd::Closed));
}

#[test]
fn keepalive_timeout_0_ends_the_connection_after_its_requests() {
    let site = Site::new();
    site.file("file", content(1_000_000));
    let server = plain(&site, "keepalive_timeout 0;").run();
    let mut http2 = connect(&server);
    let answer = http2.get("/file");
    assert!(answer.is_whole() && answer.body() == content(1_000_000));
    let (code, ending) = http2.end();
    assert_eq!((code, ending), (Some(code::NO_ERROR), ConnectionEnd::Closed));
}

#[test]
fn an_idle_connection_ends_in_order() {
    let server = plain(&Site::new(), &format!("keepalive_timeout 1s; {OK}")).run();
    let mut http2 = connect(&server);
    assert_eq!(http2.get("/").text(), "ok");
    assert_eq!(http2.end(), (Some(code::NO_ERROR), ConnectionEnd::Closed));
    assert_eq!(http2.away()[0].last, 1);
    // One that has never asked for anything, too.
    let server = plain(&Site::new(), &format!("client_header_timeout 1s; keepalive_timeout 1s; {OK}")).run();
    let mut http2 = connect(&server);
    http2.greeted();
    assert_ne!(http2.end().1, ConnectionEnd::Silent);
}

#[test]
fn a_connection_with_a_request_is_not_idle() {
    let upstream = freerun_testkit::TestUpstream::new();
    let lines = format!("keepalive_timeout 1s; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = plain(&Site::new(), &lines).run();
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/");
    let mut peer = upstream.accept();
    peer.head();
    http2.set_timeout(Duration::from_millis(1500));
    assert_eq!(http2.ending(), ConnectionEnd::Silent);
    http2.set_timeout(Duration::from_secs(15));
    peer.send(freerun_testkit::ok("late"));
    assert_eq!(http2.answer(stream).text(), "late");
}

#[test]
fn a_preface_that_does_not_come() {
    let server = plain(&Site::new(), &format!("client_header_timeout 1s; {OK}")).run();
    for begun in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
        let mut client = server.connect();
        client.send(begun);
        assert_ne!(client.ending(), ConnectionEnd::Silent, "{}", begun.escape_ascii());
    }
    if server.kind() == Kind::Nginx {
        return;
    }
    // Half a frame, for which nginx waits.
    let mut http2 = connect(&server);
    http2.greeted().expect(1);
    http2.send_bytes(&Frame::headers(1, http2.block("GET", "/")).bytes()[..12]);
    assert_ne!(http2.end().1, ConnectionEnd::Silent);
}

#[test]
fn a_wrong_preface() {
    let server = secure(&Site::new(), OK).run();
    let mut http2 = Http2::bare(server.connect().tls(&Tls::new().alpn(&["h2"])));
    http2.send_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (code, ending) = http2.end();
    assert!(
        matches!(code, None | Some(code::PROTOCOL_ERROR)) && ending != ConnectionEnd::Silent,
        "{code:?} {ending:?}"
    );
    // Something else than SETTINGS behind it.
    let mut http2 = Http2::bare(server.connect().tls(&Tls::new().alpn(&["h2"])));
    http2.send_bytes(PREFACE).send(Frame::ping([0; 8]));
    // Neither server minds: there are clients without settings.
    assert!(http2.get("/").status == 200);
}

#[test]
fn the_port_speaks_http1_too() {
    // nginx does so since 1.25.1.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(100_000));
    let server = Setup::new()
        .root(&site)
        .http("server { listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; http2 on; }")
        .run();
    let mut client = server.connect();
    for _ in 0..3 {
        assert!(client.get("/file").body == content(100_000));
    }
    assert!(connect(&server).get("/file").body() == content(100_000));
}

#[test]
fn what_only_begins_like_the_preface_is_http1() {
    if !require::freerun() {
        return;
    }
    let server = plain(&Site::new(), OK).run();
    for request in ["PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n"]
    {
        for split in 1..6 {
            let mut client = server.connect();
            client.send(&request[..split]).send(&request[split..]);
            assert_eq!(client.response().text(), "ok", "{request:?} at {split}");
        }
    }
    assert_eq!(server.send("PRI / HTTP/1.1\r\nHost: h\r\n\r\n").text(), "ok");
    assert_ne!(server.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").status, 200);
}

#[test]
fn the_preface_and_the_first_requests_in_any_pieces() {
    let server = plain(&Site::new(), OK).run();
    let frames = [Frame::settings(&[]), Frame::headers(1, freerun_testkit::http2::FieldBlock::get("/")).end()];
    let bytes = [PREFACE.to_vec(), frames[0].bytes(), frames[1].bytes()].concat();
    for split in 0..bytes.len() {
        let mut http2 = Http2::bare(server.connect());
        http2.expect(1).send_bytes(&bytes[..split]).send_bytes(&bytes[split..]);
        // The answer to SETTINGS is not among what the harness has sent.
        http2.expect_settings_taken();
        assert_eq!(http2.answer(1).text(), "ok", "{split}");
    }
}

#[test]
fn proxy_protocol_comes_before_the_preface() {
    let setup = Setup::new().root(&Site::new()).http(
        "server { listen 127.0.0.1:@PORT@ http2 proxy_protocol;
                  set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
                  return 200 '$proxy_protocol_addr $remote_addr $server_protocol'; }",
    );
    let server = setup.run();
    for head in ["PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\n", "PROXY TCP6 2001:db8::9 2001:db8::1 1 2\r\n"] {
        let mut client = server.connect();
        client.send(head);
        let mut http2 = Http2::new(client);
        let address = head.split(' ').nth(2).expect("an address");
        for _ in 0..2 {
            assert_eq!(http2.get("/").text(), format!("{address} {address} HTTP/2.0"));
        }
    }
    let mut client = server.connect();
    client.send(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbb");
    assert_eq!(Http2::new(client).get("/").text(), "192.0.2.9 192.0.2.9 HTTP/2.0");
    let mut http2 = connect(&server);
    http2.expect(1);
    assert_ne!(http2.end().1, ConnectionEnd::Silent);
    server.logs("broken header");
}

#[test]
fn pings_and_settings_are_answered() {
    let server = plain(&Site::new(), OK).run();
    let mut http2 = connect(&server);
    http2.greeted();
    for number in 0..20_u8 {
        http2.send(Frame::ping([number; 8]));
        let pong = http2.until("an answer", |frame| frame.kind == kind::PING);
        assert_eq!((pong.flags, &pong.payload[..]), (flag::ACK, &[number; 8][..]));
    }
    http2.send(Frame::settings(&[(setting::ENABLE_PUSH, 0), (0x1a2a, 7)]));
    http2.until("an answer", |frame| frame.kind == kind::SETTINGS && frame.has(flag::ACK));
    // An answer to nothing is no error.
    http2.send(Frame::ping([1; 8]).with(flag::ACK)).send(Frame::settings_taken());
    assert_eq!(http2.get("/").text(), "ok");
}

#[test]
fn frames_of_unknown_types_are_no_error() {
    let server = plain(&Site::new(), OK).run();
    let mut http2 = connect(&server);
    for stream in [0, 1, 7] {
        http2.send(Frame::new(0xbe, 0xff, stream, "anything"));
    }
    assert_eq!(http2.get("/").text(), "ok");
    assert_eq!(http2.away(), []);
}

#[test]
fn a_client_says_goodbye() {
    let site = Site::new();
    site.file("file", content(1_000_000));
    let server = plain(&site, "").run();
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/file");
    http2.body_of(stream, 1);
    http2.send(Frame::goaway(0, code::NO_ERROR));
    // What it has asked for still comes.
    assert!(http2.answer(stream).body() == content(1_000_000));
}

/// Errors of the whole connection: what is sent, and the code of the answer.
#[test]
fn frames_that_end_the_connection() {
    let server = plain(&Site::new(), OK).run();
    let cases: Vec<(&str, Vec<Frame>, u32)> = vec![
        ("DATA on the connection", vec![Frame::data(0, "x")], code::PROTOCOL_ERROR),
        (
            "HEADERS on the connection",
            vec![Frame::headers(0, freerun_testkit::http2::FieldBlock::get("/"))],
            code::PROTOCOL_ERROR,
        ),
        (
            "an even stream",
            vec![Frame::headers(2, freerun_testkit::http2::FieldBlock::get("/")).end()],
            code::PROTOCOL_ERROR,
        ),
        ("RST_STREAM on the connection", vec![Frame::reset(0, 0)], code::PROTOCOL_ERROR),
        ("SETTINGS on a stream", vec![Frame { stream: 1, ..Frame::settings(&[]) }], code::PROTOCOL_ERROR),
        ("PING on a stream", vec![Frame { stream: 1, ..Frame::ping([0; 8]) }], code::PROTOCOL_ERROR),
        ("GOAWAY on a stream", vec![Frame { stream: 1, ..Frame::goaway(0, 0) }], code::PROTOCOL_ERROR),
        ("PRIORITY on the connection", vec![Frame::priority(0, 1, 1)], code::PROTOCOL_ERROR),
        (
            "PUSH_PROMISE",
            vec![Frame::new(kind::PUSH_PROMISE, flag::END_HEADERS, 1, [0, 0, 0, 2])],
            code::PROTOCOL_ERROR,
        ),
        ("CONTINUATION alone", vec![Frame::continuation(1, "x")], code::PROTOCOL_ERROR),
        (
            "something within a block",
            vec![Frame::headers_begun(1, freerun_testkit::http2::FieldBlock::get("/")), Frame::ping([0; 8])],
            code::PROTOCOL_ERROR,
        ),
        ("a short RST_STREAM", vec![Frame::new(kind::RST_STREAM, 0, 1, [0; 3])], code::FRAME_SIZE_ERROR),
        ("a short PING", vec![Frame::new(kind::PING, 0, 0, [0; 7])], code::FRAME_SIZE_ERROR),
        ("a short WINDOW_UPDATE", vec![Frame::new(kind::WINDOW_UPDATE, 0, 0, [0; 3])], code::FRAME_SIZE_ERROR),
        ("SETTINGS of 5 bytes", vec![Frame::new(kind::SETTINGS, 0, 0, [0; 5])], code::FRAME_SIZE_ERROR),
        ("an answer with settings", vec![Frame::settings(&[(3, 1)]).with(flag::ACK)], code::FRAME_SIZE_ERROR),
        ("nothing but padding", vec![Frame::new(kind::HEADERS, flag::PADDED | 4, 1, [9, 0, 0])], code::PROTOCOL_ERROR),
        ("a window beyond its limit", vec![Frame::window(0, (1 << 31) - 1)], code::FLOW_CONTROL_ERROR),
        (
            "a push that is neither on nor off",
            vec![Frame::settings(&[(setting::ENABLE_PUSH, 2)])],
            code::PROTOCOL_ERROR,
        ),
        (
            "frames that may be too short",
            vec![Frame::settings(&[(setting::MAX_FRAME_SIZE, 1000)])],
            code::PROTOCOL_ERROR,
        ),
    ];
    let mut wrong = Vec::new();
    for (what, frames, code) in cases {
        let mut http2 = connect(&server);
        let _ = http2.try_send(&frames);
        let (told, ending) = http2.end();
        if told != Some(code) || ending == ConnectionEnd::Silent {
            wrong.push(format!("{what}: {told:?} {ending:?}"));
        }
        // Nobody else is hurt.
        assert_eq!(connect(&server).get("/").text(), "ok", "after {what}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// RFC 9113 section 5.1, where nginx looks away.
#[test]
fn frames_on_streams_that_are_idle_or_closed() {
    if !require::freerun() {
        return;
    }
    let server = plain(&Site::new(), OK).run();
    for frame in [Frame::data(1, "x"), Frame::reset(1, code::CANCEL), Frame::window(1, 1)] {
        let mut http2 = connect(&server);
        http2.send(frame.clone());
        assert_eq!(http2.end(), (Some(code::PROTOCOL_ERROR), ConnectionEnd::Closed), "{frame:?} on an idle stream");
    }
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/");
    http2.answer(stream);
    http2.send(Frame::data(stream, "x"));
    let (code, _) = http2.end();
    assert_eq!(code, Some(code::STREAM_CLOSED));
    // Updates of windows may still be on their way.
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/");
    http2.answer(stream);
    http2
        .send(Frame::window(stream, 10))
        .send(Frame::reset(stream, code::NO_ERROR))
        .send(Frame::priority(stream, 0, 1));
    assert_eq!(http2.get("/").text(), "ok");
    // A stream may not be begun behind a later one.
    let mut http2 = connect(&server);
    http2.send(Frame::headers(5, http2.block("GET", "/")).end());
    assert_eq!(http2.answer(5).text(), "ok");
    http2.send(Frame::headers(3, http2.block("GET", "/")).end());
    assert!(matches!(http2.end().0, Some(code::PROTOCOL_ERROR | code::STREAM_CLOSED)));
}

#[test]
fn frames_longer_than_allowed() {
    let server = plain(&Site::new(), OK).run();
    let mut http2 = connect(&server);
    http2.greeted();
    let most = http2.setting(setting::MAX_FRAME_SIZE);
    // nginx allows the most there is, so that nothing can be longer.
    if most < (1 << 24) - 1 {
        let stream = http2.begin(http2.block("POST", "/"));
        let _ = http2.try_send_bytes(Frame::data(stream, vec![0; most as usize + 1]).bytes());
        let (code, ending) = http2.end();
        assert!(code == Some(code::FRAME_SIZE_ERROR) && ending != ConnectionEnd::Silent, "{code:?} {ending:?}");
    }
}

#[test]
fn a_line_in_the_error_log_says_what_was_wrong() {
    let server = plain(&Site::new(), OK).run();
    let mut http2 = connect(&server);
    http2.send(Frame::continuation(1, "x"));
    http2.end();
    server.logs("while processing HTTP/2 connection, client: 127.0.0.1, server: ");
    let log = server.error_log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("while processing HTTP/2 connection")).collect();
    assert!(lines.len() == 1 && lines[0].contains("[info]"), "{lines:?}");
    let mut http2 = connect(&server);
    let block = freerun_testkit::http2::FieldBlock::new().fields(&[(":method", "GET"), (":scheme", "http")]);
    assert_eq!(http2.exchange(block).status, 400);
    server.logs("client sent no :path header while reading client request headers, client: 127.0.0.1, server: ");
}

#[test]
fn a_panic_ends_its_request_alone_and_is_logged_with_its_message() {
    if !require::freerun() || !cfg!(debug_assertions) {
        return;
    }
    let server = plain(&Site::new(), &format!("location /panic {{ debug_panic 'what went wrong'; }} {OK}")).run();
    let mut http2 = connect(&server);
    assert_eq!(http2.get("/panic").end, StreamEnd::Reset(code::INTERNAL_ERROR));
    server.logs("request ended by a panic: what went wrong");
    assert_eq!(http2.get("/").text(), "ok");
}

#[test]
fn connections_beyond_worker_connections_make_room() {
    let setup = Setup::new()
        .root(&Site::new())
        .events("worker_connections 20;")
        .http(&format!("server {{ listen 127.0.0.1:@PORT@ http2; {OK} }}"));
    let server = setup.run();
    let mut idle: Vec<Http2> = (0..40).map(|_| connect(&server)).collect();
    for _ in 0..5 {
        assert_eq!(connect(&server).get("/").text(), "ok");
    }
    // Those that had to go were told so.
    let told: Vec<Vec<Away>> = idle.iter_mut().take(3).map(|http2| (http2.end(), http2.away().to_vec()).1).collect();
    assert!(told.iter().flatten().all(|away| away.code == code::NO_ERROR), "{told:?}");
}

#[test]
fn a_plain_client_on_a_port_of_tls_is_told() {
    let server = secure(&Site::new(), OK).run();
    let mut client = TestClient::connect(server.address());
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 400);
    assert!(response.text().contains("The plain HTTP request was sent to HTTPS port"));
}
