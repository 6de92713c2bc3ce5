//! HTTP/2 (RFC 9113), for either side of a connection.

pub mod hpack;
