//! The members that rows of the table name in their column `members`.

use freerun_conf::Members;

/// Requests passed on over HTTP.
pub const PROXY: Members = Members::one(0);
/// Requests passed on over FastCGI.
pub const FASTCGI: Members = Members::one(1);
/// Requests passed on over the uwsgi protocol.
pub const UWSGI: Members = Members::one(2);
/// Requests passed on over SCGI.
pub const SCGI: Members = Members::one(3);
/// Requests passed on over gRPC.
pub const GRPC: Members = Members::one(4);
/// Responses from memcached.
pub const MEMCACHED: Members = Members::one(5);
/// Tunnels for CONNECT.
pub const TUNNEL: Members = Members::one(6);

/// The members whose requests and responses may be buffered and stored.
pub const BUFFERED: Members = PROXY.and(FASTCGI).and(UWSGI).and(SCGI);
/// The members whose responses have fields.
pub const WITH_FIELDS: Members = BUFFERED.and(GRPC);
/// The members whose requests are answered by the server: all but tunnels.
pub const ANSWERED: Members = WITH_FIELDS.and(MEMCACHED);
/// The members that may have TLS towards upstream servers.
pub const WITH_TLS: Members = PROXY.and(UWSGI).and(GRPC);
/// The members with `send_lowat`.
pub const WITH_LOW_WATER: Members = PROXY.and(FASTCGI).and(TUNNEL);
