//! Rewriting.

pub mod returns;
