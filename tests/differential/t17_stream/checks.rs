//! What is said of directives of `stream` that pass sessions on.

use crate::t02_configuration::checks::same_verdicts_of_stream;

#[test]
fn proxying_is_checked_alike() {
    let lines = [
        "proxy_pass 127.0.0.1:1;",
        "proxy_pass 127.0.0.1:1; proxy_pass 127.0.0.1:2;",
        "proxy_pass 127.0.0.1;",
        "proxy_pass;",
        "proxy_pass 127.0.0.1:99999;",
        "proxy_pass unix:/x;",
        "proxy_pass unix:;",
        "proxy_pass g;",
        "proxy_pass G;",
        "proxy_pass g:1;",
        "proxy_pass $remote_addr:1;",
        "proxy_pass $nope:1;",
        "proxy_pass [::1]:1;",
        "proxy_pass 127.0.0.1:1; proxy_bind 127.0.0.1;",
        "proxy_pass 127.0.0.1:1; proxy_bind 127.0.0.1 transparent;",
        "proxy_pass 127.0.0.1:1; proxy_bind 127.0.0.1 x;",
        "proxy_pass 127.0.0.1:1; proxy_bind x;",
        "proxy_pass 127.0.0.1:1; proxy_bind off;",
        "proxy_pass 127.0.0.1:1; proxy_bind off; proxy_bind off;",
        "proxy_pass 127.0.0.1:1; proxy_buffer_size 1k;",
        "proxy_pass 127.0.0.1:1; proxy_buffer_size x;",
        "proxy_pass 127.0.0.1:1; proxy_downstream_buffer 1k; proxy_upstream_buffer 1k;",
        "proxy_pass 127.0.0.1:1; proxy_connect_timeout 1;",
        "proxy_pass 127.0.0.1:1; proxy_connect_timeout x;",
        "proxy_pass 127.0.0.1:1; proxy_timeout 1h; proxy_timeout 1h;",
        "proxy_pass 127.0.0.1:1; proxy_download_rate 1k; proxy_upload_rate $remote_port;",
        "proxy_pass 127.0.0.1:1; proxy_download_rate x;",
        "proxy_pass 127.0.0.1:1; proxy_half_close yes;",
        "proxy_pass 127.0.0.1:1; proxy_next_upstream error;",
        "proxy_pass 127.0.0.1:1; proxy_next_upstream_tries x;",
        "proxy_pass 127.0.0.1:1; proxy_next_upstream_timeout 1s; proxy_next_upstream_tries 3;",
        "proxy_pass 127.0.0.1:1; proxy_requests 1; proxy_responses 0;",
        "proxy_pass 127.0.0.1:1; proxy_responses x;",
        "proxy_pass 127.0.0.1:1; proxy_socket_keepalive on;",
        "proxy_pass 127.0.0.1:1; proxy_ssl on;",
        "proxy_pass 127.0.0.1:1; proxy_ssl on; proxy_ssl_verify on;",
        "proxy_pass 127.0.0.1:1; proxy_ssl on; proxy_ssl_certificate /x;",
        "proxy_pass 127.0.0.1:1; proxy_ssl on; proxy_ssl_verify_depth x;",
        "proxy_pass 127.0.0.1:1; proxy_ssl_session_reuse 1;",
        "proxy_pass 127.0.0.1:1; proxy_ssl on; proxy_ssl_name $nope;",
    ];
    same_verdicts_of_stream("upstream g { server 127.0.0.1:1; }\nserver { listen 127.0.0.1:@PORT@; @LINE@ }", &lines);
}

#[test]
fn groups_are_checked_alike() {
    let lines = [
        "",
        "server 127.0.0.1;",
        "server 127.0.0.1:1 weight=2 max_conns=3 max_fails=4 fail_timeout=5s down;",
        "server 127.0.0.1:1 weight=0;",
        "server 127.0.0.1:1 weight=x;",
        "server 127.0.0.1:1 foo;",
        "server 127.0.0.1:1 fail_timeout=x;",
        "server 127.0.0.1:1 backup;",
        "server unix:/x;",
        "server 127.0.0.1:99999;",
        "least_conn;",
        "least_conn x;",
        "least_conn; least_conn;",
        "hash;",
        "hash $remote_addr;",
        "hash $remote_addr consistent;",
        "hash $remote_addr foo;",
        "hash $nope;",
        "hash $remote_addr; server 127.0.0.2:1 backup;",
        "random;",
        "random two;",
        "random two least_conn;",
        "random two foo;",
        "random three;",
        "random; least_conn;",
        "random; server 127.0.0.2:1 backup;",
        "zone z 64k;",
        "zone z 1k;",
        "zone z x;",
        "zone z;",
        "keepalive 2;",
    ];
    same_verdicts_of_stream(
        "upstream a { server 127.0.0.1:1; @LINE@ }\nserver { listen 127.0.0.1:@PORT@; proxy_pass a; }",
        &lines,
    );
    let blocks = ["", "server 127.0.0.1:1 backup;", "server 127.0.0.1:1; } upstream a { server 127.0.0.1:1;"];
    same_verdicts_of_stream(
        "upstream a { @LINE@ }\nserver { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:1; }",
        &blocks,
    );
}
