//! The members of the family: the protocols that requests are passed on in, from their directives to the client's
//! response head.
//!
//! `http/` (`proxy_pass`), `grpc/`, `fastcgi/`, `uwsgi.rs`, `scgi.rs`, `memcached/` and `tunnel.rs` (CONNECT) are the
//! members. `proxy_pass.rs` and `uri.rs` give the target and the URI of HTTP requests; `headers.rs` makes the client's
//! fields from the answer's head, changed by `redirect.rs` and `cookies.rs`. `cgi.rs`, `pass_argument.rs` and `params.rs`
//! are the common parts of FastCGI, uwsgi and SCGI: the member, the target of its requests, and the parameters for an
//! application.

pub mod cgi;
pub mod cookies;
pub mod fastcgi;
pub mod grpc;
pub mod headers;
pub mod http;
pub mod memcached;
pub mod params;
pub mod pass_argument;
pub mod proxy_pass;
pub mod redirect;
pub mod scgi;
pub mod tunnel;
pub mod uri;
pub mod uwsgi;
