//! nginx's core variables.

use crate::harness::{Case, compare, get, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn of_the_request() {
    let site = site();
    let names = [
        "arg_a",
        "arg_A",
        "arg_b",
        "args",
        "body_bytes_sent",
        "content_length",
        "content_type",
        "cookie_a",
        "cookie_b",
        "document_root",
        "document_uri",
        "host",
        "hostname_is_skipped",
        "http_host",
        "http_user_agent",
        "http_x_test",
        "http_referer",
        "http_cookie",
        "https",
        "is_args",
        "limit_rate",
        "nginx_version_is_skipped",
        "query_string",
        "realpath_root",
        "remote_addr",
        "remote_user",
        "request",
        "request_completion",
        "request_filename",
        "request_method",
        "request_uri",
        "scheme",
        "server_addr",
        "server_name",
        "server_port",
        "server_protocol",
        "uri",
        "sent_http_content_type",
        "tcpinfo_is_skipped",
        "status",
        "connection_requests",
        "pipe",
        "request_body",
        "proxy_protocol_addr",
        "http_via",
        "http_x_forwarded_for",
        "sent_http_x",
    ];
    let text: String = names
        .iter()
        .filter(|name| !name.ends_with("_is_skipped"))
        .map(|name| format!("{name}=[${{{name}}}]\\n"))
        .collect();
    let lines = format!(
        "location / {{ return 200 \"{text}\"; }} location /dir/ {{ alias @ROOT@/alias/; return 200 \"{text}\"; }}"
    );
    let basic = |credentials: &str| get("/").field(&format!("Authorization: Basic {credentials}"));
    compare(
        &Setup::server(&site, &lines),
        vec![
            get("/"),
            get("/x%20y/../z?a=1&b=2&A=3"),
            get("/?a=1&a=2"),
            get("/?a"),
            get("/?a="),
            get("/?=1"),
            get("/?xa=1&a=%20"),
            get("/?"),
            get("/dir/target/x.txt?q"),
            get("//double//slash"),
            get("/").field("Cookie: a=1; b=2"),
            get("/").field("Cookie: b=\"q;a=1\"; a=3"),
            get("/").field("Cookie: aa=1;a=2;b"),
            get("/").field("X-Test: v").field("User-Agent: agent").field("Referer: ref"),
            basic("dXNlcjpwYXNz"),
            basic("dXNlcg=="),
            basic("!!!"),
            basic(""),
            get("/").field("Authorization: Bearer x"),
            request("POST", "/p").field("Content-Length: 4").field("Content-Type: text/x").body("body"),
            request("HEAD", "/h"),
            raw("GET / HTTP/1.0\r\n\r\n"),
            raw("GET http://abs.example/path?q HTTP/1.1\r\nHost: other\r\n\r\n"),
            raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n").responses(2),
        ],
    );
}

#[test]
fn syntax_in_texts() {
    let site = site();
    let lines = "
        location = /braces { return 200 \"${uri}x\\n\"; }
        location = /end { return 200 \"$uri\"; }
        location = /adjacent { return 200 $uri$args; }
        location = /quotes { return 200 \"a\\\"b'c\\td\\\\e\"; }
        location = /single { return 200 'a\"b\\'c\\nd'; }
        location ~ ^/cap/(a)(b)?(c)?$ { return 200 \"[$1][$2][$3][$4]\\n\"; }
        location ~ ^/name/(?<n_1>.+)$ { return 200 \"[$n_1]\\n\"; }
        location = /bytes { return 200 \"ü€\\n\"; }
    ";
    let targets = [
        "/braces",
        "/end",
        "/adjacent?q",
        "/quotes",
        "/single",
        "/cap/a",
        "/cap/ab",
        "/cap/abc",
        "/name/x/y",
        "/bytes",
    ];
    compare(&Setup::server(&site, lines), targets.iter().map(|target| get(target)).collect::<Vec<Case>>());
}

#[test]
fn an_argument_without_a_name() {
    let site = site();
    compare(&Setup::server(&site, "location / { return 200 \"[$arg_]\"; }"), vec![get("/?=1"), get("/?a=1")]);
}
