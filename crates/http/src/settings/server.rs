//! Settings of the core that a server has before a location is chosen.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::{Buffers, Many, Size, settings};

use crate::request::Request;
use crate::settings::listen::ListenSetting;
use crate::values::conditions::Conditions;
use freerun_serve::build::names::ServerNames;
use freerun_serve::listen::ListenSpec;

settings! {
    /// The HTTP core: sockets, names and request heads.
    #[module = "server"]
    pub struct ServerSettings {
        /// Address and port, or a Unix socket, that the server accepts connections on.
        ///
        /// `accept_filter` has no effect: it is for other systems, and a warning says so, as nginx does on Linux.
        listen: Many<ListenSetting>, in SERVER, local,
            fidelity = Differs("on an IPv6 socket with `ipv6only=off`, an IPv4 client has its IPv4 address everywhere (`192.0.2.1`), where nginx writes `::ffff:192.0.2.1`");
        /// Names of the server: exact, with a wildcard at one end, or a regular expression after `~`.
        ///
        /// The `Host` of a request has to be a host by RFC 3986, or it is answered with 400.
        server_name: ServerNames<Request>, in SERVER, local,
            fidelity = Differs("`Host: []`, an address in brackets that is none, is answered with 400, as RFC 9112 section 3.2 asks for");
        /// Longest time for a request head to arrive in.
        client_header_timeout: Duration = "60s", in HTTP | SERVER;
        /// Conditions under which the body of a request is read before anything else is done with the request: any
        /// value that is not empty and not `0`. Its variables are then known to all that follows: `$request_body` in
        /// `map`, `if`, `return` and the log, in every location.
        ///
        /// The location is not chosen yet, so `client_max_body_size`, `client_body_buffer_size`, `client_body_timeout`
        /// and `client_body_temp_path` of the server hold, and `client_body_in_file_only` has no effect. A body that is
        /// larger than the buffer goes to a file and `$request_body` is empty: give both sizes the same value to have
        /// it in any case. Nothing of a body that is read early is passed on before it is complete, whatever
        /// `proxy_request_buffering` says: name only the requests that need it, by `$http_content_type`, say.
        client_body_early_read: Conditions<Request>, in HTTP | SERVER, since = "1.31.5";
        /// The first buffer for a request head.
        client_header_buffer_size: Size = "1k", in HTTP | SERVER;
        /// The number and the size of further buffers that a large head may use: the request line and each field must
        /// fit one.
        large_client_header_buffers: Buffers = "4 8k", in HTTP | SERVER;
        /// The most fields a request head may have, ignored ones included; one with more is answered with 400. 0 is no
        /// limit.
        ///
        /// A head is read by the limit of the address's default server, and then judged by the limit of the chosen
        /// server.
        max_headers: u32 = "1000", in HTTP | SERVER, since = "1.29.8";
        /// Whether fields with invalid names are ignored; otherwise they are kept.
        ///
        /// The setting of the server that is chosen holds for all fields of the request; in nginx, for the fields behind `Host`.
        ignore_invalid_headers: bool = "on", in HTTP | SERVER;
        /// Whether a field name may have an underscore.
        ///
        /// The setting of the server that is chosen holds for all fields of the request; in nginx, for the fields behind `Host`.
        underscores_in_headers: bool = "off", in HTTP | SERVER;
        /// Whether several slashes in a row count as one.
        merge_slashes: bool = "on", in HTTP | SERVER;
        /// Memory for a connection.
        connection_pool_size: Size = "512", in HTTP | SERVER, fidelity = NoEffect("there are no such pools");
        /// Memory for a request.
        request_pool_size: Size = "4k", in HTTP | SERVER, fidelity = NoEffect("there are no such pools");
        /// Bucket size of the table of server names.
        server_names_hash_bucket_size: u32 = "64", in HTTP, fidelity = NoEffect("tables size themselves");
        /// Size of the table of server names.
        server_names_hash_max_size: u32 = "512", in HTTP, fidelity = NoEffect("tables size themselves");
        /// Bucket size of the table of media types.
        types_hash_bucket_size: u32 = "64", in HTTP | SERVER | LOCATION, fidelity = NoEffect("tables size themselves");
        /// Size of the table of media types.
        types_hash_max_size: u32 = "1024", in HTTP | SERVER | LOCATION, fidelity = NoEffect("tables size themselves");
        /// Bucket size of the table of variables.
        variables_hash_bucket_size: u32 = "64", in HTTP, fidelity = NoEffect("tables size themselves");
        /// Size of the table of variables.
        variables_hash_max_size: u32 = "1024", in HTTP, fidelity = NoEffect("tables size themselves");
        /// Whether a connection is closed with a reset if its client took nothing for `send_timeout`, sent nothing for
        /// `client_body_timeout`, or was answered with 444. The bytes that the socket still holds are dropped at once.
        reset_timedout_connection: bool = "off", in HTTP | SERVER | LOCATION;
    }
}

impl ServerSettings {
    /// The value of `Alt-Svc` (RFC 7838 section 3) that names the ports of `listen … quic alt_svc`, each once.
    pub fn alt_svc(&self) -> Option<Bytes> {
        let mut ports = HashSet::new();
        let mut value = String::new();
        let listens = self.listen.iter().filter_map(|listen| Some((listen.protocols.alt_svc?, listen)));
        for (time, address) in listens.flat_map(|(time, listen)| listen.specs.iter().map(move |spec| (time, spec.ip))) {
            let Some(port) = address.map(|address| address.port()).filter(|port| ports.insert(*port)) else { continue };
            let comma = if value.is_empty() { "" } else { ", " };
            // What is written to a string arrives.
            let _ = write!(value, "{comma}h3=\":{port}\"; ma={}", time.as_secs());
        }
        (!value.is_empty()).then(|| Bytes::from(value))
    }

    /// Whether a server with these settings of its own listens at an address of others than this machine. One without `listen`
    /// does so at all addresses.
    pub fn is_reachable(&self) -> bool {
        let is_own = |spec: &ListenSpec| spec.ip.is_none_or(|address| address.ip().to_canonical().is_loopback());
        self.listen.is_empty() || self.listen.iter().flat_map(|listen| &listen.specs).any(|spec| !is_own(spec))
    }
}
