//! Modules that check whether a client may access a resource.

pub mod basic;
mod checks;
pub mod jwt;
pub mod require;
pub mod rules;
pub mod subrequest;
mod turns;
