//! The directives of nginx's stream core module.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_core_module.html>

use std::time::Duration;

use freerun_conf::{Many, Size, settings};
use freerun_serve::build::names::ServerNames;

use super::listen::ListenSetting;
use crate::session::Session;

settings! {
    /// The core of stream: sockets, names, the first bytes of a session.
    #[module = "stream/core"]
    pub struct CoreSettings {
        /// Address and port, or a Unix socket, that the server takes sessions at.
        ///
        /// `proxy_protocol` and `ssl` hold for all servers of the address. The other parameters are the same as for
        /// `listen` in `http`.
        ///
        /// With `udp` the server takes datagrams. The datagrams between two addresses are a session: see
        /// `udp_sessions`, `proxy_requests`, `proxy_responses` and `proxy_timeout`. Each loop has a socket of its own,
        /// with `reuseport` and without, so that a client's datagrams always come to the same loop. The ports of a
        /// range have one socket each. With `proxy_protocol`, which nginx does not have for datagrams, each of them
        /// begins with a header of version 2. A Unix socket takes no datagrams.
        listen: Many<ListenSetting>, in STREAM_SERVER, local,
            fidelity = Differs("on an IPv6 socket with `ipv6only=off`, an IPv4 client has its IPv4 address everywhere (`192.0.2.1`), where nginx writes `::ffff:192.0.2.1`");
        /// Names of the server: exact, with a wildcard at one end, or a regular expression after `~`.
        ///
        /// Of the servers of an address, the name decides that the client has sent in its TLS handshake, or in the
        /// ClientHello that `ssl_preread` has read. Without a match the default server is chosen. Until then the
        /// default server has the session: `allow`, `deny` and `limit_conn` are its own.
        server_name: ServerNames<Session>, in STREAM_SERVER, local, since = "1.25.5";
        /// Longest time for a PROXY protocol header to arrive in. A session whose header does not come ends.
        proxy_protocol_timeout: Duration = "30s", in STREAM | STREAM_SERVER;
        /// Number of first bytes that may be read before it is known where a session goes. A session that would need
        /// more ends with status 400.
        preread_buffer_size: Size = "16k", in STREAM | STREAM_SERVER;
        /// Longest time for the first bytes to arrive in that have to be known. A session whose bytes do not come ends.
        preread_timeout: Duration = "30s", in STREAM | STREAM_SERVER;
        /// Whether small segments are sent at once (`TCP_NODELAY`), to the client and to the upstream server.
        tcp_nodelay: bool = "on", in STREAM | STREAM_SERVER;
        /// Number of sessions of datagrams (`listen … udp`) that may be at an address, on all loops together. At the
        /// limit, the session that has been idle longest ends for a new one.
        ///
        /// Each loop has an equal part of them, and of the clients by the hash of their addresses. Sessions count among
        /// `worker_connections` too: where these are fewer, they are the limit, and sessions give way in the same order.
        udp_sessions: u32 = "16384", in STREAM | STREAM_SERVER, fidelity = Own;
        /// Bucket size of the table of server names.
        server_names_hash_bucket_size: u32 = "64", in STREAM, fidelity = NoEffect("tables size themselves"), since = "1.25.5";
        /// Size of the table of server names.
        server_names_hash_max_size: u32 = "512", in STREAM, fidelity = NoEffect("tables size themselves"), since = "1.25.5";
        /// Bucket size of the table of variables.
        variables_hash_bucket_size: u32 = "64", in STREAM, fidelity = NoEffect("tables size themselves");
        /// Size of the table of variables.
        variables_hash_max_size: u32 = "1024", in STREAM, fidelity = NoEffect("tables size themselves");
    }
}
