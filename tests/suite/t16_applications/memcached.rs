//! Values of a memcached.

use std::io::Write;
use std::net::TcpStream;

use flate2::Compression;
use freerun_testkit::{Application, Setup, TestServer, TestUpstream, eventually, require};

use super::{noise, peers};

/// Keeps a value.
fn keep(memcached: &Application, key: &str, flags: u32, value: &[u8]) {
    let mut stream = TcpStream::connect(memcached.address()).expect("memcached");
    let mut bytes = format!("set {key} {flags} 0 {}\r\n", value.len()).into_bytes();
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    stream.write_all(&bytes).expect("memcached takes a value");
    let mut answer = [0; 8];
    std::io::Read::read_exact(&mut stream, &mut answer).expect("memcached answers");
    assert_eq!(&answer, b"STORED\r\n");
}

fn server(memcached: &Application, lines: &str) -> TestServer {
    Setup::new()
        .http(&format!(
            "types {{ text/css css; }} default_type text/plain;
            upstream values {{ server {}; keepalive 2; }}
            server {{
                listen 127.0.0.1:@PORT@;
                location / {{ set $memcached_key $uri; memcached_pass values; {lines} }}
                location @made {{ return 200 \"made anew\"; }}
            }}",
            memcached.address()
        ))
        .run()
}

#[test]
fn values() {
    let Some(memcached) = peers::memcached() else { return };
    keep(&memcached, "/a", 0, b"the value of a");
    keep(&memcached, "/style.css", 0, b"p {}");
    keep(&memcached, "/with%20space%25", 0, b"escaped");
    keep(&memcached, "/empty", 0, b"");
    let big = noise(900_000);
    keep(&memcached, "/big", 0, &big);
    let server = server(&memcached, "");
    let mut client = server.connect();
    let response = client.get("/a");
    assert_eq!((response.status, response.text().as_str()), (200, "the value of a"));
    assert_eq!(response.header("content-type"), Some("text/plain"));
    assert_eq!(response.header("content-length"), Some("14"));
    assert_eq!(client.get("/style.css").header("content-type"), Some("text/css"));
    assert_eq!(client.get("/with%20space%25").text(), "escaped");
    assert_eq!(client.get("/empty").header("content-length"), Some("0"));
    assert!(client.get("/big").body == big);
    client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response_to("HEAD").header("content-length"), Some("14"));
    client.send("GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=4-8\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (206, "value"));
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status, 405);
    assert_eq!(client.get("/none").status, 404);
    server.logs("key: \"/none\" was not found by memcached");
    assert_eq!(client.get("/a").text(), "the value of a");
}

#[test]
fn what_is_not_there_is_made_elsewhere() {
    let Some(memcached) = peers::memcached() else { return };
    keep(&memcached, "/a", 0, b"kept");
    let server = server(&memcached, "error_page 404 = @made;");
    assert_eq!(server.get("/a").text(), "kept");
    assert_eq!(server.get("/b").text(), "made anew");
}

#[test]
fn packed_values() {
    let Some(memcached) = peers::memcached() else { return };
    let text = "a text that can be packed ".repeat(100);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("packing");
    let packed = encoder.finish().expect("packing");
    keep(&memcached, "/packed", 2, &packed);
    keep(&memcached, "/plain", 1, text.as_bytes());
    let server = server(&memcached, "memcached_gzip_flag 2; gunzip on;");
    let response = server.get_with("/packed", "Accept-Encoding: gzip\r\n");
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    assert!(response.body == packed);
    let response = server.get("/packed");
    assert_eq!((response.header("content-encoding"), response.text()), (None, text.clone()));
    let response = server.get_with("/plain", "Accept-Encoding: gzip\r\n");
    assert_eq!((response.header("content-encoding"), response.text()), (None, text));
}

#[test]
fn a_key_that_memcached_refuses() {
    let Some(memcached) = peers::memcached() else { return };
    let server = server(&memcached, "");
    assert_eq!(server.get(&format!("/{}", "x".repeat(300))).status, 502);
    server.logs("memcached sent invalid response: \"CLIENT_ERROR");
    assert_eq!(server.get("/none").status, 404);
}

/// A server whose answers end late: the connection is used again, and what stands behind a response is logged.
#[test]
fn ends_that_come_late() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = Setup::new()
        .http(&format!(
            "upstream values {{ server {}; keepalive 2; }}
            server {{ listen 127.0.0.1:@PORT@; location / {{ set $memcached_key $uri; memcached_pass values; }} }}",
            upstream.address()
        ))
        .run();
    let mut client = server.connect();
    client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(8), b"get /a\r\n");
    peer.send("VALUE /a 0 4\r\nwhole");
    drop(peer);
    // The value is longer than was said.
    assert_eq!(client.response().status, 502);
    client.send("GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(8), b"get /b\r\n");
    for piece in ["VALUE /b 0 5\r\n", "who", "le", "\r\nEN", "D\r\n"] {
        peer.send(piece);
    }
    assert_eq!(client.response().text(), "whole");
    // The same connection, for a value that does not come with its head.
    client.send("GET /c HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(peer.bytes(8), b"get /c\r\n");
    let value = noise(500_000);
    peer.send([b"VALUE /c 0 500000\r\n", &value[..], b"\r\nEND\r\nEXTRA"].concat());
    assert!(client.response().body == value);
    let words = "memcached sent invalid trailer while reading upstream";
    eventually("it is logged", || {
        server.error_log().lines().any(|line| line.contains(words) && line.contains("GET /c"))
    });
}
