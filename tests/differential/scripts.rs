//! Scripts together with the rest: what an `if` takes over from its location, and what subrequests share.

use crate::harness::{Case, compare, get, request};
use crate::site::site;
use freerun_testkit::Setup;

fn gets(targets: &[&str]) -> Vec<Case> {
    targets.iter().map(|target| get(target)).collect()
}

#[test]
fn what_an_if_takes_over() {
    let site = site();
    let lines = "
        error_page 404 /errors/404.html;
        location /a { if ($arg_a) { add_header X-A 1; expires epoch; } add_header X-O 2; expires off;
            rewrite ^ /a.txt break; }
        location /b { add_header X-O 2; if ($arg_a) { expires -1; } if ($arg_b) { add_header X-B 1; }
            rewrite ^ /a.txt break; }
        location /d { default_type text/x; if ($arg_a) { set $q 1; } return 200 x; }
        location /e { types { text/q txt; } if ($arg_a) { rewrite ^ /a.txt break; } return 404; }
        location /g { index f.txt; if ($arg_a) { set $q 1; } rewrite ^ /dir/ break; }
        location /i { deny all; if ($arg_a) { return 200 in; } }
        location /j { deny all; if ($arg_a) { set $q 1; } }
        location /k { allow 127.0.0.1; deny all; if ($arg_a) { set $q 1; } rewrite ^ /a.txt break; }
        location /l { client_max_body_size 10; if ($arg_a) { return 200 x; } }
        location /n { internal; error_page 404 =200 /a.txt; return 200 n; }
        location /o { max_ranges 0; if ($arg_a) { set $q 1; } rewrite ^ /a.txt break; }
        location /q { limit_except GET { deny all; } if ($arg_a) { add_header X-Q 1; } rewrite ^ /a.txt break; }
    ";
    let mut cases = Vec::new();
    for location in ["a", "b", "d", "e", "g", "i", "j", "k", "n", "o", "q"] {
        cases.extend(gets(&[&format!("/{location}"), &format!("/{location}?a=1"), &format!("/{location}?a=1&b=1")]));
    }
    cases.push(get("/o?a=1").field("Range: bytes=0-1"));
    cases.push(request("POST", "/q?a=1").field("Content-Length: 0"));
    cases.push(request("POST", "/l?a=1").field("Content-Length: 3").body("abc"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn what_subrequests_share() {
    let site = site();
    let setup = Setup::new().root(&site).http("map $uri $first_uri { default \"u:$uri\"; }");
    let lines = "
        addition_types *;
        location /b { add_after_body /sub; add_before_body /pre; set $v main; set $w main; rewrite ^/(b) /a.txt break; }
        location /sub { set $w sub; return 200 \"sub sees $v $w $x $1 $uri $args $request_uri\"; }
        location ~ ^/(p)re { set $x pre; return 200 \"pre sees $v $w $x $1\"; }
        location /c { add_after_body /rw; rewrite ^ /a.txt break;  }
        location /rw { rewrite ^/rw /dst/x?y=1 last; }
        location /dst { return 200 \"dst $uri $args [$request_uri]\"; }
        location /d { add_after_body /int; rewrite ^ /a.txt break;  }
        location /int { internal; if ($uri ~ (n)) { return 200 \"int $1\"; } }
        location /e { add_after_body /seen; add_header X-M $first_uri; rewrite ^ /a.txt break;  }
        location /seen { return 200 \"$uri $first_uri\"; }
    ";
    let server = format!("server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {lines} }}\n");
    compare(&setup.http(&server), gets(&["/b", "/b?q=1", "/c", "/d", "/e"]));
}
