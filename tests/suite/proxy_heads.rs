//! Heads and trailers of servers behind, where nginx 1.22 is not as it is today.

use freerun_testkit::{Response, Setup, Site, Upstream, ok};

fn challenges(response: &Response) -> Vec<&str> {
    let of = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("www-authenticate");
    response.headers.iter().filter(of).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn all_ways_in_are_told_by_whoever_refuses() {
    let upstream = Upstream::answering(|request| match request.target() {
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
    let server = Setup::server(&Site::new(), &lines).http("proxy_cache_path @DIR@/cache keys_zone=c:1m;").freerun();
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

/// The server behind one that answers in chunks with these trailers.
fn with_trailers(trailers: &str) -> freerun_testkit::Answering {
    let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{trailers}\r\n");
    Upstream::answering(move |_| answer.clone().into())
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
    let server = Setup::server(&Site::new(), &lines).freerun();
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
    let server = Setup::server(&Site::new(), &lines).freerun();
    assert_eq!(trailers(&server.get("/a")), [("X-Sum", "1")]);
    assert_eq!(trailers(&server.get("/pass")), [("X-Sum", "1"), ("X-Accel-Charset", "c"), ("Date", "d")]);
    assert_eq!(trailers(&server.get("/show")), [("X-Sum", "1"), ("X-Seen", "h /v")]);
}

#[test]
fn early_hints_tell_nothing_that_is_for_this_server() {
    let upstream = Upstream::new();
    let lines = format!(
        "early_hints 1; location / {{ proxy_pass http://{0}; }}
         location /pass {{ proxy_pass_header X-Accel-Redirect; proxy_pass http://{0}; }}",
        upstream.address()
    );
    let server = Setup::server(&Site::new(), &lines).freerun();
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
