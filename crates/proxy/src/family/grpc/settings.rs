//! The directives that only `grpc` has.

use freerun_conf::settings;

use crate::family::grpc::pass::GrpcPass;
use crate::family::http::settings::SetHeaders;

settings! {
    /// gRPC: the directives that only this member of the family has.
    ///
    /// The directives that it shares with the others are on [the page of the family](grpc.md).
    ///
    /// Requests go to the servers over HTTP/2, many at a time over each connection if an `upstream` block has the
    /// servers. Messages go both ways as they come: neither the request nor the response is buffered, and nothing is
    /// cached. Trailers of the response, which have the result of a call, are passed on to clients of HTTP/2, and to
    /// clients of HTTP/1.1 behind the last chunk.
    ///
    /// A call that lasts long, such as a stream of events, is subject to four times:
    ///
    /// - `grpc_read_timeout`: the server sends nothing.
    /// - `grpc_send_timeout`: the server takes nothing.
    /// - `client_body_timeout`: the client sends nothing, although the call may still have messages from it.
    /// - `send_timeout`: the client takes nothing.
    ///
    /// Each of them is about the call, and not about the connection that carries it. An answer to a `PING` of HTTP/2
    /// shows that the other side is alive, and does not prolong them, except for the first with `grpc_keepalive_ping
    /// on`. For streams that may be silent for long, set the first and the third to the longest silence that there may
    /// be: `grpc_read_timeout 1h; client_body_timeout 1h;`.
    #[module = "grpc_calls"]
    pub struct GrpcSettings {
        /// Passes requests to a gRPC server: `host:port`, `unix:/path`, the name of an `upstream` block, or variables
        /// that give one of these. In front may stand `grpc://`, which is the default, or `grpcs://` (TLS).
        ///
        /// The server gets the method and the URI as they came, or as `rewrite` has changed them. An `error_page` can
        /// answer an error in the terms of gRPC: `error_page 502 = /unavailable;` leads to `location = /unavailable {
        /// internal; default_type application/grpc; add_header grpc-status 14; return 204; }`. Where the configuration
        /// has no page for an error, [`grpc_errors`](grpc_errors.md#grpc_errors) does so.
        grpc_pass: Option<GrpcPass>, in LOCATION | LOCATION_IF, content,
            fidelity = Differs("a connection carries many calls at a time; names that cannot be found out do not prevent starting");
        /// Whether a call outlives `grpc_read_timeout`, as long as its server is there. The server is asked by a `PING`
        /// of HTTP/2, and has to answer within that time again, or 15 seconds if that is shorter. Anything that it
        /// sends on another call of the connection is an answer, too.
        ///
        /// It is for streams in which nothing may happen for hours. A server whose program hangs may still answer a `PING`, so
        /// calls should have a deadline of their client then.
        grpc_keepalive_ping: bool = "off", in HTTP | SERVER | LOCATION, fidelity = Own;
        /// Sets a field of the request that is passed on; with an empty value the field is left out. These directives are
        /// inherited from an outer level only if a level has none.
        ///
        /// `Host` is sent as `:authority`; if it is not set, it is the name and port in `grpc_pass`. `TE: trailers` is passed on
        /// if the client has sent it.
        grpc_set_header: SetHeaders, in HTTP | SERVER | LOCATION,
            fidelity = Differs("Content-Length always says what the body really is, whatever is set for it; fields that HTTP/2 does not allow are left out; line ends in a value become spaces");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use freerun_conf::{Settings, directive_owners};

    use super::*;
    use crate::settings::PrefixedSettings;
    use crate::settings::members::GrpcDirectives;

    #[test]
    fn it_has_the_directives_that_nginx_has() {
        let all = [PrefixedSettings::<GrpcDirectives>::directives(), GrpcSettings::directives()].concat();
        let here: BTreeSet<&str> = all.iter().map(|directive| directive.name).collect();
        let there = directive_owners::modules()
            .filter(|(module, _)| *module == "ngx_http_grpc_module")
            .flat_map(|(_, names)| names);
        // These are documented for the commercial version alone.
        let commercial = ["grpc_allow_upstream", "grpc_bind_dynamic", "grpc_request_dynamic"];
        assert_eq!(here, there.chain(commercial).chain(["grpc_keepalive_ping"]).collect());
    }
}
