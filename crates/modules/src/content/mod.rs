//! Handlers that make the response.

pub mod index;
pub mod static_files;
pub mod status;
