//! Modules that run just before the content is made.

pub mod mirror;
pub mod try_files;
