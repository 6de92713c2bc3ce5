//! The directives of `proxy_pass` in stream.

use std::time::Duration;

use freerun_conf::{Cx, Many, Node, Problem, Shape, Size, Value, settings};
use freerun_serve::tls::key_log::KeyLogPath;
use freerun_serve::tls::upstream::{UpstreamSpec, without_port};
use freerun_serve::tls::values::{
    CertificateCacheValue, ComputedFile, ConfCommand, FileName, Listed, PasswordFile, ProtocolSet,
};
use freerun_serve::upstream::{Alpn, Bind, Local, OwnTlv, ProxyProtocol};
use freerun_serve::values::{ComputedBytes, Template};
use freerun_upstream::connect::ConnectOptions;

use super::pass::ProxyPass;
use crate::session::Session;

settings! {
    /// Sessions that are passed on to another server.
    #[module = "stream/proxy"]
    pub struct ProxySettings {
        /// The local address of connections to upstream servers: an address, optionally with a port, or variables. With
        /// `transparent` it may be an address of another machine, such as the client's. `off` cancels the value of an
        /// outer level.
        proxy_bind: Bind<Session> = "off", in STREAM | STREAM_SERVER;
        /// Whether variables in `proxy_bind` are evaluated for each server that is asked, instead of once for a session.
        proxy_bind_dynamic: bool = "off", in STREAM | STREAM_SERVER, since = "1.29.3";
        /// The most bytes that are read at a time from a client or server. A session keeps so many of those that the other
        /// side does not take, and needs no buffer of its own otherwise. The older names are `proxy_downstream_buffer` and
        /// `proxy_upstream_buffer`.
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
        /// Whether a server takes datagrams shows only when one was sent. One that refuses them ends the session with status 502
        /// and counts as a failure; the client's next datagram begins a session with another server.
        proxy_next_upstream: bool = "on", in STREAM | STREAM_SERVER, fidelity = Differs("in nginx a session whose server refuses a datagram goes on until the client sends the next one, and the client gets an empty datagram");
        /// How long a session may be passed to a next server; 0 is no limit.
        proxy_next_upstream_timeout: Duration = "0", in STREAM | STREAM_SERVER;
        /// How many servers a session may be passed to; 0 is no limit.
        proxy_next_upstream_tries: u32 = "0", in STREAM | STREAM_SERVER;
        /// The upstream server of the sessions: an address or name with a port, `unix:` and the path of a Unix socket, or the
        /// name of an `upstream` block. It may have variables; a name that they give is looked up with `resolver`.
        proxy_pass: Option<ProxyPass>, in STREAM_SERVER, local;
        /// Begins each connection to an upstream server with a header of the PROXY protocol, which names the client: version
        /// 1 (`on`, `1`) or 2 (`2`).
        ///
        /// A header of version 2 has a checksum (CRC32c) and, if the client has connected with TLS, the protocol that was
        /// agreed on (ALPN), the name that it has asked for (authority), and version, common name, cipher and algorithms of
        /// its session. `proxy_protocol_tlv` adds fields. If the addresses of the client and of this server are of different
        /// families, that of IPv4 is mapped into IPv6.
        ///
        /// Of datagrams the first one of a session begins with a header of version 1, as in nginx, and each one with a header of
        /// version 2, which says that it is about datagrams: servers such as BIND, PowerDNS, Unbound and dnsdist expect it so.
        proxy_protocol: ProxyProtocol = "off", in STREAM | STREAM_SERVER,
            fidelity = Differs("nginx has no version 2 for datagrams");
        /// Adds a field to headers of version 2: its type, which is a name (`alpn`, `authority`, `unique_id`, `netns`) or a
        /// number such as `0xe0`, and its value, which may have variables. It replaces the field of this type that the header
        /// would have by itself. A field with an empty value is left out.
        proxy_protocol_tlv: Many<OwnTlv<Session>>, in STREAM | STREAM_SERVER, fidelity = Own;
        /// How many datagrams of a client make a session; the next one begins another one. The session itself goes on until its
        /// answers have come (`proxy_responses`), or `proxy_timeout` is over. 0 is no limit.
        proxy_requests: u64 = "0", in STREAM | STREAM_SERVER;
        /// How many datagrams an upstream server answers each of a client's with; then the session is over, if it has as many of
        /// the client's as `proxy_requests` says. With 0 no answer is awaited. By default there is no limit, and sessions of
        /// datagrams end by `proxy_timeout`.
        proxy_responses: Option<u64>, in STREAM | STREAM_SERVER;
        /// Whether sessions end whose server is no longer in its group, or is found unhealthy by a `health_check`. It is looked at
        /// whenever something is read or written. In nginx the directive is part of the commercial subscription.
        proxy_session_drop: bool = "off", in STREAM | STREAM_SERVER;
        /// Whether the kernel probes connections to upstream servers (`SO_KEEPALIVE`).
        proxy_socket_keepalive: bool = "off", in STREAM | STREAM_SERVER;
        /// The size of the receive buffer of connections to upstream servers (`SO_RCVBUF`); by default the kernel's choice.
        proxy_socket_rcvbuf: Option<Size>, in STREAM | STREAM_SERVER, since = "1.31.3";
        /// The size of the send buffer of connections to upstream servers (`SO_SNDBUF`); by default the kernel's choice.
        proxy_socket_sndbuf: Option<Size>, in STREAM | STREAM_SERVER, since = "1.31.3";
        /// Whether servers are spoken to with TLS.
        proxy_ssl: bool = "off", in STREAM | STREAM_SERVER;
        /// The protocols that servers are offered (ALPN), best first. Each may have variables; empty ones are left out.
        proxy_ssl_alpn: Alpn<Session>, in STREAM | STREAM_SERVER, since = "1.31.0";
        /// A file with the certificate that upstream servers get which ask for one. An empty value cancels that of an outer
        /// level.
        ///
        /// If the name has variables, sessions are resumed only as long as `proxy_ssl_certificate_cache` keeps the certificate,
        /// and not at all where `proxy_ssl_conf_command` says by which algorithms it may sign.
        proxy_ssl_certificate: Option<ComputedFile<Template<Session>>>, in STREAM | STREAM_SERVER;
        /// Keeps certificates whose names have variables in memory.
        proxy_ssl_certificate_cache: CertificateCacheValue = "off", in STREAM | STREAM_SERVER, since = "1.27.4";
        /// A file with the key of the certificate.
        proxy_ssl_certificate_key: Option<ComputedFile<Template<Session>>>, in STREAM | STREAM_SERVER;
        /// The ciphers that are allowed, in OpenSSL's syntax.
        proxy_ssl_ciphers: Listed = "DEFAULT", in STREAM | STREAM_SERVER, fidelity = Differs("suites with forward secrecy and authenticated encryption alone are there");
        /// A command for OpenSSL.
        proxy_ssl_conf_command: Many<ConfCommand>, in STREAM | STREAM_SERVER, fidelity = Differs("what is not there is named by a warning");
        /// A file with revoked certificates.
        proxy_ssl_crl: Option<FileName>, in STREAM | STREAM_SERVER;
        /// A file for the secrets of sessions with upstream servers, in the format of `SSLKEYLOGFILE`, which Wireshark reads.
        ///
        /// **Who reads this file can decrypt the sessions**: see `ssl_key_log`, which has the same rules. In nginx the directive
        /// is part of the commercial subscription.
        proxy_ssl_key_log: Option<KeyLogPath>, in STREAM | STREAM_SERVER, since = "1.27.2";
        /// The name that the server's certificate has to have, and that is sent with `proxy_ssl_server_name`. Without the
        /// directive it is the host in `proxy_pass`.
        proxy_ssl_name: Option<Template<Session>>, in STREAM | STREAM_SERVER, fidelity = Differs("with `proxy_ssl_server_name`, a name that DNS could not have is an error");
        /// A file with the passwords of keys, one a line.
        proxy_ssl_password_file: Option<PasswordFile>, in STREAM | STREAM_SERVER;
        /// The versions of the protocol that are allowed.
        proxy_ssl_protocols: ProtocolSet = "TLSv1.2 TLSv1.3", in STREAM | STREAM_SERVER, fidelity = Differs("TLS 1.2 and 1.3 alone are there; a connection of TLS 1.2 with AES-GCM ends after 2^24 records of one side");
        /// Whether the name is sent, so that a server with several names can choose its certificate (SNI).
        proxy_ssl_server_name: bool = "off", in STREAM | STREAM_SERVER;
        /// Whether sessions are resumed.
        proxy_ssl_session_reuse: bool = "on", in STREAM | STREAM_SERVER;
        /// A file with the certificate authorities that are trusted.
        proxy_ssl_trusted_certificate: Option<FileName>, in STREAM | STREAM_SERVER;
        /// Whether the server's certificate is verified.
        proxy_ssl_verify: bool = "off", in STREAM | STREAM_SERVER;
        /// The longest chain of certificates from the server's to an authority.
        proxy_ssl_verify_depth: u32 = "1", in STREAM | STREAM_SERVER;
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

/// The prefix of the directives.
const PREFIX: &str = "proxy_";

/// A number of bytes as a length in memory.
fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

impl ProxySettings {
    /// The settings of connections for this local address.
    pub(super) fn options(&self, local: Option<Local>) -> ConnectOptions {
        ConnectOptions {
            bind: local.map(|local| local.address),
            transparent: local.is_some_and(|local| local.transparent),
            sndbuf: self.proxy_socket_sndbuf.map(bytes),
            rcvbuf: self.proxy_socket_rcvbuf.map(bytes),
            keepalive: self.proxy_socket_keepalive,
            nodelay: false,
        }
    }

    /// The settings of connections that are made for no session: of variables in `proxy_bind` nothing is known.
    pub fn fixed_options(&self) -> ConnectOptions {
        self.options(match self.proxy_bind {
            Bind::Fixed(local) => Some(local),
            Bind::Off | Bind::Computed { .. } => None,
        })
    }

    /// The name that servers are told, and that their certificates have to be for, if there is no session: of variables in
    /// `proxy_ssl_name` nothing is known.
    pub fn fixed_tls_name(&self) -> String {
        let own = self.proxy_ssl_name.as_ref().and_then(|name| name.constant());
        match (own, &self.proxy_pass) {
            (Some(name), _) => without_port(&String::from_utf8_lossy(name)).to_owned(),
            (None, Some(pass)) => without_port(pass.written()).to_owned(),
            (None, None) => String::new(),
        }
    }

    /// What the directives of TLS say.
    pub(super) fn tls_spec(&self) -> UpstreamSpec {
        UpstreamSpec {
            prefix: PREFIX,
            certificate: self.proxy_ssl_certificate.as_ref().map(|file| file.name.clone()),
            key: self.proxy_ssl_certificate_key.as_ref().map(|file| file.name.clone()),
            certificate_cache: self.proxy_ssl_certificate_cache.0,
            passwords: self.proxy_ssl_password_file.clone(),
            protocols: self.proxy_ssl_protocols,
            ciphers: self.proxy_ssl_ciphers.clone(),
            commands: self.proxy_ssl_conf_command.to_vec(),
            verify: self.proxy_ssl_verify,
            depth: self.proxy_ssl_verify_depth,
            trusted: self.proxy_ssl_trusted_certificate.clone(),
            lists: self.proxy_ssl_crl.clone(),
            server_name: self.proxy_ssl_server_name,
            session_reuse: self.proxy_ssl_session_reuse,
            key_log: self.proxy_ssl_key_log.clone(),
            alpn: self.proxy_ssl_alpn.fixed(),
        }
    }
}
