//! What the client gets of a response: fields, status lines, framing, and what `X-Accel-…` does.

use crate::harness::{get, raw, request};
use crate::t13_proxy::proxied::{Proxied, answered, compare_proxied, with_fields};

const DATE: &str = "Last-Modified: Sat, 21 Nov 2020 13:42:48 GMT";

const ALL: &[&str] = &[
    "Date: x",
    "Server: y",
    "Content-Type: text/plain",
    DATE,
    "ETag: \"abc\"",
    "X-A: 1",
    "x-a: 2",
    "Set-Cookie: a=b",
    "Set-Cookie: c=d",
    "Cache-Control: max-age=3",
    "Cache-Control: private",
    "Expires: z",
    "Vary: Accept",
    "Vary: Cookie",
    "Link: <l>",
    "Link: <m>",
    "Connection: keep-alive",
    "Keep-Alive: timeout=3",
    "Content-Encoding: id",
    "Content-Language: de",
    "Accept-Ranges: bytes",
    "X-Pad: p",
    "X-Accel-Expires: 3",
    "X-Accel-Limit-Rate: 300000",
    "X-Accel-Buffering: no",
    "X-Accel-Charset: utf-8",
    "X-Powered-By: q",
    "WWW-Authenticate: Basic realm=x",
    "WWW-Authenticate: Digest",
    "Trailer: t",
    "Upgrade: u",
    "Status: 404 x",
    "Proxy-Authenticate: x",
    "Pragma: no",
    "Age: 5",
    "Via: v",
    "Refresh: 3; url=/x",
    "Content-Range: bytes 0-1/2",
    "TE: x",
    "X-Empty:",
    "X-Spaces:    a b  ",
];

#[test]
fn fields_in_order() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /h { proxy_hide_header X-A; proxy_hide_header x-powered-by; proxy_pass_header Server; proxy_pass_header Date; \
            proxy_pass_header X-Accel-Charset; proxy_pass_header X-Pad; proxy_pass http://@UP@; }
        location /i { proxy_ignore_headers X-Accel-Redirect X-Accel-Charset X-Accel-Buffering; proxy_pass http://@UP@; }
        location /nb { proxy_buffering off; proxy_pass http://@UP@; }
        location /hp { proxy_hide_header X-A; proxy_pass_header X-A; proxy_pass http://@UP@; }
        location /hs { proxy_hide_header Set-Cookie; proxy_hide_header ETag; proxy_hide_header Last-Modified; proxy_hide_header \
            Vary; proxy_hide_header Content-Type; proxy_hide_header Content-Length; proxy_hide_header Location; proxy_pass http://@UP@; }
        location /outer/ { proxy_hide_header X-A; proxy_pass_header Server;
            location /outer/1 { proxy_pass http://@UP@; }
            location /outer/2 { proxy_hide_header Link; proxy_pass http://@UP@; }
            location /outer/3 { proxy_pass_header Date; proxy_pass http://@UP@; }
        }
    ";
    let paths = ["/a", "/h", "/i", "/nb", "/hp", "/hs", "/outer/1", "/outer/2", "/outer/3"];
    let cases = paths.map(|path| with_fields(get(path).in_order(), "200 Fine", ALL));
    // nginx heeds X-Accel-Charset only where some location has a character set.
    let lines = format!("{lines} location /unused {{ charset utf-8; }}");
    compare_proxied("", &lines, cases.into());
}

#[test]
fn types_and_character_sets() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /cs { charset utf-8; proxy_pass http://@UP@; }
        location /ov { charset utf-8; override_charset on; charset_map koi8-r utf-8 { C0 D18E; } proxy_pass http://@UP@; }
        location /ig { proxy_ignore_headers X-Accel-Charset; proxy_pass http://@UP@; }
        location /dt { default_type x/y; proxy_pass http://@UP@; }
    "
    .replace("charset_map koi8-r utf-8 { C0 D18E; } ", "");
    let mut cases = Vec::new();
    for path in ["/a", "/cs", "/ig", "/dt"] {
        for fields in [
            &["Content-Type: text/html"][..],
            &["Content-Type: text/html; charset=koi8-r"],
            &["Content-Type: text/html;charset=UTF-8"],
            &["Content-Type: text/html; charset=\"utf-8\""],
            &["Content-Type: image/png"],
            &["Content-Type: text/html; level=1"],
            &["Content-Type: multipart/x; boundary=a"],
            &["Content-Type: text/html", "X-Accel-Charset: utf-8"],
            &["Content-Type: text/html", "X-Accel-Charset: off"],
            &["Content-Type: "],
            &[],
        ] {
            cases.push(with_fields(get(path).in_order(), "200 OK", fields));
        }
    }
    compare_proxied("", &lines, cases);
}

#[test]
fn a_server_names_only_character_sets_that_the_configuration_has() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /cs { charset_types text/html; @HERE@ proxy_pass http://@UP@; }
        location /page { default_type text/html; return 200 page; }
    ";
    let cases = || {
        let mut cases = Vec::new();
        for path in ["/a", "/cs"] {
            for name in ["utf-8", "UTF-8", "koi8-r", "unknown", "off", ""] {
                let told = format!("X-Accel-Charset: {name}");
                cases.push(with_fields(get(path).in_order(), "200 OK", &["Content-Type: text/html", &told]));
                cases.push(with_fields(get(path).in_order(), "200 OK", &["Content-Type: image/png", &told]));
                let fields = ["Content-Type: text/html", &told, "X-Accel-Redirect: /page"];
                cases.push(with_fields(get(path).in_order(), "200 OK", &fields));
            }
        }
        cases
    };
    compare_proxied("", &lines.replace("@HERE@", ""), cases());
    compare_proxied("", &lines.replace("@HERE@", "charset utf-8;"), cases());
    compare_proxied("", &lines.replace("@HERE@", "source_charset utf-8;"), cases());
    compare_proxied("charset_map koi8-r utf-8 { C0 D18E; }", &lines.replace("@HERE@", ""), cases());
}

#[test]
fn ranges_that_another_server_offers_of_what_is_changed_here() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /ssi { ssi on; proxy_pass http://@UP@; }
        location /sub { sub_filter ok no; proxy_pass http://@UP@; }
        location /sub-dated { sub_filter ok no; sub_filter_last_modified on; proxy_pass http://@UP@; }
        location /gz { gzip on; gzip_proxied any; gzip_min_length 1; proxy_pass http://@UP@; }
        location /add { add_after_body /after; proxy_pass http://@UP@; }
        location /cs { source_charset koi8-r; charset utf-8; proxy_pass http://@UP@; }
        location /after { return 200 after; }
    ";
    let cases = ["/a", "/ssi", "/sub", "/sub-dated", "/gz", "/add", "/cs"].map(|path| {
        let request = get(path).field("Accept-Encoding: gzip");
        with_fields(request, "200 OK", &["Content-Type: text/html", "ETag: \"a\"", "Accept-Ranges: bytes"])
    });
    compare_proxied("charset_map koi8-r utf-8 { C0 D18E; }", lines, cases.into());
    // Whatever it offers; what the configuration says of ranges stays.
    for said in ["bytes", "word"] {
        let lines: String = [
            "ssi on;",
            "gzip on; gzip_proxied any; gzip_min_length 1;",
            "add_after_body /after;",
            "sub_filter ok no;",
            "ssi on; gzip on; gzip_proxied any; gzip_min_length 1;",
        ]
        .iter()
        .enumerate()
        .map(|(at, filter)| {
            format!("location /{at} {{ {filter} add_header Accept-Ranges {said}; proxy_pass http://@UP@; }}")
        })
        .collect();
        let cases = (0..5).flat_map(|at| {
            ["X: y", "Accept-Ranges: bytes", "Accept-Ranges: word", "Accept-Ranges: none"].map(|field| {
                let request = get(&format!("/{at}")).field("Accept-Encoding: gzip");
                with_fields(request, "200 OK", &["Content-Type: text/html", field])
            })
        });
        compare_proxied("", &(lines + "location /after { return 200 after; }"), cases.collect());
    }
}

#[test]
fn validators_and_ranges() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /fr { proxy_force_ranges on; proxy_pass http://@UP@; }
        location /ah { add_header X-New 1; expires 1h; add_header ETag new; proxy_pass http://@UP@; }
        location /am { add_header Last-Modified \"\"; proxy_pass http://@UP@; }
        location /gz { gzip on; gzip_proxied any; gzip_min_length 1; gzip_types *; gzip_vary on; proxy_pass http://@UP@; }
        location /sub { sub_filter ok no; sub_filter_types *; proxy_pass http://@UP@; }
    ";
    let ten = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 10\r\n\r\n0123456789");
    let mut cases = vec![
        with_fields(get("/a").in_order(), "200 OK", &["Last-Modified: junk", "X: y", "ETag: W/\"abc\""]),
        with_fields(get("/a").in_order(), "200 OK", &["X: y", DATE, "Z: z"]),
        with_fields(get("/a").field("If-Modified-Since: Sat, 21 Nov 2020 13:42:48 GMT"), "200 OK", &[DATE]),
        with_fields(get("/a").field("If-None-Match: \"a\""), "200 OK", &["ETag: \"a\""]),
        with_fields(get("/a").field("If-Match: \"b\""), "200 OK", &["ETag: \"a\""]),
        with_fields(get("/ah"), "200 OK", &["Expires: e", "Cache-Control: c1", "Cache-Control: c2", "X: y"]),
        with_fields(get("/ah"), "404 Not Found", &["Expires: e", "X: y"]),
        with_fields(get("/ah"), "200 OK", &["ETag: \"a\"", DATE]),
        with_fields(get("/am"), "200 OK", &["ETag: \"a\"", DATE]),
        with_fields(
            get("/gz").field("Accept-Encoding: gzip"),
            "200 OK",
            &["Content-Type: text/plain", "ETag: \"e\"", DATE],
        ),
        with_fields(get("/gz"), "200 OK", &["Content-Type: text/plain", "ETag: \"e\"", DATE]),
        with_fields(get("/gz").field("Accept-Encoding: gzip"), "200 OK", &["Content-Encoding: br", "ETag: \"e\""]),
        with_fields(get("/sub"), "200 OK", &["Content-Type: text/plain", "ETag: \"e\"", DATE, "Accept-Ranges: bytes"]),
    ];
    for path in ["/a", "/fr"] {
        for fields in ["", "Accept-Ranges: bytes\r\n", "Accept-Ranges: none\r\n", "ETag: \"q\"\r\n"] {
            cases.push(answered(get(path), ten(fields)));
            cases.push(answered(get(path).field("Range: bytes=2-4"), ten(fields)));
            cases.push(answered(get(path).field("Range: bytes=20-"), ten(fields)));
            cases.push(answered(get(path).field("Range: bytes=2-4").field("If-Range: \"q\""), ten(fields)));
            cases.push(answered(get(path).field("Range: bytes=2-4").field("If-Range: \"r\""), ten(fields)));
        }
        cases.push(with_fields(get(path), "206 Partial", &["Content-Range: bytes 0-1/10"]));
    }
    compare_proxied("", lines, cases);
}

#[test]
fn statuses() {
    let lines = "location /a { proxy_pass http://@UP@; } location /nb { proxy_buffering off; proxy_pass http://@UP@; }";
    let mut cases = Vec::new();
    for path in ["/a", "/nb"] {
        for status in [
            "200 Fine",
            "299 Weird One",
            "201 ",
            "404 Not Here",
            "500 x",
            "999 X",
            "418 I'm a teapot",
            "302 F",
            "400 B",
            "203 é",
        ] {
            cases.push(with_fields(get(path).in_order(), status, &["X: y"]));
            cases.push(with_fields(request("HEAD", path).in_order(), status, &["X: y"]));
        }
        for head in ["204 N\r\n", "304 N\r\nETag: \"x\"\r\nContent-Type: t\r\n", "204 N\r\nContent-Type: t\r\n"] {
            cases.push(answered(get(path), format!("HTTP/1.1 {head}\r\n")));
        }
    }
    compare_proxied("", lines, cases);
}

#[test]
fn framing() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /nb { proxy_buffering off; proxy_pass http://@UP@; }
        location /nc { chunked_transfer_encoding off; proxy_pass http://@UP@; }
    ";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX: y\r\n\r\n";
    let until_close = "HTTP/1.0 200 OK\r\nX: y\r\n\r\nbody until the end";
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let mut cases: Vec<Proxied> = Vec::new();
    for path in ["/a", "/nb", "/nc"] {
        for answer in [chunked, until_close, length, empty] {
            cases.push(answered(get(path), answer));
            cases.push(answered(raw(format!("GET {path} HTTP/1.0\r\nHost: h\r\n\r\n")), answer));
            cases.push(answered(
                raw(format!("GET {path} HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")),
                answer,
            ));
        }
        cases.push(answered(request("HEAD", path), length.trim_end_matches("abc")));
    }
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{}", "0123456789".repeat(30_000));
    let large_close = format!("HTTP/1.1 200 OK\r\n\r\n{}", "0123456789".repeat(30_000));
    for path in ["/a", "/nb"] {
        cases.push(answered(get(path), &large));
        cases.push(answered(get(path), &large_close));
    }
    // What is behind the response is not part of it.
    cases.push(answered(get("/a"), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nokokok"));
    cases.push(answered(get("/a"), ""));
    cases.push(answered(get("/a"), "HTTP/1.1 200 OK\r\n bad: x\r\n\r\n"));
    cases.push(answered(get("/a"), "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nok"));
    cases.push(answered(get("/nb"), "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nok"));
    cases
        .push(answered(get("/a"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nok"));
    // The head by itself, before the server behind closes.
    for path in ["/a", "/nb"] {
        let (length, chunked) = ("Content-Length: 9", "Transfer-Encoding: chunked");
        let answer = |framing| format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{framing}\r\n\r\n");
        cases.push(answered(get(path), answer(length)));
        cases.push(answered(get(path), answer(chunked)));
        cases.push(answered(raw(format!("GET {path} HTTP/1.0\r\nHost: h\r\n\r\n")), answer(length)));
    }
    cases.push(answered(
        get("/a").differs("nginx logs 200 and sends nothing", "HTTP/1.1 502 Bad Gateway"),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\nok",
    ));
    compare_proxied("", lines, cases);
}

#[test]
fn sent_elsewhere() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /i { proxy_ignore_headers X-Accel-Redirect; proxy_pass http://@UP@; }
        location /int/ { internal; return 200 \"int $uri $args $request_method\"; }
        location /files/ { internal; alias @ROOT@/; }
        location @named { return 200 \"named $uri $args\"; }
        location /unused { charset utf-8; }
    ";
    let full: Vec<&str> = vec![
        "X-B: 1",
        "Set-Cookie: k=v",
        "Set-Cookie: l=w",
        "Content-Type: x/y",
        "Cache-Control: q",
        "Expires: e",
        "Content-Disposition: d",
        "ETag: \"e\"",
        DATE,
        "Content-Language: q",
        "Location: /loc",
        "Refresh: 1",
    ];
    let mut cases = Vec::new();
    for target in [
        "/int/foo%20bar?q=1",
        "/int/x",
        "/files/a.txt",
        "/files/index.html",
        "/files/nothing",
        "@named",
        "/int/../../x",
        "",
    ] {
        let field = format!("X-Accel-Redirect: {target}");
        cases.push(with_fields(get("/a?z"), "200 OK", &[&field]));
        let mut fields = full.clone();
        fields.insert(1, &field);
        cases.push(with_fields(get("/a"), "404 Not", &fields));
    }
    cases.push(with_fields(get("/i"), "200 OK", &["X-Accel-Redirect: /int/p"]));
    cases.push(with_fields(request("HEAD", "/a"), "200 OK", &["X-Accel-Redirect: /int/p"]));
    cases.push(with_fields(
        request("POST", "/a").field("Content-Length: 1").body("x"),
        "200 OK",
        &["X-Accel-Redirect: /int/p"],
    ));
    cases.push(with_fields(get("/a").field("Range: bytes=1-2"), "200 OK", &["X-Accel-Redirect: /files/a.txt"]));
    cases.push(with_fields(
        get("/a").field("Range: bytes=1-2"),
        "200 OK",
        &["X-Accel-Redirect: /files/a.txt", "Accept-Ranges: bytes"],
    ));
    compare_proxied("", lines, cases);
}

#[test]
fn intercepted() {
    let lines = "
        location /ie { proxy_intercept_errors on; error_page 404 401 503 302 /err; proxy_pass http://@UP@; }
        location /ie2 { proxy_intercept_errors on; error_page 404 =200 /err; error_page 500 = @named; error_page 502 http://x/y; proxy_pass http://@UP@; }
        location /no { error_page 404 401 502 /err; proxy_pass http://@UP@; }
        location /over { proxy_intercept_errors on; error_page 404 /over2; proxy_pass http://@UP@; }
        location /over2 { proxy_pass http://@UP@; }
        location = /err { return 200 \"page $status $upstream_status\"; }
        location @named { return 203 named; }
    "
    .replace(" $upstream_status", "");
    let fields =
        &["WWW-Authenticate: Basic", "X-B: 1", "Location: /q", "Set-Cookie: a", "Retry-After: 3", "Content-Type: q/r"];
    let mut cases = Vec::new();
    for path in ["/ie", "/ie2", "/no", "/over"] {
        for status in ["200 OK", "302 Found", "401 No", "404 No", "500 No", "502 No", "503 No"] {
            cases.push(with_fields(get(path), status, fields));
        }
    }
    compare_proxied("", &lines, cases);
}
