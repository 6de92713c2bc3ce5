//! `gzip`: which responses are packed for whom, and what becomes of their heads. What is packed is unpacked before it is compared:
//! other encoders make other bytes.

use crate::harness::{Case, compare, get, head, raw, request};
use crate::site::{MTIME, site};
use freerun_testkit::{Setup, Site};

const TYPES: &str = "types { text/html html; text/plain txt; image/gif gif; }";

/// Files of the lengths around the limits.
fn texts() -> Site {
    let site = site();
    let text: String = (0..30_000).map(|number| format!("line {} of a text\n", number * 7919 % 10_007)).collect();
    for (name, len) in [("19", 19), ("20", 20), ("2k", 2048), ("40k", 40_000), ("300k", 300_000)] {
        site.dated(&format!("t{name}.html"), &text[..len], MTIME);
    }
    site.dated("t.txt", &text[..3000], MTIME).dated("t.gif", &text[..3000], MTIME).dated(
        "t.html",
        &text[..3000],
        MTIME,
    );
    site
}

fn gz(target: &str) -> Case {
    get(target).field("Accept-Encoding: gzip")
}

#[test]
fn what_is_packed() {
    let site = texts();
    let lines = format!(
        "{TYPES} gzip on;
        location = /min0 {{ alias @ROOT@/t19.html; types {{}} default_type text/html; gzip_min_length 0; }}
        location = /min3k {{ alias @ROOT@/t2k.html; types {{}} default_type text/html; gzip_min_length 3k; }}
        location = /none {{ alias @ROOT@/empty.txt; types {{}} default_type text/html; gzip_min_length 0; }}
        location = /types {{ alias @ROOT@/t.txt; gzip_types text/css text/plain; types {{}} default_type text/plain; }}
        location = /TYPES {{ alias @ROOT@/t.txt; gzip_types TEXT/plain; types {{}} default_type text/PLAIN; }}
        location = /star {{ alias @ROOT@/t.gif; gzip_types *; types {{}} default_type image/gif; }}
        location = /charset {{ alias @ROOT@/t.txt; types {{}} default_type \"text/html; charset=x\"; }}
        location = /untyped {{ alias @ROOT@/t.txt; types {{}} default_type \"\"; gzip_types *; }}
        location = /off {{ alias @ROOT@/t.html; types {{}} default_type text/html; gzip off; }}
        location = /ret {{ default_type text/html; return 200 \"a text of more than twenty bytes\"; }}
        location = /retnothing {{ default_type text/html; gzip_min_length 0; return 200 \"\"; }}
        location = /short {{ default_type text/html; return 200 \"short\"; }}
        location = /201 {{ default_type text/html; return 201 \"a text of more than twenty bytes\"; }}
        location = /204 {{ gzip_min_length 0; return 204; }}
        location = /301 {{ gzip_min_length 0; return 301 /t.html; }}
        location = /400 {{ return 400; }}
        location = /403 {{ return 403; }}
        location = /404 {{ return 404; }}
        location = /404text {{ default_type text/html; return 404 \"a text of more than twenty bytes\"; }}
        location = /405 {{ return 405; }}
        location = /500 {{ return 500; }}
        location = /ep {{ error_page 404 /t.html; return 404; }}
        location = /ep200 {{ error_page 404 =200 /t.html; return 404; }}
        location = /ep500 {{ error_page 500 /t.html; return 500; }}
        location /deep/ {{ gzip off; location /deep/on/ {{ gzip on; alias @ROOT@/; }} alias @ROOT@/; }}
        "
    );
    let mut cases = Vec::new();
    for target in [
        "/t.html",
        "/t19.html",
        "/t20.html",
        "/t2k.html",
        "/t40k.html",
        "/t300k.html",
        "/t.txt",
        "/t.gif",
        "/empty.txt",
        "/min0",
        "/min3k",
        "/none",
        "/types",
        "/TYPES",
        "/star",
        "/charset",
        "/untyped",
        "/off",
        "/ret",
        "/retnothing",
        "/short",
        "/201",
        "/204",
        "/301",
        "/400",
        "/403",
        "/404",
        "/404text",
        "/405",
        "/500",
        "/ep",
        "/ep200",
        "/ep500",
        "/missing",
        "/",
        "/dir",
        "/emptydir/",
        "/deep/t.html",
        "/deep/on/t.html",
        "/deep/on/missing",
    ] {
        cases.push(gz(target));
    }
    for target in ["/t.html", "/t19.html", "/t300k.html", "/min0", "/none", "/ret", "/404", "/201"] {
        cases.push(head(target).field("Accept-Encoding: gzip"));
        cases.push(get(target));
    }
    cases.extend([
        raw("GET /t.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /t.html HTTP/1.0\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n"),
        raw("GET /t.html\r\n"),
        request("POST", "/t.html").field("Accept-Encoding: gzip").field("Content-Length: 0"),
        request("POST", "/ret").field("Accept-Encoding: gzip").field("Content-Length: 0"),
        gz("/t.html").field("Range: bytes=0-5"),
        gz("/t.html").field("Range: bytes=999999-"),
        gz("/t.gif").field("Range: bytes=0-5"),
        gz("/t.html").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        gz("/t.html").field("If-Modified-Since: Sat, 05 Nov 1994 08:49:37 GMT"),
        gz("/t.html").field("If-None-Match: W/\"2ebc98a1-bb8\""),
        gz("/t.html").field("If-None-Match: \"2ebc98a1-bb8\""),
        gz("/t.html").field("If-Match: \"2ebc98a1-bb8\""),
        gz("/t.html").field("If-Match: W/\"2ebc98a1-bb8\""),
        gz("/t.html").field("If-None-Match: \"x\""),
        raw("GET /t.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\nGET /t2k.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\nGET /t.gif HTTP/1.1\r\nHost: h\r\n\r\n").responses(3),
        raw("GET /t.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n").eof(),
    ]);
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn accept_encoding() {
    let site = texts();
    let mut cases = Vec::new();
    for value in [
        "gzip",
        "GZIP",
        "gzip, deflate, br",
        "deflate, gzip",
        "deflate,gzip",
        "deflate gzip",
        "deflate;gzip",
        "x; gzip",
        "agzip",
        "agzip, gzip",
        "x-gzip",
        "gzipx",
        "gzipx, gzip",
        "gzip gzip",
        "gzip x",
        "gzip ,",
        "*",
        "*;q=1",
        "",
        "identity",
        "gzip;",
        "gzip ;",
        "gzip;,",
        "gzip;x=1",
        "gzip;q",
        "gzip;q=",
        "gzip;q=0",
        "gzip;q=0.",
        "gzip;q=0.0",
        "gzip;q=0.000",
        "gzip;q=0.001",
        "gzip;q=0.0001",
        "gzip;q=0.12",
        "gzip;q=0.5",
        "gzip; q=0.5",
        "gzip;Q=0.5",
        "gzip;q=.5",
        "gzip;q=0.5x",
        "gzip;q=0.5;x",
        "gzip;q=0.5,x",
        "gzip;q=0.5 ,x",
        "gzip;q =0.5",
        "gzip;q= 0.5",
        "gzip;q=1",
        "gzip;q=1.",
        "gzip;q=1.000",
        "gzip;q=1.0000",
        "gzip;q=1.001",
        "gzip;q=1;",
        "gzip;q=2",
        "gzip;q=00",
        "gzip;q=-1",
        "gzip;q=0, gzip",
        "gzip, gzip;q=0",
        "deflate;q=1.0, gzip;q=0.5",
        "gzip;\tq=1",
        "x,\tgzip",
        "gzip=1",
        "\"gzip\"",
    ] {
        cases.push(get("/t.html").field(&format!("Accept-Encoding: {value}")));
    }
    cases.push(get("/t.html").field("Accept-Encoding: deflate").field("Accept-Encoding: gzip"));
    cases.push(get("/t.html").field("Accept-Encoding: gzip").field("Accept-Encoding: deflate"));
    compare(&Setup::server(&site, &format!("{TYPES} gzip on; gzip_vary on;")), cases);
}

#[test]
fn levels_and_knobs() {
    let site = texts();
    let mut lines = TYPES.to_owned();
    let mut cases = Vec::new();
    for level in 1..=9 {
        lines += &format!("location /l{level}/ {{ gzip on; gzip_comp_level {level}; alias @ROOT@/; }}\n");
        cases.extend(["t20", "t2k", "t40k", "t300k"].map(|name| gz(&format!("/l{level}/{name}.html"))));
    }
    for (index, knobs) in [
        "gzip_buffers 2 1k;",
        "gzip_window 1k;",
        "gzip_hash 1k;",
        "gzip_window 512; gzip_hash 512;",
        "postpone_gzipping 10k;",
        "output_buffers 1 1k;",
        "sendfile on;",
        "aio threads;",
        "postpone_output 0;",
        "tcp_nopush on; sendfile on;",
    ]
    .iter()
    .enumerate()
    {
        lines += &format!("location /k{index}/ {{ gzip on; {knobs} alias @ROOT@/; }}\n");
        cases.extend(["t20", "t2k", "t300k"].map(|name| gz(&format!("/k{index}/{name}.html"))));
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn who_is_left_out() {
    let site = texts();
    let lines = format!(
        "{TYPES} gzip on; gzip_vary on;
        location /ie/ {{ alias @ROOT@/; gzip_disable msie6; }}
        location /re/ {{ alias @ROOT@/; gzip_disable msie6 \"Foo.*bar\" ^x; }}
        location /two/ {{ alias @ROOT@/; gzip_disable foo; gzip_disable bar; }}
        location /v10/ {{ alias @ROOT@/; gzip_http_version 1.0; }}
        "
    );
    let agents = [
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
        "MSIE 5.5",
        "MSIE 5.0 SV1",
        "MSIE 4.0",
        "MSIE 4.",
        "MSIE 4",
        "MSIE 3.0",
        "MSIE 7.0",
        "MSIE 6.0",
        "MSIE 6.",
        "msie 6.0",
        "MSIE 7.0 MSIE 6.0",
        "x Foozbar",
        "x fooBAR",
        "xyz",
        "bar",
        "a foo",
        "curl",
        "MSIE ",
        "MSIE",
    ];
    let mut cases = Vec::new();
    for agent in agents {
        for place in ["ie", "re", "two"] {
            cases.push(gz(&format!("/{place}/t.html")).field(&format!("User-Agent: {agent}")));
        }
    }
    cases.extend([
        gz("/ie/t.html"),
        raw("GET /v10/t.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /v10/t.html HTTP/1.0\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n"),
        raw("HEAD /v10/t.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /v10/missing HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /v10/t.html\r\n"),
        gz("/v10/t.html"),
    ]);
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn through_a_proxy() {
    let site = texts();
    let words = [
        "off",
        "expired",
        "no-cache",
        "no-store",
        "private",
        "no_last_modified",
        "no_etag",
        "auth",
        "any",
        "no_last_modified no_etag",
        "expired no-cache",
        "off any",
    ];
    let mut lines = format!("{TYPES} gzip on; gzip_vary on;\n");
    let mut cases = vec![
        gz("/t.html").field("Via: 1.1 x"),
        gz("/t.html").field("Via:"),
        gz("/t.html").field("Authorization: Basic x"),
    ];
    for (index, words) in words.iter().enumerate() {
        lines += &format!(
            "location /p{index}/ {{ gzip_proxied {words}; alias @ROOT@/; }}
             location /e{index}/ {{ gzip_proxied {words}; etag off; alias @ROOT@/; }}
             location /r{index}/ {{ gzip_proxied {words}; default_type text/html; return 200 \"a text of more than twenty bytes\"; }}\n"
        );
        for place in ["p", "e", "r"] {
            let target = format!("/{place}{index}/t.html");
            cases.push(gz(&target).field("Via: 1.1 x"));
            cases.push(gz(&target).field("Via: 1.1 x").field("Authorization: Basic x"));
        }
    }
    lines += "location /two/ { gzip_proxied off; gzip_proxied any; alias @ROOT@/; }\n";
    cases.push(gz("/two/t.html").field("Via: 1.1 x"));
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn vary() {
    let site = texts();
    let lines = format!(
        "{TYPES} gzip_vary on;
        location /on/ {{ gzip on; alias @ROOT@/; }}
        location /off/ {{ alias @ROOT@/; }}
        location /novary/ {{ gzip on; gzip_vary off; alias @ROOT@/; }}
        location = /404 {{ gzip on; return 404; }}
        location = /500 {{ gzip on; return 500; }}
        location = /302 {{ gzip on; return 302 /; }}
        "
    );
    let mut cases = Vec::new();
    for target in [
        "/on/t.html",
        "/on/t19.html",
        "/on/t.gif",
        "/on/missing",
        "/off/t.html",
        "/novary/t.html",
        "/404",
        "/500",
        "/302",
    ] {
        cases.extend([gz(target), get(target), head(target), get(target).field("Accept-Encoding: gzip;q=0")]);
    }
    cases.push(gz("/on/t.html").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    cases.push(gz("/on/t.html").field("Via: x"));
    cases.push(raw("GET /on/t.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"));
    compare(&Setup::server(&site, &lines), cases);
}
