//! Sans-IO protocol code: HTTP/1 heads and bodies, URIs, dates, ranges, ClientHellos of TLS.
//!
//! Nothing here reads a clock, opens a socket or keeps global state: bytes go in, decisions come out, so that every
//! rule can be tested and fuzzed by itself. The rules are RFC 9110, 9112, 3986 and 8446 where nginx follows them, and
//! nginx's own where it does not.

pub mod ascii;
pub mod body;
pub mod chunked;
pub mod conditional;
pub mod credentials;
pub mod date;
pub mod encode;
pub mod error;
pub mod fastcgi;
pub mod h2;
pub mod head;
pub mod header;
pub mod host;
pub mod memcached;
pub mod persistence;
pub mod proxy_protocol;
pub mod range;
pub mod response;
pub mod scgi;
mod span;
pub mod status;
pub mod tls;
pub mod uri;
pub mod uwsgi;

pub use credentials::Credentials;
pub use error::Error;
pub use head::{
    BodyFraming, Field, HeadParser, HeadRules, HeadStage, Method, Progress, RequestHead, Target, TargetForm, Version,
    parse_request,
};
pub use header::HeaderId;
pub use host::HostSpan;
pub use persistence::ConnectionOptions;
pub use proxy_protocol::ProxyHeader;
pub use span::Span;
