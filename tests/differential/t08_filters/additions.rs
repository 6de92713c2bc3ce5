//! `add_before_body`, `add_after_body`: subrequests around a response.

use crate::harness::{compare, get, head, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn what_gets_texts() {
    let site = site();
    let lines = "
        add_before_body /a.txt;
        location = /a.txt { add_before_body \"\"; internal; }
        location = /page.html { add_before_body /a.txt; add_after_body /dir/f.txt; }
        location = /empty.txt { add_after_body /dir/f.txt; addition_types text/plain; types { text/plain txt; } }
        location = /pic.gif { addition_types *; }
        location = /pic.JPG { addition_types image/jpeg; types { IMAGE/jpeg jpg; } }
        location = /off { add_before_body \"\"; alias @ROOT@/page.html; types {} default_type text/html; }
        location = /untyped { alias @ROOT@/noext; default_type \"\"; addition_types *; }
        location = /charset { alias @ROOT@/noext; default_type \"text/html; charset=x\"; }
        location = /ret { default_type text/html; return 200 \"ret\"; }
        location = /nothing { default_type text/html; return 200; }
        location = /201 { default_type text/html; return 201 \"x\"; }
        location = /206 { default_type text/html; return 206 \"x\"; }
        location = /404 { default_type text/html; return 404 \"x\"; }
        location = /ep { error_page 404 /page.html; return 404; }
        location = /ep200 { error_page 404 =200 /page.html; return 404; }
        types { text/html html; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/page.html"),
            head("/page.html"),
            raw("GET /page.html HTTP/1.0\r\n\r\n"),
            raw("GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
            raw("HEAD /page.html HTTP/1.0\r\n\r\n"),
            raw("GET /page.html\r\n"),
            get("/empty.txt"),
            get("/pic.gif"),
            get("/pic.JPG"),
            get("/off"),
            get("/untyped"),
            get("/charset"),
            get("/ret"),
            get("/nothing"),
            get("/201"),
            get("/206"),
            get("/404"),
            get("/ep"),
            get("/ep200"),
            get("/none.html"),
            get("/dir"),
            get("/dir/"),
            request("POST", "/page.html").field("Content-Length: 3").body("abc"),
            get("/page.html").field("Range: bytes=0-3"),
            get("/page.html").field("If-Range: \"x\"").field("Range: bytes=0-3"),
            get("/page.html").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
            get("/page.html").field("If-None-Match: \"2ebc98a1-8\""),
            get("/page.html").field("If-Match: \"other\""),
            raw("GET /page.html HTTP/1.1\r\nHost: a\r\n\r\nGET /ret HTTP/1.1\r\nHost: a\r\n\r\n").responses(2),
        ],
    );
}

/// The same page in front of and behind which different things are put.
#[test]
fn what_a_subrequest_may_answer() {
    let site = site();
    let mut lines = "types {} default_type text/html;
        location = /a { add_after_body /b; alias @ROOT@/a.txt; }
        location = /b { alias @ROOT@/noext; add_after_body /c; add_before_body /c; }
        location = /c { return 200 C; }
        location = /r204 { return 204; }
        location = /r206 { return 206 part; }
        location = /r301 { return 301 /c; }
        location = /r304 { return 304; }
        location = /r401 { return 401 text; }
        location = /r403 { error_page 403 /a.txt; return 403; }
        location = /r404 { error_page 404 =200 /c; return 404; }
        location = /r404loop { error_page 404 /r404loop; return 404; }
        location = /r444 { return 444; }
        location = /r500 { return 500; }
        location = /tries { try_files /none @named; }
        location @named { return 200 \"[named $uri]\"; }
        location = /vars { return 200 \"$http_foo|$host|$arg_x|$args|$is_args|$uri|$request_uri|$request|$server_protocol|$request_method|$status\"; }
        location = /lengths { return 200 \"$content_length $request_length\"; }
        location /br { return 200 \"[$uri]\"; }
        location = /internal { internal; return 200 internal; }
        location = /nothing { return 200 \"\"; }
        location = /big { alias @ROOT@/big.bin; }
        "
    .to_owned();
    let mut cases = Vec::new();
    // A page that ends with the server's name makes another chunk length.
    for (number, (uri, has_name)) in [
        ("/b", false),
        ("/c", false),
        ("/none", true),
        ("/dir", true),
        ("/dir/", false),
        ("/emptydir/", true),
        ("/r204", false),
        ("/r206", false),
        ("/r301", true),
        ("/r304", false),
        ("/r401", false),
        ("/r403", false),
        ("/r404", false),
        ("/r444", false),
        ("/r500", true),
        ("/tries", false),
        ("/vars", false),
        ("/vars?x=1", true),
        ("/lengths", false),
        ("\"/br b\"", false),
        ("/br%20b", false),
        ("/br//b/../c", false),
        ("/br#b", false),
        ("/br$uri", false),
        ("rel", true),
        ("/dir/../a.txt", false),
        ("/internal", false),
        ("/nothing", false),
        ("/big", false),
        ("/secret/denied.txt", true),
    ]
    .into_iter()
    .enumerate()
    {
        let http = if has_name { "HTTP/1.0" } else { "HTTP/1.1" };
        lines += &format!("location = /before{number} {{ add_before_body {uri}; alias @ROOT@/a.txt; }}\n");
        lines += &format!("location = /after{number} {{ add_after_body {uri}; alias @ROOT@/a.txt; }}\n");
        let mut case = |place| {
            cases.push(raw(format!("GET /{place}{number}?x=2 {http}\r\nHost: localhost\r\nFoo: bar\r\n\r\n")));
        };
        case("before");
        // What came before a subrequest that closes the connection has been sent; nginx still holds it back.
        if uri != "/r444" {
            case("after");
        }
    }
    lines += "location = /self { add_before_body /self; add_after_body /self; alias @ROOT@/a.txt; }
        location = /post { error_page 405 =200 /vars2; alias @ROOT@/a.txt; }
        location = /vars2 { add_after_body /vars; return 200 x; }
        location = /long { add_before_body /big; add_after_body /big; alias @ROOT@/big.bin; }
        ";
    cases.extend([
        get("/self"),
        get("/a"),
        head("/a"),
        get("/long"),
        request("POST", "/post").field("Content-Length: 3").body("abc"),
        request("POST", "/vars2").field("Content-Length: 3").body("abc"),
        request("PUT", "/vars2").field("Content-Length: 3").body("abc"),
    ]);
    compare(&Setup::server(&site, &lines), cases);
}
