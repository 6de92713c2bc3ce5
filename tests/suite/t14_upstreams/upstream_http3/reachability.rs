//! Servers that UDP reaches late, for a while, or not at all.

use std::time::Duration;

use freerun_testkit::{DatagramRelay, Datagrams, NetworkFaults, Setup, Site, ports, require};
use serde_json::Value;

use super::{PAIR, SEEN, pair, with_listen};

/// What the status has of HTTP/3 with the only upstream server.
fn figures(status: &Value) -> &Value {
    &status["upstreams"][0]["servers"][0]["http3"]
}

#[test]
fn the_status_and_the_log_tell_how_a_server_is_reached() {
    if !require::freerun() {
        return;
    }
    let upstream = "http2 on; location / { return 200 $request_uri; }";
    let by_tcp = with_listen("listen 127.0.0.1:@PORT2@ ssl;", &Site::new(), upstream, "").freerun();
    assert_eq!(by_tcp.get("/").text(), "/");
    let status = by_tcp.status();
    assert_eq!((&figures(&status)["connects"], &figures(&status)["fallbacks"]), (&0.into(), &1.into()));
    let closed = figures(&status)["closed_seconds"].as_f64().expect("a number");
    assert!(0.0 < closed && closed <= 10.0, "{closed}");
    by_tcp.logs(" cannot be reached by UDP, it is asked by TCP for 10 s while connecting to upstream");
    let by_udp = pair(&Site::new(), upstream, "").freerun();
    assert_eq!(by_udp.get("/").text(), "/");
    let status = by_udp.status();
    assert_eq!(*figures(&status), serde_json::json!({"connects": 1, "fallbacks": 0, "closed_seconds": 0.0}));
    let all = &status["http3_upstreams"];
    assert_eq!(all["open"], 1);
    assert!(all["window_bytes"].as_u64() >= Some(64 << 10), "{all}");
}

/// Its packets take longer than a refusal over TCP.
#[test]
fn a_distant_server_without_tcp_is_waited_for() {
    if !require::freerun() {
        return;
    }
    let upstream = Setup::new()
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic; {PAIR} return 200 $server_protocol; }}"
        ))
        .freerun();
    let faults = NetworkFaults { delay: Duration::from_millis(300), ..NetworkFaults::default() };
    let relay = DatagramRelay::new(upstream.address_number(2), faults);
    let server = Setup::new()
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@; proxy_http_version 3;
                       location / {{ proxy_pass https://{}; }} }}",
            relay.address()
        ))
        .freerun();
    assert_eq!(server.get("/").text(), "HTTP/3.0");
}

/// Nothing answers at its port, neither by UDP nor by TCP: that says nothing about UDP.
#[test]
fn a_server_that_was_down_has_http3_as_soon_as_it_is_up() {
    if !require::freerun() {
        return;
    }
    let port = ports::free();
    let server = Setup::new()
        .http(&format!(
            "upstream backend {{ server 127.0.0.1:{port} max_fails=0; }}
             server {{ listen 127.0.0.1:@PORT@; proxy_http_version 3; location = /status {{ status; }}
                       location / {{ proxy_pass https://backend; }} }}"
        ))
        .freerun();
    for _ in 0..3 {
        assert_eq!(server.get("/").status, 502);
    }
    assert_eq!(figures(&server.status())["closed_seconds"], 0.0);
    let _upstream = Setup::new()
        .http(&format!(
            "{SEEN} server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:{port} quic; listen 127.0.0.1:{port} ssl; {PAIR}
                       return 200 $server_protocol; }}"
        ))
        .freerun();
    assert_eq!(server.get("/").text(), "HTTP/3.0");
}

/// The answer of a server to the first packet of a client: it speaks another version (RFC 9000 section 17.2.1).
fn version_negotiation(packet: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = packet.get(5..)?.split_first()?;
    let (destination, rest) = rest.split_at_checked(usize::from(*first))?;
    let (second, rest) = rest.split_first()?;
    let source = rest.get(..usize::from(*second))?;
    let lengths = (u8::try_from(source.len()).ok()?, u8::try_from(destination.len()).ok()?);
    Some([&[0x80, 0, 0, 0, 0, lengths.0], source, &[lengths.1], destination, &[0x1a, 0x2a, 0x3a, 0x4a]].concat())
}

#[test]
fn a_server_of_another_version_of_quic_is_asked_by_tcp() {
    if !require::freerun() {
        return;
    }
    let upstream = "http2 on; location / { return 200 $server_protocol; }";
    let server = with_listen("listen 127.0.0.1:@PORT2@ ssl;", &Site::new(), upstream, "").freerun();
    let other = Datagrams::at(server.address_number(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (packet, from) = other.receive();
            other.send(version_negotiation(&packet).expect("a long header"), from);
        });
        assert_eq!(server.get("/").text(), "HTTP/2.0");
    });
}

/// A server gives a token, with which the next connection begins without Retry.
#[test]
fn an_address_is_shown_once() {
    if !require::freerun() {
        return;
    }
    let upstream = "quic_retry on; location / { return 200 hello; }";
    let lines = "location /direct { proxy_pass https://127.0.0.1:@PORT2@; }
                 location /fresh { proxy_pass https://127.0.0.1:@PORT2@; proxy_ssl_session_reuse off; }";
    let server = pair(&Site::new(), upstream, lines).freerun();
    let retries = || server.status()["quic"]["retries"].as_u64().expect("a number");
    assert_eq!(server.get("/direct").text(), "hello");
    let asked = retries();
    assert!(asked > 0);
    for _ in 0..3 {
        assert_eq!(server.get("/direct").text(), "hello");
    }
    assert_eq!(retries(), asked);
    assert_eq!(server.get("/fresh").text(), "hello");
    assert!(retries() > asked, "nothing is kept without sessions");
}
