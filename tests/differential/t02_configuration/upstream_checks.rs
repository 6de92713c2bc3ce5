//! What `-t` says to `upstream` blocks and their directives.

use crate::t02_configuration::checks::same_verdicts_around;

#[test]
fn servers_and_their_parameters() {
    let long = format!("server unix:/{};", "x".repeat(107));
    let lines = [
        "",
        "server;",
        "server 127.0.0.1 weight=2 weight=3 max_conns=5 max_fails=0 fail_timeout=1m down; server 127.0.0.2:81 backup;",
        "server 127.0.0.1 down;",
        "server 127.0.0.1 backup;",
        "server 127.0.0.1 weight=0;",
        "server 127.0.0.1 weight=x;",
        "server 127.0.0.1 weight=;",
        "server 127.0.0.1 max_conns=x;",
        "server 127.0.0.1 max_conns=-1;",
        "server 127.0.0.1 max_fails=-1;",
        "server 127.0.0.1 weight=4294967296 max_fails=4294967296 max_conns=4294967296;",
        "server 127.0.0.1 weight=9223372036854775807;",
        "server 127.0.0.1 weight=9223372036854775808;",
        "server 127.0.0.1 max_conns=9223372036854775808;",
        "server 127.0.0.1 max_fails=;",
        "server 127.0.0.1 fail_timeout=x;",
        "server 127.0.0.1 fail_timeout=1x;",
        "server 127.0.0.1 foo;",
        "server 127.0.0.1 downx;",
        "server 127.0.0.1 backup=1;",
        "server 127.0.0.1:99999;",
        "server 127.0.0.1:;",
        "server 127.0.0.1:0;",
        "server 127.0.0.1:80:80;",
        "server :80;",
        "server \"\";",
        "server [::1];",
        "server [::1]:81;",
        "server [::1;",
        "server [::1]x;",
        "server [::1]:80x;",
        "server [zz]:80;",
        "server ::1;",
        "server unix:;",
        "server unix:/a:b;",
        &long,
        "server http://x;",
        "server 127.0.0.1/x;",
        "server a?b;",
        "server 127.0.0.1 { }",
        "server 127.0.0.1; listen 80;",
        "server 127.0.0.1; foo bar;",
        "server 127.0.0.1; include /none.conf;",
    ];
    same_verdicts_around("upstream a { @LINE@ }\nserver { listen 127.0.0.1:@PORT@; }", &lines);
}

#[test]
fn zones_and_connections() {
    let lines = [
        "zone z 64k;",
        "zone;",
        "zone z 1k;",
        "zone z x;",
        "zone \"\" 64k;",
        "zone z 64k; } upstream b { server 127.0.0.1; zone z;",
        "zone z; } upstream b { server 127.0.0.1; zone z 64k;",
        "zone z 64k; } upstream b { server 127.0.0.1; zone z 64k;",
        "zone z 64k; } upstream b { server 127.0.0.1; zone z 128k;",
        "zone z 64k; zone y 64k;",
        "zone z 64k; zone z;",
        "zone z 64k; zone z 128k;",
        "zone z 64k; } limit_req_zone $uri zone=z:64k rate=1r/s; upstream b { server 127.0.0.1;",
        "keepalive 2;",
        "keepalive x;",
        "keepalive -1;",
        "keepalive 2; keepalive 3;",
        "keepalive;",
        "keepalive_requests x;",
        "keepalive_requests 1 2;",
        "keepalive_time x;",
        "keepalive_timeout x;",
        "keepalive_timeout 10 10;",
        "keepalive_time 0; keepalive_requests 0; keepalive_timeout 0;",
    ];
    same_verdicts_around("upstream a { server 127.0.0.1; @LINE@ }\nserver { listen 127.0.0.1:@PORT@; }", &lines);
}

#[test]
fn blocks() {
    let lines = [
        "upstream a { server 127.0.0.1; } upstream a { server 127.0.0.2; }",
        "upstream A { server 127.0.0.1; } upstream a { server 127.0.0.2; }",
        "upstream a:80 { server 127.0.0.1; }",
        "upstream \"\" { server 127.0.0.1; }",
        "upstream { server 127.0.0.1; }",
        "upstream a b { server 127.0.0.1; }",
        "upstream a;",
        "server { upstream a { server 127.0.0.1; } }",
        "upstream a { upstream b { } }",
        "upstream a { }",
        "upstream a { server 127.0.0.1 }",
        "upstream a { server 127.0.0.1 backup; server 127.0.0.2 }",
        "upstream a { foo }",
        "upstream a { least_conn }",
        "upstream a { ; }",
        "upstream a { include /none.conf; }",
    ];
    same_verdicts_around("@LINE@\nserver { listen 127.0.0.1:@PORT@; }", &lines);
}
