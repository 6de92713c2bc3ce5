//! HTTP/2 (RFC 9113) without sockets: one side of a connection, as a machine that takes received bytes and tells what has
//! happened, and that brings what is sent into frames.
//!
//! Both sides use it. [`Connection`] keeps the streams, their windows and their order; its owner keeps the requests. What a
//! peer may cost is in [`flood`]; header compression is [`hpack`].

pub mod flood;
pub mod frame;
pub mod hpack;
pub mod priority;
pub mod settings;

mod blocks;
mod connection;
mod data;
mod invariants;
mod lists;
mod out;
mod payload;
mod reader;
mod receive;
mod schedule;
mod send;
mod spare;
mod stream;
#[cfg(test)]
mod tests;
mod unended;
mod windows;

pub use connection::{Config, Connection, Failure, Role};
pub use frame::ErrorCode;
pub use payload::Elsewhere;
pub use priority::Priority;
pub use receive::Event;
pub use spare::Spare;
pub use stream::{Field, Slot};
