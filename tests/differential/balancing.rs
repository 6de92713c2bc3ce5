//! How the servers of a group take turns.

use crate::checks::same_verdicts_around;

#[test]
fn methods_are_checked_alike() {
    let lines = [
        "least_conn;",
        "least_conn; least_conn;",
        "least_conn; ip_hash;",
        "keepalive 2; least_conn;",
        "least_conn; keepalive 2;",
        "random; random;",
        "hash $uri; hash $uri;",
        "least_conn x;",
        "ip_hash x;",
        "hash;",
        "hash $uri foo;",
        "hash $uri consistent;",
        "hash $uri consistent x;",
        "hash \"\";",
        "random two;",
        "random two least_conn;",
        "random two foo;",
        "random two least_conn x;",
        "random three;",
        "random three x;",
        "ip_hash; server 127.0.0.2 backup;",
        "hash $uri; server 127.0.0.2 backup;",
        "random; server 127.0.0.2 backup;",
        "least_conn; server 127.0.0.2 backup;",
        "server 127.0.0.2 backup; ip_hash;",
        "hash $uri; server 127.0.0.2 max_conns=1 max_fails=2 fail_timeout=3 down weight=2;",
        "ip_hash; server 127.0.0.2 max_conns=1 max_fails=2 fail_timeout=3 down weight=2;",
    ];
    same_verdicts_around("upstream a { server 127.0.0.1; @LINE@ }\nserver { listen 127.0.0.1:@PORT@; }", &lines);
}
