//! Request targets: decoding, normalisation, traversal, absolute form.

use crate::harness::{compare, get, raw};
use crate::site::site;
use freerun_testkit::Setup;

const STRICT_HOST: &str = "since 1.29.4 host and port are checked by RFC 3986";

#[test]
fn targets() {
    let site = site();
    let mut cases = Vec::new();
    for target in [
        "/a%2etxt",
        "/%61.txt",
        "/a.txt%",
        "/a.txt%4",
        "/a.txt%zz",
        "/a.txt%00",
        "/%00",
        "/a.txt%0a",
        "/./a.txt",
        "/dir/../a.txt",
        "/dir/./f.txt",
        "/dir/sub%20dir/../f.txt",
        "/dir/..",
        "/dir/.",
        "/..",
        "/../a.txt",
        "/../../etc/passwd",
        "/dir/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/dir/%2e%2e/a.txt",
        "/dir/%2e%2e/%2e%2e/etc/passwd",
        "/dir%2f..%2fa.txt",
        "/dir%2ff.txt",
        "/%252e%252e/etc/passwd",
        "/dir/..%2f..%2fetc/passwd",
        "/..%5c..%5cetc/passwd",
        "//a.txt",
        "///dir///f.txt",
        "/dir//",
        "/...",
        "/.../a.txt",
        "/dir/..a",
        "/.hidden",
        "/with%20space.txt",
        "/with+space.txt",
        "/plus+.txt",
        "/plus%2b.txt",
        "/per%25cent.txt",
        "/q%3f.txt",
        "/q?.txt",
        "/h%23.txt",
        "/h#.txt",
        "/a.txt#fragment",
        "/a.txt?query#fragment",
        "/%c3%bcn%c3%af.txt",
        "/ünï.txt",
        "/back%5cslash.txt",
        "/back\\slash.txt",
        "/a.txt?",
        "/a.txt?x=%00",
        "/a.txt?x=%zz",
        "/a.txt??",
        "/a.txt;x=1",
        "/A.TXT",
        "/\u{1}",
        "/a.txt\t",
        "/\"quoted\"",
        "/<>",
        "/{}",
        "/|",
        "/^`",
        "/%ff%fe",
        "/dir%00/../a.txt",
    ] {
        cases.push(get(target));
    }
    compare(&Setup::server(&site, ""), cases);
}

#[test]
fn request_lines() {
    let site = site();
    let host = "Host: localhost\r\n\r\n";
    let mut cases = Vec::new();
    for line in [
        "GET http://localhost/a.txt HTTP/1.1",
        "GET HTTP://LOCALHOST/a.txt HTTP/1.1",
        "GET http://localhost HTTP/1.1",
        "GET http://localhost?x=1 HTTP/1.1",
        "GET http://localhost:1234/a.txt HTTP/1.1",
        "GET https://localhost/a.txt HTTP/1.1",
        "GET http:///a.txt HTTP/1.1",
        "GET http:/a.txt HTTP/1.1",
        "GET a.txt HTTP/1.1",
        "GET ?x HTTP/1.1",
        "GET  /a.txt HTTP/1.1",
        "GET /a.txt  HTTP/1.1",
        "GET /a.txt HTTP/1.1 ",
        "GET /a.txt HTTP/1.1  ",
        "GET /a.txt HTTP/1.2",
        "GET /a.txt HTTP/1.9",
        "GET /a.txt HTTP/1.10",
        "GET /a.txt HTTP/1.99",
        "GET /a.txt HTTP/1.100",
        "GET /a.txt HTTP/2.0",
        "GET /a.txt HTTP/3.0",
        "GET /a.txt HTTP/0.9",
        "GET /a.txt HTTP/1",
        "GET /a.txt HTTP/1.",
        "GET /a.txt HTTP/.1",
        "GET /a.txt HTTP/01.1",
        "GET /a.txt HTTP/11.1",
        "GET /a.txt http/1.1",
        "GET /a.txt HTTPS/1.1",
        "GET /a.txt FTP/1.1",
        "GET /a b.txt HTTP/1.1",
        "get /a.txt HTTP/1.1",
        "Get /a.txt HTTP/1.1",
        "G-T /a.txt HTTP/1.1",
        "G_T /a.txt HTTP/1.1",
        "GE1 /a.txt HTTP/1.1",
        "GET\t/a.txt HTTP/1.1",
        "GET /a.txt\tHTTP/1.1",
        " GET /a.txt HTTP/1.1",
        "GET",
        "GET ",
        "/a.txt",
        "-",
    ] {
        cases.push(raw(format!("{line}\r\n{host}")));
    }
    cases.extend([
        raw("\r\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        raw("\r\n\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        raw("\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        raw("GET /a.txt HTTP/1.1\nHost: localhost\n\n"),
        raw("GET /a.txt HTTP/1.1\nHost: localhost\r\n\n"),
        raw("\rGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        raw(b"\x80\x80\x80\x80\r\n\r\n"),
        raw(b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ]);
    compare(&Setup::server(&site, ""), cases);
}

#[test]
fn hosts() {
    let site = site();
    let mut cases = Vec::new();
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost:80",
        "localhost.",
        "localhost.:80",
        "other.example",
        "a_b.example",
        "127.0.0.1",
        "[::1]",
        "[::1]:80",
        "",
        "a..b",
        ".",
        "a/b",
        "a b",
        "a\tb",
    ] {
        cases.push(raw(format!("GET /host HTTP/1.1\r\nHost: {host}\r\n\r\n")));
        if !host.contains(['/', ' ', '\t']) && !host.is_empty() {
            let case = raw(format!("GET http://{host}/host HTTP/1.1\r\nHost: ignored\r\n\r\n"));
            cases.push(if host.contains('_') { case.differs(STRICT_HOST, "HTTP/1.1 200 OK") } else { case });
        }
    }
    for host in ["a:b", "a:80:80", "u@a", "[::1", "a[b]", "ä.example"] {
        cases.push(
            raw(format!("GET /host HTTP/1.1\r\nHost: {host}\r\n\r\n")).differs(STRICT_HOST, "HTTP/1.1 400 Bad Request"),
        );
    }
    cases.extend([
        raw("GET /host HTTP/1.1\r\n\r\n"),
        raw("GET /host HTTP/1.0\r\n\r\n"),
        raw("GET /host HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        raw("GET /host HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        raw("GET /host HTTP/1.1\r\nhost: a\r\n\r\n"),
        raw("GET /host HTTP/1.1\r\nHost:a\r\n\r\n"),
        raw("GET /host HTTP/1.1\r\nHost:    a   \r\n\r\n"),
        raw("GET http://u@localhost/host HTTP/1.1\r\nHost: a\r\n\r\n"),
        raw("GET http://localhost:x/host HTTP/1.1\r\nHost: a\r\n\r\n"),
    ]);
    let lines = "location /host { return 200 \"[$host] [$http_host] [$server_name]\\n\"; }";
    compare(&Setup::server(&site, lines), cases);
}
