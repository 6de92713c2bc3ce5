//! `subs_filter` and its relatives.

use super::{setup, taken_alike};
use crate::harness::{compare, get, head, raw};
use crate::site::{MTIME, site};

const MODULE: &[&str] = &["ngx_http_subs_filter_module"];

#[test]
fn lines_are_changed() {
    let site = site();
    let long = format!("{}hello{}hello\nhello{}hello", "x".repeat(9000), "y".repeat(20_000), "z".repeat(30_000));
    site.dated(
        "t.txt",
        "Hello hello HELLO world\nsecond hello line aaa\n\nfoo=bar; foo=baz\r\nlast no newline hello",
        MTIME,
    )
    .dated("t.html", "<p>Hello hello\n", MTIME)
    .dated("long.txt", &long, MTIME)
    .dated("many.txt", "hello a\n".repeat(30_000), MTIME)
    .dated("lines.txt", "abc\ndef\nabc\n", MTIME);
    let rules = [
        "subs_filter hello X;",
        "subs_filter hello X i;",
        "subs_filter hello X o;",
        "subs_filter hello X io;",
        "subs_filter hello X g;",
        "subs_filter 'h(.)llo' '[$1]' r; subs_filter '(foo)=(ba.)' '$2=$1' rg;",
        "subs_filter 'H(.)L+o' '<$1$uri>' ir;",
        "subs_filter hello world; subs_filter world W; subs_filter W hello;",
        "subs_filter hello X; subs_filter_bypass $arg_b $arg_c;",
        "subs_filter $arg_s $arg_d; subs_filter hello \"$arg_d\";",
        "subs_filter 'abc\\ndef' X; subs_filter '\\n' 'N';",
        "subs_filter 'hello' 'X' or; subs_filter 'a' 'b' o;",
        "subs_filter '' 'X';",
        "subs_filter hello '';",
        "subs_filter hello X; sub_filter_types *; sub_filter X Y; sub_filter_once off;",
        "subs_filter '\\.|=' '[D]' r;",
        "subs_filter hello X; subs_filter_types text/css;",
        "subs_filter hello X; gzip on; gzip_types *; gzip_min_length 1;",
        "subs_filter '(o)?(x)?=' '<$1|$2>' r;",
        "subs_filter hello X; subs_buffers 4 4k;",
    ];
    let (mut server, mut cases) = (String::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        server += &format!("location /{index}/ {{ alias @ROOT@/; {rule} }}\n");
        for path in
            ["t.txt", "t.html", "lines.txt", "nothing", "empty.txt", "t.txt?b=1", "t.txt?b=0&c=x", "t.txt?s=hello&d=Q"]
        {
            cases.push(get(&format!("/{index}/{path}")));
        }
        cases.push(get(&format!("/{index}/t.txt")).field("Accept-Encoding: gzip"));
    }
    server += r#"
        location /proxied/ { proxy_pass http://127.0.0.1:@PORT@/plain/; subs_filter hello X; }
        location /plain/ { alias @ROOT@/; add_header X-A b; }
        location /return { return 200 "hello hello"; subs_filter hello X; }
        location /error { return 404 "hello"; subs_filter hello X; }
        location /none { return 204; subs_filter hello X; }
        location /moved { return 301 /hello; subs_filter hello X; }
        location /outer/ { alias @ROOT@/; subs_filter hello X; location /outer/same/ { alias @ROOT@/; }
                           location /outer/other/ { alias @ROOT@/; subs_filter world V; } }"#;
    for target in [
        "/proxied/t.txt",
        "/return",
        "/error",
        "/none",
        "/moved",
        "/outer/t.txt",
        "/outer/same/t.txt",
        "/outer/other/t.txt",
    ] {
        cases.push(get(target));
    }
    for path in ["long.txt", "many.txt"] {
        cases.push(get(&format!("/0/{path}")));
        cases.push(get(&format!("/5/{path}")));
    }
    cases.extend([head("/0/t.txt"), raw("GET /0/t.txt HTTP/1.0\r\n\r\n")]);
    cases.push(get("/0/t.txt").field("Range: bytes=0-3"));
    cases.push(get("/0/t.txt").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    let http = "types { text/html html; text/plain txt; } subs_filter_types text/plain;";
    let Some(setup) = setup(MODULE, &site, http, &server) else { return };
    compare(&setup, cases);
}

#[test]
fn lines_that_are_refused() {
    taken_alike(
        MODULE,
        &[
            "subs_filter a;",
            "subs_filter a b x;",
            "subs_filter a b \"\";",
            "subs_filter \"(\" b r;",
            "subs_filter a b gior;",
            "subs_filter_bypass;",
            "subs_buffers 4 8k;",
            "subs_buffers 4;",
            "subs_line_buffer_size x;",
            "subs_line_buffer_size 4 8k;",
            "location / { if ($http_a) { subs_filter a b; } }",
            "subs_filter_types *;",
            "subs_filter \"\" b;",
            "subs_filter $nope b;",
            "subs_filter a $nope;",
            "subs_filter a $1;",
            "subs_filter (a) $2 r;",
        ],
    );
}
