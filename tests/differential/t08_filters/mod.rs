//! What is made of a response on its way: compression, includes, substitutions.

pub mod additions;
pub mod charsets;
pub mod composition;
pub mod gzip;
pub mod modules;
pub mod packed_files;
pub mod ssi;
pub mod substitutions;
