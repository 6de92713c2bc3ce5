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

#[test]
fn what_is_tried_last() {
    let site = site();
    let lines = "
        location /c { try_files /x =404; }
        location /d { try_files /x =999; }
        location /f { try_files /x =302; }
        location /g { try_files /x /page.html?q=$args; }
        location /h { try_files /x /h2?$args; }
        location /h2 { return 200 \"h2 $args\"; }
        location /i { try_files /x @n?x; }
        location /j { try_files /x $arg_t; }
        location @n { return 200 n; }
        location /k { try_files $uri $uri/ /dir/f.txt; }
        location /l { try_files /a.txt?x =404; }
        location /m { try_files \"\" =404; }
        location /n { try_files / =404; }
        location ~ ^/o/(.*)$ { try_files /$1 /dir/$1 =404; }
        location /p { try_files /x rel; }
        location /q { try_files /dir/ =404; }
        location /r { try_files /dir =404; }
        location /s { try_files /x =500; error_page 500 = /h2; }
    ";
    let mut cases = gets(&[
        "/c", "/d", "/f", "/g?z", "/h?z=1", "/h", "/i", "/j?t=@n", "/j?t=/h2", "/j", "/k", "/l", "/m", "/n",
        "/o/f.txt", "/o/a.txt", "/o/none", "/p", "/q", "/r", "/s",
    ]);
    cases.push(request("POST", "/h?x").field("Content-Length: 0"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn an_alias_after_a_rewrite() {
    let site = site();
    let lines = "
        location /a/ { alias @ROOT@/dir/; rewrite ^ /a.txt break; }
        location /b/ { alias @ROOT@/dir/; rewrite ^/b(.*) /b$1 break; }
        location /c/ { alias @ROOT@/dir/; rewrite ^/c/x /c/f.txt break; try_files $uri =404; }
        location /d/ { alias @ROOT@/dir/; rewrite ^/d/x /d/ break; }
        location /e/ { alias @ROOT@/dir/; rewrite ^/e/x /e/f.txt last; }
        location /h/ { alias @ROOT@/dir/; rewrite ^/h/x /h/f.txt break; }
        location /i/ { alias @ROOT@/dir/; rewrite ^/i/x /i/f.txt; break; }
        location /j/ { alias @ROOT@/dir/; if ($arg_x) { rewrite ^/j/x /j/f.txt break; } }
        location /k/ { alias @ROOT@/dir/; error_page 404 @k; }
        location @k { rewrite ^ /a.txt break; }
        location ~ ^/l/(.*) { alias @ROOT@/dir/$1; rewrite ^/l/x /l/y break; }
        location /m/ { alias @ROOT@/dir/; }
        location /n/ { alias @ROOT@/dir/; rewrite ^/n/x /n/f.txt break; error_page 500 =200 /a.txt; }
        location /o/ { alias @ROOT@/dir/; break; }
        location /p/ { rewrite ^/p/(.*) /none/$1 break; error_page 404 /m/f.txt; }
        location /q/ { rewrite ^/q/(.*) /none/$1 break; try_files /none /m/f.txt; }
        rewrite ^/srv/(.*) /m/$1 break;
        rewrite ^/srv2/(.*) /m/$1 last;
    ";
    compare(
        &Setup::server(&site, lines),
        gets(&[
            "/a/x",
            "/b/f.txt",
            "/c/x",
            "/c/f.txt",
            "/d/x",
            "/e/x",
            "/h/x",
            "/i/x",
            "/i/f.txt",
            "/j/x",
            "/j/x?x=1",
            "/j/f.txt",
            "/k/none",
            "/l/x",
            "/l/f.txt",
            "/m/f.txt",
            "/n/x",
            "/n/f.txt",
            "/o/f.txt",
            "/p/f.txt",
            "/q/f.txt",
            "/srv/f.txt",
            "/srv2/f.txt",
        ]),
    );
}
