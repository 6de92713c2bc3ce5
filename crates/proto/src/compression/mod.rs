//! The common parts of HPACK (RFC 7541) and QPACK (RFC 9204), which compress the fields of HTTP/2 and HTTP/3.
//!
//! They are strings and integers, the limits of a block, the tables, and the rules for names.

pub(crate) mod decoder_table;
pub(crate) mod encoder_table;
mod field;
pub(crate) mod huffman;
pub(crate) mod integer;
pub(crate) mod limits;
pub(crate) mod names;
pub(crate) mod string;

pub use field::{DecodedField, FieldSink, Indexing, Pseudo};
pub(crate) use field::{DiscardSink, FieldObserver};
pub use limits::{BlockLimits, DecodeError};

/// The size of a field beside its name and its value, in bytes: RFC 7541 section 4.1, RFC 9204 section 3.2.1.
pub const FIELD_OVERHEAD: usize = 32;
