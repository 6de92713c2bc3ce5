//! HTTP/2 towards clients (RFC 9113), frame by frame.
//!
//! What nginx 1.22 does rightly was checked with it; what only later versions do, or what freerun does in another way,
//! says so.

mod connections;
mod floods;
mod limits;
mod reloads;
mod servers;

use servers::{connect, content, plain, secure};
