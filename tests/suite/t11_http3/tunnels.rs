//! Streams that are tunnels: the extended CONNECT (RFC 9220), and what is older than HTTP/3 on connections of QUIC.

use super::{PAIR, connect, quic};
use freerun_testkit::http3::{H3End, Http3, Http3Options};
use freerun_testkit::{Setup, Site, TestUpstream, eventually, ok, require};
use rustix::process::Signal;

const SWITCHES: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: nothing\r\nX-Chat: yes\r\n\r\n";

/// The location of a WebSocket behind this server.
fn chat(upstream: &str, lines: &str) -> String {
    format!(
        "{lines} location / {{ return 200 ok; }}
         location /chat {{ proxy_pass http://{upstream}; proxy_read_timeout 1h;
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}"
    )
}

#[test]
fn a_websocket_goes_through_a_stream() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = quic(&Site::new(), &chat(&upstream.address(), "http3_extended_connect on;")).freerun();
    let mut http3 = connect(&server);
    assert_eq!(http3.get("/").text(), "ok");
    assert!(http3.settings().connect_protocol, "the server says that it has it");
    let open = |http3: &mut Http3| {
        let stream = http3.connect_protocol("websocket", "/chat", &[("sec-websocket-version", "13")]);
        let mut peer = upstream.accept();
        let head = peer.head();
        assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("\r\nupgrade: websocket\r\n") && head.contains("\r\nsec-websocket-version: 13\r\n"));
        peer.send(SWITCHES);
        assert_eq!(http3.head(stream), 200);
        let message = http3.message(stream).expect("a response");
        assert_eq!(message.field("x-chat"), Some("yes"));
        // RFC 9220 section 3: fields of HTTP/1's upgrade are none here.
        for name in ["upgrade", "connection", "sec-websocket-accept"] {
            assert_eq!(message.field(name), None, "{name}");
        }
        (stream, peer)
    };
    // Both directions at once, and others on the connection meanwhile.
    let (stream, mut peer) = open(&mut http3);
    for round in 1..=3 {
        http3.upload(stream, b"to the server");
        assert_eq!(peer.bytes(13), b"to the server");
        peer.send("to the client");
        http3.body_of(stream, 13 * round);
        assert_eq!(http3.get("/").text(), "ok");
    }
    // Its end by the client, by a reset, and by the server.
    http3.finish(stream);
    assert_eq!(peer.rest(), b"");
    peer.send("goodbye");
    peer.half_close();
    let answer = http3.answer(stream);
    assert!(answer.end == H3End::Whole && answer.text().ends_with("goodbye"), "{answer:?}");
    let (stream, mut peer) = open(&mut http3);
    http3.reset(stream, 0x10c);
    assert_eq!(peer.rest(), b"");
    let (stream, mut peer) = open(&mut http3);
    peer.send("last");
    peer.half_close();
    let answer = http3.answer(stream);
    assert_eq!((answer.text().as_str(), answer.end.clone()), ("last", H3End::Whole), "{answer:?}");
    assert_eq!(http3.get("/").text(), "ok");
}

#[test]
fn an_extended_connect_is_malformed_where_it_is_off() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = quic(&Site::new(), &chat(&upstream.address(), "")).freerun();
    let mut http3 = connect(&server);
    assert_eq!(http3.get("/").text(), "ok");
    assert!(!http3.settings().connect_protocol);
    let stream = http3.connect_protocol("websocket", "/chat", &[]);
    http3.finish(stream);
    let answer = http3.answer(stream);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(http3.get("/").text(), "ok");
}

#[test]
fn what_an_upstream_server_refuses_is_refused() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|_| ok("no chat here"));
    let server = quic(&Site::new(), &chat(upstream.address(), "http3_extended_connect on;")).freerun();
    let mut http3 = connect(&server);
    let stream = http3.connect_protocol("websocket", "/chat", &[]);
    http3.finish(stream);
    let answer = http3.answer(stream);
    assert_eq!((answer.status, answer.text().as_str()), (200, "no chat here"), "{answer:?}");
}

/// Asks for a path as in HTTP/0.9. `None` if the server does not speak it.
fn ask_without_frames(server: &freerun_testkit::TestServer, name: &str) -> Option<String> {
    let worker = server.worker();
    let options = Http3Options::new().name(name).tls(|tls| tls.alpn(&["hq-interop"])).bare();
    let mut http3 = Http3::try_with(server.address_number(2), &options).ok()?;
    let stream = http3.open();
    http3.hold(stream);
    // The line and the end of the stream come together, in datagrams of their own: the response is complete before the end is
    // looked at, and nothing of it has left.
    server.signal_pid(worker, Signal::STOP);
    http3.write_all(stream, b"GET /path\r\n");
    http3.end_raw(stream);
    server.signal_pid(worker, Signal::CONT);
    let mut text = Vec::new();
    eventually("the response", || {
        http3.step();
        http3.read_raw(stream, &mut text)
    });
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_server_of_the_handshake_decides_about_requests_without_frames() {
    if !require::freerun() {
        return;
    }
    let server = |name: &str, lines: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT2@ quic; server_name {name}; {PAIR} {lines}
                 return 200 \"{name} $uri $http3\"; }}"
        )
    };
    let servers = [server("localhost", ""), server("a.example.com", "http3_hq on;")].concat();
    let server = Setup::new().http(&servers).freerun();
    // Such a request names no host.
    assert_eq!(ask_without_frames(&server, "a.example.com").as_deref(), Some("localhost /path hq"));
    assert_eq!(ask_without_frames(&server, "localhost"), None);
}

#[test]
fn a_head_does_not_wait_for_its_body() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("location / {{ proxy_pass http://{}; proxy_buffering off; }}", upstream.address());
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    let stream = http3.ask_for("/");
    let mut peer = upstream.accept();
    peer.head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(http3.head(stream), 200);
    peer.send("ok");
    http3.body_of(stream, 2);
    peer.send("ok");
    assert_eq!(http3.answer(stream).text(), "okok");
}
