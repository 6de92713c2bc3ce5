//! Reading a request: its head, and its body.

pub mod body;
pub mod collect;
pub mod read;
pub mod words;
