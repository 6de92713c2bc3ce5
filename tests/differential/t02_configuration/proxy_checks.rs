//! What `-t` says to the directives of `proxy`, and to those that the other members of the family share with it.

use crate::t02_configuration::checks::same_verdicts_around;

const AROUND: &str = "upstream up { server 127.0.0.1:1; }\nserver { listen 127.0.0.1:@PORT@; location / {\n@LINE@\n} }";

#[test]
fn where_requests_go() {
    let lines = [
        "proxy_pass http://127.0.0.1:1;",
        "proxy_pass 127.0.0.1;",
        "proxy_pass ftp://x;",
        "proxy_pass http://;",
        "proxy_pass HTTP://127.0.0.1;",
        "proxy_pass http:/x;",
        "proxy_pass http://127.0.0.1:99999;",
        "proxy_pass http://127.0.0.1:;",
        "proxy_pass http://127.0.0.1; proxy_pass http://127.0.0.1;",
        "proxy_pass http://unix:/tmp/x;",
        "proxy_pass http://unix:/tmp/x:/y/;",
        "proxy_pass http://unix:;",
        "proxy_pass http://[::1]:80/x;",
        "proxy_pass http://:80;",
        "proxy_pass http:///x;",
        "if ($a) { proxy_pass http://127.0.0.1/; }",
        "if ($arg_a) { proxy_pass http://127.0.0.1/; }",
        "if ($arg_a) { proxy_pass http://127.0.0.1; }",
        "if ($arg_a) { proxy_pass http://$host/; }",
        "limit_except GET { proxy_pass http://127.0.0.1/; }",
        "limit_except GET { proxy_pass http://127.0.0.1; }",
        "proxy_pass http://127.0.0.1$uri;",
        "proxy_pass unix:/tmp/x;",
        "proxy_pass http://127.0.0.1?x;",
        "proxy_pass \"\";",
        "proxy_pass http://127.0.0.1:80a/;",
        "proxy_pass http://127.0.0.1:0/;",
        "proxy_pass http://up;",
        "proxy_pass http://UP/x;",
        "proxy_pass http://up:80;",
        "proxy_pass;",
        "proxy_pass http://127.0.0.1 x;",
    ];
    same_verdicts_around(AROUND, &lines);
    let around = "server { listen 127.0.0.1:@PORT@; location ~ /x {\n@LINE@\n} }";
    same_verdicts_around(around, &["proxy_pass http://127.0.0.1/;", "proxy_pass http://127.0.0.1;"]);
    let around = "server { listen 127.0.0.1:@PORT@; location @x {\n@LINE@\n} }";
    same_verdicts_around(around, &["proxy_pass http://127.0.0.1?x;", "proxy_pass http://127.0.0.1;"]);
    let around = "server { listen 127.0.0.1:@PORT@;\n@LINE@\n}";
    same_verdicts_around(around, &["proxy_pass http://127.0.0.1;", "proxy_redirect default;", "proxy_method x;"]);
}

#[test]
fn sizes_and_times() {
    let lines = [
        "proxy_buffers 1 4k;",
        "proxy_buffers 2 4k;",
        "proxy_buffers 0 4k;",
        "proxy_buffers 2 0;",
        "proxy_buffers 4;",
        "proxy_buffer_size 100;",
        "proxy_buffer_size 16k;",
        "proxy_buffer_size 1g;",
        "proxy_busy_buffers_size 1k;",
        "proxy_busy_buffers_size 28k;",
        "proxy_busy_buffers_size 29k;",
        "proxy_temp_file_write_size 1k;",
        "proxy_max_temp_file_size 1k;",
        "proxy_max_temp_file_size 0;",
        "proxy_max_temp_file_size 1g;",
        "proxy_limit_rate x;",
        "proxy_limit_rate 10k;",
        "proxy_read_timeout 0;",
        "proxy_read_timeout -1;",
        "proxy_connect_timeout x;",
        "proxy_send_timeout 1ms 2ms;",
        "proxy_send_lowat 1k;",
        "proxy_headers_hash_max_size 0;",
        "proxy_headers_hash_bucket_size x;",
        "proxy_temp_path /tmp/x 1 2 3 4;",
        "fastcgi_buffers 1 4k;",
        "fastcgi_busy_buffers_size 1k;",
        "uwsgi_buffers 2 0;",
        "scgi_busy_buffers_size 29k;",
        "memcached_buffer_size x;",
        "memcached_buffers 2 4k;",
    ];
    same_verdicts_around(AROUND, &lines);
}

#[test]
fn words() {
    let lines = [
        "proxy_bind x;",
        "proxy_bind 127.0.0.1:80;",
        "proxy_bind 127.0.0.1:99999;",
        "proxy_bind 127.0.0.1 x;",
        "proxy_bind off x;",
        "proxy_bind off transparent;",
        "proxy_bind ::1;",
        "proxy_bind [::1]:80;",
        "proxy_bind $remote_addr;",
        "proxy_bind \"\";",
        "proxy_bind localhost;",
        "proxy_bind unix:/x;",
        "proxy_bind 127.0.0.1; proxy_bind off;",
        "proxy_bind 127.0.0.1 transparent x;",
        "proxy_next_upstream error error;",
        "proxy_next_upstream off error;",
        "proxy_next_upstream Error;",
        "proxy_next_upstream not_found;",
        "proxy_next_upstream updating;",
        "proxy_next_upstream;",
        "fastcgi_next_upstream http_502;",
        "uwsgi_next_upstream http_504;",
        "scgi_next_upstream http_503 non_idempotent;",
        "memcached_next_upstream not_found invalid_response;",
        "memcached_next_upstream http_500;",
        "proxy_next_upstream_tries x;",
        "proxy_next_upstream_timeout x;",
        "proxy_store x;",
        "proxy_store on;",
        "proxy_store /x$uri;",
        "proxy_store off; proxy_store on;",
        "proxy_store_access user:x;",
        "proxy_store_access all:r;",
        "proxy_store_access x;",
        "proxy_http_version 1.2;",
        "proxy_http_version 1.0;",
        "proxy_method x;",
        "proxy_method x y;",
        "proxy_set_header X;",
        "proxy_set_header X 1; proxy_set_header X 2;",
        "proxy_set_body x; proxy_set_body y;",
        "proxy_hide_header a b;",
        "proxy_hide_header a; proxy_hide_header A;",
        "proxy_pass_header;",
        "proxy_ignore_headers X;",
        "proxy_ignore_headers Vary Vary;",
        "proxy_ignore_headers x-accel-charset;",
        "proxy_buffering x;",
        "proxy_intercept_errors on off;",
        "proxy_force_ranges 1;",
        "proxy_socket_keepalive on;",
        "if ($arg_x) { proxy_method x; }",
    ];
    same_verdicts_around(AROUND, &lines);
}

#[test]
fn what_is_changed_in_responses() {
    let lines = [
        "proxy_redirect default;",
        "proxy_redirect x;",
        "proxy_redirect off; proxy_redirect default;",
        "proxy_redirect a b; proxy_redirect off;",
        "proxy_redirect off; proxy_redirect a b;",
        "proxy_redirect off x;",
        "proxy_redirect ~a;",
        "proxy_redirect a b c;",
        "proxy_redirect default; proxy_pass http://127.0.0.1;",
        "proxy_pass http://127.0.0.1; proxy_redirect default;",
        "set $a 1; proxy_pass http://$a; proxy_redirect default;",
        "proxy_redirect default x;",
        "proxy_redirect ~*x y;",
        "proxy_redirect ~ y;",
        "proxy_cookie_domain a;",
        "proxy_cookie_domain off;",
        "proxy_cookie_domain off b;",
        "proxy_cookie_domain a b; proxy_cookie_domain off;",
        "proxy_cookie_domain off; proxy_cookie_domain a b;",
        "proxy_cookie_path x;",
        "proxy_cookie_path a b c;",
        "proxy_cookie_flags a;",
        "proxy_cookie_flags a b;",
        "proxy_cookie_flags off;",
        "proxy_cookie_flags a secure nosecure;",
        "proxy_cookie_flags off secure;",
        "proxy_cookie_flags a samesite=x;",
        "proxy_cookie_flags a 1 2 3 4;",
        "proxy_cookie_flags a secure secure; proxy_cookie_flags off;",
    ];
    same_verdicts_around(AROUND, &lines);
}
