//! What a client has sent and what it is answered, as values: leaf types, which know nothing of how they travel.

pub mod answered;
pub mod asked;
pub mod body;
pub mod fields;
pub mod head;
pub mod persistence;
pub mod scratch;
pub mod states;

use bytes::Bytes;

/// One field of the head of a response: name and value.
pub type Field = (Bytes, Bytes);
