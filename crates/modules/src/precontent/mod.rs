//! Just before content is made.

pub mod try_files;
