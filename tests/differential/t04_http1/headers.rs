//! `add_header`, `add_trailer`, `expires`.

use crate::harness::{Case, compare, get, head, request};
use crate::site::site;
use freerun_testkit::Setup;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn in_order(cases: impl IntoIterator<Item = Case>) -> Vec<Case> {
    cases.into_iter().map(Case::in_order).collect()
}

#[test]
fn fields_are_added() {
    let site = site();
    let lines = "
        add_header S 1;
        location / { add_header X-A a; add_header X-B $uri always; expires 1h; }
        location /status { add_header X $status; add_header E \"\"; return 200 hello; }
        location /204 { add_header X y; return 204; }
        location /205 { add_header X y; return 205 hello; }
        location /301 { add_header X y; return 301 /x; }
        location /302 { add_header X y; add_header Location other; return 302 http://h/y; }
        location /404 { add_header X y; return 404; }
        location /503 { add_header X y; add_header Retry-After 5 always; return 503; }
        location /last { add_header Last-Modified \"\"; try_files /a.txt =404; }
        location /last2 { add_header last-modified foo; add_header B b; try_files /a.txt =404; }
        location /last3 { add_header Last-Modified 'Tue, 01 Feb 2000 00:00:00 GMT'; try_files /a.txt =404; }
        location /last4 { add_header Last-Modified 'Tue, 01 Feb 2000 00:00:00 GMT'; try_files /a.txt =404; sub_filter a b; sub_filter_types *; }
        location /etag { add_header ETag \"\"; try_files /a.txt =404; }
        location /etag2 { add_header A a; add_header ETag x; try_files /a.txt =404; }
        location /cache { add_header Cache-Control a; add_header Cache-Control b; expires max; return 200 x; }
        location /many { add_header Link x; add_header Link y; add_header Vary v; add_header Content-Encoding c; return 200 x; }
        location /arg { add_header E $arg_e always; return 200 x; }
        location /outer { add_header O 1; location /outer/none { return 200 x; } location /outer/own { add_header I 1; return 200 x; } }
        location /none { return 200 x; }
        location /expires { expires 1h; }
        location /page { error_page 404 /err.html; add_header P 1; return 404; }
        location /page2 { error_page 403 =200 /err.html; add_header P 1; return 403; }
        location = /err.html { add_header ERR 1; return 200 foo; }
        location /type { add_header T $sent_http_content_type; add_header L $sent_http_content_length; try_files /a.txt =404; }
    ";
    compare(
        &Setup::server(&site, lines),
        in_order([
            get("/a.txt"),
            head("/a.txt"),
            get("/a.txt").field("Range: bytes=0-3"),
            get("/a.txt").field("Range: bytes=0-3,5-6"),
            get("/a.txt").field("Range: bytes=90-"),
            get("/a.txt").field(&format!("If-Modified-Since: {DATE}")),
            get("/a.txt").field("If-Match: \"x\""),
            get("/missing.txt"),
            get("/dir"),
            request("POST", "/a.txt"),
            request("DELETE", "/a.txt"),
            get("/status"),
            get("/204"),
            get("/205"),
            get("/301"),
            get("/302"),
            get("/404"),
            get("/503"),
            get("/last"),
            get("/last").field(&format!("If-Modified-Since: {DATE}")),
            get("/last2"),
            get("/last2").field(&format!("If-Range: {DATE}")).field("Range: bytes=0-3"),
            get("/last3").field(&format!("If-Range: {DATE}")).field("Range: bytes=0-3"),
            get("/last3").field("If-Range: Tue, 01 Feb 2000 00:00:00 GMT").field("Range: bytes=0-3"),
            get("/last3").field("If-Range: Tue, 01 Feb 2000 00:00:01 GMT").field("Range: bytes=0-3"),
            get("/last4"),
            get("/etag"),
            get("/etag").field("If-None-Match: \"2ebc98a1-10\""),
            get("/etag2"),
            get("/cache"),
            get("/many"),
            get("/arg"),
            get("/arg?e=1"),
            get("/outer/none"),
            get("/outer/own"),
            get("/none"),
            get("/expires/x"),
            get("/page"),
            get("/page2"),
            get("/type"),
            head("/type"),
        ]),
    );
}

#[test]
fn expiry() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for (number, value) in [
        "1h",
        "-1",
        "0",
        "+1M",
        "max",
        "epoch",
        "off",
        "modified 1h",
        "modified -1h",
        "modified +50y",
        "$arg_e",
        "modified $arg_e",
    ]
    .into_iter()
    .enumerate()
    {
        lines += &format!("location /file{number} {{ expires {value}; try_files /a.txt =404; }}\n");
        lines += &format!("location /text{number} {{ expires {value}; return 200 x; }}\n");
        if value.contains('$') {
            for arg in ["1h", "-1h", "max", "off", "epoch", "foo", "", "modified", "-0", "1y", "@25h", "-@1h"] {
                cases.push(get(&format!("/file{number}?e={arg}")));
                cases.push(get(&format!("/text{number}?e={arg}")));
            }
        } else {
            cases.push(get(&format!("/file{number}")));
            cases.push(get(&format!("/text{number}")));
        }
    }
    compare(&Setup::server(&site, &lines), in_order(cases));
}

#[test]
fn trailers() {
    let site = site();
    let lines = "
        location ~ (txt|bin)$ { add_trailer X-A a; add_trailer X-B $uri always; add_trailer X-E \"\"; }
        location /404 { add_trailer X-B $uri always; add_trailer X-A a; return 404; }
        location /404none { add_trailer X-A a; return 404; }
        location /text { add_trailer X-A a; add_trailer S $status; return 200 hello; }
        location /nothing { add_trailer X-A a; return 200 \"\"; }
        location /204 { add_trailer X-A a always; return 204; }
        location /301 { add_trailer X-A a always; return 301 /x; }
        location /off { chunked_transfer_encoding off; add_trailer X-A a; return 200 hello; }
        location /parent { add_trailer P p; location /parent/own { add_trailer I i; return 200 x; } location /parent/none { return 200 x; } }
    ";
    compare(
        &Setup::server(&site, lines),
        in_order([
            get("/a.txt"),
            get("/big.bin"),
            get("/empty.txt"),
            head("/a.txt"),
            get("/a.txt").field("Range: bytes=0-3"),
            get("/a.txt").field("Range: bytes=0-3,5-6"),
            get("/a.txt").field("Range: bytes=99-"),
            get("/a.txt").field(&format!("If-Modified-Since: {DATE}")),
            crate::harness::raw("GET /a.txt HTTP/1.0\r\n\r\n"),
            get("/missing"),
            get("/404"),
            get("/404none"),
            get("/text"),
            get("/nothing"),
            get("/204"),
            get("/301"),
            get("/off"),
            get("/parent/own"),
            get("/parent/none"),
        ]),
    );
}

/// The date of a page that stands for an error counts for `expires`, though it is not sent.
#[test]
fn expiry_of_pages_for_errors() {
    let site = site();
    let lines = "
        location /301 { error_page 301 /page; return 301 /x; }
        location /302 { error_page 302 /page; return 302 /x; }
        location /named { error_page 301 @named; return 301 /x; }
        location /404 { error_page 404 /page; return 404; }
        location /200 { error_page 404 =200 /page; return 404; }
        location /own { error_page 404 = /page; return 404; }
        location = /page { alias @ROOT@/a.txt; expires modified 1h; add_header L $sent_http_last_modified; }
        location @named { try_files /a.txt =404; expires modified +1d; add_header Last-Modified x; }
    ";
    let targets = ["/301", "/302", "/named", "/404", "/200", "/own", "/page"];
    compare(&Setup::server(&site, lines), targets.map(get).into_iter().chain([head("/301")]).collect());
}
