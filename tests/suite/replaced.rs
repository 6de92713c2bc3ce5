//! Responses that stand in another one's place, or whose content was changed: nothing describes content that is not sent.

use freerun_testkit::http2::Http2;
use freerun_testkit::{Answering, Server, Setup, Site, Upstream, ok};

/// An application that names another URI (`/to/URI`), or answers with a page that has everything which describes content.
fn application() -> Answering {
    Upstream::answering(|request| {
        let described = "Content-Type: application/pdf\r\nAccept-Ranges: none\r\nContent-Language: de\r\nContent-MD5: x\r\n\
             Digest: x\r\nContent-Digest: x\r\nRepr-Digest: x\r\nETag: \"app\"\r\nSet-Cookie: a=b\r\nCache-Control: private\r\n\
             Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n";
        match request.target() {
            "/typed" => b"HTTP/1.1 200 OK\r\nContent-Type: text/x-own\r\nContent-Length: 5\r\n\r\ntyped".into(),
            "/untyped" => ok("untyped"),
            "/empty" => b"HTTP/1.1 204 No Content\r\n\r\n".into(),
            "/failed" => format!("HTTP/1.1 500 No\r\n{described}Content-Length: 6\r\n\r\nsecret").into(),
            "/page" => {
                let described = described.replace("pdf", "x-page").replace("none", "bytes");
                format!("HTTP/1.1 200 OK\r\n{described}Content-Length: 100\r\n\r\n{}", "body ".repeat(20)).into()
            }
            to => {
                let to = if to[3..].starts_with("/@") { &to[4..] } else { &to[3..] };
                format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\n{described}Content-Length: 0\r\n\r\n").into()
            }
        }
    })
}

/// The status and the fields of an answer, by HTTP/1 or HTTP/2.
fn head(
    server: &Server,
    protocol: u8,
    method: &str,
    path: &str,
    field: Option<(&str, &str)>,
) -> (u16, Vec<(String, String)>) {
    let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
    if protocol == 2 {
        let fields: Vec<(&str, &str)> = field.into_iter().collect();
        let answer = Http2::new(server.connect()).request(method, path, &fields);
        return (answer.status, answer.message.fields.into_iter().map(lower).collect());
    }
    let field = field.map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n"));
    let response = client.response_to(method);
    (response.status, response.headers.into_iter().map(lower).collect())
}

fn of<'f>(fields: &'f [(String, String)], name: &str) -> Vec<&'f str> {
    fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
}

const DESCRIBING: [&str; 6] =
    ["content-language", "content-md5", "digest", "content-digest", "repr-digest", "content-encoding"];

/// The type that an application gives with `X-Accel-Redirect` is that of the file it names. An error, a redirect or a handler
/// with a type of its own takes nothing over from it but what is not about content.
#[test]
fn the_type_of_an_application_is_that_of_its_file_only() {
    let upstream = application();
    let site = Site::new();
    site.file("404.html", "<p>missing").file("files/a.txt", "a").file("files/list/b.txt", "b").folder("files/folder");
    let behind = upstream.address();
    let lines = format!(
        "http2 on; error_page 404 /404.html; error_page 403 @named; error_page 418 /returned; error_page 502 =200 /returned;
         error_page 503 http://elsewhere.example/;
         location /to/ {{ proxy_pass http://{behind}; }}
         location /hidden/ {{ proxy_pass http://{behind}/to/; proxy_hide_header Content-Type; }}
         location @named {{ return 200 named; }}
         location /returned {{ return 200 returned; }}
         location /text {{ return 200 text; }}
         location /pixel {{ empty_gif; }}
         location /stub {{ stub_status; }}
         location /status {{ status; }}
         location /api/ {{ api; }}
         location /files/list/ {{ autoindex on; }}
         location /json/ {{ alias @ROOT@/files/list/; autoindex on; autoindex_format json; }}
         location /fancy/ {{ alias @ROOT@/files/list/; fancyindex on; }}
         location /teapot {{ return 418; }}
         location /denied {{ deny all; }}
         location /dead {{ proxy_pass http://127.0.0.1:1; }}
         location /later {{ return 503; }}
         location /version {{ return 505; }}
         location /moved {{ return 301 /else; }}
         location /typed {{ proxy_pass http://{behind}; }}
         location /untyped {{ proxy_pass http://{behind}; }}
         location /empty {{ proxy_pass http://{behind}; }}
         location /failed {{ proxy_pass http://{behind}; proxy_intercept_errors on; error_page 500 /404.html; }}"
    );
    let server = Setup::server(&site, &lines).http("default_type text/plain; types { text/html html; }").freerun();
    for (path, status, media) in [
        ("/files/a.txt", 200, Some("application/pdf")),
        ("/text", 200, Some("application/pdf")),
        ("/untyped", 200, Some("application/pdf")),
        ("/@named", 200, Some("application/pdf")),
        ("/typed", 200, Some("text/x-own")),
        ("/empty", 204, None),
        ("/missing", 404, Some("text/html")),
        ("/teapot", 418, Some("text/plain")),
        ("/denied", 403, Some("text/plain")),
        ("/dead", 200, Some("text/plain")),
        ("/later", 302, Some("text/html")),
        ("/version", 505, Some("text/html")),
        ("/moved", 301, Some("text/html")),
        ("/files/folder", 301, Some("text/html")),
        ("/failed", 500, Some("text/html")),
        ("/@nowhere", 500, Some("text/html")),
        ("/pixel", 200, Some("image/gif")),
        ("/stub", 200, Some("text/plain")),
        ("/status", 200, Some("application/json")),
        ("/api/", 200, Some("application/json")),
        ("/files/list/", 200, Some("text/html")),
        ("/json/", 200, Some("application/json")),
        ("/fancy/", 200, Some("text/html")),
    ] {
        // Another status than that of success, or a page for one.
        let is_replaced = status >= 300 || path == "/dead";
        for (protocol, method) in [(1, "GET"), (1, "HEAD"), (2, "GET"), (2, "HEAD")] {
            for way in ["/to", "/hidden"] {
                let told = format!("{method} {way}{path} by HTTP/{protocol}");
                let (got, fields) = head(&server, protocol, method, &format!("{way}{path}"), None);
                assert_eq!(got, status, "{told}");
                let types: Vec<&str> =
                    of(&fields, "content-type").iter().filter_map(|media| media.split(';').next()).collect();
                assert_eq!(types, media.into_iter().collect::<Vec<_>>(), "{told}");
                let ranges = of(&fields, "accept-ranges");
                assert!(!is_replaced || !ranges.contains(&"none"), "{told}: {ranges:?}");
                assert_eq!(of(&fields, "set-cookie"), ["a=b"], "{told}");
                for name in DESCRIBING {
                    assert_eq!(of(&fields, name), [""; 0], "{told}: {name}");
                }
                assert!(!of(&fields, "etag").contains(&"\"app\""), "{told}");
            }
        }
    }
}

/// A filter that changes the bytes drops the digests of the old ones, and most of them the other server's offer of ranges.
#[test]
fn what_was_true_of_the_bytes_before_a_change_is_dropped() {
    let upstream = application();
    let site = Site::new();
    site.file("more", "more");
    let behind = upstream.address();
    let pass = format!("proxy_pass http://{behind}/page;");
    let lines = format!(
        "http2 on; gzip_types *; gzip_min_length 1;
         location = /plain {{ {pass} }}
         location = /gzip {{ gzip on; {pass} }}
         location = /sub {{ sub_filter body BODY; sub_filter_types *; {pass} }}
         location = /sub-dated {{ sub_filter body BODY; sub_filter_types *; sub_filter_last_modified on; {pass} }}
         location = /subs {{ subs_filter body BODY; subs_filter_types *; {pass} }}
         location = /ssi {{ ssi on; ssi_types *; {pass} }}
         location = /addition {{ add_after_body /more; addition_types *; {pass} }}
         location = /echo {{ echo_after_body more; {pass} }}
         location = /charset {{ charset utf-8; source_charset koi8-r; charset_types *; {pass} }}
         location = /bytes {{ charset windows-1251; source_charset koi8-r; charset_types *; {pass} }}"
    );
    let maps = "charset_map koi8-r utf-8 { C0 D18E; } charset_map koi8-r windows-1251 { C0 FE; }";
    let server = Setup::server(&site, &lines).http(maps).freerun();
    for (path, etag, is_dated, has_ranges) in [
        ("/plain", Some("\"app\""), true, true),
        ("/gzip", Some("W/\"app\""), true, false),
        ("/sub", None, false, true),
        ("/sub-dated", Some("W/\"app\""), true, true),
        ("/subs", Some("\"app\""), false, true),
        ("/ssi", None, false, false),
        ("/addition", Some("W/\"app\""), true, false),
        ("/echo", Some("\"app\""), true, false),
        ("/charset", Some("\"app\""), true, true),
        ("/bytes", Some("\"app\""), true, true),
    ] {
        for (protocol, method) in [(1, "GET"), (1, "HEAD"), (2, "GET"), (2, "HEAD")] {
            let told = format!("{method} {path} by HTTP/{protocol}");
            let (status, fields) = head(&server, protocol, method, path, Some(("accept-encoding", "gzip")));
            assert_eq!(status, 200, "{told}");
            assert_eq!(of(&fields, "etag"), etag.into_iter().collect::<Vec<_>>(), "{told}");
            assert_eq!(of(&fields, "last-modified").len(), usize::from(is_dated), "{told}");
            assert_eq!(of(&fields, "accept-ranges").len(), usize::from(has_ranges), "{told}");
            for name in ["content-md5", "digest", "content-digest", "repr-digest"] {
                assert_eq!(of(&fields, name).len(), usize::from(path == "/plain"), "{told}: {name}");
            }
            assert_eq!(of(&fields, "content-language"), ["de"], "{told}");
        }
    }
}

/// A part has no digest of the whole message. 416 has none of what described the content, but still depends on
/// `Accept-Encoding`.
#[test]
fn parts_and_416_have_only_the_fields_that_are_true_of_them() {
    let upstream = application();
    let site = Site::new();
    site.file("file.txt", "0123456789").file("416.html", "none");
    let behind = upstream.address();
    let lines = format!(
        "http2 on; gzip on; gzip_types *; gzip_min_length 1; gzip_vary on;
         location = /page {{ proxy_force_ranges on; proxy_pass http://{behind}; }}
         location = /shown {{ alias @ROOT@/file.txt; error_page 416 /416.html; }}
         location /416.html {{ gzip off; }}"
    );
    let server = Setup::server(&site, &lines).freerun();
    for (protocol, method) in [(1, "GET"), (1, "HEAD"), (2, "GET"), (2, "HEAD")] {
        for (path, range, status) in [
            ("/file.txt", None, 200),
            ("/file.txt", Some("bytes=0-3"), 206),
            ("/file.txt", Some("bytes=999-"), 416),
            ("/shown", Some("bytes=999-"), 416),
            ("/missing", None, 404),
            ("/page", None, 200),
            ("/page", Some("bytes=0-3"), 206),
            ("/page", Some("bytes=999-"), 416),
        ] {
            let told = format!("{method} {path} {range:?} by HTTP/{protocol}");
            let (got, fields) = head(&server, protocol, method, path, range.map(|range| ("range", range)));
            assert_eq!(got, status, "{told}");
            assert_eq!(of(&fields, "vary"), ["Accept-Encoding"], "{told}");
            let is_page = path == "/page";
            assert_eq!(of(&fields, "repr-digest").len(), usize::from(is_page && status != 416), "{told}");
            assert_eq!(of(&fields, "content-md5").len(), usize::from(is_page && status == 200), "{told}");
            assert_eq!(of(&fields, "content-language").len(), usize::from(is_page && status != 416), "{told}");
        }
    }
}

/// `subs_filter_types *` means all types that there are: a response without one stays as it is.
#[test]
fn a_response_without_a_type_is_not_changed() {
    let upstream = application();
    let behind = upstream.address();
    let lines =
        format!("subs_filter untyped changed; subs_filter_types *; location / {{ proxy_pass http://{behind}; }}");
    let server = Setup::server(&Site::new(), &lines).freerun();
    let response = server.get("/untyped");
    assert_eq!((response.text().as_str(), response.header("content-length")), ("untyped", Some("7")));
}
