//! The directives of `proxy_pass` in stream.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Many, Node, Problem, Shape, Size, Value, text_of};
use freerun_serve::tls::upstream::{UpstreamTls, without_port};
use freerun_serve::upstream::{Alpn, Bind, OwnTlv, ProxyProtocol};
use freerun_serve::upstream_settings;
use freerun_serve::values::ComputedBytes;
use freerun_upstream::connect::ConnectOptions;

use super::pass::ProxyPass;
use crate::session::Session;

upstream_settings! {
    /// Sessions that are passed on to another server.
    #[module = "stream/proxy"]
    pub struct ProxySettings<Session> in STREAM | STREAM_SERVER {
        /// The most bytes that are read at a time from a client or server. A session keeps at most this number of bytes
        /// while the other side does not take them, and needs no buffer of its own otherwise. The older names are
        /// `proxy_downstream_buffer` and `proxy_upstream_buffer`.
        proxy_buffer_size: BufferSize = "16k", in STREAM | STREAM_SERVER,
            fidelity = Differs("more is read at a time, up to 128k, from a sender that always has more, if the receiver certainly has room for it; datagrams are not cut to the size");
        /// The longest time for connecting to an upstream server, and for the handshake of TLS with it.
        proxy_connect_timeout: Duration = "60s", in STREAM | STREAM_SERVER;
        /// The most bytes a second that are read from the upstream server, for each session; 0 is no limit. Whole seconds
        /// count, as in nginx. The value may have variables.
        proxy_download_rate: ComputedBytes<Session> = "0", in STREAM | STREAM_SERVER;
        /// Whether each side may end its direction before the other does (TCP half-close): the session goes on until both
        /// have ended. Otherwise it is over when one of them has, and the other one has its bytes.
        proxy_half_close: bool = "off", in STREAM | STREAM_SERVER;
        /// Whether the session is passed to the next server of the group if one cannot be connected to.
        ///
        /// Whether a server takes datagrams shows only when one was sent. A server that refuses them ends the session
        /// with status 502, which counts as a failure; the client's next datagram begins a session with another server.
        proxy_next_upstream: bool = "on", in STREAM | STREAM_SERVER, fidelity = Differs("in nginx a session whose server refuses a datagram goes on until the client sends the next one, and the client gets an empty datagram");
        /// The upstream server of the sessions: an address or name with a port, `unix:` and the path of a Unix socket, or the
        /// name of an `upstream` block. It may have variables; a name that they give is looked up with `resolver`.
        proxy_pass: Option<ProxyPass>, in STREAM_SERVER, local;
        /// Begins each connection to an upstream server with a header of the PROXY protocol, which names the client: version
        /// 1 (`on`, `1`) or 2 (`2`).
        ///
        /// A header of version 2 has a checksum (CRC32c). If the client has connected with TLS, it also has the
        /// protocol that was agreed on (ALPN) and the name that the client has asked for (authority). Of the session it
        /// has version, common name, cipher and algorithms. `proxy_protocol_tlv` adds fields. If the addresses of the
        /// client and of this server are of different families, the IPv4 address is mapped into IPv6.
        ///
        /// The first datagram of a session begins with a header of version 1, as in nginx. With version 2 each datagram
        /// begins with a header, which says that it is about datagrams: servers such as BIND, PowerDNS, Unbound and
        /// dnsdist expect it so.
        proxy_protocol: ProxyProtocol = "off", in STREAM | STREAM_SERVER,
            fidelity = Differs("nginx has no version 2 for datagrams");
        /// Adds a field to headers of version 2: its type and its value. The type is a name (`alpn`, `authority`,
        /// `unique_id`, `netns`) or a number such as `0xe0`; the value may have variables. It replaces the field of
        /// this type that the header would have by itself. A field with an empty value is left out.
        proxy_protocol_tlv: Many<OwnTlv<Session>>, in STREAM | STREAM_SERVER, fidelity = Own;
        /// Number of datagrams of a client that make a session; the next one begins another session. The session itself
        /// goes on until its answers have come (`proxy_responses`), or `proxy_timeout` is over. 0 is no limit.
        proxy_requests: u64 = "0", in STREAM | STREAM_SERVER;
        /// Number of datagrams expected from the upstream server for each client datagram. The session ends when it has
        /// received them and the client has sent `proxy_requests` datagrams. With 0 no answer is awaited. By default
        /// there is no limit, and sessions of datagrams end by `proxy_timeout`.
        proxy_responses: Option<u64>, in STREAM | STREAM_SERVER;
        /// Whether sessions end whose server is no longer in its group, or is found unhealthy by a `health_check`. It is looked at
        /// whenever something is read or written. In nginx the directive is part of the commercial subscription.
        proxy_session_drop: bool = "off", in STREAM | STREAM_SERVER;
        /// Whether servers are spoken to with TLS.
        proxy_ssl: bool = "off", in STREAM | STREAM_SERVER;
        /// The protocols that servers are offered (ALPN), best first. Each may have variables; empty ones are left out.
        proxy_ssl_alpn: Alpn<Session>, in STREAM | STREAM_SERVER, since = "1.31.0";
        /// The longest time in which nothing is read and nothing is written; then the session ends.
        proxy_timeout: Duration = "10m", in STREAM | STREAM_SERVER;
        /// The most bytes a second that are read from the client, for each session; 0 is no limit. Whole seconds count, as in
        /// nginx. The value may have variables. Datagrams beyond it are lost, as in nginx; `status` counts them.
        proxy_upload_rate: ComputedBytes<Session> = "0", in STREAM | STREAM_SERVER;
    }
    also {
        /// The older name of `proxy_buffer_size`.
        "proxy_downstream_buffer" => proxy_buffer_size: Shape::exactly(1, "size"), in STREAM | STREAM_SERVER;
        /// The older name of `proxy_buffer_size`.
        "proxy_upstream_buffer" => proxy_buffer_size: Shape::exactly(1, "size"), in STREAM | STREAM_SERVER;
    }
}

/// The value of `proxy_buffer_size`, which has older names.
#[derive(Debug, Clone, Copy)]
pub struct BufferSize(pub u64);

impl Value for BufferSize {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<BufferSize, Problem> {
        let size = Size::parse(directive, cx)?;
        let name = directive.name.text.as_str();
        if name != "proxy_buffer_size" && name.starts_with("proxy_") {
            let message =
                format!("the \"{name}\" directive is deprecated, use the \"proxy_buffer_size\" directive instead");
            cx.warn(Problem::warning(message).at_node(directive));
        }
        Ok(BufferSize(size.0))
    }
}

impl ProxySettings {
    /// The settings of connections that are made for no session: of variables in `proxy_bind` nothing is known.
    pub fn fixed_options(&self) -> ConnectOptions {
        self.connect_from(match self.proxy_bind {
            Bind::Fixed(local) => Some(local),
            Bind::Off | Bind::Computed { .. } => None,
        })
    }

    /// The name that servers are told, and that their certificates have to be for, if there is no session: of variables in
    /// `proxy_ssl_name` nothing is known.
    pub fn fixed_tls_name(&self) -> String {
        let own = self.proxy_ssl_name.as_ref().and_then(|name| name.constant());
        match (own, &self.proxy_pass) {
            (Some(name), _) => without_port(&text_of(name)).to_owned(),
            (None, Some(pass)) => without_port(pass.written()).to_owned(),
            (None, None) => String::new(),
        }
    }

    /// The parameters of TLS sessions with servers.
    ///
    /// # Errors
    /// The directives contradict each other, or a file cannot be used, in nginx's words.
    pub(super) fn upstream_tls(&self, cx: &mut Cx) -> Result<Arc<UpstreamTls>, Problem> {
        UpstreamTls::of(self.tls_spec("proxy_", self.proxy_ssl_alpn.fixed()), cx)
    }
}
