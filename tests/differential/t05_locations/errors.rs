//! Built-in and configured error pages.

use crate::harness::{compare, get, head, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn error_pages() {
    let site = site();
    let lines = "
        error_page 404 /errors/404.html;
        error_page 405 = /errors/405.html;
        error_page 500 502 503 504 /errors/50x.html;
        error_page 403 http://example.com/forbidden;
        error_page 410 =200 /a.txt;
        error_page 409 =301 /moved;
        error_page 411 @named;
        error_page 412 =299 @named;
        error_page 413 /none.html;
        error_page 414 =404 /errors/404.html;
        error_page 422 =302 https://example.com/$uri;
        error_page 423 /vars/$arg_p;
        location = /500 { return 500; }
        location = /503 { return 503; }
        location = /403 { return 403; }
        location = /410 { return 410; }
        location = /409 { return 409; }
        location = /411 { return 411; }
        location = /412 { return 412; }
        location = /413 { return 413; }
        location = /422 { return 422; }
        location = /423 { return 423; }
        location = /404text { return 404 \"own text\\n\"; }
        location = /moved { return 200 \"moved here\\n\"; }
        location /vars/ { return 200 \"vars $uri $status\\n\"; }
        location /own/ { error_page 404 /page.html; }
        location /own/off/ { error_page 498 /x; }
        location /chain/ { error_page 404 /chain2/x; }
        location /chain2/ { error_page 404 /page.html; }
        location @named { return 200 \"named $uri\\n\"; }
        location /static-named/ { error_page 404 = @fallback; }
        location @fallback { root @ROOT@/dir; try_files /f.txt =404; }
        location = /empty404 { error_page 404 =204 /204; }
        location = /204 { return 204; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/none"),
            head("/none"),
            request("POST", "/none").field("Content-Length: 4").body("abcd"),
            request("POST", "/a.txt").field("Content-Length: 4").body("abcd"),
            request("DELETE", "/a.txt"),
            get("/500"),
            get("/503"),
            get("/403"),
            get("/410"),
            get("/409"),
            get("/411"),
            get("/412"),
            get("/413"),
            get("/422"),
            get("/423?p=x"),
            get("/404text"),
            get("/own/none"),
            get("/own/off/none"),
            get("/chain/none"),
            get("/static-named/none"),
            get("/empty404"),
            get("/none").field("Range: bytes=0-3"),
            get("/none").field("If-None-Match: *"),
            get("/emptydir/"),
            get("/secret/denied.txt"),
            get("/%zz"),
            raw("GET /none HTTP/1.0\r\n\r\n"),
            raw("GET /none\r\n"),
            raw("BAD\r\n\r\n"),
        ],
    );
}

#[test]
fn server_tokens() {
    let site = site();
    for tokens in ["on", "off"] {
        compare(
            &Setup::server(&site, &format!("server_tokens {tokens};")),
            vec![get("/none"), get("/a.txt"), get("/dir")],
        );
    }
}

#[test]
fn redirects_name_the_host() {
    let site = site();
    compare(
        &Setup::server(&site, ""),
        vec![
            get("/dir"),
            raw("GET /dir HTTP/1.1\r\nHost: other.example\r\n\r\n"),
            raw("GET /dir HTTP/1.1\r\nHost: other.example:8080\r\n\r\n"),
            raw("GET /dir HTTP/1.1\r\nHost: OTHER.example\r\n\r\n"),
            raw("GET /dir HTTP/1.0\r\n\r\n"),
            raw("GET /dir?x=%20&y HTTP/1.0\r\nHost: h\r\n\r\n"),
            raw("GET /dir/sub%20dir HTTP/1.0\r\nHost: h\r\n\r\n"),
            raw("GET //dir HTTP/1.0\r\nHost: h\r\n\r\n"),
            raw("GET http://abs.example/dir HTTP/1.1\r\nHost: h\r\n\r\n"),
        ],
    );
}

#[test]
fn page_for_a_body_that_is_too_large() {
    let site = site();
    let lines = "client_max_body_size 10; error_page 413 /page.html;";
    let post =
        |fields: &str| request("POST", "/a.txt").field("Content-Length: 20").field("Connection: close").field(fields);
    compare(
        &Setup::server(&site, lines),
        vec![post("X: y").body("01234567890123456789"), post("Expect: 100-continue").body("01234567890123456789")],
    );
}
