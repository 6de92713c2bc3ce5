//! What `client/` reads of the settings.

use std::time::Duration;

use freerun_conf::Flags;
use freerun_http::request::Request;
use freerun_http::request::response::MakeTrailers;
use freerun_upstream::connect::ConnectOptions;

use crate::settings::FamilySettings;
use crate::settings::bind::Bind;
use crate::settings::next::NextUpstream;

/// What `client/` reads of a member's directives, once for each request. Named as the directives are.
#[derive(Debug, Clone)]
pub struct Options {
    /// `proxy_connect_timeout`
    pub connect_timeout: Duration,
    /// `proxy_send_timeout`, between two writes.
    pub send_timeout: Duration,
    /// `proxy_read_timeout`, between two reads.
    pub read_timeout: Duration,
    /// `proxy_next_upstream`
    pub next_upstream: Flags<NextUpstream>,
    /// `proxy_next_upstream_tries`; 0: no limit.
    pub next_upstream_tries: u32,
    /// `proxy_next_upstream_timeout`; 0: no limit.
    pub next_upstream_timeout: Duration,
    /// `proxy_request_buffering`
    pub request_buffering: bool,
    /// `proxy_buffering`
    pub buffering: bool,
    /// `proxy_buffer_size`
    pub buffer_size: usize,
    /// `proxy_buffers`: number times size.
    pub buffers: usize,
    /// `proxy_max_temp_file_size`; 0: no file.
    pub max_temp_file_size: u64,
    /// `proxy_temp_file_write_size`
    pub temp_file_write_size: usize,
    /// `proxy_intercept_errors`
    pub intercept_errors: bool,
    /// `proxy_ignore_client_abort`
    pub ignore_client_abort: bool,
    /// `proxy_limit_rate` for this request, in bytes a second; 0: no limit.
    pub limit_rate: u64,
    /// `proxy_pass_trailers`: who passes them on.
    pub pass_trailers: Option<MakeTrailers>,
    /// `proxy_force_ranges`
    pub force_ranges: bool,
    /// Whether there is a `proxy_allow_upstream`.
    pub conditional: bool,
    /// `proxy_request_dynamic`
    pub request_dynamic: bool,
    /// `proxy_bind_dynamic`: `connect` is made anew for each try.
    pub bind_dynamic: bool,
    /// `proxy_bind` for this request, and `proxy_socket_*`. (`tcp_nodelay` is not among it.)
    /// `None`: nothing of it is set.
    pub connect: Option<Box<ConnectOptions>>,
}

/// Bytes as a length in memory.
fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

impl FamilySettings {
    /// The settings for this request, as `client/` reads them. What only `proxy` has (`pass_trailers`) is not there.
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
            limit_rate: self.proxy_limit_rate.of(request),
            pass_trailers: None,
            force_ranges: self.proxy_force_ranges,
            conditional: !self.proxy_allow_upstream.is_empty(),
            request_dynamic: self.proxy_request_dynamic,
            bind_dynamic: self.proxy_bind_dynamic,
            connect: self.connect_options(request),
        }
    }

    /// How connections are made for this request.
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
        let local = self.proxy_bind.of(request);
        Box::new(ConnectOptions {
            bind: local.as_ref().map(|local| local.address),
            transparent: local.is_some_and(|local| local.transparent),
            sndbuf: self.proxy_socket_sndbuf.map(|size| bytes(size.0)),
            rcvbuf: self.proxy_socket_rcvbuf.map(|size| bytes(size.0)),
            keepalive: self.proxy_socket_keepalive,
            nodelay: false,
        })
    }
}
