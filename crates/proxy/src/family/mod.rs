//! The members of the family: what requests are passed on in, from their directives to what the client gets of a response's head.
//!
//! `http/` (`proxy_pass`), `fastcgi/`, `uwsgi.rs`, `scgi.rs` and `memcached/` are the members. `proxy_pass.rs` and `uri.rs` are where
//! HTTP requests go and what is asked for there; `headers.rs` is what the client gets of the answer's head, changed by
//! `redirect.rs` and `cookies.rs`. `cgi.rs`, `pass_argument.rs` and `params.rs` are what FastCGI, uwsgi and SCGI have in common: the
//! member, where it passes requests to, and what it tells an application.

pub mod cgi;
pub mod cookies;
pub mod fastcgi;
pub mod headers;
pub mod http;
pub mod memcached;
pub mod params;
pub mod pass_argument;
pub mod proxy_pass;
pub mod redirect;
pub mod scgi;
pub mod uri;
pub mod uwsgi;
