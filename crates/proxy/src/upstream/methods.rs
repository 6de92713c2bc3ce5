//! The directives that choose how the next server is found.

use freerun_conf::{Shape, settings};
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_http::values::switch::Present;
use freerun_serve::upstream::{Outliers, Queue};
use freerun_upstream::GroupSettings;

use crate::upstream::sticky::Sticky;

/// The method of a group of HTTP servers, and the text that it depends on.
type Balance = freerun_serve::upstream::Balance<Request>;

settings! {
    /// How the servers of a group take turns.
    #[module = "upstream_method"]
    pub struct MethodSettings {
        /// Asks the server with the fewest connections for its weight; several of them take turns.
        ///
        /// Connections of all loops count.
        #[name = "least_conn"]
        method: Balance, in UPSTREAM;
        /// Clients that authenticate their connection (`Authorization: NTLM …` or `Negotiate …`) have a connection of their own to
        /// one of the servers: from such a request on, all requests of the client's connection go there, until it is closed.
        ///
        /// It needs `keepalive` with room for as many clients, and `proxy_http_version 1.1`, which is the default.
        ntlm: Present<0>, in UPSTREAM;
        /// Requests that no server has room for (`max_conns`) wait here: most of them, and how long each, 60 seconds by default.
        ///
        /// Those who have waited longest are served first. When the queue is full, or the time over, the answer is 502. Who has an answer
        /// already (`proxy_next_upstream http_503`) does not wait for another server. `$upstream_queue_time` tells how long it took.
        queue: Option<Queue>, in UPSTREAM;
        /// Clients stay with the server that they had before.
        ///
        /// | form | |
        /// |---|---|
        /// | `cookie name [expires=time \| max] [domain=domain] [path=path] [httponly] [secure] [samesite=strict \| lax \| none \| $variable]` | a cookie says which: the server's `route`, or the MD5 sum of its address |
        /// | `route $variable …` | the first that is not empty is compared with the `route` of the servers |
        /// | `learn create=$variable lookup=$variable zone=name:size [timeout=time] [header]` | the application has sessions; which server has made one is seen in its response and remembered |
        ///
        /// When the server cannot be asked, another one is chosen as for a new client. Servers with `drain` are asked only by clients
        /// that are bound to them.
        sticky: Option<Sticky>, in UPSTREAM, since = "1.29.6",
            fidelity = Differs("learn: sessions are learned from the response's head with and without header; there is no sync, for there is one process");
        /// Leaves a server out for a while when its answers are much worse than they should be; off unless written.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `consecutive=N` | so many errors in a row, 5 by default; 0: does not count |
        /// | `rate=N%` | this share of the answers within `window`, 50 % by default; 0: does not count |
        /// | `window=T`, `requests=N` | a share is that of the last T (10 seconds) with at least N (20) answers |
        /// | `ejection=T`, `max_ejection=T` | how long the first ejection lasts (30 seconds); the next one twice as long, the third three times, at most the other time (5 minutes) |
        /// | `max_ejected=N%` | no more than this share of the group is out at a time, 50 % by default |
        ///
        /// Errors are failures (as `max_fails` counts them) and statuses from 500 on. Each window without errors takes one ejection back.
        outlier_detection: Option<Outliers>, in UPSTREAM, fidelity = Own;
    }
    also {
        /// Clients of one network have one server: the hash of the first three octets of an IPv4 address, or of a whole IPv6
        /// address, chooses it. When it cannot be asked, the hash is changed up to 19 times; then servers take turns.
        "ip_hash" => method: Shape::exactly(0, ""), in UPSTREAM,
            fidelity = Differs("which network has which server is another matter than in nginx");
        /// The hash of a text chooses the server, as in the Perl library Cache::Memcached; with `consistent` the points of
        /// ketama do, as in Cache::Memcached::Fast, so that few texts change their server when one comes or goes.
        "hash" => method: Shape::between(1, 2, "key [consistent]"), in UPSTREAM;
        /// A server at random, by weight; with `two` the better one of two: with fewer connections (`least_conn`), or the faster one.
        "random" => method: Shape::between(0, 2, "[two [least_conn | least_time=header | least_time=last_byte]]"), in UPSTREAM;
        /// Asks the server with the smallest product of the time it takes, on an average, and its connections, for its weight.
        ///
        /// The time is that to the response's head or to its end; with `inflight` requests on their way count, too. A server
        /// of which nothing is known is tried first, and an average counts half after 10 seconds without requests, so that
        /// one that was slow once is tried again.
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
