//! Whether a difference from nginx concerns what a configuration says, or only what the directive could say.
//!
//! Most differences are such in principle: `listen` differs with `ipv6only=off`, and nearly nobody writes that. A report whose
//! exit code counts both is never 0, and is then looked at by nobody.

use freerun_conf::Node;
use freerun_tls::openssl::ciphers::{evaluate, settle};
use freerun_tls::openssl::groups::ssl_ecdh_curve;
use freerun_tls::openssl::protocols::Protocols;

/// Members of the proxy family: what is said of `proxy_…` holds for their directives as well.
const FAMILY: &[&str] = &["fastcgi_", "uwsgi_", "scgi_", "grpc_", "memcached_", "tunnel_"];

/// Directives whose difference nobody meets by what is written: a bound that is far away, a time, another inner way to the
/// same result, or something that nginx refuses.
const IN_PRINCIPLE: &[&str] = &[
    "access_log",
    "api",
    "auth_basic_user_file",
    "auth_jwt_key_file",
    "auth_request",
    "autoindex",
    "batch_count",
    "batch_size",
    "charset",
    "client_body_in_file_only",
    "client_body_temp_path",
    "dav_ext_lock_zone",
    "disable_symlinks",
    "echo_blocking_sleep",
    "error_page",
    "fancyindex",
    "geoip2",
    "gunzip",
    "gzip_proxied",
    "gzip_static",
    "http3_stream_buffer_size",
    "limit_conn_zone",
    "limit_rate",
    "limit_req_zone",
    "load_module",
    "mirror",
    "mp4_max_buffer_size",
    "num_map",
    "open_file_cache",
    "open_file_cache_valid",
    "open_log_file_cache",
    "otel_span_attr",
    "otel_trace",
    "output_buffers",
    "predicate",
    "proxy_buffer_size",
    "proxy_cache_convert_head",
    "proxy_cache_lock",
    "proxy_cache_purge",
    "proxy_ignore_client_abort",
    "proxy_method",
    "proxy_next_upstream",
    "proxy_pass",
    "proxy_protocol",
    "proxy_redirect",
    "proxy_ssl_certificate_cache",
    "proxy_ssl_conf_command",
    "proxy_ssl_name",
    "proxy_store",
    "proxy_temp_path",
    "quic_gso",
    "quic_host_key",
    "quic_retry",
    "resolver",
    "sendfile",
    "server",
    "server_name",
    "slice",
    "ssi",
    "ssl_certificate_cache",
    "ssl_certificate_key",
    "ssl_conf_command",
    "ssl_session_ticket_key",
    "ssl_session_tickets",
    "ssl_verify_client",
    "sub_filter",
    "subs_filter",
    "tcp_nopush",
    "worker_connections",
    "worker_processes",
    "worker_rlimit_nofile",
    "zstd_comp_level",
];

/// Directives without effect whose absence somebody may notice. Of the others the effect was one on nginx's own memory or
/// tables.
const MISSED: &[&str] = &["debug_connection", "ssl_ech_file"];

/// Whether the difference of this directive concerns what it says. The difference of a directive that is unknown here
/// does.
pub fn differs(node: &Node) -> bool {
    let name = node.name.text.as_str();
    let generic = FAMILY.iter().find_map(|prefix| name.strip_prefix(prefix)).map(|rest| format!("proxy_{rest}"));
    let name = generic.as_deref().unwrap_or(name);
    let has = |test: &dyn Fn(&str) -> bool| node.args.iter().any(|word| test(&word.text));
    match name {
        "aio" => has(&|word| word.starts_with("threads")),
        "error_log" => has(&|word| word.starts_with("syslog:") || word.starts_with("memory:")),
        "dav_methods" => has(&|word| word == "COPY" || word == "MOVE"),
        "fancyindex_show_dotfiles" | "ssl_early_data" => has(&|word| word == "on"),
        "geo" => node.children().iter().any(|entry| entry.name.text == "ranges"),
        "listen" => has(&|word| word == "ipv6only=off"),
        "keyval_zone" => has(&|word| word.starts_with("state=")),
        "more_set_headers" | "more_set_input_headers" | "proxy_set_header" => {
            has(&|word| ["content-length", "transfer-encoding"].iter().any(|field| begins_with(word, field)))
        }
        "proxy_cache_path" => {
            has(&|word| ["loader_", "manager_", "purger_"].iter().any(|parameter| word.starts_with(parameter)))
        }
        "proxy_http_version" => has(&|word| word == "2"),
        "proxy_request_buffering" => has(&|word| word == "off"),
        "ssl_certificate" => has(&|word| word == "auto" || word == "watch" || word.starts_with("watch=")),
        "ssl_certificate_compression" => has(&|word| word == "zstd"),
        "ssl_ciphers" | "proxy_ssl_ciphers" => has(&|word| !has_all_suites(word)),
        "ssl_ecdh_curve" => has(&|word| !has_all_groups(word)),
        "sticky" => has(&|word| word == "learn"),
        "ssl_protocols" | "proxy_ssl_protocols" => has(&|word| ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"].contains(&word)),
        "ssl_session_cache" => has(&|word| word.starts_with("builtin")),
        "use" => has(&|word| word != "epoll"),
        name => !IN_PRINCIPLE.contains(&name),
    }
}

/// Whether somebody may miss the effect of a directive that has none.
pub fn is_missed(node: &Node) -> bool {
    MISSED.contains(&node.name.text.as_str())
}

/// Whether all suites of a cipher string are there.
fn has_all_suites(text: &str) -> bool {
    let settled = evaluate(text).ok().and_then(|list| settle(text, &list, Protocols::DEFAULT).ok());
    settled.is_some_and(|settled| settled.remark.is_none())
}

/// Whether all groups of a list are there.
fn has_all_groups(text: &str) -> bool {
    ssl_ecdh_curve(text).is_ok_and(|(_, remark)| remark.is_none())
}

fn begins_with(word: &str, field: &str) -> bool {
    word.get(..field.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(field))
}

#[cfg(test)]
mod tests {
    use freerun_conf::{Fidelity, OneText};

    use super::*;
    use crate::configuration::registry;

    fn concerned(text: &str) -> bool {
        let tree = freerun_conf::parse("x", None, "", &mut OneText(text));
        differs(&tree.nodes[0])
    }

    #[test]
    fn what_is_written_decides() {
        for (text, expected) in [
            ("sendfile on;", false),
            ("sendfile off;", false),
            ("listen 80;", false),
            ("listen [::]:80 ipv6only=off;", true),
            ("error_log /var/log/nginx/error.log;", false),
            ("error_log syslog:server=log.example;", true),
            ("ssl_certificate a.pem;", false),
            ("ssl_certificate a.pem watch;", true),
            ("ssl_protocols TLSv1.2 TLSv1.3;", false),
            ("ssl_protocols TLSv1.1 TLSv1.2;", true),
            ("grpc_ssl_protocols TLSv1;", true),
            ("proxy_set_header Host $host;", false),
            ("proxy_set_header content-length 0;", true),
            ("fastcgi_cache_path /c keys_zone=c:1m;", false),
            ("fastcgi_cache_path /c keys_zone=c:1m manager_files=1;", true),
            ("geo $g { default 0; }", false),
            ("ssl_ciphers HIGH;", true),
            ("ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:!aNULL;", false),
            ("ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256;", true),
            ("ssl_ecdh_curve X25519:prime256v1:secp384r1;", false),
            ("ssl_ecdh_curve X448;", true),
            ("gzip_proxied any;", false),
            ("load_module modules/ngx_stream_module.so;", false),
            ("proxy_ignore_client_abort off;", false),
            ("sticky cookie a;", false),
            ("use epoll;", false),
        ] {
            assert_eq!(concerned(text), expected, "{text}");
        }
    }

    #[test]
    fn every_name_is_that_of_a_directive_that_differs() {
        for name in IN_PRINCIPLE {
            let mut named = registry().named(name);
            assert!(named.any(|known| matches!(known.fidelity, Fidelity::Differs(_))), "{name}");
        }
        for name in MISSED {
            let mut named = registry().named(name);
            assert!(named.any(|known| matches!(known.fidelity, Fidelity::NoEffect(_))), "{name}");
        }
    }
}
