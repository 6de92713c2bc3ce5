//! Modules that check whether a client may access a resource.

pub mod basic;
pub mod rules;
pub mod subrequest;
