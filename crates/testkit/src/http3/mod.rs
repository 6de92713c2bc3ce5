//! HTTP/3 of the harness (RFC 9114): [`Http3`] is a client. Below it is [`QuicLink`], a QUIC connection over a socket of its
//! own. A test may also do there what no client should.
//!
//! The client uses the library that the server uses, and the product's machine for HTTP/3, in the role of the client. Other
//! people's clients are tried elsewhere. Every wait has a deadline.

mod client;
mod events;
mod forgery;
mod link;
mod message;
mod options;
mod streams;

pub use client::Http3;
pub use link::{ForgedDatagrams, LinkEnd, QuicLink, SeenPackets, wait_for_any};
pub use message::{H3End, H3Message, H3Response};
pub use options::Http3Options;
pub use quinn_proto::{ConnectionStats, Dir, StreamId};
