//! What `-t` says to a broken `stream`.

use crate::t02_configuration::config_errors::In::{Main, Stream, StreamServer};
use crate::t02_configuration::config_errors::{Case, run_all};
use freerun_testkit::{Kind, check, require};

/// Those that nginx 1.22 says too, with `ngx_stream_module`.
#[rustfmt::skip]
const CASES: &[Case] = &[
    (Main, "stream { } stream { }", "\"stream\" directive is duplicate", 2),
    (Stream, "server { return x; }", "no \"listen\" is defined for server", 3),
    (Stream, "server { listen 1; }\nserver { return x; }", "no \"listen\" is defined for server", 4),
    (Stream, "unknown_thing on;", "unknown directive \"unknown_thing\"", 3),
    (Stream, "root /x;", "\"root\" directive is not allowed here", 3),
    (Stream, "preread_timeout x;", "\"preread_timeout\" directive invalid value", 3),
    (Stream, "preread_buffer_size x;", "\"preread_buffer_size\" directive invalid value", 3),
    (Stream, "proxy_protocol_timeout 1s; proxy_protocol_timeout 2s;", "\"proxy_protocol_timeout\" directive is duplicate", 3),
    (Stream, "tcp_nodelay x;", "invalid value \"x\" in \"tcp_nodelay\" directive, it must be \"on\" or \"off\"", 3),
    (Stream, "allow 1;", "invalid parameter \"1\"", 3),
    (Stream, "limit_conn nowhere 1;", "zero size shared memory zone \"nowhere\"", 0),
    (Stream, "limit_conn_zone x zone=a:1k;", "zone \"zone=a:1k\" is too small", 3),
    (Stream, "limit_conn_log_level debug;", "invalid value \"debug\"", 3),
    (Stream, "map $remote_addr x { }", "invalid variable name \"x\"", 3),
    (Stream, "log_format a b; log_format a c;", "duplicate \"log_format\" name \"a\"", 3),
    (Stream, "log_format a $nope;", "unknown \"nope\" variable", 0),
    (Stream, "log_format a $uri;", "unknown \"uri\" variable", 0),
    (Stream, "access_log @DIR@/a;", "log format is not specified", 3),
    (Stream, "access_log @DIR@/a combined;", "unknown log format \"combined\"", 3),
    (StreamServer, "listen;", "invalid number of arguments in \"listen\" directive", 4),
    (StreamServer, "listen 127.0.0.1:0;", "invalid port in \"127.0.0.1:0\" of the \"listen\" directive", 4),
    (StreamServer, "listen 1 foo;", "the invalid \"foo\" parameter", 4),
    (StreamServer, "return x; return y;", "\"return\" directive is duplicate", 4),
    (StreamServer, "return x y;", "invalid number of arguments in \"return\" directive", 4),
    (StreamServer, "set a b;", "invalid variable name \"a\"", 4),
    (StreamServer, "set $remote_addr b;", "the duplicate \"remote_addr\" variable", 4),
    (StreamServer, "ssl_preread yes;", "invalid value \"yes\" in \"ssl_preread\" directive, it must be \"on\" or \"off\"", 4),
    (StreamServer, "set_real_ip_from x.invalid;", "host not found in set_real_ip_from \"x.invalid\"", 4),
    (StreamServer, "ssl_verify_client maybe;", "invalid value \"maybe\"", 4),
    (StreamServer, "error_log @DIR@/e loud;", "invalid log level \"loud\"", 4),
];

/// Those of later versions of nginx, and freerun's own.
#[rustfmt::skip]
const LATER: &[Case] = &[
    (StreamServer, "listen unix:@DIR@/s multipath; return x;", "multipath is not supported on addr \"unix:@DIR@/s\"", 4),
    (StreamServer, "listen 1 udp multipath; return x;", "\"listen\" directive \"multipath\" parameter is incompatible with \"udp\"", 4),
    (StreamServer, "listen 1; proxy_pass 127.0.0.1:9; health_check udp;", "nothing to send: \"health_check udp\" needs a \"match\" with \"send\"", 4),
    (StreamServer, "listen 127.0.0.1;", "no port in \"127.0.0.1\" of the \"listen\" directive", 4),
    (StreamServer, "pass 127.0.0.1;", "no port in pass \"127.0.0.1\"", 4),
    (StreamServer, "pass no.such.invalid:80;", "host not found in pass \"no.such.invalid:80\"", 4),
    (StreamServer, "listen 1; listen 1; return x;", "a duplicate listen 0.0.0.0:1", 4),
    (StreamServer, "server_name a*b;", "invalid server name or wildcard \"a*b\"", 4),
    (StreamServer, "ssl_alpn;", "invalid number of arguments in \"ssl_alpn\" directive", 4),
    (StreamServer, "listen 1 ssl; return x; ssl_certificate auto;", "\"ssl_certificate auto\" is not there in \"stream\"", 0),
    (Stream, "server { listen 1 ssl; return x; }", "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive", 3),
    (Main, "stream { server { listen 7; return x; } } http { server { listen 7; } }", "bind() to 0.0.0.0:7 failed (98: Address already in use)", 0),
];

#[test]
fn messages_are_nginxs() {
    if !require::freerun() {
        return;
    }
    run_all(Kind::Freerun, CASES);
    run_all(Kind::Freerun, LATER);
}

#[test]
fn servers_of_one_address_may_share_a_name_with_a_warning() {
    if !require::freerun() {
        return;
    }
    let text = "events { }\nstream {\nserver { listen 127.0.0.1:@PORT@; return x; }\nserver { listen 127.0.0.1:@PORT@; return y; }\n}\n";
    let checked = check(Kind::Freerun, text).expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stderr.contains("conflicting server name \"\" on 127.0.0.1:@PORT@, ignored"), "{}", checked.stderr);
}
