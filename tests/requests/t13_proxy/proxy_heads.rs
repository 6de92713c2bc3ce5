//! Heads and trailers of servers behind, where nginx 1.22 is not as it is today.

use crate::worker::InProcess;
use freerun_testkit::{Response, Setup, Site, TestUpstream, ok};

fn challenges(response: &Response) -> Vec<&str> {
    let of = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("www-authenticate");
    response.headers.iter().filter(of).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn all_ways_in_are_told_by_whoever_refuses() {
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/one" => "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n".into(),
        "/none" => "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".into(),
        "/pass" => ok("passed"),
        _ => "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nX-B: 1\r\nwww-authenticate: Digest q\r\n\
              WWW-Authenticate: Negotiate\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nno"
            .into(),
    });
    let behind = upstream.address();
    let lines = format!(
        "location / {{ proxy_intercept_errors on; error_page 401 /page; proxy_pass http://{behind}; }}
         location = /page {{ return 200 page; }}
         location /cached {{ proxy_intercept_errors on; error_page 401 /page; proxy_cache c; proxy_cache_valid any 1m;
             proxy_pass http://{behind}; }}
         location /asks {{ auth_request /several; proxy_pass http://{behind}/pass; }}
         location /asks-one {{ auth_request /one; proxy_pass http://{behind}/pass; }}
         location /any {{ satisfy any; auth_request /several; allow 127.0.0.1; deny all; proxy_pass http://{behind}/pass; }}"
    );
    let server = Setup::server(&Site::new(), &lines).http("proxy_cache_path @DIR@/cache keys_zone=c:1m;").in_process();
    let all = ["Basic realm=\"x\"", "Digest q", "Negotiate"];
    for (path, text, want) in [
        ("/several", Some("page"), &all[..]),
        ("/cached", Some("page"), &all),
        ("/cached", Some("page"), &all),
        ("/asks", None, &all),
        ("/one", Some("page"), &["Basic"]),
        ("/asks-one", None, &["Basic"]),
        ("/none", Some("page"), &[]),
    ] {
        let response = server.get(path);
        assert_eq!((response.status, challenges(&response)), (401, want.to_vec()), "{path}");
        assert!(text.is_none_or(|text| response.text() == text), "{path}: {}", response.text());
    }
    let response = server.get("/any");
    assert_eq!((response.status, challenges(&response)), (200, vec![]));
    // Kept for one response alone.
    let mut client = server.connect();
    assert_eq!(challenges(&client.get("/several")).len(), 3);
    assert_eq!(challenges(&client.get("/pass")).len(), 0);
}

#[test]
fn of_fields_that_count_once_the_first_counts() {
    let upstream = TestUpstream::answering(|_| {
        let fields = "Content-Type: text/a\r\nexpires: 1\r\nETag: \"a\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\
             Location: /a\r\nRefresh: 1\r\nX-Accel-Expires: 1\r\nX-Many: 1\r\n";
        let again = "Content-Type: text/b\r\nExpires: 2\r\nETag: \"b\"\r\nLast-Modified: Tue, 02 Jan 2024 00:00:00 GMT\r\n\
             Location: /b\r\nRefresh: 2\r\nX-Accel-Expires: 2\r\nX-Many: 2\r\n";
        format!("HTTP/1.1 200 OK\r\n{fields}{again}Content-Length: 2\r\n\r\nok").into()
    });
    let behind = upstream.address();
    let lines = format!(
        "location / {{ add_header X-Known \"$upstream_http_content_type $upstream_http_location $upstream_http_x_many\";
             proxy_pass_header X-Accel-Expires; proxy_pass http://{behind}; }}"
    );
    let server = Setup::server(&Site::new(), &lines).in_process();
    let response = server.get("/");
    let of = |name: &str| {
        let same = |(field, _): &&(String, String)| field.eq_ignore_ascii_case(name);
        response.headers.iter().filter(same).map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("|")
    };
    for (name, value) in [
        ("Content-Type", "text/a"),
        ("Expires", "1"),
        ("ETag", "\"a\""),
        ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("Location", "/a"),
        ("Refresh", "1"),
        ("X-Accel-Expires", "1"),
        ("X-Many", "1|2"),
        ("X-Known", "text/a /a 1, 2"),
    ] {
        assert_eq!(of(name), value, "{name}");
    }
    for (again, first) in [
        ("Content-Type: text/b", "Content-Type: text/a"),
        ("Expires: 2", "expires: 1"),
        ("X-Accel-Expires: 2", "X-Accel-Expires: 1"),
        ("Location: /b", "Location: /a"),
    ] {
        server.logs(&format!("upstream sent duplicate header line: \"{again}\", previous value: \"{first}\", ignored"));
    }
}

#[test]
fn of_cookies_that_are_set_the_first_counts() {
    let upstream = TestUpstream::answering(|_| {
        "HTTP/1.1 200 OK\r\nSet-Cookie: b=0\r\nSet-Cookie: a =  1 ; path=/\r\nset-cookie: A=2\r\nSet-Cookie: e= ;\r\n\
         Content-Length: 2\r\n\r\nok"
            .into()
    });
    let lines = format!(
        "add_header X-Known \"[$upstream_cookie_a][$upstream_cookie_b][$upstream_cookie_e]\"; location / {{ proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = Setup::server(&Site::new(), &lines).in_process();
    assert_eq!(server.get("/").header("x-known"), Some("[1][0][]"));
}

#[test]
fn a_part_of_what_is_stored_has_its_own_range() {
    let upstream = TestUpstream::answering(|_| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nAccept-Ranges: bytes\r\nContent-Range: bytes 1-2/77\r\n\
         Content-Length: 10\r\n\r\n0123456789"
            .into()
    });
    let lines = format!("location / {{ proxy_cache c; proxy_pass http://{}; }}", upstream.address());
    let server = Setup::server(&Site::new(), &lines).http("proxy_cache_path @DIR@/cache keys_zone=c:1m;").in_process();
    let ranges = |asked: &str| {
        let response = server.get_with("/", &format!("Range: bytes={asked}\r\n"));
        let of = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("content-range");
        (response.status, response.headers.iter().filter(of).map(|(_, value)| value.clone()).collect::<Vec<_>>())
    };
    for _ in 0..2 {
        assert_eq!(ranges("2-3"), (206, vec!["bytes 2-3/10".to_owned()]));
        assert_eq!(ranges("2-3,5-6"), (206, vec![]));
        assert_eq!(ranges("20-30"), (416, vec!["bytes */10".to_owned()]));
    }
}

/// The server behind one that answers in chunks with these trailers.
fn with_trailers(trailers: &str) -> freerun_testkit::AnsweringUpstream {
    let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{trailers}\r\n");
    TestUpstream::answering(move |_| answer.clone().into())
}

fn trailers(response: &Response) -> Vec<(&str, &str)> {
    response.trailers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn trailers_of_the_configuration_come_behind_those_of_the_server() {
    let upstream = with_trailers("X-Sum: 1\r\n");
    let behind = upstream.address();
    let lines = format!(
        "proxy_pass_trailers on; add_trailer X-Own $upstream_trailer_x_sum always;
         location / {{ proxy_pass http://{behind}; }}
         location /nb {{ proxy_buffering off; proxy_pass http://{behind}; }}
         location /not {{ proxy_pass_trailers off; proxy_pass http://{behind}; }}
         location /own {{ return 200 own; }}
         location /fr {{ proxy_force_ranges on; proxy_pass http://{behind}; }}"
    );
    let server = Setup::server(&Site::new(), &lines).in_process();
    for path in ["/", "/nb", "/fr"] {
        assert_eq!(trailers(&server.get(path)), [("X-Sum", "1"), ("X-Own", "1")], "{path}");
    }
    assert_eq!(trailers(&server.get("/not")), [("X-Own", "1")]);
    assert_eq!(trailers(&server.get("/own")), []);
}

#[test]
fn trailers_are_hidden_and_passed_as_fields_of_the_head_are() {
    let upstream = with_trailers(
        "X-Sum: 1\r\nX-Hide: h\r\nX-Accel-Redirect: /v\r\nX-Accel-Charset: c\r\nDate: d\r\nServer: s\r\nX-Pad: p\r\n",
    );
    let behind = upstream.address();
    let lines = format!(
        "proxy_pass_trailers on; proxy_hide_header X-Hide; proxy_pass http://{behind};
         location /pass {{ proxy_pass_header X-Accel-Charset; proxy_pass_header Date; proxy_pass http://{behind}; }}
         location /show {{ add_trailer X-Seen \"$upstream_trailer_x_hide $upstream_trailer_x_accel_redirect\";
             proxy_pass http://{behind}; }}"
    );
    let lines = lines.replacen("proxy_pass http", "location / { proxy_pass http", 1).replacen(";\n", "; }\n", 1);
    let server = Setup::server(&Site::new(), &lines).in_process();
    assert_eq!(trailers(&server.get("/a")), [("X-Sum", "1")]);
    assert_eq!(trailers(&server.get("/pass")), [("X-Sum", "1"), ("X-Accel-Charset", "c"), ("Date", "d")]);
    assert_eq!(trailers(&server.get("/show")), [("X-Sum", "1"), ("X-Seen", "h /v")]);
}

#[test]
fn early_hints_tell_nothing_that_is_for_this_server() {
    let upstream = TestUpstream::new();
    let lines = format!(
        "early_hints 1; location / {{ proxy_pass http://{0}; }}
         location /pass {{ proxy_pass_header X-Accel-Redirect; proxy_pass http://{0}; }}",
        upstream.address()
    );
    let server = Setup::server(&Site::new(), &lines).in_process();
    let interim = "HTTP/1.1 103 Early Hints\r\nX-Accel-Redirect: /v\r\nDate: d\r\nServer: s\r\nLink: </a>\r\n\r\n";
    for (path, hints) in [
        ("/", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        ("/pass", "HTTP/1.1 103 Early Hints\r\nX-Accel-Redirect: /v\r\nLink: </a>\r\n\r\n"),
    ] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let mut peer = upstream.accept();
        peer.request();
        peer.send(interim);
        assert_eq!(String::from_utf8_lossy(client.at_least(hints.len())), hints);
        client.take();
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(client.response().text(), "x");
    }
}
