//! Which server and location a request gets, and what answers it there.

pub mod content_directives;
pub mod error_pages;
pub mod errors;
pub mod locations;
pub mod returns;
pub mod servers;
pub mod try_files;
