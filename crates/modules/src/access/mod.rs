//! Who may ask.

pub mod basic;
pub mod rules;
pub mod subrequest;
