//! `sub_filter`.

use crate::harness::{compare, get, head, raw};
use crate::site::MTIME;
use freerun_testkit::{Setup, Site};

const TEXT: &str = "Hello hello HELLO world world aaab abab ababc <body>text</body> x";

fn site() -> Site {
    let site = Site::new();
    // Longer than any buffer, with a string across every border that one may have.
    let long: String = (0..40_000).map(|number| format!("{number} needle{}", "-".repeat(number % 7))).collect();
    site.dated("a.html", TEXT, MTIME)
        .dated("a.txt", TEXT, MTIME)
        .dated("none.html", "nothing here", MTIME)
        .dated("empty.html", "", MTIME)
        .dated("long.html", long, MTIME)
        .dated("almost.html", "neeneeneedl needleneedl", MTIME);
    site
}

#[test]
fn substitutions() {
    let site = site();
    let once = "sub_filter_once off;";
    let filters = [
        "sub_filter hello X;".to_owned(),
        format!("sub_filter hello X; {once}"),
        "sub_filter hello X; sub_filter world Y;".to_owned(),
        format!("sub_filter hello X; sub_filter world Y; {once}"),
        format!("sub_filter aab Z; sub_filter ab Y; {once}"),
        format!("sub_filter ab Y; sub_filter aab Z; {once}"),
        format!("sub_filter abab 1; sub_filter ababc 2; {once}"),
        format!("sub_filter ababc 2; sub_filter abab 1; {once}"),
        "sub_filter hello $uri;".to_owned(),
        format!("sub_filter $arg_p R; {once}"),
        format!("sub_filter hello ''; {once}"),
        "sub_filter hello X; sub_filter_last_modified on;".to_owned(),
        "sub_filter hello X; sub_filter_types text/plain;".to_owned(),
        "sub_filter hello X; sub_filter_types *;".to_owned(),
        format!("sub_filter h hh; sub_filter hh h; {once}"),
        format!("sub_filter a 1; sub_filter b 2; sub_filter ab 3; {once}"),
        format!("sub_filter ab 3; sub_filter a 1; sub_filter b 2; {once}"),
        "sub_filter world 1; sub_filter worl 2; sub_filter orld 3;".to_owned(),
        "sub_filter hello X; sub_filter hello Y;".to_owned(),
        "sub_filter HELLO X; sub_filter hello Y;".to_owned(),
        "sub_filter '<BODY>' '<body><p>'; sub_filter '</body>' '</p></body>'; charset utf-8; expires 1h;".to_owned(),
        format!("sub_filter needle N; {once}"),
        format!("sub_filter needle N; sub_filter '5 need' M; sub_filter '-' ''; {once}"),
        "sub_filter 'x' '$arg_p$arg_p'; sub_filter $arg_p q;".to_owned(),
    ];
    let mut lines = String::new();
    let mut cases = Vec::new();
    for (number, filter) in filters.iter().enumerate() {
        lines += &format!("location /{number}/ {{ alias @ROOT@/; {filter} }}\n");
        let target = |file: &str| format!("/{number}/{file}?p=WORLD");
        cases.extend([
            get(&target("a.html")).in_order(),
            get(&target("a.txt")).in_order(),
            get(&target("none.html")),
            get(&target("almost.html")),
            get(&target("empty.html")),
            head(&target("a.html")).in_order(),
        ]);
        if filter.contains("needle") {
            cases.push(get(&target("long.html")));
        }
    }
    lines += "
        location /404 { sub_filter 404 FOUR; return 404; }
        location /301 { sub_filter 301 X; return 301 /x; }
        location /201 { sub_filter a b; default_type text/html; return 201 aaa; }
        location /204 { sub_filter a b; default_type text/html; return 204; }
        location /outer/ { alias @ROOT@/; sub_filter hello OUTER; location /outer/in/ { alias @ROOT@/; sub_filter world IN; }
            location /outer/same/ { alias @ROOT@/; } }
    ";
    cases.extend([
        get("/9/a.html"),
        get("/9/a.html?p="),
        get("/0/a.html").field("Range: bytes=0-3"),
        get("/0/a.html").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        get("/11/a.html").field("If-None-Match: \"2ebc98a1-41\""),
        get("/11/a.html").field("Range: bytes=0-3"),
        raw("GET /0/a.html HTTP/1.0\r\n\r\n"),
        get("/404"),
        get("/301"),
        get("/201"),
        get("/204"),
        get("/outer/a.html"),
        get("/outer/in/a.html"),
        get("/outer/same/a.html"),
    ]);
    let http = "types { text/html html; text/plain txt; }";
    let server = format!("{http} server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {lines} }}");
    compare(&Setup::new().root(&site).http(&server), cases);
}
