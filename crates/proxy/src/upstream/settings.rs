//! The directives inside `upstream`, apart from those that choose the method.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_number, settings};
use freerun_serve::upstream::SharedZones;
use freerun_upstream::pool::KeepAlive;

use crate::upstream::HttpServers;

settings! {
    /// A group of servers.
    #[module = "upstream"]
    pub struct UpstreamSettings {
        /// A server of the group: its address (`unix:` and a path for a Unix socket) or name, and a port if it is not
        /// 80.
        ///
        /// A name with several addresses stands for as many servers. It is looked up when the configuration is loaded,
        /// off the event loops.
        ///
        /// A name that does not resolve never prevents starting: its servers are missing until it does. It is tried
        /// again after one second, and then after twice the time before, up to a minute (five seconds with `resolve`).
        ///
        /// | parameter | |
        /// |---|---|
        /// | `weight=N` | share of the requests, 1 by default |
        /// | `max_conns=N` | most connections at a time; 0, the default, is no limit. It applies to all loops together |
        /// | `max_fails=N`, `fail_timeout=T` | after N failures (1) within T (10 seconds) the server is not used for T; N of 0: it is always used |
        /// | `backup` | used only when no primary server can be |
        /// | `down` | never used |
        /// | `drain` | used only for clients that are bound to it |
        /// | `slow_start=T` | when the server comes back, its weight grows from nothing within T |
        /// | `route=text` | its name for `sticky` |
        /// | `resolve` | the `resolver` is asked for its name again whenever the answer expires |
        /// | `service=name` | its address is given by the SRV records of `_name._tcp` under its name (or of `name` itself if that has a dot). Those of the best priority are servers, the others `backup`. Needs `resolve` |
        #[name = "server"]
        servers: HttpServers, in UPSTREAM,
            fidelity = Differs("a name that does not resolve never prevents starting; resolve needs no zone; SRV records that are equal are \
                servers of their own");
        /// Names the memory for a group's state.
        ///
        /// State is shared by all loops in any case, and kept over reloads by the group's name. A group with a zone is shown by
        /// `api`, and its servers can be changed there. Of the groups that share a zone, only one needs to give a size. As in
        /// nginx, the directive may be written several times.
        zone: SharedZones, in UPSTREAM;
        /// A file with the group's servers, instead of `server` directives: lines `server address parameters;`.
        ///
        /// It is read with the configuration, and once more by each worker that begins with this configuration. A
        /// missing file means no servers. When `api` changes the servers of the group,
        /// the worker replaces the file, so its user has to be allowed to make files in the folder.
        ///
        /// If the worker finds a file that is wrong or cannot be read, the servers are those that it had when the
        /// configuration was read. The log has an alert, and the next change keeps the file as `file.unused`. Without a
        /// `state`, a reload and another worker bring the servers of the configuration back.
        state: Option<String>, in UPSTREAM;
        /// The number of idle connections to the group's servers that each event loop keeps; 0 keeps none. The default
        /// is as with `keepalive 32 local`.
        ///
        /// A connection is not kept if the request has told the server that it is the last one, by `Connection: close` or by HTTP/1.0
        /// without `keep-alive`. Servers that no `upstream` block names have a connection for each request.
        ///
        /// Beyond the number, the one unused for longest is closed. nginx keeps this number in each worker process.
        /// Here loops use each other's idle connections, so that up to N times `worker_processes` may be idle in all,
        /// as in nginx. With `local` only the location that made a connection uses it again; a connection that `ntlm`
        /// ties to a client is used by all of that client's requests.
        ///
        /// A connection with TLS is used again only by requests with the same settings of TLS, contents of its files
        /// included, also after a reload. If a certificate's name has variables, the name counts, and not what is in
        /// the file: a connection goes on to be used when the file was replaced.
        keepalive: Option<KeepaliveSetting>, in UPSTREAM;
        /// The number of requests that a connection serves before it is closed.
        keepalive_requests: Requests = "1000", in UPSTREAM;
        /// The time for which a connection is used before it is closed after a request.
        keepalive_time: Duration = "1h", in UPSTREAM;
        /// The time for which a connection may be idle before it is closed.
        keepalive_timeout: Duration = "60s", in UPSTREAM;
    }
}

impl UpstreamSettings {
    /// The settings for keeping connections.
    pub fn keep_alive(&self) -> KeepAlive {
        let default = KeepAlive::default();
        let (connections, local) =
            self.keepalive.as_ref().map_or((default.connections, default.local), |keep| (keep.connections, keep.local));
        KeepAlive {
            connections,
            local,
            requests: self.keepalive_requests.0,
            time: self.keepalive_time,
            timeout: self.keepalive_timeout,
        }
    }
}

/// The value of `keepalive N [local]`.
#[derive(Debug, Clone)]
pub struct KeepaliveSetting {
    /// The number of connections.
    pub connections: usize,
    /// Whether connections are used only by the location that made them.
    pub local: bool,
}

impl Value for KeepaliveSetting {
    const SHAPE: Shape = Shape::between(1, 2, "connections [local]");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<KeepaliveSetting, Problem> {
        let word = &directive.args[0];
        let connections = parse_number(&word.text).and_then(|connections| usize::try_from(connections).ok());
        let message = || format!("invalid value \"{}\" in \"keepalive\" directive", word.text);
        let connections = connections.ok_or_else(|| Problem::new(message()).at(word.place))?;
        let local = match directive.args.get(1) {
            None => false,
            Some(word) if word.text == "local" => true,
            Some(word) => return Err(Problem::invalid_parameter(directive, word)),
        };
        Ok(KeepaliveSetting { connections, local })
    }
}

/// A number of requests.
#[derive(Debug, Clone, Copy)]
pub struct Requests(pub u64);

impl Value for Requests {
    const SHAPE: Shape = Shape::exactly(1, "number");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Requests, Problem> {
        let word = &directive.args[0];
        parse_number(&word.text)
            .map(Requests)
            .ok_or_else(|| Problem::directive(directive, "invalid number").at(word.place))
    }
}
