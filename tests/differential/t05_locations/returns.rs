//! `return` in all its forms.

use crate::harness::{compare, get, head, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn forms() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for status in [
        200, 201, 202, 204, 206, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410,
        411, 412, 413, 414, 415, 416, 418, 421, 422, 429, 431, 444, 451, 494, 495, 496, 497, 499, 500, 501, 502, 503,
        504, 505, 507, 508, 511, 599, 600, 700, 999,
    ] {
        lines += &format!("location = /{status} {{ return {status}; }}\n");
        cases.push(get(&format!("/{status}")));
        lines += &format!("location = /text/{status} {{ return {status} \"text of {status}\\n\"; }}\n");
        cases.push(get(&format!("/text/{status}")));
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn redirects_and_texts() {
    let site = site();
    let lines = "
        location = /url { return http://example.com/x; }
        location = /https { return https://example.com/x; }
        location = /scheme { return $scheme://example.com$request_uri; }
        location = /301 { return 301 /new; }
        location = /301abs { return 301 http://example.com/a?b=c; }
        location = /302var { return 302 $uri/more?$args; }
        location = /307 { return 307 relative; }
        location = /308 { return 308 /with%20space; }
        location = /303 { return 303 \"/with space\"; }
        location = /200 { return 200; }
        location = /200empty { return 200 \"\"; }
        location = /200text { return 200 \"text\"; }
        location = /200type { default_type text/x-mine; return 200 \"text\"; }
        location = /200vars { return 200 \"$request_method $uri ${args}x\\n\"; }
        location = /204text { return 204 \"text\"; }
        location = /301text { return 301 \"text\"; }
        location = /404text { return 404 \"gone\\n\"; }
        location = /404type { default_type text/x-mine; return 404 \"gone\\n\"; }
        location = /long.html { types { text/x-long html; } return 200 \"typed by extension\"; }
        location = /quote { return 200 'single \"double\" \\'escaped\\' $uri'; }
        location = /dollar { return 200 \"a\\$b\"; }
        location = /444 { return 444; }
    ";
    let mut cases: Vec<_> = [
        "/url",
        "/https",
        "/scheme",
        "/301",
        "/301abs",
        "/302var?q=1",
        "/307",
        "/308",
        "/303",
        "/200",
        "/200empty",
        "/200text",
        "/200type",
        "/200vars?a=b",
        "/204text",
        "/301text",
        "/404text",
        "/404type",
        "/long.html",
        "/quote",
        "/444",
    ]
    .iter()
    .map(|target| get(target))
    .collect();
    cases.extend([
        head("/200text"),
        head("/301"),
        head("/404text"),
        head("/404type"),
        get("/200text").field("Range: bytes=1-2"),
        get("/200text").field("If-None-Match: *"),
        get("/200text").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        request("POST", "/200text").field("Content-Length: 5").body("abcde"),
        request("DELETE", "/200text"),
        request("OPTIONS", "/200text"),
        raw("GET /200text HTTP/1.0\r\n\r\n"),
        raw("GET /301 HTTP/1.0\r\n\r\n"),
        raw("GET /200text\r\n"),
        raw("GET /444 HTTP/1.0\r\n\r\n"),
    ]);
    let lines = lines.replace("location = /dollar { return 200 \"a\\$b\"; }", "");
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn in_the_server_block() {
    let site = site();
    compare(
        &Setup::server(&site, "return 200 \"server\\n\"; location / { return 200 \"location\\n\"; }"),
        vec![get("/"), get("/a.txt"), get("/%zz"), request("POST", "/").field("Content-Length: 2").body("ab")],
    );
}

#[test]
fn the_first_counts() {
    let site = site();
    compare(&Setup::server(&site, "location = /first { return 200 one; return 200 two; }"), vec![get("/first")]);
}
