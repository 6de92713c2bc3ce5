//! Keep-alive, pipelining, versions.

use crate::harness::{compare, get, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn connection_fields() {
    let site = site();
    let mut cases = Vec::new();
    for version in ["1.0", "1.1"] {
        for field in [
            "",
            "Connection: close\r\n",
            "Connection: keep-alive\r\n",
            "Connection: Keep-Alive\r\n",
            "Connection: CLOSE\r\n",
            "Connection: close, x\r\n",
            "Connection: x, close\r\n",
            "Connection: keep-alive, close\r\n",
            "Connection: keep-alive, x\r\n",
            "Connection: upgrade\r\n",
            "Connection:\r\n",
            "Proxy-Connection: keep-alive\r\n",
            "Keep-Alive: timeout=5\r\n",
        ] {
            cases.push(raw(format!("GET /a.txt HTTP/{version}\r\nHost: localhost\r\n{field}\r\n")));
        }
    }
    compare(&Setup::server(&site, ""), cases);
}

#[test]
fn pipelines() {
    let site = site();
    let one = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    compare(
        &Setup::server(&site, ""),
        vec![
            raw(one("/a.txt") + &one("/dir/f.txt")).responses(2),
            raw(one("/a.txt").repeat(20)).responses(20),
            raw(one("/big.bin") + &one("/a.txt") + &one("/big.bin")).responses(3),
            raw(one("/none") + &one("/a.txt")).responses(2),
            raw(one("/a.txt") + "BAD\r\n\r\n").responses(2),
            raw(one("/a.txt") + "GET /dir/f.txt HTTP/1.0\r\n\r\n" + &one("/a.txt")).responses(2),
            raw("HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".to_owned() + &one("/a.txt")).responses(2),
            raw("POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde".to_owned() + &one("/a.txt"))
                .responses(2),
            raw("POST /none HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned()
                + &one("/a.txt"))
            .responses(2),
            raw("GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde".to_owned() + &one("/dir/f.txt"))
                .responses(2),
            raw(one("/a.txt") + "\r\n" + &one("/a.txt")).responses(2),
            raw(one("/a.txt") + "\r\n\r\n\r\n" + &one("/a.txt")).responses(2),
            raw(one("/a.txt") + "GET /a.txt\r\n").responses(2),
            raw(one("/a.txt") + "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + &one("/a.txt"))
                .responses(2),
            raw(one("/a.txt") + &one("/dir/f.txt")).eof(),
            raw(one("/a.txt") + "GET /dir").eof(),
        ],
    );
}

#[test]
fn keepalive_directives() {
    let site = site();
    let one = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let fields = "
        location / { keepalive_timeout 60s 30s; }
        location /dir/ { keepalive_timeout 0; }
        location /alias/ { keepalive_requests 1; }
        location /other/ { keepalive_timeout 75s 0; }
        location = /pic.gif { keepalive_disable none; keepalive_timeout 20s 20; }
        location = /page.html { keepalive_disable msie6 safari; }
        location = /text { return 200 text; }
        keepalive_requests 3;
    ";
    let safari =
        "User-Agent: Mozilla/5.0 (Macintosh; U; Intel Mac OS X; en) AppleWebKit/420+ (KHTML, like Gecko) Safari/419.3";
    let msie6 = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    compare(
        &Setup::server(&site, fields),
        vec![
            get("/a.txt"),
            get("/dir/f.txt"),
            get("/alias/target/x.txt"),
            get("/other/default.htm"),
            get("/pic.gif"),
            raw(one.repeat(4)).responses(4),
            raw(one.repeat(3)).responses(3),
            raw("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
            get("/page.html").field(safari),
            request("POST", "/text").field(msie6).field("Content-Length: 0"),
            get("/text").field(msie6),
        ],
    );
}
