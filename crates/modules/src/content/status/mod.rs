//! `status`: the state of the worker, as JSON, or as text for Prometheus with `?format=prometheus`.
//!
//! All values are read from atomics and immutable snapshots, one after the other: no request ever waits for a reader,
//! and the values in one answer may be from slightly different moments. Counters begin at 0 when the worker starts.
//!
//! The JSON, times in microseconds where the name ends in `_us`:
//!
//! ```text
//! {
//!   "version": "0.1.0",          freerun's
//!   "generation": 3,             number of the configuration that new requests begin with
//!   "reloads": 2,                configurations that this worker took over after its first one
//!   "uptime_seconds": 12.345,    since this worker started
//!   "pid": 4711,                 of this worker
//!   "loops": [ {                 in their order
//!     "index": 0,
//!     "connections": {
//!       "active": 3,             open now, the idle ones included
//!       "idle": 2,               keep-alive connections without a request
//!       "accepted": 40,          by this loop
//!       "rescued": 0,            accepted for other loops in this one's place, because it was late
//!       "moved": 0               went to other loops between two requests, because this one had more than its share
//!     },
//!     "requests": 1000,          begun
//!     "rescued_datagrams": 0,    of new clients, read for other loops in this one's place, because it was late
//!     "stalls": 0,               polls of tasks longer than 10 ms
//!     "stalls_without_processor": 0,         of these, most of the time the loop's thread waited for a processor
//!     "longest_stall_of_its_own_us": 0,      the longest of them, without the time spent waiting for a processor
//!     "polls": HISTOGRAM         how long polls of tasks took
//!   } ],
//!   "pools": [ {                 thread pools of the current configuration, by name
//!     "name": "default",
//!     "threads": 2, "limit": 32,           threads now, and at most
//!     "active": 0,                         tasks that run
//!     "waiting": 0, "max_queue": 65536,    tasks that wait, and how many may
//!     "refused": 0, "served": 20, "cancelled": 0, "panicked": 0,
//!     "wait": HISTOGRAM                    from the hand-over of a task to its start
//!     "service": HISTOGRAM                 from its start to its end
//!   } ],
//!   "mounts": [ {                mounts that files were served from
//!     "mount": "/srv",           empty for a device that is not in the mount table
//!     "device": "8:1", "type": "ext4",
//!     "rung": "nowait",          the probe in use: memory, nowait, mincore, pool (none works: always the pool)
//!     "demoted": false,          whether inline operations have stalled, so that the pool is used for a while
//!     "density": "sparse",       how densely it is probed: dense, medium, sparse
//!     "hits": 9, "misses": 1,    probes that found all in memory, and that did not
//!     "pooled": 1,               operations done by a pool
//!     "stalls": 0,               inline operations that took longer than 20 ms
//!     "demotions": 0
//!   } ],
//!   "logs": [ {                  log files of the current configuration
//!     "name": "/var/log/nginx/access.log",
//!     "lost_lines": 0,           dropped because the file did not take them fast enough
//!     "waiting_bytes": 0,        not written yet
//!     "held_up": false           whether a write takes so long that other logs are written by another thread
//!   } ],
//!   "log_threads": {             threads that write logs, stand by, or are held up
//!     "now": 2, "limit": 8
//!   },
//!   "upstreams": [ {             groups of servers of the current configuration, by name
//!     "name": "backend",
//!     "declared": true,          by an upstream block; otherwise a directive names the address
//!     "computed": false,         by variables of a request: these come last, up to 256 servers of them
//!     "waiting": 0,              requests in its queue
//!     "unresolved": ["app:81"],  servers whose names have no address just now
//!     "servers": [ {             figures go on over reloads, as long as the address stays
//!       "server": "app:80",      as the configuration names it
//!       "address": "10.0.0.7:80",
//!       "state": "up",           up, down, unavail (failed a short while ago, or is an outlier), checking, unhealthy, draining
//!       "weight": 1, "backup": false,
//!       "active": 2,             connections in use, or being made
//!       "idle": 5,               connections kept for further requests
//!       "requests": 1000,        attempts
//!       "responses": {"1xx": 0, "2xx": 990, "3xx": 8, "4xx": 1, "5xx": 0},
//!       "failures": {"connect": 1, "timeout": 0, "closed": 0, "invalid": 0, "status": 0,
//!                    "denied": 0,            refused by `proxy_allow_upstream`
//!                    "stale": 0,             an idle connection was dead: does not count against the server
//!                    "other": 0},
//!       "unavailable": 1,        times that failures made it unavailable
//!       "ejected": 0,            times that outlier_detection left it out
//!       "checks": {"done": 0, "failed": 0, "unhealthy": 0},
//!       "connects": 10, "reused": 990,        requests over a new connection, and over one that was there
//!       "reuse_ratio": 0.99,
//!       "sent": 100000, "received": 2000000,  bytes
//!       "connect": HISTOGRAM,                 making a connection
//!       "header": HISTOGRAM,                  to the response's head
//!       "response": HISTOGRAM                 to its end
//!     } ]
//!   } ],
//!   "resolvers": [ {             resolvers with a status_zone; equal zones are added up
//!     "name": "dns",
//!     "questions": 9, "service_questions": 1,  sent to name servers
//!     "found": 7, "not_found": 1,
//!     "timed_out": 1,            questions without an answer in time
//!     "failed": 1
//!   } ],
//!   "caches": [ {                of the current configuration, by name; figures go on over reloads
//!     "name": "cache_1", "path": "/mnt/disk1",
//!     "state": "ready",          of the index: starting, loading, walking (after an unclean end), ready, stopped
//!     "load_ms": 410,            how long reading its journal took
//!     "entries": 1000, "max_entries": 2097152,   objects, and how many the zone has room for
//!     "counted": 5,              keys without objects whose uses are counted (cache_min_uses)
//!     "bytes": 4096000,          of the objects' files
//!     "reserved": 0,             for objects that are being written
//!     "max_size": 1099511627776, of both; null: not limited
//!     "refused": 0,              reservations refused for want of space
//!     "pending": 0,              changes that the cache's thread has not looked at yet
//!     "purges": 0,               by prefix or tag, whose files are still being removed
//!     "answers": {               requests, by $upstream_cache_status
//!       "miss": 10, "bypass": 0, "expired": 1, "stale": 0, "updating": 0, "revalidated": 0, "hit": 990
//!     },
//!     "hit_ratio": 0.989,        hits among these
//!     "waiting": 0,              requests that wait for a response that others fetch
//!     "fills": {                 objects that are, or were, fetched
//!       "now": 0, "begun": 11, "stored": 11,
//!       "unstored": 0,           there was no room, or the disk failed
//!       "broken": 0,             they did not come completely
//!       "followed": 30           requests answered while an object came, those that asked for it included
//!     },
//!     "removed": {
//!       "evicted": 0,            to make room
//!       "inactive": 0,           not used for the time `inactive`
//!       "purged": 0,
//!       "damaged": 0,            the file was not there, or not what it should be
//!       "failed": 0              files that cannot be removed, tried again
//!     },
//!     "adopted": 0,              files found that the journal did not know
//!     "orphans": 0,              left-over files removed
//!     "loaded": 989,             entries that the journal had
//!     "memory": {                small objects, and files that are kept open
//!       "objects": 900, "object_bytes": 900000, "limit": 33554432, "memory_hits": 980,
//!       "files": 20, "file_hits": 10
//!     },
//!     "disk": {
//!       "health": "in",          or it is out: stuck (operations do not end), failing; nothing is stored or read then
//!       "error": null,           why it is out
//!       "outages": 0,            times that it was taken out
//!       "errors": 0,             operations that failed with an error of the device
//!       "late": 0,               requests that waited for it no longer
//!       "full": 0,               times that there was no room on it
//!       "running": 0,            operations at work
//!       "written": 4096000, "write_rate": 0,   bytes of stored files, and a second (the last ten)
//!       "read": 0, "read_rate": 0              bytes of the objects answered from files
//!     }
//!   } ],
//!   "tls": {                     clients: of listeners; upstreams: with upstream servers, the same
//!     "clients": {
//!       "handshakes": 100,
//!       "keys": {"rsa": 10, "ecdsa": 30, "ed25519": 0},   full handshakes by the server's key; only of clients
//!       "resumed": 60,
//!       "resumed_by": {          where the sessions came from; only of clients
//!         "cache": 10,           ssl_session_cache had them
//!         "ticket": 50           the clients had tickets
//!       },
//!       "versions": {"TLSv1.2": 10, "TLSv1.3": 90},
//!       "ciphers": {"TLS_AES_256_GCM_SHA384": 90, ...},
//!       "failed": {"closed": 1, "timed_out": 0, "no_common_protocol": 2, ...},   handshakes, by reason
//!       "untrusted": 0,          certificates of peers
//!       "pooled": 40,            steps that the pool (tls) did, whose figures are among the pools'
//!       "steps": HISTOGRAM       steps that loops did
//!     },
//!     "upstreams": {},
//!     "tickets": {               of all servers
//!       "issued": 80,            given to clients
//!       "accepted": 50,          shown by clients, and good
//!       "unknown_key": 1,        shown, but the key is not there (any more)
//!       "expired": 2,            shown too late
//!       "damaged": 0             changed, or of another server with the same keys
//!     },
//!     "session_caches": [ {      ssl_session_cache
//!       "name": "shared:s",      or builtin:20480
//!       "sessions": 10, "bytes": 2600, "max_bytes": 1048576,
//!       "evicted": 0             sessions that made room for others
//!     } ],
//!     "certificates": [ {        of the current configuration as they are now, each once
//!       "file": "/etc/ssl/a.pem", "subject": "CN=a", "names": ["a", "www.a"], "key": "ecdsa",
//!       "issuer": "CN=ca",
//!       "expires": 1900000000    in seconds since 1970
//!     } ]
//!   },
//!   "http2": {                   of clients
//!     "connections": 10, "open": 2,        connections since the start, and open now
//!     "streams": 1000,                     streams that became requests
//!     "reset_by_clients": 3,               of these, streams that were reset before their response was complete
//!     "reset_here": 0,                     streams reset because the client broke a rule
//!     "failed": 0,                         connections ended because the client broke a rule
//!     "floods": {                          of these, connections that caused too much work:
//!       "frames": 0,                       too many frames without an effect
//!       "resets": 0,                       too many streams that were reset, no matter by whom
//!       "unread": 0,                       too many answers that the client does not read
//!       "fields": 0                        a head that is too large, or comes in too many frames
//!     }
//!   },
//!   "stream": {                  sessions of TCP and UDP
//!     "sessions": 10, "open": 2,           sessions since the start, and those that are there now
//!     "ended": { "200": 7, "503": 1 },     sessions that have ended, by all statuses
//!     "received": 1000, "sent": 2000,      bytes from and to clients, of sessions that have ended
//!     "lost": 0,                           datagrams lost on their way from one loop to another: too many were on it
//!     "upstreams": []                      groups of servers of stream, as those of http above; "header" is the time to the
//!                                          first byte, "response" that to the end of a session
//!   },
//!   "acme": [ {                  certificates from CAs by ACME, in the order of the configuration. Times are seconds since 1970
//!     "issuer": "letsencrypt", "names": ["a.example", "www.a.example"], "key": "ecdsa:256",
//!     "state": "valid",          waiting (none was tried for yet), ordering, valid, failed (the last attempt)
//!     "not_after": 1900000000,   end of the certificate in use; null: there is none
//!     "next_attempt": 1897400000, when it is ordered next; null: it is being ordered
//!     "last_error": null,        why the last attempt failed
//!     "renewal_window": [1897400000, 1897500000]   when the CA would like it to be renewed (RFC 9773), or null
//!   } ]
//! }
//!
//! With the arguments `cache=NAME` and `key=TEXT` (percent-encoded; or `hash=` with the 32 digits of a file's name) the
//! answer is the state of one key of a cache. Asking changes no state. Variants (`Vary`) have hashes of their own.
//!
//! {
//!   "cache": "cache_1", "key": "/a", "hash": "7b85...", "file": "/mnt/disk1/d/f4/7b85...",
//!   "place": "memory",           memory, disk, being fetched, nowhere
//!   "why": "fresh for 93 more seconds: Cache-Control: max-age=100",
//!   "uses": 0,                   while there is no object and cache_min_uses counts them
//!   "fill": null,                asked, coming, ending: it is being fetched
//!   "entry": {                   null: there is none. Times are seconds since 1970
//!     "size": 700, "on_disk": 4096,
//!     "accessed": 1900000000,
//!     "verified": true,          its file was looked at by this process
//!     "foreign": false,          another program's file
//!     "fresh": true, "fresh_until": 1900000093, "age": 7,
//!     "stale_while_revalidate": 0, "stale_if_error": 0, "must_revalidate": false
//!   },
//!   "response": {                null: it could not be read
//!     "status": 200, "created": 1900000000, "length": 500,
//!     "fields": [["Cache-Control", "max-age=100"]],
//!     "vary": null, "variant": null, "tags": []
//!   }
//! }
//!
//! In the text for Prometheus an upstream server has the labels `upstream` and `server` (its address). If an address
//! occurs more than once in a group, the second server of that address has `nth="2"` too, the third one `nth="3"`.
//! Servers of a group that variables have computed have `computed="true"`, and no histograms. A certificate has the labels
//! `file` (`data:` if no file has it), `subject`, `names`, `key` (`rsa`, `ecdsa`, `ed25519`, `other`) and `issuer`; further
//! ones that are equal in all of them have `nth`, as servers have it, in the order of their ends.
//!
//! HISTOGRAM: {
//!   "bounds_us": [1, 2, 4, ...], exclusive upper bounds of the buckets but the last, which has none
//!   "counts": [0, 3, 1, ...],    of each bucket
//!   "count": 4, "sum_us": 9, "max_us": 3
//! }
//! ```

mod acme;
mod caches;
mod figures;
mod histogram;
mod http2;
mod key;
mod prometheus;
mod resolvers;
mod samples;
mod sessions;
#[cfg(test)]
mod tests;
mod tls;
mod upstreams;

use bytes::Bytes;
use freerun_cache::key::Key;
use freerun_conf::{SettingsSet, group, settings};
use freerun_http::body;
use freerun_http::connection::gone::ClientGone;
use freerun_http::content::aio;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_http::values::switch::Switch;
use freerun_proto::{Method, uri};
use freerun_runtime::files::Via;
use serde::Serialize;

use figures::Figures;
use freerun_proxy::cached::lookup::unix_now;
use freerun_proxy::caches::zones::Caches;

settings! {
    /// The state of the worker.
    #[module = "status"]
    pub struct StatusSettings {
        /// Answers with the state and the counters of the worker: connections, event loops, thread pools, mounts, logs,
        /// groups of upstream servers, resolvers, caches, TLS, certificates by ACME.
        ///
        /// The answer is JSON, or with the argument `format=prometheus` text for Prometheus. With `cache=NAME` and
        /// `key=TEXT` it is about one key of a cache: where the response is, how fresh it is, and why. The answer
        /// contains paths of the machine, so restrict the access to it.
        ///
        /// In the text for Prometheus, an upstream server is named by the labels `upstream` and `server`, its address.
        /// If an address occurs more than once in a group, the further servers have the label `nth` too, `2` and so on
        /// in the order of the group. Groups that variables have computed have the label `computed`; of these, up to
        /// 256 servers are shown, in the order of the names, without histograms. Resolvers with the same `status_zone`
        /// are added up. A certificate is named by `file`, `subject`, `names`, `key` (the kind) and `issuer`; further ones
        /// that are equal in all of these have the label `nth`.
        status: Switch, in LOCATION, local, fidelity = Own;
    }
}

/// The module `status`.
pub static MODULE: Module = Module {
    name: "status",
    groups: &[group::<StatusSettings>()],
    handlers: &[
        Handler { phase: Phase::Content, wanted, run: Run::Now(answer) },
        Handler { phase: Phase::Content, wanted, run: Run::Later(explain) },
    ],
    content: &["status"],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<StatusSettings>().status.0
}

/// The format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Prometheus,
}

impl Format {
    /// The format that the arguments ask for; `None`: an unknown format.
    fn asked(args: Option<&[u8]>) -> Option<Format> {
        match args.and_then(|args| uri::argument(args, b"format")) {
            None | Some(b"json") => Some(Format::Json),
            Some(b"prometheus") => Some(Format::Prometheus),
            Some(_) => None,
        }
    }
}

fn answer(request: &mut Request) -> Outcome {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Outcome::Status(405);
    }
    if argument(request, b"cache").is_some() {
        return Outcome::Declined;
    }
    let Some(format) = Format::asked(request.asked.args.as_deref()) else { return Outcome::Status(400) };
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let figures = Figures::collect(&request.client.loop_state.shared);
    match format {
        Format::Json => json(request, &figures),
        Format::Prometheus => respond(prometheus::CONTENT_TYPE, prometheus::text(&figures).into_bytes()),
    }
}

/// The value of an argument, percent-decoded.
fn argument(request: &Request, name: &[u8]) -> Option<Vec<u8>> {
    let value = uri::argument(request.asked.args.as_deref()?, name)?;
    Some(uri::unescape(value).into_owned())
}

/// Answers with the state of one key of a cache.
fn explain(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        let (name, text) = (argument(request, b"cache").unwrap_or_default(), argument(request, b"key"));
        let hash = argument(request, b"hash").map(|hash| Key::from_hex(&hash));
        let key = match (&text, hash) {
            (Some(text), None) => Key::of(text),
            (None, Some(Some(key))) => key,
            _ => return Outcome::Status(400),
        };
        let caches = request.generation.parts.get::<Caches>();
        let all = caches.as_deref().into_iter().flat_map(|caches| caches.iter());
        let found = all.filter(|one| one.path.name.as_bytes() == name).map(|one| one.home.cache.clone()).next();
        let Some(cache) = found else { return Outcome::Status(404) };
        let Some(aio) = aio::resolve(request) else { return Outcome::Status(500) };
        let gone = ClientGone::of(&request.client);
        let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
        let explained = key::explain(&cache, key, text.as_deref(), via, unix_now()).await;
        json(request, &explained)
    })
}

fn json(request: &Request, figures: &impl Serialize) -> Outcome {
    match serde_json::to_vec(figures) {
        Ok(text) => respond("application/json", text),
        Err(error) => {
            log_error!(request, Error, "status cannot be written as JSON ({error})");
            Outcome::Status(500)
        }
    }
}

fn respond(content_type: &'static str, text: Vec<u8>) -> Outcome {
    let mut response = Response::new(200, content_type, Body::Bytes(text.into()));
    response.add(Bytes::from_static(b"Cache-Control"), Bytes::from_static(b"no-store"));
    response.into()
}
