//! The proxy family: requests that other servers answer.
//!
//! `exchange.rs` is what its members (HTTP, FastCGI, …) tell the engine; `engine/` has one request answered, whatever the
//! member; `reply.rs` reads the responses of those that answer in HTTP or CGI over a plain stream; `variables.rs` is what
//! the log wants to know of it. `settings.rs` declares the directives that all members share, once, and makes them for each
//! member's prefix; `members.rs` names the members. `target.rs` and `uri.rs` are where a request goes and what
//! is asked for there; `headers.rs` is what the client gets of the answer's head (`fields.rs`), changed by `redirect.rs` and
//! `cookies.rs`.
//! `cgi.rs`, `pass.rs` and `params.rs` are what FastCGI, uwsgi and SCGI have in common: the member, where it passes requests
//! to, and what it tells an application. `gather.rs` puts small pieces of bodies together.

pub mod cache;
pub mod cgi;
pub mod cookies;
pub mod engine;
pub mod exchange;
pub mod fastcgi;
pub mod fields;
pub mod forward;
pub mod gather;
pub mod headers;
pub mod http;
pub mod members;
pub mod memcached;
pub mod params;
pub mod pass;
pub mod redirect;
pub mod reply;
pub mod scgi;
pub mod settings;
pub mod store;
pub mod target;
pub mod uri;
pub mod uwsgi;
pub mod variables;
