//! HPACK (RFC 7541): how HTTP/2 compresses header fields, for either side of a connection.
//!
//! A connection has a [`Decoder`] for what it receives and an [`Encoder`] for what it sends. Both keep a table of fields
//! that earlier blocks have put there. So every block has to be decoded, and blocks have to be sent in the order in
//! which they were encoded, whatever becomes of their streams. The parts that QPACK (RFC 9204) has in common with HPACK
//! are in [`crate::compression`].

mod decoder;
mod encoder;
mod statics;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::Encoder;

pub use crate::compression::{BlockLimits, DecodeError, DecodedField, FIELD_OVERHEAD, FieldSink, Indexing, Pseudo};

/// The size of a connection's tables before anything else was agreed on: the initial value of
/// SETTINGS_HEADER_TABLE_SIZE (RFC 9113 section 6.5.2).
pub const INITIAL_TABLE_SIZE: u32 = 4096;
