//! The directives that choose how the next server is found.

use freerun_conf::{Shape, settings};
use freerun_http::template::Template;
use freerun_http::values::switch::Present;
use freerun_serve::upstream::{Outliers, Queue};
use freerun_upstream::GroupSettings;

use crate::upstream::http::HttpGroups;
use crate::upstream::sticky::Sticky;

/// The method of a group of HTTP servers, and the text that it depends on.
type Balance = freerun_serve::upstream::GroupMethod<HttpGroups>;

settings! {
    /// The choice of a server of a group.
    #[module = "upstream_method"]
    pub struct MethodSettings {
        /// Chooses the server with the fewest connections in proportion to its weight; servers with equally few take
        /// turns.
        ///
        /// Connections of all loops count.
        #[name = "least_conn"]
        method: Balance, in UPSTREAM;
        /// Clients that authenticate their connection (`Authorization: NTLM …` or `Negotiate …`) get a connection of
        /// their own to one of the servers. From such a request on, all requests of the client's connection go there,
        /// until it is closed.
        ///
        /// It needs `keepalive` with room for as many clients, and `proxy_http_version 1.1`, which is the default.
        ntlm: Present<0>, in UPSTREAM;
        /// Requests wait here if no server has room (`max_conns`): the most requests that wait, and how long each, 60
        /// seconds by default.
        ///
        /// The request that has waited longest is served first. When the queue is full, or the time is over, the answer
        /// is 502. A request that has an answer already (`proxy_next_upstream http_503`) does not wait for another
        /// server. `$upstream_queue_time` shows how long it waited.
        queue: Option<Queue>, in UPSTREAM;
        /// Clients stay with the server that they had before.
        ///
        /// | form | |
        /// |---|---|
        /// | `cookie name [expires=time \| max] [domain=domain] [path=path] [httponly] [secure] [samesite=strict \| lax \| none \| $variable]` | a cookie names the server: its `route`, or the MD5 sum of its address |
        /// | `route $variable …` | the first value that is not empty is compared with the `route` of the servers |
        /// | `learn create=$variable lookup=$variable zone=name:size [timeout=time] [header]` | the application has sessions; the server that has made one is learned from its response |
        ///
        /// The cookie comes with each response, so that its time counts from the last request. If the server cannot be
        /// asked, another one is chosen as for a new client. A `backup` server that a cookie or a route names is chosen
        /// only once no other server can be asked. Servers with `drain` are chosen only for clients that are bound to
        /// them.
        sticky: Option<Sticky>, in UPSTREAM, since = "1.29.6",
            fidelity = Differs("learn: sessions are learned from the response's head with and without header; there is no sync, for there is one process");
        /// Leaves a server out for a while if its answers are much worse than they should be; off by default.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `consecutive=N` | so many errors in a row eject the server, 5 by default; 0: no number does |
        /// | `rate=N%` | this share of errors among the answers within `window` ejects it, 50 % by default; 0: no share does |
        /// | `window=T`, `requests=N` | the share is that of the last T (10 seconds), if there are at least N (20) answers |
        /// | `ejection=T`, `max_ejection=T` | how long the first ejection lasts (30 seconds); the next one lasts twice as long, the third three times, at most `max_ejection` (5 minutes) |
        /// | `max_ejected=N%` | at most this share of the group is ejected at a time, 50 % by default |
        ///
        /// Errors are failures (as `max_fails` counts them) and statuses from 500 on. Each window without errors takes one ejection back.
        outlier_detection: Option<Outliers>, in UPSTREAM, fidelity = Own;
    }
    also {
        /// Clients of one network get the same server: the hash of the first three octets of an IPv4 address, or of a
        /// whole IPv6 address, chooses it. If it cannot be asked, the hash is changed up to 20 times; then round robin
        /// decides.
        "ip_hash" => method: Shape::exactly(0, ""), in UPSTREAM;
        /// The hash of a text chooses the server, as in the Perl library Cache::Memcached. With `consistent` the points
        /// of ketama are used, as in Cache::Memcached::Fast: few texts change their server when one is added or
        /// removed.
        "hash" => method: Shape::between(1, 2, "key [consistent]"), in UPSTREAM;
        /// A random server, by weight; with `two` the better of two: the one with fewer connections (`least_conn`), or
        /// the faster one.
        "random" => method: Shape::between(0, 2, "[two [least_conn | least_time=header | least_time=last_byte]]"), in UPSTREAM;
        /// Chooses the server with the smallest product of its average time and its connections, in proportion to its
        /// weight.
        ///
        /// The time runs to the response's head or to its end; with `inflight` requests in flight count, too. A server
        /// without measurements is tried first. An average counts half after each `fail_timeout` of the server (10
        /// seconds) and one second without requests, so that a server that was slow once is tried again.
        "least_time" => method: Shape::between(1, 2, "header | last_byte [inflight]"), in UPSTREAM, since = "1.31.0";
    }
}

/// The ways in which clients are bound to servers.
#[derive(Debug, Default)]
pub struct Affinity {
    /// The binding by properties of requests (`sticky`).
    pub sticky: Option<Sticky>,
    /// Whether client connections that have shown credentials are bound.
    pub ntlm: bool,
}

impl MethodSettings {
    /// The settings of the group.
    pub fn group_settings(&self) -> GroupSettings {
        GroupSettings {
            method: self.method.method,
            queue: self.queue.map(|queue| queue.0),
            outlier: self.outlier_detection.as_ref().map(|outliers| outliers.0.clone()),
        }
    }

    /// The text that the method hashes.
    pub fn key(&self) -> Option<Template> {
        self.method.key.clone()
    }

    /// The ways in which clients are bound to servers.
    pub fn affinity(&self) -> Affinity {
        Affinity { sticky: self.sticky.clone(), ntlm: self.ntlm.0 }
    }
}
