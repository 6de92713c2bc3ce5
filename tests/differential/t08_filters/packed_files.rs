//! `gzip_static`, `gunzip` and, where Debian's modules for it are installed, `brotli` and `brotli_static`.

use std::io::Write;

use crate::harness::{Case, compare, get, head, raw, request};
use crate::site::{MTIME, site};
use flate2::{Compression, write::GzEncoder};
use freerun_testkit::{Setup, Site, require};

fn gzip(data: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data.as_ref()).expect("it is memory");
    encoder.finish().expect("it is memory")
}

fn gz(target: &str) -> Case {
    get(target).field("Accept-Encoding: gzip")
}

/// Files with packed ones beside them, of their own dates.
fn packed() -> Site {
    let site = site();
    let text = "a text to pack\n".repeat(40);
    let with = |name: &str, packed: &[u8]| {
        site.dated(name, &text, MTIME).dated(&format!("{name}.gz"), packed, MTIME - 86_400);
    };
    with("a.html", &gzip(&text));
    with("short.html", &gzip("x"));
    with("empty.html", b"");
    with("not.html", b"not packed at all");
    site.dated("only.html.gz", gzip(&text), MTIME)
        .dated("plain.html", &text, MTIME)
        .dated("folder.html", &text, MTIME)
        .folder("folder.html.gz")
        .dated("closed.html", &text, MTIME)
        .dated("closed.html.gz", gzip(&text), MTIME)
        .mode("closed.html.gz", 0o000)
        .dated("broken.html", &text, MTIME)
        .link("broken.html.gz", "nowhere")
        .dated("linked.html", &text, MTIME)
        .link("linked.html.gz", "a.html.gz")
        .dated("large.html", text.repeat(3000), MTIME)
        .dated("large.html.gz", gzip(text.repeat(3000)), MTIME)
        .dated("dir/index.html.gz", gzip("<p>packed index\n"), MTIME);
    site
}

const NAMES: [&str; 11] =
    ["a", "short", "empty", "not", "only", "plain", "folder", "broken", "linked", "large", "missing"];

/// From 1.23.4 on, nginx allows ranges of packed files; Debian's is older.
const HTML: &str = "types { text/html html; } max_ranges 0;";

#[test]
fn gzip_static() {
    let site = packed();
    let lines = format!(
        "{HTML}
        location /on/ {{ alias @ROOT@/; gzip_static on; }}
        location /vary/ {{ alias @ROOT@/; gzip_static on; gzip_vary on; }}
        location /always/ {{ alias @ROOT@/; gzip_static always; gzip_vary on; }}
        location /both/ {{ alias @ROOT@/; gzip_static on; gzip on; gzip_vary on; }}
        location /noetag/ {{ alias @ROOT@/; gzip_static on; etag off; }}
        location /v10/ {{ alias @ROOT@/; gzip_static on; gzip_http_version 1.0; }}
        location /ie/ {{ alias @ROOT@/; gzip_static on; gzip_disable MSIE; gzip_vary on; }}
        location /any/ {{ alias @ROOT@/; gzip_static on; gzip_proxied any; }}
        location /expired/ {{ alias @ROOT@/; gzip_static on; gzip_proxied expired; }}
        location /ep/ {{ alias @ROOT@/; gzip_static on; gzip_vary on; error_page 404 /on/a.html; }}
        location /try/ {{ alias @ROOT@/; gzip_static on; try_files /none.html /on/a.html; }}
        "
    );
    let mut cases = Vec::new();
    for name in NAMES {
        for place in ["on", "vary", "always", "both"] {
            let target = format!("/{place}/{name}.html");
            cases.extend([gz(&target), get(&target), head(&target).field("Accept-Encoding: gzip")]);
        }
    }
    cases.extend([
        gz("/on/closed.html"),
        gz("/on/"),
        gz("/on/dir/"),
        gz("/vary/dir/"),
        gz("/on/dir"),
        gz("/on/a.html.gz"),
        gz("/on/a.html?x=y"),
        gz("/noetag/a.html"),
        request("POST", "/on/a.html").field("Accept-Encoding: gzip").field("Content-Length: 0"),
        request("OPTIONS", "/on/a.html").field("Accept-Encoding: gzip"),
        raw("GET /on/a.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /v10/a.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /v10/a.html HTTP/1.0\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n"),
        gz("/ie/a.html").field("User-Agent: MSIE 6.0"),
        gz("/ie/a.html").field("User-Agent: other"),
        gz("/on/a.html").field("Via: x"),
        gz("/any/a.html").field("Via: x"),
        gz("/expired/a.html").field("Via: x"),
        gz("/on/a.html").field("If-Modified-Since: Sat, 05 Nov 1994 08:49:37 GMT"),
        gz("/on/a.html").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        gz("/on/a.html").field("If-None-Match: *"),
        gz("/ep/missing.html"),
        gz("/try/zzz"),
        get("/on/a.html").field("Accept-Encoding: gzip;q=0"),
        get("/on/a.html").field("Accept-Encoding: br, gzip;q=0.1"),
    ]);
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn gunzip() {
    let text = "what was packed\n".repeat(40);
    let whole = gzip(&text);
    let cut = |end: usize| whole[..end].to_vec();
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let end = whole.len();
    let site = packed();
    let mut with_fields = b"\x1f\x8b\x08\x1c\0\0\0\0\0\x03\x04\0abcdname\0comment\0".to_vec();
    with_fields.extend_from_slice(&whole[10..]);
    let files: &[(&str, Vec<u8>)] = &[
        ("whole", whole.clone()),
        ("two", [&whole[..], &whole].concat()),
        ("three", [&whole[..], &gzip(""), &whole].concat()),
        ("fields", with_fields),
        ("nothing", gzip("")),
        ("large", gzip(text.repeat(5000))),
        ("zeros", gzip(vec![0; 8 << 20])),
        ("garbage", [&whole[..], b"garbage"].concat()),
        ("padded", [&whole[..], &[0; 20]].concat()),
        ("half", [&whole[..], &whole[..5]].concat()),
        ("cut", cut(end - 6)),
        ("cut-early", cut(25)),
        ("cut-head", cut(5)),
        ("one", cut(1)),
        ("none", Vec::new()),
        ("crc", changed(end - 8, b"\x01\x02\x03\x04")),
        ("length", changed(end - 4, b"\x01\x02\x03\x04")),
        ("middle", changed(14, b"\xff\xff\xff\xff")),
        ("method", changed(2, b"\x07")),
        ("reserved", changed(3, b"\xe0")),
        ("text", b"this is not packed".to_vec()),
    ];
    for (name, content) in files {
        site.dated(&format!("z/{name}.gz"), content, MTIME);
    }
    let lines = "
        default_type text/html; types {} max_ranges 0; gunzip on; gzip_static always;
        location /z/ { }
        location /vary/ { alias @ROOT@/z/; gzip_vary on; }
        location /gzip/ { alias @ROOT@/z/; gzip on; }
        location /off/ { alias @ROOT@/z/; gunzip off; }
        location /buffers/ { alias @ROOT@/z/; gunzip_buffers 2 1k; output_buffers 1 1k; }
        location /noetag/ { alias @ROOT@/z/; etag off; }
        location /plain/ { alias @ROOT@/; gzip_static off; }
        location /added/ { alias @ROOT@/z/; add_after_body /plain/a.txt; gzip_static off; }
        location /v10/ { alias @ROOT@/z/; gzip_http_version 1.0; }
    ";
    let mut cases = Vec::new();
    for (name, _) in files {
        cases.extend([get(&format!("/z/{name}")), gz(&format!("/z/{name}")), head(&format!("/z/{name}"))]);
        cases.push(get(&format!("/buffers/{name}")));
    }
    for place in ["vary", "gzip", "off", "noetag"] {
        for name in ["whole", "large", "nothing"] {
            let target = format!("/{place}/{name}");
            cases.extend([get(&target), gz(&target), head(&target), get(&target).field("Accept-Encoding: gzip;q=0")]);
        }
    }
    cases.extend([
        get("/plain/a.html.gz"),
        raw("GET /z/whole HTTP/1.0\r\n\r\n"),
        raw("GET /z/whole HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        raw("GET /v10/whole HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"),
        gz("/z/whole").field("Via: x"),
        get("/z/whole").field("Range: bytes=0-3"),
        get("/z/whole").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
        get("/z/whole").field("If-None-Match: *"),
        raw("GET /z/whole HTTP/1.1\r\nHost: h\r\n\r\nGET /z/two HTTP/1.1\r\nHost: h\r\n\r\n").responses(2),
    ]);
    compare(&Setup::server(&site, lines), cases);
}

/// Debian's modules for brotli; a test that needs them says so where they are not.
fn brotli_modules() -> Option<String> {
    let mut lines = String::new();
    for module in ["ngx_http_brotli_filter_module", "ngx_http_brotli_static_module"] {
        lines += &format!("load_module {};\n", require::nginx_module(module)?.display());
    }
    Some(lines)
}

fn br(target: &str) -> Case {
    get(target).field("Accept-Encoding: br")
}

#[test]
fn brotli() {
    let Some(modules) = brotli_modules() else { return };
    let site = packed();
    let text = "a text to pack, which is not too short\n".repeat(4000);
    site.dated("t.html", &text[..3000], MTIME)
        .dated("t19.html", &text[..19], MTIME)
        .dated("t20.html", &text[..20], MTIME)
        .dated("t100k.html", &text[..100_000], MTIME)
        .dated("t.gif", &text[..3000], MTIME);
    let mut lines = "
        types { text/html html; image/gif gif; } gzip_vary on;
        location /on/ { alias @ROOT@/; brotli on; }
        location /min0/ { alias @ROOT@/; brotli on; brotli_min_length 0; }
        location /types/ { alias @ROOT@/; brotli on; brotli_types image/gif; }
        location /two/ { alias @ROOT@/; brotli on; gzip on; }
        location /novary/ { alias @ROOT@/; brotli on; gzip_vary off; }
        location /knobs/ { alias @ROOT@/; brotli on; brotli_window 1k; brotli_buffers 4 4k; }
        location /limits/ { alias @ROOT@/; brotli on; gzip_disable .; gzip_http_version 1.1; gzip_proxied off; }
        location = /ret { default_type text/html; brotli on; return 200 \"a text of more than twenty bytes\"; }
        location = /201 { default_type text/html; brotli on; return 201 \"a text of more than twenty bytes\"; }
        location = /404 { brotli on; return 404; }
        location = /500 { brotli on; return 500; }
    "
    .to_owned();
    let mut cases = Vec::new();
    for level in 0..=11 {
        lines += &format!("location /l{level}/ {{ alias @ROOT@/; brotli on; brotli_comp_level {level}; }}\n");
        cases.extend(["t20", "t", "t100k"].map(|name| br(&format!("/l{level}/{name}.html"))));
    }
    for target in [
        "/on/t.html",
        "/on/t19.html",
        "/on/t20.html",
        "/on/t100k.html",
        "/on/t.gif",
        "/on/missing",
        "/min0/t19.html",
        "/types/t.gif",
        "/novary/t.html",
        "/knobs/t100k.html",
        "/ret",
        "/201",
        "/404",
        "/500",
    ] {
        cases.extend([br(target), get(target), head(target).field("Accept-Encoding: br"), gz(target)]);
    }
    for value in [
        "br",
        "BR",
        "gzip, br",
        "gzip,br",
        "gzip br",
        "xbr",
        "brx",
        "*",
        "br;",
        "x;br",
        "br ",
        "br=1",
        "br;q=0",
        "br;q=0.0",
        "br;q=0.5",
        "br;q=0.001",
        "br;q=1,gzip",
        "br;q=1",
        "br;q=1.0",
    ] {
        cases.push(get("/on/t.html").field(&format!("Accept-Encoding: {value}")));
    }
    for value in ["br, gzip", "gzip, br", "gzip;q=0.5, br", "br;q=0, gzip", "gzip", "identity"] {
        cases.push(get("/two/t.html").field(&format!("Accept-Encoding: {value}")));
    }
    let by_quality = "the client would rather have gzip";
    cases.extend([
        get("/two/t.html").field("Accept-Encoding: gzip;q=1, br;q=0.1").differs(by_quality, "HTTP/1.1 200 OK"),
        raw("GET /limits/t.html HTTP/1.0\r\nAccept-Encoding: br\r\n\r\n"),
        br("/limits/t.html").field("Via: x").field("User-Agent: x"),
        br("/on/t.html").field("Range: bytes=0-3"),
        br("/on/t.html").field("If-None-Match: *"),
    ]);
    compare(&Setup::server(&site, &lines).main(&modules), cases);
}

#[test]
fn brotli_static() {
    let Some(modules) = brotli_modules() else { return };
    let site = packed();
    for name in ["a", "only", "large"] {
        site.dated(&format!("{name}.html.br"), format!("packed {name}"), MTIME);
    }
    let lines = format!(
        "{HTML}
        location /on/ {{ alias @ROOT@/; brotli_static on; }}
        location /always/ {{ alias @ROOT@/; brotli_static always; gzip_vary on; }}
        location /two/ {{ alias @ROOT@/; brotli_static on; gzip_static on; gzip_vary on; }}
        location /filter/ {{ alias @ROOT@/; brotli_static on; brotli on; }}
        "
    );
    let mut cases = Vec::new();
    for name in ["a", "only", "large", "plain", "missing"] {
        for place in ["on", "always", "two", "filter"] {
            let target = format!("/{place}/{name}.html");
            cases.extend([br(&target), gz(&target), get(&target), head(&target).field("Accept-Encoding: gzip, br")]);
        }
    }
    cases.extend([
        br("/on/"),
        raw("GET /on/a.html HTTP/1.0\r\nAccept-Encoding: br\r\n\r\n"),
        br("/on/a.html").field("Via: x"),
    ]);
    compare(&Setup::server(&site, &lines).main(&modules), cases);
}
