//! Heads of requests: what is malformed, and what only looks so.

use super::{connect, plain, secure};
use crate::worker::InProcess;
use freerun_testkit::http2::{FieldBlock, Frame, Http2};
use freerun_testkit::{Kind, Setup, Site, TestUpstream, Tls, ok, require};

/// The pseudo-fields of a GET without those of these names.
fn without(names: &[&str]) -> FieldBlock {
    let all = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "localhost")];
    let kept: Vec<_> = all.into_iter().filter(|(name, _)| !names.contains(name)).collect();
    FieldBlock::new().fields(&kept)
}

/// A head that is malformed.
struct Malformed {
    what: &'static str,
    block: FieldBlock,
    /// Whether nginx 1.22 answers it in this way, too.
    old: bool,
}

/// What nginx 1.22 refuses already.
fn malformed(what: &'static str, block: FieldBlock) -> Malformed {
    Malformed { what, block, old: true }
}

/// What only later versions refuse, or answer in this way.
fn newer(what: &'static str, block: FieldBlock) -> Malformed {
    Malformed { what, block, old: false }
}

#[test]
fn malformed_heads_get_a_page_and_the_connection_goes_on() {
    let site = Site::new();
    site.file("index.html", "a page");
    let server = plain(&site, "").run_in_process();
    let get = || FieldBlock::get("/");
    let cases = [
        malformed("no method", without(&[":method"])),
        malformed("no scheme", without(&[":scheme"])),
        malformed("no path", without(&[":path"])),
        malformed("no authority and no Host", without(&[":authority"])),
        malformed("an empty path", without(&[":path"]).field(":path", "")),
        malformed("a path without a slash", without(&[":path"]).field(":path", "index.html")),
        malformed("an empty method", without(&[":method"]).field(":method", "")),
        malformed("a method with odd bytes", without(&[":method"]).field(":method", "GE:T")),
        malformed("an empty scheme", without(&[":scheme"]).field(":scheme", "")),
        malformed("two methods", get().field(":method", "GET")),
        malformed("two schemes", get().field(":scheme", "http")),
        malformed("two paths", get().field(":path", "/")),
        malformed("two authorities", get().field(":authority", "localhost")),
        malformed("an unknown pseudo-field", get().field(":unknown", "x")),
        malformed("a status", get().field(":status", "200")),
        malformed("two lengths", get().fields(&[("content-length", "0"), ("content-length", "0")])),
        malformed("a length that is no number", get().field("content-length", "x")),
        newer("an upper-case name", get().field("X-Name", "x")),
        newer("a NUL in a name", get().field("x\0name", "x")),
        newer("a line feed in a name", get().field("x\nname", "x")),
        newer("a colon in a name", get().field("x:name", "x")),
        newer("an empty name", get().field("", "x")),
        newer("a NUL in a value", get().field("x-name", "a\0b")),
        newer("a line feed in a value", get().field("x-name", "a\nb")),
        newer("a carriage return in a value", get().field("x-name", "a\rb")),
        malformed("an authority that is no host", without(&[":authority"]).field(":authority", "a..b/c")),
        newer("a late pseudo-field", without(&[":path"]).field("x", "y").field(":path", "/")),
        newer("Connection", get().field("connection", "keep-alive")),
        newer("Keep-Alive", get().field("keep-alive", "x")),
        newer("Proxy-Connection", get().field("proxy-connection", "x")),
        newer("Transfer-Encoding", get().field("transfer-encoding", "chunked")),
        newer("Upgrade", get().field("upgrade", "h2c")),
        newer("TE", get().field("te", "gzip")),
        newer("authority and Host that differ", get().field("host", "other")),
    ];
    let mut http2 = connect(&server);
    let mut wrong = Vec::new();
    for Malformed { what, block, old } in cases {
        if server.kind() == Kind::Nginx && !old {
            continue;
        }
        let answer = http2.exchange(&block);
        if answer.status != 400 || !answer.is_whole() {
            wrong.push(format!("{what}: {} {:?}", answer.status, answer.end));
        }
        if matches!(answer.end, freerun_testkit::http2::StreamEnd::Gone(..)) {
            http2 = connect(&server);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(http2.get("/").text(), "a page");
    assert_eq!(http2.away(), []);
}

/// So that a client which does not expect a page sees an error as well (RFC 9113 section 8.1.1).
#[test]
fn a_malformed_stream_is_reset_behind_the_page() {
    if !require::freerun() {
        return;
    }
    let server = plain(&Site::new(), "").run_in_process();
    let mut http2 = connect(&server);
    let stream = http2.ask(FieldBlock::get("/").field("X-Name", "x"));
    assert_eq!(http2.answer(stream).status, 400);
    assert_eq!(http2.reset_of(stream), freerun_testkit::http2::code::PROTOCOL_ERROR);
}

#[test]
fn heads_that_only_look_odd_are_served() {
    let site = Site::new();
    site.file("index.html", "a page");
    let server = plain(&site, "").run_in_process();
    let mut http2 = connect(&server);
    let cases = [
        ("Host and no authority", without(&[":authority"]).field("host", "localhost")),
        (
            "another order",
            FieldBlock::new().fields(&[
                (":path", "/"),
                (":authority", "localhost"),
                (":scheme", "http"),
                (":method", "GET"),
            ]),
        ),
        ("TE: trailers", FieldBlock::get("/").field("te", "trailers")),
        ("another scheme", without(&[":scheme"]).field(":scheme", "https")),
        ("an empty value", FieldBlock::get("/").field("x-name", "")),
        ("bytes above 127 in a value", FieldBlock::get("/").field("x-name", [0xc3, 0xa4, 0xff])),
        ("a tab in a value", FieldBlock::get("/").field("x-name", "a\tb")),
        ("an absolute path", without(&[":path"]).field(":path", "/index.html?x#y")),
    ];
    for (what, block) in cases {
        let answer = http2.exchange(&block);
        assert_eq!((answer.status, answer.text().as_str(), answer.is_whole()), (200, "a page", true), "{what}");
    }
    if server.kind() == Kind::Freerun {
        // nginx 1.22 takes it for a second Host.
        let answer = http2.exchange(FieldBlock::get("/").field("host", "localhost"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "a page"));
    }
}

#[test]
fn names_with_odd_bytes_follow_the_directives() {
    let upstream = TestUpstream::answering(|request| ok(request.header("x_a").unwrap_or("none")));
    let site = Site::new();
    let lines = format!("location / {{ proxy_pass http://{}; }}", upstream.address());
    for (directive, expected) in [("", "none"), ("underscores_in_headers on;", "1")] {
        let server = plain(&site, &format!("{directive} {lines}")).run_in_process();
        assert_eq!(connect(&server).get_with("/", &[("x_a", "1")]).text(), expected, "{directive}");
    }
}

#[test]
fn connect_and_trace_are_not_allowed() {
    let server = plain(&Site::new(), "location / { return 200 served; }").run_in_process();
    let mut http2 = connect(&server);
    assert_eq!(http2.request("TRACE", "/", &[]).status, 405);
    let block = FieldBlock::new().fields(&[(":method", "CONNECT"), (":authority", "localhost:80")]);
    let status = http2.exchange(&block).status;
    // nginx 1.22 asks for the pseudo-fields first.
    assert_eq!(status, if server.kind() == Kind::Nginx { 400 } else { 405 });
    assert_eq!(http2.request("CONNECT", "/", &[]).status, 405);
    assert_eq!(http2.request("DELETE", "/", &[]).text(), "served");
}

#[test]
fn a_server_that_asks_for_certificates_is_not_reached_by_another_name() {
    let site = Site::new();
    let lines = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";
    let setup = Setup::new().root(&site).http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl http2; server_name a.example.com; {lines} return 200 a; }}
         server {{ listen 127.0.0.1:@PORT@ ssl http2; server_name b.example.com; {lines} return 200 b; }}
         server {{ listen 127.0.0.1:@PORT@ ssl http2; server_name c.example.com; {lines} return 200 c;
                   ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt; }}"
    ));
    let server = setup.run_in_process();
    let mut http2 = Http2::tls(server.connect(), &Tls::new().name("a.example.com"), &[]);
    for (name, status, text) in [("a", 200, Some("a")), ("b", 200, Some("b")), ("c", 421, None), ("a", 200, Some("a"))]
    {
        let answer = http2.set_authority(&format!("{name}.example.com")).get("/");
        assert_eq!(answer.status, status, "{name}");
        if let Some(text) = text {
            assert_eq!(answer.text(), text);
        }
    }
    let mut http2 = Http2::tls(server.connect(), &Tls::new().name("c.example.com"), &[]);
    assert_eq!(http2.set_authority("c.example.com").get("/").text(), "c");
}

#[test]
fn a_server_without_http2_is_not_reached_over_it() {
    // Before 1.25.1, nginx has this setting for addresses alone.
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .root(&Site::new())
        .http(
            "server { listen 127.0.0.1:@PORT@; server_name a; http2 on; return 200 a; }
             server { listen 127.0.0.1:@PORT@; server_name b; return 200 b; }",
        )
        .run_in_process();
    let mut http2 = connect(&server);
    assert_eq!(http2.set_authority("a").get("/").text(), "a");
    assert_eq!(http2.set_authority("b").get("/").status, 421);
    assert_eq!(server.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").text(), "b");
}

#[test]
fn crumbs_of_cookies_are_joined() {
    let upstream = TestUpstream::answering(|request| ok(request.headers("cookie").join("|")));
    let lines = format!(
        "location / {{ proxy_pass http://{}; }} location /here {{ return 200 '$http_cookie $cookie_b'; }}",
        upstream.address()
    );
    let server = plain(&Site::new(), &lines).run_in_process();
    let mut http2 = connect(&server);
    let crumbs = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2; c=3"), ("cookie", "d=4")];
    assert_eq!(http2.get_with("/", &crumbs).text(), "a=1; b=2; c=3; d=4");
    assert_eq!(http2.get_with("/here", &crumbs).text(), "a=1; b=2; c=3; d=4 2");
}

#[test]
fn fields_of_one_name_reach_the_upstream_one_by_one() {
    let upstream = TestUpstream::answering(|request| ok(request.headers("x-a").join("|")));
    let server =
        plain(&Site::new(), &format!("location / {{ proxy_pass http://{}; }}", upstream.address())).run_in_process();
    assert_eq!(connect(&server).get_with("/", &[("x-a", "1"), ("x-b", "2"), ("x-a", "3")]).text(), "1|3");
}

#[test]
fn what_is_said_of_priorities_changes_nothing() {
    let site = Site::new();
    site.file("index.html", "a page");
    let server = plain(&site, "").run_in_process();
    let mut http2 = connect(&server);
    http2.send(Frame::priority(3, 0, 10)).send(Frame::priority(1, 3, 255)).send(Frame::priority(99, 1, 0));
    http2.send(Frame::priority_update(1, "u=0, i"));
    assert_eq!(http2.get_with("/", &[("priority", "u=7, i")]).text(), "a page");
    let stream = http2.next_stream();
    let block = http2.block("GET", "/");
    let mut frame = Frame::headers(stream, [&[0x80, 0, 0, 1, 200], block.as_ref()].concat());
    frame.flags |= freerun_testkit::http2::flag::PRIORITY;
    http2.send(frame.end());
    assert_eq!(http2.answer(stream).text(), "a page");
}

#[test]
fn the_same_is_served_over_tls() {
    let site = Site::new();
    site.file("index.html", "a page");
    let server = secure(&site, "location /tell { return 200 '$http2 $server_protocol $scheme'; }").run_in_process();
    let mut http2 = Http2::tls(server.connect(), &Tls::new(), &[]);
    assert_eq!(http2.get("/").text(), "a page");
    assert_eq!(http2.get("/tell").text(), "h2 HTTP/2.0 https");
    // A client that does not offer it gets HTTP/1.
    let mut client = server.connect_tls(&Tls::new().alpn(&["http/1.1"]));
    assert_eq!(client.get("/tell").text(), " HTTP/1.1 https");
    let mut client = server.connect_tls(&Tls::new());
    assert_eq!((client.agreed().alpn, client.get("/").text()), (None, "a page".to_owned()));
    // The server's choice: h2 before the older protocol, whatever the client names first.
    let client = server.connect_tls(&Tls::new().alpn(&["http/1.1", "h2"]));
    assert_eq!(client.agreed().alpn.as_deref(), Some("h2"));
}

#[test]
fn the_chosen_server_says_how_many_fields_there_may_be() {
    if !require::freerun() {
        return;
    }
    let setup = Setup::new().root(&Site::new()).http(
        "server { listen 127.0.0.1:@PORT@ http2; server_name localhost; max_headers 20; return 200 many; }
         server { listen 127.0.0.1:@PORT@ http2; server_name few; max_headers 3; return 200 few; }",
    );
    let server = setup.run_in_process();
    let mut http2 = connect(&server);
    let fields = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")];
    assert_eq!(http2.get_with("/", &fields).text(), "many");
    http2.set_authority("few");
    assert_eq!(http2.get_with("/", &fields[..3]).text(), "few");
    assert_eq!(http2.get_with("/", &fields).status, 400);
    server.logs("client sent too many header lines while reading client request headers");
}
