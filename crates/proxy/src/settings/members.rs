//! The members of the family.

use freerun_serve::configuration::compiled_paths;

use crate::settings::member_sets::{FASTCGI, GRPC, MEMCACHED, PROXY, SCGI, TUNNEL, UWSGI};
use crate::settings::{FamilySettings, member};

member! {
    /// Requests passed on over HTTP.
    ///
    /// The directives here are those that all members of the family have; the directives that only this member has are
    /// on [the next page](proxy_http.md).
    pub struct ProxyDirectives: "proxy_", "proxy", PROXY;
}

member! {
    /// Requests passed on over FastCGI: the directives that all members of the family have; the others are on [its own
    /// page](fastcgi_application.md).
    pub struct FastCgiDirectives: "fastcgi_", "fastcgi", FASTCGI, differs &[(
        "request_buffering",
        "a body in chunks is read before it is passed on in any case: an application is told the length",
    )], temp compiled_paths::FASTCGI_TEMP_PATH;
}

member! {
    /// Requests passed on over the uwsgi protocol: the directives that all members of the family have; the others are
    /// on [its own page](uwsgi_application.md).
    pub struct UwsgiDirectives: "uwsgi_", "uwsgi", UWSGI,
        temp compiled_paths::UWSGI_TEMP_PATH;
}

member! {
    /// Requests passed on over SCGI: the directives that all members of the family have; the others are on [its own
    /// page](scgi_application.md).
    pub struct ScgiDirectives: "scgi_", "scgi", SCGI,
        temp compiled_paths::SCGI_TEMP_PATH;
}

member! {
    /// Tunnels for CONNECT: the directives that all members of the family have; the others, and what has to be
    /// restricted, are on [the next page](tunnel_connections.md).
    pub struct TunnelDirectives: "tunnel_", "tunnel", TUNNEL, with |settings: &mut FamilySettings| {
        settings.proxy_pass_request_body = false;
        settings.proxy_pass_request_headers = false;
    };
}

member! {
    /// Responses from memcached: the directives that all members of the family have; the others are on [its own
    /// page](memcached_values.md).
    pub struct MemcachedDirectives: "memcached_", "memcached", MEMCACHED, with |settings: &mut FamilySettings| {
        settings.proxy_buffering = false;
        settings.proxy_pass_request_body = false;
        settings.proxy_pass_request_headers = false;
    };
}

member! {
    /// Requests passed on over gRPC: the directives that all members of the family have; the others are on [its own
    /// page](grpc_calls.md).
    pub struct GrpcDirectives: "grpc_", "grpc", GRPC, with |settings: &mut FamilySettings| {
        settings.proxy_buffering = false;
        settings.proxy_request_buffering = false;
    };
}
