//! The directives of TLS: what nginx says of their arguments is said here, too.

use crate::runner::{Both, compare_verdicts};

#[test]
fn arguments_are_checked() {
    let lines = [
        "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;",
        "ssl_protocols TLSv1.2; ssl_protocols TLSv1.3;",
        "ssl_protocols TLSv1.4;",
        "ssl_protocols;",
        "ssl_prefer_server_ciphers on;",
        "ssl_prefer_server_ciphers yes;",
        "ssl_prefer_server_ciphers on; ssl_prefer_server_ciphers on;",
        "ssl_ciphers HIGH; ssl_ciphers LOW;",
        "ssl_certificate_key /none; ssl_certificate_key /none2;",
        "ssl_session_timeout 1d;",
        "ssl_session_timeout 10ms;",
        "ssl_session_cache shared:a:10m;",
        "ssl_session_cache builtin:100 shared:a:32k;",
        "ssl_session_cache builtin:x;",
        "ssl_session_cache shared:a:31k;",
        "ssl_session_cache shared::1m;",
        "ssl_session_cache shared:a;",
        "ssl_session_cache shared;",
        "ssl_session_cache none none none;",
        "ssl_ocsp_cache shared:a:1m;",
        "ssl_ocsp_cache shared:a:1k;",
        "ssl_ocsp_cache none;",
        "ssl_ocsp leaf;",
        "ssl_ocsp twig;",
        "ssl_verify_client optional_no_ca;",
        "ssl_verify_client maybe;",
        "ssl_verify_depth 2;",
        "ssl_verify_depth -1;",
        "ssl_buffer_size 4k;",
        "ssl_buffer_size x;",
        "ssl_conf_command a;",
        "ssl_conf_command a b; ssl_conf_command c d;",
        "ssl_dhparam /none;",
        "ssl_crl /a /b;",
        "ssl_stapling on; ssl_stapling_verify on; ssl_trusted_certificate /none; ssl_stapling_responder http://a/;",
        "proxy_ssl_verify on; proxy_ssl_verify_depth 2; proxy_ssl_name $host; proxy_ssl_server_name on;",
        "proxy_ssl_verify x;",
        "proxy_ssl_verify_depth x;",
        "proxy_ssl_protocols TLSv2;",
        "location /in { ssl_protocols TLSv1.2; }",
        "location /in { proxy_ssl_protocols TLSv1.2; }",
    ];
    let text = |line: &str| {
        format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@;\n{line}\nlocation / {{ }} }} }}\n")
    };
    // Warnings do not count.
    compare_verdicts(lines.iter().map(|line| (line, text(line))), |_, Both { nginx, freerun }| {
        nginx.code == freerun.code && nginx.errors() == freerun.errors()
    });
}
