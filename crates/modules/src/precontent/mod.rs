//! Just before content is made.

pub mod mirror;
pub mod try_files;
