//! `error_page` in its forms, pages of pages, and where redirects end.

use crate::harness::{Case, compare, get, head, request};
use crate::site::site;
use freerun_testkit::Setup;

fn gets(targets: &[&str]) -> Vec<Case> {
    targets.iter().map(|target| get(target)).collect()
}

/// A location that answers `/c?s=STATUS` with that status.
fn any_status(statuses: &[u16]) -> String {
    let ifs: String = statuses.iter().map(|status| format!("if ($arg_s = {status}) {{ return {status}; }} ")).collect();
    format!("location /c {{ {ifs} return 200 ok; }}")
}

#[test]
fn forms() {
    let site = site();
    let statuses = [
        403, 404, 405, 410, 411, 412, 414, 415, 416, 418, 421, 422, 423, 424, 426, 428, 429, 431, 450, 451, 452, 500,
        503, 504, 507,
    ];
    let lines = "
        error_page 404 /errors/404.html;
        error_page 403 =200 /a.txt;
        error_page 405 = /dst;
        error_page 500 502 504 @fall;
        error_page 410 http://other.example/gone?x=$uri;
        error_page 411 =301 http://other.example/moved;
        error_page 412 =307 /dst;
        error_page 414 =200 @fall;
        error_page 415 = @fall2;
        error_page 416 /dst?y=$args;
        error_page 418 /dst?;
        error_page 421 =404 /dst;
        error_page 422 =302 /dst;
        error_page 423 /nothing;
        error_page 424 =204 /dst;
        error_page 426 =444 /dst;
        error_page 428 https://h/;
        error_page 429 =200 http://h/;
        error_page 450 $scheme://v/;
        error_page 451 $arg_p;
        error_page 452 rel;
        error_page 301 302 /red;
        error_page 503 /never;
        error_page 507 /dst2;
        location /dst { return 200 \"dst $uri $args $status $request_uri $request_method\\n\"; }
        location /dst2 { return 207 \"dst $uri\\n\"; }
        location /red { return 200 \"red $status\\n\"; }
        location @fall { return 200 \"fall $uri $args $status\\n\"; }
        location @fall2 { return 202 \"fall2 $uri $args $status\\n\"; }
        location /redirect { if ($arg_s = 301) { return 301 /zz; } if ($arg_s = 302) { return 302 http://x/; }
            return 303 /x; }
    "
    .to_owned()
        + &any_status(&statuses);
    let mut cases: Vec<Case> = statuses.iter().map(|status| get(&format!("/c?s={status}&a=b"))).collect();
    cases.extend(gets(&[
        "/c?s=451&p=/dst",
        "/c?s=451&p=@fall",
        "/c?s=451&p=http://q/",
        "/c?s=200",
        "/redirect?s=301",
        "/redirect?s=302",
        "/redirect?s=303",
        "/none",
        "/none?b=c",
    ]));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        cases.push(request(method, "/c?s=405").field("Content-Length: 0"));
        cases.push(request(method, "/a.txt").field("Content-Length: 0"));
        cases.push(request(method, "/c?s=500").field("Content-Length: 0"));
    }
    cases.push(head("/c?s=405"));
    cases.push(head("/c?s=404"));
    cases.push(head("/c?s=410"));
    cases.push(get("/a.txt").field("Range: bytes=100-200").differs(
        "nginx sends the page with the ETag of the file, which is not that of the page",
        "HTTP/1.1 416 Requested Range Not Satisfiable",
    ));
    cases.push(get("/a.txt").field("If-Match: \"x\""));
    compare(&Setup::server(&site, &lines), cases);
}

/// nginx's own statuses are no statuses of a page either, unless it is told to send them.
#[test]
fn statuses_that_no_client_sees() {
    let site = site();
    let lines = "
        error_page 494 /dst;
        error_page 495 = /dst;
        error_page 496 =496 /dst;
        error_page 497 @named;
        location /dst { return 200 \"dst $status\n\"; }
        location @named { return 200 \"named $status\n\"; }
        location /none { error_page 494 /nothing; return 494; }
    "
    .to_owned()
        + &any_status(&[494, 495, 496, 497]);
    let long = format!("X: {}", "x".repeat(9000));
    let mut cases = gets(&["/c?s=494", "/c?s=495", "/c?s=496", "/c?s=497", "/none"]);
    cases.push(get("/a.txt").field(&long).field(&long).field(&long).field(&long));
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn pages_of_pages() {
    let site = site();
    let lines = "
        recursive_error_pages on;
        error_page 404 /x1;
        error_page 403 /x2;
        error_page 500 @n;
        error_page 502 /x3;
        location /x1 { return 403; }
        location /x2 { return 500; }
        location @n { return 200 \"n $status $uri\"; }
        location /x3 { return 502; }
        location /l { error_page 404 /l/2; }
        location /m { recursive_error_pages off; error_page 404 /x2; }
        location /o { error_page 404 = /o2; }
        location /o2 { recursive_error_pages off; return 404; }
    ";
    compare(&Setup::server(&site, lines), gets(&["/none", "/x3", "/l", "/m", "/o", "/x1", "/x2"]));
    let lines = "
        error_page 404 /x1;
        error_page 403 /x2;
        location /x1 { return 403; }
        location /x2 { return 200 x2; }
        location /y { error_page 404 = /y2; }
        location /y2 { error_page 404 /x2; recursive_error_pages on; }
        location /z { error_page 404 @z; }
        location @z { error_page 404 /x2; }
        location /z2 { error_page 404 @z2; }
        location @z2 { recursive_error_pages on; error_page 404 /x2; }
        location /w { error_page 404 @w; }
        location @w { try_files /a.txt =404; }
        location /v { error_page 404 = @v; }
        location @v { try_files /nope @w; }
        location /u { error_page 404 = @none; }
        location /t { error_page 404 /int/a; }
        location /int { internal; return 200 \"int $uri $status\"; }
        location /s { error_page 404 =200 /errors/404.html; }
        location /r { error_page 404 = /errors/404.html; }
        location /q { error_page 404 =299 /errors/404.html; }
        location /p { error_page 404 /dir; }
        location /p2 { error_page 404 /dir/; }
        location /n { error_page 404 /red; }
        location /red { return 301 /k; }
        location /n2 { error_page 404 = /red; }
        location /n3 { error_page 404 =200 /red; }
        location /err { error_page 404 =200 /rw; }
        location /rw { rewrite ^ /a.txt last; }
        location /err2 { error_page 404 =200 /rw2; }
        location /rw2 { rewrite ^ /x1 last; }
        location /e3 { error_page 404 /t204; }
        location /t204 { return 204; }
        location /e4 { error_page 404 =200 /t204; }
        location /e5 { error_page 404 = /t500; }
        location /t500 { return 500; }
        location /e6 { error_page 404 /a.txt; }
        location /g { return 301 /k; error_page 301 =200 /a.txt; }
        location /g2 { return 301 /k; error_page 301 = /g3; }
        location /g3 { return 302 /z; }
        location /g4 { return 301 /k; error_page 301 = @named; }
        location @named { return 200 named; }
        location /g5 { return 301 /k; error_page 301 =302 http://other/; }
        location /in { error_page 404 /x2; error_page 405 /x1; location /in/a { } location /in/b { error_page 405 /x2; } }
        location /two { error_page 404 /x2; error_page 404 /x1; }
        location /300 { return 300; error_page 300 /x2; }
        location /304 { return 304; error_page 304 /x2; }
    ";
    let mut cases = gets(&[
        "/none", "/y/", "/z/", "/z2/", "/w/", "/v/", "/u/", "/t/", "/s/", "/r/", "/q/", "/p/", "/p2/", "/n/", "/n2/",
        "/n3/", "/err/", "/err2/", "/e3/", "/e4/", "/e5/", "/g", "/g2", "/g4", "/g5", "/in/x", "/in/a/x", "/in/b/x",
        "/two/x", "/300", "/304", "/int",
    ]);
    cases.push(get("/e6/").field("Range: bytes=0-1"));
    cases.push(get("/e6/").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    cases.push(head("/s/"));
    cases.push(request("POST", "/w/").field("Content-Length: 0"));
    cases.push(request("POST", "/s/").field("Content-Length: 0"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn redirects_inside_the_server_end() {
    let site = site();
    let lines = "
        error_page 500 /e500;
        error_page 404 /e404;
        location /e500 { return 200 e500; }
        location /e404 { return 200 e404; }
        location /loop { rewrite ^ /loop last; }
        location ~ ^/d(a*)$ { rewrite \"^/da{9}$\" /none break; rewrite ^/d(.*)$ /d$1a last; }
        location ~ ^/f(a*)$ { rewrite \"^/fa{10}$\" /none break; rewrite ^/f(.*)$ /f$1a last; }
        location ~ ^/g(a*)$ { rewrite \"^/ga{10}$\" /a.txt break; rewrite ^/g(.*)$ /g$1a last; }
        location ~ ^/h(a*)$ { rewrite \"^/ha{11}$\" /a.txt break; rewrite ^/h(.*)$ /h$1a last; }
        location /try { try_files /x1 /try2; }
        location /try2 { try_files /x1 /try; }
        location /n { try_files /x @n; }
        location @n { try_files /x @n2; }
        location @n2 { try_files /x @n; }
        location /deep/ { index deep/; }
    ";
    compare(&Setup::server(&site, lines), gets(&["/loop", "/d", "/f", "/g", "/h", "/try", "/n", "/deep/"]));
}

#[test]
fn methods_that_are_left_out() {
    let site = site();
    let lines = "
        error_page 403 /e403;
        location /e403 { return 200 \"e403 $request_method\"; }
        location /r1 { limit_except GET { deny all; } return 200 \"r1 $request_method\"; }
        location /r2 { limit_except GET { deny all; } if ($arg_x) { add_header X-I 1; } return 200 r2; }
        location /r3 { limit_except GET { deny 192.0.2.1; } return 200 r3; }
        location /r4 { limit_except GET { deny all; } rewrite ^ /a.txt break; }
        location /r5 { limit_except POST { deny all; } try_files /a.txt =404; }
        location /r6 { limit_except get put { allow 127.0.0.1; deny all; } }
        location /r7 { limit_except HEAD { deny all; } return 200 r7; }
        location /r8 { limit_except GET { allow all; } deny all; }
        location /al/ { alias @ROOT@/alias/target/; limit_except GET { allow all; } }
        location /in { limit_except GET { deny all; } location /in/side { return 200 inside; } }
        location ~ ^/re/(.*) { limit_except GET { deny all; } return 200 \"re $1\"; }
    ";
    let mut cases = Vec::new();
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"] {
        for target in
            ["/r1", "/r2", "/r2?x=1", "/r3", "/r4", "/r5", "/r6", "/r7", "/r8", "/al/x.txt", "/in", "/in/side", "/re/x"]
        {
            let bodiless = matches!(method, "GET" | "HEAD");
            let case = request(method, target);
            cases.push(if bodiless { case } else { case.field("Content-Length: 0") });
        }
    }
    compare(&Setup::server(&site, lines), cases);
}
