//! `map`, `geo` and `split_clients`.

use crate::harness::{Case, compare, get};
use crate::site::site;
use freerun_testkit::Setup;

fn gets(targets: &[&str]) -> Vec<Case> {
    targets.iter().map(|target| get(target)).collect()
}

fn server(lines: &str) -> String {
    format!("server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {lines} }}\n")
}

#[test]
fn keys_of_maps() {
    let site = site();
    let setup = Setup::new().root(&site).http(
        "map_hash_max_size 4096; map_hash_bucket_size 128;
         map $arg_q $names { hostnames; default d; localhost ha; *.x.com w; .z.com  z; w.* ww; \\hostnames lit;
             \\default litd; \\\\b bs; \\~t tilde; \"\" empty; ~*^LOCALHOSTX re; UPPER up; volatile; a.b.* ab; *.b.c bc;
             www.a.x.com exact; dots. dd; . dot; }
         map $arg_q $plain { default $uri; UPPER up; lower lo; ~^(.)(.)$ \"x$2$1\"; ~^/(?<nn>.*) $nn-$uri; x $arg_z;
             \"yy1\" \"a$arg_z\"; k \"\"; MiXed mi; *.com star; b* d; }
         map $arg_q $first { ~*a first; ~a second; ~^ab$ third; abc exact; }
         map $host:$uri $several { default d; localhost:/a ha; ~*^LOCALHOST:/C re; ~^localhost:(/d.*)$ \"[$1]\"; }
         map \"\" $constant { \"\" b; }
         map $arg_q $nothing { }
         map $arg_q $include { include @DIR@/*.none; default i; }",
    );
    let lines =
        "location ~ ^/(.*)$ { return 200 \"[$names][$plain][$first][$several][$constant][$nothing][$include][$nn]\"; }";
    let mut cases = gets(&["/a", "/b", "/c", "/d/x", "/abc", "/"]);
    for value in [
        "localhost",
        "LocalHost",
        "a.x.com",
        "b.a.x.com",
        "x.com",
        "z.com",
        "a.z.com",
        "A.Z.com",
        "w.foo",
        "w.",
        "w",
        "w.a.b",
        "hostnames",
        "default",
        "\\b",
        "~t",
        "",
        "localhostx",
        "upper",
        "UPPER",
        "volatile",
        "a.b.c",
        "www.a.x.com",
        "www.a.x.com.",
        "a.x.com.",
        "localhost.",
        "dots.",
        "dots",
        ".x.com",
        "a.b.b.c",
        "LOWER",
        "ab",
        "/foo",
        "x&z=7",
        "yy1&z=7",
        "k",
        "MIXED",
        "b*",
        "y.com",
        "*.com",
        "abc",
        "xAb",
        ".",
        "..",
    ] {
        cases.push(get(&format!("/?q={value}")));
    }
    compare(&setup.http(&server(lines)), cases);
}

/// Whether the value is there and empty, or not there at all.
#[test]
fn nothing_is_no_value_for_an_expression() {
    let setup = Setup::new().root(&site()).http(
        "map $http_x_q $end { default none; \"~^$\" empty; \"~.\" some; }
         map $http_x_q $any { default none; \"~.*\" any; }
         map $http_x_q $caseless { default none; \"~*.*\" any; }
         map $http_x_q $literal { default none; \"\" empty; \"~.*\" any; }
         map $http_x_q $hosts { hostnames; default none; \"~.*\" any; *.x.com x; \"~[.]$\" dot; }
         map $http_x_q $hosts_end { hostnames; default none; \"~[.]$\" dot; \"~^a$\" a; }
         map $http_x_q $hosts_literal { hostnames; default none; \"\" empty; \"~.*\" any; }
         map $http_x_q $each { volatile; default none; \"~.*\" any; }
         map $http_x_q $no_default { \"~.*\" any; }
         map \"$http_x_q$http_x_r\" $two { default none; \"~.*\" any; }",
    );
    let setup = setup.http(&server(
        "location / { return 200 '$end|$any|$caseless|$literal|$hosts|$hosts_end|$hosts_literal|$each|$no_default|$two'; }",
    ));
    let with = |lines: &[&str]| lines.iter().fold(get("/"), |case, line| case.field(line));
    let cases: [&[&str]; 9] = [
        &[],
        &["X-Q:"],
        &["X-Q: "],
        &["X-Q: a"],
        &["X-Q: ."],
        &["X-R: a"],
        &["X-Q: a.x.com"],
        &["X-Q: a."],
        &["X-Q: .."],
    ];
    compare(&setup, cases.map(with).into());
}

#[test]
fn maps_are_found_once_for_a_request() {
    let site = site();
    let setup = Setup::new().root(&site).http(
        "map $arg_q $m { default none; ~^(.)(.)$ \"m:$1:$2\"; ~(?<nmx>z+) \"nm:$nmx\"; x $uri; }
         map $arg_v $mv { volatile; default none; ~^(.)(.)$ \"m:$1:$2\"; }
         map $uri $mu { default \"u:$uri\"; }
         map $uri $mvu { volatile; default \"u:$uri\"; }
         map $a1 $b1 { default $b1; x $a1; }
         map $b1 $a1 { default $a1; y $b1; }
         map $c1 $c1 { default x; }
         map $uri $arg_over { default m; }
         map $uri $dup { default 7; }
         map $uri $dup { default 8; }
         map $later $early { default \"e$later\"; }
         map $uri $later { default l; }",
    );
    let lines = "
        location ~ ^/a/(.)(.)$ { return 200 \"[$m][$m]\"; }
        location ~ ^/b/(.)(.)$ { rewrite ^/(.)/(.)(.)$ /dst/$m; return 200 \"[$uri]\"; }
        location ~ ^/c/(.)(.)$ { set $x \"$mv\"; set $y \"$arg_v\"; return 200 \"[$x][$y]\"; }
        location ~ ^/d/(.)(.)$ { set $x \"$1$2\"; set $y \"$mu$mvu\"; rewrite ^ /d3; }
        location /d3 { return 200 \"[$mu][$mvu][$y]\"; }
        location /e { return 200 \"[$nmx][$m][$nmx]\"; }
        location /s { set $m over; return 200 \"[$m]\"; }
        location /s2 { set $x $m; set $m over; return 200 \"[$x][$m]\"; }
        location /s3 { set $mv over; return 200 \"[$mv]\"; }
        location /cycle { return 200 \"[$a1][$b1][$c1]\"; }
        location /over { return 200 \"[$arg_over][$dup][$early]\"; }
        location /if { if ($mu = u:/if) { set $z $mu; } if ($mu ~ ^u:(.*)$) { return 200 \"$1 $z\"; } return 200 no; }
        location /page { error_page 404 = /d3; return 404; }
        location /first { set $keep $mu; error_page 404 = /d3; return 404; }
    ";
    compare(
        &setup.http(&server(lines)),
        gets(&[
            "/a/12?q=xy",
            "/a/12?q=xyz",
            "/a/12",
            "/b/12?q=xy",
            "/c/12?v=xy",
            "/d/12",
            "/e",
            "/s?q=xy",
            "/s2?q=xy",
            "/s3?v=xy",
            "/cycle",
            "/over?over=1",
            "/if",
            "/page",
            "/first",
        ]),
    );
}

#[test]
fn addresses() {
    let site = site();
    let setup = Setup::new().root(&site).http(
        "geo $arg_ip $g { default d; 10.0.0.0/8 ten; 10.1.0.0/16 ten1; 10.1.2.3 host; ::1 six; 2001:db8::/32 db8;
             2001:db8:1::/48 db81; delete 10.1.0.0/24; 192.168.1.5/24 low; 127.0.0.0/8 lo; 255.255.255.255 bc;
             11.0.0.0/8 x; delete 11.0.0.0/8; 12.0.0.0/8 a; 12.0.0.0/8 b; 13.0.0.0/8 \"a$b\"; 255.0.0.0/8 last; }
         geo $g2 { 127.0.0.1 me; default x; }
         geo $arg_ip $r { ranges; default d; 10.0.0.0-10.255.255.255 ten; 10.1.0.0-10.1.255.255 ten1;
             127.0.0.1-127.0.0.1 one; 20.0.0.5-20.0.0.9 a; 20.0.0.7-20.0.0.8 b; delete 20.0.0.8-20.0.0.8;
             30.0.0.0-30.1.0.5 c; 40.0.0.0-40.3.0.0 e; delete 40.0.0.0-40.3.0.0; 1.0.0.0-1.0.0.255 f; }
         geo $g3 { proxy 127.0.0.0/8; proxy 1.2.3.4; proxy_recursive; default d; 1.2.3.4 fwd; 127.0.0.1 lo; 5.6.7.8 five; }
         geo $g4 { proxy 127.0.0.0/8; default d; 1.2.3.4 fwd; 127.0.0.1 lo; 5.6.7.8 five; ::1 six; }
         geo $arg_ip $g5 { 10.0.0.0/8 x; }
         geo $arg_ip $g6 { ranges; proxy 127.0.0.1; 1.1.1.1-1.1.1.1 p; 127.0.0.1-127.0.0.1 q; }
         geo $arg_ip $g7 { default d; 0.0.0.0/0 y; ::/0 z; 1.1.1.1 one; }",
    );
    let lines = "location / { return 200 \"[$g][$g2][$r][$g3][$g4][$g5][$g6][$g7]\"; }";
    let mut cases = gets(&["/", "/?ip="]);
    for address in [
        "10.5.5.5",
        "10.1.5.5",
        "10.1.2.3",
        "10.1.0.7",
        "192.168.1.77",
        "::1",
        "2001:db8::5",
        "2001:db8:1::5",
        "2001:DB8:1:0:0::5",
        "::ffff:10.1.2.3",
        "bad",
        "20.0.0.5",
        "20.0.0.7",
        "20.0.0.8",
        "20.0.0.9",
        "30.0.200.200",
        "30.1.0.5",
        "30.1.0.6",
        "255.255.255.255",
        "010.001.002.003",
        "10.1.2",
        "11.1.1.1",
        "12.1.1.1",
        "13.0.0.0",
        "255.1.1.1",
        "40.1.0.0",
        "1.0.0.0",
        "1.0.1.0",
        "0.0.0.0",
        "1.1.1.1",
        "10.255.255.255",
        "11.0.0.0",
    ] {
        cases.push(get(&format!("/?ip={address}")));
    }
    for value in [
        "1.2.3.4",
        "5.6.7.8, 1.2.3.4",
        "1.2.3.4, 127.0.0.1",
        "junk, 1.2.3.4",
        "1.2.3.4, junk",
        "127.0.0.9",
        ",",
        "1.2.3.4:80",
        "[::1]:80",
        "[::1]",
        "::1",
        "unix:",
        "5.6.7.8 1.2.3.4",
        "5.6.7.8,1.2.3.4,",
        "5.6.7.8;1.2.3.4",
        "::ffff:1.2.3.4",
        "1.2.3.4:99999",
        "1.2.3.4:",
        "1.2.3.4:0",
        "5.6.7.8, junk, 1.2.3.4",
        "5.6.7.8, 1.2.3.4, 1.2.3.4",
        "5.6.7.8, 9.9.9.9, 1.2.3.4",
        "",
    ] {
        cases.push(get("/").field(&format!("X-Forwarded-For: {value}")));
    }
    cases.push(get("/").field("X-Forwarded-For: 5.6.7.8, 1.2.3.4").field("X-Forwarded-For: 127.0.0.5"));
    cases.push(get("/?ip=127.0.0.1").field("X-Forwarded-For: 1.1.1.1"));
    compare(&setup.http(&server(lines)), cases);
}

#[test]
fn shares() {
    let site = site();
    let setup = Setup::new().root(&site).http(
        "split_clients \"$arg_k\" $s { 0.5% a; 10% b; 33.33% c; * d; }
         split_clients \"$arg_k\" $s2 { 50% a; 25% b; }
         split_clients \"$uri$arg_k\" $s3 { 0.01% .one; 99.99% \"\"; }
         split_clients \"$arg_k\" $s4 { 50% \"$uri\"; * \"x $arg_k\"; }
         split_clients \"$arg_k\" $s5 { 100% all; * none; }
         split_clients \"$arg_k\" $s6 { }",
    );
    let lines = "location / { return 200 \"[$s][$s2][$s3][$s4][$s5][$s6]\"; }";
    let mut cases: Vec<Case> = (0..40).map(|number| get(&format!("/?k={number}"))).collect();
    for key in
        ["", "a", "ab", "abc", "abcd", "abcde", "127.0.0.1AAA", "%ff%fe", "a-rather-long-key-that-has-many-words"]
    {
        cases.push(get(&format!("/?k={key}")));
    }
    compare(&setup.http(&server(lines)), cases);
}
