//! What `proxy_pass` asks for: with and without a URI, with variables, after rewrites; and where a location without its slash
//! leads.

use crate::harness::{get, raw, request};
use crate::t13_proxy::proxied::{Proxied, compare_proxied, passed};

fn all(targets: &[&str]) -> Vec<Proxied> {
    targets.iter().map(|target| passed(get(target))).collect()
}

#[test]
fn a_uri_takes_the_place_of_the_location() {
    let lines = "
        location /a/ { proxy_pass http://@UP@/b/; }
        location /root/ { proxy_pass http://@UP@/; }
        location /noslash { proxy_pass http://@UP@/b; }
        location /addslash { proxy_pass http://@UP@/b/; }
        location = /e { proxy_pass http://@UP@/exact; }
        location /q { proxy_pass http://@UP@/b?x=1; }
        location /i/ { proxy_pass http://@UP@/b/; if ($arg_x) { set $a 1; } }
        location /lo/ { proxy_pass http://@UP@/b/; limit_except GET { allow all; } }
        location ^~ /caret/ { proxy_pass http://@UP@/c%20d/; }
        location /outer/ { proxy_pass http://@UP@/o/; location /outer/inner/ { proxy_pass http://@UP@/i/; } }
        location \"/sp ace/\" { proxy_pass http://@UP@/s/; }
        location / { return 404; }
    ";
    let mut cases = all(&[
        "/a/c",
        "/a/c%20d",
        "/a/c%2Fd",
        "/a/%41",
        "/a/c?x=y",
        "/a/c?",
        "/a/c?x=%20y&z=%",
        "/a/%C3%A4%3F%23%25",
        "/a/../a//x",
        "/a/./x/../y",
        "/a//x///y",
        "/a/x+y;z,w@:&=$!*()[]{}|\\^`\"<>~'",
        "/a/%7f%01",
        "/a/%5B%5D%7C",
        "/a/x#y?z",
        "/a/x?y#z",
        "/a/",
        "/a/?x",
        "/root/x/y%20z",
        "/root/",
        "/noslash",
        "/noslash/y",
        "/noslashX/y",
        "/addslash",
        "/addslash/y",
        "/addslashX",
        "/e",
        "/e?z",
        "/q",
        "/qq?z=1",
        "/i/y%20y",
        "/i/y%20y?x=1",
        "/lo/z%20z",
        "/caret/x%20y",
        "/outer/x",
        "/outer/inner/y",
        "/outer/inner",
        "/sp%20ace/x%20y",
    ]);
    cases.push(passed(request("POST", "/lo/z").field("Content-Length: 1").body("x")));
    cases.push(passed(raw("GET http://h/a/x?y HTTP/1.1\r\nHost: h\r\n\r\n")));
    compare_proxied("", lines, cases);
}

#[test]
fn without_a_uri_it_goes_on_as_it_came() {
    let lines = "
        location /n/ { proxy_pass http://@UP@; }
        location ~ ^/x/(.*)$ { proxy_pass http://@UP@; }
        location /named/ { error_page 404 = @n; return 404; }
        location @n { proxy_pass http://@UP@; }
        location /try/ { try_files $uri @n; }
        location /iff/ { if ($arg_x) { proxy_pass http://@UP@; } return 200 no; }
        location /le/ { limit_except POST { proxy_pass http://@UP@; } return 200 no; }
    ";
    let mut cases = all(&[
        "/n/c%20d?x",
        "/n/../n//x",
        "/n/%41%2f",
        "/n//x/./y",
        "/n/#x",
        "/n/x?",
        "/n/x?a=b?c",
        "/x/a%20b",
        "/x/a%20b?c=%41",
        "/named/x%20?z",
        "/try/not%20there?a",
        "/iff/a%20b?x=1",
        "/iff/a%20b",
        "/le/a%20b",
    ]);
    cases.push(passed(raw("GET http://h/n/x?y HTTP/1.1\r\nHost: h\r\n\r\n")));
    cases.push(passed(request("POST", "/le/a").field("Content-Length: 1").body("x")));
    compare_proxied("", lines, cases);
}

#[test]
fn rewritten() {
    let lines = "
        location /r/ { rewrite ^/r/(.*) /zz/$1 break; proxy_pass http://@UP@/b/; }
        location /r2/ { rewrite ^/r2/(.*) /zz/$1?k=2 break; proxy_pass http://@UP@; }
        location /r3/ { rewrite ^/r3/(.*) \"/z z/$1\" break; proxy_pass http://@UP@; }
        location /r4/ { rewrite ^/r4/(.*) /r5/$1; }
        location /r5/ { proxy_pass http://@UP@/five/; }
        location /r6/ { rewrite ^/r6/(.*) /r7/$1 last; }
        location /r7/ { proxy_pass http://@UP@; }
        location /args/ { set $args x=2; proxy_pass http://@UP@; }
        location /args2/ { set $args x=2; proxy_pass http://@UP@/b/; }
        location /noargs/ { rewrite ^/noargs/(.*) /n/$1? break; proxy_pass http://@UP@; }
        location /ep/ { error_page 404 /r7/page?x=1; return 404; }
        location /keep/ { rewrite ^/nothing /x break; proxy_pass http://@UP@; }
    ";
    compare_proxied(
        "",
        lines,
        all(&[
            "/r/a%20b?q",
            "/r/?q",
            "/r/x",
            "/r/%7C%3F",
            "/r2/x%20y?q=1",
            "/r2/x",
            "/r3/x?q",
            "/r4/x%20y?q",
            "/r6/x%20y?q",
            "/r6/x+y",
            "/args/a%20b?q",
            "/args2/a%20b?q",
            "/noargs/a?q",
            "/ep/x?q",
            "/keep/a%20b//c?q",
        ]),
    );
}

#[test]
fn with_variables() {
    let lines = "
        set $u http://@UP@; set $host_only 127.0.0.1; set $e '';
        location /v/ { proxy_pass $u; }
        location /w/ { proxy_pass $u/z$uri; }
        location /w2/ { proxy_pass $u/; }
        location /w3/ { proxy_pass http://$host_only:@UPPORT@/z?a$is_args$args; }
        location /w4/ { proxy_pass http://$host_only:@UPPORT@?a; }
        location /w5/ { rewrite ^/w5/(.*) /zz/$1 break; proxy_pass $u; }
        location /w6/ { rewrite ^/w6/(.*) /zz/$1 break; proxy_pass $u/fixed; }
        location /w7/ { proxy_pass $u$request_uri; }
        location /w8/ { proxy_pass $u$uri$is_args$args; }
        location /w9/ { proxy_pass http://$host_only$e:@UPPORT@; }
        location ~ ^/y/(.*)$ { proxy_pass http://@UP@/$1; }
        location ~ ^/nm/(?<rest>.*)$ { proxy_pass http://@UP@/n/$rest$is_args$args; }
        location /bad { proxy_pass $host; }
        location /bad2 { proxy_pass $e; }
        location /iv/ { if ($arg_x) { proxy_pass $u/iv; } return 200 no; }
    ";
    let mut cases = all(&[
        "/v/a%20b?q",
        "/v//a/../v",
        "/w/ab?q",
        "/w2/x?y",
        "/w3/x?y",
        "/w3/x",
        "/w4/x?y",
        "/w5/a%20b?q",
        "/w6/a%20b?q",
        "/w7/a%20b//c?q",
        "/w8/ab?q",
        "/w9/a%20b?q",
        "/y/ab?c",
        "/nm/a/b?c",
        "/bad",
        "/bad2",
        "/iv/y?x=1",
        "/iv/y",
    ]);
    let why = "spaces and control characters cannot stand in a request line";
    cases.push(passed(get("/w/a%20b")).asks_otherwise(why));
    cases.push(passed(get("/y/a%20b")).asks_otherwise(why));
    compare_proxied("", lines, cases);
}

#[test]
fn a_location_without_its_slash() {
    let lines = "
        location /ar/ { proxy_pass http://@UP@; }
        location /ar { return 200 ar; }
        location /br/ { proxy_pass http://@UP@; }
        location ~ /br { return 200 regex; }
        location \"/sp ace/\" { proxy_pass http://@UP@; }
        location ^~ /cr/ { proxy_pass http://@UP@; }
        location /out/ { location /out/in/ { proxy_pass http://@UP@; } return 200 out; }
        location /dr/ { if ($arg_x) { proxy_pass http://@UP@; } }
        location /er/ { proxy_pass http://@UP@; deny all; }
        location /fr/ { proxy_pass http://@UP@/x/; location /fr/y { } location /fr/z { proxy_pass http://@UP@; } }
        location /gr/ { proxy_pass http://@UP@; }
        location = /gr { return 200 exact; }
        location /hr/ { proxy_pass http://$host; }
        location /ir/ { limit_except POST { proxy_pass http://@UP@; } }
    ";
    let mut cases = all(&[
        "/ar",
        "/ar?x=y",
        "/br",
        "/br?a=b",
        "/sp%20ace",
        "/sp%20ace?a%20b",
        "/cr",
        "/out/in",
        "/out",
        "/dr",
        "/dr?x=1",
        "/er",
        "/fr",
        "/fr/y",
        "/fr/z",
        "/fr/w",
        "/gr",
        "/hr",
        "/ir",
    ]);
    cases.push(passed(request("POST", "/cr").field("Content-Length: 1").body("x")));
    compare_proxied("", lines, cases);
}

#[test]
fn pages_of_requests_that_were_not_understood() {
    let lines = "error_page 400 405 414 505 /page; location = /page { proxy_pass http://@UP@; }";
    // Not HEAD: nginx asks without a method.
    let cases = ["GET / HTTP/2.0", "GET foo HTTP/1.1"];
    compare_proxied("", lines, cases.map(|line| passed(raw(format!("{line}\r\nHost: h\r\n\r\n")))).into());
}
