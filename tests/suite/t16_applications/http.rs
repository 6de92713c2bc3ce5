//! A Node server and a Python WebSocket server behind `proxy_pass`.

use freerun_testkit::{Application, Kind, Setup, TestClient, TestServer};

use super::{events_come_one_by_one, noise, numbered_lines, peers};

fn server(application: &Application, lines: &str) -> TestServer {
    Setup::new()
        .http(&format!(
            "client_max_body_size 64m;
            map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
            upstream application {{ server {address}; keepalive 8; }}
            server {{
                listen 127.0.0.1:@PORT@;
                location / {{
                    proxy_pass http://application;
                    proxy_http_version 1.1;
                    proxy_set_header Host $host;
                    proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection $connection_upgrade;
                    {lines}
                }}
            }}",
            address = application.address(),
        ))
        .run()
}

#[test]
fn requests_reach_the_application() {
    let Some(node) = peers::node() else { return };
    let server = server(&node, "");
    let mut client = server.connect();
    for _ in 0..10 {
        client.send("GET /tell?a=b HTTP/1.1\r\nHost: some.host\r\nX-Twice: 1\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.header("x-own")), (200, Some("one")));
        let text = response.text();
        assert!(text.starts_with("GET /tell?a=b HTTP/1.1 host=some.host connection="), "{text}");
        assert!(text.ends_with("twice=1"), "{text}");
    }
    assert_eq!(client.get("/nowhere").status, 404);
    client.send("HEAD /tell HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    assert_eq!(client.get("/tell").status, 200);
}

#[test]
fn long_uploads() {
    let Some(node) = peers::node() else { return };
    let body = noise(8_000_000);
    let mut sums = std::collections::HashSet::new();
    for lines in ["", "proxy_request_buffering off;"] {
        let server = server(&node, lines);
        let head = |fields: &str| format!("POST /sum HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n").into_bytes();
        let whole = [head("Content-Length: 8000000"), body.clone()].concat();
        let pieces = body.chunks(100_000).flat_map(|piece| [b"186a0\r\n", piece, b"\r\n"].concat());
        let chunks = [head("Transfer-Encoding: chunked"), pieces.collect(), b"0\r\n\r\n".to_vec()].concat();
        for request in [whole, chunks] {
            let response = server.send(&request);
            assert!(response.text().starts_with("8000000 "), "{lines}: {}", response.text());
            sums.insert(response.text());
        }
    }
    assert_eq!(sums.len(), 1, "{sums:?}");
}

#[test]
fn an_answer_before_the_body_was_read() {
    let Some(node) = peers::node() else { return };
    // nginx loses the answer now and then, when Node closes the connection while it still sends.
    let unbuffered = Some("proxy_request_buffering off;").filter(|_| Kind::under_test() == Kind::Freerun);
    for lines in [""].into_iter().chain(unbuffered) {
        let server = server(&node, lines);
        let mut client = server.connect();
        let request = b"POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n".to_vec();
        let _ = client.try_send([request, noise(2_000_000)].concat());
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (413, "too much"), "{lines}");
    }
}

#[test]
fn long_downloads_to_slow_clients() {
    let Some(node) = peers::node() else { return };
    let expected = numbered_lines(60_000);
    for lines in ["", "proxy_buffering off;", "proxy_max_temp_file_size 0;"] {
        let server = server(&node, lines);
        let mut slow = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
        slow.send("GET /long?lines=60000 HTTP/1.1\r\nHost: h\r\n\r\n");
        slow.at_least(1000);
        assert_eq!(server.get("/tell").status, 200, "{lines}");
        let response = slow.response();
        assert!(response.body == expected, "{lines}: {} bytes", response.body.len());
    }
}

#[test]
fn trailers_are_passed_on() {
    let Some(node) = peers::node() else { return };
    if Kind::under_test() == Kind::Nginx {
        return;
    }
    let server = server(&node, "proxy_pass_trailers on; proxy_set_header TE trailers; proxy_set_header Connection TE;");
    let response = server.get_with("/long?lines=10", "TE: trailers\r\n");
    assert_eq!(response.trailers, [("X-Lines".to_owned(), "10".to_owned())]);
}

#[test]
fn events() {
    let Some(node) = peers::node() else { return };
    let server = server(&node, "proxy_buffering off;");
    events_come_one_by_one(&mut server.connect(), "/events");
}

#[test]
fn early_hints_are_passed_on() {
    let Some(node) = peers::node() else { return };
    if Kind::under_test() == Kind::Nginx {
        return;
    }
    let server = server(&node, "early_hints 1;");
    let mut client = server.connect();
    client.send("GET /hints HTTP/1.1\r\nHost: h\r\n\r\n");
    let hints = client.response();
    assert_eq!((hints.status, hints.header("link")), (103, Some("</style.css>; rel=preload")));
    assert_eq!(client.response().text(), "hinted");
    // Without it nothing comes before the answer.
    let server = self::server(&node, "");
    assert_eq!(server.get("/hints").text(), "hinted");
}

#[test]
fn a_response_that_is_cut() {
    let Some(node) = peers::node() else { return };
    let server = server(&node, "");
    let mut client = server.connect();
    client.send("GET /die HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.try_response("GET").is_err());
    server.logs("upstream prematurely closed connection while reading upstream");
    assert_eq!(server.get("/tell").status, 200);
}

#[test]
fn an_upgraded_connection() {
    let Some(node) = peers::node() else { return };
    let server = server(&node, "");
    let mut client = server.connect();
    client.send("GET /shout HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n");
    let bytes = client.at_least(4).to_vec();
    assert!(bytes.starts_with(b"HTTP/1.1 101 "), "{}", bytes.escape_ascii());
    for n in 0..20 {
        let (said, heard) = (format!("message {n};"), format!("MESSAGE {n};"));
        client.send(&said);
        client.until(|bytes| bytes.ends_with(heard.as_bytes()));
    }
    let large = vec![b'a'; 1_000_000];
    client.send(&large);
    let known = client.take().len();
    assert!(known > 0);
    assert!(client.at_least(1_000_000).iter().all(|byte| *byte == b'A'));
    client.half_close();
    let (rest, _) = client.rest();
    assert_eq!(rest.len(), 1_000_000);
}

/// One frame of a client: RFC 6455 section 5.2, with a mask of its own.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

#[test]
fn websockets() {
    let Some(python) = peers::websocket() else { return };
    let server = server(&python, "");
    let mut client = server.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    client.until(|bytes| bytes.windows(4).any(|four| four == b"\r\n\r\n"));
    let head = String::from_utf8_lossy(&client.take()).into_owned();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // RFC 6455 section 1.3: the answer to that key.
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    client.send(frame(1, b"forwards"));
    assert_eq!(client.at_least(10), b"\x81\x08sdrawrof");
    client.take();
    let message = noise(300_000);
    client.send(frame(2, &message));
    let bytes = client.at_least(300_010).to_vec();
    assert_eq!(bytes[..2], [0x82, 127]);
    assert!(bytes[10..].iter().eq(message.iter().rev()));
    client.take();
    client.send(frame(8, &1000_u16.to_be_bytes()));
    assert_eq!(client.at_least(4), b"\x88\x02\x03\xe8");
    client.take();
    assert!(client.is_closed());
}

#[test]
fn responses_go_through_the_filters() {
    let Some(node) = peers::node() else { return };
    let server = server(&node, "gzip on; gzip_proxied any; gzip_types text/html;");
    let response = server.get_with("/gzip", "Accept-Encoding: gzip\r\n");
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&response.body[..]), &mut text).expect("gzip");
    assert_eq!(text, "<p>text to pack</p>".repeat(100));
}
