//! Filters of responses.

pub mod not_modified;
pub mod range;
