//! `more_set_headers` and its relatives.

use super::{setup, taken_alike};
use crate::harness::{compare, get, raw, request};
use crate::site::site;

const MODULE: &[&str] = &["ngx_http_headers_more_filter_module"];

/// Fields that the server makes itself, and some that it does not.
const NAMES: &[(&str, &str)] = &[
    ("Server", "my"),
    ("Content-Type", "text/foo; x=y"),
    ("content-type", "text/css"),
    ("Location", "/rel"),
    ("Location", "http://other/"),
    ("Refresh", "1"),
    ("Last-Modified", "Thu, 01 Jan 1970 00:00:10 GMT"),
    ("Content-Range", "x"),
    ("Accept-Ranges", "zz"),
    ("WWW-Authenticate", "w"),
    ("Expires", "e"),
    ("ETag", "\"q\""),
    ("Content-Encoding", "ce"),
    ("Set-Cookie", "a=b"),
    ("Vary", "Foo"),
    ("Link", "l"),
    ("X-Foo", "$host:$arg_a"),
    ("X-S*", "x"),
    ("E*", "x"),
];

#[test]
fn fields_of_files() {
    let (mut server, mut cases) = (String::new(), Vec::new());
    for (index, (name, value)) in NAMES.iter().enumerate() {
        for (kind, line) in
            [("set", format!("more_set_headers '{name}: {value}'")), ("no", format!("more_clear_headers '{name}'"))]
        {
            server += &format!("location /{kind}{index}/ {{ alias @ROOT@/; {line}; }}\n");
            for path in ["a.txt", "page.html", "nothing", "dir"] {
                cases.push(get(&format!("/{kind}{index}/{path}?a=b")));
            }
            cases.push(get(&format!("/{kind}{index}/a.txt")).field("Range: bytes=1-2"));
            // nginx makes a set tag weak for some files and not for others.
            if *name != "ETag" {
                cases.push(get(&format!("/{kind}{index}/digits")).field("Accept-Encoding: gzip"));
            }
            cases.push(request("HEAD", &format!("/{kind}{index}/a.txt")));
        }
    }
    server += "location /length/ { alias @ROOT@/; more_clear_headers Content-Length; }";
    for path in ["a.txt", "digits", "empty.txt", "nothing"] {
        cases.push(get(&format!("/length/{path}")));
    }
    let http = "gzip on; gzip_vary on; gzip_types text/plain text/css; charset utf-8; types { text/plain txt; text/html html; }";
    let added = format!("add_header X-Added 1; {server}");
    let Some(setup) = setup(MODULE, &site(), http, &added) else { return };
    compare(&setup, cases);
}

#[test]
fn statuses_types_levels_and_variables() {
    let server = r#"
        default_type text/plain;
        location /status { more_set_headers -s 404 "X-A: $status" -s "500 404" "X-B: $sent_http_x_a";
                           more_set_headers -s 200 "X-C: c"; more_set_headers -s "" "X-D: d"; root @ROOT@; }
        location /t/ { alias @ROOT@/; charset utf-8; more_set_headers -t text/html "A: 1"; more_set_headers -t "text/plain" "B: 1";
                       more_set_headers -t "text/html;" "C: 1"; more_set_headers -t "text/html x/y" "D: 1";
                       more_set_headers -t "text/htm" "E: 1"; more_set_headers -t "" "F: 1"; more_set_headers -t TEXT/html "G: 1";
                       more_set_headers -t "text/html;charset=utf-8" "I: 1"; more_set_headers -t "text/*" "J: 1";
                       more_set_headers -t text/html -s "404 200" -t text/plain "K: 1" "L: 2"; }
        location /type1/ { alias @ROOT@/; charset utf-8; more_set_headers "Content-Type: text/plain" -t text/html; }
        location /type2/ { alias @ROOT@/; charset utf-8; more_set_headers "Content-Type: text/plain; charset=koi8-r";
                           more_set_headers -t "text/plain" "AA: 1"; more_set_headers -t "text/html" "BB: 1"; }
        location /type3/ { return 204; more_set_headers "Content-Type: text/plain"; }
        location /type4/ { return 204; more_set_headers "Content-Type: text/plain" "Server: x"; }
        location /twice/ { alias @ROOT@/; more_set_headers "Cache-Control: a"; more_set_headers "Cache-Control: b";
                           more_set_headers "Set-Cookie: a=1" "Set-Cookie: b=2"; add_header Set-Cookie c=3; }
        location /redirect { more_set_headers "Server: x" "X-Y: $server_port$server_protocol"; return 301 /foo; }
        location /nowhere { more_clear_headers Location; return 301 /foo; }
        location /if { more_set_headers "X-O: 1"; if ($arg_a) { more_set_headers "X-I: 1" "X-O: 2"; return 200 a; } return 200 b; }
        location /nest/ { more_set_headers "X-O: 1" "X-P: 1";
                          location /nest/a { more_set_headers "X-O: 2"; more_clear_headers X-P; return 200 a; }
                          location /nest/b { return 200 b; } return 200 c; }
        location /page { error_page 404 /a.txt; more_set_headers "X-Outer: 1"; root @ROOT@; }
        location = /a.txt { root @ROOT@; more_set_headers "X-Inner: $status"; }
        location /refused { auth_basic x; auth_basic_user_file /dev/null; more_set_headers "WWW-Authenticate: none"; }
        location /silent { auth_basic x; auth_basic_user_file /dev/null; more_clear_headers "WWW-*"; }
        location /words { more_set_headers "X: a  b" "V:  e" "W:" "U:$host:x" ":x" ""; return 200 x; }
        location /ssi { ssi on; ssi_types *; more_set_headers "X-Main: 1" "Content-Type: text/x"; alias @ROOT@/inc.shtml; }
        location = /inc { more_set_headers "X-Inc: 1" "Content-Type: a/b"; return 200 inc; }"#;
    let site = site();
    site.dated("inc.shtml", "<!--#include virtual=\"/inc\" -->", crate::site::MTIME);
    let http = "types { text/html html; } more_set_headers 'X-Http: 1';";
    let Some(setup) = setup(MODULE, &site, http, server) else { return };
    let targets = [
        "/status/x",
        "/status",
        "/t/page.html",
        "/t/a.txt",
        "/t/nothing",
        "/type1/page.html",
        "/type1/a.txt",
        "/type2/page.html",
        "/type2/a.txt",
        "/type3/",
        "/type4/",
        "/twice/a.txt",
        "/redirect",
        "/nowhere",
        "/if",
        "/if?a=1",
        "/nest/",
        "/nest/a",
        "/nest/b",
        "/page/x",
        "/refused",
        "/silent",
        "/words",
        "/ssi",
        "/inc",
    ];
    compare(&setup, targets.iter().map(|target| get(target)).collect());
}

#[test]
fn fields_of_upstream_servers() {
    let server = r#"
        location /up/ { alias @ROOT@/; charset iso-8859-1; add_header X-Up 1; add_header X-Up 2; add_header Cache-Control a;
            add_header cache-control b; add_header Set-Cookie a; add_header set-cookie b; add_header Refresh 1;
            add_header X-Many 1; add_header X-Many 2; add_header WWW-Authenticate zz; add_header Content-Language de;
            add_header Vary Up; add_header Link L; add_header Expires e; add_header Content-Encoding ce; }
        location /p1/ { proxy_pass http://127.0.0.1:@PORT@/up/; more_set_headers "X-Up: own" "Server: own" "Cache-Control: own"
            "Set-Cookie: own" "X-New: n" "Last-Modified: lm" "ETag: \"e\"" "Vary: own" "Content-Type: own/own"; }
        location /p2/ { proxy_pass http://127.0.0.1:@PORT@/up/; more_clear_headers X-Up Server Set-Cookie
            Last-Modified ETag Content-Type Vary Content-Encoding Link Expires WWW-Authenticate Refresh Accept-Ranges; }
        location /p3/ { proxy_pass http://127.0.0.1:@PORT@/up/; proxy_pass_header Server; more_clear_headers "S*"; }
        location /p4/ { proxy_pass http://127.0.0.1:@PORT@/up/; proxy_pass_header Server;
            more_set_headers "Server: own" "Accept-Ranges: none" "Content-Language: xx" "X-many: 9"; }
        location /p5/ { proxy_pass http://127.0.0.1:@PORT@/up/; charset utf-8; override_charset on;
            more_set_headers "Content-Type: text/plain"; }
        location /p6/ { proxy_pass http://127.0.0.1:@PORT@/up/; more_clear_headers "X-*" "ET*" "La*"; }
        location /p7/ { proxy_pass http://127.0.0.1:@PORT@/up/; more_clear_headers Content-Length; }"#;
    let Some(setup) = setup(MODULE, &site(), "types { text/html html; text/plain txt; }", server) else { return };
    let mut cases = Vec::new();
    for number in 1..=7 {
        for path in ["a.txt", "page.html", "nothing"] {
            cases.push(get(&format!("/p{number}/{path}")));
        }
    }
    compare(&setup, cases);
}

#[test]
fn fields_of_requests() {
    let server = r#"
        set $a here; set $show /show;
        location /show { return 200 "$request_method $request_uri|H:$http_host|F:$http_foo|X:$http_x_a|$http_x_b|C:$http_cookie|T:$content_type|UA:$http_user_agent|A:$http_authorization|R:$http_referer|AE:$http_accept_encoding|XF:$http_x_forwarded_for"; }
        proxy_set_header Host $http_host; proxy_http_version 1.1;
        location /1 { more_set_input_headers "Host: Foo.Bar:99" "Foo: $a" "User-Agent: new"; proxy_pass http://127.0.0.1:@PORT@/show;
                      add_header Got "$host|$http_host|$http_user_agent|$server_name|$http_foo"; }
        location /2 { more_clear_input_headers "X-*" Cookie Accept-Encoding Referer Authorization;
                      proxy_pass http://127.0.0.1:@PORT@/show; add_header Got "$host|$remote_user|$cookie_a"; }
        location /3 { more_set_input_headers -r "Foo: r"; more_set_input_headers -t "text/plain" "X-A: t";
                      more_set_input_headers -t "text/plain x/y" -r "X-B: t"; proxy_pass http://127.0.0.1:@PORT@/show; }
        location /4 { more_set_input_headers "Content-Type: a/b"; proxy_pass http://127.0.0.1:@PORT@/show; }
        location /5 { more_clear_input_headers Content-Type Foo; proxy_pass http://127.0.0.1:@PORT@/show; }
        location /6 { more_set_input_headers "Cookie: a=1; b=2" "Authorization: Basic YTpi" "X-Forwarded-For: 1.2.3.4";
                      proxy_pass http://127.0.0.1:@PORT@/show; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                      add_header Got "$cookie_a$cookie_b|$remote_user|$http_connection"; }
        location /7 { more_set_input_headers "Range: bytes=0-0" "If-Modified-Since: x"; alias @ROOT@/; }
        location /8 { more_clear_input_headers Range If-Modified-Since If-None-Match; alias @ROOT@/; }
        location /b { set $q $http_foo; more_set_input_headers "Foo: 1"; proxy_pass http://127.0.0.1:@PORT@/show?$q; }
        location /c { more_set_input_headers "Foo: outer" "X-A: 1";
                      location /c/d { more_set_input_headers "Foo: $arg_i+inner"; proxy_pass http://127.0.0.1:@PORT@/show; }
                      if ($arg_i) { more_clear_input_headers X-A; proxy_pass http://127.0.0.1:@PORT@$show; }
                      proxy_pass http://127.0.0.1:@PORT@/show; }
        location /e { more_set_input_headers "Foo: e"; rewrite ^/e /f last; }
        location /f { proxy_pass http://127.0.0.1:@PORT@/show; add_header Got $request_length; }
        location /g { more_set_input_headers "X-*: star" "Foo:"; proxy_pass http://127.0.0.1:@PORT@/show; }"#;
    let Some(setup) = setup(MODULE, &site(), "", server) else { return };
    let mut cases = Vec::new();
    for target in [
        "/show", "/1", "/2", "/3", "/4", "/5", "/6", "/7a.txt", "/8a.txt", "/b", "/c", "/c/d?i=1", "/c?i=1", "/e",
        "/f", "/g",
    ] {
        let plain = || request("POST", target).field("Content-Length: 3").body("abc");
        cases.push(get(target));
        cases.push(plain().field("Content-Type: text/plain"));
        cases.push(plain().field("Content-Type: text/plain;charset=x"));
        let mut full = plain();
        for field in [
            "Foo: orig",
            "X-A: a1",
            "x-b: b",
            "Cookie: a=9",
            "User-Agent: ua",
            "Authorization: Basic eDp5",
            "Referer: ref",
            "Accept-Encoding: gzip",
            "X-Forwarded-For: 9.9.9.9",
            "Content-Type: text/PLAIN",
            "Range: bytes=0-1",
            "If-Modified-Since: Thu, 26 Nov 2099 10:28:31 GMT",
        ] {
            full = full.field(field);
        }
        cases.push(full);
        if matches!(target, "/c" | "/c/d?i=1") {
            let twice = ["Foo: 1", "X-A: 1", "foo: 2", "x-a: 2"];
            cases.push(twice.iter().fold(get(target), |case, field| case.field(field)));
        }
    }
    // What follows on the connection is not touched by what is put into a head.
    let pipelined = "POST /1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET /g HTTP/1.1\r\nHost: localhost\r\n\r\n\
                     POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /6 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    cases.push(raw(pipelined).responses(4));
    compare(&setup, cases);
}

#[test]
fn lines_that_are_refused() {
    taken_alike(
        MODULE,
        &[
            "more_set_headers;",
            "more_set_headers -s;",
            "more_set_headers -s 200;",
            "more_set_headers -s abc 'A: b';",
            "more_set_headers -s 2xx 'A: b';",
            "more_set_headers -x 'A: b';",
            "more_set_headers '';",
            "more_set_headers 'A*: b';",
            "more_set_headers -s 1000 'A: b';",
            "more_set_headers -t;",
            "more_set_headers -r 'A: b';",
            "more_set_input_headers -s 200 'A: b';",
            "more_clear_headers 'A: b';",
            "more_clear_headers '*';",
            "more_clear_input_headers -r A;",
            "more_set_input_headers;",
            "if ($http_a) { more_set_headers A; }",
            "more_set_headers 'A: $nope';",
            "more_set_headers ': x';",
            "more_set_input_headers 'A*: b';",
            "more_set_headers -s '200 -1' 'A: b';",
        ],
    );
}
