//! HTTP/1.1: heads and bodies of requests, fields of responses.

pub mod bytes;
pub mod core_settings;
pub mod error_words;
pub mod framing;
pub mod headers;
pub mod limits;
pub mod uris;
