//! Ranges and conditional requests.

use crate::harness::{compare, get, head, raw};
use crate::site::site;
use freerun_testkit::Setup;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LATER: &str = "Mon, 07 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sat, 05 Nov 1994 08:49:37 GMT";
/// nginx's form for 16 bytes of that date: seconds and length in hexadecimal.
const ETAG: &str = "\"2ebc98a1-10\"";

#[test]
fn ranges() {
    let site = site();
    let mut cases = Vec::new();
    for range in [
        "bytes=0-0",
        "bytes=0-3",
        "bytes=5-",
        "bytes=-3",
        "bytes=-16",
        "bytes=-17",
        "bytes=-0",
        "bytes=0-",
        "bytes=0-15",
        "bytes=0-16",
        "bytes=0-999999",
        "bytes=15-",
        "bytes=16-",
        "bytes=16-20",
        "bytes=99-",
        "bytes=3-2",
        "bytes=",
        "bytes",
        "bytes=-",
        "bytes=a-b",
        "bytes=0-b",
        "bytes= 0-3",
        "bytes=0 - 3",
        "bytes=0-3 ",
        "bytes=0-3, 5-6",
        "bytes=0-3,5-6",
        "bytes=0-3 , 5-6",
        "bytes=0-3,,5-6",
        "bytes=0-3,",
        "bytes=,0-3",
        "bytes=5-6,0-3",
        "bytes=0-3,2-5",
        "bytes=0-3,99-",
        "bytes=99-,0-3",
        "bytes=99-,100-",
        "bytes=-1,-2",
        "bytes=0-,0-,0-",
        "bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7",
        "Bytes=0-3",
        "bytes:0-3",
        "seconds=0-3",
        "0-3",
        "bytes=0-18446744073709551615",
        "bytes=0-99999999999999999999999",
        "bytes=99999999999999999999999-",
        "bytes=-99999999999999999999999",
        "bytes=9223372036854775807-",
        "bytes=1-2x",
        "bytes=+1-2",
    ] {
        cases.push(get("/a.txt").field(&format!("Range: {range}")));
    }
    cases.extend([
        head("/a.txt").field("Range: bytes=0-3"),
        head("/a.txt").field("Range: bytes=0-3,5-6"),
        head("/a.txt").field("Range: bytes=99-"),
        get("/empty.txt").field("Range: bytes=0-"),
        get("/empty.txt").field("Range: bytes=-1"),
        get("/big.bin").field("Range: bytes=100000-200000"),
        get("/big.bin").field("Range: bytes=-5,1000-70000,255990-"),
        get("/none").field("Range: bytes=0-3"),
        get("/dir").field("Range: bytes=0-3"),
        get("/").field("Range: bytes=3-"),
        get("/a.txt").field("Range: bytes=0-3").field("Range: bytes=5-6"),
        raw("GET /a.txt HTTP/1.0\r\nRange: bytes=0-3\r\n\r\n"),
        raw("GET /a.txt HTTP/1.0\r\nRange: bytes=0-3,5-6\r\n\r\n"),
    ]);
    compare(&Setup::server(&site, ""), cases);
}

#[test]
fn max_ranges() {
    let site = site();
    let lines = "
        location / { max_ranges 2; }
        location /dir/ { max_ranges 0; }
        location /alias/ { max_ranges 1; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/a.txt").field("Range: bytes=0-0,2-2"),
            get("/a.txt").field("Range: bytes=0-0,2-2,4-4"),
            get("/dir/f.txt").field("Range: bytes=0-0"),
            get("/alias/target/x.txt").field("Range: bytes=0-0"),
            get("/alias/target/x.txt").field("Range: bytes=0-0,2-2"),
        ],
    );
}

#[test]
fn conditions() {
    let site = site();
    let mut cases = Vec::new();
    for value in
        [DATE, LATER, EARLIER, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "yesterday", "", "0"]
    {
        cases.push(get("/a.txt").field(&format!("If-Modified-Since: {value}")));
        cases.push(get("/a.txt").field(&format!("If-Unmodified-Since: {value}")));
        cases.push(get("/a.txt").field("Range: bytes=0-3").field(&format!("If-Range: {value}")));
    }
    for value in [
        ETAG,
        "W/\"2ebc98a1-10\"",
        "\"other\"",
        "*",
        "\"other\", \"2ebc98a1-10\"",
        "\"other\",\"2ebc98a1-10\"",
        "\"other\",W/\"2ebc98a1-10\"",
        "\"2ebc98a1-10",
        "2ebc98a1-10",
        "\"a,b\"",
        "",
        "  \"2ebc98a1-10\"  ",
        "\"2ebc98a1-1\"",
        "\"2ebc98a1-100\"",
    ] {
        cases.push(get("/a.txt").field(&format!("If-None-Match: {value}")));
        cases.push(get("/a.txt").field(&format!("If-Match: {value}")));
        cases.push(get("/a.txt").field("Range: bytes=0-3").field(&format!("If-Range: {value}")));
    }
    cases.extend([
        head("/a.txt").field(&format!("If-Modified-Since: {DATE}")),
        head("/a.txt").field(&format!("If-None-Match: {ETAG}")),
        get("/a.txt").field(&format!("If-None-Match: {ETAG}")).field(&format!("If-Modified-Since: {EARLIER}")),
        get("/a.txt").field("If-None-Match: \"other\"").field(&format!("If-Modified-Since: {DATE}")),
        get("/a.txt").field(&format!("If-Match: {ETAG}")).field(&format!("If-Unmodified-Since: {EARLIER}")),
        get("/a.txt").field("If-Match: \"other\"").field("Range: bytes=0-3"),
        get("/a.txt").field(&format!("If-None-Match: {ETAG}")).field("Range: bytes=0-3"),
        get("/none").field("If-None-Match: *"),
        get("/none").field("If-Match: \"x\""),
        get("/dir").field("If-None-Match: *"),
        get("/").field(&format!("If-Modified-Since: {DATE}")),
        raw(format!("GET /a.txt HTTP/1.0\r\nIf-Modified-Since: {DATE}\r\n\r\n")),
    ]);
    compare(&Setup::server(&site, ""), cases);
}

#[test]
fn if_modified_since_and_etag_directives() {
    let site = site();
    let lines = "
        location /off/ { alias @ROOT@/; if_modified_since off; }
        location /before/ { alias @ROOT@/; if_modified_since before; }
        location /exact/ { alias @ROOT@/; if_modified_since exact; }
        location /noetag/ { alias @ROOT@/; etag off; }
    ";
    let mut cases = Vec::new();
    for place in ["off", "before", "exact", "noetag"] {
        for date in [DATE, LATER, EARLIER] {
            cases.push(get(&format!("/{place}/a.txt")).field(&format!("If-Modified-Since: {date}")));
        }
    }
    cases.extend([
        get("/noetag/a.txt"),
        get("/noetag/a.txt").field(&format!("If-None-Match: {ETAG}")),
        get("/noetag/a.txt").field(&format!("If-Match: {ETAG}")),
        get("/noetag/a.txt").field("If-Match: *"),
        get("/noetag/a.txt").field("Range: bytes=0-3").field(&format!("If-Range: {ETAG}")),
        get("/noetag/a.txt").field("Range: bytes=0-3").field(&format!("If-Range: {DATE}")),
        get("/off/a.txt").field(&format!("If-None-Match: {ETAG}")),
    ]);
    compare(&Setup::server(&site, lines), cases);
}

/// A 304 has no media type, which is one of `*` all the same: a filter that takes the validators of a page away does so here.
#[test]
fn validators_of_a_304_that_filters_take() {
    let site = site();
    let filters = [
        "",
        "ssi on;",
        "ssi on; ssi_types *;",
        "ssi on; ssi_types text/plain;",
        "ssi on; ssi_types *; ssi_last_modified on;",
        "sub_filter a b;",
        "sub_filter a b; sub_filter_types *;",
        "sub_filter a b; sub_filter_types text/plain;",
        "sub_filter a b; sub_filter_types *; sub_filter_last_modified on;",
        "sub_filter $arg_none b; sub_filter_types *;",
        "sub_filter a b; sub_filter_types *; expires epoch; add_header X $sent_http_etag;",
        "add_before_body /before; addition_types *;",
        "charset utf-8; charset_types *;",
        "gzip on; gzip_min_length 0; gzip_types *;",
        "gunzip on;",
    ];
    let mut lines = String::new();
    let mut cases = Vec::new();
    for (number, filter) in filters.iter().enumerate() {
        lines += &format!("location /{number}/ {{ alias @ROOT@/; {filter} }}\n");
        for target in ["a.txt", "page.html", "empty.txt"].map(|file| format!("/{number}/{file}")) {
            cases.extend([
                get(&target).field("If-None-Match: *"),
                get(&target).field("If-None-Match: *").field("Accept-Encoding: gzip"),
                get(&target).field(&format!("If-None-Match: {ETAG}")),
                get(&target).field(&format!("If-None-Match: W/{ETAG}")),
                get(&target).field(&format!("If-None-Match: \"other\", {ETAG}")),
                get(&target).field(&format!("If-Modified-Since: {DATE}")),
                head(&target).field("If-None-Match: *"),
            ]);
        }
    }
    compare(&Setup::server(&site, &lines), cases);
}
