//! QPACK (RFC 9204): how HTTP/3 compresses fields, for either side of a connection.
//!
//! A connection has a [`QpackDecoder`] for what it receives and a [`QpackEncoder`] for what it sends. Each side's encoder
//! has a dynamic table. *Instructions*, on a stream of their own, tell the other side's decoder what is put there.
//! Streams are not in order among each other, so a section of fields says how many entries it needs. A section that
//! comes before its entries is [blocked](DecodeOutcome::Blocked). Instructions of the decoder tell the encoder which
//! entries have arrived.
//!
//! The [`QpackEncoder`] refers only to entries that have arrived, unless its owner lets it block streams. The parts that
//! HPACK has in common with QPACK are in [`crate::compression`].

mod decoder;
mod encoder;
mod statics;
#[cfg(test)]
mod tests;

pub use decoder::{DecodeOutcome, EncoderStreamError, QpackDecoder};
pub use encoder::{DecoderStreamError, Instruction, QpackEncoder};

pub use crate::compression::{BlockLimits, DecodeError, DecodedField, FieldSink, Indexing, Pseudo};
