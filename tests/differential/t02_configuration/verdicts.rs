//! Parameters and spellings that nginx takes, and those that it refuses: `-t` says the same.

use crate::runner::{Both, compare_verdicts};
use crate::t02_configuration::checks::{same_verdicts, same_verdicts_around, same_verdicts_of_stream};

/// Whether `-t` takes each of these configurations, as nginx does, whatever either says to it.
#[track_caller]
fn same_answers(texts: &[String]) {
    compare_verdicts(texts.iter().map(|text| (text, text.clone())), |_, Both { nginx, freerun }| {
        nginx.is_accepted() == freerun.is_accepted()
    });
}

#[test]
fn parameters_of_listen() {
    let around = |line: &str| format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@ {line}; }} }}\n");
    let lines = [
        "accept_filter=httpready",
        "accept_filter=",
        "accept_filter",
        "backlog=1",
        "backlog=-1",
        "backlog=0",
        "backlog=x",
        "BACKLOG=1",
        "setfib=1",
        "setfib=0",
        "so_keepalive=ON",
        "so_keepalive=on",
        "ipv6only=ON",
        "ipv6only=on",
        "Default_server",
        "deferred",
        "fastopen=3",
        "rcvbuf=1K",
        "sndbuf=1k",
    ];
    same_answers(&lines.map(around));
}

#[test]
fn levels_of_the_error_log() {
    let lines = [
        "debug_http",
        "debug_core",
        "debug_alloc debug_mutex debug_event",
        "debug_mail debug_stream",
        "debug_http debug_http",
        "debug_all",
        "debug_http error",
        "error debug_http",
        "debug debug_http",
        "debug_http debug",
        "Error",
        "DEBUG_HTTP",
        "error error",
    ];
    same_answers(&lines.map(|line| format!("error_log @DIR@/e.log {line};\nevents {{ }}\n")));
}

#[test]
fn parameters_of_thread_pool() {
    let lines =
        ["a threads=1", "a threads=1 MAX_QUEUE=1", "a threads=1 x", "a THREADS=1", "a x", "a threads=1 max_queue="];
    same_answers(&lines.map(|line| format!("thread_pool {line};\nevents {{ }}\n")));
}

#[test]
fn words_of_events() {
    let lines = [
        "epoll_events 512;",
        "epoll_events x;",
        "epoll_events 1 2;",
        "epoll_events 1; epoll_events 2;",
        "worker_aio_requests 32;",
        "use epoll;",
        "use EPOLL;",
        "use kqueue;",
        "devpoll_changes 32;",
        "kqueue_events 512;",
        "multi_accept ON;",
        "accept_mutex Off;",
        "accept_mutex_delay 500MS;",
        "worker_connections 0x10;",
    ];
    same_answers(&lines.map(|line| format!("events {{ {line} }}\n")));
}

#[test]
fn letters_of_either_case() {
    same_verdicts(&[
        "sendfile ON;",
        "tcp_nopush Off;",
        "gzip oN;",
        "gzip yes;",
        "satisfy ANY;",
        "if_modified_since Exact;",
        "if_modified_since EXACTLY;",
        "keepalive_timeout 1M;",
        "client_max_body_size 1M;",
        "client_max_body_size 1G;",
        "client_max_body_size 1g;",
        "client_header_timeout 1S;",
        "client_body_in_file_only Clean;",
        "server_tokens Build;",
        "aio OFF;",
        "directio OFF;",
        "directio off;",
        "expires EPOCH;",
        "expires MAX;",
        "expires OFF;",
        "autoindex ON;",
        "autoindex_format JSON;",
        "proxy_buffering ON;",
        "proxy_redirect OFF;",
        "proxy_redirect off;",
        "proxy_bind OFF;",
        "proxy_cache OFF;",
        "proxy_next_upstream Error TIMEOUT;",
        "proxy_http_version 1.1;",
        "log_not_found OFF;",
        "access_log OFF;",
        "open_file_cache OFF;",
        "recursive_error_pages ON;",
        "limit_req_status 503;",
        "disable_symlinks ON;",
        "disable_symlinks IF_NOT_OWNER;",
        "resolver_timeout 1S;",
        "underscores_in_headers ON;",
        "gzip_proxied ANY;",
        "gzip_http_version 1.1;",
        "charset OFF;",
        "ssi ON;",
        "real_ip_recursive ON;",
        "real_ip_header X-REAL-IP;",
        "auth_basic OFF;",
        "allow ALL;",
        "deny all;",
        "deny UNIX:;",
        "userid ON;",
        "userid V1;",
        "etag ON;",
        "lingering_close ALWAYS;",
        "lingering_close Off;",
        "types_hash_max_size 1K;",
        "keepalive_disable MSIE6;",
        "keepalive_disable NONE;",
        "directio_alignment 1g;",
        "listen UNIX:@DIR@/s;",
        "error_page 404 =200 /x;",
        "root /x; root /y;",
    ]);
}

#[test]
fn local_addresses() {
    let lines = [
        "[::1]:0",
        "127.0.0.1:0",
        "127.0.0.1:65535",
        "127.0.0.1:65536",
        "127.0.0.1:",
        "::1",
        "127.0.0.1:007",
        "127.0.0.1:+5",
        "[::1]:5",
        "localhost",
        "127.1",
        "::ffff:192.0.2.1",
    ];
    let lines: Vec<_> = lines.map(|address| format!("proxy_bind {address};")).into();
    same_verdicts(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn an_error_is_told_once() {
    let servers = "upstream u { @LINE@ }\nserver {\nlisten 127.0.0.1:@PORT@;\nlocation / { proxy_pass http://u; }\n}";
    let lines =
        ["hash $arg_a; server 127.0.0.1:81 backup;", "server 127.0.0.1:81 backup;", "server 127.0.0.1:81 wieght=2;"];
    same_verdicts_around(servers, &lines);
    let sessions = "upstream u { @LINE@ }\nserver {\nlisten 127.0.0.1:@PORT@;\nproxy_pass u;\n}";
    same_verdicts_of_stream(sessions, &lines);
}
