//! Connections of HTTP/3 to upstream servers, each with many exchanges at a time.
//!
//! They work as connections of [HTTP/2](crate::http2) do, and exchanges see the same. QUIC carries the bytes: each connection has a UDP
//! socket for itself, and a task that serves it.
//!
//! | file | has |
//! |---|---|
//! | `socket.rs` | the socket: datagrams in and out |
//! | `memory.rs` | the bound for what all connections may have to keep of responses |
//! | `connection.rs` | state that the task shares with the owners of streams |
//! | `receive.rs` | bytes of streams, and what the machine makes of them |
//! | `stream.rs` | an exchange, as a byte stream of records |
//! | `task.rs` | the task: datagrams, time, and the end |
//! | `handle.rs` | the handle that the pool holds |

mod connection;
mod handle;
pub mod memory;
mod receive;
pub mod socket;
mod stream;
mod task;
#[cfg(test)]
mod tests;

pub use handle::{EstablishedQuic, Http3Connection};
pub use stream::Http3Stream;
