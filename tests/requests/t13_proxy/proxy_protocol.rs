//! `proxy_protocol` in `http`: connections to upstream servers that begin with a header about the client.

use crate::worker::InProcess;
use freerun_testkit::{Peer, Setup, Site, TestClient, TestServer, TestUpstream, require};

fn passing(upstream: &TestUpstream, lines: &str) -> Setup {
    Setup::server(&Site::new(), &format!("location / {{ proxy_pass http://group; {lines} }}"))
        .http(&format!("upstream group {{ server {}; }}", upstream.address()))
}

/// The header of version 1 that names the client.
fn line(client: &TestClient, server: &TestServer) -> String {
    let port = client.socket().local_addr().ok().and_then(|address| address.as_socket()).expect("an address").port();
    format!("PROXY TCP4 127.0.0.1 127.0.0.1 {port} {}\r\n", server.port())
}

/// Answers the next request, and lets the client have the answer.
fn answer(peer: &mut Peer, client: &mut TestClient, path: &str) {
    let request = peer.request();
    assert_eq!(request.target(), path);
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.response().text(), "ok");
}

fn ask(client: &mut TestClient, path: &str) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

#[test]
fn each_client_has_connections_of_its_own() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = passing(&upstream, "proxy_protocol on;").in_process();
    let (mut one, mut two) = (server.connect(), server.connect());
    ask(&mut one, "/1");
    let mut of_one = upstream.accept();
    let header = line(&one, &server);
    assert_eq!(String::from_utf8_lossy(&of_one.bytes(header.len())), header);
    answer(&mut of_one, &mut one, "/1");
    ask(&mut two, "/2");
    let mut of_two = upstream.accept();
    let header = line(&two, &server);
    assert_eq!(String::from_utf8_lossy(&of_two.bytes(header.len())), header);
    answer(&mut of_two, &mut two, "/2");
    // Connections are used again, and not by the other client.
    ask(&mut two, "/3");
    answer(&mut of_two, &mut two, "/3");
    ask(&mut one, "/4");
    answer(&mut of_one, &mut one, "/4");
}

#[test]
fn a_header_of_version_2_has_fields_of_the_request() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = passing(&upstream, "proxy_protocol 2; proxy_protocol_tlv authority $host;").in_process();
    let mut client = server.connect();
    ask(&mut client, "/");
    let mut peer = upstream.accept();
    let start = peer.bytes(16);
    assert_eq!(start[..14], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11");
    let rest = peer.bytes(usize::from(u16::from_be_bytes([start[14], start[15]])));
    assert_eq!(rest[12..24], *b"\x02\0\x09localhost");
    assert_eq!((rest.len(), rest[24]), (31, 3));
    answer(&mut peer, &mut client, "/");
}
