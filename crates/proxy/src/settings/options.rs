//! The settings that `client/` uses.

use std::time::Duration;

use freerun_conf::Flags;
use freerun_http::request::Request;
use freerun_http::request::response::MakeTrailers;
use freerun_serve::upstream::Bind;
use freerun_upstream::connect::ConnectOptions;

use crate::settings::FamilySettings;
use crate::settings::next::NextUpstream;

/// The settings of a member that `client/` uses, read once for each request. The fields have the names of the
/// directives.
#[derive(Debug, Clone)]
pub struct Options {
    /// The value of `proxy_connect_timeout`.
    pub connect_timeout: Duration,
    /// The value of `proxy_send_timeout`, between two writes.
    pub send_timeout: Duration,
    /// The value of `proxy_read_timeout`, between two reads.
    pub read_timeout: Duration,
    /// The value of `proxy_next_upstream`.
    pub next_upstream: Flags<NextUpstream>,
    /// The value of `proxy_next_upstream_tries`; 0: no limit.
    pub next_upstream_tries: u32,
    /// The value of `proxy_next_upstream_timeout`; 0: no limit.
    pub next_upstream_timeout: Duration,
    /// The value of `proxy_request_buffering`.
    pub request_buffering: bool,
    /// The value of `proxy_buffering`.
    pub buffering: bool,
    /// The value of `proxy_buffer_size`.
    pub buffer_size: usize,
    /// The value of `proxy_buffers`: number times size.
    pub buffers: usize,
    /// The value of `proxy_max_temp_file_size`; 0: no file.
    pub max_temp_file_size: u64,
    /// The value of `proxy_temp_file_write_size`.
    pub temp_file_write_size: usize,
    /// The value of `proxy_intercept_errors`.
    pub intercept_errors: bool,
    /// The value of `proxy_ignore_client_abort`.
    pub ignore_client_abort: bool,
    /// The function that passes trailers on, if `proxy_pass_trailers` is on.
    pub pass_trailers: Option<MakeTrailers>,
    /// Whether a server that is silent for longer than `read_timeout` is not given up, as long as it answers when it is asked
    /// whether it is there: with HTTP/2, for streams that may be silent for long.
    pub kept_by_ping: bool,
    /// The value of `proxy_force_ranges`.
    pub force_ranges: bool,
    /// The request asks for a tunnel to the server and for nothing else (CONNECT).
    pub tunnel: Option<TunnelOptions>,
    /// Whether there is a `proxy_allow_upstream`.
    pub conditional: bool,
    /// The value of `proxy_request_dynamic`.
    pub request_dynamic: bool,
    /// The value of `proxy_bind_dynamic`: `connect` is made anew for each try.
    pub bind_dynamic: bool,
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

/// A number of bytes as a length in memory.
fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

impl FamilySettings {
    /// The settings for this request. The settings that only one member has (`pass_trailers`, `kept_by_ping`, `tunnel`) are
    /// left out.
    #[inline]
    pub fn options(&self, request: &Request) -> Options {
        let buffers = u64::from(self.proxy_buffers.count).saturating_mul(self.proxy_buffers.size);
        Options {
            connect_timeout: self.proxy_connect_timeout,
            send_timeout: self.proxy_send_timeout,
            read_timeout: self.proxy_read_timeout,
            next_upstream: self.proxy_next_upstream.0,
            next_upstream_tries: self.proxy_next_upstream_tries,
            next_upstream_timeout: self.proxy_next_upstream_timeout,
            request_buffering: self.proxy_request_buffering,
            buffering: self.proxy_buffering,
            buffer_size: bytes(self.proxy_buffer_size.0),
            buffers: bytes(buffers),
            max_temp_file_size: self.proxy_max_temp_file_size.0,
            temp_file_write_size: bytes(self.temp_file_write_size()),
            intercept_errors: self.proxy_intercept_errors,
            ignore_client_abort: self.proxy_ignore_client_abort,
            pass_trailers: None,
            kept_by_ping: false,
            force_ranges: self.proxy_force_ranges,
            tunnel: None,
            conditional: !self.proxy_allow_upstream.is_empty(),
            request_dynamic: self.proxy_request_dynamic,
            bind_dynamic: self.proxy_bind_dynamic,
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
