//! `charset`.

use crate::harness::{compare, get, head, raw};
use crate::site::MTIME;
use freerun_testkit::{Setup, Site};

const CYRILLIC: &str = "привет € é & 😀 конец";

fn site() -> Site {
    let site = Site::new();
    site.dated("a.html", b"a\xe1\xe2\xe3 z\xff!", MTIME)
        .dated("a.txt", b"a\xe1\xe2\xe3", MTIME)
        .dated("a.css", b"a\xe1\xe2\xe3", MTIME)
        .dated("a.bin", b"a\xe1\xe2\xe3", MTIME)
        .dated("ascii.html", "ascii only", MTIME)
        .dated("empty.html", "", MTIME)
        .dated("utf.html", CYRILLIC, MTIME)
        .dated("cut.html", b"cut \xd0", MTIME)
        .dated("long.html", CYRILLIC.repeat(20_000), MTIME)
        .dated("ünï.txt", "name", MTIME)
        .dated(&format!("{}.txt", "ü".repeat(46)), "name", MTIME)
        .dated(&format!("{}.txt", "ü".repeat(47)), "name", MTIME);
    site
}

const HTTP: &str = "
    types { text/html html; text/plain txt; text/css css; }
    charset_map koi8-r utf-8 { 80 E282AC; C0 D18E; C5 D0B5; C9 D0B8; CB D0BA; CE D0BD; CF D0BE; D0 D0BF; D2 D180; D4 D182;
        D7 D0B2; C3 D186; E1 D0B0; E2 D0B1; E3 D0B2; A3 D191; }
    charset_map koi8-r windows-1251 { 80 88; A3 B8; C0 FE; C1 E0; C2 E1; C3 F6; D0 EF; E1 C0; E2 C1; E3 D6; FF DA; }
";

fn setup(site: &Site, lines: &str) -> Setup {
    Setup::new()
        .root(site)
        .http(&format!("{HTTP} server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {lines} }}"))
}

#[test]
fn the_parameter() {
    let site = site();
    let lines = "
        charset utf-8;
        location /off { charset off; default_type text/html; return 200 x; }
        location /types/ { alias @ROOT@/; charset_types text/css; }
        location /all/ { alias @ROOT@/; charset_types *; }
        location /same/ { alias @ROOT@/; charset UTF-8; source_charset utf-8; }
        location /only-source/ { alias @ROOT@/; charset off; source_charset koi8-r; }
        location /var/ { alias @ROOT@/; charset $arg_c; }
        location /header { charset koi8-r; default_type text/html; add_header T $sent_http_content_type; return 200 x; }
        location /301 { return 301 /x; }
        location /302 { default_type text/html; return 302 x; }
        location /303 { return 303 x; }
        location /307 { return 307 x; }
        location /300 { default_type text/html; return 300 x; }
        location /204 { return 204; }
        location /404 { return 404; }
        location /upper { default_type TEXT/HTML; return 200 x; }
        location /own { default_type \"text/html; charset=koi8-r\"; return 200 x; }
        location /own2 { override_charset on; default_type \"text/html; charset=koi8-r\"; return 200 x; }
        location /list/ { alias @ROOT@/; autoindex on; }
        location /list-koi/ { alias @ROOT@/; charset koi8-r; autoindex on; }
        location /xml/ { alias @ROOT@/empty/; charset koi8-r; autoindex on; autoindex_format xml; }
    ";
    site.folder("empty");
    compare(
        &setup(&site, lines),
        vec![
            get("/a.html").in_order(),
            get("/a.txt"),
            get("/a.css"),
            get("/a.bin"),
            head("/a.html"),
            get("/a.html").field("Range: bytes=0-2"),
            get("/a.html").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
            get("/missing"),
            get("/off"),
            get("/types/a.html"),
            get("/types/a.css"),
            get("/types/a.txt"),
            get("/all/a.bin"),
            get("/same/a.html"),
            get("/only-source/a.html"),
            get("/var/a.html?c=foo"),
            get("/var/a.html?c="),
            get("/var/a.html?c=off"),
            get("/var/a.html").differs("nginx 1.22 loses its worker over an unset variable", "HTTP/1.1 200 OK"),
            get("/header"),
            get("/301"),
            get("/302"),
            get("/303"),
            get("/307"),
            get("/300"),
            get("/204"),
            get("/404"),
            get("/upper"),
            get("/own"),
            get("/own2"),
            get("/xml/"),
        ],
    );
}

#[test]
fn what_is_packed_is_not_recoded_and_has_its_character_set_told() {
    let site = site();
    site.dated("a.html.gz", "packed", MTIME);
    // Since nginx 1.23.4 ranges of these are answered.
    let lines = "
        gzip_static always; max_ranges 0;
        location /utf/ { alias @ROOT@/; charset utf-8; }
        location /same/ { alias @ROOT@/; charset utf-8; source_charset utf-8; }
        location /from/ { alias @ROOT@/; charset koi8-r; source_charset utf-8; }
        location /off/ { alias @ROOT@/; charset off; }
        location /own/ { charset utf-8; proxy_pass http://127.0.0.1:@PORT@/same/; }
        location /passed/ { charset utf-8; proxy_pass http://127.0.0.1:@PORT@/off/; }
        location /changed/ { charset koi8-r; override_charset on; proxy_pass http://127.0.0.1:@PORT@/same/; }
    ";
    let cases =
        ["utf", "same", "from", "off", "own", "passed", "changed"].map(|folder| get(&format!("/{folder}/a.html")));
    compare(&setup(&site, lines), cases.into());
}

#[test]
fn recoding() {
    let site = site();
    let lines = "
        location /bytes/ { alias @ROOT@/; charset koi8-r; source_charset windows-1251; }
        location /back/ { alias @ROOT@/; charset windows-1251; source_charset koi8-r; }
        location /to/ { alias @ROOT@/; charset utf-8; source_charset koi8-r; }
        location /from/ { alias @ROOT@/; charset koi8-r; source_charset utf-8; add_header X y; }
        location /var/ { alias @ROOT@/; charset $arg_c; source_charset $arg_s; }
        location /text { default_type text/html; charset koi8-r; source_charset utf-8; return 200 \"€ привет\"; }
        location /nothing { default_type text/html; charset koi8-r; source_charset utf-8; return 200 \"\"; }
    ";
    let mut cases = Vec::new();
    for folder in ["bytes", "back", "to", "from"] {
        for file in ["a.html", "ascii.html", "empty.html", "missing.html", "a.css", "a.txt"] {
            // What is not valid UTF-8 is marked byte by byte here.
            if folder == "from" && matches!(file, "a.html" | "a.txt") {
                continue;
            }
            cases.push(get(&format!("/{folder}/{file}")).in_order());
        }
        cases.push(head(&format!("/{folder}/ascii.html")));
        cases.push(get(&format!("/{folder}/ascii.html")).field("Range: bytes=2-5"));
        cases.push(get(&format!("/{folder}/ascii.html")).field("Range: bytes=99-"));
        cases.push(get(&format!("/{folder}/ascii.html")).field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    }
    cases.extend([
        get("/from/utf.html"),
        get("/from/cut.html"),
        get("/from/long.html"),
        get("/bytes/long.html"),
        get("/bytes/long.html").field("Range: bytes=100000-100009"),
        get("/to/long.html"),
        raw("GET /from/utf.html HTTP/1.0\r\n\r\n"),
        raw("GET /to/a.html HTTP/1.0\r\n\r\n"),
        get("/var/utf.html?c=koi8-r&s=utf-8"),
        get("/var/utf.html?c=utf-8&s=koi8-r"),
        get("/var/utf.html?c=koi8-r&s=windows-1251"),
        get("/var/utf.html?c=KOI8-R&s=UTF-8"),
        get("/var/utf.html?c=utf-8&s=utf-8"),
        get("/var/utf.html?c=&s=utf-8"),
        get("/var/utf.html?c=foo&s=bar"),
        get("/var/utf.html?c=koi8-r&s="),
        get("/text"),
        get("/nothing"),
    ]);
    compare(&setup(&site, lines), cases);
}

#[test]
fn a_listing_counts_characters() {
    // Nothing but files with dates: the folder of the test itself is not listed.
    let site = site();
    let lines = "location /list/ { alias @ROOT@/; charset utf-8; autoindex on; }
        location /list-koi/ { alias @ROOT@/; charset koi8-r; autoindex on; }";
    compare(&setup(&site, lines), vec![get("/list/"), get("/list-koi/")]);
}
