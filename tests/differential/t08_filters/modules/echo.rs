//! `echo` and its relatives.

use super::{setup, taken_alike};
use crate::harness::{compare, get, head, raw, request};
use crate::site::site;

const MODULE: &[&str] = &["ngx_http_echo_module"];

#[test]
fn what_is_sent() {
    let server = r#"
        location /a { echo hello; echo world "a b" $arg_x; }
        location /b { echo -n "hello, "; echo world; echo; echo -n; echo -- -n x; echo -n -- -n; set $o -n; echo $o q; echo ""; }
        location /c { echo_duplicate 3 abc; echo_duplicate 0 x; echo_duplicate 1_0 "$arg_x"; echo; echo_duplicate 20_000 0123456789; }
        location /d { echo_status 404; echo nf; }
        location /d2 { echo_status 204; echo nf; }
        location /e { echo_sleep 0.01; echo resumed; echo_blocking_sleep 0.01; echo $arg_x; }
        location /h { echo_foreach_split ',' $arg_list; echo "item: $echo_it"; echo_end; echo "after [$echo_it]";
                      echo_foreach_split -- '-a-' 'cat-a-dog-a--a-mouse-a-'; echo "[$echo_it]"; echo_end; }
        location /j { echo_read_request_body; echo "[$request_body] [$echo_request_body]"; echo_request_body; }
        location /j2 { echo "[$request_body][$echo_request_body]"; echo_request_body; }
        location /j3 { echo a; echo_read_request_body; echo $request_body; }
        location /k { echo_duplicate 1 $echo_client_request_headers; echo X; }
        location /n { echo "status [$echo_response_status]"; echo_reset_timer; echo "status [$echo_response_status]"; }
        location /o { set $a 32; if ($arg_q) { echo "if $a"; } echo "no if $a"; }
        location /p { if ($arg_q) { set $b 1; } echo "p $b"; }
        location /s { echo_flush; echo a; echo_flush; echo_sleep 0.01; echo b; }
        location /t { default_type text/html; echo x; add_header A "$echo_response_status"; }
        location /u { echo "x"; proxy_pass http://127.0.0.1:@PORT@/a; }
        location /v { proxy_pass http://127.0.0.1:@PORT@/a; echo x; }
        location /outer { echo outer; location /outer/inner { root @ROOT@; } }
        location /w1 { echo_sleep 0.01; }
        location /w3 { echo_status 201; root @ROOT@; }
        location /w4 { echo_reset_timer; }
        location /w5 { echo_foreach_split , ""; echo x; echo_end; }
        location /x.html { echo typed; }
        location /limited { limit_except GET { deny all; } echo yes; }"#;
    let Some(setup) = setup(MODULE, &site(), "types { text/html html; } default_type text/plain;", server) else {
        return;
    };
    let mut cases: Vec<_> = [
        "/a?x=1",
        "/b",
        "/c?x=ab",
        "/d",
        "/d2",
        "/e?x=y",
        "/h?list=cat,dog,,mouse",
        "/h?list=",
        "/h",
        "/j",
        "/j2",
        "/k",
        "/n",
        "/o",
        "/o?q=1",
        "/p?q=1",
        "/s",
        "/t",
        "/u",
        "/v",
        "/outer",
        "/outer/inner",
        "/w1",
        "/w3",
        "/w4",
        "/w5",
        "/x.html",
        "/limited",
    ]
    .iter()
    .map(|target| get(target))
    .collect();
    for target in ["/j", "/j2", "/j3", "/a", "/limited"] {
        cases.push(request("POST", target).field("Content-Length: 5").body("hello"));
    }
    let long = "x".repeat(100_000);
    cases.push(request("POST", "/j").field("Content-Length: 100000").body(&long));
    cases.push(get("/k").field("X-Y: z").field("x-y: q"));
    cases.extend([head("/a"), head("/d"), head("/j")]);
    for target in ["/a", "/b", "/s"] {
        cases.push(raw(format!("GET {target} HTTP/1.0\r\n\r\n")));
        cases.push(raw(format!("GET {target} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")));
    }
    compare(&setup, cases);
}

#[test]
fn subrequests() {
    let server = r#"
        location /f { echo_location /sub; echo main; echo_location /sub "a=b&c=$arg_x"; }
        location /fa { echo_location_async /sub; echo main; echo_location_async /sub a=2; echo end; }
        location /sub { echo "sub $arg_a $arg_c $uri $echo_request_uri $request_method $echo_request_method $echo_client_request_method"; }
        location /slow { echo_sleep 0.02; echo slow; }
        location /order { echo_location_async /slow; echo_location_async /sub; echo x; echo_location /slow; echo y; }
        location /g { echo "main pre: $echo_incr"; echo_location_async /gs; echo_location_async /gs; echo "main post: $echo_incr"; }
        location /gs { echo "sub: $echo_incr"; }
        location /m { echo_subrequest POST /ms -q 'foo=Foo' -b 'hi'; echo_subrequest PUT /ms; echo_subrequest_async DELETE /ms -b "x$arg_x";
                      echo_subrequest GET /ms; echo_subrequest BLAH /ms; }
        location /m3 { echo_subrequest POST /ms -f @ROOT@/a.txt; }
        location /ms { echo "q:$query_string m:$echo_request_method b:$echo_request_body l:$http_content_length c:$content_length r:$request_method rb:$request_body"; }
        location /mp { echo_subrequest POST /pr -b 'hello, world'; echo_subrequest GET /pr; }
        location /pr { proxy_pass http://127.0.0.1:@PORT@/proxied; }
        location /proxied { echo "method $echo_request_method."; echo_read_request_body; echo "body: $echo_request_body. $content_length"; }
        location /q { echo_location /nothing; echo after; }
        location /q2 { echo_location_async /st; echo after; echo $echo_response_status; }
        location /st { echo_status 500; echo st; }
        location /r { echo_location /a.txt; echo after; echo_location_async /a.txt; }
        location /y { echo_location /sub?x=1; echo_location "/sub 2%20x"; echo z; }
        location /twice { echo_foreach_split '&' $query_string; echo "/* $echo_it */"; echo_location_async $echo_it; echo; echo_end; }
        location /w2 { echo_location_async /sub; }"#;
    let Some(setup) = setup(MODULE, &site(), "types { text/html html; } default_type text/plain;", server) else {
        return;
    };
    let mut cases: Vec<_> = [
        "/f?x=3",
        "/fa",
        "/order",
        "/g",
        "/m?x=w",
        "/m3",
        "/mp",
        "/q",
        "/q2",
        "/r",
        "/y",
        "/twice?/a.txt&/sub&/empty.txt",
        "/w2",
    ]
    .iter()
    .map(|target| get(target))
    .collect();
    cases.push(request("POST", "/m").field("Content-Length: 5").body("hello"));
    cases.push(request("PUT", "/ms").field("Content-Length: 5").body("hello"));
    cases.push(request("POST", "/f").field("Content-Length: 5").body("hello"));
    compare(&setup, cases);
}

#[test]
fn going_on_elsewhere() {
    let server = r#"
        location /i { echo_exec /ii a=$arg_x; }
        location /ii { echo "ii $args $uri $request_uri $echo_request_uri $echo_cacheable_request_uri"; }
        location /i2 { echo_exec /ii?weight=5; }
        location /i3 { echo_exec @n; }
        location @n { echo "named $uri $echo_request_uri"; }
        location /i4 { echo_exec /ii?w=5 z=6; }
        location /i6 { echo_exec @nope; }
        location /i8 { echo_exec @n q=1; }
        location /i9 { echo_sleep 0.01; echo_exec /ii; }
        location /loop { echo_exec /loop; }"#;
    let Some(setup) = setup(MODULE, &site(), "", server) else { return };
    let targets = ["/i?x=7", "/i2", "/i3", "/i4", "/i6", "/i8?a=b", "/i9", "/loop"];
    compare(&setup, targets.iter().map(|target| get(target)).collect());
}

#[test]
fn lines_around_other_bodies() {
    let server = r#"
        location /a { echo hello; echo world; }
        location /l { echo_before_body before $arg_x; echo_before_body -n b2; echo mid; echo_after_body after; echo_after_body -n a2;
                      echo_after_body -- -n; }
        location /l2/ { echo_before_body B; echo_after_body A; alias @ROOT@/; }
        location /l3 { echo_before_body B; echo_after_body A; return 200 x; }
        location /l4 { echo_before_body B; echo_after_body A; return 404; }
        location /l5 { echo_before_body B; echo_after_body A; proxy_pass http://127.0.0.1:@PORT@/a; }
        location /l6/ { echo_before_body B; echo_after_body A; proxy_pass http://127.0.0.1:@PORT@/; }
        location /l7 { echo_before_body B; return 204; }
        location /l8 { echo_before_body B; return 301 /x; }
        location /x { gzip on; gzip_min_length 1; gzip_types *; echo_before_body b; echo hello; echo_after_body a; }
        location /z { echo_before_body "[$echo_response_status]"; echo_location /l; echo_after_body z; }
        location /nest { echo_before_body N; location /nest/a { return 200 a; } location /nest/b { echo_before_body M; return 200 b; } }
        location /if { echo_before_body N; if ($arg_q) { return 200 q; } return 200 r; }
        location /sub { sub_filter l L; sub_filter_once off; sub_filter_types *; echo_before_body lll; echo hello; }"#;
    let Some(setup) = setup(MODULE, &site(), "types { text/html html; } default_type text/plain;", server) else {
        return;
    };
    let mut cases: Vec<_> = [
        "/l?x=v",
        "/l2/a.txt",
        "/l2/nope",
        "/l2/empty.txt",
        "/l3",
        "/l4",
        "/l5",
        "/l6/a.txt",
        "/l7",
        "/l8",
        "/x",
        "/z",
        "/nest/a",
        "/nest/b",
        "/if",
        "/if?q=1",
        "/sub",
    ]
    .iter()
    .map(|target| get(target))
    .collect();
    cases.push(get("/x").field("Accept-Encoding: gzip"));
    cases.push(get("/l2/a.txt").field("Range: bytes=1-2"));
    cases.push(get("/l2/a.txt").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    cases.extend([head("/l2/a.txt"), head("/l3"), raw("GET /l3 HTTP/1.0\r\n\r\n")]);
    compare(&setup, cases);
}

#[test]
fn lines_that_are_refused() {
    taken_alike(
        MODULE,
        &[
            "location / { echo; }",
            "echo x;",
            "location / { echo $nope; }",
            "location / { echo_duplicate 3; }",
            "location / { echo_sleep; }",
            "location / { echo_flush x; }",
            "location / { echo_location; }",
            "location / { echo_location /a b c; }",
            "location / { echo_exec; }",
            "location / { echo_status; }",
            "location / { echo_status x; }",
            "location / { echo_end x; }",
            "location / { if ($http_a) { echo x; echo_before_body x; } }",
            "echo_before_body x;",
        ],
    );
}
