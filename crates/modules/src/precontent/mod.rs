//! Modules that run just before the content is made.

pub mod internal_redirect;
pub mod mirror;
pub mod try_files;
