//! Scripts of the rewrite module: what they log, how they are bounded, and what nginx 1.22 does not have.

use freerun_testkit::{RefusingAddress, Setup, Site};

#[test]
fn what_scripts_do_is_logged_where_it_is_asked_for() {
    let site = Site::new();
    let lines = "
        location /a { rewrite_log on; rewrite ^/nomatch x last; rewrite ^/a(.*)$ /dst$1?k=$1 last; }
        location /r { rewrite_log on; rewrite ^/r(.*)$ http://h$1 permanent; }
        location /i { if ($uri ~ ^/i) { rewrite_log on; set $x 1; } if ($uri !~* I) { set $x 2; } return 200 $x; }
        location /u { return 200 \"[$unset$unset]\"; }
        location /quiet { uninitialized_variable_warn off; return 200 \"[$quiet]\"; }
        location /never { set $unset 1; set $quiet 1; }
        location /cycle { rewrite ^ /cycle last; }
        location /try { try_files /none @try; }
        location @try { try_files /none @try; }
        location /dst { return 200 dst; }
    ";
    let setup = Setup::server(&site, lines).main("error_log @DIR@/error.log notice;");
    let server = setup.run();
    for (target, status) in
        [("/a/1", 200), ("/r/1", 301), ("/i", 200), ("/u", 200), ("/quiet", 200), ("/cycle", 500), ("/try", 500)]
    {
        assert_eq!(server.get(target).status, status, "{target}");
    }
    for line in [
        "\"^/nomatch\" does not match \"/a/1\", client: 127.0.0.1, server: localhost, request: \"GET /a/1 HTTP/1.1\"",
        "\"^/a(.*)$\" matches \"/a/1\"",
        "rewritten data: \"/dst/1\", args: \"k=/1\"",
        "rewritten redirect: \"http://h/1\"",
        "\"I\" matches \"/i\"",
        "using uninitialized \"unset\" variable",
        "rewrite or internal redirection cycle while processing \"/cycle\"",
        "rewrite or internal redirection cycle while redirect to named location \"@try\"",
    ] {
        server.logs(line);
    }
    let log = server.error_log();
    assert_eq!(log.matches("using uninitialized").count(), 1, "{log}");
    assert!(!log.contains("\"^/i\" matches") && !log.contains("\"quiet\" variable"), "{log}");
}

#[test]
fn variables_that_grow_without_end_are_stopped() {
    let site = Site::new();
    // Each pass doubles the value eight times, up to ten times.
    let double = "set $x $x$x;".repeat(8);
    let lines = format!(
        "set $x 0123456789abcdef; location /grow {{ {double} rewrite ^ /grow last; }} location /other {{ return 200 ok; }}"
    );
    let server = Setup::server(&site, &lines).freerun();
    assert_eq!(server.get("/grow").status, 500);
    server.logs("the variables of the request take more than 16 MB");
    assert_eq!(server.get("/other").text(), "ok");
}

#[test]
fn an_expression_that_backtracks_without_end_is_an_error() {
    let site = Site::new();
    let lines = "
        location /a { if ($args ~ ^(a|aa)+$) { return 200 yes; } return 200 no; }
        location /b { rewrite ^/b/(a|aa)+$ /yes; return 200 no; }
    ";
    let server = Setup::server(&site, lines).freerun();
    let evil = format!("{}!", "a".repeat(3000));
    assert_eq!(server.get(&format!("/a?{evil}")).status, 500);
    assert_eq!(server.get(&format!("/b/{evil}")).status, 500);
    assert_eq!(server.get("/a?aaa").text(), "yes");
}

#[test]
fn a_geo_can_be_volatile() {
    let site = Site::new();
    let http =
        "geo $arg_ip $once { 10.0.0.0/8 ten; default d; } geo $arg_ip $each { volatile; 10.0.0.0/8 ten; default d; }";
    let lines =
        "location / { set $before \"$once $each\"; set $args ip=10.1.1.1; return 200 \"$before $once $each\"; }";
    let server = format!("server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {lines} }}");
    let server = Setup::new().root(&site).http(http).http(&server).freerun();
    assert_eq!(server.get("/").text(), "d d d ten");
}

#[test]
fn large_tables_are_found_fast() {
    let site = Site::new();
    let hosts: String = (0..100_000).map(|n| format!("host{n}.example.com v{n};\n")).collect();
    let networks: String =
        (0..100_000).map(|n| format!("{}.{}.{}.0/26 v{n};\n", n >> 10 & 255, n >> 2 & 255, (n & 3) * 64)).collect();
    site.file("hosts", &hosts).file("networks", &networks);
    let http = "map $arg_host $m { hostnames; include @ROOT@/hosts; } geo $arg_ip $g { include @ROOT@/networks; }";
    let server = "server { listen 127.0.0.1:@PORT@; root @ROOT@; location / { return 200 \"$m $g\"; } }";
    let server = Setup::new().root(&site).http(http).http(server).freerun();
    for number in [0, 1, 777, 99_999] {
        let address = format!("{}.{}.{}.9", number >> 10 & 255, number >> 2 & 255, (number & 3) * 64);
        let answer = server.get(&format!("/?host=HOST{number}.example.com&ip={address}"));
        assert_eq!(answer.text(), format!("v{number} v{number}"));
    }
    assert_eq!(server.get("/?host=x&ip=255.0.0.0").text(), " ");
}

/// As in nginx: an `if` that passes requests on, and then another one that was entered and does not say what makes the content. What
/// the first one hides, the source of a program perhaps, is no file for everybody then.
#[test]
fn an_if_that_passes_on_and_another_one_make_no_file_of_it() {
    let site = Site::new();
    site.file("y", "the source");
    let refusing = RefusingAddress::new();
    for pass in ["proxy_pass http://", "fastcgi_pass ", "uwsgi_pass ", "scgi_pass ", "grpc_pass ", "memcached_pass "] {
        let pass = format!("{pass}{};", refusing.address());
        let lines = format!(
            "set $memcached_key k;
             location /y {{
                 if ($arg_a) {{ {pass} }}
                 if ($arg_b) {{ add_header X-B b always; }}
                 if ($arg_c) {{ {pass} }}
                 if ($arg_d) {{ break; }}
                 if ($arg_e) {{ return 204; }}
             }}
             location /inherited {{ {pass} if ($arg_a) {{ {pass} }} if ($arg_b) {{ add_header X-B b always; }} }}"
        );
        let server = Setup::server(&site, &lines).run();
        for (target, status) in [
            ("/y", 200),
            ("/y?b=1", 200),
            ("/y?a=1", 502),
            ("/y?a=1&b=1", 500),
            ("/y?a=1&d=1", 500),
            ("/y?a=1&b=1&c=1", 502),
            ("/y?a=1&b=1&e=1", 204),
            ("/inherited?a=1&b=1", 502),
        ] {
            let response = server.get(target);
            assert_eq!(response.status, status, "{pass} {target}");
            assert_eq!(response.text().contains("source"), status == 200, "{pass} {target}");
        }
    }
}
