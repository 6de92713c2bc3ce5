//! The contents of a request and of its response, as values: leaf types, which do not depend on how they are
//! transferred.

pub mod answered;
pub mod asked;
pub mod body;
pub mod field_block;
pub mod fields;
pub mod head;
pub mod persistence;
pub mod scratch;

use bytes::Bytes;

/// One field of the head of a response: name and value.
pub type Field = (Bytes, Bytes);
