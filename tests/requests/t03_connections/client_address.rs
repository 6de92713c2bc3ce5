//! `listen … proxy_protocol` and `real_ip_header`, where nginx 1.22 differs or where logs tell.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

const TCP4: &[u8] = b"PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\n";
const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn v2(tlvs: &[u8]) -> Vec<u8> {
    let addresses = b"\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbb";
    let len = u16::try_from(addresses.len() + tlvs.len()).expect("short").to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11"[..], &len, addresses, tlvs].concat()
}

fn setup(site: &Site, lines: &str) -> Setup {
    Setup::new()
        .root(site)
        .http("log_format who '$remote_addr:$remote_port $proxy_protocol_addr:$proxy_protocol_port $status'; access_log @DIR@/access.log who;")
        .http(&format!("server {{ listen 127.0.0.1:@PORT@ proxy_protocol; server_name localhost; root @ROOT@; {lines} }}"))
}

const TRUST: &str = "set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;";

fn site() -> Site {
    let site = Site::new();
    site.file("a", "0123456789");
    site
}

#[test]
fn a_header_may_come_in_pieces() {
    let site = site();
    let server = setup(&site, TRUST).in_process();
    for header in [TCP4.to_vec(), v2(b""), v2(b"\x04\0\x05hello")] {
        for cut in 1..header.len() {
            let mut client = server.connect();
            client.send(&header[..cut]);
            // Another connection is served in between, so the first piece was read by itself.
            if cut % 8 == 1 {
                assert_eq!(server.send([TCP4, b"GET /none HTTP/1.0\r\n\r\n"].concat()).status, 404);
            }
            client.send([&header[cut..], REQUEST].concat());
            assert_eq!(client.response().status, 200, "cut at {cut}");
            // The header is the connection's: the next request has none.
            client.send(REQUEST);
            assert_eq!(client.response().status, 200);
        }
    }
    let lines = server.access_lines(20);
    assert!(lines.iter().all(|line| line.starts_with("192.0.2.9:5555 192.0.2.9:5555 ")), "{lines:?}");
}

#[test]
fn a_header_without_a_request_waits_for_one() {
    let site = site();
    let server = setup(&site, "").run_in_process();
    let mut client = server.connect();
    client.send(TCP4);
    assert_eq!(server.send([TCP4, REQUEST].concat()).status, 200);
    client.send(REQUEST);
    assert_eq!(client.response().status, 200);
    let lines = server.access_lines(2);
    assert!(
        lines.iter().all(|line| line.contains(" 192.0.2.9:5555 200") && line.starts_with("127.0.0.1:")),
        "{lines:?}"
    );
}

#[test]
fn broken_headers_are_logged_and_nothing_is_answered() {
    let site = site();
    let server = setup(&site, "client_header_timeout 2s;").in_process();
    let tail = format!(" while reading PROXY protocol, client: 127.0.0.1, server: 127.0.0.1:{}", server.port());
    for (bytes, text) in [
        (REQUEST.to_vec(), "broken header: \"GET /a HTTP/1.1\"".to_owned()),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 x\r\n".to_vec(), "broken header: \"PROXY TCP4 1.2.3.4 5.6.7.8 1 x\"".into()),
        (b"\x16\x03\x01\0".to_vec(), "broken header: \"\\x16\\x03\\x01\\x00\"".into()),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0".to_vec(), "unknown PROXY protocol version: 3".into()),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec(), "header is too large".into()),
        (b"PROXY TCP4 1.2.3".to_vec(), "client timed out (110: Connection timed out)".into()),
    ] {
        let mut client = server.connect();
        client.send(&bytes);
        assert!(client.is_closed());
        server.logs(&format!("{text}{tail}"));
    }
    let mut client = server.connect();
    client.send("PROXY TC").half_close();
    assert!(client.is_closed());
    server.logs(&format!("broken header: \"PROXY TC\"{tail}"));
    assert!(server.access_log().is_empty());
}

#[test]
fn further_fields_are_variables() {
    let lines = "location / { return 200 '$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_0x02|$proxy_protocol_tlv_ssl_version|\
                 $proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_unique_id|$proxy_protocol_tlv_0x005|\
                 $proxy_protocol_tlv_0x105'; }";
    let site = site();
    let server = setup(&site, lines).in_process();
    let tlvs = b"\x01\0\x02h2\x02\0\x04host\x20\0\x0f\x01\0\0\0\x07\x21\0\x07TLSv1.3\x05\0\x01u";
    assert_eq!(server.send([&v2(tlvs)[..], REQUEST].concat()).text(), "h2|host|TLSv1.3|7|u|u|");
    assert_eq!(server.send([TCP4, REQUEST].concat()).text(), "||||||");
}

#[test]
fn it_belongs_to_the_address_and_not_to_one_server() {
    let site = site();
    let setup = Setup::new().root(&site).http(
        "server { listen 127.0.0.1:@PORT@; server_name localhost; return 200 first; }
         server { listen 127.0.0.1:@PORT@ proxy_protocol; server_name other; return 200 second; }
         server { listen 127.0.0.1:@PORT2@; server_name other; return 200 plain; }",
    );
    let server = setup.run_in_process();
    assert_eq!(server.send([TCP4, REQUEST].concat()).text(), "first");
    let mut client = freerun_testkit::TestClient::connect(server.address_number(2));
    client.send(REQUEST);
    assert_eq!(client.response().text(), "plain");
}

#[test]
fn logs_and_limits_are_about_the_client_that_the_proxy_tells() {
    let site = site();
    let lines = "set_real_ip_from 127.0.0.1; location /deny { deny 192.0.2.0/24; }
                 location /tcp { return 200 '$tcpinfo_rtt $tcpinfo_rttvar $tcpinfo_snd_cwnd $tcpinfo_rcv_space'; }";
    let setup = Setup::server(&site, lines).http("log_format who '$remote_addr'; access_log @DIR@/access.log who;");
    let server = setup.run_in_process();
    assert_eq!(server.get_with("/deny", "X-Real-IP: 192.0.2.77\r\n").status, 403);
    server.logs("access forbidden by rule, client: 192.0.2.77, server: localhost");
    assert_eq!(server.access_lines(1), ["192.0.2.77"]);
    let figures = server.get("/tcp").text();
    let figures: Vec<u32> = figures.split(' ').map(|figure| figure.parse().expect("a number")).collect();
    assert!(figures.len() == 4 && figures[2] > 0 && figures[3] > 0, "{figures:?}");
}
