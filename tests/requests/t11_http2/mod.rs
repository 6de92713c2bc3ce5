//! HTTP/2 towards clients (RFC 9113), frame by frame.
//!
//! What nginx 1.22 does rightly was checked with it; what only later versions do, or what freerun does in another way,
//! says so.

mod blocks;
mod bodies;
mod heads;
mod responses;
#[path = "../../suite/t11_http2/servers.rs"]
mod servers;
mod variables;
mod windows;

use servers::{connect, content, plain, secure};
