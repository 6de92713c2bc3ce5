//! `auth_request`: a subrequest decides; `mirror`: a subrequest that decides nothing.

use crate::harness::{compare, get, head, raw, request};
use crate::site::site;
use crate::t02_configuration::checks::same_verdicts;
use freerun_testkit::Setup;

#[test]
fn each_status() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for status in [
        150, 200, 201, 202, 204, 206, 226, 299, 300, 301, 302, 304, 307, 400, 401, 402, 403, 404, 405, 407, 408, 410,
        413, 429, 444, 494, 499, 500, 502, 503, 504, 599, 600, 999,
    ] {
        lines += &format!("location = /answer{status} {{ return {status}; }}\n");
        lines += &format!("location = /{status} {{ auth_request /answer{status}; alias @ROOT@/a.txt; }}\n");
        cases.push(get(&format!("/{status}")));
        lines += &format!("location = /texted{status} {{ return {status} \"text of {status}\"; }}\n");
        lines += &format!("location = /text{status} {{ auth_request /texted{status}; alias @ROOT@/a.txt; }}\n");
        cases.push(get(&format!("/text{status}")));
    }
    cases.extend([
        head("/200"),
        head("/401"),
        head("/403"),
        head("/500"),
        raw("GET /403 HTTP/1.0\r\n\r\n"),
        raw("GET /200\r\n"),
        request("POST", "/200").field("Content-Length: 3").body("abc"),
        request("POST", "/403").field("Content-Length: 3").body("abc"),
        request("POST", "/403").field("Transfer-Encoding: chunked").body("3\r\nabc\r\n0\r\n\r\n"),
        get("/200").field("Range: bytes=1-2"),
        get("/200").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
    ]);
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn what_is_asked() {
    let site = site();
    let lines = "
        location = /ok { return 204; }
        location = /no { return 403; }
        location = /401 { return 401; }
        location = /500 { return 500; }
        location = /file { auth_request /page.html; alias @ROOT@/a.txt; }
        location = /missing { auth_request /nofile; alias @ROOT@/a.txt; }
        location = /folder { auth_request /dir; alias @ROOT@/a.txt; }
        location = /index { auth_request /dir/; alias @ROOT@/a.txt; }
        location = /args { auth_request /ok?x=1; alias @ROOT@/a.txt; }
        location = /var { auth_request $arg_u; alias @ROOT@/a.txt; }
        location = /empty { auth_request \"\"; alias @ROOT@/a.txt; }
        location = /named { auth_request @ok; alias @ROOT@/a.txt; }
        location @ok { return 204; }
        location = /rewritten { auth_request /no; return 200 \"first\"; }
        location = /self { auth_request /self; alias @ROOT@/a.txt; }
        location = /nested { auth_request /nested2; alias @ROOT@/a.txt; }
        location = /nested2 { auth_request /no; alias @ROOT@/a.txt; }
        location = /denied { deny all; auth_request /500; alias @ROOT@/a.txt; }
        location = /inner_deny { auth_request /inner; alias @ROOT@/a.txt; }
        location = /inner { deny all; alias @ROOT@/a.txt; }
        location = /page { auth_request /401; error_page 401 = @login; alias @ROOT@/a.txt; }
        location @login { return 302 /login?u=$request_uri; }
        location = /page2 { auth_request /no2; alias @ROOT@/a.txt; }
        location = /no2 { error_page 403 =200 /page.html; return 403; }
        location = /page3 { auth_request /no3; alias @ROOT@/a.txt; }
        location = /no3 { error_page 403 =401 /page.html; return 403; }
        location = /page4 { auth_request /no; error_page 403 /a.txt; alias @ROOT@/a.txt; }
        location = /header { auth_request /check; alias @ROOT@/a.txt; }
        location = /check { if ($http_foo = yes) { return 204; } return 403; }
        location = /method { auth_request /check_method; error_page 405 =200 /posted; alias @ROOT@/a.txt; }
        location = /check_method { if ($request_method = POST) { return 204; } return 403; }
        location = /posted { return 200 posted; }
        location /outer { auth_request /no;
            location /outer/off { auth_request off; alias @ROOT@/a.txt; }
            location /outer/x { alias @ROOT@/a.txt; } }
        location = /any/allow { satisfy any; allow all; auth_request /401; alias @ROOT@/a.txt; }
        location = /any/allow500 { satisfy any; allow all; auth_request /500; alias @ROOT@/a.txt; }
        location = /any/deny { satisfy any; deny all; auth_request /ok; alias @ROOT@/a.txt; }
        location = /any/deny401 { satisfy any; deny all; auth_request /401; alias @ROOT@/a.txt; }
        location = /any/deny403 { satisfy any; deny all; auth_request /no; alias @ROOT@/a.txt; }
        location = /any/deny500 { satisfy any; deny all; auth_request /500; alias @ROOT@/a.txt; }
        location = /basic/no { auth_basic x; auth_basic_user_file @ROOT@/users; auth_request /no; alias @ROOT@/a.txt; }
        location = /basic/any { satisfy any; auth_basic x; auth_basic_user_file @ROOT@/users; auth_request /no;
            alias @ROOT@/a.txt; }
        location = /basic/any401 { satisfy any; auth_basic x; auth_basic_user_file @ROOT@/users; auth_request /401;
            alias @ROOT@/a.txt; }
        location = /basic/anyok { satisfy any; auth_basic x; auth_basic_user_file @ROOT@/users; auth_request /ok;
            alias @ROOT@/a.txt; }
        location = /basic/any500 { satisfy any; auth_basic x; auth_basic_user_file @ROOT@/users; auth_request /500;
            alias @ROOT@/a.txt; }
    ";
    site.file("users", "u:{PLAIN}p\n");
    let user = "Authorization: Basic dTpw";
    let mut cases: Vec<_> = [
        "/file",
        "/missing",
        "/folder",
        "/index",
        "/args",
        "/var?u=/ok",
        "/empty",
        "/named",
        "/rewritten",
        "/self",
        "/nested",
        "/denied",
        "/inner_deny",
        "/page?x",
        "/page2",
        "/page3",
        "/page4",
        "/header",
        "/outer/x",
        "/outer/off",
        "/any/allow",
        "/any/allow500",
        "/any/deny",
        "/any/deny401",
        "/any/deny403",
        "/any/deny500",
        "/basic/no",
        "/basic/any",
        "/basic/any401",
        "/basic/anyok",
        "/basic/any500",
    ]
    .into_iter()
    .map(get)
    .collect();
    cases.extend([
        get("/header").field("Foo: yes"),
        request("POST", "/method").field("Content-Length: 3").body("abc"),
        request("PUT", "/method").field("Content-Length: 3").body("abc"),
        get("/basic/no").field(user),
        get("/basic/any").field(user),
        get("/basic/any401").field(user),
        get("/basic/any500").field(user),
    ]);
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn variables() {
    let site = site();
    let lines = "
        location = /ok { add_header X-U user always; return 200 \"yes\"; }
        location = /no { add_header X-U user always; return 403 \"no\"; }
        location = /sees { auth_request /ok; alias @ROOT@/a.txt;
            auth_request_set $v \"$status|$uri|$request_uri|$args|$sent_http_content_type|$sent_http_content_length|$http_foo\";
            add_header X-V $v always; }
        location = /refused { auth_request /no; auth_request_set $v \"$status|$uri\"; add_header X-V $v always; }
        location = /inner { auth_request /inside; auth_request_set $w \"$inner+$outer\"; set $outer here;
            add_header X-V \"$w|$inner|$outer\" always; alias @ROOT@/a.txt; }
        location = /inside { set $inner there; set $outer \"$outer+there\"; return 204; }
        location = /twice { auth_request /ok; auth_request_set $w 1; auth_request_set $w \"$w+2\";
            add_header X-V $w always; alias @ROOT@/a.txt; }
        location = /unasked { auth_request_set $w 1; add_header X-V \"[$w]\" always; alias @ROOT@/a.txt; }
        location = /own { auth_request /ok; auth_request_set $args changed; add_header X-V \"$args\" always;
            alias @ROOT@/a.txt; }
        location /outer { auth_request /ok; auth_request_set $o outer; add_header X-V \"$o|$i\" always;
            location /outer/a { alias @ROOT@/a.txt; }
            location /outer/b { auth_request_set $i inner; alias @ROOT@/a.txt; } }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/sees?x=1").field("Foo: bar"),
            head("/sees?x=1"),
            get("/refused"),
            get("/inner"),
            get("/twice"),
            get("/unasked"),
            get("/own?a=b"),
            get("/outer/a"),
            get("/outer/b"),
        ],
    );
}

#[test]
fn mirrors_change_nothing() {
    let site = site();
    let lines = "
        location = /copy { internal; return 200 x; }
        location = /one { mirror /copy; alias @ROOT@/a.txt; }
        location = /several { mirror /copy; mirror /nothing; mirror /444; mirror /500; alias @ROOT@/a.txt; }
        location = /444 { return 444; }
        location = /500 { return 500; }
        location = /self { mirror /self; alias @ROOT@/a.txt; }
        location = /denied { mirror /copy; deny all; alias @ROOT@/a.txt; }
        location = /added { mirror /copy; default_type text/html; types {} add_after_body /one; alias @ROOT@/a.txt; }
        location = /posted { mirror /copy; mirror_request_body off; error_page 405 =200 /text; alias @ROOT@/a.txt; }
        location = /text { return 200 text; }
        location = /big { mirror /big.bin; alias @ROOT@/big.bin; }
        location = /none { mirror /big.bin; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/one"),
            head("/one"),
            get("/several")
                .stays_open("a mirrored request that is answered by closing has no say about the connection"),
            get("/self"),
            get("/denied"),
            get("/added"),
            get("/big"),
            get("/none"),
            request("POST", "/posted").field("Content-Length: 3").body("abc"),
            raw("GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /one HTTP/1.1\r\nHost: a\r\n\r\n").responses(2),
            raw("GET /one HTTP/1.0\r\n\r\n"),
        ],
    );
}

/// Files are made without `$slice_range`: nothing is sliced.
#[test]
fn slices_do_not_concern_files() {
    let site = site();
    let lines = "
        location = /unused { slice 4; alias @ROOT@/a.txt; }
        location = /late { slice 4; add_header X \"[$slice_range]\"; alias @ROOT@/a.txt; }
        location = /used { slice 4; set $x $slice_range; add_header X \"[$x]\"; alias @ROOT@/a.txt; }
        location = /off { set $x $slice_range; add_header X \"[$x]\"; alias @ROOT@/a.txt; }
        location = /text { slice 4; return 200 \"$slice_range\"; }
        location = /part { slice 4; return 206 \"part\"; }
    ";
    let mut cases = vec![get("/unused"), get("/late"), get("/off"), get("/text"), get("/part")];
    for range in ["bytes=0-1", "bytes=5-6", "bytes=9-", "bytes=-2", "bytes=1-2,9-10", "bytes=99-"] {
        cases.push(get("/used").field(&format!("Range: {range}")));
        cases.push(get("/text").field(&format!("Range: {range}")));
    }
    cases.push(get("/text").field("Range: bytes=5-6").field("If-Range: \"x\""));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn directives_that_are_wrong() {
    same_verdicts(&[
        "addition_types;",
        "addition_types text/html;",
        "addition_types a/b a/b;",
        "addition_types * a/b;",
        "addition_types x/Y x/y;",
        "addition_types a/b; addition_types c/d;",
        "add_before_body;",
        "add_before_body /a /b;",
        "add_before_body /a; add_before_body /b;",
        "add_after_body /a; add_after_body /b;",
        "if ($uri) { add_after_body /a; }",
        "ssi;",
        "ssi maybe;",
        "ssi on; ssi off;",
        "ssi_value_length;",
        "ssi_value_length x;",
        "ssi_value_length -1;",
        "ssi_value_length 99999999999999999999;",
        "ssi_min_file_chunk x;",
        "ssi_silent_errors 1;",
        "ssi_last_modified 1;",
        "ssi_types a/b a/b;",
        "location / { if ($uri) { ssi on; } }",
        "if ($uri) { ssi on; }",
        "location / { if ($uri) { ssi_types *; } }",
        "subrequest_output_buffer_size;",
        "subrequest_output_buffer_size 1x;",
        "auth_request;",
        "auth_request /a /b;",
        "auth_request off; auth_request /a;",
        "auth_request_set a b;",
        "auth_request_set $a;",
        "auth_request_set $ b;",
        "auth_request_set $uri x;",
        "auth_request_set $host x;",
        "auth_request_set $http_x x;",
        "auth_request_set $args x;",
        "auth_request_set $a 1; auth_request_set $a 2;",
        "if ($uri) { auth_request /x; }",
        "mirror;",
        "mirror /a /b;",
        "mirror /a; mirror /b;",
        "mirror /a; mirror off;",
        "mirror off; mirror /a;",
        "mirror off; mirror off;",
        "mirror_request_body x;",
        "if ($uri) { mirror /x; }",
        "slice;",
        "slice x;",
        "slice 0;",
        "slice -1;",
        "slice 1g;",
        "slice 1k; slice 1k;",
        "location / { if ($uri) { slice 1m; } }",
    ]);
}
