//! Knobs of the core: what old browsers are sent, and values that are refused.

use crate::harness::{compare, get, head, raw};
use crate::site::site;
use crate::t02_configuration::checks::same_verdicts_around;
use freerun_testkit::Setup;

#[test]
fn padding_and_refreshes_for_old_browsers() {
    let site = site();
    let lines = "
        msie_refresh on;
        location = /301 { return 301 /x; }
        location = /302 { return 302 http://a.example/b?c=d&e=f; }
        location = /307 { return 307 /x; }
        location = /odd { return 301 \"/a b%c'\\\\d<e>\"; }
        location = /404 { return 404; }
        location = /500 { return 500; }
        location = /text { return 404 text; }
        location = /page { error_page 403 http://e.example/; return 403; }
        location = /local { error_page 403 /a.txt; return 403; }
        location /off/ { msie_padding off; msie_refresh off; location = /off/301 { return 301 /x; } }
    ";
    let old = |case: crate::harness::Case| case.field("User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)");
    let mut cases = Vec::new();
    for path in [
        "/301",
        "/302",
        "/307",
        "/odd",
        "/404",
        "/500",
        "/text",
        "/page",
        "/local",
        "/off/301",
        "/off/none",
        "/dir",
        "/none",
    ] {
        cases.push(old(get(path)));
        cases.push(get(path).field("User-Agent: Mozilla/5.0 Chrome/50.0 Safari"));
    }
    for agent in [
        "MSIE 7",
        "MSIE 7.0",
        "MSIE 10",
        "MSIE 10;",
        "msie 7.01",
        "MSIE 7.0 Opera",
        "Opera MSIE 7.01",
        "Chrome",
        "Chrome/",
        "Opera Chrome/1",
        "",
    ] {
        cases.push(get("/404").field(&format!("User-Agent: {agent}")));
        cases.push(get("/301").field(&format!("User-Agent: {agent}")));
    }
    cases.push(old(head("/404")));
    cases.push(old(head("/301")));
    cases.push(raw("GET /404 HTTP/1.0\r\nUser-Agent: MSIE 7.01\r\n\r\n"));
    cases.push(raw("BAD\r\nUser-Agent: MSIE 7.01\r\n\r\n"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn values_are_refused_in_the_same_words() {
    let lines = [
        "send_lowat 1;",
        "send_lowat -1;",
        "directio 1x;",
        "directio off; directio 1;",
        "directio_alignment x;",
        "read_ahead x;",
        "postpone_output 1g;",
        "subrequest_output_buffer_size 1g;",
        "msie_padding x;",
        "msie_refresh 1;",
        "aio_write x;",
        "resolver;",
        "resolver 127.0.0.1;",
        "resolver 127.0.0.1 valid=x;",
        "resolver 127.0.0.1 ipv6=x;",
        "resolver valid=1s;",
        "resolver 127.0.0.1:99999;",
        "resolver 127.0.0.1:x;",
        "resolver [::1]:53 ipv6=off;",
        "resolver_timeout 1x;",
        "reset_timedout_connection maybe;",
        "open_file_cache;",
        "open_file_cache max=1;",
        "open_file_cache max=0;",
        "open_file_cache max=x;",
        "open_file_cache inactive=10;",
        "open_file_cache max=1 inactive=x;",
        "open_file_cache max=1 foo;",
        "open_file_cache off max=1;",
        "open_file_cache max=1; open_file_cache off;",
        "open_file_cache_valid 1ms;",
        "open_file_cache_min_uses -1;",
        "open_file_cache_errors x;",
        "http2_body_preread_size 2147483647;",
        "http2_body_preread_size 2147483648;",
        "http2_body_preread_size 2g;",
        "http2_chunk_size 0;",
        "http2_chunk_size 20m;",
        "http2_recv_buffer_size 32;",
        "http2_recv_buffer_size 33;",
        "http2_pool_size 96;",
        "http2_pool_size 112;",
        "http2_pool_size 130;",
        "http2_streams_index_size 0;",
        "http2_streams_index_size 1;",
        "http2_streams_index_size 3;",
        "http2_max_concurrent_streams -1;",
        "http2_max_concurrent_streams 4294967296;",
        "http2_max_requests x; http2_max_requests x;",
        "http2_max_requests;",
        "http2_max_field_size 1;",
        "http2_max_header_size 1;",
        "http2_recv_timeout 1;",
        "http2_idle_timeout 1;",
        "server { http2_recv_buffer_size 1k; }",
        "server { location / { http2_idle_timeout 1; } }",
        "disable_symlinks x;",
        "disable_symlinks on from=/a/;",
        "disable_symlinks from=/a on;",
        "disable_symlinks off from=/a;",
        "disable_symlinks from=/a;",
        "disable_symlinks on x=1;",
        "disable_symlinks on off;",
        "disable_symlinks if_not_owner from=$document_root;",
        "disable_symlinks off; disable_symlinks on;",
    ];
    same_verdicts_around("@LINE@", &lines);
}
