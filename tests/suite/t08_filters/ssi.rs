//! Includes of pages: the text of `stub` stands for an error, whatever the server behind said about it, and `set` keeps what
//! an error page has made of it.

use freerun_testkit::http2::Http2;
use freerun_testkit::{AnsweringUpstream, Setup, Site, TestUpstream, ok};

/// Statuses that an application answers with, under `/STATUS`.
const FAILURES: [u16; 5] = [302, 401, 404, 500, 503];

fn application() -> AnsweringUpstream {
    TestUpstream::answering(|request| match request.target()[1..].parse::<u16>() {
        Ok(status) => format!("HTTP/1.1 {status} No\r\nContent-Length: 12\r\n\r\nsecret trace").into(),
        Err(_) => ok("another"),
    })
}

/// A page that includes each URI with a stub, and one that gives its answer to a variable.
fn pages(site: &Site, uris: &[String]) {
    for (number, uri) in uris.iter().enumerate() {
        let block = "<!--# block name=\"b\" -->STUB<!--# endblock -->";
        site.file(&format!("stub{number}.html"), format!("[{block}<!--# include virtual=\"{uri}\" stub=\"b\" -->]"));
        let set = format!("[<!--# include virtual=\"{uri}\" set=\"v\" -->|<!--# echo var=\"v\" -->]");
        site.file(&format!("set{number}.html"), set);
    }
}

#[test]
fn neither_a_stub_nor_a_variable_shows_what_interception_hides() {
    let upstream = application();
    let behind = upstream.address();
    let ways = [("/kept", "FB"), ("/changed", "FB"), ("/named", "named"), ("/passed", "another"), ("/cached", "FB")];
    let uris: Vec<String> =
        ways.iter().flat_map(|(way, _)| FAILURES.iter().map(move |status| format!("{way}/{status}"))).collect();
    let site = Site::new();
    pages(&site, &uris);
    let on = "proxy_intercept_errors on; error_page 302 401 404 500 503";
    let pass = format!("proxy_pass http://{behind}/");
    let lines = format!(
        "http2 on; ssi on;
         location /kept/ {{ {on} /fallback.txt; {pass}; }}
         location /changed/ {{ {on} =200 /fallback.txt; {pass}; }}
         location /named/ {{ {on} = @named; {pass}; }}
         location /passed/ {{ {on} =200 /other; {pass}; }}
         location /cached/ {{ proxy_cache c; proxy_cache_valid any 1m; {on} =200 /fallback.txt; {pass}; }}
         location /other {{ proxy_pass http://{behind}; }}
         location = /fallback.txt {{ return 200 FB; }}
         location @named {{ return 200 named; }}"
    );
    let server = Setup::server(&site, &lines).http("proxy_cache_path @DIR@/cache keys_zone=c:1m;").freerun();
    for (number, uri) in uris.iter().enumerate() {
        let (way, text) = ways[number / FAILURES.len()];
        // An error page that leaves the status as it is leaves the variable empty.
        let value = if way == "/kept" { "" } else { text };
        // The cached answers come from the cache the second time.
        for _ in 0..2 {
            assert_eq!(server.get(&format!("/stub{number}.html")).text(), "[STUB]", "{uri}");
            assert_eq!(server.get(&format!("/set{number}.html")).text(), format!("[|{value}]"), "{uri}");
            let mut http2 = Http2::new(server.connect());
            assert_eq!(http2.get(&format!("/stub{number}.html")).text(), "[STUB]", "{uri}");
            assert_eq!(http2.get(&format!("/set{number}.html")).text(), format!("[|{value}]"), "{uri}");
        }
    }
}

#[test]
fn a_variable_has_what_an_error_page_has_made_a_success() {
    let uris = ["/files/missing", "/teapot", "/dead", "/kept/x"].map(str::to_owned);
    let site = Site::new();
    pages(&site, &uris);
    let lines = "ssi on;
         location /files/ { error_page 404 = @app; }
         location /teapot { error_page 418 = @app; return 418; }
         location /dead { error_page 502 = @app; proxy_pass http://127.0.0.1:1; }
         location /kept/ { error_page 404 @app; }
         location @app { return 200 app; }";
    let server = Setup::server(&site, lines).freerun();
    for (number, value) in ["app", "app", "app", ""].iter().enumerate() {
        assert_eq!(server.get(&format!("/set{number}.html")).text(), format!("[|{value}]"), "{}", uris[number]);
        assert_eq!(server.get(&format!("/stub{number}.html")).text(), "[STUB]", "{}", uris[number]);
    }
}

/// A location that closes the connection has no answer, for which the stub stands, too.
#[test]
fn a_stub_stands_for_a_closed_include() {
    let site = Site::new();
    pages(&site, &["/close".to_owned()]);
    let server = Setup::server(&site, "ssi on; location /close { return 444; }").freerun();
    assert_eq!(server.get("/stub0.html").text(), "[STUB]");
}

/// `%Z` is the abbreviation of the zone's name, as in nginx.
#[test]
fn a_date_names_its_zone() {
    let site = Site::new();
    site.file("page.html", "<!--# config timefmt=\"%Z %z\" --><!--# echo var=\"date_local\" -->");
    for (zone, text) in
        [("JST-9", "JST +0900"), ("<-03>3", "-03 -0300"), ("UTC0", "UTC +0000"), ("ABCDEFGHI0", "+0000 +0000")]
    {
        let server = Setup::server(&site, "ssi on;").environment("TZ", zone).run();
        // A name with more than eight letters, which no real zone has, is written as the offset.
        if server.kind() == freerun_testkit::Kind::Nginx && zone.starts_with('A') {
            continue;
        }
        assert_eq!(server.get("/page.html").text(), text, "{zone}");
    }
}
