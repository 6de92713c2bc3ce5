//! The contents of a request and of its response, as values: leaf types, which do not depend on how they are
//! transferred.

pub mod body;
pub mod field_block;
pub mod fields;
pub mod head;
pub mod request_target;
pub mod response_state;
pub mod scratch;

use bytes::Bytes;

/// A field of the head of a response: name and value.
pub type Field = (Bytes, Bytes);
