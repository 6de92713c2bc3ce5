//! Sans-IO protocol code: HTTP/1 heads and bodies, HTTP/2, HTTP/3, URIs, dates, ranges, ClientHellos of TLS.
//!
//! Nothing here reads a clock, opens a socket or keeps global state: bytes go in, decisions come out, so that every
//! rule can be tested and fuzzed by itself. The rules are RFC 9110, 9112, 3986 and 8446 where nginx follows them, and
//! nginx's own where it does not.

pub mod ascii;
pub mod body;
pub mod chunked;
pub mod compression;
pub mod conditional;
pub mod connection_options;
pub mod credentials;
pub mod date;
pub mod encode;
pub mod error;
pub mod fastcgi;
pub mod flood;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod head;
pub mod header;
pub mod host;
pub mod memcached;
pub mod priority;
pub mod proxy_protocol;
pub mod quality;
pub mod range;
pub mod response;
pub mod role;
pub mod scgi;
mod span;
pub mod status;
pub mod tls;
pub mod trace_context;
pub mod uri;
pub mod uwsgi;

pub use connection_options::ConnectionOptions;
pub use credentials::Credentials;
pub use error::RequestError;
pub use head::{
    BodyFraming, Field, HeadParser, HeadRules, HeadStage, Method, Progress, RequestHead, TargetForm, TargetSpans,
    Version, parse_request,
};
pub use header::HeaderId;
pub use host::HostSpan;
pub use proxy_protocol::ProxyHeader;
pub use span::Span;
pub use status::Status;
