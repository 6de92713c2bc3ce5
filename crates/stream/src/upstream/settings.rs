//! The directives inside `upstream` of stream.

use freerun_conf::{Shape, settings};
use freerun_serve::upstream::{Outliers, Queue, SharedZones, StickyValues};
use freerun_upstream::GroupSettings;

use super::sticky::Sticky;
use super::{Balance, StreamServers};
use crate::session::Session;

settings! {
    /// A group of servers that sessions are passed to.
    #[module = "stream/upstream"]
    pub struct UpstreamSettings {
        /// A server of the group: its address or name with a port, or `unix:` and the path of a Unix socket.
        ///
        /// The parameters are the same as for servers in `http`: `weight`, `max_conns`, `max_fails`, `fail_timeout`,
        /// `backup`, `down`, `drain`, `slow_start`, `route`, `resolve` and `service`. A failure is a connection that
        /// could not be made, or in time (`proxy_connect_timeout`, with the handshake of TLS), or whose first bytes
        /// could not be sent.
        #[name = "server"]
        servers: StreamServers, in STREAM_UPSTREAM,
            fidelity = Differs("slow_start, drain and route are there, too; resolve needs no zone");
        /// Names the memory for a group's state.
        ///
        /// State is shared by all loops in any case, and kept over reloads by the group's name. A group with a zone is shown by
        /// `api`, and its servers can be changed there.
        zone: SharedZones, in STREAM_UPSTREAM;
        /// A file with the group's servers, instead of `server` directives, as `state` in `http`.
        state: Option<String>, in STREAM_UPSTREAM;
        /// Chooses the server with the fewest sessions in proportion to its weight; servers with equally few take turns.
        #[name = "least_conn"]
        method: Balance, in STREAM_UPSTREAM;
        /// Sessions wait here if no server has room (`max_conns`): the most sessions that wait, and how long each, 60
        /// seconds by default. The session that has waited longest is served first.
        queue: Option<Queue>, in STREAM_UPSTREAM, fidelity = Own;
        /// Clients stay with the server that they had before, by values of their sessions. There are no cookies without
        /// HTTP.
        ///
        /// | form | |
        /// |---|---|
        /// | `route $variable …` | the first value that is not empty is compared with the `route` of the servers: `$ssl_preread_server_name`, for example |
        /// | `learn create=$variable lookup=$variable zone=name:size [timeout=time]` | the server that has accepted a session is remembered for the value of `create`; later sessions with that value in `lookup` go there |
        ///
        /// With `learn create=$remote_addr lookup=$remote_addr zone=clients:1m` a client keeps its server for as long as it
        /// comes again within `timeout` (10 minutes), even if other servers join the group.
        sticky: Option<Sticky>, in STREAM_UPSTREAM, fidelity = Own;
        /// Leaves a server out for a while if its sessions fail much more often than they should; off by default. The
        /// parameters are the same as for `outlier_detection` in `http`. A failure is what counts for `max_fails`, or a
        /// session that the server breaks off (a reset).
        outlier_detection: Option<Outliers>, in STREAM_UPSTREAM, fidelity = Own;
    }
    also {
        /// Clients of one network get the same server, as in `http`: by the first three octets of an IPv4 address, or a
        /// whole IPv6 address.
        "ip_hash" => method: Shape::exactly(0, ""), in STREAM_UPSTREAM, fidelity = Own;
        /// The hash of a text chooses the server, as in the Perl library Cache::Memcached. With `consistent` the points
        /// of ketama are used, as in Cache::Memcached::Fast, so that few texts change their server when one is added or
        /// removed.
        "hash" => method: Shape::between(1, 2, "key [consistent]"), in STREAM_UPSTREAM;
        /// A random server, by weight; with `two` the better of two: the one with fewer sessions (`least_conn`), or the
        /// faster one.
        "random" => method: Shape::between(0, 2, "[two [least_conn | least_time=connect | least_time=first_byte | least_time=last_byte]]"), in STREAM_UPSTREAM;
        /// Chooses the server with the smallest product of its average time and its sessions, in proportion to its weight.
        ///
        /// The time ends when there is a connection, when its first byte has come, or when the session has ended. With
        /// `inflight`, sessions that have not come so far count, too.
        "least_time" => method: Shape::between(1, 2, "connect | first_byte | last_byte [inflight]"), in STREAM_UPSTREAM;
    }
}

impl UpstreamSettings {
    /// The settings of the group.
    pub(super) fn group_settings(&self) -> GroupSettings {
        GroupSettings {
            method: self.method.method,
            queue: self.queue.map(|queue| queue.0),
            outlier: self.outlier_detection.as_ref().map(|outliers| outliers.0.clone()),
        }
    }

    /// The binding of clients to servers.
    pub(super) fn sticky(&self) -> Option<StickyValues<Session>> {
        self.sticky.as_ref().map(|sticky| sticky.0.clone())
    }
}
