//! HTTP/2 (RFC 9113) without sockets: one side of a connection, as a machine that takes received bytes and tells what has
//! happened, and that brings what is sent into frames.
//!
//! Both sides use it. [`Connection`] keeps the streams, their windows and their order; its owner keeps the requests. What a
//! peer may cost is in [`flood`]; header compression is [`hpack`].

pub use crate::{flood, priority};
pub mod frame;
pub mod hpack;
pub mod settings;

mod blocks;
mod connection;
mod data;
mod early_answers;
mod idle_memory;
mod invariants;
mod lists;
mod out;
mod payload;
mod reader;
mod receive;
mod schedule;
mod send;
mod stream;
#[cfg(test)]
mod tests;
mod windows;

pub use crate::priority::Priority;
pub use crate::role::Role;
pub use connection::{Config, Connection, ConnectionError};
pub use frame::ErrorCode;
pub use idle_memory::MemoryPool;
pub use payload::Elsewhere;
pub use receive::Event;
pub use stream::{Slot, TrailerField};
