//! Responses that stand in another one's place, or whose content was changed: nothing describes content that is not sent.

use crate::worker::InProcess;
use flate2::{Compression, write::GzEncoder};
use freerun_testkit::http2::Http2;
use freerun_testkit::{AnsweringUpstream, Setup, Site, TestServer, TestUpstream, fastcgi_record, ok};
use std::io::Write;
use std::time::Duration;

/// An application that names another URI (`/to/URI`), or answers with a page that has everything which describes content.
fn application() -> AnsweringUpstream {
    TestUpstream::answering(|request| answer_to(request.target()))
}

/// What the application answers to a request for `target`.
fn answer_to(target: &str) -> Vec<u8> {
    let described = "Content-Type: application/pdf\r\nAccept-Ranges: none\r\nContent-Language: de\r\nContent-MD5: x\r\n\
         Digest: x\r\nContent-Digest: x\r\nRepr-Digest: x\r\nETag: \"app\"\r\nSet-Cookie: a=b\r\nCache-Control: private\r\n\
         Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n";
    let page = |coding: &str, body: &[u8]| {
        let described = described.replace("pdf", "x-page").replace("none", "bytes");
        let head = format!("HTTP/1.1 200 OK\r\n{described}{coding}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let text = "body ".repeat(20);
    match target {
        "/typed" => b"HTTP/1.1 200 OK\r\nContent-Type: text/x-own\r\nContent-Length: 5\r\n\r\ntyped".into(),
        "/untyped" => ok("untyped"),
        "/empty" => b"HTTP/1.1 204 No Content\r\n\r\n".into(),
        "/failed" => format!("HTTP/1.1 500 No\r\n{described}Content-Length: 6\r\n\r\nsecret").into(),
        "/refused" => {
            let head = "HTTP/1.1 401 No\r\nWWW-Authenticate: Own realm=\"r\"\r\n";
            format!("{head}{described}Content-Length: 6\r\n\r\nsecret").into()
        }
        "/page" => page("", text.as_bytes()),
        "/packed" => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(text.as_bytes()).expect("packing");
            page("Content-Encoding: gzip\r\n", &packed.finish().expect("packing"))
        }
        to => {
            let to = if to[3..].starts_with("/@") { &to[4..] } else { &to[3..] };
            format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\n{described}Content-Length: 0\r\n\r\n").into()
        }
    }
}

/// The address of the same application behind FastCGI, which is told the target as the parameter `TARGET`.
fn application_by_fastcgi() -> String {
    const END: &[u8] = b"\x01\x05\x00\x01\x00\x00\x00\x00";
    let upstream = TestUpstream::new();
    let address = upstream.address();
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(Duration::from_secs(3600)) {
            let mut request = Vec::new();
            while !request.ends_with(END) {
                request.extend(peer.bytes(1));
            }
            let name = request.windows(6).position(|bytes| bytes == b"TARGET").expect("the parameter");
            let length = usize::from(request[name - 1]);
            let target = String::from_utf8(request[name + 6..name + 6 + length].to_vec()).expect("a target");
            let answer = [b"Status: ", &answer_to(&target)["HTTP/1.1 ".len()..]].concat();
            peer.send([fastcgi_record(6, &answer), fastcgi_record(6, b""), fastcgi_record(3, &[0; 8])].concat());
        }
    });
    address
}

/// The status, the fields and the body of an answer, by HTTP/1 or HTTP/2.
fn exchange(
    server: &TestServer,
    protocol: u8,
    method: &str,
    path: &str,
    field: Option<(&str, &str)>,
) -> (u16, Vec<(String, String)>, String) {
    let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
    if protocol == 2 {
        let fields: Vec<(&str, &str)> = field.into_iter().collect();
        let answer = Http2::new(server.connect()).request(method, path, &fields);
        let text = answer.text();
        return (answer.status, answer.message.fields.into_iter().map(lower).collect(), text);
    }
    let field = field.map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{field}\r\n"));
    let response = client.response_to(method);
    let text = response.text();
    (response.status, response.headers.into_iter().map(lower).collect(), text)
}

/// The status and the fields of an answer.
fn head(
    server: &TestServer,
    protocol: u8,
    method: &str,
    path: &str,
    field: Option<(&str, &str)>,
) -> (u16, Vec<(String, String)>) {
    let (status, fields, _) = exchange(server, protocol, method, path, field);
    (status, fields)
}

/// The ways to ask that hold for every response.
const ASKED: [(u8, &str); 4] = [(1, "GET"), (1, "HEAD"), (2, "GET"), (2, "HEAD")];

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
    let (behind, fastcgi) = (upstream.address(), application_by_fastcgi());
    let lines = format!(
        "http2 on; error_page 404 /404.html; error_page 403 @named; error_page 418 /returned; error_page 502 =200 /returned;
         error_page 503 http://elsewhere.example/;
         location /to/ {{ proxy_pass http://{behind}; }}
         location /hidden/ {{ proxy_pass http://{behind}/to/; proxy_hide_header Content-Type; }}
         location ~ ^/fast(?<rest>/.*) {{ fastcgi_param TARGET /to$rest; fastcgi_pass {fastcgi}; }}
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
    let server = Setup::server(&site, &lines).http("default_type text/plain; types { text/html html; }").in_process();
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
        for (protocol, method) in ASKED {
            for way in ["/to", "/hidden", "/fast"] {
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
         location = /gunzip {{ gunzip on; proxy_pass http://{behind}/packed; }}
         location = /charset {{ charset utf-8; source_charset koi8-r; charset_types *; {pass} }}
         location = /bytes {{ charset windows-1251; source_charset koi8-r; charset_types *; {pass} }}"
    );
    let maps = "charset_map koi8-r utf-8 { C0 D18E; } charset_map koi8-r windows-1251 { C0 FE; }";
    let server = Setup::server(&site, &lines).http(maps).in_process();
    for (path, etag, is_dated, has_ranges) in [
        ("/plain", Some("\"app\""), true, true),
        ("/gzip", Some("W/\"app\""), true, false),
        ("/sub", None, false, true),
        ("/sub-dated", Some("W/\"app\""), true, true),
        ("/subs", Some("\"app\""), false, true),
        ("/ssi", None, false, false),
        ("/addition", Some("W/\"app\""), true, false),
        ("/echo", Some("\"app\""), true, false),
        ("/gunzip", Some("W/\"app\""), true, false),
        ("/charset", Some("\"app\""), true, true),
        ("/bytes", Some("\"app\""), true, true),
    ] {
        for (protocol, method) in ASKED {
            let told = format!("{method} {path} by HTTP/{protocol}");
            let accepted = if path == "/gunzip" { "identity" } else { "gzip" };
            let (status, fields) = head(&server, protocol, method, path, Some(("accept-encoding", accepted)));
            assert_eq!(status, 200, "{told}");
            assert_eq!(of(&fields, "content-encoding").len(), usize::from(path == "/gzip"), "{told}");
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
    let server = Setup::server(&site, &lines).in_process();
    for (protocol, method) in ASKED {
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

/// A page that is made of others, or that others let a client have, has nothing of what describes them.
#[test]
fn what_describes_the_answer_to_a_subrequest_describes_no_page() {
    let (upstream, fastcgi) = (application(), application_by_fastcgi());
    let site = Site::new();
    site.file("main.html", "main").file("files/part.txt", "part").file("failed.html", "<p>failed");
    let behind = upstream.address();
    let mut cases = Vec::new();
    for (uri, part) in [
        ("/to/files/part.txt", "part"),
        ("/fast/files/part.txt", "part"),
        ("/to/@named", "named"),
        ("/to/missing", "<p>failed"),
        ("/page", &"body ".repeat(20)),
        ("/packed", &"body ".repeat(20)),
        ("/failed", "<p>failed"),
    ] {
        cases.push((format!("add_before_body {uri};"), 200, format!("{part}main")));
        cases.push((format!("add_after_body {uri};"), 200, format!("main{part}")));
        let allows = !matches!(uri, "/failed" | "/to/missing");
        let (status, page) = if allows { (200, "main") } else { (500, "Internal Server Error") };
        cases.push((format!("auth_request {uri};"), status, page.to_owned()));
    }
    cases.push(("auth_request /refused;".to_owned(), 401, "Authorization Required".to_owned()));
    let pages: String = cases
        .iter()
        .enumerate()
        .map(|(number, (line, ..))| format!("location = /main{number} {{ alias @ROOT@/main.html; {line} }}\n"))
        .collect();
    let lines = format!(
        "http2 on; addition_types *;
         error_page 404 /failed.html;
         {pages}
         location /to/ {{ proxy_pass http://{behind}; }}
         location ~ ^/fast(?<rest>/.*) {{ fastcgi_param TARGET /to$rest; fastcgi_pass {fastcgi}; }}
         location @named {{ return 200 named; }}
         location = /page {{ proxy_pass http://{behind}; }}
         location = /packed {{ gunzip on; proxy_pass http://{behind}; }}
         location = /failed {{ proxy_intercept_errors on; error_page 500 /failed.html; proxy_pass http://{behind}; }}
         location = /refused {{ proxy_pass http://{behind}; }}"
    );
    let server = Setup::server(&site, &lines).http("default_type text/plain; types { text/html html; }").in_process();
    for (number, (line, status, text)) in cases.iter().enumerate() {
        for (protocol, method) in ASKED {
            let told = format!("{line} {method} by HTTP/{protocol}");
            let (got, fields, body) = exchange(&server, protocol, method, &format!("/main{number}"), None);
            assert_eq!(got, *status, "{told}");
            match (method, status) {
                ("GET", 200) => assert_eq!(body, *text, "{told}"),
                ("GET", _) => assert!(body.contains(text), "{told}: {body}"),
                _ => assert_eq!(body, "", "{told}"),
            }
            let media: Vec<&str> =
                of(&fields, "content-type").iter().flat_map(|media| media.split(';').next()).collect();
            assert_eq!(media, [if *status == 200 { "text/plain" } else { "text/html" }], "{told}");
            let challenges: &[&str] = if *status == 401 { &["Own realm=\"r\""] } else { &[] };
            assert_eq!(of(&fields, "www-authenticate"), challenges, "{told}");
            for name in DESCRIBING.iter().chain(&["set-cookie", "cache-control", "x-accel-redirect"]) {
                assert_eq!(of(&fields, name), [""; 0], "{told}: {name}");
            }
            assert!(!of(&fields, "accept-ranges").contains(&"none"), "{told}");
            assert!(of(&fields, "etag").iter().all(|etag| !etag.contains("app")), "{told}");
            let dated = of(&fields, "last-modified");
            assert!(dated.iter().all(|date| !date.contains("1970")), "{told}: {dated:?}");
        }
    }
}

/// The answer to PROPFIND has a type of its own, and an error in its place that of the page.
#[test]
fn an_application_does_not_describe_the_answer_to_propfind() {
    let upstream = application();
    let site = Site::new();
    site.file("a.txt", "a").file("404.html", "<p>missing");
    let lines = format!(
        "http2 on;
         location /to/ {{ proxy_pass http://{}; }}
         location @dav {{ rewrite ^ /a.txt break; dav_ext_methods PROPFIND; }}
         location @none {{ rewrite ^ /none break; dav_ext_methods PROPFIND; error_page 404 /404.html; }}",
        upstream.address()
    );
    let server = Setup::server(&site, &lines).http("types { text/html html; }").in_process();
    for protocol in [1, 2] {
        for (path, status, media) in [("/to/@dav", 207, "text/xml; charset=utf-8"), ("/to/@none", 404, "text/html")] {
            let (got, fields, body) = exchange(&server, protocol, "PROPFIND", path, Some(("depth", "0")));
            let told = format!("{path} by HTTP/{protocol}: {body}");
            assert_eq!((got, of(&fields, "content-type")), (status, vec![media]), "{told}");
            assert_eq!(of(&fields, "set-cookie"), ["a=b"], "{told}");
            for name in DESCRIBING {
                assert_eq!(of(&fields, name), [""; 0], "{told}: {name}");
            }
            assert!(status < 300 || !of(&fields, "accept-ranges").contains(&"none"), "{told}");
            assert!(!of(&fields, "etag").contains(&"\"app\""), "{told}");
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
    let server = Setup::server(&Site::new(), &lines).in_process();
    let response = server.get("/untyped");
    assert_eq!((response.text().as_str(), response.header("content-length")), ("untyped", Some("7")));
}
