//! The settings of a request that are not rows of the table as they stand.

use std::time::Duration;

use freerun_conf::Flags;
use freerun_http::request::Request;
use freerun_http::request::response::MakeTrailers;
use freerun_serve::upstream::Bind;
use freerun_upstream::connect::ConnectOptions;

use crate::settings::FamilySettings;
use crate::settings::next::NextUpstream;

/// The settings that a member has in its own way, or that depend on the request. All others are read in the table.
#[derive(Debug, Clone)]
pub struct Options {
    /// The value of `proxy_read_timeout`, between two reads. `tunnel` has a row of its own for it.
    pub read_timeout: Duration,
    /// The value of `proxy_next_upstream`. `tunnel` has a row of its own for it.
    pub next_upstream: Flags<NextUpstream>,
    /// The function that passes trailers on, if `proxy_pass_trailers` is on.
    pub pass_trailers: Option<MakeTrailers>,
    /// Whether a silent server is kept after `read_timeout`, as long as it answers the question whether it is there:
    /// with HTTP/2, for streams that may be silent for long.
    pub kept_by_ping: bool,
    /// The request asks for a tunnel to the server and for nothing else (CONNECT).
    pub tunnel: Option<TunnelOptions>,
    /// The values of `proxy_bind` for this request, and of `proxy_socket_*`, without `tcp_nodelay`. `None`: none of
    /// them is set.
    pub connect: Option<Box<ConnectOptions>>,
}

/// The settings of a tunnel that CONNECT has opened.
#[derive(Debug, Clone, Copy)]
pub struct TunnelOptions {
    /// The value of `tunnel_buffer_size`: the most bytes that are read at a time.
    pub piece: usize,
}

impl FamilySettings {
    /// The options for this request. Those that only one member has (`pass_trailers`, `kept_by_ping`, `tunnel`) are left
    /// out.
    #[inline]
    pub fn options(&self, request: &Request) -> Options {
        Options {
            read_timeout: self.proxy_read_timeout,
            next_upstream: self.proxy_next_upstream.0,
            pass_trailers: None,
            kept_by_ping: false,
            tunnel: None,
            connect: self.connect_options(request),
        }
    }

    /// The options of connections for this request.
    #[inline]
    pub fn connect_options(&self, request: &Request) -> Option<Box<ConnectOptions>> {
        let sizes = (self.proxy_socket_sndbuf, self.proxy_socket_rcvbuf);
        match (&self.proxy_bind, sizes, self.proxy_socket_keepalive) {
            (Bind::Off, (None, None), false) => None,
            _ => Some(self.unusual_connect_options(request)),
        }
    }

    #[cold]
    fn unusual_connect_options(&self, request: &Request) -> Box<ConnectOptions> {
        Box::new(self.connect_from(self.proxy_bind.of(request)))
    }
}
