//! The members of the family.

use freerun_serve::configuration::compiled;

use crate::settings::{FamilySettings, member};

member! {
    /// Requests passed on over HTTP.
    ///
    /// The directives here are those that all members of the family have; the directives that only this member has are
    /// on [the next page](proxy_http.md).
    pub struct Proxy: "proxy_", "proxy", lacks &[];
}

member! {
    /// Requests passed on over FastCGI: the directives that all members of the family have; the others are on [its own
    /// page](fastcgi_application.md).
    pub struct FastCgi: "fastcgi_", "fastcgi", lacks &["cache_convert_head", "ssl_*"], differs &[(
        "request_buffering",
        "a body in chunks is read before it is passed on in any case: an application is told the length",
    )], temp compiled::FASTCGI_TEMP_PATH;
}

member! {
    /// Requests passed on over the uwsgi protocol: the directives that all members of the family have; the others are
    /// on [its own page](uwsgi_application.md).
    pub struct Uwsgi: "uwsgi_", "uwsgi", lacks &["cache_convert_head", "send_lowat"],
        temp compiled::UWSGI_TEMP_PATH;
}

member! {
    /// Requests passed on over SCGI: the directives that all members of the family have; the others are on [its own
    /// page](scgi_application.md).
    pub struct Scgi: "scgi_", "scgi", lacks &["cache_convert_head", "send_lowat", "ssl_*"],
        temp compiled::SCGI_TEMP_PATH;
}

member! {
    /// Tunnels for CONNECT: the directives that all members of the family have; the others, and what has to be
    /// restricted, are on [the next page](tunnel_connections.md).
    pub struct Tunnel: "tunnel_", "tunnel", lacks &[
        "buffer_size", "buffering", "buffers", "busy_buffers_size", "cache*", "no_cache", "force_ranges", "hide_header",
        "ignore_client_abort", "ignore_headers", "intercept_errors", "limit_rate", "max_temp_file_size", "next_upstream",
        "pass_header", "pass_request_body", "pass_request_headers", "read_timeout", "request_buffering",
        "request_dynamic", "ssl_*", "store", "store_access", "temp_file_write_size", "temp_path",
    ], with |settings: &mut FamilySettings| {
        settings.proxy_pass_request_body = false;
        settings.proxy_pass_request_headers = false;
    };
}

member! {
    /// Responses from memcached: the directives that all members of the family have; the others are on [its own
    /// page](memcached_values.md).
    pub struct Memcached: "memcached_", "memcached", lacks &[
        "buffering", "buffers", "busy_buffers_size", "cache*", "no_cache", "force_ranges", "hide_header", "ignore_client_abort",
        "ignore_headers", "intercept_errors", "limit_rate", "max_temp_file_size", "pass_header", "pass_request_body",
        "pass_request_headers", "request_buffering", "request_dynamic", "send_lowat", "ssl_*", "store", "store_access", "temp_file_write_size",
        "temp_path",
    ], with |settings: &mut FamilySettings| {
        settings.proxy_buffering = false;
        settings.proxy_pass_request_body = false;
        settings.proxy_pass_request_headers = false;
    };
}

member! {
    /// Requests passed on over gRPC: the directives that all members of the family have; the others are on [its own
    /// page](grpc_calls.md).
    pub struct Grpc: "grpc_", "grpc", lacks &[
        "buffering", "buffers", "busy_buffers_size", "cache*", "no_cache", "force_ranges", "ignore_client_abort", "limit_rate",
        "max_temp_file_size", "pass_request_body", "pass_request_headers", "request_buffering", "send_lowat", "store",
        "store_access", "temp_file_write_size", "temp_path",
    ], with |settings: &mut FamilySettings| {
        settings.proxy_buffering = false;
        settings.proxy_request_buffering = false;
    };
}
